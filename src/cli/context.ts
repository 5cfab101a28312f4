import type { Command } from "commander";
import { type Config, loadConfig } from "../config/config.ts";
import { type NextContext, nextContextOf } from "../context/next-context.ts";
import { LOCAL_DOORS } from "../context/settings.ts";
import { doorOf } from "../conversation/door.ts";
import { TertuliaError } from "../errors.ts";
import type { ContextReader, ConversationReader } from "../store/readers.ts";
import { randomIds } from "../util/ids.ts";
import { roomKey } from "./chat/door.ts";
import { readToken } from "./client.ts";
import { clientConfig } from "./client-config.ts";
import { OF_AGENT, ROOM } from "./options.ts";
import { output, printable } from "./output.ts";
import { readState } from "./state.ts";
import { table } from "./table.ts";

interface ContextFlags {
  readonly home?: string;
  readonly config?: string;
  readonly agent?: string;
  readonly json?: boolean;
}

export function contextCommand(command: Command): void {
  command
    .argument("<conversation>", ROOM)
    .option("--agent <name>", OF_AGENT)
    .option("--json", "print the parts as JSON")
    .action((name) => context(name, command.optsWithGlobals()));
}

/** C7: `tertulia context CONVERSATION` prints what the next turn would be told: the stable part, and the facts of a turn that came now. */
async function context(name: string, { json, ...flags }: ContextFlags): Promise<void> {
  const config = await clientConfig(flags);
  const key = roomKey(config, name, flags.agent);
  const found = await readState(config, {
    gateway: (client) => client.get<NextContext>(`/api/conversations/${encodeURIComponent(key)}/context`),
    file: (reader) => contextInFile(loadConfig({ flags }), reader, key),
  });
  if (found === null) {
    throw new TertuliaError("conversation_unknown", `There is no conversation ${key}.`, {
      remedy: "Name a room of the configuration, or a conversation key; `tertulia sessions list --json` shows them.",
    });
  }
  output(json ? JSON.stringify(found) : printable(described(found)));
}

/** Without a gateway nobody knows of other doors than those that every gateway has. */
async function contextInFile(
  config: Config,
  reader: ContextReader & ConversationReader,
  key: string,
): Promise<NextContext | null> {
  const conversation = await reader.conversation(key);
  if (conversation === null) return null;
  const facts = { platforms: LOCAL_DOORS, secret: readToken(config.files.token) ?? "" };
  return nextContextOf(conversation, { config, facts, reader, now: Date.now(), nonce: randomIds.token() });
}

function described({ conversation, session, turn, stablePart, facts }: NextContext): string {
  const head = table([
    ["conversation", `${doorOf(conversation)} (${conversation})`],
    ["session", session ?? "a new one, which the next message opens"],
    ["turn", turn === null ? "one that came now" : `${turn}, which waits`],
  ]);
  return [head, titled("STABLE PART", stablePart), titled("FACTS", facts)].join("\n\n");
}

function titled(title: string, text: string): string {
  return `${title} (${text.length} characters)\n\n${text}`;
}
