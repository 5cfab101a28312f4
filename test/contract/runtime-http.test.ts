import { expect } from "vitest";
import { createHttpRuntime } from "../../src/runtime/http/http-runtime.ts";
import { FAKE_MODEL, obeyWords, startFakeModel } from "../support/fake-model.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { runtimeContract } from "./runtime.contract.ts";

runtimeContract(
  "http",
  async () => {
    const clock = createManualClock();
    const model = await startFakeModel(obeyWords);
    return {
      runtime: createHttpRuntime({
        name: "http",
        baseUrl: model.url,
        model: FAKE_MODEL,
        idleTimeoutMs: 60_000,
        clock,
        chance: () => 0.5,
      }),
      async dispose() {
        expect(clock.pending).toBe(0);
        await model.close();
      },
    };
  },
  { die: "no" },
);
