import type { AgentFacts } from "../../../conversation/agent-facts.ts";
import type { Notice } from "../../../message/notice.ts";
import type { Target } from "../../../message/target.ts";
import type { AdmitRules } from "../../events.ts";
import type { BoundBy } from "../../turns.ts";
import type { Database } from "../database.ts";
import { addNotice } from "../deliveries.ts";
import { bindingsOf, conversationRecord, currentSession, hasOpenTurn, sessionRecord } from "../records.ts";
import { type DroppedBinding, policyOf, routeOf } from "../route.ts";
import { type BindingRecord, type ConversationRecord, type SessionRecord, type TurnRecord, turnOf } from "../rows.ts";
import { endTurn, interruption, nextSessions } from "../turn-ending.ts";
import { type Admission, notify } from "./admission.ts";

/** Opens, resets, ends and re-opens sessions inside `admit`, with everything that hangs on them. */

/** Why turns end with their session, as their authors are told. */
export type TurnsEndBy = "reset" | "resumed" | "switched";

/** Follows the route of the next message (H2–H4, H10): drops what does not hold any more, and opens or resets the own session. */
export function resolveSession(
  admission: Admission,
  conversation: ConversationRecord,
  rules: AdmitRules,
): { readonly sessionId: string; readonly bound: BoundBy | null } {
  const route = routeOf(admission, conversation, rules);
  for (const binding of route.dropped) endBinding(admission, conversation, binding);
  for (const { session, reason } of route.abandoned) {
    closeSession(admission, session, reason);
    releaseGuests(admission, session.id, reason);
  }
  admission.consequences.putOff.push(...route.putOff);
  if (route.kind === "bound") return { sessionId: route.sessionId, bound: route.by };
  keepPolicy(admission, conversation, rules);
  if (route.kind === "own") return { sessionId: route.sessionId, bound: null };
  if (route.resetReason !== null)
    return { sessionId: resetByPolicy(admission, conversation, { rules, reason: route.resetReason }), bound: null };
  welcome(admission, conversation, rules);
  return { sessionId: openSession(admission, conversation, { openedBy: "message", parent: null }), bound: null };
}

/** Stores the policy in force: the home's last policy decides where others are bound to its session. */
function keepPolicy({ db }: Admission, conversation: ConversationRecord, rules: AdmitRules): void {
  const policy = JSON.stringify(policyOf(conversation, rules));
  if (conversation.reset_policy !== policy)
    db.run("UPDATE conversation SET reset_policy = ? WHERE id = ?", policy, conversation.id);
}

function resetByPolicy(
  admission: Admission,
  conversation: ConversationRecord,
  { rules, reason }: { readonly rules: AdmitRules; readonly reason: string },
): string {
  const { db } = admission;
  const previous = currentSession(db, conversation)!;
  const session = resetSession(admission, conversation, reason);
  if (policyOf(conversation, rules).notify && previous.seq > 0) {
    const args = { reason, session, previous: previous.id, jobs: openJobs(db, previous.id), ...factsOf(rules.about) };
    notify(admission, JSON.parse(conversation.target) as Target, { code: "session_reset", args });
  }
  return session;
}

function factsOf(about: AgentFacts | undefined): Notice["args"] {
  return about === undefined ? {} : { ...about };
}

/** The titles of a session's open jobs, or null. */
function openJobs(db: Database, sessionId: string): string | null {
  const jobs = db.all<{ title: string }>(
    "SELECT title FROM job WHERE session_id = ? AND closed_at IS NULL ORDER BY opened_at, id",
    sessionId,
  );
  return jobs.length === 0 ? null : jobs.map(({ title }) => title).join(", ");
}

/** Welcomes somebody in a direct chat who never had a session (R8). */
function welcome(admission: Admission, conversation: ConversationRecord, rules: AdmitRules): void {
  if (rules.welcome !== true || conversation.kind === "once") return;
  const { db } = admission;
  const { chat_type } = db.get<{ chat_type: string }>(
    "SELECT chat_type FROM place WHERE id = ?",
    conversation.place_id,
  )!;
  if (chat_type !== "dm") return;
  const any =
    conversation.person_id === null
      ? db.get(
          `SELECT 1 FROM place here JOIN place p ON p.platform = here.platform AND p.chat_id = here.chat_id
           JOIN conversation c ON c.place_id = p.id JOIN session s ON s.home = c.id WHERE here.id = ? LIMIT 1`,
          conversation.place_id,
        )
      : db.get("SELECT 1 FROM session WHERE owner_person = ? LIMIT 1", conversation.person_id);
  if (any !== undefined) return;
  notify(admission, JSON.parse(conversation.target) as Target, { code: "welcome", args: factsOf(rules.about) });
}

