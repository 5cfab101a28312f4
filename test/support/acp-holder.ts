/** Opens a session of the hostile agent that is deaf, in a process that can be killed: `node test/support/acp-holder.ts HOME MARK [exit]`. */
import { fileURLToPath } from "node:url";
import { inheritedEnvironment } from "../../src/config/config.ts";
import { createAcpRuntime } from "../../src/runtime/acp/acp-runtime.ts";
import { acpAgent } from "../../src/runtime/acp/presets.ts";
import { systemClock } from "../../src/util/clock.ts";

const [, , home = "", mark = "", end] = process.argv;
const script = fileURLToPath(new URL("hostile-agent.ts", import.meta.url));
const runtime = createAcpRuntime({
  name: "acp",
  agent: acpAgent({ command: process.execPath, args: [script, "deaf", "child"] }),
  env: { TERTULIA_TEST_RUN: mark },
  inherited: inheritedEnvironment(),
  home,
  clock: systemClock,
});
await runtime.open({
  sessionId: "s-contract",
  sessionKey: "agent:demo:console",
  stablePart: "",
  primer: { total: 0, lines: [] },
  signal: new AbortController().signal,
});
if (end === "exit") process.exit(0);
process.stdout.write("open\n");
