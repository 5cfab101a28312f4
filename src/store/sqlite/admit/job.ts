import type { AdmitOutcome, JobEvent } from "../../events.ts";
import { conversationRecord, sessionRecord } from "../records.ts";
import { type Admission, duplicate, knownEvent, outcomeIn, Rejection, rememberEvent } from "./admission.ts";

/** Opens or closes a background job (R2), for the session's runtime or its owner. A session that has ended opens none. */
export function admitJob(admission: Admission, event: JobEvent): AdmitOutcome {
  const { db, now } = admission;
  if (knownEvent(admission, event) !== undefined) return duplicate(db, null);
  const session = sessionRecord(db, event.sessionId);
  if (session === undefined) throw new Rejection("session_unknown", `There is no session ${event.sessionId}.`);
  const person = event.by?.person;
  if (event.by !== null && person?.role !== "owner" && (person === undefined || session.owner_person !== person.id))
    throw new Rejection("forbidden", "Only the owner of a session speaks of its jobs.");
  if (event.change.state === "open" && session.ended_at !== null)
    throw new Rejection("session_ended", `Session ${event.sessionId} has ended.`);
  rememberEvent(admission, event, null);
  const open = db.get("SELECT 1 FROM job WHERE session_id = ? AND id = ? AND closed_at IS NULL", session.id, event.id);
  if (event.change.state === "open") {
    db.run(
      `INSERT INTO job(session_id, id, title, opened_at) VALUES(?, ?, ?, ?) ON CONFLICT(session_id, id) DO UPDATE SET
       title = excluded.title, closed_at = NULL, opened_at = CASE WHEN closed_at IS NULL THEN opened_at ELSE excluded.opened_at END`,
      session.id,
      event.id,
      event.change.title,
      now,
    );
  } else {
    db.run(
      "UPDATE job SET closed_at = ? WHERE session_id = ? AND id = ? AND closed_at IS NULL",
      now,
      session.id,
      event.id,
    );
  }
  return { ...outcomeIn(admission, conversationRecord(db, session.home)), kind: "job", had: open !== undefined };
}