// ---- opening

function openSession(
  admission: Admission,
  conversation: ConversationRecord,
  options: { openedBy: string; parent: SessionRecord | null },
): string {
  const { db, now } = admission;
  const id = admission.nextId();
  db.run(
    "INSERT INTO session(id, home, agent, owner_person, parent_id) VALUES(?, ?, ?, ?, ?)",
    id,
    conversation.id,
    conversation.agent,
    conversation.person_id,
    options.parent?.id ?? null,
  );
  db.run("INSERT INTO span(session_id, n, opened_at, opened_by) VALUES(?, 1, ?, ?)", id, now, options.openedBy);
  db.run("UPDATE conversation SET current_session = ? WHERE id = ?", id, conversation.id);
  // After a reset, earlier messages of the place never come back as news; a conversation's first session is given them (H11).
  if (options.openedBy !== "message") {
    const through = options.openedBy === "new" ? null : saidSince(db, conversation, options.parent);
    db.run(
      "INSERT INTO seen(session_id, place_id, through_seq) SELECT ?, id, coalesce(?, seq) FROM place WHERE id = ?",
      id,
      through,
      conversation.place_id,
    );
  }
  if (options.parent !== null) {
    const args = { reason: options.openedBy, previous: options.parent.id, endedAt: now };
    addNote(db, id, { code: "session_reset", args });
  }
  return id;
}

/** The number before the agent's first send into the place since the session's last turn: those are news after a reset too (G-HND-02). */
function saidSince(db: Database, { agent, place_id }: ConversationRecord, old: SessionRecord | null): number | null {
  if (old === null) return null;
  return (
    db.get<{ before: number | null }>(
      `SELECT min(m.place_seq) - 1 AS before FROM message m JOIN delivery d ON d.message_id = m.id AND d.kind = 'send' AND d.part = 0
       WHERE m.place_id = ?1 AND m.author_kind = 'agent' AND m.author_id = ?2
       AND m.place_seq > coalesce((SELECT through_seq FROM seen WHERE session_id = ?3 AND place_id = ?1), 0)`,
      place_id,
      agent,
      old.id,
    )?.before ?? null
  );
}

/** The conversation's own session; opens its first one without a welcome. */
export function firstSession(admission: Admission, conversation: ConversationRecord): string {
  return conversation.current_session ?? openSession(admission, conversation, { openedBy: "message", parent: null });
}

/** Opens a new span of a session that has ended. Messages of its home's place meanwhile are no news (H11), and its clock starts anew. */
export function reopenSession({ db, now }: Admission, session: SessionRecord): void {
  db.run(
    "UPDATE session SET ended_at = NULL, suspended = NULL, failures = 0, last_human_at = ? WHERE id = ?",
    now,
    session.id,
  );
  if (session.ended_at === null) return;
  db.run(
    "INSERT INTO span(session_id, n, opened_at, opened_by) SELECT ?1, max(n) + 1, ?2, 'resume' FROM span WHERE session_id = ?1",
    session.id,
    now,
  );
  db.run(
    `INSERT INTO seen(session_id, place_id, through_seq) SELECT ?, p.id, p.seq FROM place p JOIN conversation c ON c.place_id = p.id WHERE c.id = ?
     ON CONFLICT(session_id, place_id) DO UPDATE SET through_seq = max(through_seq, excluded.through_seq)`,
    session.id,
    session.home,
  );
}

// ---- ending

/**
 * Ends the conversation's session and opens the next one (R4). Its running turn is interrupted, waiting turns of its own conversation are
 * withdrawn, those of conversations bound to it move to their own sessions; its bindings end (H9).
 */
export function resetSession(admission: Admission, conversation: ConversationRecord, reason: string): string {
  const old = currentSession(admission.db, conversation);
  if (old === undefined) return openSession(admission, conversation, { openedBy: reason, parent: null });
  closeSession(admission, old, reason);
  const next = openSession(admission, conversation, { openedBy: reason, parent: old });
  releaseGuests(admission, old.id, reason);
  return next;
}

/** Makes an earlier session of the conversation the current one; the one left ends as at a reset (R6). */
export function goOnIn(
  admission: Admission,
  conversation: ConversationRecord,
  { session, reason }: { readonly session: SessionRecord; readonly reason: "resumed" | "undone" },
): void {
  const old = currentSession(admission.db, conversation);
  const isLeft = old !== undefined && old.id !== session.id;
  if (isLeft) closeSession(admission, old, reason);
  reopenSession(admission, session);
  admission.db.run("UPDATE conversation SET current_session = ? WHERE id = ?", session.id, conversation.id);
  if (isLeft) releaseGuests(admission, old.id, reason);
}

