import { resolve } from "node:path";
import type { Command } from "commander";
import { runAcpDemoAgent } from "../runtime/demo/acp-demo-agent.ts";

export function demoAgentCommand(command: Command): void {
  command.option("--state <dir>", "keep its sessions there; without it they end with the process").action(demoAgent);
}

/** `tertulia demo-agent`: the demo agent over stdio, for a client that speaks the Agent Client Protocol. Ends with its input. */
async function demoAgent({ state }: { state?: string }): Promise<void> {
  await runAcpDemoAgent({
    stdin: process.stdin,
    stdout: process.stdout,
    exit: (code) => process.exit(code),
    ...(state === undefined ? {} : { stateFolder: resolve(state) }),
  });
}
