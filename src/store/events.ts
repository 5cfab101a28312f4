import type { AgentFacts } from "../conversation/agent-facts.ts";
import type { Speaker } from "../conversation/person.ts";
import type { BusyMode } from "../conversation/queue-decision.ts";
import type { RateLimits } from "../conversation/rate-limit.ts";
import type { ResetPolicy } from "../conversation/reset-policy.ts";
import type { KeyRules } from "../conversation/session-key.ts";
import type { Author } from "../message/message.ts";
import type { Notice } from "../message/notice.ts";
import type { Platform, Source } from "../message/source.ts";
import type { Target } from "../message/target.ts";
import type { BindingRow, DeliveryRow } from "./rows.ts";
import type { Settled, Turn, TurnSignal } from "./turns.ts";

export interface AdmitBatch {
  readonly account: string;
  readonly platform: Platform;
  /** The agent this account belongs to. */
  readonly agent: string;
  /** The platform's position after these events; absent where it has none. */
  readonly cursor?: string;
  readonly now: number;
  /** No agent is free: no turn begins at once, it waits (B4). */
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
  /** The platform's id of the event, unique per account: a known one is a duplicate (T3). Absent where nothing arrives twice by itself. */
  readonly eventId?: string;
  /** Base of the ids for sessions that this event opens: `<freshId>`, `<freshId>-1`, …; unused ones are free again. */
  readonly freshId: string;
}

export interface MessageEvent extends EventBase {
  readonly kind: "message";
  readonly source: Source;
  /** The key of an existing conversation to speak in, instead of the source's (owner's API). */
  readonly into?: string;
  readonly speaker: Speaker;
  readonly text: string;
  readonly saidAt: number;
  /** The gate's decision: only a message that is addressed to the agent starts a turn; any other is recorded. */
  readonly addressed: boolean;
  /** The platform's id of the message that it replies to. */
  readonly replyTo?: string;
  /** On a message of a sibling agent: the origin id of its delivery (G3). */
  readonly originId?: string;
  /** True for what was said before the account joined. */
  readonly isHistory?: boolean;
  readonly target: Target;
  readonly rules: AdmitRules;
  readonly idempotency?: RequestKey;
  /** Instructions for the agent from the author's program. */
  readonly instructions?: string;
  /** Opens a nameless conversation that begins with the given history, is hidden, and is pruned after 48 h. */
  readonly once?: { readonly history: readonly { readonly role: "user" | "assistant"; readonly text: string }[] };
}

/** The idempotency key of a request; only an admitted request is found again under it (T3). */
export interface RequestKey {
  readonly key: string;
  readonly bodyHash: string;
  /** Each request with this key is a new one and replaces the one before. */
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
    /** Re-opens a session of the speaker: at its home as the current one, elsewhere by a pinned binding (R6). */
    | { readonly kind: "resume"; readonly sessionId: string }
    /** Takes back the last reset or the last turn, whichever is later (R6). */
    | { readonly kind: "undo" }
    /** Names the session that this conversation speaks in. */
    | { readonly kind: "title"; readonly title: string }
    /** Sets the chat's own reset policy (R1); null: the configured one. */
    | { readonly kind: "policy"; readonly policy: ResetPolicy | null }
    /** Makes this chat the agent's home on its platform. */
    | { readonly kind: "home" }
    /** Switches the runtime from the next turn on (B7); null: the configured one. `from` is the present one. */
    | { readonly kind: "runtime"; readonly to: string | null; readonly from: string }
    /** Answers a question of this conversation's running turn, with the speaker's rights (H12). Null denies. */
    | { readonly kind: "answer"; readonly turnId: number; readonly id: string; readonly optionId: string | null }
    /** Binds this chat to a session (H8). */
    | { readonly kind: "bind"; readonly binding: "live" | "pinned"; readonly sessionId: string; readonly ttlMs: number }
    | { readonly kind: "unbind" };
  /**
   * The command's answer. The store adds to `args` what only it knows (the ids of a reset, whether a stop found a turn). If the command does
   * nothing, `not_done` with the reason replaces it.
   */
  readonly reply: Notice;
}

