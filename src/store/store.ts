import type { AgentFacts } from "../conversation/agent-facts.ts";
import type { Authority, Role, Speaker } from "../conversation/person.ts";
import type { Place } from "../conversation/place.ts";
import type { BusyMode } from "../conversation/queue-decision.ts";
import type { RateLimits } from "../conversation/rate-limit.ts";
import type { ResetPolicy } from "../conversation/reset-policy.ts";
import type { KeyRules } from "../conversation/session-key.ts";
import type { Author, Fate, Message } from "../message/message.ts";
import type { Notice } from "../message/notice.ts";
import type { Platform, Source } from "../message/source.ts";
import type { Target } from "../message/target.ts";

/**
 * Store: the durable half of the gateway. Seven verbs write, each one transaction, data in and data out, deterministic:
 * times, settings and ids are arguments; integer ids are the database's. Nothing else writes. Refusals of the domain are
 * values; a rejection means that nothing was written: `stale_claim` (a newer gateway has this state), `store_unavailable`
 * (disk full, file locked, closed).
 *
 * All reads are async and see committed rows only.
 */
export interface Store extends StoreReader {
  /** Raises the epoch and returns the claim of this boot: every older claim is stale from now on. */
  claim(holder: string): Promise<Claim>;

  /** A batch of events of one account and its cursor. Resolves when they are durable: only then may a platform be acknowledged (T2). */
  admit(batch: AdmitBatch, claim: Claim): Promise<AdmitResult>;
  /** The session's head becomes the running turn, or a turn of an older epoch is taken over by T8. Safe to repeat. */
  begin(request: { sessionId: string; now: number }, claim: Claim): Promise<BeginResult>;
  /** What must be durable before something is shown, a tool runs, or a prompt is written (T8). */
  mark(mark: TurnMark, claim: Claim): Promise<Marked | NotRunning>;
  /** Ends a running turn: its final state, the reply as message, entry and deliveries, the fates, the seen numbers. */
  settle(settlement: Settlement, claim: Claim): Promise<SettleResult>;
  /** The lane's head is about to be sent once more; its attempt is counted first (O1). */
  attempt(request: { deliveryId: number; now: number }, claim: Claim): Promise<DeliveryRow | NotDue>;
  /** What became of an attempt. A failed part stops the later parts of the same reply, not the lane. */
  delivered(report: DeliveryReport, claim: Claim): Promise<void>;
  /** Settings and pruning. */
  keep(change: KeepChange, claim: Claim): Promise<KeepResult>;

  close(): Promise<void>;
}

export interface Claim {
  readonly holder: string;
  readonly epoch: number;
}
/** The turn is not running under this claim and attempt any more: the report comes too late and changed nothing. */
export interface NotRunning {
  readonly kind: "not_running";
}
export interface Marked {
  readonly kind: "marked";
  readonly deliveries: readonly DeliveryRow[];
}
export interface NotDue {
  readonly kind: "not_due";
}

// ---- admit

export interface AdmitBatch {
  readonly account: string;
  readonly platform: Platform;
  /** The agent this account belongs to. */
  readonly agent: string;
  /** Where the platform's stream stands once these events are durable; absent where there is none. */
  readonly cursor?: string;
  readonly now: number;
  /** Nothing begins at once: no agent is free for it, and it waits (B4). */
  readonly hold?: boolean;
  readonly events: readonly InboundEvent[];
}

export type InboundEvent =
  | MessageEvent
  | CommandEvent
  | OwnEvent
  | EditEvent
  | DeleteEvent
  | ReaderEvent
  | SendEvent
  | BindEvent
  | JobEvent
  | AdoptEvent
  | LostEvent
  | RefusedEvent;

interface EventBase {
  /** The platform's id of the event, unique per account; what is known is a duplicate (T3). Absent where nothing comes twice by itself. */
  readonly eventId?: string;
  /** Ids of sessions that this event may open: `<freshId>`, `<freshId>-1`, …; unused ones are free again. */
  readonly freshId: string;
}

export interface MessageEvent extends EventBase {
  readonly kind: "message";
  readonly source: Source;
  /** Speak in the existing conversation of this key instead of the one the source leads to (owner's API). */
  readonly into?: string;
  readonly speaker: Speaker;
  readonly text: string;
  readonly saidAt: number;
  /** The gate's answer: is it for the agent? If not, it is recorded and starts nothing. */
  readonly addressed: boolean;
  /** The message it is a reply to, by the platform's id. */
  readonly replyTo?: string;
  /** Of an agent of ours: the id of the delivery that this is (G3). */
  readonly originId?: string;
  /** Was said before the account was there. */
  readonly isHistory?: boolean;
  readonly target: Target;
  readonly rules: AdmitRules;
  readonly idempotency?: RequestKey;
  /** What the author's program would have the agent be. */
  readonly instructions?: string;
  /** `once`: a conversation without a name, seeded with the given history, hidden, and pruned after 48 h. */
  readonly once?: { readonly history: readonly { readonly role: "user" | "assistant"; readonly text: string }[] };
}

