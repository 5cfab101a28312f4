/** T5: what becomes of a message while a turn runs. */
export type BusyMode = "collect" | "queue" | "steer" | "interrupt" | "reject";

/** What stands in the way of a message when it is admitted; read by the store in the same transaction. */
export interface Traffic {
  /** Neither the session nor the conversation has an open turn. */
  readonly idle: boolean;
  /** The conversation's last waiting turn, when it has the same target. */
  readonly joinable: { readonly turnId: number; readonly messages: number } | null;
  /** Waiting turns of the session. */
  readonly waiting: number;
  /** The running turn, when it is this conversation's own and in the session the message goes to. */
  readonly running: {
    readonly turnId: number;
    readonly sameTarget: boolean;
    readonly withinAuthority: boolean;
    /** By the author of the message (A8). */
    readonly stoppable: boolean;
  } | null;
  /** Waiting turns of this conversation that would be overtaken by a steered message. */
  readonly overtaken: number;
}

export type QueueDecision =
  | { readonly kind: "begin" }
  | { readonly kind: "queue"; readonly signal: "steer" | "interrupt" | null }
  | { readonly kind: "join"; readonly turnId: number; readonly signal: "steer" | "interrupt" | null }
  | { readonly kind: "refuse"; readonly code: "busy" | "queue_full" };

/** T5: where a message lands. The first message never waits; a steered one waits on the next turn until it is consumed. */
export function queueDecision(
  traffic: Traffic,
  rules: { readonly busyMode: BusyMode; readonly maxWaitingTurns: number; readonly maxMessagesPerTurn: number },
): QueueDecision {
  if (traffic.idle) return { kind: "begin" };
  if (rules.busyMode === "reject") return { kind: "refuse", code: "busy" };
  const signal = signalOf(traffic, rules.busyMode);
  if (rules.busyMode !== "queue" && traffic.joinable !== null) {
    if (traffic.joinable.messages >= rules.maxMessagesPerTurn) return { kind: "refuse", code: "queue_full" };
    return { kind: "join", turnId: traffic.joinable.turnId, signal };
  }
  if (traffic.waiting >= rules.maxWaitingTurns) return { kind: "refuse", code: "queue_full" };
  return { kind: "queue", signal };
}

function signalOf(traffic: Traffic, mode: BusyMode): "steer" | "interrupt" | null {
  if (traffic.running === null) return null;
  if (mode === "interrupt") return traffic.running.stoppable ? "interrupt" : null;
  const canSteer = traffic.running.sameTarget && traffic.running.withinAuthority && traffic.overtaken === 0;
  return mode === "steer" && canSteer ? "steer" : null;
}

/** `debounce_ms` gathers followers, and moves the start of a waiting turn at most five times. */
export function readyAt(turn: { readonly admittedAt: number }, now: number, debounceMs: number): number {
  return Math.min(now + debounceMs, turn.admittedAt + 5 * debounceMs);
}
