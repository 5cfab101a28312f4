import type { Authority } from "../../conversation/person.ts";
import type { Notice } from "../../message/notice.ts";
import { laneOf, type Target } from "../../message/target.ts";
import { partsFor } from "../../text/assemble.ts";
import { renderNotice } from "../../text/render-notice.ts";
import type {
  BeginResult,
  Claim,
  DeliveryRow,
  Marked,
  NotRunning,
  Recovery,
  Settled,
  Settlement,
  SettleResult,
  Turn,
  TurnMark,
} from "../store.ts";
import type { Database } from "./database.ts";
import { type DeliveryRecord, deliveryOf, type SessionRecord, type TurnRecord, turnOf } from "./rows.ts";

/** The verbs `begin`, `mark` and `settle`, and what they share with the resets of `admit`. All run inside a transaction. */

/** A delivery that is not final; spelled as in the index of open ones. */
const OPEN = "state IN('queued','sending','streaming')";

const NOT_RUNNING: NotRunning = { kind: "not_running" };

/** After a crash a turn without effects is run again once (T8). */
const MAX_ATTEMPTS = 2;

export function begin(db: Database, request: { sessionId: string; now: number }, claim: Claim): BeginResult {
  let takeover: Recovery | null = null;
  for (;;) {
    const running = db.get<TurnRecord>(
      "SELECT * FROM turn WHERE session_id = ? AND state = 'running'",
      request.sessionId,
    );
    if (running !== undefined) {
      if (running.epoch === claim.epoch) return { kind: "busy" };
      if (running.effects === "none" && running.attempt < MAX_ATTEMPTS && running.reason === null) {
        const turn = run(db, running, request.now, claim);
        return { kind: "begun", turn, takeover: { kind: "rerun", turnId: running.id } };
      }
      const ending = interruption(running, running.reason ?? "crash");
      takeover = { ...endTurn(db, running, ending, request.now, claim), kind: "interrupted" };
      continue;
    }
    const head = db.get<TurnRecord>(
      "SELECT * FROM turn WHERE session_id = ? AND state IN('queued','running') ORDER BY id LIMIT 1",
      request.sessionId,
    );
    if (head === undefined) return { kind: "idle", takeover };
    const older = db.get<{ session_id: string }>(
      "SELECT session_id FROM turn WHERE conversation_id = ? AND state IN('queued','running') AND id < ? ORDER BY id LIMIT 1",
      head.conversation_id,
      head.id,
    );
    if (older !== undefined) return { kind: "blocked", bySession: older.session_id, takeover };
    // A clock set back does not hold a turn longer than its debounce.
    if (head.ready_at > request.now && head.admitted_at <= request.now)
      return { kind: "waiting", until: head.ready_at, takeover };
    return { kind: "begun", turn: run(db, head, request.now, claim), takeover };
  }
}

/** A running turn is to be cancelled: while its runner does so, the reason stands on it, and a take-over does not run it again. */
export function cancel(db: Database, turnId: number, reason: "stopped" | "superseded"): void {
  db.run("UPDATE turn SET reason = ? WHERE id = ? AND state = 'running'", reason, turnId);
}

