import type { AgentFacts } from "../../conversation/agent-facts.ts";
import { bindingFault, bindingState, isAmongOwn, type Readers } from "../../conversation/binding.ts";
import { type ResetPolicy, resetReasonOf } from "../../conversation/reset-policy.ts";
import type { Notice } from "../../message/notice.ts";
import type { Target } from "../../message/target.ts";
import type { AdmitRules, BindingRow, BoundBy, Claim, DeliveryRow, EndedSession, PutOff, Settled } from "../store.ts";
import type { Database } from "./database.ts";
import { hasOtherReaders } from "./rooms.ts";
import {
  type BindingRecord,
  bindingOf,
  type ConversationRecord,
  type SessionRecord,
  type TurnRecord,
  turnOf,
} from "./rows.ts";
import { addNotice, endTurn, interruption, nextSessions } from "./turns.ts";

/** Sessions and bindings inside `admit`: which session a message lands in, and what a reset does to everything around it. */

/** One admit of one event: the transaction, and what it causes besides its own row. */
export interface Admit {
  readonly db: Database;
  readonly claim: Claim;
  readonly now: number;
  /** Takes the next id for a session (`<freshId>`, `<freshId>-1`, …). */
  nextId(): string;
  readonly notices: DeliveryRow[];
  readonly ended: EndedSession[];
  readonly rewound: string[];
  readonly putOff: PutOff[];
  readonly settled: Settled[];
  readonly wake: Set<string>;
}

export interface Landing {
  readonly sessionId: string;
  readonly bound: BoundBy | null;
}

export function tell(admit: Admit, target: Target, notice: Notice): void {
  const { db, now, claim } = admit;
  admit.notices.push(...addNotice(db, { target, notice, now }, claim));
}

export function conversationRecord(db: Database, id: number): ConversationRecord {
  return db.get<ConversationRecord>("SELECT * FROM conversation WHERE id = ?", id)!;
}

export function sessionRecord(db: Database, id: string): SessionRecord | undefined {
  return db.get<SessionRecord>("SELECT * FROM session WHERE id = ?", id);
}

export function bindingsOf(db: Database, conversationId: number): BindingRecord[] {
  return db.all<BindingRecord>(
    "SELECT b.*, c.key FROM binding b JOIN conversation c ON c.id = b.conversation_id WHERE b.conversation_id = ? ORDER BY b.kind",
    conversationId,
  );
}

/** H2–H4, H10: live, else pinned, else the configured one, else the conversation's own, which may have to be reset first. */
export function resolveSession(admit: Admit, conversation: ConversationRecord, rules: AdmitRules): Landing {
  const { landing, dropped, abandoned, putOff } = boundLanding(admit, conversation, rules);
  for (const one of dropped) endBinding(admit, conversation, one);
  for (const { session, reason } of abandoned) {
    closeSession(admit, session, reason);
    releaseGuests(admit, session.id, reason);
  }
  admit.putOff.push(...putOff);
  return landing ?? { sessionId: ownSession(admit, conversation, rules), bound: null };
}

/** What decides a landing; `admit` is more than that. */
export type Moment = Pick<Admit, "db" | "now">;

/** A binding that does not hold any more. `isFault`: something happened to its session, and both doors are told (H10). */
export interface DroppedBinding {
  readonly binding: BindingRecord;
  readonly why: string;
  readonly isFault: boolean;
}

export interface BoundLanding {
  readonly landing: Landing | null;
  readonly dropped: readonly DroppedBinding[];
  /** Sessions that are due and current nowhere: no door would reset them. */
  readonly abandoned: readonly { readonly session: SessionRecord; readonly reason: string }[];
  readonly putOff: readonly PutOff[];
}

type LandingRules = Pick<AdmitRules, "defaultSession" | "jobHoldMs" | "share">;

