import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { type Config, loadConfig, originOf, rulesFor } from "../config/config.ts";
import { bindingFault, bindingState } from "../conversation/binding.ts";
import { nameOf } from "../conversation/door.ts";
import { type Place, placeOf } from "../conversation/place.ts";
import { describePolicy, type ResetPolicy } from "../conversation/reset-policy.ts";
import { type KeyRule, parseLocalDoorChatId, parseSessionKey, sessionKeyFor } from "../conversation/session-key.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { findRoom } from "../intake/local-doors.ts";
import { describeSource, isLocalDoor, type Source } from "../message/source.ts";
import { sourceFromJson, sourceToJson } from "../message/source-json.ts";
import type { AdmitRules } from "../store/events.ts";
import type { ConversationReader } from "../store/readers.ts";
import type { BindingRow, ConversationRow, SessionRow } from "../store/rows.ts";
import { when } from "../util/when.ts";
import type { Client } from "./client.ts";
import { ROOM } from "./options.ts";
import { output } from "./output.ts";
import { orNull, readState } from "./state.ts";
import { table } from "./table.ts";

interface ExplainFlags {
  readonly home?: string;
  readonly config?: string;
  readonly source?: string;
  readonly agent?: string;
  readonly person?: string;
  readonly json?: boolean;
}

export function explainCommand(command: Command): void {
  command
    .argument("[room]", ROOM)
    .option("--source <file>", "in its place a JSON file with the source")
    .option("--agent <name>", "the agent it is for (default the configured one)")
    .option("--person <id>", "as if its author were this person")
    .option("--json", "print the explanation as JSON")
    .addHelpText("after", '\nA source: {"platform":"telegram","chat_id":"-100","chat_type":"group","user_id":"42"}')
    .action((room) => explain(room, command.optsWithGlobals()));
}

/** K18: `tertulia explain ROOM`, or `--source file.json`, says what would become of a message from there, and why. Nothing is written. */
async function explain(room: string | undefined, flags: ExplainFlags): Promise<void> {
  const config = loadConfig({ flags });
  const source = flags.source === undefined ? sourceOfRoom(config, room, flags.agent) : readSource(flags.source);
  const explanation = await explanationOf(config, source, flags);
  output(flags.json ? JSON.stringify(explanation) : described(config, source, explanation));
}

/** Of words that are said there. */
function sourceOfRoom(config: Config, room: string | undefined, agent: string | undefined): Source {
  if (room === undefined)
    throw new TertuliaError("usage", "Required option '--source <file>' not specified.", {
      remedy: `Name a room, or give --source FILE with a source, such as ${EXAMPLE}`,
    });
  const { ref } = findRoom(config, { room, agent });
  if (ref.kind === "source") return ref.source;
  const parts = parseSessionKey(ref.key);
  if (parts.form !== "chat")
    throw new TertuliaError("source_invalid", `${ref.key} is at no door: nothing comes from there.`);
  const { platform, scope, chatId, chatType, threadId, userId } = parts;
  const more = { ...(scope === undefined ? {} : { scopeId: scope }), ...(threadId === undefined ? {} : { threadId }) };
  const author = userId === undefined ? {} : { userId };
  return { platform, account: scope ?? platform, chatId, chatType, ...more, ...author, isBot: false };
}

const EXAMPLE = '{"platform":"telegram","chat_id":"-100","chat_type":"group","user_id":"42"}';

function readSource(path: string): Source {
  const json = readJson(path);
  try {
    return sourceFromJson(json);
  } catch (cause) {
    const { code, message } = asTertuliaError(cause);
    if (code !== "source_invalid") throw cause;
    throw new TertuliaError(code, message, { cause, remedy: `Correct it in ${path}. A source: ${EXAMPLE}` });
  }
}

function readJson(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new TertuliaError("usage", `${path} cannot be read (${code}).`, {
      cause,
      remedy: `Give a file that holds a source, such as ${EXAMPLE}`,
    });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new TertuliaError("source_invalid", `${path} is not JSON (${(cause as Error).message}).`, {
      cause,
      remedy: `Write one JSON object, such as ${EXAMPLE}`,
    });
  }
}

