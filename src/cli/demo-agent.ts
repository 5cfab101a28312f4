import { resolve } from "node:path";
import { runAcpDemoAgent } from "../runtime/demo/acp-demo-agent.ts";

/** `tertulia demo-agent`: the demo agent over stdio, for a client that speaks the Agent Client Protocol. Ends with its input. */
export async function demoAgent({ state }: { state?: string }): Promise<void> {
  await runAcpDemoAgent({
    stdin: process.stdin,
    stdout: process.stdout,
    exit: (code) => process.exit(code),
    ...(state === undefined ? {} : { stateFolder: resolve(state) }),
  });
}