/** The session of another home that a conversation speaks in, if any, and what was found on the way. Reads only. */
export function boundLanding(moment: Moment, conversation: ConversationRecord, rules: LandingRules): BoundLanding {
  const dropped: DroppedBinding[] = [];
  const abandoned: { session: SessionRecord; reason: string }[] = [];
  const putOff: PutOff[] = [];
  const isDue = (session: SessionRecord): boolean => {
    const due = homeDue(moment, session, rules);
    if (due.putOff !== null) putOff.push(due.putOff);
    const isCurrent = conversationRecord(moment.db, session.home).current_session === session.id;
    // Its own door will reset it with its next message; until then this one falls back (H9).
    if (due.reason !== null && !isCurrent) abandoned.push({ session, reason: due.reason });
    return due.reason !== null;
  };
  for (const binding of bindingsOf(moment.db, conversation.id)) {
    const fault = faultOf(moment, conversation, binding, rules);
    if (fault !== null) dropped.push({ binding, ...fault });
    else if (!isDue(sessionRecord(moment.db, binding.session_id)!)) {
      return { landing: { sessionId: binding.session_id, bound: binding.kind }, dropped, abandoned, putOff };
    }
  }
  const fallback = rules.defaultSession === undefined ? undefined : sessionRecord(moment.db, rules.defaultSession);
  const landing: Landing | null =
    isFallback(fallback, conversation, { db: moment.db, rules }) && !isDue(fallback)
      ? { sessionId: fallback.id, bound: "default" }
      : null;
  return { landing, dropped, abandoned, putOff };
}

/** Whether a configured session is one to speak in here: alive, elsewhere at home, and of nobody else (H4, H7). */
export function isFallback(
  session: SessionRecord | undefined,
  conversation: ConversationRecord,
  { db, rules }: { db: Database; rules: Pick<AdmitRules, "share"> },
): session is SessionRecord {
  return (
    session !== undefined &&
    session.ended_at === null &&
    session.suspended === null &&
    session.agent === conversation.agent &&
    session.home !== conversation.id &&
    isAmongOwn(readersOf(db, conversation, { rules, owner: session.owner_person }), {
      ownerPerson: session.owner_person,
    })
  );
}

/** Who reads along in a conversation, as far as it decides what may be spoken there (H7). */
export function readersOf(
  db: Database,
  conversation: { readonly person_id: string | null; readonly place_id: number | null },
  { rules, owner }: { rules: Pick<AdmitRules, "share">; owner: string | null },
): Readers {
  const { person_id: personId, place_id: placeId } = conversation;
  const othersRead = personId === null && placeId !== null && hasOtherReaders(db, placeId, owner);
  return { personId, isShared: rules.share === true, othersRead };
}

/** Why a binding does not hold any more, or null. */
function faultOf(
  moment: Moment,
  conversation: ConversationRecord,
  binding: BindingRecord,
  rules: Pick<AdmitRules, "share">,
): { why: string; isFault: boolean } | null {
  const state = bindingState(bindingOf(binding), moment.now);
  if (state !== "valid") return { why: state === "expired" ? "expired" : "clock", isFault: false };
  const session = sessionRecord(moment.db, binding.session_id);
  const fault = bindingFault(
    { setBy: binding.set_by, shared: binding.shared === 1 },
    {
      agent: conversation.agent,
      ...readersOf(moment.db, conversation, { rules, owner: session?.owner_person ?? null }),
    },
    session === undefined
      ? null
      : {
          agent: session.agent,
          ownerPerson: session.owner_person,
          endedAt: session.ended_at,
          suspended: session.suspended,
        },
  );
  return fault === null ? null : { why: fault, isFault: true };
}

/** Removes a binding that does not hold; who must know is told. */
function endBinding(admit: Admit, conversation: ConversationRecord, { binding, why, isFault }: DroppedBinding): void {
  dropBinding(admit, binding);
  noteHandoffEnded(admit, conversation, binding.session_id, why);
  if (!isFault) return;
  const notice: Notice = {
    code: "binding_ended",
    args: { session: binding.session_id, reason: why, door: conversation.key },
  };
  tell(admit, JSON.parse(conversation.target) as Target, notice);
  const session = sessionRecord(admit.db, binding.session_id);
  if (session !== undefined)
    tell(admit, JSON.parse(conversationRecord(admit.db, session.home).target) as Target, notice);
}

/** Whether the clock ends a session now (R2): the reason, or null to keep; a reset that is put off says by what. */
export interface Due {
  readonly reason: string | null;
  readonly putOff: PutOff | null;
}

const NOT_DUE: Due = { reason: null, putOff: null };

