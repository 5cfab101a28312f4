import type { TertuliaError } from "../errors.ts";
import type { Notice } from "../message/notice.ts";
import type { Settled, StoreReader, TurnAnswer } from "../store/store.ts";

/** Those who wait for the end of a turn. One that has ended already is read from the store. */
export class TurnAnswers {
  readonly #reader: StoreReader;
  readonly #waiting = new Map<number, PromiseWithResolvers<TurnAnswer>[]>();

  constructor(reader: StoreReader) {
    this.#reader = reader;
  }

  /** Resolves when the turn has ended, and rejects when that cannot be stored now. */
  async of(turnId: number): Promise<TurnAnswer> {
    const waiting = Promise.withResolvers<TurnAnswer>();
    this.#waiting.set(turnId, [...(this.#waiting.get(turnId) ?? []), waiting]);
    // Always asked: a reset may have ended a turn whose agent still comes to its end, or has not begun.
    const answer = await this.#reader.answer(turnId);
    // Only who asked is answered from the file: the others wait for what ends the turn here.
    if (answer !== null) this.#leave(turnId, waiting, answer);
    return waiting.promise;
  }

  /** Who waits for a turn that another one took in hears how that one ends. */
  takenIn(turnId: number, into: number): void {
    const waiting = this.#take(turnId);
    if (waiting.length > 0) this.#waiting.set(into, [...(this.#waiting.get(into) ?? []), ...waiting]);
  }

  failed(turnId: number, error: TertuliaError): void {
    for (const { reject } of this.#take(turnId)) reject(error);
  }

  settled({ turn, text, deliveries }: Settled): void {
    const notices = deliveries.flatMap((row) => (row.kind === "notice" ? [row.body as Notice] : []));
    for (const { resolve } of this.#take(turn.id)) resolve({ turn, text, silent: turn.reason === "silent", notices });
  }

  #leave(turnId: number, waiting: PromiseWithResolvers<TurnAnswer>, answer: TurnAnswer): void {
    const others = this.#take(turnId).filter((other) => other !== waiting);
    if (others.length > 0) this.#waiting.set(turnId, others);
    waiting.resolve(answer);
  }

  #take(turnId: number): PromiseWithResolvers<TurnAnswer>[] {
    const waiting = this.#waiting.get(turnId) ?? [];
    this.#waiting.delete(turnId);
    return waiting;
  }
}
