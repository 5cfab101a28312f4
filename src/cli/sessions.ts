import type { Command } from "commander";
import type { Config } from "../config/config.ts";
import { doorOf, nameOf } from "../conversation/door.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import type { HandleStatus } from "../runtime/runtime-pool.ts";
import type { ConversationRow, EntryRow, SessionRow } from "../store/rows.ts";
import { when } from "../util/when.ts";
import { roomKey } from "./chat/door.ts";
import { connect } from "./client.ts";
import { clientConfig } from "./client-config.ts";
import { OF_AGENT, ROOM } from "./options.ts";
import { output, printable } from "./output.ts";
import { orNull, readState } from "./state.ts";
import { oneLine, table } from "./table.ts";

interface SessionsFlags {
  readonly home?: string;
  readonly config?: string;
  readonly agent?: string;
  readonly limit: string;
  readonly json?: boolean;
}

/** With where its agent is in the gateway's pool; without a gateway every agent is cold. */
type Listed = SessionRow & { readonly state: string };

export function sessionsCommand(sessions: Command): void {
  sessions.addHelpText("after", "\nAlone it is `tertulia sessions list`, and takes its options.");
  sessions
    .command("list", { isDefault: true })
    .description("list the sessions, the most recently used first")
    .option("--limit <n>", "how many at most, 1 to 1000", "50")
    .option("--warm", "in their place the agents that are kept warm, with what they take")
    .option("--json", "print the list as JSON")
    .action((_options, command) => {
      const { warm, ...flags } = command.optsWithGlobals();
      return warm ? sessionsWarm(flags) : sessionsList(flags);
    });
  sessions
    .command("show")
    .description("print what was said in a session")
    .argument("<id>", `the session's id, as \`tertulia sessions list\` prints it; or for the current one ${ROOM}`)
    .option("--agent <name>", OF_AGENT)
    .option("--limit <n>", "how many of the last entries, 1 to 1000", "100")
    .option("--json", "print the session as JSON")
    .action((id, _options, command) => sessionsShow(id, command.optsWithGlobals()));
  sessions
    .command("reset")
    .description("end the session of a conversation and begin the next one, as /new does there")
    .argument("<conversation>", ROOM)
    .option("--agent <name>", OF_AGENT)
    .option("--json", "print what was done as JSON")
    .action((name, _options, command) => sessionsReset(name, command.optsWithGlobals()));
  sessions
    .command("park")
    .description("end the agent of a session; the next message opens it again")
    .argument("<id>", "the session's id")
    .option("--json", "print what was done as JSON")
    .action((id, _options, command) => sessionsEnd(id, { ...command.optsWithGlobals(), what: "park" }));
  sessions
    .command("restart")
    .description("end the agent of a session, and open it anew at once")
    .argument("<id>", "the session's id")
    .option("--json", "print what was done as JSON")
    .action((id, _options, command) => sessionsEnd(id, { ...command.optsWithGlobals(), what: "restart" }));
}

/** `tertulia sessions --warm`: the agents that are kept, with what they take. Without a gateway there are none. */
async function sessionsWarm({ json, ...flags }: Omit<SessionsFlags, "limit">): Promise<void> {
  const config = await clientConfig(flags);
  const pool = await readState<{ readonly handles: readonly HandleStatus[]; readonly room: number } | null>(config, {
    gateway: (client) => client.get("/api/pool"),
    file: async () => null,
  });
  const handles = pool?.handles ?? [];
  if (json) output(JSON.stringify({ handles }));
  else if (handles.length === 0) output(`No agent is warm${pool === null ? ": no gateway runs" : ""}.`);
  else {
    const rows = handles.map(({ sessionId, runtime, state, how, restarts, memoryMb, since }) => [
      sessionId,
      printable(runtime),
      state,
      how ?? "–",
      String(restarts),
      memoryMb === undefined || memoryMb === 0 ? "–" : `${memoryMb} MB`,
      when(since, config.timezone),
    ]);
    output(table([["SESSION", "RUNTIME", "STATE", "OPENED AS", "RESTARTS", "MEMORY", "SINCE"], ...rows]));
  }
}

/** `tertulia sessions park|restart ID`: ends its agent; a restart opens it anew at once. */
async function sessionsEnd(
  id: string,
  { what, json, ...flags }: Omit<SessionsFlags, "limit"> & { readonly what: "park" | "restart" },
): Promise<void> {
  const client = await connect(await clientConfig(flags));
  const path = `/api/sessions/${encodeURIComponent(id)}/${what}`;
  const done = await client.post<{ session: string; state: string; how?: string | null }>(path, {});
  if (json) output(JSON.stringify(done));
  else if (done.how != null) output(`The agent of session ${id} was opened anew (${done.how}).`);
  else if (done.state === "busy") output(`The agent of session ${id} is parked when its turn is over.`);
  else output(`The agent of session ${id} is parked; the next message opens it again.`);
}

/** `tertulia sessions list`: the most recently used first. */
async function sessionsList({ limit: wanted, json, ...flags }: SessionsFlags): Promise<void> {
  const limit = readLimit(wanted);
  const config = await clientConfig(flags);
  const sessions = await readState<readonly Listed[]>(config, {
    gateway: async (client) => (await client.get<{ sessions: Listed[] }>(`/api/sessions?limit=${limit}`)).sessions,
    file: async (reader) => (await reader.sessions({ limit })).map((row) => ({ ...row, state: "cold" })),
  });
  if (json) output(JSON.stringify({ sessions: sessions ?? [] }));
  else if (sessions === null)
    output(`There is no state in ${printable(config.home)} yet. \`tertulia start\` makes it.`);
  else if (sessions.length === 0) output("There are no sessions yet: nobody has said anything.");
  else output(listed(config, sessions, limit));
}

