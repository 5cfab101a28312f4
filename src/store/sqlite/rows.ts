import type { Authority } from "../../conversation/person.ts";
import type { ResetPolicy } from "../../conversation/reset-policy.ts";
import type { Author, AuthorKind, Message } from "../../message/message.ts";
import type { Notice } from "../../message/notice.ts";
import type { Platform, Source } from "../../message/source.ts";
import type { Target } from "../../message/target.ts";
import type {
  BindingRow,
  ConversationRow,
  DeliveryRow,
  DeliveryState,
  EntryRow,
  RuntimeStateRow,
  RuntimeStatus,
  SessionRow,
} from "../rows.ts";
import type { Audience, BoundBy, Effects, Turn, TurnState, Usage } from "../turns.ts";

/** Rows as SQLite gives them, and as the port shows them. */

export interface TurnRecord {
  id: number;
  session_id: string;
  conversation_id: number;
  state: TurnState;
  reason: string | null;
  epoch: number | null;
  attempt: number;
  effects: Effects;
  prompted: number;
  ready_at: number;
  messages: number;
  target: string;
  audience: string;
  authority: string;
  bound: BoundBy | null;
  prompt: string | null;
  seen_bound: string | null;
  partial: string | null;
  usage: string | null;
  reply_entry: number | null;
  admitted_at: number;
  begun_at: number | null;
  settled_at: number | null;
}

export function turnOf(row: TurnRecord): Turn {
  return {
    id: row.id,
    sessionId: row.session_id,
    conversationId: row.conversation_id,
    state: row.state,
    reason: row.reason,
    attempt: row.attempt,
    effects: row.effects,
    target: JSON.parse(row.target) as Target,
    audience: JSON.parse(row.audience) as Audience,
    authority: JSON.parse(row.authority) as Authority,
    bound: row.bound,
    partial: row.partial,
    usage: row.usage === null ? null : (JSON.parse(row.usage) as Usage),
    prompt: row.prompt,
    admittedAt: row.admitted_at,
    begunAt: row.begun_at,
    settledAt: row.settled_at,
  };
}

export interface MessageRecord {
  id: number;
  place_id: number;
  place_seq: number;
  author_kind: AuthorKind;
  author_id: string;
  author_name: string | null;
  ext_id: string | null;
  said_at: number;
  admitted_at: number;
  body: string;
  source: string | null;
  reply_to: string | null;
  deleted_at: number | null;
  instructions: string | null;
}

export function messageOf(row: MessageRecord): Message {
  return {
    id: row.id,
    placeId: row.place_id,
    placeSeq: row.place_seq,
    author: authorOf(row.author_kind, row.author_id, row.author_name),
    ...(row.ext_id === null ? {} : { externalId: row.ext_id }),
    body: row.body,
    ...(row.instructions === null ? {} : { instructions: row.instructions }),
    source: row.source === null ? null : (JSON.parse(row.source) as Source),
    saidAt: row.said_at,
    admittedAt: row.admitted_at,
  };
}

export function authorOf(kind: AuthorKind, id: string, name: string | null): Author {
  return name === null ? { kind, id } : { kind, id, name };
}

export interface ConversationRecord {
  id: number;
  key: string;
  agent: string;
  person_id: string | null;
  place_id: number;
  kind: "kept" | "once";
  current_session: string | null;
  target: string;
  /** In force when it was last looked at. */
  reset_policy: string | null;
  reset_override: string | null;
  runtime: string | null;
  runtime_before: string | null;
  runtime_trial: number;
  agent_state: string | null;
  at: number;
}

export const CONVERSATION_COLUMNS = `c.*, (SELECT count(*) FROM turn t WHERE t.conversation_id = c.id AND t.state IN('queued','running')) AS open_turns`;

export function conversationOf(row: ConversationRecord & { open_turns: number }): ConversationRow {
  return {
    id: row.id,
    key: row.key,
    agent: row.agent,
    personId: row.person_id,
    placeId: row.place_id,
    kind: row.kind,
    currentSession: row.current_session,
    target: JSON.parse(row.target) as Target,
    resetOverride: row.reset_override === null ? null : (JSON.parse(row.reset_override) as ResetPolicy),
    runtime: { name: row.runtime, before: row.runtime_before, isOnTrial: row.runtime_trial === 1 },
    at: row.at,
    openTurns: row.open_turns,
  };
}

export interface SessionRecord {
  id: string;
  home: number;
  agent: string;
  owner_person: string | null;
  parent_id: string | null;
  stable_part: string | null;
  seq: number;
  last_human_at: number | null;
  ended_at: number | null;
  failures: number;
  suspended: string | null;
  title: string | null;
  tokens_input: number;
  tokens_output: number;
  tokens_cache_read: number;
  tokens_cache_write: number;
  tokens_last_prompt: number;
}
export interface SessionJoined extends SessionRecord {
  home_key: string;
  opened_at: number;
  opened_by: string;
  end_reason: string | null;
}