async function explanationOf(config: Config, source: Source, flags: ExplainFlags) {
  const agent = flags.agent ?? config.defaultAgent;
  const personId = flags.person ?? ownPerson(source);
  const who = personId === undefined ? {} : { personId };
  // Asked twice: the key depends on the rules for keys, the other rules on the key.
  const { keys } = rulesFor(config, { agent, source, ...who }).rules;
  const { key, rule } = sessionKeyFor({ agent, source, rules: keys, ...who });
  const { rules, from } = rulesFor(config, { agent, source, key, ...who });
  const found = await readState(config, {
    gateway: (client) => conversationByGateway(client, key),
    file: (reader) => conversationInFile(reader, key),
  });
  const place = placeOf({ agent, source });
  return {
    source: sourceToJson(source),
    agent,
    key,
    rule,
    why: RULES[rule],
    conversation: found?.conversation ?? null,
    speaksIn: speaksIn(found, rules),
    audience: audienceOf(source, place, found?.conversation ?? null, personId),
    place,
    settings: settingsOf(config, rules, { from, override: found?.conversation.resetOverride ?? null }),
  };
}

type Explanation = Awaited<ReturnType<typeof explanationOf>>;

/** At an own door the chat names its person (K19). */
function ownPerson({ platform, chatId }: Source): string | undefined {
  return isLocalDoor(platform) ? parseLocalDoorChatId(chatId ?? "")?.personId : undefined;
}

const RULES: Readonly<Record<KeyRule, string>> = {
  K1: "a direct chat is one conversation",
  K2: "a thread of a direct chat is a conversation of its own",
  K3: "a direct chat without a chat id belongs to its user",
  K4: "a direct chat with only a thread id is that thread",
  K6: "in a group or channel everybody has a conversation of their own",
  K7: "the group or channel is one conversation for all (session.group_sessions_per_user is false)",
  K8: "the platform does not say who spoke: the group or channel is one conversation",
  K9: "a thread is one conversation for all who write there",
  K10: "in a thread everybody has a conversation of their own (session.thread_sessions_per_user is true)",
  K11: "a Slack channel, told apart by its workspace; everybody has a conversation of their own",
  K12: "a known person has one conversation at every door (session.dm_scope is person)",
  K13: "threads are joined to their chat (session.thread_scope is chat)",
  K14: "a room of this platform is one conversation for all",
  K19: "a door of one's own: the terminal, the page or the HTTP API",
  K20: "this agent has several accounts there: the account tells their chats apart",
};

// ---- what is there already

interface Found {
  readonly conversation: ConversationRow;
  /** Live before pinned, each with its session as it stands. */
  readonly bindings: readonly {
    readonly binding: BindingRow;
    readonly session: SessionRow | null;
    /** Of a room, as far as it is known here: a running gateway drops a binding with the first message of somebody else. */
    readonly othersRead: boolean;
  }[];
}

async function conversationByGateway(client: Client, key: string): Promise<Found | null> {
  const path = `/api/conversations/${encodeURIComponent(key)}`;
  const found = await orNull(
    client.get<{ conversation: ConversationRow; bindings: BindingRow[] }>(path),
    "conversation_unknown",
  );
  if (found === null) return null;
  const bindings = [];
  for (const binding of found.bindings) {
    const path = `/api/sessions/${encodeURIComponent(binding.sessionId)}`;
    const answer = await orNull(client.get<{ session: SessionRow }>(path), "session_unknown");
    bindings.push({ binding, session: answer?.session ?? null, othersRead: false });
  }
  return { conversation: found.conversation, bindings };
}

async function conversationInFile(reader: ConversationReader, key: string): Promise<Found | null> {
  const conversation = await reader.conversation(key);
  if (conversation === null) return null;
  const bindings = [];
  for (const binding of await reader.bindings({ conversationId: conversation.id })) {
    const session = await reader.session(binding.sessionId);
    const { personId, placeId } = conversation;
    const isOthers = { placeId, personId: session?.ownerPerson ?? null };
    bindings.push({ binding, session, othersRead: personId === null && (await reader.hasOtherReaders(isOthers)) });
  }
  return { conversation, bindings };
}

/** Where the next message is answered: a live binding, a pinned one, the configured session, the conversation's own (H4). */
type SpeaksIn =
  | { readonly by: "live" | "pinned"; readonly sessionId: string; readonly expiresAt: number | null }
  | { readonly by: "default"; readonly sessionId: string }
  /** Null: a session is opened by the next message. */
  | { readonly by: "own"; readonly sessionId: string | null };

