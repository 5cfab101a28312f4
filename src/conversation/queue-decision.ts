/** What becomes of a message while a turn runs (T5). */
export type BusyMode = "collect" | "queue" | "steer" | "interrupt" | "reject";

/** The turns in the way of a message, as the store reads them in the transaction that admits it. */
export interface Traffic {
  /** Neither the session nor the conversation has an open turn. */
  readonly idle: boolean;
  /** The conversation's last waiting turn, if it has the same target. */
  readonly joinable: { readonly messages: number } | null;
  /** Waiting turns of the session. */
  readonly waiting: number;
  /** The conversation's own running turn in the session that the message goes to. */
  readonly running: {
    readonly sameTarget: boolean;
    readonly withinAuthority: boolean;
    /** The author of the message may stop it (A8). */
    readonly stoppable: boolean;
  } | null;
  /** Waiting turns of this conversation that a steered message would overtake. */
  readonly overtaken: number;
}

type Signal = "steer" | "interrupt" | null;

export type QueueDecision =
  | { readonly kind: "begin" }
  | { readonly kind: "queue"; readonly signal: Signal }
  | { readonly kind: "join"; readonly signal: Signal }
  | { readonly kind: "refuse"; readonly code: "busy" | "queue_full" };

/** True in the modes in which a message joins a waiting turn. */
export function mayJoin(mode: BusyMode): boolean {
  return mode !== "queue" && mode !== "reject";
}

/** Decides what a message does (T5). Without an open turn it never waits; a steered one waits on the next turn until the agent has read it. */
export function queueDecision(
  traffic: Traffic,
  rules: { readonly busyMode: BusyMode; readonly maxWaitingTurns: number; readonly maxMessagesPerTurn: number },
): QueueDecision {
  if (traffic.idle) return { kind: "begin" };
  if (rules.busyMode === "reject") return { kind: "refuse", code: "busy" };
  const signal = signalOf(traffic, rules.busyMode);
  if (traffic.joinable !== null && mayJoin(rules.busyMode)) {
    if (traffic.joinable.messages >= rules.maxMessagesPerTurn) return { kind: "refuse", code: "queue_full" };
    return { kind: "join", signal };
  }
  if (traffic.waiting >= rules.maxWaitingTurns) return { kind: "refuse", code: "queue_full" };
  return { kind: "queue", signal };
}

function signalOf(traffic: Traffic, mode: BusyMode): Signal {
  if (traffic.running === null) return null;
  if (mode === "interrupt") return traffic.running.stoppable ? "interrupt" : null;
  const canSteer = traffic.running.sameTarget && traffic.running.withinAuthority && traffic.overtaken === 0;
  return mode === "steer" && canSteer ? "steer" : null;
}

/** The time at which a waiting turn may begin: each message that joins moves it by `debounce_ms`, at most five times. */
export function readyAt(turn: { readonly admittedAt: number }, now: number, debounceMs: number): number {
  return Math.min(now + debounceMs, turn.admittedAt + 5 * debounceMs);
}