/** By the policy of its home, as that last had it. */
function homeDue(moment: Moment, session: SessionRecord, { jobHoldMs }: LandingRules): Due {
  const home = conversationRecord(moment.db, session.home);
  if (home.reset_policy === null) return NOT_DUE;
  return clockDue(moment, session, JSON.parse(home.reset_policy) as ResetPolicy, jobHoldMs);
}

/** Why a conversation's own session has to be followed by a new one before the next message. */
export function ownDue(
  moment: Moment,
  conversation: ConversationRecord,
  current: SessionRecord,
  rules: Pick<AdmitRules, "reset" | "jobHoldMs">,
): Due {
  if (current.suspended !== null) return { reason: "suspended", putOff: null };
  return clockDue(moment, current, policyOf(conversation, rules), rules.jobHoldMs);
}

/** The conversation's own session, if the next message would go on in it; reads only. */
export function sessionThatGoesOn(
  moment: Moment,
  conversation: ConversationRecord,
  rules: Pick<AdmitRules, "reset" | "jobHoldMs">,
): string | null {
  const current =
    conversation.current_session === null ? undefined : sessionRecord(moment.db, conversation.current_session);
  return current !== undefined && ownDue(moment, conversation, current, rules).reason === null ? current.id : null;
}

/** The clock's reason, unless a turn or a young job holds the session. */
function clockDue(moment: Moment, session: SessionRecord, policy: ResetPolicy, jobHoldMs: number): Due {
  if (policy.mode === "none") return NOT_DUE;
  const lastHumanAt = session.last_human_at ?? openedAt(moment.db, session.id);
  const reason = resetReasonOf({ policy, lastHumanAt, now: moment.now });
  if (reason === null) return NOT_DUE;
  const heldBy = holderOf(moment, session.id, jobHoldMs);
  if (heldBy === null) return { reason, putOff: null };
  return { reason: null, putOff: { sessionId: session.id, reason, heldBy } };
}

function holderOf({ db, now }: Moment, sessionId: string, jobHoldMs: number): PutOff["heldBy"] | null {
  if (hasOpenTurn(db, sessionId)) return "turn";
  const job = db.get(
    "SELECT 1 FROM job WHERE session_id = ? AND closed_at IS NULL AND opened_at > ? LIMIT 1",
    sessionId,
    now - jobHoldMs,
  );
  return job === undefined ? null : "job";
}

function openedAt(db: Database, sessionId: string): number {
  return db.get<{ opened_at: number }>(
    "SELECT opened_at FROM span WHERE session_id = ? ORDER BY n DESC LIMIT 1",
    sessionId,
  )!.opened_at;
}

export function hasOpenTurn(db: Database, sessionId: string): boolean {
  return (
    db.get("SELECT 1 FROM turn WHERE session_id = ? AND state IN('queued','running') LIMIT 1", sessionId) !== undefined
  );
}

function dropBinding(admit: Admit, binding: BindingRecord): void {
  admit.db.run("DELETE FROM binding WHERE conversation_id = ? AND kind = ?", binding.conversation_id, binding.kind);
  endIfLeft(admit, binding.session_id);
}

/** A session that was re-opened for another door (R6) ends when no door speaks in it any more. */
function endIfLeft(admit: Admit, sessionId: string): void {
  const { db } = admit;
  const session = sessionRecord(db, sessionId);
  if (session === undefined || session.ended_at !== null) return;
  if (conversationRecord(db, session.home).current_session === sessionId || hasOpenTurn(db, sessionId)) return;
  if (db.get("SELECT 1 FROM binding WHERE session_id = ? LIMIT 1", sessionId) !== undefined) return;
  closeSession(admit, session, "left");
}

/** The room falls back by itself, and its own session is told in its next turn (H3). */
function noteHandoffEnded(admit: Admit, conversation: ConversationRecord, sessionId: string, why: string): void {
  const own = conversationRecord(admit.db, conversation.id).current_session;
  if (own !== null) addNote(admit.db, own, "handoff_ended", { session: sessionId, why });
}

export function addNote(
  db: Database,
  sessionId: string,
  code: string,
  args: Readonly<Record<string, string | number | null>>,
): void {
  db.run(
    "INSERT INTO note(session_id, n, code, args) VALUES(?, coalesce((SELECT max(n) FROM note WHERE session_id = ?), 0) + 1, ?, ?)",
    sessionId,
    sessionId,
    code,
    JSON.stringify(args),
  );
}

