import { randomUUID } from "node:crypto";
import { afterAll, expect } from "vitest";
import { inheritedEnvironment } from "../../src/config/config.ts";
import { createAcpRuntime } from "../../src/runtime/acp/acp-runtime.ts";
import { ACP_PRESETS } from "../../src/runtime/acp/presets.ts";
import { systemClock } from "../../src/util/clock.ts";
import { processesWith } from "../support/agent-processes.ts";
import { temporaryFolder } from "../support/store.ts";
import { runtimeContract } from "./runtime.contract.ts";

const mark = randomUUID();

runtimeContract("acp", async () => {
  const home = temporaryFolder();
  return {
    runtime: createAcpRuntime({
      name: "acp",
      agent: ACP_PRESETS.demo,
      env: { TERTULIA_TEST_RUN: mark },
      inherited: inheritedEnvironment(),
      home: home.path,
      clock: systemClock,
      limits: { quietMs: 50 },
    }),
    async dispose() {
      home.remove();
      expect(processesWith(`TERTULIA_TEST_RUN=${mark}`), "processes left (B8)").toEqual([]);
    },
  };
});

afterAll(() => expect(processesWith(`TERTULIA_TEST_RUN=${mark}`)).toEqual([]));