/** Under what a request is found again (T3): only what was admitted is. */
export interface RequestKey {
  readonly key: string;
  readonly bodyHash: string;
  /** Every request under it is a new one, and is found in the place of the one before. */
  readonly isReused?: boolean;
}

export interface CommandEvent extends EventBase {
  readonly kind: "command";
  readonly source: Source;
  readonly into?: string;
  readonly speaker: Speaker;
  readonly text: string;
  readonly saidAt: number;
  readonly target: Target;
  readonly rules: AdmitRules;
  readonly idempotency?: RequestKey;
  readonly effect:
    | { readonly kind: "none" }
    /** Resets the conversation; `firstMessage` opens the new session. */
    | { readonly kind: "reset"; readonly firstMessage?: string }
    | { readonly kind: "stop" }
    /** Re-opens an own session: at home as the current one, at another door by a pinned binding (R6). */
    | { readonly kind: "resume"; readonly sessionId: string }
    /** Steps back over the later of the last reset and the last turn (R6). */
    | { readonly kind: "undo" }
    /** Names the session that this conversation speaks in. */
    | { readonly kind: "title"; readonly title: string }
    /** The chat's own reset policy (R1); null: the configured one again. */
    | { readonly kind: "policy"; readonly policy: ResetPolicy | null }
    /** This chat is the home of its platform for this agent. */
    | { readonly kind: "home" }
    /** What runs this conversation from its next turn on (B7); null: the configured one. `from` is what runs it now. */
    | { readonly kind: "runtime"; readonly to: string | null; readonly from: string }
    /** Answers a question of this conversation's running turn, with the speaker's rights (H12). Null denies. */
    | { readonly kind: "answer"; readonly turnId: number; readonly id: string; readonly optionId: string | null }
    /** This chat speaks in that session (H8), or in its own again. */
    | { readonly kind: "bind"; readonly binding: "live" | "pinned"; readonly sessionId: string; readonly ttlMs: number }
    | { readonly kind: "unbind" };
  /**
   * The command's answer; the store adds to `args` what only it knows (the ids of a reset, whether a stop found a turn). Where nothing is
   * done, `not_done` with the reason takes its place.
   */
  readonly reply: Notice;
}

/** Words of our own account, as the platform gives them back: the echo of a delivery confirms it; others were said elsewhere, and are recorded (G3). */
export interface OwnEvent extends EventBase {
  readonly kind: "own";
  readonly source: Source;
  readonly text: string;
  readonly saidAt: number;
  readonly originId?: string;
  /** Was said before the account was there. */
  readonly isHistory: boolean;
}

/** T6: a message says something else now. By its author only. */
export interface EditEvent extends EventBase {
  readonly kind: "edit";
  readonly source: Source;
  readonly speaker: Speaker;
  /** Of the message, by the platform's id. */
  readonly messageId: string;
  readonly text: string;
}

/** T6: a message is taken back by its author, or by a moderator of the place. */
export interface DeleteEvent extends EventBase {
  readonly kind: "delete";
  readonly source: Source;
  readonly speaker: Speaker;
  readonly messageId: string;
  readonly isModeration: boolean;
}

/** Somebody reads along in a place (H7). */
export interface ReaderEvent extends EventBase {
  readonly kind: "reader";
  readonly source: Source;
  /** One of our agents is nobody else: only the alias goes then. */
  readonly author: Author;
  /** The same reader by an id under which he is no one any more: it is known now who he is. */
  readonly alias?: string;
}

/** Words of an agent spoken from one of its sessions into another door (H1). */
export interface SendEvent extends EventBase {
  readonly kind: "send";
  /** The person on whose behalf it is sent: the session's owner, else nothing is bound (H7). */
  readonly by: Speaker;
  readonly text: string;
  readonly into: ConversationRef;
  /** Null: nothing is bound (H5). */
  readonly sessionId: string | null;
  readonly ttlMs: number;
  /** Instead of `sessionId`. */
  readonly foreign?: ForeignRef;
  /** Said by the sender: others read along, and may (H7). */
  readonly share?: boolean;
  /** By the session's agent itself: it binds only where sharing is configured, never by its own word (H7). */
  readonly byAgent?: boolean;
  readonly rules: AdmitRules;
}

