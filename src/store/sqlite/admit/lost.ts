import type { AdmitOutcome, LostEvent } from "../../events.ts";
import { conversationRecord, sessionRecord } from "../records.ts";
import type { TurnRecord } from "../rows.ts";
import { type Admission, outcomeIn } from "./admission.ts";
import { loseSession } from "./sessions.ts";

/** Moves a turn out of a bound session that its program has lost (H10). A turn that has shown something, or has ended, is left alone. */
export function admitLost(admission: Admission, { turnId }: LostEvent): AdmitOutcome {
  const { db } = admission;
  const turn = db.get<TurnRecord>(
    "SELECT * FROM turn WHERE id = ? AND state = 'running' AND prompted = 0 AND bound IS NOT NULL",
    turnId,
  );
  if (turn === undefined) return { kind: "noted" };
  loseSession(admission, sessionRecord(db, turn.session_id)!, turn);
  return { ...outcomeIn(admission, conversationRecord(db, turn.conversation_id)), kind: "cleared", had: true };
}
