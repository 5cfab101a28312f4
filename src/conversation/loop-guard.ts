/** The loop guard of a place (G5): agents may ask each other, but not for ever. Pure; the state is the store's, shared by all agents there. */

/** Turns in a row that were begun by an agent or a bot, with no human word in between. */
const MOST_IN_ROW = 6;
/** Such turns within five minutes, whoever spoke in between. */
const MOST_RECENT = 20;
const WINDOW_MS = 5 * 60_000;

export interface LoopState {
  readonly inRow: number;
  /** When the last such turns were begun, the oldest first. */
  readonly recent: readonly number[];
  /** It was said in the place that nothing is answered for now. */
  readonly isSaid: boolean;
  /** Answers of guests in a row, each within a second of what it answers. */
  readonly quick: number;
  /** The number of what the last of them answered: several lines at once are one answer. */
  readonly answered: number;
}

/** Whoever answers so fast, so often, is a program, whatever it passes for. */
export const QUICK_MS = 1_000;

export const QUIET: LoopState = { inRow: 0, recent: [], isSaid: false, quick: 0, answered: 0 };

/** Whether one more turn may be begun by an agent or a bot. A clock that was set back holds nothing. */
export function mayAnswer({ inRow, recent }: LoopState, now: number): boolean {
  const within = recent.filter((at) => at > now - WINDOW_MS && at <= now);
  return inRow < MOST_IN_ROW && within.length < MOST_RECENT;
}

export function afterTurn({ inRow, recent, ...state }: LoopState, now: number): LoopState {
  return { ...state, inRow: inRow + 1, recent: [...recent, now].slice(-MOST_RECENT) };
}

/** A human has spoken: the row begins anew, and the next time it is said again. */
export function afterHuman(state: LoopState): LoopState {
  return { ...state, inRow: 0, isSaid: false, quick: 0 };
}

/** A guest has answered within a second: as a human would now and then, until it is once too often in a row. */
export function afterQuick(state: LoopState, answered: number): LoopState {
  const quick = state.quick + 1;
  if (quick < MOST_IN_ROW) return { ...afterHuman(state), quick, answered };
  return { ...state, inRow: Math.max(state.inRow, quick), quick, answered };
}

/** Whether what guests say there counts as an agent's. */
export function isProgram({ quick }: LoopState): boolean {
  return quick > MOST_IN_ROW;
}
