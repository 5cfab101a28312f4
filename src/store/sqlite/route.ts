import { bindingFault, bindingState, isAmongOwn, type Readers } from "../../conversation/binding.ts";
import { type ResetPolicy, resetReasonOf } from "../../conversation/reset-policy.ts";
import type { AdmitRules, PutOff, RouteRules } from "../events.ts";
import type { BoundBy } from "../turns.ts";
import type { Write } from "./database.ts";
import { bindingsOf, conversationRecord, currentSession, hasOpenTurn, sessionRecord } from "./records.ts";
import { hasOtherReaders } from "./rooms.ts";
import { type BindingRecord, bindingOf, type ConversationRecord, type SessionRecord } from "./rows.ts";

/** Decides which session the next message of a conversation goes to (H2–H4, R2). Reads only: `admit` follows the route, previews show it. */

export type Moment = Pick<Write, "db" | "now">;

export type SessionRoute = RouteFindings &
  (
    | { readonly kind: "bound"; readonly sessionId: string; readonly by: BoundBy }
    /** The conversation's own session goes on. */
    | { readonly kind: "own"; readonly sessionId: string }
    /** A session opens: the conversation's first, or after a reset for that reason. */
    | { readonly kind: "new"; readonly resetReason: string | null }
  );

/** The bindings, sessions and resets that the route found out of order. */
interface RouteFindings {
  readonly dropped: readonly DroppedBinding[];
  /** Sessions that are due for a reset but are current nowhere: no conversation would reset them. */
  readonly abandoned: readonly { readonly session: SessionRecord; readonly reason: string }[];
  readonly putOff: readonly PutOff[];
}

/** A binding that does not hold any more. `isFault`: something happened to its session, and both conversations are notified (H10). */
export interface DroppedBinding {
  readonly binding: BindingRecord;
  readonly why: string;
  readonly isFault: boolean;
}

/** A live binding goes before a pinned one, that before the configured session, that before the conversation's own. */
export function routeOf(moment: Moment, conversation: ConversationRecord, rules: RouteRules): SessionRoute {
  const { bound, ...found } = boundRoute(moment, conversation, rules);
  if (bound !== null) return { kind: "bound", ...bound, ...found };
  const current = currentSession(moment.db, conversation);
  if (current === undefined) return { kind: "new", resetReason: null, ...found };
  const { reason, putOff } = ownDue(moment, conversation, { current, rules });
  const findings = putOff === null ? found : { ...found, putOff: [...found.putOff, putOff] };
  return reason === null
    ? { kind: "own", sessionId: current.id, ...findings }
    : { kind: "new", resetReason: reason, ...findings };
}

/** The id of the conversation's own session, if a message in it would not reset it. */
export function sessionThatGoesOn(
  moment: Moment,
  conversation: ConversationRecord,
  rules: Pick<AdmitRules, "reset" | "jobHoldMs">,
): string | null {
  const current = currentSession(moment.db, conversation);
  return current !== undefined && ownDue(moment, conversation, { current, rules }).reason === null ? current.id : null;
}

function boundRoute(
  moment: Moment,
  conversation: ConversationRecord,
  rules: RouteRules,
): RouteFindings & { readonly bound: { sessionId: string; by: BoundBy } | null } {
  const { db } = moment;
  const dropped: DroppedBinding[] = [];
  const abandoned: { session: SessionRecord; reason: string }[] = [];
  const putOff: PutOff[] = [];
  const isDue = (session: SessionRecord): boolean => {
    const home = conversationRecord(db, session.home);
    const due = homeDue(moment, session, { home, rules });
    if (due.putOff !== null) putOff.push(due.putOff);
    // A current session is reset by the next message in its home; until then this conversation falls back (H9).
    if (due.reason !== null && home.current_session !== session.id) abandoned.push({ session, reason: due.reason });
    return due.reason !== null;
  };
  for (const binding of bindingsOf(db, conversation.id)) {
    const session = sessionRecord(db, binding.session_id);
    const fault = faultOf(moment, conversation, { binding, session, rules });
    if (fault !== null) dropped.push({ binding, ...fault });
    else if (!isDue(session!))
      return { bound: { sessionId: binding.session_id, by: binding.kind }, dropped, abandoned, putOff };
  }
  const fallback = rules.defaultSession === undefined ? undefined : sessionRecord(db, rules.defaultSession);
  const holds = isFallback(fallback, conversation, { db, rules }) && !isDue(fallback);
  return { bound: holds ? { sessionId: fallback!.id, by: "default" } : null, dropped, abandoned, putOff };
}

