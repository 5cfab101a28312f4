import type { AdmitOutcome, ReaderEvent } from "../../events.ts";
import { addReader } from "../rooms.ts";
import type { Admission } from "./admission.ts";
import { placeFor } from "./conversations.ts";

/** Stores who reads along in a place; an id that stood for them before they were identified is removed (H7, G7). */
export function admitReader({ db, batch, now }: Admission, { source, author, alias }: ReaderEvent): AdmitOutcome {
  const placeId = placeFor(db, batch.agent, source);
  if (alias !== undefined) db.run("DELETE FROM place_reader WHERE place_id = ? AND id = ?", placeId, alias);
  addReader({ db, now }, placeId, author);
  return { kind: "noted" };
}
