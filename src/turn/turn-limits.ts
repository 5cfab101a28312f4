import type { Clock } from "../util/clock.ts";
import type { LiveTurn } from "./live-turn.ts";

/** The longest time between two checks of a turn: waits that do not count are noticed there. */
const LOOK_MS = 60_000;

/** The clocks of one running turn (T7). */
export interface TurnLimits {
  /** The agent gave a sign of life: the idle limit begins anew. */
  sign(): void;
  /** The turn waits for something else than its agent: nothing counts until the returned function is called, which is safe to repeat. */
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
      // The clock was set back. The limits are spans of time, not times of day.
      idleFrom = Math.min(idleFrom, now);
      totalFrom -= lastCheck - now;
    }
    if (live.questions.all.length > 0 || holds > 0) {
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

/**
 * The grace of a stop: `over` resolves `ms` after the signal aborts, or after `begin`. Then the agent is given up, and its late words are
 * thrown away.
 */
export function stopGrace(
  signal: AbortSignal,
  { clock, ms }: { readonly clock: Clock; readonly ms: number },
): { readonly over: Promise<"given_up">; begin(): void; cancel(): void } {
  let cancelTimer: (() => void) | null = null;
  const { promise: over, resolve } = Promise.withResolvers<"given_up">();
  const begin = (): void => {
    cancelTimer ??= clock.after(ms, () => resolve("given_up"));
  };
  if (signal.aborted) begin();
  else signal.addEventListener("abort", begin, { once: true });
  return {
    over,
    begin,
    cancel: () => {
      signal.removeEventListener("abort", begin);
      cancelTimer?.();
    },
  };
}
