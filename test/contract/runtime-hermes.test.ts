import { expect } from "vitest";
import { createHermesRuntime } from "../../src/runtime/hermes/hermes-runtime.ts";
import { HERMES_KEY, startFakeHermes } from "../support/fake-hermes.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { runtimeContract } from "./runtime.contract.ts";

for (const generation of ["sessions", "any-id", "own-ids"] as const) {
  runtimeContract(
    `hermes (${generation})`,
    async () => {
      const clock = createManualClock();
      const hermes = await startFakeHermes({ generation });
      return {
        runtime: createHermesRuntime({
          name: "hermes",
          baseUrl: hermes.url,
          key: HERMES_KEY,
          idleTimeoutMs: 60_000,
          clock,
          chance: () => 0.5,
        }),
        async dispose() {
          expect(clock.pending).toBe(0);
          await hermes.close();
        },
      };
    },
    { die: "no" },
  );
}
