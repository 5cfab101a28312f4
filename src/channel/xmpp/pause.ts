import type { Clock } from "../../util/clock.ts";

/** Resolves after `ms`, or at once when the signal says that it is over; no timer is left then. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(ms, resolve);
  signal.addEventListener("abort", () => resolve(), { once: true });
  if (signal.aborted) resolve();
  return promise.finally(cancel);
}

/** The value, or undefined when the time or the session is over first. */
export function within<Value>(
  promise: Promise<Value>,
  { clock, ms, signal }: { clock: Clock; ms: number; signal: AbortSignal },
): Promise<Value | undefined> {
  const done = new AbortController();
  const over = pause(clock, ms, AbortSignal.any([signal, done.signal])).then(() => undefined);
  return Promise.race([promise, over]).finally(() => done.abort());
}
