import type { Fate } from "../../../message/message.ts";
import type { Notice } from "../../../message/notice.ts";
import type { MessageFate, TurnReader } from "../../readers.ts";
import type { Database } from "../database.ts";
import { turnRecord } from "../records.ts";
import { ENTRY_QUERY, type EntryRecord, type MessageRecord, messageOf, turnOf } from "../rows.ts";
import type { ReadsOf } from "./reads.ts";

export const turnReads: ReadsOf<TurnReader> = {
  turn(db, turnId) {
    const row = turnRecord(db, turnId);
    return row === undefined ? null : turnOf(row);
  },

  answer(db, turnId) {
    const row = turnRecord(db, turnId);
    if (row === undefined || row.state === "queued" || row.state === "running") return null;
    const entry =
      row.reply_entry === null
        ? undefined
        : db.get<EntryRecord>(`${ENTRY_QUERY} WHERE e.session_id = ? AND e.seq = ?`, row.session_id, row.reply_entry);
    const notices = db
      .all<{ body: string }>(
        "SELECT body FROM delivery WHERE turn_id = ? AND kind = 'notice' AND part = 0 ORDER BY id",
        turnId,
      )
      .map((notice) => JSON.parse(notice.body) as Notice);
    const text = row.state === "answered" ? (entry?.text ?? "") : (row.partial ?? "");
    return { turn: turnOf(row), text, silent: row.reason === "silent", notices };
  },

  fates(db, messageId) {
    return db.all<FateRecord>(`${FATE_QUERY} WHERE i.message_id = ?`, messageId).map((row) => fateOf(db, row));
  },

  recentFates(db, query) {
    const rows = db.all<FateRecord & { body: string }>(
      `${FATE_QUERY} WHERE i.conversation_id = ? ORDER BY i.message_id DESC LIMIT ?`,
      query.conversationId,
      query.limit,
    );
    return rows.map((row) => ({ ...fateOf(db, row), messageId: row.message_id, text: row.body }));
  },

  message(db, messageId) {
    const row = db.get<MessageRecord>("SELECT * FROM message WHERE id = ?", messageId);
    return row === undefined ? null : messageOf(row);
  },

  commandReply(db, messageId) {
    const row = db.get<{ body: string }>(
      "SELECT body FROM delivery WHERE message_id = ? AND kind = 'notice' ORDER BY id LIMIT 1",
      messageId,
    );
    return row === undefined ? null : (JSON.parse(row.body) as Notice);
  },

  requestUnder(db, { personId, key }) {
    const row = db.get<{ message_id: number; conversation_id: number; turn_id: number | null }>(
      `SELECT r.message_id, r.conversation_id, i.turn_id FROM idempotency r
       JOIN intake i ON i.conversation_id = r.conversation_id AND i.message_id = r.message_id
       WHERE r.person_id = ? AND r.key = ? ORDER BY r.message_id DESC LIMIT 1`,
      personId,
      key,
    );
    if (row === undefined) return null;
    const { message_id: messageId, conversation_id: conversationId, turn_id: turnId } = row;
    return { kind: "duplicate" as const, messageId, conversationId, turnId };
  },

  openSessions(db) {
    return db
      .all<{ session_id: string }>(
        `SELECT session_id, min(id) AS first FROM (SELECT session_id, id FROM turn INDEXED BY turn_queued WHERE state = 'queued'
           UNION ALL SELECT session_id, id FROM turn INDEXED BY turn_one_running WHERE state = 'running') GROUP BY session_id ORDER BY first`,
      )
      .map((row) => row.session_id);
  },
};

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

function fateOf(db: Database, row: FateRecord): MessageFate {
  return {
    conversationKey: row.key,
    conversationId: row.conversation_id,
    sessionId: row.session_id,
    turnId: row.turn_id,
    fate: fateIn(db, row),
  };
}

/** Reads the fate where it is final; derives it from the turn until then (T10). */
function fateIn(db: Database, row: FateRecord): Fate {
  if (row.fate !== null) return row.reason === null ? { fate: row.fate } : { fate: row.fate, reason: row.reason };
  const turnId = row.turn_id ?? 0;
  // Until the prompt is written it waits for its agent, if not for its turn (B4).
  if (row.state === "running" && row.prompted === 1) return { fate: "running", turnId };
  const position = db.get<{ n: number }>(
    "SELECT count(*) AS n FROM turn WHERE session_id = ? AND state IN('queued','running') AND prompted = 0 AND id <= ?",
    row.session_id,
    turnId,
  )!.n;
  return row.first === row.message_id ? { fate: "waiting", position } : { fate: "joined", turnId, position };
}