/** A message of our own account, as the platform reports it: the echo of a delivery confirms it, any other is recorded (G3). */
export interface OwnEvent extends EventBase {
  readonly kind: "own";
  readonly source: Source;
  readonly text: string;
  readonly saidAt: number;
  readonly originId?: string;
  /** True for what was said before the account joined. */
  readonly isHistory: boolean;
}

/** The author of a message changes its text (T6). */
export interface EditEvent extends EventBase {
  readonly kind: "edit";
  readonly source: Source;
  readonly speaker: Speaker;
  /** The platform's id of the message. */
  readonly messageId: string;
  readonly text: string;
}

/** The author of a message, or a moderator of the place, deletes it (T6). */
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
  /** Not stored if it is one of our agents; the alias is removed all the same. */
  readonly author: Author;
  /** An id that the reader was stored under before they were identified. */
  readonly alias?: string;
}

/** A message of an agent from one of its sessions into another conversation (H1). */
export interface SendEvent extends EventBase {
  readonly kind: "send";
  /** The person who sends it; only the session's owner may bind it (H7). */
  readonly by: Speaker;
  readonly text: string;
  readonly into: ConversationRef;
  /** Null: nothing is bound (H5). */
  readonly sessionId: string | null;
  readonly ttlMs: number;
  /** Names the session instead of `sessionId`. */
  readonly foreign?: ForeignRef;
  /** The sender explicitly lets others read along (H7). */
  readonly share?: boolean;
  /** Sent by the session's agent itself: it binds only where the configuration allows sharing (H7). */
  readonly byAgent?: boolean;
  readonly rules: AdmitRules;
}

/** A session that a runtime keeps itself, by its id there; it is opened here (H13). `name` is the configured runtime. */
export interface ForeignRef {
  readonly runtime: string;
  readonly id: string;
  readonly name: string;
}

/** Binds a conversation to a session, or clears its bindings (H1). */
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

/** The owner gives a session of another program a home here, before anything speaks in it (H13). */
interface AdoptEvent extends EventBase {
  readonly kind: "adopt";
  readonly by: Speaker;
  readonly foreign: ForeignRef;
}

/** Another program does not have a bound session any more (H10): it ends, and the turn that was to run in it waits in its conversation's own. */
export interface LostEvent extends EventBase {
  readonly kind: "lost";
  readonly turnId: number;
}

/** A background job of a session; an open one puts the session's reset off for a while (R2). */
export interface JobEvent extends EventBase {
  readonly kind: "job";
  /** Null: the session's own runtime reports it. */
  readonly by: Speaker | null;
  readonly sessionId: string;
  /** Unique in its session. */
  readonly id: string;
  /** Opening an open job keeps its time; a closed one is opened anew. */
  readonly change: { readonly state: "open"; readonly title: string } | { readonly state: "closed" };
}

/** An event that could not be read or admitted: kept with its raw form (at most 16 KiB), and the cursor passes it (T2). */
export interface RefusedEvent extends EventBase {
  readonly kind: "refused";
  readonly code: string;
  readonly sentence: string;
  readonly raw?: string;
  /** An author without access: they read along in the place all the same (H7). */
  readonly reader?: { readonly source: Source; readonly author: Author };
}

/** An existing conversation by its key, or a chat whose conversation may be new. */
export type ConversationRef =
  | { readonly kind: "key"; readonly key: string }
  | { readonly kind: "source"; readonly key: string; readonly source: Source; readonly target: Target };

/** The settings for one event, resolved from the configuration. */
export interface AdmitRules {
  readonly keys: KeyRules;
  readonly busyMode: BusyMode;
  readonly debounceMs: number;
  readonly maxWaitingTurns: number;
  readonly maxMessagesPerTurn: number;
  readonly reset: ResetPolicy;
  /** An open background job younger than this puts a reset off (R2). */
  readonly jobHoldMs: number;
  /** How often guests may begin turns (A10); absent: no limit. */
  readonly limits?: RateLimits;
  /** Facts about the agent for the notice of a new session (R5). */
  readonly about?: AgentFacts;
  /** Welcomes people who never had a session, once (R8). */
  readonly welcome?: boolean;
  /** `rooms.<room>.share`: a session may be bound here although others read along (H7). */
  readonly share?: boolean;
  /** The session to speak in where nothing is bound: configured, never stored (H4). */
  readonly defaultSession?: string;
}