/** A session of a runtime's own, by its id there, which is opened here under it (H13). `name`: of that agent's runtime. */
export interface ForeignRef {
  readonly runtime: string;
  readonly id: string;
  readonly name: string;
}

export interface BindEvent extends EventBase {
  readonly kind: "bind";
  readonly by: Speaker;
  readonly conversation: ConversationRef;
  readonly change:
    | {
        readonly kind: "set";
        readonly binding: "live" | "pinned";
        /** Null with `foreign`. */
        readonly sessionId: string | null;
        readonly foreign?: ForeignRef;
        readonly ttlMs: number;
      }
    | { readonly kind: "clear" };
  readonly share?: boolean;
  readonly rules: AdmitRules;
}

/** A session of another program gets its home here, for whoever speaks in it next (H13). By the owner. */
export interface AdoptEvent extends EventBase {
  readonly kind: "adopt";
  readonly by: Speaker;
  readonly foreign: ForeignRef;
}

/** H10: another program does not have a bound session any more. It ends, and the turn that was to run in it waits in its conversation's own. */
export interface LostEvent extends EventBase {
  readonly kind: "lost";
  readonly turnId: number;
}

/** A background job of a session: open, it holds the session's reset for a while (R2). */
export interface JobEvent extends EventBase {
  readonly kind: "job";
  /** Null: the session's own runtime says so. */
  readonly by: Speaker | null;
  readonly sessionId: string;
  /** Unique in its session. */
  readonly id: string;
  /** `open` again keeps the time of the first; a closed one is opened anew. */
  readonly change: { readonly state: "open"; readonly title: string } | { readonly state: "closed" };
}

/** What could not be read or admitted: kept with its raw form (16 KiB at most), and the cursor passes it (T2). */
export interface RefusedEvent extends EventBase {
  readonly kind: "refused";
  readonly code: string;
  readonly sentence: string;
  readonly raw?: string;
  /** Whoever was not let in reads along there all the same (H7). */
  readonly reader?: { readonly source: Source; readonly author: Author };
}

/** An existing conversation by its key, or a door of one's own that may be new. */
export type ConversationRef =
  | { readonly kind: "key"; readonly key: string }
  | { readonly kind: "source"; readonly key: string; readonly source: Source; readonly target: Target };

/** The settings that hold for one event, resolved by the gateway from the configuration (plain data). */
export interface AdmitRules {
  readonly keys: KeyRules;
  readonly busyMode: BusyMode;
  readonly debounceMs: number;
  readonly maxWaitingTurns: number;
  readonly maxMessagesPerTurn: number;
  readonly reset: ResetPolicy;
  /** An open background job younger than this holds a reset (R2). */
  readonly jobHoldMs: number;
  /** How often guests may begin turns (A10); absent: as often as they like. */
  readonly limits?: RateLimits;
  /** What a notice of a new session says of the agent (R5). */
  readonly about?: AgentFacts;
  /** Somebody who never had a session is welcomed here, once (R8). */
  readonly welcome?: boolean;
  /** `rooms.<room>.share` of this conversation: a session may be bound here although others read along (H7). */
  readonly share?: boolean;
  /** The lowest layer of a binding: computed, never a row (H4). */
  readonly defaultSession?: string;
}

export interface AdmitResult {
  /** One per event, in order. */
  readonly outcomes: readonly AdmitOutcome[];
}

/** What became of one event. */
export type AdmitOutcome =
  /** A turn waits for it, or runs: `begun` when the store began it at once. */
  | (Landed & {
      readonly kind: "queued" | "joined";
      readonly sessionId: string;
      readonly turnId: number;
      readonly begun: Turn | null;
      readonly signal: TurnSignal | null;
    })
  | (Landed & { readonly kind: "recorded" })
  | (Landed & {
      readonly kind: "refused";
      readonly code: "busy" | "queue_full" | "rate_limited";
      readonly notice: Notice;
    })
  /** Known already; a retry over HTTP finds the turn it belongs to. */
  | {
      readonly kind: "duplicate";
      readonly messageId: number | null;
      readonly conversationId: number | null;
      readonly turnId: number | null;
    }
  | (Landed & {
      readonly kind: "commanded";
      readonly sessionId: string | null;
      readonly reply: DeliveryRow;
      /** The reset's first message, admitted as a turn of the new session. */
      readonly turnId: number | null;
      readonly begun: Turn | null;
      readonly signal: TurnSignal | null;
    })
  | (Landed & {
      readonly kind: "sent";
      /** In parts as the platform takes them (O3). */
      readonly deliveries: readonly DeliveryRow[];
      readonly bound: BindingRow | null;
    })
  /** Own words: of a delivery, or said elsewhere. */
  | {
      readonly kind: "own";
      readonly messageId: number | null;
      /** The delivery that they are the echo of. */
      readonly shown: { readonly deliveryId: number; readonly lane: string } | null;
    }
  | { readonly kind: "noted" }
  | { readonly kind: "adopted"; readonly sessionId: string }
  /** An edit or a deletion; null where nothing was to be changed. */
  | {
      readonly kind: "changed";
      readonly messageId: number | null;
      readonly settled: readonly Settled[];
      readonly wake: readonly string[];
    }
  | (Omit<Landed, "messageId"> & { readonly kind: "bound"; readonly binding: BindingRow })
  | (Omit<Landed, "messageId"> & { readonly kind: "cleared"; readonly had: boolean })
  | (Omit<Landed, "messageId"> & { readonly kind: "job"; readonly had: boolean })
  /** A refusal of the domain: nothing was changed, but a platform's event is kept as refused (T2). */
  | { readonly kind: "rejected"; readonly code: RejectCode; readonly sentence: string };

