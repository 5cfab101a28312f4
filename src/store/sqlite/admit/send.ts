import type { Target } from "../../../message/target.ts";
import { partsFor } from "../../../text/assemble.ts";
import type { AdmitOutcome, SendEvent } from "../../events.ts";
import { addDelivery } from "../deliveries.ts";
import { addEntry, addMessage } from "../messages.ts";
import { sessionThatGoesOn } from "../route.ts";
import type { ConversationRecord } from "../rows.ts";
import { type Admission, duplicate, knownEvent, outcomeIn, Rejection, rememberEvent } from "./admission.ts";
import { namedSession, setBinding } from "./bindings.ts";
import { conversationOfRef } from "./conversations.ts";

/** Stores a message of an agent with its deliveries, and binds the conversation to the session that it comes from (H1). */
export function admitSend(admission: Admission, event: SendEvent): AdmitOutcome {
  const { db, now, claim } = admission;
  const known = knownEvent(admission, event);
  const conversation = conversationOfRef(admission, event.into, event.rules);
  if (known !== undefined) return repeatedSend(admission, event, { conversation, messageId: known.message_id });
  const session = namedSession(admission, event, { ...event, conversation });
  const target = JSON.parse(conversation.target) as Target;
  const author = { kind: "agent", id: conversation.agent };
  const messageId = addMessage(db, lastPlaceOf(admission, conversation), { author, body: event.text, now });
  rememberEvent(admission, event, messageId);
  // Sent for no session, it belongs to the one that will be asked about it (K17).
  const speaksIn = session?.id ?? sessionThatGoesOn(admission, conversation, event.rules);
  if (speaksIn !== null) addEntry(db, speaksIn, { turnId: null, messageId, role: "assistant", mark: "sent" });
  const bound =
    session === null || session.home === conversation.id
      ? null
      : setBinding(admission, conversation, {
          kind: "live",
          sessionId: session.id,
          ttlMs: event.ttlMs,
          by: event.by.person!.id,
          shared: event.share === true,
        });
  const deliveries = partsFor(event.text, target).map((body, part) =>
    addDelivery(db, { kind: "send", target, messageId, part, body, now }, claim),
  );
  return { messageId, ...outcomeIn(admission, conversation), kind: "sent", deliveries, bound };
}

/** The place of the conversation's last message: a conversation over several doors (K12) or threads (K13) speaks where it was spoken to last. */
function lastPlaceOf({ db }: Admission, conversation: ConversationRecord): number {
  const last = db.get<{ place_id: number }>(
    `SELECT m.place_id FROM intake i JOIN message m ON m.id = i.message_id WHERE i.conversation_id = ? AND m.source IS NOT NULL
     ORDER BY i.message_id DESC LIMIT 1`,
    conversation.id,
  );
  return last?.place_id ?? conversation.place_id;
}

/** A known id with the same text into the same conversation is the same send; anything else under it is a mistake (T3). */
function repeatedSend(
  { db }: Admission,
  { text }: SendEvent,
  { conversation, messageId }: { readonly conversation: ConversationRecord; readonly messageId: number | null },
): AdmitOutcome {
  const sent = db.get<{ place_id: number; body: string }>("SELECT place_id, body FROM message WHERE id = ?", messageId);
  const isThere =
    sent?.place_id === conversation.place_id ||
    db.get(
      "SELECT 1 FROM intake i JOIN message m ON m.id = i.message_id WHERE i.conversation_id = ? AND m.place_id = ? LIMIT 1",
      conversation.id,
      sent?.place_id ?? null,
    ) !== undefined;
  if (isThere && sent?.body === text) return duplicate(db, messageId);
  throw new Rejection("idempotency_conflict", "This Idempotency-Key was used for another message.");
}
