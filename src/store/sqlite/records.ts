import type { ConversationRow, SessionRow } from "../rows.ts";
import type { Database } from "./database.ts";
import {
  type BindingRecord,
  CONVERSATION_COLUMNS,
  type ConversationRecord,
  conversationOf,
  SESSION_QUERY,
  type SessionJoined,
  type SessionRecord,
  sessionOf,
  type TurnRecord,
} from "./rows.ts";

/** Lookups of single rows that verbs and reads share. */

export function conversationRecord(db: Database, id: number): ConversationRecord {
  return db.get<ConversationRecord>("SELECT * FROM conversation WHERE id = ?", id)!;
}

export function conversationUnder(db: Database, key: string): ConversationRecord | undefined {
  return db.get<ConversationRecord>("SELECT * FROM conversation WHERE key = ?", key);
}

export function conversationRow(
  db: Database,
  where: "id = ?" | "key = ?",
  value: number | string,
): ConversationRow | undefined {
  const row = db.get<ConversationRecord & { open_turns: number }>(
    `SELECT ${CONVERSATION_COLUMNS} FROM conversation c WHERE c.${where}`,
    value,
  );
  return row === undefined ? undefined : conversationOf(row);
}

export function sessionRecord(db: Database, id: string): SessionRecord | undefined {
  return db.get<SessionRecord>("SELECT * FROM session WHERE id = ?", id);
}

/** The conversation's own session, as opposed to one that it is bound to. */
export function currentSession(db: Database, { current_session: id }: ConversationRecord): SessionRecord | undefined {
  return id === null ? undefined : sessionRecord(db, id);
}

export function sessionRow(db: Database, id: string): SessionRow | undefined {
  const row = db.get<SessionJoined>(`${SESSION_QUERY} WHERE s.id = ?`, id);
  return row === undefined ? undefined : sessionOf(row);
}

export function turnRecord(db: Database, id: number): TurnRecord | undefined {
  return db.get<TurnRecord>("SELECT * FROM turn WHERE id = ?", id);
}

export function bindingsOf(db: Database, conversationId: number): BindingRecord[] {
  return db.all<BindingRecord>(
    "SELECT b.*, c.key FROM binding b JOIN conversation c ON c.id = b.conversation_id WHERE b.conversation_id = ? ORDER BY b.kind",
    conversationId,
  );
}

export function hasOpenTurn(db: Database, sessionId: string): boolean {
  return (
    db.get("SELECT 1 FROM turn WHERE session_id = ? AND state IN('queued','running') LIMIT 1", sessionId) !== undefined
  );
}
