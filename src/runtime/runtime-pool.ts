/**
 * RuntimePool: keeps agents warm between turns (B1 to B5), one handle per (session, runtime).
 *
 * It owns the handles, their health and their restart counts; it knows nothing of turns. Each change of a handle's state is an event, and
 * whoever needs to know whether a place is free reads `room` after it. Requests are served in their order, and nobody overtakes a session
 * that waits for a place. At most `maxWarm` handles are alive at any moment, those in a turn and those still closing included. Together
 * they take at most `maxMemoryMb`, as far as that is known: a handle counts with its runtime's class before its first turn, and as measured
 * after each turn. A runtime that fails for several sessions in a row rests as a whole. The pool forgets a parked session at once, and one
 * that failed or died some time later.
 */
import { TertuliaError } from "../errors.ts";
import type { Clock } from "../util/clock.ts";
import type { AgentSession, HandleStateName, OpenedHow, OpenRequest, Runtime, RuntimePoolEvent } from "./runtime.ts";

/** How long the pool waits for a park, or for the end of an aborted open, before it abandons it: longer than killing a process takes. */
const PATIENCE_MS = 10_000;
const FIRST_BACKOFF_MS = 1_000;
const LONGEST_BACKOFF_MS = 60_000;
/** How long the pool remembers a failing session after its back-off, so that the next failure waits longer. */
const BROKEN_MEMORY_MS = 60_000;
/** After so many failed opens in a row a runtime rests for all sessions; the failures of one session alone count once. */
const BREAKER_FAILURES = 3;
/** Memory is measured at most this often: it takes a walk through all processes. */
const WEIGH_MS = 10_000;
const BYTES_PER_MB = 1024 * 1024;

export interface RuntimePoolOptions {
  readonly clock: Clock;
  /** How long an unused handle stays warm. */
  readonly idleMs: number;
  /** At least 1. */
  readonly maxWarm: number;
  /** The most memory of all handles together; absent: no limit. One handle alone may be larger. */
  readonly maxMemoryMb?: number;
  /** After each change of a handle's state: a place may be free now. Must not throw. */
  readonly onEvent: (event: RuntimePoolEvent) => void;
  /** A handle died or was discarded. Must not throw. */
  readonly onRestart?: (restart: { sessionId: string; runtime: string; restarts: number }) => void;
}

export interface AcquireRequest {
  readonly sessionId: string;
  readonly runtime: Runtime;
  /** Asked only when a handle has to be opened. Its `signal` is replaced by one that aborts when nobody waits for the handle any more. */
  readonly request: () => Promise<OpenRequest>;
  readonly signal: AbortSignal;
  /** Restarts known from before, taken where the pool does not know the session; 0 when absent. */
  readonly restarts?: number;
}

/** The right to use a handle until `release` or `discard`. Only the first call counts. */
export interface Lease {
  readonly session: AgentSession;
  /** Whether the handle was opened for this lease. */
  readonly cold: boolean;
  readonly how: OpenedHow;
  /** The session's restarts up to now. */
  readonly restarts: number;
  release(): void;
  /** Closes a handle that hangs or has lost its session; counts as a restart. Resolves when it is closed. Never rejects. */
  discard(): Promise<void>;
}

export interface HandleStatus {
  readonly sessionId: string;
  readonly runtime: string;
  readonly state: HandleStateName;
  /** When it entered this state. */
  readonly since: number;
  readonly restarts: number;
  /** The memory of an open handle: its runtime's class, or as measured last. */
  readonly memoryMb?: number;
  readonly how?: OpenedHow;
  /** When a broken one may be tried again. */
  readonly until?: number;
}

export interface RuntimePoolCounters {
  readonly opened: number;
  /** Handles that were closed in order, evicted ones included. */
  readonly parked: number;
  readonly evicted: number;
  /** Handles that died or were discarded. */
  readonly restarted: number;
}

