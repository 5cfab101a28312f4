import { when } from "../../util/when.ts";
import { type CommandAnswer, type CommandContext, onlySays } from "./command.ts";
import { sessionOf } from "./session-of.ts";

/** B7: lists the runtimes, or switches the conversation to another one. */
export async function runtime(context: CommandContext): Promise<CommandAnswer> {
  const { config, conversation, args } = context;
  const before = conversation?.runtime.before ?? null;
  if (args === "") return onlySays(await listed(context));
  if (args === "default") return to(context, null, context.runtimeHere.configured);
  if (args === "back") {
    if (before === null) return onlySays("Nothing was switched here yet.");
    if (config.runtimes[before] === undefined) return onlySays(unknown(before, " any more", await listed(context)));
    return to(context, before, before);
  }
  if (config.runtimes[args] === undefined) return onlySays(unknown(args, "", await listed(context)));
  return to(context, args, args);
}

function unknown(name: string, since: string, list: string): string {
  return `There is no runtime ${JSON.stringify(name)}${since}.\n${list}`;
}

function to(
  { runtimeHere: { name: from }, aboutOn }: CommandContext,
  chosen: string | null,
  name: string,
): CommandAnswer {
  if (name === from) return onlySays(`${name} runs this conversation already.`);
  return {
    effect: { kind: "runtime", to: chosen, from },
    reply: { code: "runtime_set", args: { from, to: name, ...aboutOn(name) } },
  };
}

async function listed(context: CommandContext): Promise<string> {
  const { config, conversation, reader, runtimeHere } = context;
  const session = await sessionOf(context);
  const states = session === null ? [] : await reader.runtimeStates(session.id);
  const lines = Object.keys(config.runtimes).map((name) => {
    const state = states.find((known) => known.runtime === name);
    const used = state?.lastUsedAt == null ? "" : `, last used ${when(state.lastUsedAt, config.timezone)}`;
    const marks = [
      ...(name === runtimeHere.name ? ["runs this conversation"] : []),
      ...(name === runtimeHere.configured ? ["the configured one"] : []),
      ...(name === conversation?.runtime.before ? ["the one before: /runtime back"] : []),
    ];
    const told = state === undefined ? "" : `  ${state.status}${used}`;
    return `  ${name}${marks.length === 0 ? "" : ` (${marks.join("; ")})`}${told}`;
  });
  return ["Runtimes:", ...lines, "/runtime with a name switches; what was said here goes along."].join("\n");
}
