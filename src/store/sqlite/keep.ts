import { mergeState, readAgentState } from "../../conversation/agent-state.ts";
import type { KeepChange, KeepResult } from "../keep.ts";
import type { Database } from "./database.ts";
import { importSessions } from "./import.ts";
import { prunePaces } from "./pace.ts";

/** The verb `keep`. */

const KEPT_FOR_MS = 48 * 3_600_000;
const REFUSED_KEPT = 1_000;

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