function speaksIn(found: Found | null, rules: AdmitRules): SpeaksIn {
  const now = Date.now();
  for (const { binding, session, othersRead } of found?.bindings ?? []) {
    const holds =
      bindingState(binding, now) === "valid" &&
      bindingFault(binding, { ...found!.conversation, isShared: rules.share === true, othersRead }, session) === null;
    if (holds) return { by: binding.kind, sessionId: binding.sessionId, expiresAt: binding.expiresAt };
  }
  if (rules.defaultSession !== undefined) return { by: "default", sessionId: rules.defaultSession };
  return { by: "own", sessionId: found?.conversation.currentSession ?? null };
}

/** Who reads the reply: one person, or everybody in the place. */
function audienceOf(
  source: Source,
  place: Place,
  conversation: ConversationRow | null,
  personId: string | undefined,
): { readonly person: string } | { readonly place: string } {
  const person = conversation === null ? (source.chatType === "dm" ? personId : undefined) : conversation.personId;
  if (person) return { person };
  const thread = place.threadId === "" ? "" : `, thread ${place.threadId}`;
  return { place: `${nameOf(place.platform)} ${source.chatType} ${place.chatId}${thread}` };
}

// ---- settings, and where each comes from

interface Setting {
  readonly value: string | number | boolean | ResetPolicy;
  /** The key path that decided it, or the rule that left no choice. */
  readonly from: string;
  readonly origin: string;
}

function settingsOf(
  config: Config,
  rules: AdmitRules,
  { from, override }: { from: Readonly<Record<string, string>>; override: ResetPolicy | null },
): Record<string, Setting> {
  const by = (value: Setting["value"], path: string): Setting => ({
    value,
    from: path,
    origin: originOf(config, path),
  });
  const { keys } = rules;
  return {
    reset:
      override === null ? by(rules.reset, from.reset ?? "") : { value: override, from: "/autoreset", origin: "chat" },
    busy_mode: by(rules.busyMode, from.busyMode ?? ""),
    debounce_ms: by(rules.debounceMs, from.debounceMs ?? ""),
    max_waiting_turns: by(rules.maxWaitingTurns, from.maxWaitingTurns ?? ""),
    max_messages_per_turn: by(rules.maxMessagesPerTurn, from.maxMessagesPerTurn ?? ""),
    group_sessions_per_user: by(keys.groupSessionsPerUser, "session.group_sessions_per_user"),
    thread_sessions_per_user: by(keys.threadSessionsPerUser, "session.thread_sessions_per_user"),
    thread_scope: by(keys.threadScope, "session.thread_scope"),
    dm_scope: by(keys.dmScope, "session.dm_scope"),
    ...(rules.defaultSession === undefined
      ? {}
      : { default_session: by(rules.defaultSession, from.defaultSession ?? "") }),
  };
}

// ---- for a person

function described(config: Config, source: Source, explanation: Explanation): string {
  const { agent, key, rule, why, conversation, audience, settings } = explanation;
  const rows = Object.entries(settings).map(([name, { value, from, origin }]) => [
    name,
    `${from}${from.includes(".") ? ` (${origin})` : ""}`,
    typeof value === "object" ? describePolicy(value) : String(value),
  ]);
  return [
    table([
      ["source", describeSource(source)],
      ["agent", agent],
      ["key", key],
      ["rule", `${rule}: ${why}`],
      [
        "conversation",
        conversation === null
          ? "new: the first message opens it"
          : `known, last used ${when(conversation.at, config.timezone)}`,
      ],
      ["binding", describeSpeaksIn(config, explanation.speaksIn)],
      ["audience", "person" in audience ? `the person ${audience.person}` : `everybody in ${audience.place}`],
    ]),
    "",
    table([["SETTING", "FROM", "VALUE"], ...rows]),
  ].join("\n");
}

function describeSpeaksIn(config: Config, speaks: SpeaksIn): string {
  switch (speaks.by) {
    case "live":
      return `live: speaks in session ${speaks.sessionId} until ${when(speaks.expiresAt, config.timezone)}`;
    case "pinned":
      return `pinned: speaks in session ${speaks.sessionId} until it is cleared`;
    case "default":
      return `none: speaks in the default session ${speaks.sessionId}, if that can be used`;
    case "own":
      return speaks.sessionId === null
        ? "none: speaks in a session of its own"
        : `none: speaks in its own session ${speaks.sessionId}`;
  }
}