export type RejectCode =
  | "source_invalid"
  | "session_unknown"
  | "session_ended"
  | "agent_mismatch"
  | "not_shared"
  | "forbidden"
  | "conversation_unknown"
  | "idempotency_conflict"
  | "request_invalid";

export interface Landed {
  readonly messageId: number;
  readonly conversationId: number;
  readonly key: string;
  /** Notices written with it: an ended binding, a reset, withdrawn turns. */
  readonly notices: readonly DeliveryRow[];
  /** Sessions that ended: their warm handles must go before the next one opens (R4). */
  readonly ended: readonly EndedSession[];
  /** Sessions whose transcript was changed behind their agent: it must be opened anew. */
  readonly rewound: readonly string[];
  /** Resets that were due and did not come, and what holds them (R2). */
  readonly putOff: readonly PutOff[];
  /** Turns that this event settled, for whoever waits for them. */
  readonly settled: readonly Settled[];
  /** Sessions with work. */
  readonly wake: readonly string[];
}
export interface EndedSession {
  readonly sessionId: string;
  readonly reason: string;
}
export interface PutOff {
  readonly sessionId: string;
  /** Of the reset: idle, daily. */
  readonly reason: string;
  readonly heldBy: "turn" | "job";
}

/** What the runner of that turn must hear about. */
export type TurnSignal =
  | { readonly kind: "stop"; readonly turnId: number; readonly sessionId: string }
  | { readonly kind: "interrupt"; readonly turnId: number; readonly sessionId: string }
  | {
      readonly kind: "answer";
      readonly turnId: number;
      readonly sessionId: string;
      readonly id: string;
      readonly optionId: string | null;
    }
  | { readonly kind: "steer"; readonly turnId: number; readonly sessionId: string; readonly messageId: number };

// ---- turns

export type TurnState = "queued" | "running" | "answered" | "failed" | "interrupted" | "withdrawn";
/** none: nothing left our sight, the turn can be run again. possible: a tool may have run. shown: words were shown. */
export type Effects = "none" | "possible" | "shown";
/** Who can read the reply: one person, or everybody in a place. */
export type Audience =
  | { readonly kind: "person"; readonly personId: string }
  | { readonly kind: "place"; readonly placeId: number };
/** How the conversation came to speak in a session that is not its own. */
export type BoundBy = "live" | "pinned" | "default";

export interface Turn {
  readonly id: number;
  readonly sessionId: string;
  readonly conversationId: number;
  readonly state: TurnState;
  readonly reason: string | null;
  readonly attempt: number;
  readonly effects: Effects;
  readonly target: Target;
  readonly audience: Audience;
  readonly authority: Authority;
  readonly bound: BoundBy | null;
  readonly partial: string | null;
  readonly usage: Usage | null;
  /** As it was sent. */
  readonly prompt: string | null;
  readonly admittedAt: number;
  readonly begunAt: number | null;
  readonly settledAt: number | null;
}

export type BeginResult =
  | { readonly kind: "begun"; readonly turn: Turn; readonly takeover: Recovery | null }
  /** Another turn of this session runs under this epoch. */
  | { readonly kind: "busy" }
  | { readonly kind: "idle"; readonly takeover: Recovery | null }
  /** The head gathers followers until then (debounce). */
  | { readonly kind: "waiting"; readonly until: number; readonly takeover: Recovery | null }
  /** An older turn of the same conversation is open in another session. */
  | { readonly kind: "blocked"; readonly bySession: string; readonly takeover: Recovery | null };

