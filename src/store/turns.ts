import type { Authority } from "../conversation/person.ts";
import type { Notice } from "../message/notice.ts";
import type { Target } from "../message/target.ts";
import type { DeliveryRow, RuntimeStatus } from "./rows.ts";

export type TurnState = "queued" | "running" | "answered" | "failed" | "interrupted" | "withdrawn";

/** `none`: the turn can run again. `possible`: a tool may have run. `shown`: text was shown (T8). */
export type Effects = "none" | "possible" | "shown";

/** The readers of the reply: one person, or everybody in a place. */
export type Audience =
  | { readonly kind: "person"; readonly personId: string }
  | { readonly kind: "place"; readonly placeId: number };

/** The layer of bindings by which a conversation speaks in a session that is not its own (H2). */
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
  /** The prompt as it was sent; null before. */
  readonly prompt: string | null;
  readonly admittedAt: number;
  readonly begunAt: number | null;
  readonly settledAt: number | null;
}

export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly cachedInput?: number;
  readonly cacheWrite?: number;
}

export type BeginResult =
  | { readonly kind: "begun"; readonly turn: Turn; readonly takeover: Recovery | null }
  /** Another turn of this session runs under this epoch. */
  | { readonly kind: "busy" }
  | { readonly kind: "idle"; readonly takeover: Recovery | null }
  /** The oldest waiting turn gathers followers until then (debounce). */
  | { readonly kind: "waiting"; readonly until: number; readonly takeover: Recovery | null }
  /** An older turn of the same conversation is open in another session. */
  | { readonly kind: "blocked"; readonly bySession: string; readonly takeover: Recovery | null };

/** The result for a turn that an older epoch left running: it begins again, or was settled and its author notified (T8). */
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
  /** The prompt that is about to be written, and how far it shows the place, the notes and the session's entries. */
  readonly prompt?: {
    readonly text: string;
    readonly seen: SeenBound;
    readonly notesThrough: number;
    readonly entriesThrough: number;
    readonly runtime: string;
  };
  /** The stable part of the session's prompts; kept at its first turn only. */
  readonly stablePart?: string;
  readonly runtime?: { readonly name: string; readonly ref: string; readonly restarts: number };
  /** A question for the people of the turn's chat; not sent to a pull door. */
  readonly question?: Notice;
  /** Steered messages that the agent has read: they leave their waiting turn for this one. */
  readonly consumed?: readonly number[];
}

export interface SeenBound {
  readonly placeId: number;
  readonly throughSeq: number;
}

export interface Marked {
  readonly kind: "marked";
  readonly deliveries: readonly DeliveryRow[];
}

/** The turn does not run under this claim and attempt any more: the report is late and changed nothing. */
export interface NotRunning {
  readonly kind: "not_running";
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
  /** The turn's runtime, its health, and the reference to resume its session with; none where nothing was opened. */
  readonly runtime?: {
    readonly name: string;
    readonly ref?: string;
    readonly status: RuntimeStatus;
    readonly restarts: number;
  };
  /** The first turn after /runtime: if it failed, the conversation goes back to the runtime before (B7). */
  readonly trial?: {
    /** The runtime as /runtime chose it; null: the configured one. If another was chosen since, the trial is void. */
    readonly chosen: string | null;
    readonly runtime: string;
    readonly outcome: "passed" | "failed";
  };
  /** The session itself failed: three such failures in a row suspend it (R7). */
  readonly sessionFault?: boolean;
  readonly usage?: Usage;
}

export interface Settled {
  readonly turn: Turn;
  readonly text: string;
  readonly deliveries: readonly DeliveryRow[];
  /** Sessions whose next turn may begin now (T4). */
  readonly wake: readonly string[];
  readonly messageIds: readonly number[];
}

export type SettleResult = (Settled & { readonly kind: "settled" }) | NotRunning;

/** An order to the runner of a turn. */
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
