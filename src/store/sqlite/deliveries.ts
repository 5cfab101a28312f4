import { mergeState, readAgentState } from "../../conversation/agent-state.ts";
import type { Claim, DeliveryReport, DeliveryRow, KeepChange, KeepResult, NotDue } from "../store.ts";
import type { Database } from "./database.ts";
import { importSessions } from "./import.ts";
import { prunePaces } from "./pace.ts";
import { type DeliveryRecord, deliveryOf } from "./rows.ts";

/** The verbs `attempt`, `delivered` and `keep`. */

const KEPT_FOR_MS = 48 * 3_600_000;
const REFUSED_KEPT = 1_000;

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

export function keep(db: Database, change: KeepChange): KeepResult {
  switch (change.kind) {
    case "person":
      db.run(
        "INSERT INTO person(id, name, role) VALUES(?, ?, ?) ON CONFLICT(id) DO UPDATE SET name = excluded.name, role = excluded.role",
        change.person.id,
        change.person.name ?? null,
        change.person.role,
      );
      return { removed: 0 };
    case "title":
      db.run("UPDATE session SET title = ? WHERE id = ?", change.title, change.sessionId);
      return { removed: 0 };
    case "restarts":
      db.run(
        "UPDATE runtime_state SET restarts = max(restarts, ?), status = coalesce(?, status) WHERE session_id = ? AND runtime = ?",
        change.restarts,
        change.status ?? null,
        change.sessionId,
        change.runtime,
      );
      return { removed: 0 };
    case "agent_state": {
      const row = db.get<{ agent_state: string | null }>(
        "SELECT agent_state FROM conversation WHERE id = ?",
        change.conversationId,
      );
      const merged = mergeState(readAgentState(row?.agent_state ?? null) ?? {}, change.patch);
      db.run("UPDATE conversation SET agent_state = ? WHERE id = ?", JSON.stringify(merged), change.conversationId);
      return { removed: 0 };
    }
    case "identities":
      db.run("DELETE FROM identity");
      for (const { platform, userId, personId } of change.identities) {
        db.run(
          "INSERT INTO identity(platform, scope, user_id, person_id, linked_at) VALUES(?, '', ?, ?, ?)",
          platform,
          userId,
          personId,
          change.now,
        );
      }
      return { removed: 0 };
    case "import":
      return { removed: 0, imported: importSessions(db, change) };
    case "prune":
      return prune(db, change.now);
  }
}

/** At most 500 `once` conversations a time: the rest go with the next one. */
function prune(db: Database, now: number): KeepResult {
  const before = now - KEPT_FOR_MS;
  let removed = prunePaces(db, now);
  removed += db.run("DELETE FROM event_seen WHERE at < ?", before);
  removed += db.run("DELETE FROM idempotency WHERE at < ?", before);
  removed += db.run(
    "DELETE FROM refused_event WHERE id IN(SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY account_id ORDER BY id DESC) AS n FROM refused_event) WHERE n > ?)",
    REFUSED_KEPT,
  );
  const once = db.all<{ id: number; place_id: number }>(
    `SELECT c.id, c.place_id FROM conversation c WHERE c.kind = 'once' AND c.at < ?
     AND NOT EXISTS(SELECT 1 FROM turn t WHERE t.conversation_id = c.id AND t.state IN('queued','running')) LIMIT 500`,
    before,
  );
  const forgotten = once.flatMap(({ id }) =>
    db.all<{ sessionId: string; runtime: string; ref: string }>(
      `SELECT session_id AS sessionId, runtime, ref FROM runtime_state
       WHERE ref IS NOT NULL AND session_id IN(SELECT id FROM session WHERE home = ?)`,
      id,
    ),
  );
  for (const { id, place_id } of once) removed += forgetConversation(db, id, place_id);
  return { removed, forgotten };
}

function forgetConversation(db: Database, id: number, placeId: number): number {
  const sessions = "(SELECT id FROM session WHERE home = ?)";
  db.run("UPDATE conversation SET current_session = NULL WHERE id = ?", id);
  for (const table of ["entry", "note", "span", "seen", "runtime_state", "job"])
    db.run(`DELETE FROM ${table} WHERE session_id IN${sessions}`, id);
  db.run(
    "DELETE FROM delivery WHERE turn_id IN(SELECT id FROM turn WHERE conversation_id = ?) OR message_id IN(SELECT id FROM message WHERE place_id = ?)",
    id,
    placeId,
  );
  for (const table of ["intake", "turn", "idempotency", "binding", "home"])
    db.run(`DELETE FROM ${table} WHERE conversation_id = ?`, id);
  db.run("DELETE FROM session WHERE home = ?", id);
  db.run("DELETE FROM conversation WHERE id = ?", id);
  db.run("DELETE FROM message WHERE place_id = ?", placeId);
  db.run("DELETE FROM place WHERE id = ?", placeId);
  return 1;
}