/** Makes a queued turn, or one of an older epoch, the running one, and writes its user entries (frozen from here on). */
function run(db: Database, row: TurnRecord, now: number, claim: Claim): Turn {
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

export interface NewEntry {
  readonly turnId: number | null;
  readonly messageId?: number;
  readonly role: "user" | "assistant" | "mark";
  readonly mark?: string;
  readonly body?: string;
}

export function addEntry(db: Database, sessionId: string, entry: NewEntry): number {
  const seq = db.get<{ seq: number }>("UPDATE session SET seq = seq + 1 WHERE id = ? RETURNING seq", sessionId)!.seq;
  db.run(
    "INSERT INTO entry(session_id, seq, turn_id, message_id, role, mark, body) VALUES(?, ?, ?, ?, ?, ?, ?)",
    sessionId,
    seq,
    entry.turnId,
    entry.messageId ?? null,
    entry.role,
    entry.mark ?? null,
    entry.body ?? null,
  );
  return seq;
}

function runningTurn(db: Database, turnId: number, attempt: number, claim: Claim): TurnRecord | undefined {
  return db.get<TurnRecord>(
    "SELECT * FROM turn WHERE id = ? AND state = 'running' AND attempt = ? AND epoch = ?",
    turnId,
    attempt,
    claim.epoch,
  );
}

export function mark(db: Database, change: TurnMark, claim: Claim): Marked | NotRunning {
  const turn = runningTurn(db, change.turnId, change.attempt, claim);
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

/** A steered message leaves its waiting turn for the running one; a turn left without messages is gone (G-CON-05). */
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

/** T11: words of less rights are never steered into a turn; words of another person make it nobody's in particular. */
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
  const turn = runningTurn(db, settlement.turnId, settlement.attempt, claim);
  if (turn === undefined) return NOT_RUNNING;
  return { ...endTurn(db, turn, settlement, settlement.now, claim), kind: "settled" };
}

/** What ends a turn: a runner's settlement, or an interruption by a reset or a take-over. */
type Ending = Pick<Settlement, "outcome" | "parts" | "usage" | "sessionFault" | "runtime" | "trial">;

/** An interruption keeps what had been said, and tells the author once. */
export function interruption(turn: Pick<TurnRecord, "partial">, reason: string): Ending {
  const partial = turn.partial ?? "";
  return {
    outcome: { state: "interrupted", reason, partial, notice: { code: "interrupted", args: { partial, reason } } },
  };
}

/** Ends a running turn in whatever way; the one place where a turn becomes final with its entry, fates and deliveries. */
export function endTurn(db: Database, turn: TurnRecord, ending: Ending, now: number, claim: Claim): Settled {
  const outcome = ending.outcome;
  const target = JSON.parse(turn.target) as Target;
  const session = db.get<SessionRecord>("SELECT * FROM session WHERE id = ?", turn.session_id)!;
  const deliveries: DeliveryRow[] = [];
  let entry: number | null = null;
  let reason: string | null = null;
  let text = "";
  const usage = ending.usage === undefined ? null : JSON.stringify(ending.usage);
  if (outcome.state === "answered") {
    if ("text" in outcome) {
      text = outcome.text;
      const messageId = addMessage(db, placeOfTurn(db, turn), {
        author: { kind: "agent", id: session.agent },
        body: text,
        now,
      });
      entry = addEntry(db, session.id, { turnId: turn.id, messageId, role: "assistant" });
      const parts = ending.parts ?? [text];
      for (const [part, body] of parts.entries()) {
        deliveries.push(addDelivery(db, { kind: "reply", target, turnId: turn.id, messageId, part, body, now }, claim));
      }
    } else {
      reason = "silent";
    }
  } else {
    reason = outcome.reason;
    text = outcome.partial;
    entry = addEntry(db, session.id, {
      turnId: turn.id,
      role: text === "" ? "mark" : "assistant",
      mark: outcome.state,
      body: text === "" ? outcome.reason : text,
    });
    deliveries.push(...addNotice(db, { target, turnId: turn.id, notice: outcome.notice, now }, claim));
  }
  db.run(
    "UPDATE turn SET state = ?, reason = ?, partial = ?, usage = ?, reply_entry = ?, settled_at = ? WHERE id = ?",
    outcome.state,
    reason,
    outcome.state === "answered" ? null : text,
    usage,
    entry,
    now,
    turn.id,
  );
  const messages = db.all<{ message_id: number }>(
    "UPDATE intake SET fate = ?, reason = ? WHERE turn_id = ? AND fate IS NULL RETURNING message_id",
    outcome.state,
    reason,
    turn.id,
  );
  if (turn.prompted === 1) useUp(db, turn);
  if (ending.runtime !== undefined) keepRuntime(db, session.id, ending.runtime, now);
  if (ending.trial !== undefined) {
    const fellBack = endTrial(db, session, ending.trial);
    if (fellBack !== null) deliveries.push(...addNotice(db, { target, turnId: turn.id, notice: fellBack, now }, claim));
  }
  countSession(db, session, ending);
  return {
    turn: turnOf({
      ...turn,
      state: outcome.state,
      reason,
      partial: outcome.state === "answered" ? null : text,
      usage,
      settled_at: now,
    }),
    text,
    deliveries,
    wake: nextSessions(db, turn),
    messageIds: messages.map((row) => row.message_id),
  };
}

/** B6: how the runtime is, and by what its session is opened next time. */
function keepRuntime(
  db: Database,
  sessionId: string,
  { name, ref, status, restarts }: NonNullable<Settlement["runtime"]>,
  now: number,
): void {
  db.run(
    `INSERT INTO runtime_state(session_id, runtime, ref, status, restarts, last_used_at) VALUES(?, ?, ?, ?, ?, ?)
     ON CONFLICT(session_id, runtime) DO UPDATE SET ref = coalesce(excluded.ref, ref), status = excluded.status,
       restarts = excluded.restarts, last_used_at = excluded.last_used_at`,
    sessionId,
    name,
    ref ?? null,
    status,
    restarts,
    now,
  );
}

/** B7: a runtime that fails its first turn is left again, and both the people and the agent are told. */
function endTrial(
  db: Database,
  { id, home }: SessionRecord,
  { chosen, runtime, outcome }: NonNullable<Settlement["trial"]>,
): Notice | null {
  const choice = db.get<{ runtime_before: string | null }>(
    "SELECT runtime_before FROM conversation WHERE id = ? AND runtime_trial = 1 AND runtime IS ?",
    home,
    chosen,
  );
  if (choice === undefined) return null;
  if (outcome === "passed") {
    db.run("UPDATE conversation SET runtime_trial = 0 WHERE id = ?", home);
    return null;
  }
  const { runtime_before: to } = choice;
  db.run("UPDATE conversation SET runtime = ?, runtime_before = ?, runtime_trial = 0 WHERE id = ?", to, runtime, home);
  db.run("DELETE FROM note WHERE session_id = ? AND code = 'runtime_changed'", id);
  return { code: "fell_back", args: { from: runtime, to } };
}

interface ShownBound {
  seen: { placeId: number; throughSeq: number };
  notesThrough: number;
  entriesThrough: number;
  runtime: string;
}

/** The prompt was written: what it showed counts as seen, and its notes are used up (R5, H11, B7). */
function useUp(db: Database, turn: TurnRecord): void {
  const bound = JSON.parse(turn.seen_bound ?? "null") as ShownBound | null;
  if (bound === null) return;
  db.run(
    `INSERT INTO seen(session_id, place_id, through_seq) VALUES(?, ?, ?)
     ON CONFLICT(session_id, place_id) DO UPDATE SET through_seq = max(through_seq, excluded.through_seq)`,
    turn.session_id,
    bound.seen.placeId,
    bound.seen.throughSeq,
  );
  if (bound.notesThrough > 0)
    db.run("DELETE FROM note WHERE session_id = ? AND n <= ?", turn.session_id, bound.notesThrough);
  db.run(
    `INSERT INTO runtime_state(session_id, runtime, seen_through) VALUES(?, ?, ?)
     ON CONFLICT(session_id, runtime) DO UPDATE SET seen_through = max(seen_through, excluded.seen_through)`,
    turn.session_id,
    bound.runtime,
    bound.entriesThrough,
  );
}

function countSession(db: Database, session: SessionRecord, ending: Ending): void {
  const failures = ending.sessionFault
    ? session.failures + 1
    : ending.outcome.state === "answered"
      ? 0
      : session.failures;
  // Three failures of the session's own making in a row: it is suspended, and the next message starts anew (R7).
  const suspended = failures >= 3 ? "failures" : session.suspended;
  if (ending.usage === undefined && failures === session.failures && suspended === session.suspended) return;
  db.run(
    `UPDATE session SET failures = ?, suspended = ?, tokens_input = tokens_input + ?, tokens_output = tokens_output + ?,
       tokens_cache_read = tokens_cache_read + ?, tokens_cache_write = tokens_cache_write + ?,
       tokens_last_prompt = coalesce(?, tokens_last_prompt) WHERE id = ?`,
    failures,
    suspended,
    ending.usage?.input ?? 0,
    ending.usage?.output ?? 0,
    ending.usage?.cachedInput ?? 0,
    ending.usage?.cacheWrite ?? 0,
    ending.usage?.input ?? null,
    session.id,
  );
}

/** After a turn ended: its session if something waits there, and the session of its conversation's next open turn (T4). */
export function nextSessions(db: Database, turn: { session_id: string; conversation_id: number }): string[] {
  const here = db.get<{ session_id: string }>(
    "SELECT session_id FROM turn WHERE session_id = ? AND state = 'queued' LIMIT 1",
    turn.session_id,
  );
  const next = db.get<{ session_id: string }>(
    "SELECT session_id FROM turn WHERE conversation_id = ? AND state = 'queued' ORDER BY id LIMIT 1",
    turn.conversation_id,
  );
  return [...new Set([here, next].flatMap((row) => row?.session_id ?? []))];
}

function placeOfTurn(db: Database, turn: TurnRecord): number {
  return db.get<{ place_id: number }>(
    "SELECT m.place_id FROM intake i JOIN message m ON m.id = i.message_id WHERE i.turn_id = ? ORDER BY i.message_id DESC LIMIT 1",
    turn.id,
  )!.place_id;
}

export interface NewMessage {
  readonly author: { readonly kind: string; readonly id: string; readonly name?: string };
  readonly body: string;
  readonly now: number;
  readonly saidAt?: number;
  readonly externalId?: string;
  readonly source?: string;
  readonly replyTo?: string;
  readonly instructions?: string;
}

/** Stores a message once in its place and gives it the place's next number. */
export function addMessage(db: Database, placeId: number, message: NewMessage): number {
  const seq = db.get<{ seq: number }>("UPDATE place SET seq = seq + 1 WHERE id = ? RETURNING seq", placeId)!.seq;
  return db.insert(
    `INSERT INTO message(place_id, place_seq, author_kind, author_id, author_name, ext_id, said_at, admitted_at, body, source, reply_to, instructions)
     VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    placeId,
    seq,
    message.author.kind,
    message.author.id,
    message.author.name ?? null,
    message.externalId ?? null,
    message.saidAt ?? message.now,
    message.now,
    message.body,
    message.source ?? null,
    message.replyTo ?? null,
    message.instructions ?? null,
  );
}

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
