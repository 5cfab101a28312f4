/** The demo agent as a process of its own: `node test/support/acp-demo-agent.ts [state folder]`. */
import process from "node:process";
import { runAcpDemoAgent } from "../../src/runtime/demo/acp-demo-agent.ts";

const stateFolder = process.argv[2];
await runAcpDemoAgent({
  stdin: process.stdin,
  stdout: process.stdout,
  exit: (code) => process.exit(code),
  ...(stateFolder === undefined ? {} : { stateFolder }),
});
