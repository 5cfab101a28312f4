import { titleOf } from "../../../conversation/title.ts";
import type { Author } from "../../../message/message.ts";
import type { Notice } from "../../../message/notice.ts";
import type { AdmitOutcome, DeleteEvent, EditEvent } from "../../events.ts";
import type { ConversationRecord, MessageRecord, TurnRecord } from "../rows.ts";
import { type Admission, consequencesOf, knownEvent, rememberEvent } from "./admission.ts";
import { knownPlace, messageIn } from "./conversations.ts";
import { addNote, withdrawTurn } from "./sessions.ts";

/** How much of a text a note repeats. */
const NOTED = 500;

/** Changes or deletes a message (T6). Every account in the place brings the event; the first one changes the message for all. */
export function admitChange(admission: Admission, event: EditEvent | DeleteEvent): AdmitOutcome {
  const { db, batch } = admission;
  const known = knownEvent(admission, event);
  if (known !== undefined) return changed(admission, known.message_id);
  const message = messageIn(db, knownPlace(db, batch.agent, event.source), event.messageId);
  rememberEvent(admission, event, message?.id ?? null);
  if (message === undefined || message.deleted_at !== null) return changed(admission, null);
  const isAllowed = (event.kind === "delete" && event.isModeration) || isAuthor(message, event.speaker.author);
  if (!isAllowed) return changed(admission, null);
  if (event.kind === "edit") editMessage(admission, message, event.text);
  else deleteMessage(admission, message, event);
  return changed(admission, message.id);
}

function changed(admission: Admission, messageId: number | null): AdmitOutcome {
  const { settled, wake } = consequencesOf(admission);
  return { kind: "changed", messageId, settled, wake };
}

/** Waiting turns get the new text; sessions that know the old one are told in their next turn. An edit starts nothing. */
function editMessage({ db, now }: Admission, message: MessageRecord, text: string): void {
  if (message.body === text) return;
  db.run(
    `INSERT INTO message_version(message_id, n, body, until)
     VALUES(?1, coalesce((SELECT max(n) FROM message_version WHERE message_id = ?1), 0) + 1, ?2, ?3)`,
    message.id,
    message.body,
    now,
  );
  db.run("UPDATE message SET body = ? WHERE id = ?", text, message.id);
  const args = { ...byline(message), before: cut(message.body), after: cut(text) };
  for (const session of sessionsThatKnow(db, message)) addNote(db, session, { code: "message_edited", args });
}

/** Takes the message out of turns that have not begun and hides it elsewhere; sessions that know it are told in their next turn. */
function deleteMessage(admission: Admission, message: MessageRecord, { isModeration }: DeleteEvent): void {
  const { db, now } = admission;
  db.run("UPDATE message SET deleted_at = ? WHERE id = ?", now, message.id);
  const waiting = db.all<TurnRecord>(
    "SELECT t.* FROM intake i JOIN turn t ON t.id = i.turn_id WHERE i.message_id = ? AND t.state = 'queued'",
    message.id,
  );
  for (const turn of waiting) withdrawMessage(admission, turn, { messageId: message.id, why: "deleted" });
  const args = { ...byline(message), moderated: isModeration ? 1 : 0 };
  for (const session of sessionsThatKnow(db, message)) addNote(db, session, { code: "message_deleted", args });
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

/** Live sessions that have the message in their transcript, or were shown it as a line of the room (H11). */
function sessionsThatKnow(db: Admission["db"], message: MessageRecord): string[] {
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

/** Takes back the author's last message that still waits (R6, A8): the notice of it, or null where none waits. */
export function takeBackWaiting(admission: Admission, { id }: ConversationRecord, author: Author): Notice | null {
  const last = admission.db.get<TurnRecord & { message_id: number; body: string }>(
    `SELECT t.*, m.id AS message_id, m.body FROM turn t JOIN intake i ON i.turn_id = t.id JOIN message m ON m.id = i.message_id
     WHERE t.conversation_id = ? AND t.state = 'queued' AND m.author_kind = ? AND m.author_id = ? ORDER BY m.id DESC LIMIT 1`,
    id,
    author.kind,
    author.id,
  );
  if (last === undefined) return null;
  withdrawMessage(admission, last, { messageId: last.message_id, why: "undone" });
  return { code: "undone", args: { what: "waiting", text: titleOf(last.body) } };
}

/** Takes a message out of its waiting turn, on behalf of its author, who needs no notice. The last one takes the turn with it. */
function withdrawMessage(
  admission: Admission,
  turn: TurnRecord,
  { messageId, why }: { messageId: number; why: "deleted" | "undone" },
): void {
  if (turn.messages <= 1) {
    withdrawTurn(admission, turn, { why });
    return;
  }
  const { db } = admission;
  db.run("UPDATE turn SET messages = messages - 1 WHERE id = ?", turn.id);
  db.run(
    "UPDATE intake SET turn_id = NULL, fate = 'withdrawn', reason = ? WHERE conversation_id = ? AND message_id = ?",
    why,
    turn.conversation_id,
    messageId,
  );
}
