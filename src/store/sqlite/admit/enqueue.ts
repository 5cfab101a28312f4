import { type Authority, isAtLeast, leastAuthority } from "../../../conversation/person.ts";
import {
  mayJoin,
  type QueueDecision,
  queueDecision,
  readyAt,
  type Traffic,
} from "../../../conversation/queue-decision.ts";
import { titleOf } from "../../../conversation/title.ts";
import { isSameTarget, type Target } from "../../../message/target.ts";
import type { AdmitOutcome } from "../../events.ts";
import type { Audience, BoundBy, TurnSignal } from "../../turns.ts";
import { addEntry } from "../messages.ts";
import { mayInterrupt } from "../rights.ts";
import { type ConversationRecord, type TurnRecord, turnOf } from "../rows.ts";
import { cancel } from "../turn-ending.ts";
import type { Admission, Spoken } from "./admission.ts";
import { addIntake } from "./conversations.ts";
import { type RefusedWords, refuseBusy, refuseHurry } from "./limits.ts";
import { resolveSession } from "./sessions.ts";

export type Enqueued = EnqueuedTurn | RefusedWords;

/** The turn that a message begins, waits as, or joined. */
type EnqueuedTurn = Pick<
  Extract<AdmitOutcome, { kind: "queued" | "joined" }>,
  "kind" | "sessionId" | "turnId" | "begun" | "signal"
>;

/** The session that a message goes to, and the turns in its way. */
interface Way {
  readonly sessionId: string;
  readonly bound: BoundBy | null;
  /** The conversation's last waiting turn, if the message may join it. */
  readonly joinable: TurnRecord | null;
  /** The conversation's own running turn in that session. */
  readonly running: TurnRecord | null;
}

/** Joins a waiting turn, opens one that waits or begins at once, or refuses the message (T5). */
export function enqueue(admission: Admission, spoken: Spoken): Enqueued {
  const { db, now } = admission;
  const { event, conversation } = spoken;
  const { rules } = event;
  const waiting = db.all<TurnRecord>(
    "SELECT * FROM turn WHERE conversation_id = ? AND state = 'queued' ORDER BY id DESC",
    conversation.id,
  );
  const last = waiting[0];
  const joinable = last !== undefined && isSameTarget(targetOf(last), event.target) ? last : null;
  const willJoin = joinable !== null && mayJoin(rules.busyMode);
  if (!willJoin) {
    const refused = refuseHurry(admission, spoken, "turn");
    if (refused !== null) return refused;
  }
  // A message that joins follows its turn; any other is resolved afresh (H2).
  const { sessionId, bound } = willJoin
    ? { sessionId: joinable.session_id, bound: joinable.bound }
    : resolveSession(admission, conversation, rules);
  const { traffic, running } = readTraffic(admission, spoken, { sessionId, joinable, waiting: waiting.length });
  const decision = queueDecision(traffic, rules);
  if (event.speaker.author.kind === "person") {
    db.run(
      "UPDATE session SET last_human_at = ?, title = coalesce(title, ?) WHERE id = ?",
      now,
      titleOf(event.text) || null,
      sessionId,
    );
  }
  const way = { sessionId, bound, joinable, running };
  switch (decision.kind) {
    case "refuse":
      return refuseBusy(admission, spoken, decision.code);
    case "join":
      return joinTurn(admission, spoken, { ...way, decision });
    case "queue":
    case "begin":
      return openTurn(admission, spoken, { ...way, decision });
  }
}

function joinTurn(
  admission: Admission,
  spoken: Spoken,
  { sessionId, joinable, running, decision }: Way & { decision: Extract<QueueDecision, { kind: "join" }> },
): EnqueuedTurn {
  const { db, now } = admission;
  const { event, conversation, messageId, who } = spoken;
  const turn = joinable!;
  db.run(
    "UPDATE turn SET messages = messages + 1, authority = ?, ready_at = ? WHERE id = ?",
    JSON.stringify(leastAuthority(authorityOfTurn(turn), who)),
    readyAt({ admittedAt: turn.admitted_at }, now, event.rules.debounceMs),
    turn.id,
  );
  addIntake(db, { conversationId: conversation.id, messageId, turnId: turn.id });
  const signal = signalTo(admission, running, { kind: decision.signal, messageId });
  return { kind: "joined", sessionId, turnId: turn.id, begun: null, signal };
}

