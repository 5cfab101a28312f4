import type { RuntimeFailure, TurnResult } from "../runtime.ts";

/** idle ⇄ running; both → over, which is the end. */
type State =
  | { readonly name: "idle" }
  | { readonly name: "running"; readonly abort: AbortController }
  | { readonly name: "over" };

/**
 * The life of a session without a process of its own: one turn at a time, and an end that cuts the turn which runs. That the other side is
 * gone is seen by the next turn, so it never dies by itself.
 */
export class SessionLife {
  readonly #closed: RuntimeFailure;
  readonly #onOver: () => void;
  #state: State = { name: "idle" };

  /** `closed` is why a turn fails once the session is over. */
  constructor(closed: RuntimeFailure, onOver: () => void) {
    this.#closed = closed;
    this.#onOver = onOver;
  }

  /** Gives the turn the signal that parking aborts. Throws where one already runs, and what the turn throws. */
  async run(turn: (parked: AbortSignal) => Promise<TurnResult>): Promise<TurnResult> {
    if (this.#state.name === "running") throw new Error("This session already answers a turn.");
    if (this.#state.name === "over") return { outcome: "failed", text: "", failure: this.#closed };
    const abort = new AbortController();
    this.#state = { name: "running", abort };
    try {
      return await turn(abort.signal);
    } finally {
      if (this.#state.name === "running") this.#state = { name: "idle" };
    }
  }

  /** Safe to repeat. */
  end(): void {
    if (this.#state.name === "over") return;
    const before = this.#state;
    this.#state = { name: "over" };
    if (before.name === "running") before.abort.abort();
    this.#onOver();
  }
}