/**
 * cold → warming → warm ⇄ busy → draining → cold; warming → broken → warming. A handle that dies is cold at once, or, in a turn, when its
 * lease ends; warming goes back to cold when nobody wants the handle any more, and to draining when it arrives after all.
 */
type HandleState =
  /** `forgetAt`: a handle was lost, and the count of its restarts is kept until then. */
  | { readonly name: "cold"; readonly forgetAt?: number; readonly problem?: unknown }
  | { readonly name: "warming"; readonly abort: AbortController; readonly over: Promise<void> }
  | { readonly name: "warm"; readonly handle: Handle }
  | { readonly name: "busy"; readonly handle: Handle }
  | { readonly name: "draining"; readonly over: Promise<void> }
  | { readonly name: "broken"; readonly until: number; readonly forgetAt: number; readonly problem: unknown };

interface Handle {
  readonly session: AgentSession;
  memoryMb: number;
  weighedAt: number;
  health: "ok" | "dead";
  leases: number;
  stopListening: () => void;
}

interface Slot {
  readonly sessionId: string;
  readonly runtime: Runtime;
  state: HandleState;
  since: number;
  restarts: number;
  /** Opens that failed in a row. */
  failures: number;
}

interface Waiter {
  slot: Slot;
  readonly request: () => Promise<OpenRequest>;
  readonly resolve: (lease: Lease) => void;
  readonly reject: (cause: unknown) => void;
}

type Opening =
  | { readonly kind: "opened"; readonly session: AgentSession }
  /** `request` threw: no fault of the runtime. */
  | { readonly kind: "unasked"; readonly cause: unknown }
  | { readonly kind: "failed"; readonly cause: unknown };

const LATE = Symbol("late");

export function createRuntimePool(options: RuntimePoolOptions): RuntimePool {
  return new RuntimePool(options);
}

export class RuntimePool {
  readonly #options: RuntimePoolOptions;
  readonly #clock: Clock;
  /** Slots by session, then by name of the runtime. A slot that is not in here was dropped, and ends with its handle. */
  readonly #slots = new Map<string, Map<string, Slot>>();
  readonly #waiting = new Set<Waiter>();
  /** Runtimes whose last opens failed: how many in a row, and until when the runtime rests. */
  readonly #breakers = new Map<string, { failures: number; until: number; lastSession: string }>();
  readonly #counters = { opened: 0, parked: 0, evicted: 0, restarted: 0 };
  /** The one timer, for idle and remembered slots. */
  #timer: { readonly at: number; readonly cancel: () => void } | null = null;
  #closing: Promise<void> | null = null;

  // Sets of slots by state, written only by #move.
  /** Slots that take a place: warming, warm, busy or draining. */
  readonly #alive = new Set<Slot>();
  /** The warm ones, the least recently used first. */
  readonly #idle = new Set<Slot>();
  readonly #draining = new Set<Slot>();
  /** Cold or broken slots that the timer will forget. */
  readonly #remembered = new Set<Slot>();

  constructor(options: RuntimePoolOptions) {
    this.#options = options;
    this.#clock = options.clock;
  }