/** What was found of an older epoch: `rerun` begins again, `interrupted` was settled and its author told (T8). */
export type Recovery =
  | { readonly kind: "rerun"; readonly turnId: number }
  | (Settled & { readonly kind: "interrupted" });

export interface TurnMark {
  readonly turnId: number;
  readonly attempt: number;
  readonly now: number;
  /** Never lowered. */
  readonly effects?: Effects;
  readonly partial?: string;
  /** The prompt as it is sent: facts, what was missed, words; implies that the prompt is about to be written, and fixes what this turn was shown of each place. */
  readonly prompt?: {
    readonly text: string;
    readonly seen: SeenBound;
    readonly notesThrough: number;
    readonly entriesThrough: number;
    readonly runtime: string;
  };
  /** The session's stable part, at its first turn. */
  readonly stablePart?: string;
  readonly runtime?: { readonly name: string; readonly ref: string; readonly restarts: number };
  /** A question to the people of the turn's door, where it is one that is written to. */
  readonly question?: Notice;
  /** Messages that the running turn took in (steer): they leave their waiting turn. */
  readonly consumed?: readonly number[];
}
export interface SeenBound {
  readonly placeId: number;
  readonly throughSeq: number;
}

export interface Settlement {
  readonly turnId: number;
  readonly attempt: number;
  readonly now: number;
  readonly outcome:
    | { readonly state: "answered"; readonly text: string }
    /** `NO_REPLY`: nothing is sent, and it counts as success (O5). */
    | { readonly state: "answered"; readonly silent: true }
    | {
        readonly state: "failed" | "interrupted";
        readonly reason: string;
        readonly partial: string;
        readonly notice: Notice;
      };
  /** The reply in parts as the platform takes them (O3); one part at pull doors. */
  readonly parts?: readonly string[];
  /** What ran it or was to, how it is now, and by what reference its session is opened next time; without one where nothing was opened. */
  readonly runtime?: {
    readonly name: string;
    readonly ref?: string;
    readonly status: RuntimeStatus;
    readonly restarts: number;
  };
  /** Of a runtime that was just switched to: it has answered, or the conversation goes back to the one before and says so (B7). */
  readonly trial?: {
    /** What the conversation was switched to; null: the configured one. Once it was switched again, this turn is no trial of it. */
    readonly chosen: string | null;
    readonly runtime: string;
    readonly outcome: "passed" | "failed";
  };
  /** A failure of this session's own making: three in a row suspend it (R7). */
  readonly sessionFault?: boolean;
  readonly usage?: Usage;
}
export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly cachedInput?: number;
  readonly cacheWrite?: number;
}

/** Of a session, in all; the last prompt alone. */
export interface SessionTokens {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly lastPrompt: number;
}

export interface Settled {
  readonly turn: Turn;
  readonly text: string;
  readonly deliveries: readonly DeliveryRow[];
  /** The session and the conversation's next session (T4). */
  readonly wake: readonly string[];
  readonly messageIds: readonly number[];
}
export type SettleResult = (Settled & { readonly kind: "settled" }) | NotRunning;

// ---- deliveries

export type DeliveryState = "queued" | "sending" | "streaming" | "delivered" | "unknown" | "failed";
export interface DeliveryRow {
  readonly id: number;
  readonly lane: string;
  readonly turnId: number | null;
  readonly messageId: number | null;
  readonly part: number;
  readonly kind: "reply" | "notice" | "send";
  readonly target: Target;
  readonly body: string | Notice;
  readonly state: DeliveryState;
  readonly attempt: number;
  readonly dueAt: number;
  readonly createdAt: number;
  readonly externalId: string | null;
  readonly reason: string | null;
}
export interface DeliveryReport {
  readonly deliveryId: number;
  readonly now: number;
  readonly result:
    | { readonly kind: "delivered"; readonly externalId?: string }
    | {
        readonly kind: "retry";
        readonly dueAt: number;
        readonly reason: string /** An attempt while the channel was offline does not count. */;
        readonly counts: boolean;
      }
    | { readonly kind: "unknown"; readonly reason: string }
    | { readonly kind: "failed"; readonly reason: string };
}

// ---- keep

