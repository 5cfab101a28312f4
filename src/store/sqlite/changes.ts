import { titleOf } from "../../conversation/title.ts";
import type { Author } from "../../message/message.ts";
import type { Notice } from "../../message/notice.ts";
import type { AdmitOutcome, DeleteEvent, EditEvent } from "../store.ts";
import { type ConversationRecord, type MessageRecord, type TurnRecord, turnOf } from "./rows.ts";
import { type Admit, addNote } from "./sessions.ts";
import { nextSessions } from "./turns.ts";

/** Edits and deletions (T6), inside `admit`. */

/** How much of a text a note repeats. */
const NOTED = 500;

const NOTHING: Extract<AdmitOutcome, { kind: "changed" }> = { kind: "changed", messageId: null, settled: [], wake: [] };

/** Waiting turns say the new words. Sessions that know the old ones are told in their next turn. An edit starts nothing. */
export function editMessage(admit: Admit, event: EditEvent, message: MessageRecord | undefined): AdmitOutcome {
  const { db, now } = admit;
  if (message === undefined || message.deleted_at !== null || !isAuthor(message, event.speaker.author)) return NOTHING;
  if (message.body === event.text) return { ...NOTHING, messageId: message.id };
  db.run(
    `INSERT INTO message_version(message_id, n, body, until)
     VALUES(?1, coalesce((SELECT max(n) FROM message_version WHERE message_id = ?1), 0) + 1, ?2, ?3)`,
    message.id,
    message.body,
    now,
  );
  db.run("UPDATE message SET body = ? WHERE id = ?", event.text, message.id);
  const args = { ...byline(message), before: cut(message.body), after: cut(event.text) };
  for (const session of sessionsThatKnow(admit, message)) addNote(db, session, "message_edited", args);
  return { ...NOTHING, messageId: message.id };
}

/** It leaves the turns that have not begun; where it has been read it is hidden, and sessions that know it are told. */
export function deleteMessage(admit: Admit, event: DeleteEvent, message: MessageRecord | undefined): AdmitOutcome {
  const { db, now } = admit;
  if (message === undefined || message.deleted_at !== null) return NOTHING;
  if (!event.isModeration && !isAuthor(message, event.speaker.author)) return NOTHING;
  db.run("UPDATE message SET deleted_at = ? WHERE id = ?", now, message.id);
  for (const turn of waitingTurns(admit, message.id)) withdraw(admit, turn, { messageId: message.id, why: "deleted" });
  const args = { ...byline(message), moderated: event.isModeration ? 1 : 0 };
  for (const session of sessionsThatKnow(admit, message)) addNote(db, session, "message_deleted", args);
  return { kind: "changed", messageId: message.id, settled: admit.settled, wake: [...admit.wake] };
}

function isAuthor(message: MessageRecord, author: Author): boolean {
  return message.author_kind === author.kind && message.author_id === author.id;
}

function byline({ author_id, author_name }: MessageRecord): { author: string; authorId: string } {
  return { author: author_name ?? author_id, authorId: author_id };
}

function cut(text: string): string {
  const points = Array.from(text);
  return points.length > NOTED ? `${points.slice(0, NOTED - 1).join("")}…` : text;
}

/** Sessions that go on and have the message in their transcript, or were shown it as a line of the room (H11). */
function sessionsThatKnow({ db }: Admit, message: MessageRecord): string[] {
  return db
    .all<{ id: string }>(
      `SELECT s.id FROM session s WHERE s.ended_at IS NULL AND s.id IN(
         SELECT session_id FROM entry WHERE message_id = ?1
         UNION SELECT session_id FROM seen WHERE place_id = ?2 AND through_seq >= ?3)
       AND NOT EXISTS(SELECT 1 FROM intake i JOIN turn t ON t.id = i.turn_id WHERE i.message_id = ?1 AND t.session_id = s.id AND t.state IN('queued','withdrawn'))`,
      message.id,
      message.place_id,
      message.place_seq,
    )
    .map(({ id }) => id);
}

function waitingTurns({ db }: Admit, messageId: number): TurnRecord[] {
  return db.all<TurnRecord>(
    "SELECT t.* FROM intake i JOIN turn t ON t.id = i.turn_id WHERE i.message_id = ? AND t.state = 'queued'",
    messageId,
  );
}

/** R6, A8: the last of somebody's own words that still wait in a conversation are taken back; null where none do. */
export function takeBackWaiting(admit: Admit, { id }: ConversationRecord, author: Author): Notice | null {
  const last = admit.db.get<TurnRecord & { message_id: number; body: string }>(
    `SELECT t.*, m.id AS message_id, m.body FROM turn t JOIN intake i ON i.turn_id = t.id JOIN message m ON m.id = i.message_id
     WHERE t.conversation_id = ? AND t.state = 'queued' AND m.author_kind = ? AND m.author_id = ? ORDER BY m.id DESC LIMIT 1`,
    id,
    author.kind,
    author.id,
  );
  if (last === undefined) return null;
  withdraw(admit, last, { messageId: last.message_id, why: "undone" });
  return { code: "undone", args: { what: "waiting", text: titleOf(last.body) } };
}

/** Its author took it back: there is nobody to tell. A turn that is left without messages is withdrawn with it. */
function withdraw(
  admit: Admit,
  turn: TurnRecord,
  { messageId, why }: { messageId: number; why: "deleted" | "undone" },
): void {
  const { db, now } = admit;
  const { conversation_id: conversationId, id } = turn;
  if (turn.messages > 1) {
    db.run("UPDATE turn SET messages = messages - 1 WHERE id = ?", id);
    db.run(
      "UPDATE intake SET turn_id = NULL, fate = 'withdrawn', reason = ? WHERE conversation_id = ? AND message_id = ?",
      why,
      conversationId,
      messageId,
    );
    return;
  }
  db.run("UPDATE turn SET state = 'withdrawn', reason = ?, settled_at = ? WHERE id = ?", why, now, id);
  db.run("UPDATE intake SET fate = 'withdrawn', reason = ? WHERE turn_id = ? AND fate IS NULL", why, id);
  const withdrawn = db.get<TurnRecord>("SELECT * FROM turn WHERE id = ?", id)!;
  admit.settled.push({ turn: turnOf(withdrawn), text: "", deliveries: [], wake: [], messageIds: [messageId] });
  for (const session of nextSessions(db, turn)) admit.wake.add(session);
}
