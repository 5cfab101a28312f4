import type { Notice } from "../../message/notice.ts";
import { laneOf, type Target } from "../../message/target.ts";
import { partsFor } from "../../text/assemble.ts";
import { renderNotice } from "../../text/render-notice.ts";
import type { Claim, DeliveryReport, NotDue } from "../port.ts";
import type { DeliveryRow } from "../rows.ts";
import type { Database } from "./database.ts";
import { type DeliveryRecord, deliveryOf } from "./rows.ts";

/** Deliveries: rows before they are sent (O1), and the verbs `attempt` and `delivered`. */

/** The condition for a delivery that is not final, spelled as in the index of open ones. */
const OPEN = "state IN('queued','sending','streaming')";

export interface NewDelivery {
  readonly kind: "reply" | "notice" | "send";
  readonly target: Target;
  readonly turnId?: number;
  readonly messageId?: number;
  readonly part: number;
  readonly body: string | Notice;
  readonly now: number;
}

/** A notice as the platform takes it: its rows have the same body, and each says its part of it (O3). */
export function addNotice(
  db: Database,
  { notice, ...more }: Pick<NewDelivery, "target" | "turnId" | "messageId" | "now"> & { readonly notice: Notice },
  claim: Claim,
): DeliveryRow[] {
  const parts = partsFor(renderNotice(notice), more.target).length;
  return Array.from({ length: Math.max(1, parts) }, (_, part) =>
    addDelivery(db, { ...more, kind: "notice", part, body: notice }, claim),
  );
}

/**
 * A delivery is a row before it is sent (O1). At a pull door it is delivered with its commit (O6); at a push door the lane's
 * head is written as being sent, and the others wait for the outbox to attempt them.
 */
export function addDelivery(db: Database, delivery: NewDelivery, claim: Claim): DeliveryRow {
  const { target } = delivery;
  const lane = laneOf(target);
  const isHead =
    target.door === "push" && db.get(`SELECT 1 FROM delivery WHERE lane = ? AND ${OPEN} LIMIT 1`, lane) === undefined;
  const record: Omit<DeliveryRecord, "id"> = {
    lane,
    turn_id: delivery.turnId ?? null,
    message_id: delivery.messageId ?? null,
    part: delivery.part,
    kind: delivery.kind,
    target: JSON.stringify(target),
    body: typeof delivery.body === "string" ? delivery.body : JSON.stringify(delivery.body),
    state: target.door === "pull" ? "delivered" : isHead ? "sending" : "queued",
    attempt: isHead ? 1 : 0,
    epoch: isHead ? claim.epoch : null,
    due_at: delivery.now,
    created_at: delivery.now,
    ext_id: null,
    reason: null,
  };
  const id = db.insert(
    `INSERT INTO delivery(lane, turn_id, message_id, part, kind, target, body, state, attempt, epoch, due_at, created_at)
     VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    record.lane,
    record.turn_id,
    record.message_id,
    record.part,
    record.kind,
    record.target,
    record.body,
    record.state,
    record.attempt,
    record.epoch,
    record.due_at,
    record.created_at,
  );
  return deliveryOf({ ...record, id });
}

/** The lane's head is sent once more; nothing overtakes it (O1). */
export function attempt(
  db: Database,
  request: { deliveryId: number; now: number },
  claim: Claim,
): DeliveryRow | NotDue {
  const row = db.get<DeliveryRecord>("SELECT * FROM delivery WHERE id = ?", request.deliveryId);
  if (row === undefined || row.state !== "queued" || isEarly(row, request.now)) return { kind: "not_due" };
  const head = db.get<{ id: number }>(
    "SELECT id FROM delivery WHERE lane = ? AND state IN('queued','sending','streaming') ORDER BY id LIMIT 1",
    row.lane,
  );
  if (head?.id !== row.id) return { kind: "not_due" };
  const sending: DeliveryRecord = { ...row, state: "sending", attempt: row.attempt + 1, epoch: claim.epoch };
  db.run(
    "UPDATE delivery SET state = 'sending', attempt = ?, epoch = ? WHERE id = ?",
    sending.attempt,
    claim.epoch,
    row.id,
  );
  return deliveryOf(sending);
}

/** A clock set back to before the row was written holds nothing. */
function isEarly(row: DeliveryRecord, now: number): boolean {
  return row.due_at > now && row.created_at <= now;
}

export function delivered(db: Database, report: DeliveryReport): void {
  const { deliveryId, result } = report;
  switch (result.kind) {
    case "delivered":
      db.run(
        "UPDATE delivery SET state = 'delivered', ext_id = coalesce(ext_id, ?), reason = NULL WHERE id = ?",
        result.externalId ?? null,
        deliveryId,
      );
      return;
    case "retry":
      db.run(
        "UPDATE delivery SET state = 'queued', due_at = ?, reason = ?, attempt = attempt - ? WHERE id = ? AND state = 'sending'",
        result.dueAt,
        result.reason,
        result.counts ? 0 : 1,
        deliveryId,
      );
      return;
    case "unknown":
      db.run(
        "UPDATE delivery SET state = 'unknown', reason = ? WHERE id = ? AND state <> 'delivered'",
        result.reason,
        deliveryId,
      );
      return;
    case "failed":
      // The platform may have shown the words meanwhile (G3).
      if (
        db.run(
          "UPDATE delivery SET state = 'failed', reason = ? WHERE id = ? AND state <> 'delivered'",
          result.reason,
          deliveryId,
        ) === 0
      )
        return;
      // Half a reply is worse with its end and without its middle: later parts stop, the lane goes on.
      db.run(
        `UPDATE delivery SET state = 'failed', reason = 'earlier_part_failed' WHERE state = 'queued' AND kind = (SELECT kind FROM delivery WHERE id = ?1)
         AND (turn_id = (SELECT turn_id FROM delivery WHERE id = ?1) OR (turn_id IS NULL AND message_id = (SELECT message_id FROM delivery WHERE id = ?1)))
         AND part > (SELECT part FROM delivery WHERE id = ?1)`,
        deliveryId,
      );
  }
}