/** Ends a session's span, its running turn, and the waiting turns of its home. The caller releases its guests. */
function closeSession(admission: Admission, session: SessionRecord, reason: string): void {
  const { db, now, consequences } = admission;
  db.run(
    "UPDATE span SET ended_at = ?, end_reason = ? WHERE session_id = ? AND ended_at IS NULL",
    now,
    reason,
    session.id,
  );
  db.run("UPDATE session SET ended_at = ? WHERE id = ?", now, session.id);
  consequences.ended.push({ sessionId: session.id, reason });
  const why = reason === "resumed" ? "resumed" : "reset";
  interruptRunning(admission, session.id, { why });
  withdrawQueued(admission, session.id, { conversationId: session.home, why });
}

/** Ends a session that was re-opened for another door (R6), once nothing speaks in it any more. */
export function endIfLeft(admission: Admission, sessionId: string): void {
  const { db } = admission;
  const session = sessionRecord(db, sessionId);
  if (session === undefined || session.ended_at !== null) return;
  if (conversationRecord(db, session.home).current_session === sessionId || hasOpenTurn(db, sessionId)) return;
  if (db.get("SELECT 1 FROM binding WHERE session_id = ? LIMIT 1", sessionId) !== undefined) return;
  closeSession(admission, session, "left");
}

/** Interrupts the running turn of a session; only that of one conversation, if one is named. */
function interruptRunning(
  admission: Admission,
  sessionId: string,
  { conversationId, why }: { readonly conversationId?: number; readonly why: TurnsEndBy },
): void {
  const { db, consequences } = admission;
  const turn = db.get<TurnRecord>("SELECT * FROM turn WHERE session_id = ? AND state = 'running'", sessionId);
  if (turn === undefined || (conversationId !== undefined && turn.conversation_id !== conversationId)) return;
  const settled = endTurn(admission, turn, interruption(turn, why));
  consequences.settled.push(settled);
  consequences.wake.push(...settled.wake);
}

/** Withdraws a conversation's waiting turns in a session and notifies their authors. */
function withdrawQueued(
  admission: Admission,
  sessionId: string,
  { conversationId, why }: { readonly conversationId: number; readonly why: TurnsEndBy },
): void {
  const { db } = admission;
  const turns = db.all<TurnRecord>(
    "SELECT * FROM turn WHERE session_id = ? AND conversation_id = ? AND state = 'queued' ORDER BY id",
    sessionId,
    conversationId,
  );
  for (const turn of turns) {
    withdrawTurn(admission, turn, {
      why,
      noticeFor: (messages) => ({ code: "withdrawn", args: { messages, reason: why } }),
    });
  }
}

/** Withdraws a waiting turn. The notice, if its authors get one, goes out with the settled turn, not among the event's own notices. */
export function withdrawTurn(
  { db, now, claim, consequences }: Admission,
  turn: TurnRecord,
  { why, noticeFor }: { readonly why: string; readonly noticeFor?: (messages: number) => Notice },
): void {
  const { id } = turn;
  const withdrawn = db.get<TurnRecord>(
    "UPDATE turn SET state = 'withdrawn', reason = ?, settled_at = ? WHERE id = ? RETURNING *",
    why,
    now,
    id,
  )!;
  const messageIds = db
    .all<{ message_id: number }>(
      "UPDATE intake SET fate = 'withdrawn', reason = ? WHERE turn_id = ? AND fate IS NULL RETURNING message_id",
      why,
      id,
    )
    .map((row) => row.message_id);
  const target = JSON.parse(turn.target) as Target;
  const notice = noticeFor?.(messageIds.length);
  const deliveries = notice === undefined ? [] : addNotice(db, { target, turnId: id, notice, now }, claim);
  consequences.settled.push({ turn: turnOf(withdrawn), text: "", deliveries, wake: [], messageIds });
  consequences.wake.push(...nextSessions(db, turn));
}

