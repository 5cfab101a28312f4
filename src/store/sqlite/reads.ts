import { readAgentState } from "../../conversation/agent-state.ts";
import type { Role } from "../../conversation/person.ts";
import type { Place } from "../../conversation/place.ts";
import { parseSessionKey } from "../../conversation/session-key.ts";
import type { Author, AuthorKind, Fate, Message } from "../../message/message.ts";
import type { Notice } from "../../message/notice.ts";
import type { Platform } from "../../message/source.ts";
import type { Target } from "../../message/target.ts";
import type {
  AdmitRules,
  Audience,
  BindingRow,
  ConversationRow,
  DeliveryRow,
  DirectRow,
  DirectSession,
  EntryRow,
  ExchangeRow,
  ForeignSession,
  HomeRow,
  JobRow,
  MessageFate,
  Note,
  RefusedRow,
  RuntimeStateRow,
  RuntimeStatus,
  SessionRow,
  SessionsOfOthers,
  StoreReader,
  Turn,
  TurnAnswer,
  TurnMaterial,
} from "../store.ts";
import type { Database } from "./database.ts";
import { hasOtherReaders } from "./rooms.ts";
import {
  authorOf,
  type BindingRecord,
  bindingOf,
  CONVERSATION_COLUMNS,
  type ConversationRecord,
  conversationOf,
  type DeliveryRecord,
  deliveryOf,
  ENTRY_QUERY,
  type EntryRecord,
  entryOf,
  type MessageRecord,
  messageOf,
  SESSION_QUERY,
  type SessionJoined,
  sessionOf,
  type TurnRecord,
  turnOf,
} from "./rows.ts";
import { boundLanding, conversationRecord, ownDue, sessionRecord } from "./sessions.ts";

const ROOM_LINES = 20;
const MISSED_ENTRIES = 40;
const SPEAKING_MESSAGES = 500;
/** What was undone stays in its place and is in no prompt any more. */
const STANDING = "coalesce(e.mark, '') <> 'undone'";

interface FateRecord {
  message_id: number;
  key: string;
  conversation_id: number;
  session_id: string | null;
  turn_id: number | null;
  fate: "answered" | null;
  reason: string | null;
  state: string | null;
  prompted: number | null;
  first: number | null;
}

const FATE_QUERY = `SELECT i.message_id, c.key, i.conversation_id, t.session_id, i.turn_id, i.fate, i.reason, t.state, t.prompted, m.body,
  (SELECT min(message_id) FROM intake f WHERE f.turn_id = i.turn_id) AS first
  FROM intake i JOIN conversation c ON c.id = i.conversation_id JOIN message m ON m.id = i.message_id LEFT JOIN turn t ON t.id = i.turn_id`;

/** The given conditions only: one that is absent must not keep SQLite from an index. */
function whereOf(conditions: Readonly<Record<string, string | number | undefined>>): {
  sql: string;
  values: (string | number)[];
} {
  const given = Object.entries(conditions).filter(
    (entry): entry is [string, string | number] => entry[1] !== undefined,
  );
  const sql = given.length === 0 ? "" : `WHERE ${given.map(([column]) => `${column} = ?`).join(" AND ")}`;
  return { sql, values: given.map(([, value]) => value) };
}

/** The reads of the port over one connection. They run between transactions, so they see committed rows only. */
export class SqliteReader implements StoreReader {
  protected readonly db: Database;

  constructor(db: Database) {
    this.db = db;
  }