/** A session with its home's key and its last span. */
export const SESSION_QUERY = `SELECT s.*, c.key AS home_key, p.opened_at, p.opened_by, p.end_reason FROM session s JOIN conversation c ON c.id = s.home
  JOIN span p ON p.session_id = s.id AND p.n = (SELECT max(n) FROM span WHERE session_id = s.id)`;

export function sessionOf(row: SessionJoined): SessionRow {
  return {
    id: row.id,
    home: row.home,
    homeKey: row.home_key,
    agent: row.agent,
    ownerPerson: row.owner_person,
    parentId: row.parent_id,
    title: row.title,
    entries: row.seq,
    openedAt: row.opened_at,
    openedBy: row.opened_by,
    endedAt: row.ended_at,
    endReason: row.end_reason,
    lastHumanAt: row.last_human_at,
    suspended: row.suspended,
    tokens: {
      input: row.tokens_input,
      output: row.tokens_output,
      cacheRead: row.tokens_cache_read,
      cacheWrite: row.tokens_cache_write,
      lastPrompt: row.tokens_last_prompt,
    },
  };
}

export interface DeliveryRecord {
  id: number;
  lane: string;
  turn_id: number | null;
  message_id: number | null;
  part: number;
  kind: "reply" | "notice" | "send";
  target: string;
  body: string;
  state: DeliveryState;
  attempt: number;
  epoch: number | null;
  due_at: number;
  created_at: number;
  ext_id: string | null;
  reason: string | null;
}

export function deliveryOf(row: DeliveryRecord): DeliveryRow {
  return {
    id: row.id,
    lane: row.lane,
    turnId: row.turn_id,
    messageId: row.message_id,
    part: row.part,
    kind: row.kind,
    target: JSON.parse(row.target) as Target,
    body: row.kind === "notice" ? (JSON.parse(row.body) as Notice) : row.body,
    state: row.state,
    attempt: row.attempt,
    dueAt: row.due_at,
    createdAt: row.created_at,
    externalId: row.ext_id,
    reason: row.reason,
  };
}

export interface BindingRecord {
  conversation_id: number;
  key: string;
  kind: "live" | "pinned";
  session_id: string;
  sent_at: number;
  ttl_ms: number | null;
  set_by: string;
  shared: number;
}

export function bindingOf(row: BindingRecord): BindingRow {
  return {
    conversationId: row.conversation_id,
    conversationKey: row.key,
    kind: row.kind,
    sessionId: row.session_id,
    sentAt: row.sent_at,
    expiresAt: row.ttl_ms === null ? null : row.sent_at + row.ttl_ms,
    setBy: row.set_by,
    shared: row.shared === 1,
  };
}

export interface EntryRecord {
  seq: number;
  turn_id: number | null;
  message_id: number | null;
  role: "user" | "assistant" | "mark";
  mark: string | null;
  body: string | null;
  text: string | null;
  author_kind: AuthorKind | null;
  author_id: string | null;
  author_name: string | null;
  admitted_at: number | null;
  platform: Platform | null;
  at_home: number | null;
  delivery: DeliveryState | null;
  prompted: number | null;
}

/** Entries with the message behind them and, for own words, the worst state of their deliveries (O4). */
export const ENTRY_QUERY = `SELECT e.seq, e.turn_id, e.message_id, e.role, e.mark, e.body,
  CASE WHEN m.deleted_at IS NULL THEN m.body ELSE '(deleted)' END AS text, m.author_kind, m.author_id, m.author_name, m.admitted_at, p.platform,
  m.place_id = (SELECT c.place_id FROM session s JOIN conversation c ON c.id = s.home WHERE s.id = e.session_id) AS at_home,
  (SELECT d.state FROM delivery d WHERE d.message_id = e.message_id AND d.state <> 'delivered' ORDER BY d.id DESC LIMIT 1) AS delivery,
  (SELECT t.prompted FROM turn t WHERE t.id = e.turn_id) AS prompted
  FROM entry e LEFT JOIN message m ON m.id = e.message_id LEFT JOIN place p ON p.id = m.place_id`;

export function entryOf(row: EntryRecord): EntryRow {
  return {
    seq: row.seq,
    turnId: row.turn_id,
    messageId: row.message_id,
    role: row.role,
    mark: row.mark,
    author: row.author_kind === null ? null : authorOf(row.author_kind, row.author_id ?? "", row.author_name),
    text: row.text ?? row.body ?? "",
    at: row.admitted_at,
    platform: row.platform,
    ...(row.mark === "sent" && row.at_home === 1 ? { atHome: true as const } : {}),
    delivery: row.delivery,
    prompted: row.prompted === 1,
  };
}

export interface RuntimeStateRecord {
  runtime: string;
  ref: string | null;
  seen_through: number;
  status: RuntimeStatus;
  restarts: number;
  last_used_at: number | null;
}

export function runtimeStateOf(row: RuntimeStateRecord): RuntimeStateRow {
  return {
    runtime: row.runtime,
    ref: row.ref,
    seenThrough: row.seen_through,
    status: row.status,
    restarts: row.restarts,
    lastUsedAt: row.last_used_at,
  };
}
