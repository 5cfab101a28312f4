import { TertuliaError } from "../../../errors.ts";
import { isBlank, withoutBlankIds } from "../../../message/source.ts";
import type { AdmitBatch, AdmitOutcome, AdmitResult, InboundEvent, RefusedEvent } from "../../events.ts";
import type { Claim } from "../../port.ts";
import type { Database, Write } from "../database.ts";
import { type Admission, beginAdmission, Rejection } from "./admission.ts";
import { admitBind } from "./bind.ts";
import { adoptSession } from "./bindings.ts";
import { admitChange } from "./change.ts";
import { admitJob } from "./job.ts";
import { admitLost } from "./lost.ts";
import { admitOwn } from "./own.ts";
import { admitReader } from "./reader.ts";
import { refuseEvent } from "./refused.ts";
import { admitSend } from "./send.ts";
import { admitSpoken } from "./spoken.ts";

/**
 * The verb `admit`: a batch of events of one account and its cursor, in one transaction. Each event has a savepoint: it is admitted whole or
 * leaves nothing (T12). Each kind of event has a file beside this one, and writes through its `Admission`.
 */
export function admit(db: Database, batch: AdmitBatch, claim: Claim): AdmitResult {
  const write = { db, claim, now: batch.now };
  const outcomes = batch.events.map((event) => admitEvent(write, batch, withoutBlanks(event)));
  // A batch of rejected events leaves no account, either.
  if (batch.cursor !== undefined || outcomes.some(({ kind }) => kind !== "rejected"))
    db.run("INSERT INTO account(id, platform) VALUES(?, ?) ON CONFLICT DO NOTHING", batch.account, batch.platform);
  if (batch.cursor !== undefined) db.run("UPDATE account SET cursor = ? WHERE id = ?", batch.cursor, batch.account);
  return { outcomes };
}

/** Drops blank ids: else all events with a blank id would be duplicates of each other (K5, T3). */
function withoutBlanks(event: InboundEvent): InboundEvent {
  const { eventId, ...rest } = event;
  const known = eventId === undefined || isBlank(eventId) ? rest : event;
  return ("source" in event ? { ...known, source: withoutBlankIds(event.source) } : known) as InboundEvent;
}

function admitEvent(write: Write, batch: AdmitBatch, event: InboundEvent): AdmitOutcome {
  const { db } = write;
  if (event.kind === "refused") return refuseEvent({ db, batch }, event, event);
  db.run("SAVEPOINT event");
  try {
    const outcome = admitKind(beginAdmission(write, batch, event), event);
    db.run("RELEASE event");
    return outcome;
  } catch (problem) {
    // After an error of SQLite the transaction is gone with its savepoints: only refusals of ours are taken back here.
    if (!isRefusal(problem)) throw problem;
    db.run("ROLLBACK TO event");
    db.run("RELEASE event");
    if (problem instanceof Rejection) return { kind: "rejected", code: problem.code, sentence: problem.sentence };
    // A caller gets the refusal at once; a platform would bring the event again and again.
    if ("source" in event) {
      const raw = isByStranger(event) ? {} : { raw: JSON.stringify(event) };
      refuseEvent({ db, batch }, event, { code: problem.code, sentence: problem.message, ...raw });
    }
    return { kind: "rejected", code: "source_invalid", sentence: problem.message };
  }
}

function admitKind(admission: Admission, event: Exclude<InboundEvent, RefusedEvent>): AdmitOutcome {
  switch (event.kind) {
    case "message":
    case "command":
      return admitSpoken(admission, event);
    case "send":
      return admitSend(admission, event);
    case "bind":
      return admitBind(admission, event);
    case "job":
      return admitJob(admission, event);
    case "adopt": {
      const { by, foreign } = event;
      return { kind: "adopted", sessionId: adoptSession(admission, by, { agent: admission.batch.agent, foreign }) };
    }
    case "lost":
      return admitLost(admission, event);
    case "reader":
      return admitReader(admission, event);
    case "own":
      return admitOwn(admission, event);
    case "edit":
    case "delete":
      return admitChange(admission, event);
  }
}

function isRefusal(problem: unknown): problem is Rejection | TertuliaError {
  return problem instanceof Rejection || (problem instanceof TertuliaError && problem.code === "source_invalid");
}

/** True for an event of an unknown speaker or a guest: only the fact of its refusal is kept, not its content. */
function isByStranger(event: InboundEvent): boolean {
  return "speaker" in event && (event.speaker.person === undefined || event.speaker.person.role === "guest");
}
