import { TertuliaError } from "../errors.ts";
import type { Clock } from "../util/clock.ts";
import type { Log } from "../util/log.ts";

/** A slip of the fingers costs nothing; a search does. */
const FREE = 10;
const FIRST_MS = 100;
const LONGEST_MS = 500;
/** An address without a failure for so long begins anew. */
const FORGET_MS = 60_000;
const MOST_ADDRESSES = 1_000;
const MOST_HELD = 64;

interface Failures {
  count: number;
  lastAt: number;
  loggedAt: number;
}

/**
 * FailedTokens: what is done about tokens that are presented and not known (A12). Each is counted for the address it came from; from the
 * eleventh in a row on its answer waits, up to half a second, and when too many wait the next is refused at once. Known tokens are
 * never slowed.
 */
export class FailedTokens {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #closing: AbortSignal;
  readonly #failures = new Map<string, Failures>();
  #held = 0;

  constructor(options: { clock: Clock; log: Log; closing: AbortSignal }) {
    this.#clock = options.clock;
    this.#log = options.log;
    this.#closing = options.closing;
  }

  /** Resolves when the refusal may be answered. Throws `too_many`. */
  async failed(address: string): Promise<void> {
    const { count } = this.#count(address);
    if (count <= FREE) return;
    if (this.#held >= MOST_HELD)
      throw new TertuliaError("too_many", "Too many unknown tokens were presented in a short time.");
    this.#held++;
    await this.#wait(Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(count - FREE - 1, 10)));
    this.#held--;
  }

  #count(address: string): Failures {
    const now = this.#clock.now();
    const known = this.#failures.get(address);
    const isRecent = known !== undefined && now - known.lastAt < FORGET_MS;
    const failures = isRecent ? known : { count: 0, lastAt: now, loggedAt: Number.NEGATIVE_INFINITY };
    failures.count++;
    failures.lastAt = now;
    // The last to fail is the last to be forgotten.
    this.#failures.delete(address);
    this.#failures.set(address, failures);
    const [oldest] = this.#failures.keys();
    if (this.#failures.size > MOST_ADDRESSES && oldest !== undefined) this.#failures.delete(oldest);
    if (now - failures.loggedAt >= 1_000) {
      failures.loggedAt = now;
      this.#log.warn({ address, failures: failures.count }, "a token that is not known was presented");
    }
    return failures;
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const go = (): void => {
        cancel();
        this.#closing.removeEventListener("abort", go);
        resolve();
      };
      const cancel = this.#clock.after(ms, go);
      this.#closing.addEventListener("abort", go, { once: true });
      if (this.#closing.aborted) go();
    });
  }
}
