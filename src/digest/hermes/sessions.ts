import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { HermesDb } from "./state-db.ts";
import { asTime, timeIn } from "./times.ts";

/** A session as state.db has it; a column that its schema has not is null. */
export interface HermesSession {
  readonly id: string;
  readonly source: string;
  readonly userId: string | null;
  readonly parentId: string | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly endReason: string | null;
  readonly title: string | null;
  readonly chatType: string | null;
  /** How it came from its parent; null where it has none. */
  readonly relation: Relation | null;
  readonly isArchived: boolean;
  readonly isHidden: boolean;
}

type Relation = "compaction" | "branch" | "reset" | "helper";

interface SessionRecord {
  id: unknown;
  source: unknown;
  user_id: unknown;
  parent_session_id: unknown;
  started_at: unknown;
  ended_at: unknown;
  end_reason: unknown;
  title: unknown;
  chat_type: unknown;
  session_key: unknown;
  model_config: unknown;
  archived: unknown;
  hidden: unknown;
}

const RESET_REASONS: readonly string[] = [
  "session_reset",
  "session_switch",
  "idle",
  "daily",
  "suspended",
  "resume_pending_expired",
  "new_session",
];
/** A parent's end and its child's start are written one after the other. */
const SLACK_MS = 5_000;

/** Every session, in the order of its id. Rows that name no session are left out. */
export function readSessions(db: HermesDb, now: number): readonly HermesSession[] {
  const column = (name: string): string => db.column("sessions", name, "NULL");
  const columns = [
    ...["id", "source", "user_id", "parent_session_id", "end_reason"].map(column),
    ...["started_at", "ended_at"].map((name) =>
      db.has("sessions", name) ? `${asTime(`sessions.${name}`)} AS ${name}` : `NULL AS ${name}`,
    ),
    ...["title", "chat_type", "session_key"].map(column),
    ...["archived", "hidden"].map((name) =>
      db.has("sessions", name) ? `sessions.${name} IS 1 AS ${name}` : `0 AS ${name}`,
    ),
    // Only what says how a session came to be; the rest of it may be long, or broken.
    db.has("sessions", "model_config")
      ? `CASE WHEN instr(model_config, '_from"') > 0 AND length(model_config) < 100000 THEN model_config END AS model_config`
      : "NULL AS model_config",
  ];
  const records = db.all<SessionRecord>(`SELECT ${columns.join(", ")} FROM sessions ORDER BY id`);
  const byId = new Map(
    records.flatMap((record) => (typeof record.id === "string" ? [[record.id, record] as const] : [])),
  );
  const routed = routedChatTypes(db);
  return [...byId].flatMap(([id, record]) => {
    const source = textIn(record.source);
    if (source === null) return [];
    const parentId = textIn(record.parent_session_id);
    return [
      {
        id,
        source,
        userId: textIn(record.user_id),
        parentId,
        startedAt: timeIn(record.started_at, now),
        endedAt: timeIn(record.ended_at, now),
        endReason: textIn(record.end_reason),
        title: textIn(record.title),
        chatType: textIn(record.chat_type) ?? typeInKey(textIn(record.session_key)) ?? routed.get(id) ?? null,
        relation: parentId === null ? null : relationOf(record, byId.get(parentId), now),
        isArchived: record.archived === 1,
        isHidden: record.hidden === 1,
      },
    ];
  });
}

