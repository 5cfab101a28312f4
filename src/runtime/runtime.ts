/**
 * Runtime: what runs an agent. One `AgentSession` is one warm handle: the agent with one session's context in it.
 * Failures of the agent are typed in the result of a turn, never thrown; `open` may throw TertuliaError `runtime_failed`.
 */
export interface Runtime {
  readonly name: string;
  /** Who keeps the conversation: the agent itself, or the gateway, which then tells it whole at every open (`exchanges`). */
  readonly history: "own" | "gateway";
  /** `possible` where tools run out of our sight from the moment the prompt is written (T8). */
  readonly effectsAtPrompt: "none" | "possible";
  /** What one warm session takes, in MB, before it was measured; absent: next to nothing. */
  readonly memoryMb?: number;
  /** Resume, else load, else new with the primer; `how` says which. The caller closes what it opened (park). */
  open(request: OpenRequest): Promise<AgentSession>;
  probe(signal: AbortSignal): Promise<RuntimeProbe>;
  /**
   * H13: how a session stands that the agent's program had without us. Absent where such sessions cannot be gone on with. Throws
   * `runtime_failed` where it cannot be asked. Ends with `close`.
   */
  lookUp?(ref: string): Promise<ForeignStanding>;
  /** The session will not be opened again. Safe to repeat. */
  forget(ref: string): Promise<void>;
  /** The plain id by which it knows a session, for people and other programs; null where it has none. Without it the ref is that id. */
  idOf?(ref: string): string | null;
  /** Ends everything; nothing of it lives on afterwards (B8). */
  close(): Promise<void>;
}

/** `ended`: by a person or a clock of that program; it has its words, and takes no more. */
export type ForeignStanding = "open" | "ended" | "unknown";

export interface RuntimeProbe {
  readonly ok: boolean;
  readonly version?: string;
  /** A sentence. */
  readonly detail: string;
  /** What it can do beyond answering: resume, load, images, mcp, … */
  readonly abilities?: readonly string[];
  /** How to get what is missing. */
  readonly missing?: string;
}

export interface OpenRequest {
  readonly sessionId: string;
  readonly sessionKey: string;
  /** What `ref` said when the session was last parked; absent for a session this runtime never had. */
  readonly ref?: string;
  /** The stable part of the context: byte-identical for the session's life. */
  readonly stablePart: string;
  /** The transcript so far, bounded, for an agent that lost or never had it. */
  readonly primer: Primer;
  /**
   * Only where the gateway keeps the history: the session so far, whole and in order, the oldest first, without the turn to come. The primer
   * then holds only what was there before the first exchange.
   */
  readonly exchanges?: readonly Exchange[];
  readonly signal: AbortSignal;
}

/** One turn as it was: what was sent, and what was said to it. */
export interface Exchange {
  readonly turnId: number;
  /** The user message exactly as it was sent: facts, missed lines and text (`promptOf`). */
  readonly prompt: string;
  /** `TurnResult.text`, word for word; of a turn that was cut the partial. Null when nothing was said. */
  readonly reply: string | null;
  /** Why the turn is no whole answer: failed, interrupted. Null of an answered one. */
  readonly mark: string | null;
}

export interface Primer {
  /** Entries there are in all; `lines` holds the last of them. */
  readonly total: number;
  readonly lines: readonly HistoryLine[];
}

export interface HistoryLine {
  readonly role: "user" | "assistant" | "mark";
  /** As rendered for the agent: `[name]` and `[YOU]` are added when rendering (G2). */
  readonly text: string;
  /** Of an assistant's line, where it is not `text`: what the agent itself has said, which is nothing of words that were sent for it. */
  readonly said?: string;
}

export type OpenedHow = "created" | "resumed" | "loaded" | "primed";