/** True if a configured session can be spoken in here: alive, at home elsewhere, and read by nobody else (H4, H7). */
export function isFallback(
  session: SessionRecord | undefined,
  conversation: ConversationRecord,
  { db, rules }: Pick<Write, "db"> & { readonly rules: Pick<AdmitRules, "share"> },
): session is SessionRecord {
  if (session === undefined || session.ended_at !== null || session.suspended !== null) return false;
  if (session.agent !== conversation.agent || session.home === conversation.id) return false;
  const { owner_person: ownerPerson } = session;
  return isAmongOwn(readersOf(db, conversation, { rules, owner: ownerPerson }), { ownerPerson });
}

/** The readers of a conversation, as far as they decide what may be spoken there (H7). */
export function readersOf(
  db: Write["db"],
  { person_id: personId, place_id: placeId }: ConversationRecord,
  { rules, owner }: { readonly rules: Pick<AdmitRules, "share">; readonly owner: string | null },
): Readers {
  const othersRead = personId === null && hasOtherReaders(db, placeId, owner);
  return { personId, isShared: rules.share === true, othersRead };
}

/** The reason why a binding does not hold any more, or null. */
function faultOf(
  { db, now }: Moment,
  conversation: ConversationRecord,
  {
    binding,
    session,
    rules,
  }: { binding: BindingRecord; session: SessionRecord | undefined; rules: Pick<AdmitRules, "share"> },
): Pick<DroppedBinding, "why" | "isFault"> | null {
  const state = bindingState(bindingOf(binding), now);
  if (state !== "valid") return { why: state === "expired" ? "expired" : "clock", isFault: false };
  const fault = bindingFault(
    { setBy: binding.set_by, shared: binding.shared === 1 },
    { agent: conversation.agent, ...readersOf(db, conversation, { rules, owner: session?.owner_person ?? null }) },
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

/** Why a session has to be reset now (R2), or null; a reset that is put off says what holds it. */
interface Due {
  readonly reason: string | null;
  readonly putOff: PutOff | null;
}

const NOT_DUE: Due = { reason: null, putOff: null };

/** A session of another conversation is due by the policy that its home had last. */
function homeDue(
  moment: Moment,
  session: SessionRecord,
  { home, rules }: { home: ConversationRecord; rules: Pick<AdmitRules, "jobHoldMs"> },
): Due {
  if (home.reset_policy === null) return NOT_DUE;
  return clockDue(moment, session, {
    policy: JSON.parse(home.reset_policy) as ResetPolicy,
    jobHoldMs: rules.jobHoldMs,
  });
}

function ownDue(
  moment: Moment,
  conversation: ConversationRecord,
  { current, rules }: { current: SessionRecord; rules: Pick<AdmitRules, "reset" | "jobHoldMs"> },
): Due {
  if (current.suspended !== null) return { reason: "suspended", putOff: null };
  return clockDue(moment, current, { policy: policyOf(conversation, rules), jobHoldMs: rules.jobHoldMs });
}

/** The policy that was set in the chat, else the configured one (R1). */
export function policyOf(conversation: ConversationRecord, rules: Pick<AdmitRules, "reset">): ResetPolicy {
  return conversation.reset_override === null ? rules.reset : (JSON.parse(conversation.reset_override) as ResetPolicy);
}

function clockDue(
  moment: Moment,
  session: SessionRecord,
  { policy, jobHoldMs }: { policy: ResetPolicy; jobHoldMs: number },
): Due {
  if (policy.mode === "none") return NOT_DUE;
  const lastHumanAt = session.last_human_at ?? openedAt(moment, session.id);
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

function openedAt({ db }: Moment, sessionId: string): number {
  return db.get<{ opened_at: number }>(
    "SELECT opened_at FROM span WHERE session_id = ? ORDER BY n DESC LIMIT 1",
    sessionId,
  )!.opened_at;
}
