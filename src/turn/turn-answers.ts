import type { Notice } from "../message/notice.ts";
import type { Settled, StoreReader, TurnAnswer } from "../store/store.ts";

/** Those who wait for the end of a turn. One that has ended already is read from the store. */
export class TurnAnswers {
  readonly #reader: StoreReader;
  readonly #waiting = new Map<number, ((answer: TurnAnswer) => void)[]>();

  constructor(reader: StoreReader) {
    this.#reader = reader;
  }

  /** Resolves when the turn has ended; `isRunning` spares the question whether it has already. */
  async of(turnId: number, isRunning: boolean): Promise<TurnAnswer> {
    const { promise, resolve } = Promise.withResolvers<TurnAnswer>();
    this.#waiting.set(turnId, [...(this.#waiting.get(turnId) ?? []), resolve]);
    if (isRunning) return promise;
    const answer = await this.#reader.answer(turnId);
    if (answer === null) return promise;
    this.#waiting.delete(turnId);
    return answer;
  }

  settled({ turn, text, deliveries }: Settled): void {
    const waiting = this.#waiting.get(turn.id);
    if (waiting === undefined) return;
    this.#waiting.delete(turn.id);
    const notices = deliveries.flatMap((row) => (row.kind === "notice" ? [row.body as Notice] : []));
    for (const resolve of waiting) resolve({ turn, text, silent: turn.reason === "silent", notices });
  }
}
