import type { Notice } from "../../message/notice.ts";
import type { Target } from "../../message/target.ts";
import type { DeliveryRow } from "../rows.ts";
import type { Settled, Settlement, TurnMark } from "../turns.ts";
import type { Database, Write } from "./database.ts";
import { addDelivery, addNotice } from "./deliveries.ts";
import { addEntry, addMessage } from "./messages.ts";
import { sessionRecord } from "./records.ts";
import { type SessionRecord, type TurnRecord, turnOf } from "./rows.ts";

/** Ends running turns: by a settlement, by a recovery, or by a reset inside `admit`. */

/** Marks a running turn as cancelled: its runner ends it, and a recovery does not run it again. */
export function cancel(db: Database, turnId: number, reason: "stopped" | "superseded"): void {
  db.run("UPDATE turn SET reason = ? WHERE id = ? AND state = 'running'", reason, turnId);
}

/** The outcome of a turn and what its runner reports with it. */
type Ending = Pick<Settlement, "outcome" | "parts" | "usage" | "sessionFault" | "runtime" | "trial">;

/** The ending of an interrupted turn: it keeps the text so far and notifies the author. */
export function interruption(turn: Pick<TurnRecord, "partial">, reason: string): Ending {
  const partial = turn.partial ?? "";
  return {
    outcome: { state: "interrupted", reason, partial, notice: { code: "interrupted", args: { partial, reason } } },
  };
}

/** Ends a running turn: the one place where a turn becomes final with its entry, fates and deliveries. */
export function endTurn(write: Write, turn: TurnRecord, ending: Ending): Settled {
  const { db, now, claim } = write;
  const { outcome } = ending;
  const session = sessionRecord(db, turn.session_id)!;
  const said =
    outcome.state === "answered"
      ? storeReply(write, turn, { outcome, session, parts: ending.parts })
      : storeFailure(write, turn, outcome);
  const { text, reason } = said;
  const usage = ending.usage === undefined ? null : JSON.stringify(ending.usage);
  const partial = outcome.state === "answered" ? null : text;
  db.run(
    "UPDATE turn SET state = ?, reason = ?, partial = ?, usage = ?, reply_entry = ?, settled_at = ? WHERE id = ?",
    outcome.state,
    reason,
    partial,
    usage,
    said.entry,
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
  if (ending.runtime !== undefined) keepRuntime(write, session.id, ending.runtime);
  const fellBack = ending.trial === undefined ? null : endTrial(db, session, ending.trial);
  const told =
    fellBack === null ? [] : addNotice(db, { target: targetOf(turn), turnId: turn.id, notice: fellBack, now }, claim);
  countSession(db, session, ending);
  return {
    turn: turnOf({ ...turn, state: outcome.state, reason, partial, usage, settled_at: now }),
    text,
    deliveries: [...said.deliveries, ...told],
    wake: nextSessions(db, turn),
    messageIds: messages.map((row) => row.message_id),
  };
}

function targetOf(turn: TurnRecord): Target {
  return JSON.parse(turn.target) as Target;
}

/** The last words of a turn, as they were stored. */
interface LastWords {
  readonly text: string;
  readonly reason: string | null;
  readonly entry: number | null;
  readonly deliveries: readonly DeliveryRow[];
}

function storeReply(
  { db, now, claim }: Write,
  turn: TurnRecord,
  {
    outcome,
    session,
    parts,
  }: {
    outcome: Extract<Settlement["outcome"], { state: "answered" }>;
    session: SessionRecord;
    parts: readonly string[] | undefined;
  },
): LastWords {
  if (!("text" in outcome)) return { text: "", reason: "silent", entry: null, deliveries: [] };
  const { text } = outcome;
  const author = { kind: "agent", id: session.agent };
  const messageId = addMessage(db, placeOfTurn(db, turn), { author, body: text, now });
  const entry = addEntry(db, session.id, { turnId: turn.id, messageId, role: "assistant" });
  const reply = { kind: "reply", target: targetOf(turn), turnId: turn.id, messageId, now } as const;
  const deliveries = (parts ?? [text]).map((body, part) => addDelivery(db, { ...reply, part, body }, claim));
  return { text, reason: null, entry, deliveries };
}

function storeFailure(
  { db, now, claim }: Write,
  turn: TurnRecord,
  outcome: Extract<Settlement["outcome"], { state: "failed" | "interrupted" }>,
): LastWords {
  const { partial: text, reason, notice } = outcome;
  const entry = addEntry(db, turn.session_id, {
    turnId: turn.id,
    role: text === "" ? "mark" : "assistant",
    mark: outcome.state,
    body: text === "" ? reason : text,
  });
  const deliveries = addNotice(db, { target: targetOf(turn), turnId: turn.id, notice, now }, claim);
  return { text, reason, entry, deliveries };
}

/** Keeps the runtime's health and the reference to resume its session with (B6). */
function keepRuntime(
  { db, now }: Write,
  sessionId: string,
  { name, ref, status, restarts }: NonNullable<Settlement["runtime"]>,
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

/** Ends the trial of a runtime after a switch: if it failed, the conversation goes back to the one before (B7). */
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

/** Counts what the written prompt showed as seen, and removes its notes (R5, H11, B7). */
function useUp(db: Database, turn: TurnRecord): void {
  const bound = JSON.parse(turn.seen_bound ?? "null") as Omit<NonNullable<TurnMark["prompt"]>, "text"> | null;
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

/** The sessions that may begin a turn after this one: its own, and that of its conversation's next turn (T4). */
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
