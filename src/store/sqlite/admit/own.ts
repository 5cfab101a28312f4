import type { AdmitOutcome, OwnEvent } from "../../events.ts";
import { addMessage } from "../messages.ts";
import { confirmDelivery, deliveryOfEcho } from "../rooms.ts";
import { type Admission, knownEvent, rememberEvent } from "./admission.ts";
import { messageIn, placeFor } from "./conversations.ts";

/** Admits a message of our own account, which is never answered (G3): an echo confirms its delivery, any other is stored. */
export function admitOwn(admission: Admission, event: OwnEvent): AdmitOutcome {
  const { db, batch, now } = admission;
  const known = knownEvent(admission, event);
  if (known !== undefined) return { kind: "own", messageId: known.message_id, shown: null };
  const { platform, chatId = "", messageId: externalId } = event.source;
  const { originId, text, isHistory, saidAt } = event;
  const echo = { platform, chatId, externalId, originId, text, isHistory, account: batch.account };
  const delivery = deliveryOfEcho(db, echo);
  if (delivery !== undefined) {
    confirmDelivery(db, delivery, externalId);
    rememberEvent(admission, event, delivery.message_id);
    return { kind: "own", messageId: delivery.message_id, shown: { deliveryId: delivery.id, lane: delivery.lane } };
  }
  const placeId = placeFor(db, batch.agent, event.source);
  const author = { kind: "agent", id: batch.agent };
  const named = externalId === undefined ? {} : { externalId };
  const messageId =
    messageIn(db, placeId, externalId)?.id ?? addMessage(db, placeId, { author, body: text, now, saidAt, ...named });
  rememberEvent(admission, event, messageId);
  return { kind: "own", messageId, shown: null };
}