function textIn(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function relationOf(child: SessionRecord, parent: SessionRecord | undefined, now: number): Relation {
  const marks = marksIn(child.model_config);
  // A mark that names another than the parent was inherited with the rest.
  const names = (mark: string): boolean => marks[mark] === child.parent_session_id;
  if (names("_delegate_from")) return "helper";
  if (names("_branched_from")) return "branch";
  if (names("_reset_from")) return "reset";
  if (parent === undefined) return "helper";
  const reason = textIn(parent.end_reason) ?? "";
  const startedAt = timeIn(child.started_at, now);
  const endedAt = timeIn(parent.ended_at, now);
  // A helper of a session that was compacted or branched later started before that.
  const isLater = startedAt === null || endedAt === null || startedAt >= endedAt - SLACK_MS;
  if (reason === "compression" && isLater) return "compaction";
  if (reason === "branched" && isLater) return "branch";
  const key = textIn(child.session_key);
  if (key !== null && key === textIn(parent.session_key) && RESET_REASONS.includes(reason)) return "reset";
  return "helper";
}

function marksIn(config: unknown): Readonly<Record<string, unknown>> {
  if (typeof config !== "string") return {};
  try {
    const parsed: unknown = JSON.parse(config);
    return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch (cause) {
    if (cause instanceof SyntaxError) return {};
    throw cause;
  }
}

/** The first four places of a key are fixed: `agent:<name>:<platform>:<type>`. */
function typeInKey(key: string | null): string | null {
  const [word, , , type] = key?.split(":") ?? [];
  return word === "agent" && type !== undefined && CHAT_TYPES.includes(type) ? type : null;
}

const CHAT_TYPES: readonly string[] = ["dm", "group", "channel", "thread", "forum"];

/** What the gateway's index says of sessions whose row does not: the table of newer versions, and the file of all. By session id. */
function routedChatTypes(db: HermesDb): ReadonlyMap<string, string> {
  const types = new Map<string, string>();
  const learn = (entry: unknown): void => {
    const { session_id, chat_type, origin } = (entry ?? {}) as Record<string, unknown>;
    const inOrigin = (origin as { chat_type?: unknown } | null | undefined)?.chat_type;
    const type = textIn(inOrigin) ?? textIn(chat_type);
    if (typeof session_id === "string" && type !== null) types.set(session_id, type);
  };
  for (const [key, entry] of Object.entries(parsedObject(indexFile(db.path)))) if (!key.startsWith("_")) learn(entry);
  if (db.hasTable("gateway_routing")) {
    for (const { entry_json } of db.all<{ entry_json: unknown }>("SELECT entry_json FROM gateway_routing"))
      learn(parsedObject(textIn(entry_json)));
  }
  return types;
}

function indexFile(statePath: string): string | null {
  try {
    return readFileSync(join(dirname(statePath), "sessions", "sessions.json"), "utf8");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EACCES") return null;
    throw cause;
  }
}

function parsedObject(text: string | null): Readonly<Record<string, unknown>> {
  return marksIn(text);
}

// ---- whose a session is, and whether it is a talk at all

export type SessionState =
  /** Of the owner: at the terminal, or a direct chat. */
  | "own"
  /** Others read along. */
  | "group"
  /** A direct chat of somebody else. */
  | "stranger"
  /** A helper's, or a tool's. */
  | "helper"
  /** A job of the clock. */
  | "job"
  /** A program at the API or a webhook. */
  | "program";

export interface Judged {
  readonly session: HermesSession;
  readonly standing: SessionState;
}

export interface Judgement {
  readonly judged: readonly Judged[];
  /** Direct chats that only count as such: nothing says what kind of chat they are. */
  readonly assumed: number;
  /** Platforms with direct chats of several people, of whom none was named as the owner; by the ids seen there. */
  readonly unclear: ReadonlyMap<string, readonly string[]>;
}

/** Where somebody sits at the machine itself. */
const TERMINALS: readonly string[] = ["cli", "tui", "acp", "local", "desktop"];
const HELPERS: readonly string[] = ["subagent", "tool", "batch"];
const PROGRAMS: readonly string[] = ["api_server", "webhook", "msgraph_webhook", "relay"];

/**
 * D9. `owners` are the owner's own ids, `platform:id`; a platform that is not among them is the owner's where all its direct chats are of
 * one person, and nobody's where they are of several.
 */
export function judge(sessions: readonly HermesSession[], owners: readonly string[]): Judgement {
  const people = new Map<string, Set<string>>();
  for (const session of sessions) {
    if (kindOf(session) !== "direct" || session.userId === null || isPutAway(session)) continue;
    people.set(session.source, (people.get(session.source) ?? new Set()).add(session.userId));
  }
  const isNamed = (source: string): boolean => owners.some((owner) => owner.startsWith(`${source}:`));
  const unclear = new Map(
    [...people].flatMap(([source, ids]) =>
      ids.size > 1 && !isNamed(source) ? [[source, [...ids].sort()] as const] : [],
    ),
  );
  let assumed = 0;
  const judged = sessions.map((session): Judged => {
    const kind = kindOf(session);
    if (kind !== "direct") return { session, standing: kind === "terminal" ? "own" : kind };
    if (session.chatType === null) assumed++;
    const isOwn = isNamed(session.source)
      ? owners.includes(`${session.source}:${session.userId ?? ""}`)
      : !unclear.has(session.source);
    return { session, standing: isOwn ? "own" : "stranger" };
  });
  return { judged, assumed, unclear };
}

/** It was talked, and nobody looks at it any more. */
export function isPutAway({ isArchived, isHidden }: HermesSession): boolean {
  return isArchived || isHidden;
}

function kindOf(session: HermesSession): "terminal" | "direct" | Exclude<SessionState, "own" | "stranger"> {
  const { source, relation, chatType, id } = session;
  if (relation === "helper" || HELPERS.includes(source)) return "helper";
  if (source === "cron" || id.startsWith("cron_")) return "job";
  if (PROGRAMS.includes(source)) return "program";
  if (TERMINALS.includes(source)) return "terminal";
  return chatType === null || chatType === "dm" ? "direct" : "group";
}
