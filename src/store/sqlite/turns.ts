import type { Authority } from "../../conversation/person.ts";
import type { Target } from "../../message/target.ts";
import type { Claim } from "../port.ts";
import type { BeginResult, Marked, NotRunning, Recovery, Settlement, SettleResult, Turn, TurnMark } from "../turns.ts";
import type { Database, Write } from "./database.ts";
import { addDelivery } from "./deliveries.ts";
import { addEntry } from "./messages.ts";
import { type TurnRecord, turnOf } from "./rows.ts";
import { endTurn, interruption } from "./turn-ending.ts";

/** The verbs `begin`, `mark` and `settle`. */

const NOT_RUNNING: NotRunning = { kind: "not_running" };

/** A turn without effects runs once more after a crash (T8). */
const MAX_ATTEMPTS = 2;

export function begin(db: Database, { sessionId, now }: { sessionId: string; now: number }, claim: Claim): BeginResult {
  const write = { db, claim, now };
  let takeover: Recovery | null = null;
  const running = db.get<TurnRecord>("SELECT * FROM turn WHERE session_id = ? AND state = 'running'", sessionId);
  if (running !== undefined) {
    if (running.epoch === claim.epoch) return { kind: "busy" };
    if (running.effects === "none" && running.attempt < MAX_ATTEMPTS && running.reason === null) {
      return { kind: "begun", turn: run(write, running), takeover: { kind: "rerun", turnId: running.id } };
    }
    takeover = { ...endTurn(write, running, interruption(running, running.reason ?? "crash")), kind: "interrupted" };
  }
  const head = db.get<TurnRecord>(
    "SELECT * FROM turn WHERE session_id = ? AND state = 'queued' ORDER BY id LIMIT 1",
    sessionId,
  );
  if (head === undefined) return { kind: "idle", takeover };
  const older = db.get<{ session_id: string }>(
    "SELECT session_id FROM turn WHERE conversation_id = ? AND state IN('queued','running') AND id < ? ORDER BY id LIMIT 1",
    head.conversation_id,
    head.id,
  );
  if (older !== undefined) return { kind: "blocked", bySession: older.session_id, takeover };
  // A clock set back does not hold a turn longer than its debounce.
  if (head.ready_at > now && head.admitted_at <= now) return { kind: "waiting", until: head.ready_at, takeover };
  return { kind: "begun", turn: run(write, head), takeover };
}

/** Makes a waiting turn, or one of an older epoch, the running one, and writes its user entries (frozen from here on). */
function run({ db, claim, now }: Write, row: TurnRecord): Turn {
  const attempt = row.attempt + 1;
  db.run(
    "UPDATE turn SET state = 'running', epoch = ?, attempt = ?, begun_at = ? WHERE id = ?",
    claim.epoch,
    attempt,
    now,
    row.id,
  );
  if (attempt === 1) {
    const messages = db.all<{ message_id: number }>(
      "SELECT message_id FROM intake WHERE turn_id = ? ORDER BY message_id",
      row.id,
    );
    for (const { message_id } of messages)
      addEntry(db, row.session_id, { turnId: row.id, messageId: message_id, role: "user" });
  }
  return turnOf({ ...row, state: "running", epoch: claim.epoch, attempt, begun_at: now });
}

function runningTurn(
  db: Database,
  { turnId, attempt }: { readonly turnId: number; readonly attempt: number },
  claim: Claim,
): TurnRecord | undefined {
  return db.get<TurnRecord>(
    "SELECT * FROM turn WHERE id = ? AND state = 'running' AND attempt = ? AND epoch = ?",
    turnId,
    attempt,
    claim.epoch,
  );
}

export function mark(db: Database, change: TurnMark, claim: Claim): Marked | NotRunning {
  const turn = runningTurn(db, change, claim);
  if (turn === undefined) return NOT_RUNNING;
  if (change.stablePart !== undefined) {
    db.run(
      "UPDATE session SET stable_part = ? WHERE id = ? AND stable_part IS NULL",
      change.stablePart,
      turn.session_id,
    );
  }
  if (change.prompt !== undefined) {
    const { text, ...bound } = change.prompt;
    db.run(
      "UPDATE turn SET prompt = ?, seen_bound = ?, prompted = 1 WHERE id = ?",
      text,
      JSON.stringify(bound),
      turn.id,
    );
  }
  if (change.effects === "shown" || (change.effects === "possible" && turn.effects === "none")) {
    db.run("UPDATE turn SET effects = ? WHERE id = ?", change.effects, turn.id);
  }
  if (change.partial !== undefined) db.run("UPDATE turn SET partial = ? WHERE id = ?", change.partial, turn.id);
  if (change.runtime !== undefined) {
    db.run(
      `INSERT INTO runtime_state(session_id, runtime, ref, restarts, last_used_at) VALUES(?, ?, ?, ?, ?)
       ON CONFLICT(session_id, runtime) DO UPDATE SET ref = excluded.ref, restarts = excluded.restarts, last_used_at = excluded.last_used_at`,
      turn.session_id,
      change.runtime.name,
      change.runtime.ref,
      change.runtime.restarts,
      change.now,
    );
  }
  for (const messageId of change.consumed ?? []) consume(db, turn, messageId);
  const target = JSON.parse(turn.target) as Target;
  if (change.question === undefined || target.door === "pull") return { kind: "marked", deliveries: [] };
  const { question: body, now } = change;
  return {
    kind: "marked",
    deliveries: [addDelivery(db, { kind: "notice", target, turnId: turn.id, part: 0, body, now }, claim)],
  };
}

/** Moves a steered message from its waiting turn to the running one; a turn left without messages is deleted (G-CON-05). */
function consume(db: Database, turn: TurnRecord, messageId: number): void {
  const from = db.get<{ turn_id: number }>(
    `SELECT i.turn_id FROM intake i JOIN turn t ON t.id = i.turn_id WHERE i.conversation_id = ? AND i.message_id = ? AND t.state = 'queued'`,
    turn.conversation_id,
    messageId,
  );
  if (from === undefined) return;
  db.run(
    "UPDATE intake SET turn_id = ? WHERE conversation_id = ? AND message_id = ?",
    turn.id,
    turn.conversation_id,
    messageId,
  );
  db.run(
    "UPDATE turn SET messages = messages + 1, authority = ? WHERE id = ?",
    JSON.stringify(authorityWith(db, turn, messageId)),
    turn.id,
  );
  db.run("UPDATE turn SET messages = messages - 1 WHERE id = ?", from.turn_id);
  db.run("DELETE FROM turn WHERE id = ? AND messages = 0", from.turn_id);
  addEntry(db, turn.session_id, { turnId: turn.id, messageId, role: "user" });
}

/** The authority of a turn with a steered message: another author's makes it nobody's in particular (T11). */
function authorityWith(db: Database, turn: TurnRecord, messageId: number): Authority {
  const authority = JSON.parse(turn.authority) as Authority;
  const author = db.get<{ author_kind: string; author_id: string }>(
    "SELECT author_kind, author_id FROM message WHERE id = ?",
    messageId,
  );
  const isTheirs = author?.author_kind === "person" && author.author_id === authority.personId;
  return isTheirs ? authority : { role: authority.role };
}

export function settle(db: Database, settlement: Settlement, claim: Claim): SettleResult {
  const turn = runningTurn(db, settlement, claim);
  if (turn === undefined) return NOT_RUNNING;
  return { ...endTurn({ db, claim, now: settlement.now }, turn, settlement), kind: "settled" };
}
