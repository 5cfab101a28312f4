import type { Step } from "../events.ts";
import type { OpenedHow } from "../runtime/runtime.ts";
import type { Turn } from "../store/turns.ts";
import type { Outcome } from "./metrics.ts";

/** The times of one turn on its way through the gateway, gathered step by step. All are epoch ms. */
export interface TurnTimings {
  /** When its admission was durable; null for a turn of an earlier run. */
  admittedAt: number | null;
  /** The last one counts: a rebuilt agent speaks anew. */
  spokeAt: number | null;
  agent: string | null;
  runtime: string | null;
  how: OpenedHow | null;
  isCold: boolean | null;
  /** One for each agent it was given to. */
  readonly attempts: Attempt[];
}

interface Attempt {
  readonly askedAt: number;
  openedAt: number | null;
  promptedAt: number | null;
  heardAt: number | null;
}

export type TurnStep = Exclude<Step, { kind: "settled" | "attempted" }>;

export function startTimings(): TurnTimings {
  return { admittedAt: null, spokeAt: null, agent: null, runtime: null, how: null, isCold: null, attempts: [] };
}

export function take(trip: TurnTimings, step: TurnStep, at: number): void {
  const attempt = trip.attempts.at(-1);
  switch (step.kind) {
    case "admitted":
      trip.admittedAt ??= at;
      trip.agent = step.agent;
      return;
    case "asked":
      trip.agent = step.agent;
      trip.runtime = step.runtime;
      trip.attempts.push({ askedAt: at, openedAt: null, promptedAt: null, heardAt: null });
      return;
    case "opened":
      trip.how = step.how;
      trip.isCold = trip.isCold === true || step.cold;
      if (attempt !== undefined) attempt.openedAt = at;
      return;
    case "prompted":
      if (attempt !== undefined) attempt.promptedAt = at;
      return;
    case "spoke":
      trip.spokeAt = at;
      return;
    case "heard":
      if (attempt !== undefined) attempt.heardAt = at;
      return;
    case "taken_in":
      return;
  }
}

/** What is logged of a turn: ids and times, no key, no name, no words. */
export interface TurnLine {
  readonly turn: number;
  readonly session: string;
  readonly conversation: number;
  readonly outcome: Outcome;
  readonly queuedMs: number;
  readonly firstTokenMs: number | null;
  readonly totalMs: number;
  readonly cold: boolean | null;
  readonly runtime: string | null;
}

export function lineOf(turn: Turn, trip: TurnTimings, now: number): TurnLine {
  const endedAt = turn.settledAt ?? now;
  const begunAt = turn.begunAt ?? endedAt;
  return {
    turn: turn.id,
    session: turn.sessionId,
    conversation: turn.conversationId,
    outcome: outcomeOf(turn),
    queuedMs: span(turn.admittedAt, begunAt),
    firstTokenMs: trip.spokeAt === null ? null : span(begunAt, trip.spokeAt),
    totalMs: span(turn.admittedAt, endedAt),
    cold: trip.isCold,
    runtime: trip.runtime,
  };
}

function outcomeOf({ state, reason }: Turn): Outcome {
  if (state === "answered") return reason === "silent" ? "silent" : "answered";
  return state === "failed" || state === "withdrawn" ? state : "interrupted";
}

/** A clock that was set back makes no negative time. */
function span(from: number, to: number): number {
  return Math.max(0, to - from);
}
