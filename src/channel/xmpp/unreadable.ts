import type { Element } from "@xmpp/client";
import type { UnreadableEvent } from "../../message/platform-event.ts";

const LONGEST_RAW = 16_384;

export function refusedOf(eventId: string, code: string, sentence: string, stanza: Element): UnreadableEvent {
  return { kind: "refused", eventId, code, sentence, raw: stanza.toString().slice(0, LONGEST_RAW / 4) };
}

export function encrypted(eventId: string, stanza: Element): UnreadableEvent {
  return refusedOf(eventId, "encrypted", "The message is encrypted for devices; the gateway has no key.", stanza);
}
