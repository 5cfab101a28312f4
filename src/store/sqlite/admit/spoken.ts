import type { Authority } from "../../../conversation/person.ts";
import { isLocalDoor } from "../../../message/source.ts";
import type { AdmitOutcome, CommandEvent, MessageEvent, RequestKey } from "../../events.ts";
import { addMessage } from "../messages.ts";
import { authorityOf } from "../rights.ts";
import { addReader, deliveryOfEcho, guestSpoke, humanSpoke } from "../rooms.ts";
import type { ConversationRecord, DeliveryRecord } from "../rows.ts";
import { type Admission, duplicate, knownEvent, Rejection, rememberEvent } from "./admission.ts";
import { admitCommand } from "./command.ts";
import { conversationFor, messageIn, placeOfEvent } from "./conversations.ts";
import { admitMessage } from "./message.ts";

/** Admits a message or a command: finds its conversation, drops duplicates (T3), stores it, and hands it on. */
export function admitSpoken(admission: Admission, event: MessageEvent | CommandEvent): AdmitOutcome {
  const { db } = admission;
  const known = knownEvent(admission, event);
  if (known !== undefined) return duplicate(db, known.message_id);
  const who = authorityOf(db, event.source, event.speaker);
  const delivery = deliveryOfSiblingAgent(admission, event);
  // A notice or a command's answer of a sibling agent is no message to this one (G-HND-07).
  if (delivery?.kind === "notice") {
    rememberEvent(admission, event, null);
    return duplicate(db, null);
  }
  const conversation = conversationFor(admission, event, who);
  const stored = delivery?.message_id ?? storedMessage(admission, conversation, event);
  if (stored !== undefined && isTakenIn(admission, stored, { conversation, event, delivery })) {
    rememberEvent(admission, event, stored);
    return duplicate(db, stored, conversation.id);
  }
  const request = requestOf(event, who);
  const earlier = request === null || request.isReused ? undefined : messageUnder(admission, conversation, request);
  if (earlier !== undefined) return duplicate(db, earlier, conversation.id);
  const messageId = stored ?? storeMessage(admission, event, { conversation, who });
  rememberEvent(admission, event, messageId);
  const target = JSON.stringify(event.target);
  db.run("UPDATE conversation SET target = ?, at = ? WHERE id = ?", target, admission.now, conversation.id);
  const spoken = { conversation: { ...conversation, target }, messageId, who };
  const outcome =
    event.kind === "command"
      ? admitCommand(admission, { ...spoken, event })
      : admitMessage(admission, { ...spoken, event });
  // A refused request may be sent again: its key stays free (T3).
  if (request !== null && outcome.kind !== "refused") keepRequest(admission, request, { conversation, messageId });
  return outcome;
}

/** The delivery that a sibling agent's message is, as our account sees it in a shared place. */
function deliveryOfSiblingAgent({ db }: Admission, event: MessageEvent | CommandEvent): DeliveryRecord | undefined {
  const { source, speaker, text } = event;
  if (speaker.author.kind !== "agent" || isLocalDoor(source.platform)) return undefined;
  const { platform, chatId = "", messageId: externalId } = source;
  const { originId, isHistory = false } = event.kind === "message" ? event : {};
  const found = deliveryOfEcho(db, { platform, chatId, externalId, originId, text, isHistory });
  if (found !== undefined && externalId !== undefined && found.ext_id === null)
    db.run("UPDATE delivery SET ext_id = ? WHERE id = ?", externalId, found.id);
  return found;
}

function storedMessage(
  { db }: Admission,
  conversation: ConversationRecord,
  event: MessageEvent | CommandEvent,
): number | undefined {
  const { messageId: externalId } = event.source;
  return externalId === undefined ? undefined : messageIn(db, placeOfEvent(db, conversation, event), externalId)?.id;
}

/** True if the conversation has the message already. A later part of a reply may address the agent where the first did not: it counts once. */
function isTakenIn(
  { db }: Admission,
  messageId: number,
  {
    conversation,
    event,
    delivery,
  }: {
    conversation: ConversationRecord;
    event: MessageEvent | CommandEvent;
    delivery: DeliveryRecord | undefined;
  },
): boolean {
  const intake = db.get<{ fate: string | null; reason: string | null }>(
    "SELECT fate, reason FROM intake WHERE conversation_id = ? AND message_id = ?",
    conversation.id,
    messageId,
  );
  if (intake === undefined) return false;
  const isLaterCall =
    delivery !== undefined &&
    delivery.part > 0 &&
    event.kind === "message" &&
    event.addressed &&
    intake.fate === "recorded" &&
    intake.reason === null;
  if (isLaterCall)
    db.run("DELETE FROM intake WHERE conversation_id = ? AND message_id = ?", conversation.id, messageId);
  return !isLaterCall;
}

function storeMessage(
  { db, now }: Admission,
  event: MessageEvent | CommandEvent,
  { conversation, who }: { conversation: ConversationRecord; who: Authority },
): number {
  const placeId = placeOfEvent(db, conversation, event);
  const { author } = event.speaker;
  if (!isLocalDoor(event.source.platform)) {
    addReader({ db, now }, placeId, author);
    if (author.kind === "person" && who.role === "guest") guestSpoke({ db, now }, placeId, event.target);
    else if (author.kind === "person") humanSpoke(db, placeId);
  }
  const { replyTo, instructions } = event.kind === "message" ? event : {};
  return addMessage(db, placeId, {
    author,
    body: event.text,
    now,
    saidAt: event.saidAt,
    source: JSON.stringify(event.source),
    externalId: event.source.messageId,
    replyTo,
    instructions,
  });
}

// ---- idempotency keys

type Request = RequestKey & { readonly personId: string };

function requestOf({ idempotency }: MessageEvent | CommandEvent, { personId }: Authority): Request | null {
  return idempotency === undefined || personId === undefined ? null : { ...idempotency, personId };
}

function messageUnder(
  { db }: Admission,
  conversation: ConversationRecord,
  { personId, key, bodyHash }: Request,
): number | undefined {
  const earlier = db.get<{ message_id: number; body_hash: string }>(
    "SELECT message_id, body_hash FROM idempotency WHERE person_id = ? AND conversation_id = ? AND key = ?",
    personId,
    conversation.id,
    key,
  );
  if (earlier !== undefined && earlier.body_hash !== bodyHash)
    throw new Rejection("idempotency_conflict", "This Idempotency-Key was used for another message.");
  return earlier?.message_id;
}

function keepRequest(
  { db, now }: Admission,
  request: Request,
  { conversation, messageId }: { conversation: ConversationRecord; messageId: number },
): void {
  db.run(
    "INSERT OR REPLACE INTO idempotency(person_id, conversation_id, key, body_hash, message_id, at) VALUES(?, ?, ?, ?, ?, ?)",
    request.personId,
    conversation.id,
    request.key,
    request.bodyHash,
    messageId,
    now,
  );
}
