import { parseSessionKey } from "../../../conversation/session-key.ts";
import type { Author, AuthorKind, Message } from "../../../message/message.ts";
import type { RouteRules } from "../../events.ts";
import type { ContextReader, TurnMaterial } from "../../readers.ts";
import type { ConversationRow, Note, RuntimeStateRow, SessionRow } from "../../rows.ts";
import type { BoundBy, Turn } from "../../turns.ts";
import type { Database } from "../database.ts";
import { conversationRecord, conversationRow, sessionRow, turnRecord } from "../records.ts";
import { routeOf, type SessionRoute } from "../route.ts";
import {
  authorOf,
  ENTRY_QUERY,
  type EntryRecord,
  entryOf,
  type MessageRecord,
  messageOf,
  type RuntimeStateRecord,
  runtimeStateOf,
  type TurnRecord,
  turnOf,
} from "../rows.ts";
import { bindingRows, homesOf } from "./conversation-reads.ts";
import type { ReadsOf } from "./reads.ts";

const ROOM_LINES = 20;
const MISSED_ENTRIES = 40;
const SPEAKING_MESSAGES = 500;
/** An undone entry stays in its place but is in no prompt any more. */
const STANDING = "coalesce(e.mark, '') <> 'undone'";

export const contextReads: ReadsOf<ContextReader> = {
  turnMaterial(db, turnId) {
    const record = turnRecord(db, turnId);
    if (record === undefined) return null;
    const messages = messagesOf(db, record.id);
    const session = sessionRow(db, record.session_id)!;
    const firstOwn = db.get<{ seq: number }>(
      "SELECT seq FROM entry WHERE message_id = ? AND session_id = ?",
      messages[0]?.id ?? 0,
      session.id,
    )?.seq;
    const throughEntry = (firstOwn ?? session.entries + 1) - 1;
    return material(db, {
      turn: turnOf(record),
      conversation: conversationRow(db, "id = ?", record.conversation_id)!,
      session,
      messages,
      notes: notesOf(db, session.id),
      throughEntry,
      afterCancel: isAfterCancel(db, session.id, throughEntry),
      seenAtLeast: 0,
    });
  },

  nextTurnMaterial(db, query) {
    const conversation = conversationRow(db, "id = ?", query.conversationId);
    if (conversation === undefined) return null;
    const waiting = db.get<{ id: number }>(
      "SELECT id FROM turn WHERE conversation_id = ? AND state IN('queued','running') AND prompted = 0 ORDER BY id LIMIT 1",
      conversation.id,
    );
    return waiting === undefined ? materialToCome(db, conversation, query) : contextReads.turnMaterial(db, waiting.id);
  },

  seenBy(db, { sessionId, runtime, throughEntry }) {
    return seenByRuntime(db, sessionId, { state: runtimeStateRow(db, sessionId, runtime), throughEntry, runtime });
  },

  exchanges(db, { sessionId, beforeEntry }) {
    const rows = db.all<TurnRecord & { mark: string | null; reply: string | null }>(
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
  },

  transcript(db, query) {
    const which = query.only === "standing" ? ` AND ${STANDING}` : "";
    if (query.after !== undefined) {
      return db
        .all<EntryRecord>(
          `${ENTRY_QUERY} WHERE e.session_id = ? AND e.seq > ?${which} ORDER BY e.seq LIMIT ?`,
          query.sessionId,
          query.after,
          query.limit,
        )
        .map(entryOf);
    }
    return db
      .all<EntryRecord>(
        `${ENTRY_QUERY} WHERE e.session_id = ? AND e.seq < ?${which} ORDER BY e.seq DESC LIMIT ?`,
        query.sessionId,
        query.before ?? Number.MAX_SAFE_INTEGER,
        query.limit,
      )
      .reverse()
      .map(entryOf);
  },
};

/** The material of a turn that a message would start now: in the session that the route leads to, with an empty message of the last speaker. */
function materialToCome(
  db: Database,
  conversation: ConversationRow,
  { now, rules }: { now: number; rules: RouteRules },
): TurnMaterial {
  const route = routeOf({ db, now }, conversationRecord(db, conversation.id), rules);
  const session =
    route.kind === "new"
      ? sessionToCome(conversation, { now, openedBy: route.resetReason ?? "message" })
      : sessionRow(db, route.sessionId)!;
  const last = db.get<MessageRecord>(
    `SELECT m.* FROM intake i JOIN message m ON m.id = i.message_id WHERE i.conversation_id = ? AND m.source IS NOT NULL
     ORDER BY i.message_id DESC LIMIT 1`,
    conversation.id,
  );
  return material(db, {
    turn: turnToCome(db, conversation, { sessionId: session.id, bound: route.kind === "bound" ? route.by : null, now }),
    conversation,
    session,
    messages: last === undefined ? [] : [wordless(messageOf(last), now)],
    notes: notesToCome(db, session, { route, now }),
    throughEntry: session.entries,
    afterCancel: false,
    // After a reset nothing that was said before is news (H11).
    seenAtLeast: route.kind === "new" && route.resetReason !== null ? Number.MAX_SAFE_INTEGER : 0,
  });
}

/** The notes that the route adds: of a reset to the new session, of ended bindings to the conversation's own (H3, R5). */
function notesToCome(db: Database, session: SessionRow, { route, now }: { route: SessionRoute; now: number }): Note[] {
  if (route.kind === "new" && session.parentId !== null) {
    const args = { reason: route.resetReason, previous: session.parentId, endedAt: now };
    return [{ n: 1, code: "session_reset", args }];
  }
  const notes = route.kind === "new" ? [] : notesOf(db, session.id);
  if (route.kind === "bound") return notes;
  const after = notes.at(-1)?.n ?? 0;
  const ended = route.dropped.map(({ binding, why }, index) => ({
    n: after + index + 1,
    code: "handoff_ended",
    args: { session: binding.session_id, why },
  }));
  return [...notes, ...ended];
}

function turnToCome(
  db: Database,
  conversation: ConversationRow,
  { sessionId, bound, now }: { sessionId: string; bound: BoundBy | null; now: number },
): Turn {
  const { personId, placeId } = conversation;
  const last = db.get<{ authority: string }>(
    "SELECT authority FROM turn WHERE conversation_id = ? ORDER BY id DESC LIMIT 1",
    conversation.id,
  );
  return {
    id: 0,
    sessionId,
    conversationId: conversation.id,
    state: "queued",
    reason: null,
    attempt: 0,
    effects: "none",
    target: conversation.target,
    audience: personId === null ? { kind: "place", placeId } : { kind: "person", personId },
    authority: last === undefined ? { role: "guest" } : (JSON.parse(last.authority) as Turn["authority"]),
    bound,
    partial: null,
    prompt: null,
    usage: null,
    admittedAt: now,
    begunAt: null,
    settledAt: null,
  };
}

/** Completes the material of a turn, present or to come. */
function material(
  db: Database,
  {
    seenAtLeast,
    ...known
  }: Pick<TurnMaterial, "turn" | "conversation" | "session" | "messages" | "notes" | "throughEntry" | "afterCancel"> & {
    readonly seenAtLeast: number;
  },
): TurnMaterial {
  const { turn, conversation, session, messages, throughEntry } = known;
  const placeId = messages.at(-1)?.placeId ?? conversation.placeId;
  const state = runtimeStateRow(db, session.id);
  const roomLines = unseenLines(db, turn, { placeId, seenAtLeast });
  const isPrivate = conversation.personId !== null && roomLines.lines.length === 0;
  return {
    ...known,
    home: session.home === conversation.id ? conversation : conversationRow(db, "id = ?", session.home)!,
    stablePart:
      db.get<{ stable_part: string | null }>("SELECT stable_part FROM session WHERE id = ?", session.id)?.stable_part ??
      null,
    previous: session.parentId === null ? null : (sessionRow(db, session.parentId) ?? null),
    guests: bindingRows(db, { sessionId: session.id }),
    speakers: isPrivate ? [] : speakersIn(db, placeId),
    ...seenByRuntime(db, session.id, { state, throughEntry }),
    earlier: throughEntry - undoneBefore(db, session.id, throughEntry),
    homes: homesOf(db, session.agent),
    roomLines,
  };
}

function seenByRuntime(
  db: Database,
  sessionId: string,
  {
    state,
    throughEntry,
    runtime = state?.runtime ?? "",
  }: { state: RuntimeStateRow | undefined; throughEntry: number; runtime?: string },
): Pick<TurnMaterial, "runtimeState" | "missed" | "missedMore"> {
  return {
    runtimeState: state ?? null,
    ...missedBy(db, sessionId, { runtime, after: state?.seenThrough ?? 0, throughEntry }),
  };
}

function undoneBefore(db: Database, sessionId: string, throughEntry: number): number {
  return db.get<{ n: number }>(
    "SELECT count(*) AS n FROM entry WHERE session_id = ? AND mark = 'undone' AND seq <= ?",
    sessionId,
    throughEntry,
  )!.n;
}

function notesOf(db: Database, sessionId: string): Note[] {
  return db
    .all<{ n: number; code: string; args: string }>(
      "SELECT n, code, args FROM note WHERE session_id = ? ORDER BY n",
      sessionId,
    )
    .map((row) => ({ n: row.n, code: row.code, args: JSON.parse(row.args) as Note["args"] }));
}

function speakersIn(db: Database, placeId: number): Author[] {
  return db
    .all<{ author_kind: AuthorKind; author_id: string; author_name: string | null }>(
      `SELECT DISTINCT author_kind, author_id, author_name FROM (SELECT author_kind, author_id, author_name FROM message
         WHERE place_id = ? ORDER BY place_seq DESC LIMIT ${SPEAKING_MESSAGES})`,
      placeId,
    )
    .map((row) => authorOf(row.author_kind, row.author_id, row.author_name));
}

/** The lines of a place that the session has not seen (H11): none that wait for a turn of this conversation, and no commands. */
function unseenLines(
  db: Database,
  turn: Turn,
  { placeId, seenAtLeast }: { placeId: number; seenAtLeast: number },
): TurnMaterial["roomLines"] {
  const place = db.get<{ seq: number }>("SELECT seq FROM place WHERE id = ?", placeId);
  const through = place?.seq ?? 0;
  const row = db.get<{ through_seq: number }>(
    "SELECT through_seq FROM seen WHERE session_id = ? AND place_id = ?",
    turn.sessionId,
    placeId,
  );
  const seen = Math.max(row?.through_seq ?? 0, seenAtLeast);
  const { condition, from } = newsFor(db, turn, { placeId, seen });
  const unseen = `FROM message m WHERE m.place_id = ?1 AND m.place_seq > ?2 AND m.place_seq <= ?3 AND m.deleted_at IS NULL AND ${condition}
    AND NOT EXISTS(SELECT 1 FROM entry e WHERE e.message_id = m.id AND e.session_id = ?4)
    AND NOT EXISTS(SELECT 1 FROM intake i WHERE i.message_id = m.id AND (i.reason = 'command'
      OR (i.conversation_id = ?5 AND (i.fate IS NULL OR i.fate IN('withdrawn','refused')))))`;
  const lines = db.all<MessageRecord>(
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
      : db.get<{ n: number }>(
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
 * Narrows the lines where each person has a conversation of their own (G1): to their own, the message they reply to, and what the agent
 * said to all (G3).
 */
function newsFor(
  db: Database,
  turn: Turn,
  { placeId, seen }: { placeId: number; seen: number },
): { condition: string; from: number } {
  const key = db.get<{ key: string }>("SELECT key FROM conversation WHERE id = ?", turn.conversationId)?.key;
  const parts = key === undefined ? undefined : parseSessionKey(key);
  if (parts?.form !== "chat" || parts.chatType === "dm" || parts.userId === undefined)
    return { condition: "TRUE", from: seen };
  const replied = db.all<{ id: number; place_seq: number }>(
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

/** The entries that a runtime has not seen and did not run itself (B7). */
function missedBy(
  db: Database,
  sessionId: string,
  { runtime, after, throughEntry }: { runtime: string; after: number; throughEntry: number },
): Pick<TurnMaterial, "missed" | "missedMore"> {
  if (after >= throughEntry) return { missed: [], missedMore: 0 };
  const unseen = `e.session_id = ? AND e.seq > ? AND e.seq <= ? AND ${STANDING} AND NOT EXISTS(
         SELECT 1 FROM turn t WHERE t.id = e.turn_id AND t.prompted = 1 AND json_extract(t.seen_bound, '$.runtime') = ?)`;
  const bounds = [sessionId, after, throughEntry, runtime] as const;
  const last = db.all<EntryRecord>(
    `${ENTRY_QUERY} WHERE ${unseen} ORDER BY e.seq DESC LIMIT ${MISSED_ENTRIES}`,
    ...bounds,
  );
  const all =
    last.length < MISSED_ENTRIES
      ? last.length
      : db.get<{ n: number }>(`SELECT count(*) AS n FROM entry e WHERE ${unseen}`, ...bounds)!.n;
  return { missed: last.reverse().map(entryOf), missedMore: all - last.length };
}

/** True if the session's last turn was cancelled before a tool could have run. */
function isAfterCancel(db: Database, sessionId: string, throughEntry: number): boolean {
  const before = db.get<{ state: string; effects: string }>(
    `SELECT t.state, t.effects FROM entry e JOIN turn t ON t.id = e.turn_id WHERE e.session_id = ? AND e.seq <= ? AND ${STANDING}
     ORDER BY e.seq DESC LIMIT 1`,
    sessionId,
    throughEntry,
  );
  return before?.state === "interrupted" && before.effects !== "possible";
}

function messagesOf(db: Database, turnId: number): Message[] {
  return db
    .all<MessageRecord>(
      "SELECT m.* FROM intake i JOIN message m ON m.id = i.message_id WHERE i.turn_id = ? ORDER BY m.id",
      turnId,
    )
    .map(messageOf);
}

/** The state of the named runtime, or of the one that ran the session last. */
function runtimeStateRow(db: Database, sessionId: string, runtime?: string): RuntimeStateRow | undefined {
  const row =
    runtime === undefined
      ? db.get<RuntimeStateRecord>(
          "SELECT * FROM runtime_state WHERE session_id = ? ORDER BY last_used_at DESC LIMIT 1",
          sessionId,
        )
      : db.get<RuntimeStateRecord>(
          "SELECT * FROM runtime_state WHERE session_id = ? AND runtime = ?",
          sessionId,
          runtime,
        );
  return row === undefined ? undefined : runtimeStateOf(row);
}

/** The session that the next message would open. */
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

/** An empty message of the same author from the same place. */
function wordless({ instructions: _, ...last }: Message, now: number): Message {
  return { ...last, id: 0, placeSeq: 0, body: "", saidAt: now, admittedAt: now };
}