export type KeepChange =
  /** Which accounts on platforms are whose, all of them: what is not named is nobody's (A4). */
  | {
      readonly kind: "identities";
      readonly now: number;
      readonly identities: readonly {
        readonly platform: Platform;
        readonly userId: string;
        readonly personId: string;
      }[];
    }
  | { readonly kind: "person"; readonly person: { readonly id: string; readonly name?: string; readonly role: Role } }
  /** Drops what is past its time: counted turns of guests (1 h), seen events and idempotency keys (48 h), `once` conversations (48 h), refused events beyond 1,000 an account. */
  | { readonly kind: "prune"; readonly now: number }
  | { readonly kind: "title"; readonly sessionId: string; readonly title: string }
  /** Merged key by key into what others keep with a conversation (B6); arrays and plain values are replaced. */
  | {
      readonly kind: "agent_state";
      readonly conversationId: number;
      readonly patch: Readonly<Record<string, unknown>>;
    }
  /** B1, B6: an agent was lost, also outside of a turn, or ended by hand; `status` where that says how its runtime is. */
  | {
      readonly kind: "restarts";
      readonly sessionId: string;
      readonly runtime: string;
      readonly restarts: number;
      readonly status?: RuntimeStatus;
    }
  /** H13: a batch of another program's sessions, or of a part of one. Safe to repeat: what is here already is not written again. */
  | {
      readonly kind: "import";
      /** The other program, as it stands in the key. */
      readonly runtime: string;
      readonly agent: string;
      readonly now: number;
      readonly sessions: readonly ImportedSession[];
    };
export interface KeepResult {
  /** Rows that a prune removed. */
  readonly removed: number;
  /** By what the runtimes know the sessions that a prune removed. */
  readonly forgotten?: readonly { readonly sessionId: string; readonly runtime: string; readonly ref: string }[];
  /** Of an import. */
  readonly imported?: ImportResult;
}
export interface ImportResult {
  /** That were not here before. */
  readonly sessions: number;
  readonly messages: number;
  /** Sessions that were gone on with here, and so take nothing more from there; by their id there. */
  readonly wentOn: readonly string[];
}
export interface ImportedSession {
  /** As the other program calls it. */
  readonly id: string;
  /** What it is called here, if it is new. */
  readonly freshId: string;
  readonly parentId: string | null;
  /** Null: nobody's in particular, as a group's. */
  readonly ownerPerson: string | null;
  /** As the other program says it: it may know more than we do. */
  readonly platform: string;
  readonly title: string | null;
  readonly openedAt: number;
  readonly endedAt: number;
  readonly endReason: string;
  readonly messages: readonly ImportedMessage[];
}
export interface ImportedMessage {
  /** Grows with every message of a session. */
  readonly id: number;
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly at: number;
  /** Who wrote it, where that is not the owner. */
  readonly author?: string;
}
export type RuntimeStatus = "healthy" | "degraded" | "broken";

// ---- reads