  async turnMaterial(turnId: number): Promise<TurnMaterial | null> {
    const record = this.#turn(turnId);
    if (record === undefined) return null;
    const messages = this.#messagesOf(record.id);
    const session = this.#session(record.session_id)!;
    const firstOwn = this.db.get<{ seq: number }>(
      "SELECT seq FROM entry WHERE message_id = ? AND session_id = ?",
      messages[0]?.id ?? 0,
      session.id,
    )?.seq;
    const throughEntry = (firstOwn ?? session.entries + 1) - 1;
    return this.#material({
      turn: turnOf(record),
      conversation: this.#conversation("id = ?", record.conversation_id)!,
      session,
      messages,
      notes: this.#notes(session.id),
      throughEntry,
      afterCancel: this.#isAfterCancel(session.id, throughEntry),
      seenAtLeast: 0,
    });
  }

  async nextTurnMaterial(query: {
    conversationId: number;
    now: number;
    rules: Pick<AdmitRules, "reset" | "defaultSession" | "jobHoldMs">;
  }): Promise<TurnMaterial | null> {
    const conversation = this.#conversation("id = ?", query.conversationId);
    if (conversation === undefined) return null;
    const waiting = this.db.get<{ id: number }>(
      "SELECT id FROM turn WHERE conversation_id = ? AND state IN('queued','running') AND prompted = 0 ORDER BY id LIMIT 1",
      conversation.id,
    );
    return waiting === undefined ? this.#materialToCome(conversation, query) : this.turnMaterial(waiting.id);
  }

  /** Of a turn that nobody has asked for yet: where `admit` would let it land, with an empty message of who spoke last. */
  #materialToCome(
    conversation: ConversationRow,
    { now, rules }: { now: number; rules: Pick<AdmitRules, "reset" | "defaultSession" | "jobHoldMs"> },
  ): TurnMaterial {
    const moment = { db: this.db, now };
    const record = conversationRecord(this.db, conversation.id);
    const { landing, dropped } = boundLanding(moment, record, rules);
    const current =
      conversation.currentSession === null ? undefined : sessionRecord(this.db, conversation.currentSession);
    const reason = landing !== null || current === undefined ? null : ownDue(moment, record, current, rules).reason;
    const isNew = landing === null && (current === undefined || reason !== null);
    const session = isNew
      ? sessionToCome(conversation, { now, openedBy: reason ?? "message" })
      : this.#session(landing?.sessionId ?? current!.id)!;
    const notes = isNew ? [] : this.#notes(session.id);
    const tell = (code: string, args: Note["args"]): number =>
      notes.push({ n: (notes.at(-1)?.n ?? 0) + 1, code, args });
    if (session.parentId !== null && isNew) {
      tell("session_reset", { reason, previous: session.parentId, endedAt: now });
    } else if (landing === null) {
      for (const { binding, why } of dropped) tell("handoff_ended", { session: binding.session_id, why });
    }
    const last = this.db.get<MessageRecord>(
      `SELECT m.* FROM intake i JOIN message m ON m.id = i.message_id WHERE i.conversation_id = ? AND m.source IS NOT NULL
       ORDER BY i.message_id DESC LIMIT 1`,
      conversation.id,
    );
    const authority = this.db.get<{ authority: string }>(
      "SELECT authority FROM turn WHERE conversation_id = ? ORDER BY id DESC LIMIT 1",
      conversation.id,
    );
    const audience: Audience =
      conversation.personId === null
        ? { kind: "place", placeId: conversation.placeId }
        : { kind: "person", personId: conversation.personId };
    return this.#material({
      turn: {
        id: 0,
        sessionId: session.id,
        conversationId: conversation.id,
        state: "queued",
        reason: null,
        attempt: 0,
        effects: "none",
        target: conversation.target,
        audience,
        authority: authority === undefined ? { role: "guest" } : (JSON.parse(authority.authority) as Turn["authority"]),
        bound: landing?.bound ?? null,
        partial: null,
        prompt: null,
        usage: null,
        admittedAt: now,
        begunAt: null,
        settledAt: null,
      },
      conversation,
      session,
      messages: last === undefined ? [] : [wordless(messageOf(last), now)],
      notes,
      throughEntry: session.entries,
      afterCancel: false,
      // After a reset nothing that was said before is news (H11).
      seenAtLeast: isNew && session.openedBy !== "message" ? Number.MAX_SAFE_INTEGER : 0,
    });
  }

  /** What goes for every turn of a session, whether it is there or to come. */
  #material({
    seenAtLeast,
    ...known
  }: Pick<TurnMaterial, "turn" | "conversation" | "session" | "messages" | "notes" | "throughEntry" | "afterCancel"> & {
    readonly seenAtLeast: number;
  }): TurnMaterial {
    const { turn, conversation, session, messages, throughEntry } = known;
    const placeId = messages.at(-1)?.placeId ?? conversation.placeId;
    const state = this.#runtimeState(session.id);
    const roomLines = this.#roomLines(turn, placeId, seenAtLeast);
    const isPrivate = conversation.personId !== null && roomLines.lines.length === 0;
    return {
      ...known,
      home: session.home === conversation.id ? conversation : this.#conversation("id = ?", session.home)!,
      stablePart:
        this.db.get<{ stable_part: string | null }>("SELECT stable_part FROM session WHERE id = ?", session.id)
          ?.stable_part ?? null,
      previous: session.parentId === null ? null : (this.#session(session.parentId) ?? null),
      guests: this.#bindings({ sessionId: session.id }),
      speakers: isPrivate ? [] : this.#speakers(placeId),
      ...this.#seenBy(session.id, state, throughEntry),
      earlier: throughEntry - this.#undone(session.id, throughEntry),
      homes: this.#homes(session.agent),
      roomLines,
    };
  }

  async seenBy({ sessionId, runtime, throughEntry }: { sessionId: string; runtime: string; throughEntry: number }) {
    return this.#seenBy(sessionId, this.#runtimeState(sessionId, runtime), throughEntry, runtime);
  }

  #seenBy(
    sessionId: string,
    state: RuntimeStateRow | undefined,
    throughEntry: number,
    runtime = state?.runtime ?? "",
  ): Pick<TurnMaterial, "runtimeState" | "missed" | "missedMore"> {
    return {
      runtimeState: state ?? null,
      ...this.#missed(sessionId, { runtime, after: state?.seenThrough ?? 0, throughEntry }),
    };
  }

  async runtimeStates(sessionId: string): Promise<readonly RuntimeStateRow[]> {
    return this.db
      .all<RuntimeStateRecord>("SELECT * FROM runtime_state WHERE session_id = ? ORDER BY last_used_at DESC", sessionId)
      .map(runtimeStateOf);
  }

  async agentState(conversationId: number): Promise<Readonly<Record<string, unknown>> | null> {
    const row = this.db.get<{ agent_state: string | null }>(
      "SELECT agent_state FROM conversation WHERE id = ?",
      conversationId,
    );
    return readAgentState(row?.agent_state ?? null);
  }

  #undone(sessionId: string, throughEntry: number): number {
    return this.db.get<{ n: number }>(
      "SELECT count(*) AS n FROM entry WHERE session_id = ? AND mark = 'undone' AND seq <= ?",
      sessionId,
      throughEntry,
    )!.n;
  }

  #notes(sessionId: string): Note[] {
    return this.db
      .all<{ n: number; code: string; args: string }>(
        "SELECT n, code, args FROM note WHERE session_id = ? ORDER BY n",
        sessionId,
      )
      .map((row) => ({ n: row.n, code: row.code, args: JSON.parse(row.args) as Note["args"] }));
  }

  #speakers(placeId: number): Author[] {
    return this.db
      .all<{ author_kind: AuthorKind; author_id: string; author_name: string | null }>(
        `SELECT DISTINCT author_kind, author_id, author_name FROM (SELECT author_kind, author_id, author_name FROM message
           WHERE place_id = ? ORDER BY place_seq DESC LIMIT ${SPEAKING_MESSAGES})`,
        placeId,
      )
      .map((row) => authorOf(row.author_kind, row.author_id, row.author_name));
  }

  /** H11: what stands in the place, is not in this session, waits for no turn of this conversation, and is no command. */
  #roomLines(turn: Turn, placeId: number, seenAtLeast: number): TurnMaterial["roomLines"] {
    const place = this.db.get<{ seq: number }>("SELECT seq FROM place WHERE id = ?", placeId);
    const through = place?.seq ?? 0;
    const row = this.db.get<{ through_seq: number }>(
      "SELECT through_seq FROM seen WHERE session_id = ? AND place_id = ?",
      turn.sessionId,
      placeId,
    );
    const seen = Math.max(row?.through_seq ?? 0, seenAtLeast);
    const { condition, from } = this.#newsFor(turn, placeId, seen);
    const unseen = `FROM message m WHERE m.place_id = ?1 AND m.place_seq > ?2 AND m.place_seq <= ?3 AND m.deleted_at IS NULL AND ${condition}
      AND NOT EXISTS(SELECT 1 FROM entry e WHERE e.message_id = m.id AND e.session_id = ?4)
      AND NOT EXISTS(SELECT 1 FROM intake i WHERE i.message_id = m.id AND (i.reason = 'command'
        OR (i.conversation_id = ?5 AND (i.fate IS NULL OR i.fate IN('withdrawn','refused')))))`;
    const lines = this.db.all<MessageRecord>(
      `SELECT m.* ${unseen} ORDER BY m.place_seq DESC LIMIT ${ROOM_LINES}`,
      placeId,
      from,
      through,
      turn.sessionId,
      turn.conversationId,
    );
    const all =
      lines.length < ROOM_LINES
        ? lines.length
        : this.db.get<{ n: number }>(
            `SELECT count(*) AS n ${unseen}`,
            placeId,
            from,
            through,
            turn.sessionId,
            turn.conversationId,
          )!.n;
    return { lines: lines.reverse().map(messageOf), more: all - lines.length, bound: { placeId, throughSeq: through } };
  }

  /**
   * G1: where each person has a conversation of their own, what others said there, and were answered, is not theirs to be told; the message replied
   * to is, and what the agent said to all of them (G3).
   */
  #newsFor(turn: Turn, placeId: number, seen: number): { condition: string; from: number } {
    const key = this.db.get<{ key: string }>("SELECT key FROM conversation WHERE id = ?", turn.conversationId)?.key;
    const parts = key === undefined ? undefined : parseSessionKey(key);
    if (parts?.form !== "chat" || parts.chatType === "dm" || parts.userId === undefined)
      return { condition: "TRUE", from: seen };
    const replied = this.db.all<{ id: number; place_seq: number }>(
      `SELECT m.id, m.place_seq FROM intake r JOIN message w ON w.id = r.message_id
         JOIN message m ON m.place_id = ?2 AND m.ext_id = w.reply_to WHERE r.turn_id = ?1
       UNION SELECT m.id, m.place_seq FROM intake r JOIN message w ON w.id = r.message_id
         JOIN delivery d ON d.ext_id = w.reply_to JOIN message m ON m.id = d.message_id AND m.place_id = ?2 WHERE r.turn_id = ?1`,
      turn.id,
      placeId,
    );
    const own = `(EXISTS(SELECT 1 FROM intake o WHERE o.message_id = m.id AND o.conversation_id = ?5)
      OR (m.author_kind = 'agent' AND m.author_id = '${parts.agent}'
        AND NOT EXISTS(SELECT 1 FROM delivery d WHERE d.message_id = m.id AND d.kind = 'reply')))`;
    return {
      condition: `((m.place_seq > ${seen} AND ${own}) OR m.id IN(${replied.map(({ id }) => id).join(",")}))`,
      from: Math.min(seen, ...replied.map(({ place_seq }) => place_seq - 1)),
    };
  }

  /** B7: entries since this runtime last looked, that it did not run itself; words of others' turns and sends. */
  #missed(
    sessionId: string,
    { runtime, after, throughEntry }: { runtime: string; after: number; throughEntry: number },
  ): Pick<TurnMaterial, "missed" | "missedMore"> {
    if (after >= throughEntry) return { missed: [], missedMore: 0 };
    const unseen = `e.session_id = ? AND e.seq > ? AND e.seq <= ? AND ${STANDING} AND NOT EXISTS(
           SELECT 1 FROM turn t WHERE t.id = e.turn_id AND t.prompted = 1 AND json_extract(t.seen_bound, '$.runtime') = ?)`;
    const bounds = [sessionId, after, throughEntry, runtime] as const;
    const last = this.db.all<EntryRecord>(
      `${ENTRY_QUERY} WHERE ${unseen} ORDER BY e.seq DESC LIMIT ${MISSED_ENTRIES}`,
      ...bounds,
    );
    const all =
      last.length < MISSED_ENTRIES
        ? last.length
        : this.db.get<{ n: number }>(`SELECT count(*) AS n FROM entry e WHERE ${unseen}`, ...bounds)!.n;
    return { missed: last.reverse().map(entryOf), missedMore: all - last.length };
  }

  /** Whether the turn that spoke last in the session was cancelled before anything could have happened. */
  #isAfterCancel(sessionId: string, throughEntry: number): boolean {
    const before = this.db.get<{ state: string; effects: string }>(
      `SELECT t.state, t.effects FROM entry e JOIN turn t ON t.id = e.turn_id WHERE e.session_id = ? AND e.seq <= ? AND ${STANDING}
       ORDER BY e.seq DESC LIMIT 1`,
      sessionId,
      throughEntry,
    );
    return before?.state === "interrupted" && before.effects !== "possible";
  }

  async turn(turnId: number): Promise<Turn | null> {
    const row = this.#turn(turnId);
    return row === undefined ? null : turnOf(row);
  }

  async answer(turnId: number): Promise<TurnAnswer | null> {
    const row = this.#turn(turnId);
    if (row === undefined || row.state === "queued" || row.state === "running") return null;
    const entry =
      row.reply_entry === null
        ? undefined
        : this.db.get<EntryRecord>(
            `${ENTRY_QUERY} WHERE e.session_id = ? AND e.seq = ?`,
            row.session_id,
            row.reply_entry,
          );
    const notices = this.db
      .all<{ body: string }>(
        "SELECT body FROM delivery WHERE turn_id = ? AND kind = 'notice' AND part = 0 ORDER BY id",
        turnId,
      )
      .map((notice) => JSON.parse(notice.body) as Notice);
    const text = row.state === "answered" ? (entry?.text ?? "") : (row.partial ?? "");
    return { turn: turnOf(row), text, silent: row.reason === "silent", notices };
  }

  async fates(messageId: number): Promise<readonly MessageFate[]> {
    return this.db.all<FateRecord>(`${FATE_QUERY} WHERE i.message_id = ?`, messageId).map((row) => this.#fateOf(row));
  }

  async recentFates(query: {
    conversationId: number;
    limit: number;
  }): Promise<readonly (MessageFate & { messageId: number; text: string })[]> {
    const rows = this.db.all<FateRecord & { body: string }>(
      `${FATE_QUERY} WHERE i.conversation_id = ? ORDER BY i.message_id DESC LIMIT ?`,
      query.conversationId,
      query.limit,
    );
    return rows.map((row) => ({ ...this.#fateOf(row), messageId: row.message_id, text: row.body }));
  }

  #fateOf(row: FateRecord): MessageFate {
    return {
      conversationKey: row.key,
      conversationId: row.conversation_id,
      sessionId: row.session_id,
      turnId: row.turn_id,
      fate: this.#fate(row),
    };
  }

  /** T10: final where it is stored, derived from the turn until then. */
  #fate(row: FateRecord): Fate {
    if (row.fate !== null) return row.reason === null ? { fate: row.fate } : { fate: row.fate, reason: row.reason };
    const turnId = row.turn_id ?? 0;
    // Until the prompt is written it waits for its agent, if not for its turn (B4).
    if (row.state === "running" && row.prompted === 1) return { fate: "running", turnId };
    const position = this.db.get<{ n: number }>(
      "SELECT count(*) AS n FROM turn WHERE session_id = ? AND state IN('queued','running') AND prompted = 0 AND id <= ?",
      row.session_id,
      turnId,
    )!.n;
    return row.first === row.message_id ? { fate: "waiting", position } : { fate: "joined", turnId, position };
  }

  async message(messageId: number): Promise<Message | null> {
    const row = this.db.get<MessageRecord>("SELECT * FROM message WHERE id = ?", messageId);
    return row === undefined ? null : messageOf(row);
  }

  async commandReply(messageId: number): Promise<Notice | null> {
    const row = this.db.get<{ body: string }>(
      "SELECT body FROM delivery WHERE message_id = ? AND kind = 'notice' ORDER BY id LIMIT 1",
      messageId,
    );
    return row === undefined ? null : (JSON.parse(row.body) as Notice);
  }

  async requestUnder({ personId, key }: { personId: string; key: string }) {
    const row = this.db.get<{ message_id: number; conversation_id: number; turn_id: number | null }>(
      `SELECT r.message_id, r.conversation_id, i.turn_id FROM idempotency r
       JOIN intake i ON i.conversation_id = r.conversation_id AND i.message_id = r.message_id
       WHERE r.person_id = ? AND r.key = ? ORDER BY r.message_id DESC LIMIT 1`,
      personId,
      key,
    );
    if (row === undefined) return null;
    const { message_id: messageId, conversation_id: conversationId, turn_id: turnId } = row;
    return { kind: "duplicate" as const, messageId, conversationId, turnId };
  }

  async conversation(key: string): Promise<ConversationRow | null> {
    return this.#conversation("key = ?", key) ?? null;
  }

  async conversationById(id: number): Promise<ConversationRow | null> {
    return this.#conversation("id = ?", id) ?? null;
  }

  async conversations(query: { personId?: string; limit?: number }): Promise<readonly ConversationRow[]> {
    const { sql, values } = whereOf({ "c.kind": "kept", "c.person_id": query.personId });
    return this.db
      .all<ConversationRecord & { open_turns: number }>(
        `SELECT ${CONVERSATION_COLUMNS} FROM conversation c ${sql} ORDER BY c.at DESC, c.id DESC LIMIT ?`,
        ...values,
        query.limit ?? 100,
      )
      .map(conversationOf);
  }

  async session(sessionId: string): Promise<SessionRow | null> {
    return this.#session(sessionId) ?? null;
  }

  async sessions(query: {
    conversationId?: number;
    personId?: string;
    agent?: string;
    limit?: number;
  }): Promise<readonly SessionRow[]> {
    const { sql, values } = whereOf({
      "c.kind": "kept",
      "s.home": query.conversationId,
      "s.owner_person": query.personId,
      "s.agent": query.agent,
    });
    return this.db
      .all<SessionJoined>(
        `${SESSION_QUERY} ${sql} ORDER BY coalesce(s.last_human_at, p.opened_at) DESC, s.id DESC LIMIT ?`,
        ...values,
        query.limit ?? 100,
      )
      .map(sessionOf);
  }

  async jobs(sessionId: string): Promise<readonly JobRow[]> {
    return this.db.all<{ id: string; title: string; openedAt: number }>(
      "SELECT id, title, opened_at AS openedAt FROM job WHERE session_id = ? AND closed_at IS NULL ORDER BY opened_at, id",
      sessionId,
    );
  }

  async homes(agent: string): Promise<readonly HomeRow[]> {
    return this.#homes(agent);
  }

  #homes(agent: string): HomeRow[] {
    return this.db
      .all<{ platform: Platform; key: string; target: string; name: string | null; at: number }>(
        `SELECT h.platform, c.key, c.target, p.name, h.at FROM home h JOIN conversation c ON c.id = h.conversation_id
         JOIN place p ON p.id = c.place_id WHERE h.agent = ? ORDER BY h.platform`,
        agent,
      )
      .map(({ key, target, ...row }) => ({ ...row, conversationKey: key, target: JSON.parse(target) as Target }));
  }

  async exchanges({
    sessionId,
    beforeEntry,
  }: {
    sessionId: string;
    beforeEntry: number;
  }): Promise<readonly ExchangeRow[]> {
    const rows = this.db.all<TurnRecord & { mark: string | null; reply: string | null }>(
      `SELECT t.*, r.mark, CASE WHEN r.role = 'assistant' THEN coalesce(m.body, r.body) END AS reply
       FROM (SELECT turn_id, min(seq) AS first FROM entry WHERE session_id = ?1 AND seq < ?2 AND turn_id IS NOT NULL AND coalesce(mark, '') <> 'undone' GROUP BY turn_id) f
       JOIN turn t ON t.id = f.turn_id AND t.prompted = 1 AND t.state <> 'running'
       LEFT JOIN entry r ON r.session_id = t.session_id AND r.seq = t.reply_entry LEFT JOIN message m ON m.id = r.message_id
       ORDER BY f.first`,
      sessionId,
      beforeEntry,
    );
    return rows.map((row) => ({
      turnId: row.id,
      runtime: (JSON.parse(row.seen_bound ?? "{}") as { runtime?: string }).runtime ?? "",
      prompt: row.prompt ?? "",
      reply: row.reply,
      mark: row.mark,
    }));
  }

  #messagesOf(turnId: number): Message[] {
    return this.db
      .all<MessageRecord>(
        "SELECT m.* FROM intake i JOIN message m ON m.id = i.message_id WHERE i.turn_id = ? ORDER BY m.id",
        turnId,
      )
      .map(messageOf);
  }

  async transcript(query: {
    sessionId: string;
    after?: number;
    before?: number;
    only?: "standing";
    limit: number;
  }): Promise<readonly EntryRow[]> {
    const which = query.only === "standing" ? ` AND ${STANDING}` : "";
    if (query.after !== undefined) {
      return this.db
        .all<EntryRecord>(
          `${ENTRY_QUERY} WHERE e.session_id = ? AND e.seq > ?${which} ORDER BY e.seq LIMIT ?`,
          query.sessionId,
          query.after,
          query.limit,
        )
        .map(entryOf);
    }
    return this.db
      .all<EntryRecord>(
        `${ENTRY_QUERY} WHERE e.session_id = ? AND e.seq < ?${which} ORDER BY e.seq DESC LIMIT ?`,
        query.sessionId,
        query.before ?? Number.MAX_SAFE_INTEGER,
        query.limit,
      )
      .reverse()
      .map(entryOf);
  }

  async foreignSessions(runtime: string): Promise<readonly ForeignSession[]> {
    return this.db.all<{ id: string; sessionId: string; throughId: number }>(
      "SELECT id, session_id AS sessionId, through_id AS throughId FROM foreign_session WHERE runtime = ? ORDER BY id",
      runtime,
    );
  }

  async directSessions(personId: string): Promise<readonly DirectSession[]> {
    // What was brought in has no door here; what went on has the one where something was said last.
    const rows = this.db.all<Omit<DirectSession, "lastAt"> & { key: string; lastAt: number | null }>(
      `SELECT s.id AS sessionId, s.agent, c.key,
         CASE WHEN f.session_id IS NULL THEN p.platform ELSE
           (SELECT q.platform FROM entry e JOIN message m ON m.id = e.message_id JOIN place q ON q.id = m.place_id
            WHERE e.session_id = s.id ORDER BY e.seq DESC LIMIT 1) END AS platform,
         (SELECT m.admitted_at FROM entry e JOIN message m ON m.id = e.message_id
          WHERE e.session_id = s.id AND e.role IN('user','assistant') ORDER BY e.seq DESC LIMIT 1) AS lastAt
       FROM session s JOIN conversation c ON c.id = s.home JOIN place p ON p.id = c.place_id
         LEFT JOIN foreign_session f ON f.session_id = s.id
       WHERE s.owner_person = ?1 AND c.person_id = ?1 AND c.kind = 'kept' AND p.chat_type = 'dm'
         AND (f.session_id IS NULL OR s.seq > f.entries)`,
      personId,
    );
    return rows.flatMap(({ key, lastAt, ...row }) => {
      const { form } = parseSessionKey(key);
      return lastAt === null || form === "job" ? [] : [{ ...row, lastAt }];
    });
  }

  async sessionsOfOthers(personId: string): Promise<SessionsOfOthers> {
    const rows = this.db.all<{ isGroup: number; key: string; personId: string | null }>(
      `SELECT p.chat_type <> 'dm' AS isGroup, c.key, c.person_id AS personId
       FROM session s JOIN conversation c ON c.id = s.home JOIN place p ON p.id = c.place_id WHERE c.kind = 'kept'`,
    );
    const ours = rows.filter(({ key }) => parseSessionKey(key).form !== "foreign");
    return {
      groups: ours.filter(({ isGroup }) => isGroup === 1).length,
      direct: ours.filter((row) => row.isGroup === 0 && row.personId !== personId).length,
    };
  }

  async directRows(query: { sessionId: string; personId: string; limit: number }): Promise<readonly DirectRow[]> {
    return this.db
      .all<{ role: DirectRow["role"]; text: string; at: number | null }>(
        `SELECT e.role, coalesce(m.body, e.body, '') AS text, m.admitted_at AS at
         FROM entry e LEFT JOIN message m ON m.id = e.message_id LEFT JOIN place p ON p.id = m.place_id
         WHERE e.session_id = ?1 AND e.role <> 'mark' AND m.deleted_at IS NULL AND (p.id IS NULL OR (p.chat_type = 'dm'
           AND EXISTS(SELECT 1 FROM conversation c WHERE c.place_id = p.id AND c.person_id = ?2)))
         ORDER BY e.seq DESC LIMIT ?3`,
        query.sessionId,
        query.personId,
        query.limit,
      )
      .reverse();
  }

  async bindings(query: {
    agent?: string;
    conversationId?: number;
    sessionId?: string;
  }): Promise<readonly BindingRow[]> {
    return this.#bindings(query);
  }

  #bindings(query: { agent?: string; conversationId?: number; sessionId?: string }): BindingRow[] {
    const { sql, values } = whereOf({
      "c.agent": query.agent,
      "b.conversation_id": query.conversationId,
      "b.session_id": query.sessionId,
    });
    return this.db
      .all<BindingRecord>(
        `SELECT b.*, c.key FROM binding b CROSS JOIN conversation c ON c.id = b.conversation_id ${sql} ORDER BY c.key, b.kind`,
        ...values,
      )
      .map(bindingOf);
  }

  async placeMessages(query: { placeId: number; after: number; limit: number }): Promise<readonly Message[]> {
    return this.db
      .all<MessageRecord>(
        "SELECT * FROM message WHERE place_id = ? AND place_seq > ? ORDER BY place_seq LIMIT ?",
        query.placeId,
        query.after,
        query.limit,
      )
      .map(messageOf);
  }

  async deliveries(query: { lane: string; after: number; limit: number }): Promise<readonly DeliveryRow[]> {
    return this.db
      .all<DeliveryRecord>(
        "SELECT * FROM delivery WHERE lane = ? AND id > ? ORDER BY id LIMIT ?",
        query.lane,
        query.after,
        query.limit,
      )
      .map(deliveryOf);
  }

  async openSessions(): Promise<readonly string[]> {
    return this.db
      .all<{ session_id: string }>(
        `SELECT session_id, min(id) AS first FROM (SELECT session_id, id FROM turn INDEXED BY turn_queued WHERE state = 'queued'
           UNION ALL SELECT session_id, id FROM turn INDEXED BY turn_one_running WHERE state = 'running') GROUP BY session_id ORDER BY first`,
      )
      .map((row) => row.session_id);
  }

  async openDeliveries(query?: { lane: string }): Promise<readonly DeliveryRow[]> {
    const open = "state IN('queued','sending','streaming')";
    const rows =
      query === undefined
        ? this.db.all<DeliveryRecord>(
            `SELECT d.* FROM delivery d JOIN (SELECT min(id) AS id FROM delivery WHERE ${open} GROUP BY lane) h ON h.id = d.id ORDER BY d.id`,
          )
        : this.db.all<DeliveryRecord>(
            `SELECT * FROM delivery WHERE lane = ? AND ${open} ORDER BY id LIMIT 1`,
            query.lane,
          );
    return rows.map(deliveryOf);
  }

  async authorOf({
    place,
    externalId,
  }: {
    place: Place;
    externalId: string;
  }): Promise<Author | { readonly kind: "account"; readonly id: string } | null> {
    const message = this.db.get<MessageRecord>(
      `SELECT m.* FROM message m JOIN place p ON p.id = m.place_id
       WHERE p.platform = ? AND p.scope = ? AND p.chat_id = ? AND p.thread_id = ? AND m.ext_id = ?`,
      place.platform,
      place.scope,
      place.chatId,
      place.threadId,
      externalId,
    );
    if (message !== undefined) return authorOf(message.author_kind, message.author_id, message.author_name);
    const sent = this.db
      .all<{ target: string }>("SELECT target FROM delivery WHERE ext_id = ?", externalId)
      .map(({ target }) => JSON.parse(target) as Target)
      .find(({ platform, chatId }) => platform === place.platform && chatId === place.chatId);
    return sent === undefined ? null : { kind: "account", id: sent.account };
  }

  async hasOtherReaders(query: { placeId: number; personId: string | null }): Promise<boolean> {
    return hasOtherReaders(this.db, query.placeId, query.personId);
  }

  async refusedEvents(query: { account?: string; limit: number }): Promise<readonly RefusedRow[]> {
    return this.db
      .all<{ account_id: string; event_id: string; at: number; code: string; sentence: string; raw: string | null }>(
        "SELECT * FROM refused_event WHERE (?1 IS NULL OR account_id = ?1) ORDER BY id DESC LIMIT ?2",
        query.account ?? null,
        query.limit,
      )
      .map((row) => ({
        account: row.account_id,
        eventId: row.event_id,
        at: row.at,
        code: row.code,
        sentence: row.sentence,
        raw: row.raw,
      }));
  }

  async cursor(account: string): Promise<string | null> {
    return this.db.get<{ cursor: string | null }>("SELECT cursor FROM account WHERE id = ?", account)?.cursor ?? null;
  }

  async hasAnySessions(personId: string): Promise<boolean> {
    return this.db.get("SELECT 1 FROM session WHERE owner_person = ? LIMIT 1", personId) !== undefined;
  }

  async person(id: string): Promise<{ id: string; name: string | null; role: Role } | null> {
    return (
      this.db.get<{ id: string; name: string | null; role: Role }>(
        "SELECT id, name, role FROM person WHERE id = ?",
        id,
      ) ?? null
    );
  }

  async counts(): Promise<
    Record<"conversations" | "sessions" | "messages" | "turns" | "openTurns" | "openDeliveries", number>
  > {
    return this.db.get<
      Record<"conversations" | "sessions" | "messages" | "turns" | "openTurns" | "openDeliveries", number>
    >(
      `SELECT (SELECT count(*) FROM conversation WHERE kind = 'kept') AS conversations, (SELECT count(*) FROM session) AS sessions,
         (SELECT count(*) FROM message) AS messages, (SELECT count(*) FROM turn) AS turns,
         (SELECT count(*) FROM turn WHERE state IN('queued','running')) AS openTurns,
         (SELECT count(*) FROM delivery WHERE state IN('queued','sending','streaming')) AS openDeliveries`,
    )!;
  }

  async openCounts(): Promise<{ turns: number; deliveries: number }> {
    return this.db.get<{ turns: number; deliveries: number }>(
      `SELECT (SELECT count(*) FROM turn INDEXED BY turn_queued WHERE state = 'queued')
         + (SELECT count(*) FROM turn INDEXED BY turn_one_running WHERE state = 'running') AS turns,
       (SELECT count(*) FROM delivery INDEXED BY delivery_open WHERE state IN('queued','sending','streaming')) AS deliveries`,
    )!;
  }

  #turn(id: number): TurnRecord | undefined {
    return this.db.get<TurnRecord>("SELECT * FROM turn WHERE id = ?", id);
  }

  #conversation(where: "id = ?" | "key = ?", value: number | string): ConversationRow | undefined {
    const row = this.db.get<ConversationRecord & { open_turns: number }>(
      `SELECT ${CONVERSATION_COLUMNS} FROM conversation c WHERE c.${where}`,
      value,
    );
    return row === undefined ? undefined : conversationOf(row);
  }

  #session(id: string): SessionRow | undefined {
    const row = this.db.get<SessionJoined>(`${SESSION_QUERY} WHERE s.id = ?`, id);
    return row === undefined ? undefined : sessionOf(row);
  }

  /** Of the runtime named, or of the one that had the session last. */
  #runtimeState(sessionId: string, runtime?: string): RuntimeStateRow | undefined {
    const row =
      runtime === undefined
        ? this.db.get<RuntimeStateRecord>(
            "SELECT * FROM runtime_state WHERE session_id = ? ORDER BY last_used_at DESC LIMIT 1",
            sessionId,
          )
        : this.db.get<RuntimeStateRecord>(
            "SELECT * FROM runtime_state WHERE session_id = ? AND runtime = ?",
            sessionId,
            runtime,
          );
    return row === undefined ? undefined : runtimeStateOf(row);
  }
}