function listed(config: Config, sessions: readonly Listed[], limit: number): string {
  const rows = sessions.map((session) => [
    session.id,
    doorOf(session.homeKey),
    session.agent,
    String(session.entries),
    when(session.lastHumanAt ?? session.openedAt, config.timezone),
    stateOf(session),
    session.title ?? "–",
  ]);
  const more = sessions.length < limit ? "" : `\nThese are the last ${limit}; --limit shows more.`;
  return table([["SESSION", "DOOR", "AGENT", "ENTRIES", "LAST ACTIVITY", "STATE", "TITLE"], ...rows]) + more;
}

function stateOf({ suspended, endedAt, endReason, state }: Listed): string {
  if (endedAt !== null) return `ended (${endReason ?? "no reason"})`;
  return suspended === null ? state : `suspended (${suspended})`;
}

interface Shown {
  readonly session: SessionRow;
  /** The last ones, oldest first. */
  readonly messages: readonly EntryRow[];
}

/** `tertulia sessions show ID|ROOM`: the transcript with its marks. */
async function sessionsShow(named: string, { limit: wanted, json, ...flags }: SessionsFlags): Promise<void> {
  const limit = readLimit(wanted);
  const config = await clientConfig(flags);
  const shown = await readState<Shown | null>(config, {
    async gateway(client) {
      const path = (id: string) => `/api/sessions/${encodeURIComponent(id)}/messages?limit=${limit}`;
      const known = await orNull(client.get<Shown>(path(named)), "session_unknown");
      if (known !== null) return known;
      const key = roomOrNull(config, named, flags.agent);
      if (key === null) return null;
      const { conversation } = await client.get<{ conversation: ConversationRow }>(
        `/api/conversations/${encodeURIComponent(key)}`,
      );
      return conversation.currentSession === null ? null : client.get<Shown>(path(conversation.currentSession));
    },
    async file(reader) {
      const key = roomOrNull(config, named, flags.agent);
      const there = key === null ? null : await reader.conversation(key);
      const session = (await reader.session(named)) ?? (await reader.session(there?.currentSession ?? ""));
      if (session === null) return null;
      return { session, messages: await reader.transcript({ sessionId: session.id, limit }) };
    },
  });
  if (shown === null) throw new TertuliaError("session_unknown", `There is no session ${named}.`);
  output(json ? JSON.stringify(shown) : transcript(config, shown));
}

/** What is no room may be the id of a session. */
function roomOrNull(config: Config, name: string, agent: string | undefined): string | null {
  try {
    return roomKey(config, name, agent);
  } catch (cause) {
    if (asTertuliaError(cause).code === "conversation_unknown") return null;
    throw cause;
  }
}

/** `tertulia sessions reset ROOM`: as `/new` there, by the owner (A8). */
async function sessionsReset(name: string, { json, ...flags }: Omit<SessionsFlags, "limit">): Promise<void> {
  const config = await clientConfig(flags);
  const client = await connect(config);
  const path = `/api/conversations/${encodeURIComponent(roomKey(config, name, flags.agent))}/messages`;
  const done = await client.post<{ conversation: string; session: string; reply: string }>(path, { text: "/new" });
  output(json ? JSON.stringify(done) : printable(done.reply));
}

function transcript(config: Config, { session, messages }: Shown): string {
  const { timezone } = config;
  const ended =
    session.endedAt === null
      ? []
      : [["ended", `${when(session.endedAt, timezone)} (${session.endReason ?? "no reason"})`]];
  const head = table([
    ["session", session.id],
    ["door", `${doorOf(session.homeKey)} (${session.homeKey})`],
    ["agent", session.agent],
    ...(session.title === null ? [] : [["title", session.title]]),
    ["opened", `${when(session.openedAt, timezone)} (${session.openedBy})`],
    ...ended,
    ...(session.suspended === null ? [] : [["suspended", session.suspended]]),
    ...(session.parentId === null ? [] : [["follows", session.parentId]]),
    ["entries", entriesLine(session, messages.length)],
  ]);
  return [head, ...messages.map((entry) => entryText(entry, session.agent, timezone))].join("\n\n");
}

function entriesLine({ entries }: SessionRow, shown: number): string {
  return shown < entries ? `${entries}, the last ${shown} shown (--limit ${entries} shows all)` : String(entries);
}

/** Who and when, then the words, indented: no text can pass for a line of ours. */
function entryText(entry: EntryRow, agent: string, timezone: string): string {
  const who = entry.role === "user" ? (entry.author?.name ?? entry.author?.id ?? "user") : agent;
  const at = entry.at === null ? [] : [when(entry.at, timezone)];
  const door = entry.platform === null ? [] : [nameOf(entry.platform)];
  const head = [`#${entry.seq} ${oneLine(who)}`, ...at, ...door, ...marksOf(entry)].join("  ");
  const lines = printable(entry.text).split("\n");
  return [head, ...lines.map((line) => `  ${line}`.trimEnd())].join("\n");
}

/** Why an entry is not what it looks like: failed, interrupted, sent, undone, not delivered. */
function marksOf({ mark, delivery }: EntryRow): string[] {
  return [
    ...(mark === null ? [] : [`[${mark}]`]),
    ...(delivery === null || delivery === "delivered" ? [] : [`[not delivered: ${delivery}]`]),
  ];
}

function readLimit(text: string): number {
  const limit = Number(text);
  if (/^\d+$/.test(text) && limit >= 1 && limit <= 1_000) return limit;
  throw new TertuliaError("usage", `--limit ${text} is not allowed; allowed: a whole number from 1 to 1000.`, {
    remedy: "Correct the number, or leave --limit out.",
  });
}