export interface AgentSession {
  readonly ref: string;
  readonly how: OpenedHow;
  /** One at a time. Never rejects for what the agent did. Ends soon after `signal` aborts, with outcome `cancelled`. */
  turn(input: TurnInput, options: TurnOptions): Promise<TurnResult>;
  /**
   * Hands a further message to the running turn. `consumed` once the agent has read it; `too-late` where it will not, for the turn is over or takes
   * nothing more in: the message then goes on waiting (T5).
   */
  steer?(input: TurnInput): Promise<"consumed" | "too-late">;
  /** What it takes now, in bytes, with its children; undefined where that cannot be seen. */
  memory?(): Promise<number | undefined>;
  /** Frees the memory; the ref stays resumable where the runtime can. Safe to repeat. */
  park(): Promise<void>;
  /** Called at most once, when the agent is gone for good. Returns the way to stop listening. */
  onDead(listener: (failure: RuntimeFailure) => void): () => void;
}

export interface TurnInput {
  readonly turnId: number;
  /** The turn facts, delimited (C8); empty for a steer. */
  readonly facts: string;
  readonly text: string;
  /** What the session holds since this runtime last looked (B7): own words sent elsewhere, turns of another runtime. */
  readonly missed: readonly HistoryLine[];
}

export interface TurnOptions {
  readonly signal: AbortSignal;
  /** In order, only of this turn. A runtime whose tools are in our sight awaits it before a tool runs and before it says more. */
  onEvent(event: TurnEvent): Promise<void>;
}

export type TurnEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "thought"; readonly text: string }
  | {
      readonly type: "tool";
      readonly id: string;
      readonly title: string;
      readonly state: ToolState;
    }
  /** What the agent means to do, whole each time. */
  | { readonly type: "plan"; readonly entries: readonly PlanEntry[] }
  /** Tokens of the agent's context in use, and how many there can be. */
  | { readonly type: "context"; readonly used: number; readonly size: number }
  | {
      readonly type: "permission";
      readonly id: string;
      readonly title: string;
      readonly options: readonly PermissionOption[];
      answer(optionId: string | null): void;
      /** Aborts when the agent takes its question back. */
      readonly closed?: AbortSignal;
    }
  /** Something goes on in the background, or has ended: open, it holds the session's reset for a while (R2). */
  | { readonly type: "job"; readonly id: string; readonly title: string; readonly state: "open" | "closed" };

export type ToolState = "pending" | "running" | "done" | "failed";

export interface PlanEntry {
  readonly text: string;
  readonly state: "pending" | "running" | "done";
}

export interface PermissionOption {
  readonly id: string;
  readonly label: string;
  readonly kind: "allow_once" | "allow_always" | "reject_once" | "reject_always";
}

export interface TurnResult {
  readonly outcome: "done" | "cancelled" | "failed";
  readonly text: string;
  readonly usage?: {
    readonly input: number;
    readonly output: number;
    readonly cachedInput?: number;
    readonly cacheWrite?: number;
  };
  /** Set exactly when `outcome` is `failed`. */
  readonly failure?: RuntimeFailure;
}

export interface RuntimeFailure {
  readonly kind:
    | "session-gone"
    | "process-died"
    | "unreachable"
    | "stalled"
    | "truncated"
    | "rate-limited"
    | "auth"
    | "overflow"
    | "empty"
    | "protocol"
    | "refused";
  /** A sentence for a person. */
  readonly message: string;
  readonly retryAfterMs?: number;
}

/** B2: the life of a warm handle as the pool tells it. */
export type HandleStateName = "cold" | "warming" | "warm" | "busy" | "draining" | "broken";

export interface RuntimePoolEvent {
  readonly sessionId: string;
  readonly runtime: string;
  readonly from: HandleStateName;
  readonly to: HandleStateName;
  readonly at: number;
  /** Of a handle that was just opened. */
  readonly how?: OpenedHow;
  /** Why it could not be opened, why it died, or why it did not close in order. */
  readonly problem?: unknown;
}
