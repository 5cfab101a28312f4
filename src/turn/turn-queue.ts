import { asTertuliaError, type TertuliaError } from "../errors.ts";
import type { Claim, Store } from "../store/port.ts";
import type { BeginResult, Recovery, Turn } from "../store/turns.ts";
import type { Clock } from "../util/clock.ts";

/** When a session is looked at again after the store could not be written. */
const RETRY_MS = 1_000;

interface TurnQueueOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly claim: () => Claim;
  /** Runs a turn to its end; resolves with whether it was settled. Calls `asked` when the pool knows of the turn. Never rejects. */
  readonly run: (turn: Turn, asked: () => void) => Promise<boolean>;
  /** The number of further sessions that have an agent, or a place for one (B4). */
  readonly room: () => number;
  readonly onRecovery: (recovery: Recovery) => void;
  readonly onFault: (error: TertuliaError) => void;
}

interface Worker {
  /** The session was woken while its worker was looking: it looks once more. */
  isAgain: boolean;
  /** A turn that `admit` has begun and that has not run yet. */
  begun: Turn | null;
  done: Promise<void>;
}

/**
 * TurnQueue: one worker per session with work. The store picks the session's next turn (T4), so a worker keeps no order of its own and
 * ends when there is no work left.
 *
 * A session for whose turn there is no agent is held, and further messages can still join its waiting turn. Held sessions begin in the
 * order in which they were held, and nobody overtakes them (B4).
 */
export class TurnQueue {
  readonly #options: TurnQueueOptions;
  readonly #workers = new Map<string, Worker>();
  readonly #timers = new Map<string, () => void>();
  readonly #held = new Set<string>();
  /** Sessions whose turn begins and is not known to the pool yet. */
  readonly #heading = new Set<string>();
  #stopped = false;

  constructor(options: TurnQueueOptions) {
    this.#options = options;
  }

  /** The number of sessions with a worker. */
  get active(): number {
    return this.#workers.size;
  }

  /** There is work in the session. Safe to repeat. */
  wake(sessionId: string): void {
    if (!this.#held.has(sessionId)) this.#look(sessionId, null);
  }

  /** Whether a turn that is admitted now may begin at once; `coming` others may do so before it. */
  hasRoom(coming: number): boolean {
    return this.#held.size === 0 && this.#options.room() > this.#heading.size + coming;
  }

  /** A place may be free: the session that was held longest is looked at. */
  freed(): void {
    const [longest] = this.#held;
    if (longest === undefined || this.#options.room() <= this.#heading.size) return;
    this.#held.delete(longest);
    this.#heading.add(longest);
    this.#look(longest, null);
  }

  /** Runs a turn that `admit` began in its own transaction. */
  start(turn: Turn): void {
    this.#look(turn.sessionId, turn);
  }

  /** Nothing new begins; resolves when the running ones have ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
    this.#held.clear();
    await Promise.all([...this.#workers.values()].map((worker) => worker.done));
  }

  #look(sessionId: string, begun: Turn | null): void {
    if (this.#stopped && begun === null) return;
    if (begun !== null) this.#heading.add(sessionId);
    this.#timers.get(sessionId)?.();
    this.#timers.delete(sessionId);
    const worker = this.#workers.get(sessionId);
    if (worker !== undefined) {
      worker.isAgain = true;
      worker.begun ??= begun;
      return;
    }
    const fresh: Worker = { isAgain: true, begun, done: Promise.resolve() };
    this.#workers.set(sessionId, fresh);
    fresh.done = this.#work(sessionId, fresh);
  }

  async #work(sessionId: string, worker: Worker): Promise<void> {
    while (worker.begun !== null || (worker.isAgain && !this.#stopped)) {
      worker.isAgain = false;
      // Taken before the wait: `admit` may begin the next turn meanwhile, which is kept for the next round.
      const { begun } = worker;
      worker.begun = null;
      const turn = begun ?? (await this.#begin(sessionId));
      if (turn === null) {
        if (this.#heading.delete(sessionId)) this.freed();
        continue;
      }
      // A settled turn has woken what waits; after one that was not settled the session is looked at again.
      if (!(await this.#options.run(turn, () => this.#heading.delete(sessionId)))) worker.isAgain = true;
      if (this.#heading.delete(sessionId)) this.freed();
    }
    this.#workers.delete(sessionId);
  }

  async #begin(sessionId: string): Promise<Turn | null> {
    const { store, clock, claim } = this.#options;
    if (!this.#heading.has(sessionId)) {
      if (!this.hasRoom(0)) {
        this.#held.add(sessionId);
        return null;
      }
      this.#heading.add(sessionId);
    }
    let result: BeginResult;
    try {
      result = await store.begin({ sessionId, now: clock.now() }, claim());
    } catch (cause) {
      this.#options.onFault(asTertuliaError(cause));
      this.#later(sessionId, RETRY_MS);
      return null;
    }
    if (result.kind !== "busy" && result.takeover !== null) this.#options.onRecovery(result.takeover);
    if (result.kind === "begun") return result.turn;
    if (result.kind === "waiting") this.#later(sessionId, result.until - clock.now());
    if (result.kind === "blocked") this.wake(result.bySession);
    return null;
  }

  #later(sessionId: string, ms: number): void {
    if (this.#stopped) return;
    this.#timers.get(sessionId)?.();
    this.#timers.set(
      sessionId,
      this.#options.clock.after(Math.max(1, ms), () => {
        this.#timers.delete(sessionId);
        this.wake(sessionId);
      }),
    );
  }
}