/** The conversation's own session: opened at the first message, reset where its policy asks for it (R2). */
export function ownSession(admit: Admit, conversation: ConversationRecord, rules: AdmitRules): string {
  const policy = policyOf(conversation, rules);
  const written = JSON.stringify(policy);
  if (conversation.reset_policy !== written) {
    admit.db.run("UPDATE conversation SET reset_policy = ? WHERE id = ?", written, conversation.id);
  }
  const current =
    conversation.current_session === null ? undefined : sessionRecord(admit.db, conversation.current_session);
  if (current === undefined) {
    welcome(admit, conversation, rules);
    return openSession(admit, conversation, { openedBy: "message", parent: null });
  }
  const { reason, putOff } = ownDue(admit, conversation, current, rules);
  if (putOff !== null) admit.putOff.push(putOff);
  if (reason === null) return current.id;
  const next = resetSession(admit, conversation, reason);
  if (policy.notify && current.seq > 0) {
    const args = { reason, session: next, previous: current.id, jobs: openJobs(admit.db, current.id) };
    tell(admit, JSON.parse(conversation.target) as Target, {
      code: "session_reset",
      args: { ...args, ...factsOf(rules.about) },
    });
  }
  return next;
}

/** R1: what was said in the chat goes before every configured layer. */
export function policyOf(conversation: ConversationRecord, rules: Pick<AdmitRules, "reset">): ResetPolicy {
  return conversation.reset_override === null ? rules.reset : (JSON.parse(conversation.reset_override) as ResetPolicy);
}

function factsOf(about: AgentFacts | undefined): Notice["args"] {
  return about === undefined ? {} : { ...about };
}

/** The titles of what still runs in the background of a session, or null. */
function openJobs(db: Database, sessionId: string): string | null {
  const jobs = db.all<{ title: string }>(
    "SELECT title FROM job WHERE session_id = ? AND closed_at IS NULL ORDER BY opened_at, id",
    sessionId,
  );
  return jobs.length === 0 ? null : jobs.map(({ title }) => title).join(", ");
}

/** R8: somebody without any session yet, the one about to open not counted. A room is nobody in particular. */
function welcome(admit: Admit, conversation: ConversationRecord, rules: AdmitRules): void {
  if (rules.welcome !== true || conversation.kind === "once") return;
  const { db } = admit;
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
  tell(admit, JSON.parse(conversation.target) as Target, { code: "welcome", args: factsOf(rules.about) });
}

function openSession(
  admit: Admit,
  conversation: ConversationRecord,
  options: { openedBy: string; parent: SessionRecord | null },
): string {
  const { db, now } = admit;
  const id = admit.nextId();
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
  // After a reset, what stood in the place before it opened never comes back as news; a conversation's first session is given it (H11).
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
    addNote(db, id, "session_reset", { reason: options.openedBy, previous: options.parent.id, endedAt: now });
  }
  return id;
}

/** What the agent itself has sent into the place since the session's last turn is news all the same: somebody will ask about it (G-HND-02). */
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

/** Opens a conversation's first session for `once` and foreign homes, or returns the one it has. */
export function firstSession(admit: Admit, conversation: ConversationRecord): string {
  return conversation.current_session ?? openSession(admit, conversation, { openedBy: "message", parent: null });
}

/**
 * R4: the session ends once and the next one opens. A running turn in it is interrupted, waiting turns of its own
 * conversation are withdrawn, those of conversations bound to it move to their own sessions; its bindings end (H9).
 */
export function resetSession(admit: Admit, conversation: ConversationRecord, reason: string): string {
  const { db } = admit;
  const old = conversation.current_session === null ? undefined : sessionRecord(db, conversation.current_session);
  if (old === undefined) return openSession(admit, conversation, { openedBy: reason, parent: null });
  closeSession(admit, old, reason);
  const next = openSession(admit, conversation, { openedBy: reason, parent: old });
  releaseGuests(admit, old.id, reason);
  return next;
}

