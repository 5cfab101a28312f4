import type { Command } from "commander";
import type { Config } from "../config/config.ts";
import { TertuliaError } from "../errors.ts";
import type { BindingRow } from "../store/rows.ts";
import { when } from "../util/when.ts";
import { agentOf, roomName } from "./chat/door.ts";
import { connect } from "./client.ts";
import { clientConfig } from "./client-config.ts";
import { ROOM, SESSION_FROM, SHARE, SPEAKING_AGENT } from "./options.ts";
import { output, printable } from "./output.ts";

interface SendFlags {
  readonly home?: string;
  readonly config?: string;
  readonly agent?: string;
  readonly share?: boolean;
  /** False: `--no-session`. */
  readonly session?: string | false;
  readonly json?: boolean;
}

interface Sent {
  readonly messageId: number;
  readonly key: string;
  readonly binding: BindingRow | null;
}

export function sendCommand(command: Command): void {
  command
    .usage('[options] [room] "text"')
    .argument(
      "<text...>",
      `the room (${ROOM}), then the text in quotes; without a room it is said in the agent's home_room, else in the only configured one`,
    )
    .option("--session <id>", `the session that speaks, and that answers there from now on ${SESSION_FROM}`)
    .option("--no-session", "speak for no session: nothing is bound")
    .option("--share", SHARE)
    .option("--agent <name>", SPEAKING_AGENT)
    .option("--json", "print what was done as JSON")
    .addHelpText("after", '\nExample: tertulia send kitchen "Dinner is ready." --session 20261130_140501_9f3c2ab01d77')
    .action((words) => send(words, command.optsWithGlobals()));
}

/** H1, H5: `tertulia send [room] "text"` speaks in a room as its agent. Without a session it says so, or is refused. */
async function send(words: readonly string[], flags: SendFlags): Promise<void> {
  const config = await clientConfig(flags);
  const { room, text } = roomAndText(config, words, flags.agent);
  const session = sessionFor(config, flags.session);
  const client = await connect(config);
  const sent = await client.post<Sent>("/api/send", {
    room,
    text,
    session,
    share: flags.share ?? false,
    ...(flags.agent === undefined ? {} : { agent: flags.agent }),
  });
  output(flags.json ? JSON.stringify(sent) : describeSent(config, sent, session));
}

function roomAndText(
  config: Config,
  words: readonly string[],
  agent: string | undefined,
): { room: string; text: string } {
  const [first = "", second, ...more] = words;
  if (more.length > 0) {
    throw new TertuliaError("usage", `There are ${words.length} words where a room and a text are expected.`, {
      remedy: 'Put the text in quotes: tertulia send room "the text".',
    });
  }
  if (second !== undefined) return { room: first, text: second };
  const { homeRoom: home } = agentOf(config, agent);
  if (home !== undefined) return { room: home, text: first };
  const rooms = Object.keys(config.rooms);
  if (rooms[0] !== undefined && rooms.length === 1) return { room: rooms[0], text: first };
  throw new TertuliaError(
    "usage",
    rooms.length === 0
      ? "The room is missing: the configuration names none."
      : `The room is missing: the configuration names ${rooms.join(", ")}.`,
    { remedy: 'tertulia send ROOM "text", where ROOM is a room of the configuration or a conversation key.' },
  );
}

/** H5: the session said, else the one of the environment. Null when it is said that there is none. */
export function sessionFor(config: Config, flag: string | false | undefined): string | null {
  if (flag === false) return null;
  const session = (flag ?? config.client.sessionId)?.trim();
  if (session) return session;
  // Hermes' own variable, set where its agent runs commands (H13).
  const hermes = config.client.hermesSessionId?.trim();
  if (hermes) return `hermes:${hermes}`;
  throw new TertuliaError("session_required", "It is not said which session speaks.");
}

function describeSent(config: Config, { messageId, key, binding }: Sent, session: string | null): string {
  const room = printable(roomName(config, key));
  const said = `Said in ${room} (message ${messageId}).`;
  if (binding === null) {
    return session === null
      ? `${said} Nothing is bound.`
      : `${said} This is the session's own door: nothing needs to be bound.`;
  }
  const until =
    binding.expiresAt === null ? "until it is cleared" : `until ${when(binding.expiresAt, config.timezone)}`;
  return `${said}\nThe room speaks in session ${binding.sessionId} ${until}.`;
}
