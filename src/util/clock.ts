/** Time as an argument: tests pass a manual clock. */
export interface Clock {
  /** Epoch ms. */
  now(): number;
  /** Calls once after `ms` (at most 2^31-1); returns the way to cancel it. */
  after(ms: number, call: () => void): () => void;
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, call) {
    const timer = setTimeout(call, Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
};
