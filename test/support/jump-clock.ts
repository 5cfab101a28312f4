import type { Clock } from "../../src/util/clock.ts";

/** The real clock, for real processes; what is far off comes by a jump. */
export interface JumpClock extends Clock {
  /** Fires what is due then. */
  jump(ms: number): void;
  readonly pending: number;
}

export function createJumpClock(): JumpClock {
  const timers = new Set<{ readonly at: number; readonly fire: () => void }>();
  let jumped = 0;
  const now = (): number => Date.now() + jumped;
  return {
    now,
    after(ms, call) {
      const timeout = setTimeout(() => timer.fire(), Math.min(ms, 2 ** 31 - 1));
      const cancel = (): void => {
        clearTimeout(timeout);
        timers.delete(timer);
      };
      const timer = {
        at: now() + ms,
        fire: () => {
          cancel();
          call();
        },
      };
      timers.add(timer);
      return cancel;
    },
    jump(ms) {
      jumped += ms;
      for (const timer of [...timers].sort((a, b) => a.at - b.at))
        if (timer.at <= now() && timers.has(timer)) timer.fire();
    },
    get pending() {
      return timers.size;
    },
  };
}
