import { TertuliaError } from "../errors.ts";
import type { Notice } from "../message/notice.ts";
import type { TurnAnswer, TurnReader } from "../store/readers.ts";
import type { Settled } from "../store/turns.ts";

/** TurnAnswers: the callers who wait for the end of a turn. A turn that has ended already is read from the store. */
export class TurnAnswers {
  readonly #reader: TurnReader;
  readonly #waiting = new Map<number, PromiseWithResolvers<TurnAnswer>[]>();

  constructor(reader: TurnReader) {
    this.#reader = reader;
  }

  /** Resolves when the turn has ended; rejects when that cannot be stored now, and with `request_invalid` where there is no such turn. */
  async of(turnId: number): Promise<TurnAnswer> {
    const waiting = Promise.withResolvers<TurnAnswer>();
    this.#waiting.set(turnId, [...(this.#waiting.get(turnId) ?? []), waiting]);
    try {
      const turn = await this.#reader.turn(turnId);
      // Always asked: a reset may have ended a turn whose agent still comes to its end, or has not begun.
      const answer = await this.#reader.answer(turnId);
      // Only this caller is answered from the store: the others wait for what ends the turn here.
      if (answer !== null) this.#leave(turnId, waiting)?.resolve(answer);
      // A turn that was taken in is gone too, but then nobody waits under its id any more.
      else if (turn === null) this.#leave(turnId, waiting)?.reject(unknown(turnId));
    } catch (cause) {
      this.#leave(turnId, waiting)?.reject(cause);
    }
    return waiting.promise;
  }

  /** Another turn took this one in: whoever waits for it gets the other one's answer. */
  takenIn(turnId: number, into: number): void {
    const waiting = this.#take(turnId);
    if (waiting.length > 0) this.#waiting.set(into, [...(this.#waiting.get(into) ?? []), ...waiting]);
  }

  /** The turn has ended, but the store cannot take its settlement now. */
  failed(turnId: number, error: TertuliaError): void {
    for (const { reject } of this.#take(turnId)) reject(error);
  }

  settled({ turn, text, deliveries }: Settled): void {
    const notices = deliveries.flatMap((row) => (row.kind === "notice" ? [row.body as Notice] : []));
    for (const { resolve } of this.#take(turn.id)) resolve({ turn, text, silent: turn.reason === "silent", notices });
  }

  /** Takes one caller off the list; undefined if they do not wait under this turn any more. */
  #leave(turnId: number, waiting: PromiseWithResolvers<TurnAnswer>): PromiseWithResolvers<TurnAnswer> | undefined {
    const all = this.#take(turnId);
    const others = all.filter((other) => other !== waiting);
    if (others.length > 0) this.#waiting.set(turnId, others);
    return others.length < all.length ? waiting : undefined;
  }

  #take(turnId: number): PromiseWithResolvers<TurnAnswer>[] {
    const waiting = this.#waiting.get(turnId) ?? [];
    this.#waiting.delete(turnId);
    return waiting;
  }
}

function unknown(turnId: number): TertuliaError {
  return new TertuliaError("request_invalid", `There is no turn ${turnId}.`);
}