/** The settings that decide which session a message goes to. */
export type RouteRules = Pick<AdmitRules, "reset" | "defaultSession" | "jobHoldMs" | "share">;

export interface AdmitResult {
  /** One per event, in order. */
  readonly outcomes: readonly AdmitOutcome[];
}

/** The outcome of one event. */
export type AdmitOutcome =
  /** The message waits as a turn of its own, or joined one; `begun` is the turn if it began at once. */
  | (MessageOutcome & {
      readonly kind: "queued" | "joined";
      readonly sessionId: string;
      readonly turnId: number;
      readonly begun: Turn | null;
      readonly signal: TurnSignal | null;
    })
  | (MessageOutcome & { readonly kind: "recorded" })
  | (MessageOutcome & {
      readonly kind: "refused";
      readonly code: "busy" | "queue_full" | "rate_limited";
      readonly notice: Notice;
    })
  /** The event is known already; a repeated HTTP request finds its turn. */
  | {
      readonly kind: "duplicate";
      readonly messageId: number | null;
      readonly conversationId: number | null;
      readonly turnId: number | null;
    }
  | (MessageOutcome & {
      readonly kind: "commanded";
      readonly sessionId: string | null;
      readonly reply: DeliveryRow;
      /** The reset's first message, admitted as a turn of the new session. */
      readonly turnId: number | null;
      readonly begun: Turn | null;
      readonly signal: TurnSignal | null;
    })
  | (MessageOutcome & {
      readonly kind: "sent";
      /** One per part that the platform takes (O3). */
      readonly deliveries: readonly DeliveryRow[];
      readonly bound: BindingRow | null;
    })
  /** A message of our own account. */
  | {
      readonly kind: "own";
      readonly messageId: number | null;
      /** The delivery that it is the echo of. */
      readonly shown: { readonly deliveryId: number; readonly lane: string } | null;
    }
  | { readonly kind: "noted" }
  | { readonly kind: "adopted"; readonly sessionId: string }
  /** An edit or a deletion; the id is null where there was nothing to change. */
  | {
      readonly kind: "changed";
      readonly messageId: number | null;
      readonly settled: readonly Settled[];
      readonly wake: readonly string[];
    }
  | (ConversationOutcome & { readonly kind: "bound"; readonly binding: BindingRow })
  | (ConversationOutcome & { readonly kind: "cleared"; readonly had: boolean })
  | (ConversationOutcome & { readonly kind: "job"; readonly had: boolean })
  /** The domain refuses the event: nothing changed, but a platform's event is kept as refused (T2). */
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

/** The effects of an event besides its own rows. */
export interface Consequences {
  /** Notices written with it: an ended binding, a reset, withdrawn turns. */
  readonly notices: readonly DeliveryRow[];
  /** Sessions that ended; their warm handles must close before the next session opens (R4). */
  readonly ended: readonly EndedSession[];
  /** Sessions whose transcript changed: their agents must be opened anew. */
  readonly rewound: readonly string[];
  /** Resets that were due and were put off (R2). */
  readonly putOff: readonly PutOff[];
  /** Turns that the event settled. */
  readonly settled: readonly Settled[];
  /** Sessions that have turns to begin. */
  readonly wake: readonly string[];
}

interface ConversationOutcome extends Consequences {
  readonly conversationId: number;
  readonly key: string;
}

interface MessageOutcome extends ConversationOutcome {
  readonly messageId: number;
}

interface EndedSession {
  readonly sessionId: string;
  readonly reason: string;
}

export interface PutOff {
  readonly sessionId: string;
  /** Why the reset was due: idle or daily. */
  readonly reason: string;
  readonly heldBy: "turn" | "job";
}
