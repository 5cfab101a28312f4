import type { Clock } from "../util/clock.ts";
import type { LiveTurn } from "./live-turn.ts";

/** How often a turn is looked at, at least: its waits are seen then. */
const LOOK_MS = 60_000;

/** The clocks of one running turn (T7). */
export interface TurnLimits {
  /** The agent gave a sign of life. */
  sign(): void;
  /** The turn waits for what is not its agent's doing: until the way back is called, which is safe to repeat, nothing counts. */
  hold(): () => void;
  cancel(): void;
}

/** Stops the turn after `idleMs` without an event, or after `totalMs`; waits for permission, and for a place for its agent, do not count. */
export function watchLimits(live: LiveTurn, options: { clock: Clock; idleMs: number; totalMs: number }): TurnLimits {
  const { clock, idleMs, totalMs } = options;
  let idleFrom = clock.now();
  let totalFrom = idleFrom;
  let lastCheck = idleFrom;
  let holds = 0;
  let cancel = (): void => undefined;
  const check = (): void => {
    const now = clock.now();
    if (now < lastCheck) {
      // The clock was set back: the limits are spans of time, and not moments of the day.
      idleFrom = Math.min(idleFrom, now);
      totalFrom -= lastCheck - now;
    }
    if (live.isAsking || holds > 0) {
      idleFrom = now;
      totalFrom += now - lastCheck;
    }
    lastCheck = now;
    if (now - idleFrom >= idleMs) live.stop({ kind: "timeout", limit: "idle", ms: idleMs });
    else if (now - totalFrom >= totalMs) live.stop({ kind: "timeout", limit: "total", ms: totalMs });
    else schedule(now);
  };
  const schedule = (now: number): void => {
    const next = Math.min(idleFrom + idleMs, totalFrom + totalMs, now + LOOK_MS);
    cancel = clock.after(Math.max(1, next - now), check);
  };
  schedule(idleFrom);
  const sign = (): void => {
    idleFrom = clock.now();
  };
  return {
    sign,
    hold: () => {
      holds += 1;
      let isHeld = true;
      return () => {
        if (isHeld) holds -= 1;
        isHeld = false;
        sign();
      };
    },
    cancel: () => cancel(),
  };
}
