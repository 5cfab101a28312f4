import type { Notice } from "../../message/notice.ts";
import type { CommandEvent } from "../../store/store.ts";
import { when } from "../../util/when.ts";
import { type Command, type CommandContext, textNotice } from "./command.ts";
import { sessionOf } from "./session-of.ts";

type Answer = { effect: CommandEvent["effect"]; reply: Notice };

/** B7: what runs this conversation. Whether the speaker may switch it is decided in `admit`. */
export const runtime: Command = {
  name: "runtime",
  aliases: [],
  summary: "/runtime [name|back|default]  what runs this conversation; with a name, that runs it from now on",
  async run(context) {
    const { config, conversation, args } = context;
    const before = conversation?.runtime.before ?? null;
    if (args === "") return nothing(await listed(context));
    if (args === "default") return to(context, null, context.runtimeHere.configured);
    if (args === "back") {
      if (before === null) return nothing("Nothing was switched here yet.");
      if (config.runtimes[before] === undefined) return nothing(unknown(before, " any more", await listed(context)));
      return to(context, before, before);
    }
    if (config.runtimes[args] === undefined) return nothing(unknown(args, "", await listed(context)));
    return to(context, args, args);
  },
};

function unknown(name: string, since: string, list: string): string {
  return `There is no runtime ${JSON.stringify(name)}${since}.\n${list}`;
}

function nothing(text: string): Answer {
  return { effect: { kind: "none" }, reply: textNotice(text) };
}

function to({ runtimeHere: { name: from }, aboutOn }: CommandContext, chosen: string | null, name: string): Answer {
  if (name === from) return nothing(`${name} runs this conversation already.`);
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