export interface StoreReader {
  /** Everything the context stage and the runner need of a running turn, in one read. */
  turnMaterial(turnId: number): Promise<TurnMaterial | null>;
  /**
   * C7: the same of a conversation's next turn: of the one that waits, else of one that would come now, with turn id 0 and an empty
   * message of who spoke last (none where nobody has spoken yet). A session that the message would open has the id `""`.
   */
  nextTurnMaterial(query: {
    conversationId: number;
    now: number;
    rules: Pick<AdmitRules, "reset" | "defaultSession" | "jobHoldMs">;
  }): Promise<TurnMaterial | null>;
  turn(turnId: number): Promise<Turn | null>;
  /** How a turn ended, for a door that asks later. Null while it is open. */
  answer(turnId: number): Promise<TurnAnswer | null>;
  /** T10: one fate per conversation that took the message in. */
  fates(messageId: number): Promise<readonly MessageFate[]>;
  /** The last messages of a conversation with what became of each, newest first (T10). */
  recentFates(query: {
    conversationId: number;
    limit: number;
  }): Promise<readonly (MessageFate & { readonly messageId: number; readonly text: string })[]>;
  message(messageId: number): Promise<Message | null>;
  /** What a command's message was answered with. */
  commandReply(messageId: number): Promise<Notice | null>;
  /** The last request of a person that was admitted under a key, in whatever conversation (T3). */
  requestUnder(query: { personId: string; key: string }): Promise<Extract<AdmitOutcome, { kind: "duplicate" }> | null>;
  conversation(key: string): Promise<ConversationRow | null>;
  conversationById(id: number): Promise<ConversationRow | null>;
  conversations(query: { personId?: string; limit?: number }): Promise<readonly ConversationRow[]>;
  session(sessionId: string): Promise<SessionRow | null>;
  sessions(query: {
    conversationId?: number;
    personId?: string;
    agent?: string;
    limit?: number;
  }): Promise<readonly SessionRow[]>;
  /** Every runtime that had the session, the last used first (B6). */
  runtimeStates(sessionId: string): Promise<readonly RuntimeStateRow[]>;
  /** What others keep with a conversation (B6); null where it cannot be read. */
  agentState(conversationId: number): Promise<Readonly<Record<string, unknown>> | null>;
  /** A session as one of its runtimes has it: the same parts of a turn's material, where another runtime had the session last (B7). */
  seenBy(query: {
    sessionId: string;
    runtime: string;
    throughEntry: number;
  }): Promise<Pick<TurnMaterial, "runtimeState" | "missed" | "missedMore">>;
  /** Background jobs of a session that are open, the oldest first. */
  jobs(sessionId: string): Promise<readonly JobRow[]>;
  /** The home chats of an agent, one a platform (C1). */
  homes(agent: string): Promise<readonly HomeRow[]>;
  /** The exchanges of a session before a turn whose prompts were written, oldest first, for a runtime whose history the gateway keeps. */
  exchanges(query: { sessionId: string; beforeEntry: number }): Promise<readonly ExchangeRow[]>;
  transcript(query: {
    sessionId: string;
    after?: number;
    before?: number;
    /** `standing`: without what was undone. */
    only?: "standing";
    limit: number;
  }): Promise<readonly EntryRow[]>;
  /**
   * D9: sessions of a person whose home is a direct chat or a terminal of that person, each with the platform of its home and the time of
   * its last user or assistant entry. Jobs and those without a word are not among them, nor is what was imported and did not go on here.
   */
  directSessions(personId: string): Promise<readonly DirectSession[]>;
  /** The last things said in such a session, oldest first, without what was said in places that are not the person's own. */
  directRows(query: { sessionId: string; personId: string; limit: number }): Promise<readonly DirectRow[]>;
  /** D9: how many sessions there are besides those of a person: in groups, and in direct chats of others. Imported ones are not among them. */
  sessionsOfOthers(personId: string): Promise<SessionsOfOthers>;
  /** What was brought in from another program. */
  foreignSessions(runtime: string): Promise<readonly ForeignSession[]>;
  bindings(query: { agent?: string; conversationId?: number; sessionId?: string }): Promise<readonly BindingRow[]>;
  /** Messages of a place after a place sequence, oldest first. */
  placeMessages(query: { placeId: number; after: number; limit: number }): Promise<readonly Message[]>;
  /** Notices delivered to a conversation after a delivery id. */
  deliveries(query: { lane: string; after: number; limit: number }): Promise<readonly DeliveryRow[]>;
  /** Sessions with open turns: what a start, and the sweep, wakes. */
  openSessions(): Promise<readonly string[]>;
  /** Heads of the lanes that are open, oldest first; of one lane, if one is named. */
  openDeliveries(query?: { lane: string }): Promise<readonly DeliveryRow[]>;
  /** Whose words have that id on the platform; of own notices the account that sent them (G3). */
  authorOf(query: {
    place: Place;
    externalId: string;
  }): Promise<Author | { readonly kind: "account"; readonly id: string } | null>;
  /** H7: whether anybody but that person and our agents is known to read along in a place. */
  hasOtherReaders(query: { placeId: number; personId: string | null }): Promise<boolean>;
  refusedEvents(query: { account?: string; limit: number }): Promise<readonly RefusedRow[]>;
  cursor(account: string): Promise<string | null>;
  hasAnySessions(personId: string): Promise<boolean>;
  person(id: string): Promise<{ readonly id: string; readonly name: string | null; readonly role: Role } | null>;
  /** What is open, cheaply: for those who ask often. */
  openCounts(): Promise<{ readonly turns: number; readonly deliveries: number }>;
  counts(): Promise<
    Readonly<Record<"conversations" | "sessions" | "messages" | "turns" | "openTurns" | "openDeliveries", number>>
  >;
}

