/** A clock that stands still until it is told to go on. */
import type { Clock } from "../../src/util/clock.ts";

export interface ManualClock extends Clock {
  /** Fires what is due on the way, in the order of its time, and lets promises go on in between. */
  advance(ms: number): Promise<void>;
  /** Jumps, in either direction, without firing anything. */
  set(nowMs: number): void;
  /** Timers that have neither fired nor been cancelled. */
  readonly pending: number;
}

export function createManualClock(startMs = 0): ManualClock {
  interface Timer {
    readonly at: number;
    readonly call: () => void;
  }
  /** In the order set, which is the order of timers due at the same time. */
  const timers = new Set<Timer>();
  let now = startMs;

  function nextUntil(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of timers) if (timer.at <= end && (!next || timer.at < next.at)) next = timer;
    return next;
  }

  return {
    now: () => now,
    after(ms, call) {
      const timer: Timer = { at: now + Math.max(0, ms), call };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    set(nowMs) {
      now = nowMs;
    },
    async advance(ms) {
      const end = now + ms;
      await settle();
      for (let timer = nextUntil(end); timer; timer = nextUntil(end)) {
        timers.delete(timer);
        // After a jump forwards a timer is late; the clock does not go back for it.
        now = Math.max(now, timer.at);
        timer.call();
        await settle();
      }
      now = end;
    },
    get pending() {
      return timers.size;
    },
  };
}

/** Every promise that can go on by itself has done so. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