function openTurn(
  admission: Admission,
  { event, conversation, messageId, who }: Spoken,
  { sessionId, bound, running, decision }: Way & { decision: Extract<QueueDecision, { kind: "queue" | "begin" }> },
): EnqueuedTurn {
  const { db, now, claim, batch } = admission;
  const { busyMode, debounceMs } = event.rules;
  const isHeld = decision.kind === "begin" && batch.hold === true;
  const isWaiting = decision.kind === "queue" || isHeld;
  const turn = db.get<TurnRecord>(
    `INSERT INTO turn(session_id, conversation_id, state, epoch, attempt, ready_at, target, audience, authority, bound, admitted_at, begun_at)
     VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
    sessionId,
    conversation.id,
    isWaiting ? "queued" : "running",
    isWaiting ? null : claim.epoch,
    isWaiting ? 0 : 1,
    isWaiting && !isHeld && busyMode !== "queue" ? now + debounceMs : now,
    JSON.stringify(event.target),
    JSON.stringify(audienceOf(conversation)),
    JSON.stringify(who),
    bound,
    now,
    isWaiting ? null : now,
  )!;
  addIntake(db, { conversationId: conversation.id, messageId, turnId: turn.id });
  if (!isWaiting) addEntry(db, sessionId, { turnId: turn.id, messageId, role: "user" });
  return {
    kind: "queued",
    sessionId,
    turnId: turn.id,
    begun: isWaiting ? null : turnOf(turn),
    signal: decision.kind === "queue" ? signalTo(admission, running, { kind: decision.signal, messageId }) : null,
  };
}

function audienceOf({ person_id: personId, place_id: placeId }: ConversationRecord): Audience {
  return personId === null ? { kind: "place", placeId } : { kind: "person", personId };
}

function targetOf(turn: TurnRecord): Target {
  return JSON.parse(turn.target) as Target;
}

function authorityOfTurn(turn: TurnRecord): Authority {
  return JSON.parse(turn.authority) as Authority;
}

function readTraffic(
  { db }: Admission,
  { event, conversation, who }: Spoken,
  way: { readonly sessionId: string; readonly joinable: TurnRecord | null; readonly waiting: number },
): { traffic: Traffic; running: TurnRecord | null } {
  const open = db.all<TurnRecord>(
    "SELECT * FROM turn WHERE session_id = ? AND state IN('queued','running') ORDER BY id",
    way.sessionId,
  );
  const elsewhere = db.get(
    "SELECT 1 FROM turn WHERE conversation_id = ? AND state IN('queued','running') AND session_id <> ? LIMIT 1",
    conversation.id,
    way.sessionId,
  );
  const running = open.find((turn) => turn.state === "running" && turn.conversation_id === conversation.id) ?? null;
  const traffic = {
    idle: open.length === 0 && elsewhere === undefined,
    joinable: way.joinable === null ? null : { messages: way.joinable.messages },
    waiting: open.filter((turn) => turn.state === "queued").length,
    running:
      running === null
        ? null
        : {
            sameTarget: isSameTarget(targetOf(running), event.target),
            withinAuthority: isAtLeast(who, authorityOfTurn(running)),
            // Read in the mode `interrupt` only.
            get stoppable() {
              return mayInterrupt(db, conversation, who);
            },
          },
    overtaken: way.waiting - (way.joinable === null ? 0 : 1),
  };
  return { traffic, running };
}

function signalTo(
  { db }: Admission,
  running: TurnRecord | null,
  { kind, messageId }: { readonly kind: "steer" | "interrupt" | null; readonly messageId: number },
): TurnSignal | null {
  if (kind === null || running === null) return null;
  if (kind === "interrupt") cancel(db, running.id, "superseded");
  const at = { turnId: running.id, sessionId: running.session_id };
  return kind === "steer" ? { kind, ...at, messageId } : { kind, ...at };
}
