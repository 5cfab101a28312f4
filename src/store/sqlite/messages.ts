import type { Database } from "./database.ts";

/** Messages, which are stored once per place, and entries of sessions. */

export interface NewMessage {
  readonly author: { readonly kind: string; readonly id: string; readonly name?: string | undefined };
  readonly body: string;
  readonly now: number;
  readonly saidAt?: number | undefined;
  readonly externalId?: string | undefined;
  readonly source?: string | undefined;
  readonly replyTo?: string | undefined;
  readonly instructions?: string | undefined;
}

/** Stores a message once in its place and gives it the place's next number. */
export function addMessage(db: Database, placeId: number, message: NewMessage): number {
  const seq = db.get<{ seq: number }>("UPDATE place SET seq = seq + 1 WHERE id = ? RETURNING seq", placeId)!.seq;
  return db.insert(
    `INSERT INTO message(place_id, place_seq, author_kind, author_id, author_name, ext_id, said_at, admitted_at, body, source, reply_to, instructions)
     VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    placeId,
    seq,
    message.author.kind,
    message.author.id,
    message.author.name ?? null,
    message.externalId ?? null,
    message.saidAt ?? message.now,
    message.now,
    message.body,
    message.source ?? null,
    message.replyTo ?? null,
    message.instructions ?? null,
  );
}

export interface NewEntry {
  readonly turnId: number | null;
  readonly messageId?: number;
  readonly role: "user" | "assistant" | "mark";
  readonly mark?: string;
  readonly body?: string;
}

export function addEntry(db: Database, sessionId: string, entry: NewEntry): number {
  const seq = db.get<{ seq: number }>("UPDATE session SET seq = seq + 1 WHERE id = ? RETURNING seq", sessionId)!.seq;
  db.run(
    "INSERT INTO entry(session_id, seq, turn_id, message_id, role, mark, body) VALUES(?, ?, ?, ?, ?, ?, ?)",
    sessionId,
    seq,
    entry.turnId,
    entry.messageId ?? null,
    entry.role,
    entry.mark ?? null,
    entry.body ?? null,
  );
  return seq;
}

/** Gives a stored message the platform's id; a reply in parts has that of its first part. */
export function nameMessage(db: Database, messageId: number, externalId: string): void {
  db.run("UPDATE OR IGNORE message SET ext_id = ? WHERE id = ? AND ext_id IS NULL", externalId, messageId);
}