interface RuntimeStateRecord {
  runtime: string;
  ref: string | null;
  seen_through: number;
  status: RuntimeStatus;
  restarts: number;
  last_used_at: number | null;
}

function runtimeStateOf(row: RuntimeStateRecord): RuntimeStateRow {
  return {
    runtime: row.runtime,
    ref: row.ref,
    seenThrough: row.seen_through,
    status: row.status,
    restarts: row.restarts,
    lastUsedAt: row.last_used_at,
  };
}

/** The session that the next message of a conversation would open. */
function sessionToCome(
  conversation: ConversationRow,
  { now, openedBy }: { now: number; openedBy: string },
): SessionRow {
  return {
    id: "",
    home: conversation.id,
    homeKey: conversation.key,
    agent: conversation.agent,
    ownerPerson: conversation.personId,
    parentId: conversation.currentSession,
    title: null,
    entries: 0,
    openedAt: now,
    openedBy,
    endedAt: null,
    endReason: null,
    lastHumanAt: null,
    suspended: null,
    tokens: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, lastPrompt: 0 },
  };
}

/** A message of the same author from the same place, with nothing said in it. */
function wordless({ instructions: _, ...last }: Message, now: number): Message {
  return { ...last, id: 0, placeSeq: 0, body: "", saidAt: now, admittedAt: now };
}
