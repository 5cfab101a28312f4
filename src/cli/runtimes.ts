import type { Command } from "commander";
import { TertuliaError } from "../errors.ts";
import { judged } from "../gateway/judge.ts";
import { probeRuntimes, type RuntimeReport } from "../gateway/runtimes.ts";
import { systemClock } from "../util/clock.ts";
import { roomKey } from "./chat/door.ts";
import { connect } from "./client.ts";
import { clientConfig } from "./client-config.ts";
import { OF_AGENT, ROOM } from "./options.ts";
import { output, printable } from "./output.ts";
import { gatewayIfAny } from "./state.ts";
import { table } from "./table.ts";

interface RuntimesFlags {
  readonly home?: string;
  readonly config?: string;
  readonly agent?: string;
  readonly json?: boolean;
}

export function runtimesCommand(runtimes: Command): void {
  runtimes.addHelpText("after", "\nAlone it is `tertulia runtimes list`, and takes its options.");
  runtimes
    .command("list", { isDefault: true })
    .description("ask each runtime whether it can run, what it can do, and what is missing")
    .option("--json", "print the list as JSON")
    .addHelpText("after", "\nExit codes: 0 every agent has what runs it; 1 one has not.")
    .action((_options, command) => runtimesList(command.optsWithGlobals()));
  runtimes
    .command("use")
    .description("let another runtime run a conversation, as /runtime does there")
    .argument("<conversation>", ROOM)
    .option("--agent <name>", OF_AGENT)
    .argument("<runtime>", "its name; back: the one before; default: the configured one")
    .option("--json", "print what was done as JSON")
    .action((name, runtime, _options, command) => runtimesUse(name, runtime, command.optsWithGlobals()));
}

/** `tertulia runtimes`: asks each whether it can run, those of the running gateway where there is one. Exit code 1 when one cannot that an agent needs. */
async function runtimesList({ json, ...flags }: RuntimesFlags): Promise<void> {
  const config = await clientConfig(flags);
  const client = await gatewayIfAny(config);
  const running = client === null ? null : (await client.get<{ runtimes: RuntimeReport[] }>("/api/runtimes")).runtimes;
  const runtimes = running ?? (await probeRuntimes(judged({ flags }).config, { clock: systemClock }));
  output(json ? JSON.stringify({ runtimes }) : listed(runtimes));
  if (!json && running !== null) output("They are as the running gateway has them.");
  if (runtimes.some(({ ok, agents }) => !ok && agents.length > 0)) process.exitCode = 1;
}

function listed(runtimes: readonly RuntimeReport[]): string {
  const rows = runtimes.map(({ name, kind, ok, version, abilities, agents, detail, missing }) => [
    name,
    kind,
    ok ? "ok" : "fail",
    version ?? "–",
    abilities.length === 0 ? "–" : abilities.join(", "),
    agents.length === 0 ? "–" : agents.join(", "),
    printable(missing === undefined ? detail : `${detail} ${missing}`),
  ]);
  return table([["RUNTIME", "KIND", "STATE", "VERSION", "ABILITIES", "AGENTS", "DETAIL"], ...rows]);
}

/** `tertulia runtimes use CONVERSATION NAME`: as `/runtime` there. */
async function runtimesUse(name: string, runtime: string, { json, ...flags }: RuntimesFlags): Promise<void> {
  const config = await clientConfig(flags);
  const client = await connect(config);
  const path = `/api/conversations/${encodeURIComponent(roomKey(config, name, flags.agent))}/runtime`;
  const done = await client.post<{ conversation: string; runtime: string; reply: string | null }>(path, { runtime });
  if (json) output(JSON.stringify(done));
  else if (done.reply === null) throw new TertuliaError("internal", "The gateway gave no answer.");
  else output(printable(done.reply));
}
