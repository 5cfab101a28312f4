import { hasNoAddress } from "../../../message/source.ts";
import type { AdmitOutcome, InboundEvent, RefusedEvent } from "../../events.ts";
import { addReader } from "../rooms.ts";
import { type Admission, knownEvent, rememberEvent } from "./admission.ts";
import { placeFor } from "./conversations.ts";

const RAW_LIMIT = 16 * 1024;

/** Keeps an event that cannot be admitted, so that the cursor passes it (T2). */
export function refuseEvent(
  at: Pick<Admission, "db" | "batch">,
  event: Pick<InboundEvent, "eventId">,
  refusal: Pick<RefusedEvent, "code" | "sentence" | "raw" | "reader">,
): AdmitOutcome {
  const { db, batch } = at;
  if (refusal.reader !== undefined && !hasNoAddress(refusal.reader.source)) {
    const { source, author } = refusal.reader;
    addReader({ db, now: batch.now }, placeFor(db, batch.agent, source), author);
  }
  // An event without an id comes from a caller, who gets the refusal at once.
  if (event.eventId !== undefined && knownEvent(at, event) === undefined) {
    rememberEvent(at, event, null);
    db.run(
      "INSERT INTO refused_event(account_id, event_id, at, code, sentence, raw) VALUES(?, ?, ?, ?, ?, ?)",
      batch.account,
      event.eventId,
      batch.now,
      refusal.code,
      refusal.sentence,
      refusal.raw === undefined ? null : firstBytes(refusal.raw, RAW_LIMIT),
    );
  }
  return { kind: "rejected", code: "request_invalid", sentence: refusal.sentence };
}

function firstBytes(text: string, most: number): string {
  const bytes = Buffer.from(text, "utf8");
  return bytes.byteLength <= most ? text : new TextDecoder().decode(bytes.subarray(0, most), { stream: true });
}