/** Sends the guests of an ended session home: their bindings end, their waiting turns move to their own sessions, their doors are notified. */
function releaseGuests(admission: Admission, sessionId: string, reason: string): void {
  const { db, consequences } = admission;
  const guests = db.all<{ conversation_id: number }>(
    `SELECT DISTINCT conversation_id FROM (SELECT conversation_id FROM turn WHERE session_id = ?1 AND state = 'queued'
     UNION SELECT conversation_id FROM binding WHERE session_id = ?1)`,
    sessionId,
  );
  for (const { conversation_id } of guests) {
    const guest = conversationRecord(db, conversation_id);
    const unbound = db.run("DELETE FROM binding WHERE conversation_id = ? AND session_id = ?", guest.id, sessionId);
    const own = firstSession(admission, guest);
    const moved = db.run(
      "UPDATE turn SET session_id = ?, bound = NULL WHERE session_id = ? AND conversation_id = ? AND state = 'queued'",
      own,
      sessionId,
      guest.id,
    );
    if (moved > 0) consequences.wake.push(own);
    if (unbound === 0) continue;
    addNote(db, own, { code: "handoff_ended", args: { session: sessionId, why: "ended" } });
    const notice: Notice = { code: "session_ended_here", args: { session: sessionId, reason } };
    notify(admission, JSON.parse(guest.target) as Target, notice);
  }
}

/** Ends a session that its program does not have any more (H10). The turn that was to run in it has shown nothing: it waits again, elsewhere. */
export function loseSession(admission: Admission, session: SessionRecord, turn: TurnRecord): void {
  const { db } = admission;
  db.run("DELETE FROM entry WHERE turn_id = ?", turn.id);
  db.run("UPDATE turn SET state = 'queued', attempt = 0, epoch = NULL, begun_at = NULL WHERE id = ?", turn.id);
  closeSession(admission, session, "gone");
  releaseGuests(admission, session.id, "gone");
  notify(admission, JSON.parse(conversationRecord(db, session.home).target) as Target, {
    code: "binding_ended",
    args: { session: session.id, reason: "gone", door: conversationRecord(db, turn.conversation_id).key },
  });
}

// ---- bindings that end

/** Removes a binding that does not hold any more; after a fault both conversations are notified (H10). */
function endBinding(
  admission: Admission,
  conversation: ConversationRecord,
  { binding, why, isFault }: DroppedBinding,
): void {
  const { session_id: session } = binding;
  dropBinding(admission, binding, why);
  if (!isFault) return;
  const notice: Notice = { code: "binding_ended", args: { session, reason: why, door: conversation.key } };
  notify(admission, JSON.parse(conversation.target) as Target, notice);
  const home = sessionRecord(admission.db, session)?.home;
  if (home !== undefined)
    notify(admission, JSON.parse(conversationRecord(admission.db, home).target) as Target, notice);
}

/** Deletes a binding; the conversation's own session is told in its next turn (H3). */
export function dropBinding(admission: Admission, binding: BindingRecord, why: string): void {
  const { db } = admission;
  const { conversation_id: conversationId, session_id: session } = binding;
  db.run("DELETE FROM binding WHERE conversation_id = ? AND kind = ?", conversationId, binding.kind);
  endIfLeft(admission, session);
  const own = conversationRecord(db, conversationId).current_session;
  if (own !== null) addNote(db, own, { code: "handoff_ended", args: { session, why } });
}

/** Unbinds a conversation and ends its own turns in other conversations' sessions: a /new in a bound chat acts on that chat (H9). */
export function leaveForeignSessions(
  admission: Admission,
  conversation: ConversationRecord,
  why: TurnsEndBy = "reset",
): void {
  const { db } = admission;
  const conversationId = conversation.id;
  const bindings = bindingsOf(db, conversationId);
  db.run("DELETE FROM binding WHERE conversation_id = ?", conversationId);
  const foreign = db.all<{ session_id: string }>(
    "SELECT DISTINCT session_id FROM turn WHERE conversation_id = ? AND state IN('queued','running') AND session_id <> ?",
    conversationId,
    conversation.current_session ?? "",
  );
  for (const { session_id } of foreign) {
    interruptRunning(admission, session_id, { conversationId, why });
    withdrawQueued(admission, session_id, { conversationId, why });
  }
  for (const { session_id } of bindings) endIfLeft(admission, session_id);
}

/** Adds a note that the session's agent reads in its next turn. */
export function addNote(
  db: Database,
  sessionId: string,
  { code, args }: { readonly code: string; readonly args: Readonly<Record<string, string | number | null>> },
): void {
  db.run(
    "INSERT INTO note(session_id, n, code, args) VALUES(?1, coalesce((SELECT max(n) FROM note WHERE session_id = ?1), 0) + 1, ?2, ?3)",
    sessionId,
    code,
    JSON.stringify(args),
  );
}
