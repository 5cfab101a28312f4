import type { Claim, Store } from "../../src/store/port.ts";
import type { Clock } from "../../src/util/clock.ts";

/** A process that can be killed: its store and its clock fall silent together, as after a SIGKILL. */

export const VERBS = ["admit", "begin", "mark", "settle", "attempt", "delivered", "keep"] as const;
export type Verb = (typeof VERBS)[number];

/** The call at which a process dies: it never reaches the file (`before`), or its commit happens and nobody hears of it (`after`). */
export interface Death {
  readonly moment: "before" | "after";
  /** Any verb when absent. */
  readonly verb?: Verb;
  /** Calls that are let through first; 0 when absent. */
  readonly skip?: number;
}

/** A verb that reached the file, whether or not its caller lived to hear of it. */
export interface Committed {
  readonly verb: Verb;
  readonly request: unknown;
  readonly claim: Claim;
  readonly result: unknown;
}

/** A process's own timers on the clock of the story: they end with it. */
export class MortalClock implements Clock {
  readonly #clock: Clock;
  readonly #timers = new Set<() => void>();
  #isDead = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  after(ms: number, call: () => void): () => void {
    if (this.#isDead) return () => undefined;
    const cancelTimer = this.#clock.after(ms, () => {
      this.#timers.delete(cancel);
      call();
    });
    const cancel = (): void => {
      this.#timers.delete(cancel);
      cancelTimer();
    };
    this.#timers.add(cancel);
    return cancel;
  }

  die(): void {
    this.#isDead = true;
    for (const cancel of [...this.#timers]) cancel();
  }
}

export class MortalProcess {
  readonly store: Store;
  readonly clock: MortalClock;
  readonly death: Promise<void>;
  readonly #inner: Store;
  readonly #onCommitted: (committed: Committed) => void;
  readonly #died = Promise.withResolvers<void>();
  #isDead = false;
  #plan: { moment: Death["moment"]; verb: Verb | null; skip: number } = { moment: "before", verb: null, skip: -1 };
  #calls = 0;
  #inFlight = 0;

  constructor(options: { store: Store; clock: MortalClock; onCommitted: (committed: Committed) => void }) {
    this.#inner = options.store;
    this.clock = options.clock;
    this.#onCommitted = options.onCommitted;
    this.death = this.#died.promise;
    this.store = new Proxy(options.store, {
      get: (store, name) => {
        const method: unknown = Reflect.get(store, name, store);
        if (typeof method !== "function") return method;
        return (...args: unknown[]) => this.#call(String(name), args, () => Reflect.apply(method, store, args));
      },
    });
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Verbs asked for so far, and those that wait for their commit: when neither moves, nothing goes on without the clock. */
  get activity(): { readonly calls: number; readonly inFlight: number } {
    return { calls: this.#calls, inFlight: this.#inFlight };
  }

  dieAt({ moment, verb, skip }: Death): void {
    this.#plan = { moment, verb: verb ?? null, skip: skip ?? 0 };
  }

  kill(): void {
    this.#isDead = true;
    this.clock.die();
    this.#died.resolve();
  }

  /** What the dead process had handed over is on its way to the file: closes after that. */
  async bury(): Promise<void> {
    this.kill();
    while (this.#inFlight > 0) await new Promise((resolve) => setImmediate(resolve));
    await this.#inner.close();
  }

  async #call(name: string, args: readonly unknown[], run: () => Promise<unknown>): Promise<unknown> {
    if (this.#isDead) return never();
    const verb = VERBS.find((known) => known === name);
    if (verb === undefined) return this.#heard(run());
    this.#calls++;
    const isLast = this.#isPlanned(verb);
    if (isLast && this.#plan.moment === "before") {
      this.kill();
      return never();
    }
    this.#inFlight++;
    const committed = run().then((result) => {
      this.#onCommitted({ verb, request: args[0], claim: args[1] as Claim, result });
      return result;
    });
    const over = committed.finally(() => this.#inFlight--);
    if (!isLast) return this.#heard(over);
    this.kill();
    await over;
    return never();
  }

  #isPlanned(verb: Verb): boolean {
    if (this.#plan.skip < 0 || (this.#plan.verb !== null && this.#plan.verb !== verb)) return false;
    return this.#plan.skip-- === 0;
  }

  /** The dead hear neither results nor refusals. */
  async #heard(outcome: Promise<unknown>): Promise<unknown> {
    try {
      const result = await outcome;
      return this.#isDead ? never() : result;
    } catch (cause) {
      return this.#isDead ? never() : Promise.reject(cause);
    }
  }
}

function never(): Promise<never> {
  return new Promise(() => undefined);
}
