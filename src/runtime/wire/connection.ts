import type { Clock } from "../../util/clock.ts";

/** Why a wait on the network came to nothing. */
export type Loss =
  | { readonly why: "cancelled" }
  | { readonly why: "silence"; readonly ms: number }
  /** `code` as the system or fetch names it; never a text, which could hold a key. */
  | { readonly why: "broken"; readonly code: string };

export type Waited<T> = { readonly value: T } | { readonly loss: Loss };

/** fetch has time-outs of its own, which cannot be set. */
const FETCH_TIMEOUT_MS = 300_000;
const FETCH_TIMEOUTS: readonly string[] = ["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"];

/** One HTTP exchange: ended by its caller's signal, by silence, or by `close`, and then nothing of it is left open. */
export class Connection {
  readonly #clock: Clock;
  readonly #caller: AbortSignal;
  readonly #abort = new AbortController();
  readonly #cancel = (): void => this.#end({ why: "cancelled" });
  #loss: Loss | null = null;

  constructor(options: { readonly clock: Clock; readonly signal: AbortSignal }) {
    this.#clock = options.clock;
    this.#caller = options.signal;
    if (this.#caller.aborted) this.#cancel();
    else this.#caller.addEventListener("abort", this.#cancel, { once: true });
  }

  /** For fetch: what it opened ends with it. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Waits for work that ends with `signal`; longer than `patienceMs` is silence. Never rejects. */
  async wait<T>(work: () => Promise<T>, patienceMs: number): Promise<Waited<T>> {
    if (this.#loss) return { loss: this.#loss };
    const rest = this.#clock.after(patienceMs, () => this.#end({ why: "silence", ms: patienceMs }));
    try {
      return { value: await work() };
    } catch (cause) {
      return { loss: this.#loss ?? lossBy(cause) };
    } finally {
      rest();
    }
  }

  close(): void {
    this.#caller.removeEventListener("abort", this.#cancel);
    this.#end({ why: "cancelled" });
  }

  #end(loss: Loss): void {
    this.#loss ??= loss;
    this.#abort.abort();
  }
}

function lossBy(cause: unknown): Loss {
  const code = codeOf(cause);
  return FETCH_TIMEOUTS.includes(code) ? { why: "silence", ms: FETCH_TIMEOUT_MS } : { why: "broken", code };
}

/** fetch wraps what happened. */
function codeOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "UNKNOWN";
  if (cause.message === "bad port") return "BAD_PORT";
  if (cause.cause !== undefined) return codeOf(cause.cause);
  return "code" in cause && typeof cause.code === "string" ? cause.code : cause.name;
}