export interface TurnMaterial {
  readonly turn: Turn;
  readonly conversation: ConversationRow;
  readonly session: SessionRow;
  readonly home: ConversationRow;
  readonly stablePart: string | null;
  /** The turn's own messages, oldest first. */
  readonly messages: readonly Message[];
  readonly notes: readonly Note[];
  /** The agent's homes, as set in a chat. */
  readonly homes: readonly HomeRow[];
  /** The session that this one followed. */
  readonly previous: SessionRow | null;
  /** Conversations that are bound to this session (H8); whether a binding holds now is the reader's to say. */
  readonly guests: readonly BindingRow[];
  /** Who wrote among the last 500 messages of the turn's place, where that is not one person's: namesakes are told apart (C2). */
  readonly speakers: readonly Author[];
  /** Of the runtime that had the session last. */
  readonly runtimeState: RuntimeStateRow | null;
  /** Entries of the session before this turn's own, without what was undone. */
  readonly earlier: number;
  /** The highest entry sequence before this turn's own. */
  readonly throughEntry: number;
  /** Lines of this turn's place that the session has not seen (H11), newest last, at most 20; `more` counts the older ones. */
  readonly roomLines: { readonly lines: readonly Message[]; readonly more: number; readonly bound: SeenBound };
  /** Entries before this turn's own that the runtime has not seen (B7), the last 40; `missedMore` counts the older ones. */
  readonly missed: readonly EntryRow[];
  readonly missedMore: number;
  /** The conversation's turn before was cancelled and no tool ran: an empty answer may be asked for once more (O5). */
  readonly afterCancel: boolean;
}
export interface ExchangeRow {
  readonly turnId: number;
  /** What ran it. */
  readonly runtime: string;
  /** As it was sent. */
  readonly prompt: string;
  readonly reply: string | null;
  /** Null for one that was answered. */
  readonly mark: string | null;
}
export interface Note {
  readonly n: number;
  readonly code: string;
  readonly args: Readonly<Record<string, string | number | null>>;
}
export interface TurnAnswer {
  readonly turn: Turn;
  readonly text: string;
  readonly silent: boolean;
  readonly notices: readonly Notice[];
}
export interface MessageFate {
  readonly conversationKey: string;
  readonly conversationId: number;
  readonly sessionId: string | null;
  readonly turnId: number | null;
  readonly fate: Fate;
}
export interface ConversationRow {
  readonly id: number;
  readonly key: string;
  readonly agent: string;
  readonly personId: string | null;
  readonly placeId: number;
  readonly kind: "kept" | "once";
  readonly currentSession: string | null;
  readonly target: Target;
  /** By /autoreset; null: the configured policy holds. */
  readonly resetOverride: ResetPolicy | null;
  readonly runtime: RuntimeChoice;
  readonly at: number;
  readonly openTurns: number;
}
/** What was chosen by /runtime (B7). */
export interface RuntimeChoice {
  /** Null: the configured one. */
  readonly name: string | null;
  /** The way back; null where nothing was switched yet. */
  readonly before: string | null;
  /** It was switched to and has not answered yet. */
  readonly isOnTrial: boolean;
}
export interface JobRow {
  readonly id: string;
  readonly title: string;
  readonly openedAt: number;
}
export interface HomeRow {
  readonly platform: Platform;
  readonly conversationKey: string;
  readonly target: Target;
  /** Of the place, where it has one. */
  readonly name: string | null;
  readonly at: number;
}
export interface SessionRow {
  readonly id: string;
  readonly home: number;
  readonly homeKey: string;
  readonly agent: string;
  readonly ownerPerson: string | null;
  readonly parentId: string | null;
  readonly title: string | null;
  readonly entries: number;
  readonly openedAt: number;
  readonly openedBy: string;
  readonly endedAt: number | null;
  readonly endReason: string | null;
  readonly lastHumanAt: number | null;
  readonly suspended: string | null;
  readonly tokens: SessionTokens;
}
export interface EntryRow {
  readonly seq: number;
  readonly turnId: number | null;
  readonly messageId: number | null;
  readonly role: "user" | "assistant" | "mark";
  /** failed, interrupted, undone, sent: why an entry is not what it looks like. */
  readonly mark: string | null;
  readonly author: Author | null;
  readonly text: string;
  readonly at: number | null;
  readonly platform: Platform | null;
  /** Of what was sent: into the session's own door. */
  readonly atHome?: true;
  /** Whether it was part of a prompt already. */
  readonly prompted: boolean;
  /** Own words that are not delivered yet, or never were (O4). */
  readonly delivery: DeliveryState | null;
}
export interface ForeignSession {
  /** As the other program calls it. */
  readonly id: string;
  readonly sessionId: string;
  readonly throughId: number;
}

export interface SessionsOfOthers {
  readonly groups: number;
  readonly direct: number;
}
export interface DirectSession {
  readonly sessionId: string;
  readonly agent: string;
  readonly platform: Platform;
  readonly lastAt: number;
}
export interface DirectRow {
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly at: number | null;
}
export interface BindingRow {
  readonly conversationId: number;
  readonly conversationKey: string;
  readonly kind: "live" | "pinned";
  readonly sessionId: string;
  readonly sentAt: number;
  readonly expiresAt: number | null;
  readonly setBy: string;
  /** Set although others read along, in so many words (H7). */
  readonly shared: boolean;
}
export interface RuntimeStateRow {
  readonly runtime: string;
  readonly ref: string | null;
  readonly seenThrough: number;
  readonly status: RuntimeStatus;
  readonly restarts: number;
  readonly lastUsedAt: number | null;
}
export interface RefusedRow {
  readonly account: string;
  readonly eventId: string;
  readonly at: number;
  readonly code: string;
  readonly sentence: string;
  readonly raw: string | null;
}
