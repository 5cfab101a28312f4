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

  /** Resolves when the turn has ended, and rejects when that cannot be stored now. `isRunning` spares the question whether it has already. */
  async of(turnId: number, isRunning: boolean): Promise<TurnAnswer> {
    const waiting = Promise.withResolvers<TurnAnswer>();
    this.#waiting.set(turnId, [...(this.#waiting.get(turnId) ?? []), waiting]);
    if (isRunning) return waiting.promise;
    const answer = await this.#reader.answer(turnId);
    if (answer === null) return waiting.promise;
    this.#waiting.delete(turnId);
    return answer;
  }

  failed(turnId: number, error: TertuliaError): void {
    for (const { reject } of this.#take(turnId)) reject(error);
  }

  settled({ turn, text, deliveries }: Settled): void {
    const notices = deliveries.flatMap((row) => (row.kind === "notice" ? [row.body as Notice] : []));
    for (const { resolve } of this.#take(turn.id)) resolve({ turn, text, silent: turn.reason === "silent", notices });
  }

  #take(turnId: number): PromiseWithResolvers<TurnAnswer>[] {
    const waiting = this.#waiting.get(turnId) ?? [];
    this.#waiting.delete(turnId);
    return waiting;
  }
}