/** The span ends once, with its reason; what runs is interrupted, what waits of its home is withdrawn. The guests are the caller's. */
function closeSession(admit: Admit, session: SessionRecord, reason: string): void {
  const { db, now } = admit;
  db.run(
    "UPDATE span SET ended_at = ?, end_reason = ? WHERE session_id = ? AND ended_at IS NULL",
    now,
    reason,
    session.id,
  );
  db.run("UPDATE session SET ended_at = ? WHERE id = ?", now, session.id);
  admit.ended.push({ sessionId: session.id, reason });
  const why = reason === "resumed" ? "resumed" : "reset";
  interruptRunning(admit, session.id, { why });
  withdrawQueued(admit, session.id, { conversationId: session.home, why });
}

/** R6: an earlier session of the conversation goes on as the current one; the session left ends as at a reset. */
export function goOnIn(
  admit: Admit,
  conversation: ConversationRecord,
  session: SessionRecord,
  reason: "resumed" | "undone",
): void {
  const old = conversation.current_session === null ? undefined : sessionRecord(admit.db, conversation.current_session);
  const isLeft = old !== undefined && old.id !== session.id;
  if (isLeft) closeSession(admit, old, reason);
  reopenSession(admit, session);
  admit.db.run("UPDATE conversation SET current_session = ? WHERE id = ?", session.id, conversation.id);
  if (isLeft) releaseGuests(admit, old.id, reason);
}