  /**
   * Waits for the session's own handle, and for a place. Rejects with the signal's reason when it aborts, with `runtime_failed` when the
   * handle cannot be opened, with `runtime_resting` while a broken one is not tried again, with what `request` threw, and with
   * `gateway_stopping` once the pool closes.
   */
  acquire({ sessionId, runtime, request, signal, restarts = 0 }: AcquireRequest): Promise<Lease> {
    if (this.#closing) return Promise.reject(stopping());
    if (signal.aborted) return Promise.reject(signal.reason);
    const slot = this.#slotOf(sessionId, runtime, restarts);
    const { state, since } = slot;
    const now = this.#clock.now();
    // A clock that was set back does not make the back-off longer.
    if (state.name === "broken" && since <= now && now < state.until) {
      return Promise.reject(broken("runtime_resting", slot, state.problem, state.until - now));
    }

    const resting = this.#restingMs(slot);
    if (resting > 0 && state.name !== "warm") {
      this.#forgetUnlessWanted(slot);
      return Promise.reject(broken("runtime_resting", slot, undefined, resting));
    }

    const { promise, resolve, reject } = Promise.withResolvers<Lease>();
    const waiter: Waiter = { slot, request, resolve, reject };
    this.#waiting.add(waiter);
    this.#serve();
    if (!this.#waiting.has(waiter)) return promise;

    const leave = (): void => {
      this.#dismiss(waiter, signal.reason);
      this.#serve();
    };
    signal.addEventListener("abort", leave, { once: true });
    return promise.finally(() => signal.removeEventListener("abort", leave));
  }

  /**
   * The session has ended (R4), or has to be opened anew: an idle handle is parked now, and the promise waits for that; a busy one is parked
   * when it is released or discarded, without the promise waiting. Who waits for the session gets a new handle. With a runtime's name only
   * that one's handle goes. Safe to repeat.
   */
  async drop(sessionId: string, runtimeName?: string): Promise<void> {
    const known = this.#slots.get(sessionId);
    const dropped = [...(known?.values() ?? [])].filter(({ runtime: { name } }) => (runtimeName ?? name) === name);
    for (const { runtime } of dropped) known?.delete(runtime.name);
    if (known?.size === 0) this.#slots.delete(sessionId);
    for (const waiter of this.#waiting) {
      const { slot } = waiter;
      if (dropped.includes(slot)) waiter.slot = this.#slotOf(sessionId, slot.runtime, slot.restarts);
    }
    for (const slot of dropped) this.#remembered.delete(slot);
    const over = dropped.filter((slot) => slot.state.name !== "busy").map((slot) => this.#end(slot));
    this.#serve();
    await Promise.all(over);
  }

  /** Every handle that is alive, failing, or lost a short while ago. */
  /** The state of the session's handle that is not cold, of whichever runtime. */
  stateOf(sessionId: string): HandleStateName {
    const handles = this.list().filter((handle) => handle.sessionId === sessionId);
    return handles.find(({ state }) => state !== "cold")?.state ?? "cold";
  }

  list(): readonly HandleStatus[] {
    const known = [...this.#slots.values()].flatMap((runtimes) => [...runtimes.values()]);
    return [...new Set([...known, ...this.#alive])].map(({ sessionId, runtime, state, since, restarts }) => ({
      sessionId,
      runtime: runtime.name,
      state: state.name,
      since,
      restarts,
      ...("handle" in state ? { how: state.handle.session.how, memoryMb: state.handle.memoryMb } : {}),
      ...(state.name === "broken" ? { until: state.until } : {}),
    }));
  }

  /** The number of free places, less those that waiting requests will take. */
  get room(): number {
    const inUse = this.#alive.size - this.#idle.size - this.#draining.size;
    if (this.#idle.size === 0 && this.#alive.size > 0 && this.#memoryMb() >= this.#maxMemoryMb) return 0;
    return Math.max(0, this.#options.maxWarm - inUse - this.#waiting.size);
  }

  get counters(): RuntimePoolCounters {
    return { ...this.#counters };
  }

  /** Parks every handle, those in a turn too, and waits for it: no timer and no handle is left. Safe to repeat. */
  close(): Promise<void> {
    this.#closing ??= Promise.resolve().then(() => this.#closeAll());
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    for (const waiter of this.#waiting) this.#dismiss(waiter, stopping());
    while (this.#alive.size > 0) await Promise.all([...this.#alive].map((slot) => this.#end(slot)));
    this.#timer?.cancel();
    this.#timer = null;
    this.#slots.clear();
    this.#remembered.clear();
  }

  /** Serves waiting requests in their order, and makes room for those that need a place. */
  #serve(): void {
    const claimants = new Set<Slot>();
    let placesNeeded = 0;
    for (const waiter of this.#waiting) {
      const { slot } = waiter;
      if (slot.state.name === "warm") {
        this.#waiting.delete(waiter);
        waiter.resolve(this.#lend(slot, slot.state.handle));
        continue;
      }
      const isToOpen = slot.state.name === "cold" || slot.state.name === "broken";
      if (!isToOpen || claimants.has(slot) || this.#hasClosingPredecessor(slot)) continue;
      const restingMs = this.#restingMs(slot);
      if (restingMs > 0) {
        this.#dismiss(waiter, broken("runtime_resting", slot, undefined, restingMs));
        continue;
      }
      claimants.add(slot);
      if (this.#hasPlace(slot)) {
        void this.#warm(slot, waiter);
        continue;
      }
      placesNeeded++;
      if (placesNeeded <= this.#draining.size) continue;
      const [leastRecentlyUsed] = this.#idle;
      if (!leastRecentlyUsed) return;
      this.#counters.evicted++;
      void this.#end(leastRecentlyUsed);
    }
  }

  get #maxMemoryMb(): number {
    return this.#options.maxMemoryMb ?? Number.POSITIVE_INFINITY;
  }

  #memoryMb(): number {
    let sum = 0;
    for (const { state, runtime } of this.#alive)
      sum += "handle" in state ? state.handle.memoryMb : (runtime.memoryMb ?? 0);
    return sum;
  }

  #hasPlace({ runtime }: Slot): boolean {
    if (this.#alive.size >= this.#options.maxWarm) return false;
    return this.#alive.size === 0 || this.#memoryMb() + (runtime.memoryMb ?? 0) <= this.#maxMemoryMb;
  }

  /** Measures the agent after a turn. While all handles take too much, idle ones are closed. */
  async #weigh(handle: Handle): Promise<void> {
    handle.weighedAt = this.#clock.now();
    const bytes = await handle.session.memory?.().catch(() => undefined);
    if (bytes === undefined) return;
    handle.memoryMb = Math.ceil(bytes / BYTES_PER_MB);
    while (this.#memoryMb() > this.#maxMemoryMb && this.#draining.size === 0) {
      const [leastRecentlyUsed] = this.#idle;
      if (leastRecentlyUsed === undefined) return;
      this.#counters.evicted++;
      await this.#end(leastRecentlyUsed);
    }
  }

  /** How long a runtime still rests; 0 if it may be tried. While one session tries it again, it rests for the others. */
  #restingMs(slot: Slot): number {
    const breaker = this.#breakers.get(slot.runtime.name);
    if (breaker === undefined || breaker.failures < BREAKER_FAILURES) return 0;
    const leftMs = breaker.until - this.#clock.now();
    if (leftMs > 0) return leftMs;
    for (const other of this.#alive)
      if (other !== slot && other.runtime.name === slot.runtime.name && other.state.name === "warming")
        return FIRST_BACKOFF_MS;
    return 0;
  }

  #countOpening(slot: Slot, isOpened: boolean): void {
    const { sessionId, runtime } = slot;
    if (isOpened) {
      this.#breakers.delete(runtime.name);
      return;
    }
    const before = this.#breakers.get(runtime.name);
    const isAlone = before !== undefined && before.failures < BREAKER_FAILURES && before.lastSession === sessionId;
    const failures = isAlone ? before.failures : (before?.failures ?? 0) + 1;
    const until = this.#clock.now() + backOff(failures - BREAKER_FAILURES);
    this.#breakers.set(runtime.name, { failures, until, lastSession: sessionId });
  }

  #lend(slot: Slot, handle: Handle): Lease {
    this.#move(slot, { name: "busy", handle });
    let end: Promise<void> | null = null;
    return {
      session: handle.session,
      cold: handle.leases++ === 0,
      how: handle.session.how,
      get restarts() {
        return slot.restarts;
      },
      release: () => {
        end ??= holds(slot, handle) ? this.#settle(slot, handle) : this.#end(slot);
      },
      discard: () => {
        end ??= holds(slot, handle) ? this.#discard(slot, handle) : this.#end(slot);
        return end;
      },
    };
  }

  async #discard(slot: Slot, handle: Handle): Promise<void> {
    if (handle.health === "dead") return this.#settle(slot, handle);
    this.#countRestart(slot);
    await this.#drain(slot, handle, this.#clock.now() + this.#options.idleMs);
  }

  /** Moves a handle that nobody uses any more to its next state. */
  async #settle(slot: Slot, handle: Handle): Promise<void> {
    if (handle.health === "dead") {
      this.#move(slot, { name: "cold", forgetAt: this.#clock.now() + this.#options.idleMs });
    } else if (this.#closing || !this.#isKnown(slot)) {
      return this.#drain(slot, handle);
    } else {
      this.#move(slot, { name: "warm", handle });
      if (handle.session.memory !== undefined && this.#clock.now() - handle.weighedAt >= WEIGH_MS)
        void this.#weigh(handle);
    }
    this.#serve();
  }

  // ---- warming

  async #warm(slot: Slot, waiter: Waiter): Promise<void> {
    const abort = new AbortController();
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#move(slot, { name: "warming", abort, over });
    const opening = await this.#openUnlessAborted(slot.runtime, waiter.request, abort.signal);
    if (opening.kind === "opened") await this.#opened(slot, opening.session);
    else this.#unopened(slot, waiter, opening, abort.signal);
    resolve();
  }

  async #opened(slot: Slot, session: AgentSession): Promise<void> {
    this.#counters.opened++;
    slot.failures = 0;
    this.#countOpening(slot, true);
    const memoryMb = slot.runtime.memoryMb ?? 0;
    const handle: Handle = {
      session,
      memoryMb,
      weighedAt: Number.NEGATIVE_INFINITY,
      health: "ok",
      leases: 0,
      stopListening: () => undefined,
    };
    handle.stopListening = session.onDead((failure) => this.#died(slot, handle, failure));
    await this.#settle(slot, handle);
  }

  #unopened(
    slot: Slot,
    waiter: Waiter,
    { kind, cause }: Exclude<Opening, { kind: "opened" }>,
    signal: AbortSignal,
  ): void {
    if (signal.aborted) {
      this.#move(slot, { name: "cold" });
    } else if (kind === "unasked") {
      this.#waiting.delete(waiter);
      waiter.reject(cause);
      this.#move(slot, { name: "cold" });
    } else {
      const backOffMs = backOff(slot.failures);
      slot.failures++;
      this.#countOpening(slot, false);
      const until = this.#clock.now() + backOffMs;
      this.#move(slot, { name: "broken", until, forgetAt: until + BROKEN_MEMORY_MS, problem: cause });
      const error = cause instanceof TertuliaError ? cause : broken("runtime_failed", slot, cause, backOffMs);
      for (const other of this.#waiting) if (other.slot === slot) this.#dismiss(other, error);
    }
    this.#serve();
  }

  /** After an abort the runtime has a little time to end; a session that it opens later is parked. */
  async #openUnlessAborted(runtime: Runtime, ask: Waiter["request"], signal: AbortSignal): Promise<Opening> {
    const opening = openHandle(runtime, ask, signal);
    const aborted = Promise.withResolvers<typeof LATE>();
    signal.addEventListener("abort", () => aborted.resolve(LATE), { once: true });
    let first = await Promise.race([opening, aborted.promise]);
    if (first === LATE) first = await this.#patiently(opening);
    if (first !== LATE) return first;
    void opening.then((late) => (late.kind === "opened" ? this.#park(late.session) : undefined));
    return { kind: "failed", cause: signal.reason };
  }

  // ---- the end of a handle

  /** Closes a handle that nobody wants, or whose place is needed. Never rejects. */
  #end(slot: Slot): Promise<void> {
    const { state } = slot;
    if (state.name === "warm" || state.name === "busy") return this.#drain(slot, state.handle);
    if (state.name === "warming") state.abort.abort(new Error("The handle is not wanted any more."));
    return state.name === "warming" || state.name === "draining" ? state.over : Promise.resolve();
  }

  async #drain(slot: Slot, handle: Handle, forgetAt?: number): Promise<void> {
    handle.stopListening();
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#move(slot, { name: "draining", over });
    const problem = await this.#park(handle.session);
    if (problem === undefined) this.#counters.parked++;
    const about = { ...(problem === undefined ? {} : { problem }), ...(forgetAt === undefined ? {} : { forgetAt }) };
    this.#move(slot, { name: "cold", ...about });
    resolve();
    this.#serve();
  }

  /** Resolves with the problem, if there was one. Never rejects. */
  async #park(session: AgentSession): Promise<unknown> {
    try {
      if ((await this.#patiently(session.park())) !== LATE) return undefined;
      return new Error(`The agent did not close within ${PATIENCE_MS / 1000} s and was abandoned.`);
    } catch (cause) {
      return cause ?? new Error("The agent did not close.");
    }
  }

  async #patiently<T>(promise: Promise<T>): Promise<T | typeof LATE> {
    const late = Promise.withResolvers<typeof LATE>();
    const stop = this.#clock.after(PATIENCE_MS, () => late.resolve(LATE));
    try {
      return await Promise.race([promise, late.promise]);
    } finally {
      stop();
    }
  }

  #died(slot: Slot, handle: Handle, problem: unknown): void {
    if (handle.health === "dead") return;
    handle.health = "dead";
    this.#countRestart(slot);
    // In a turn, the lease says when it is over.
    if (slot.state.name !== "warm" || slot.state.handle !== handle) return;
    this.#move(slot, { name: "cold", forgetAt: this.#clock.now() + this.#options.idleMs, problem });
    this.#serve();
  }

  #countRestart(slot: Slot): void {
    slot.restarts++;
    this.#counters.restarted++;
    const { sessionId, runtime, restarts } = slot;
    this.#options.onRestart?.({ sessionId, runtime: runtime.name, restarts });
  }

  // ---- the one change of state, and what is remembered

  #move(slot: Slot, state: HandleState): void {
    const from = slot.state.name;
    const now = this.#clock.now();
    slot.state = state;
    slot.since = now;
    const isAlive = state.name !== "cold" && state.name !== "broken";
    include(this.#alive, slot, isAlive);
    include(this.#idle, slot, state.name === "warm");
    include(this.#draining, slot, state.name === "draining");

    const forgetAt = "forgetAt" in state && this.#isKnown(slot) ? state.forgetAt : undefined;
    include(this.#remembered, slot, forgetAt !== undefined);
    if (forgetAt !== undefined) this.#wakeAt(forgetAt);
    else if (!isAlive) this.#forgetUnlessWanted(slot);
    if (state.name === "warm") this.#wakeAt(now + this.#options.idleMs);

    this.#options.onEvent({
      sessionId: slot.sessionId,
      runtime: slot.runtime.name,
      from,
      to: state.name,
      at: now,
      ...(from === "warming" && state.name === "warm" ? { how: state.handle.session.how } : {}),
      ...("problem" in state ? { problem: state.problem } : {}),
    });
  }

  #slotOf(sessionId: string, runtime: Runtime, restarts: number): Slot {
    let runtimes = this.#slots.get(sessionId);
    if (!runtimes) {
      runtimes = new Map();
      this.#slots.set(sessionId, runtimes);
    }
    let slot = runtimes.get(runtime.name);
    if (!slot) {
      slot = { sessionId, runtime, state: { name: "cold" }, since: this.#clock.now(), restarts, failures: 0 };
      runtimes.set(runtime.name, slot);
    }
    return slot;
  }

  #isKnown(slot: Slot): boolean {
    return this.#slots.get(slot.sessionId)?.get(slot.runtime.name) === slot;
  }

  /** Whether a dropped handle of the same session is still on its way out; one in a turn is not waited for. */
  #hasClosingPredecessor(slot: Slot): boolean {
    for (const other of this.#alive) {
      const isSame = other.sessionId === slot.sessionId && other.runtime.name === slot.runtime.name;
      if (isSame && other !== slot && other.state.name !== "busy") return true;
    }
    return false;
  }

  #isWanted(slot: Slot): boolean {
    for (const waiter of this.#waiting) if (waiter.slot === slot) return true;
    return false;
  }

  #dismiss(waiter: Waiter, cause: unknown): void {
    if (!this.#waiting.delete(waiter)) return;
    waiter.reject(cause);
    const { slot } = waiter;
    if (slot.state.name === "warming" && !this.#isWanted(slot)) void this.#end(slot);
    if (!this.#alive.has(slot) && !this.#remembered.has(slot)) this.#forgetUnlessWanted(slot);
  }

  #forgetUnlessWanted(slot: Slot): void {
    if (!this.#isKnown(slot) || this.#isWanted(slot)) return;
    const runtimes = this.#slots.get(slot.sessionId);
    runtimes?.delete(slot.runtime.name);
    if (runtimes?.size === 0) this.#slots.delete(slot.sessionId);
  }

  #wakeAt(at: number): void {
    if (this.#closing || (this.#timer && this.#timer.at <= at)) return;
    this.#timer?.cancel();
    this.#timer = { at, cancel: this.#clock.after(at - this.#clock.now(), () => this.#tidy()) };
  }

  #tidy(): void {
    this.#timer = null;
    const now = this.#clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const slot of this.#idle) {
      const dueAt = slot.since + this.#options.idleMs;
      if (dueAt <= now) void this.#end(slot);
      else next = Math.min(next, dueAt);
    }
    for (const slot of this.#remembered) {
      const forgetAt = "forgetAt" in slot.state ? (slot.state.forgetAt ?? now) : now;
      if (forgetAt > now) {
        next = Math.min(next, forgetAt);
      } else {
        this.#remembered.delete(slot);
        this.#forgetUnlessWanted(slot);
      }
    }
    if (next !== Number.POSITIVE_INFINITY) this.#wakeAt(next);
  }
}

/** The wait after a failure; it doubles with each one. */
function backOff(before: number): number {
  return Math.min(FIRST_BACKOFF_MS * 2 ** Math.max(0, before), LONGEST_BACKOFF_MS);
}

async function openHandle(runtime: Runtime, ask: Waiter["request"], signal: AbortSignal): Promise<Opening> {
  let request: OpenRequest;
  try {
    request = await ask();
  } catch (cause) {
    return { kind: "unasked", cause };
  }
  try {
    return { kind: "opened", session: await runtime.open({ ...request, signal }) };
  } catch (cause) {
    return { kind: "failed", cause };
  }
}

/** Whether the handle is still in its turn; false if the pool was closed meanwhile. */
function holds(slot: Slot, handle: Handle): boolean {
  return slot.state.name === "busy" && slot.state.handle === handle;
}

function include(set: Set<Slot>, slot: Slot, isMember: boolean): void {
  if (isMember) set.add(slot);
  else set.delete(slot);
}

/** The error of a failed open (`runtime_failed`), or of one that was not tried because an earlier one failed (`runtime_resting`). */
function broken(code: "runtime_failed" | "runtime_resting", slot: Slot, cause: unknown, waitMs: number): TertuliaError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const sentence = `The runtime ${slot.runtime.name} could not be started; it can be tried again in ${seconds} s.`;
  return new TertuliaError(code, sentence, { cause });
}

function stopping(): TertuliaError {
  return new TertuliaError("gateway_stopping", "The gateway is stopping.");
}