/** A new span, where the last one has ended. What stood in the home's place meanwhile is no news to it (H11), and its clock begins anew. */
export function reopenSession({ db, now }: Admit, session: SessionRecord): void {
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

/** Interrupts the running turn of a session; of one conversation only, where one is named. */
function interruptRunning(
  admit: Admit,
  sessionId: string,
  { conversationId = null, why }: { conversationId?: number | null; why: "reset" | "resumed" | "switched" },
): void {
  const turn = admit.db.get<TurnRecord>("SELECT * FROM turn WHERE session_id = ? AND state = 'running'", sessionId);
  if (turn === undefined || (conversationId !== null && turn.conversation_id !== conversationId)) return;
  const settled = endTurn(admit.db, turn, interruption(turn, why), admit.now, admit.claim);
  admit.settled.push(settled);
  for (const session of settled.wake) admit.wake.add(session);
}

/** Withdraws a conversation's waiting turns in a session, and tells their authors. */
function withdrawQueued(
  admit: Admit,
  sessionId: string,
  { conversationId, why }: { conversationId: number; why: "reset" | "resumed" | "switched" },
): void {
  const { db, now } = admit;
  const turns = db.all<TurnRecord>(
    "SELECT * FROM turn WHERE session_id = ? AND conversation_id = ? AND state = 'queued' ORDER BY id",
    sessionId,
    conversationId,
  );
  for (const turn of turns) {
    db.run("UPDATE turn SET state = 'withdrawn', reason = ?, settled_at = ? WHERE id = ?", why, now, turn.id);
    const messages = db.all<{ message_id: number }>(
      "UPDATE intake SET fate = 'withdrawn', reason = ? WHERE turn_id = ? AND fate IS NULL RETURNING message_id",
      why,
      turn.id,
    );
    const target = JSON.parse(turn.target) as Target;
    const body: Notice = { code: "withdrawn", args: { messages: messages.length, reason: why } };
    // Told with the settled turn, and not once more among the event's own notices.
    const notices = addNotice(db, { target, turnId: turn.id, notice: body, now }, admit.claim);
    const withdrawn = db.get<TurnRecord>("SELECT * FROM turn WHERE id = ?", turn.id)!;
    admit.settled.push(
      settledOf(
        withdrawn,
        notices,
        messages.map((row) => row.message_id),
      ),
    );
    for (const session of nextSessions(db, turn)) admit.wake.add(session);
  }
}

function settledOf(turn: TurnRecord, deliveries: DeliveryRow[], messageIds: number[]): Settled {
  return { turn: turnOf(turn), text: "", deliveries, wake: [], messageIds };
}

/** Conversations that were bound to a session that ended: their waiting turns go on at home, and their doors are told. */
function releaseGuests(admit: Admit, sessionId: string, reason: string): void {
  const { db } = admit;
  const guests = db.all<{ conversation_id: number }>(
    `SELECT DISTINCT conversation_id FROM (SELECT conversation_id FROM turn WHERE session_id = ? AND state = 'queued'
     UNION SELECT conversation_id FROM binding WHERE session_id = ?)`,
    sessionId,
    sessionId,
  );
  for (const { conversation_id } of guests) {
    const guest = conversationRecord(db, conversation_id);
    const unbound = db.run("DELETE FROM binding WHERE conversation_id = ? AND session_id = ?", guest.id, sessionId);
    const own = firstSession(admit, guest);
    const moved = db.run(
      "UPDATE turn SET session_id = ?, bound = NULL WHERE session_id = ? AND conversation_id = ? AND state = 'queued'",
      own,
      sessionId,
      guest.id,
    );
    if (moved > 0) admit.wake.add(own);
    if (unbound === 0) continue;
    addNote(db, own, "handoff_ended", { session: sessionId, why: "ended" });
    tell(admit, JSON.parse(guest.target) as Target, {
      code: "session_ended_here",
      args: { session: sessionId, reason },
    });
  }
}

/** H10: another program does not have the session any more. The turn that was to run in it has shown nothing: it waits again, elsewhere. */
export function loseSession(admit: Admit, session: SessionRecord, turn: TurnRecord): void {
  const { db } = admit;
  db.run("DELETE FROM entry WHERE turn_id = ?", turn.id);
  db.run("UPDATE turn SET state = 'queued', attempt = 0, epoch = NULL, begun_at = NULL WHERE id = ?", turn.id);
  closeSession(admit, session, "gone");
  releaseGuests(admit, session.id, "gone");
  tell(admit, JSON.parse(conversationRecord(db, session.home).target) as Target, {
    code: "binding_ended",
    args: { session: session.id, reason: "gone", door: conversationRecord(db, turn.conversation_id).key },
  });
}

/** `/new` typed in a bound chat acts on that chat: its own turns in the foreign session end, and it is unbound (H9). */
export function leaveForeignSessions(
  admit: Admit,
  conversation: ConversationRecord,
  why: "reset" | "resumed" | "switched" = "reset",
): void {
  const { db } = admit;
  const bindings = bindingsOf(db, conversation.id);
  db.run("DELETE FROM binding WHERE conversation_id = ?", conversation.id);
  const foreign = db.all<{ session_id: string }>(
    "SELECT DISTINCT session_id FROM turn WHERE conversation_id = ? AND state IN('queued','running') AND session_id <> ?",
    conversation.id,
    conversation.current_session ?? "",
  );
  for (const { session_id } of foreign) {
    interruptRunning(admit, session_id, { conversationId: conversation.id, why });
    withdrawQueued(admit, session_id, { conversationId: conversation.id, why });
  }
  for (const { session_id } of bindings) endIfLeft(admit, session_id);
}

/** Sets a binding; only the session's owner may (H7), and the agent must be the same (H9). */
export function setBinding(
  admit: Admit,
  conversation: ConversationRecord,
  binding: { kind: "live" | "pinned"; sessionId: string; ttlMs: number; by: string; shared: boolean },
): BindingRow {
  const replaced = bindingsOf(admit.db, conversation.id).find((row) => row.kind === binding.kind);
  admit.db.run(
    `INSERT INTO binding(conversation_id, kind, session_id, sent_at, ttl_ms, set_by, shared) VALUES(?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT(conversation_id, kind) DO UPDATE SET session_id = excluded.session_id, sent_at = excluded.sent_at, ttl_ms = excluded.ttl_ms, set_by = excluded.set_by, shared = excluded.shared`,
    conversation.id,
    binding.kind,
    binding.sessionId,
    admit.now,
    binding.kind === "pinned" ? null : binding.ttlMs,
    binding.by,
    binding.shared ? 1 : 0,
  );
  if (replaced !== undefined) endIfLeft(admit, replaced.session_id);
  return bindingOf(bindingsOf(admit.db, conversation.id).find((row) => row.kind === binding.kind)!);
}

export function clearBindings(admit: Admit, conversation: ConversationRecord): boolean {
  const bindings = bindingsOf(admit.db, conversation.id);
  for (const binding of bindings) {
    dropBinding(admit, binding);
    noteHandoffEnded(admit, conversation, binding.session_id, "cleared");
  }
  return bindings.length > 0;
}
