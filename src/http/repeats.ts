import type { ServerResponse } from "node:http";
import type { Said } from "../intake/local-doors.ts";

/** How long after its response was cut a request can be repeated. */
const REPEATED_WITHIN_MS = 600_000;

/** Words that were taken in, and whose response has not come to its end. */
interface Pending {
  readonly mark: string;
  readonly said: Promise<Said>;
  /** Null while a response is open. */
  cutAt: number | null;
}

export interface Request {
  /** The same for a request and its repeats. */
  readonly mark: string;
  /** Its client says that it has sent it before. */
  readonly isRepeat: boolean;
  readonly response: Pick<ServerResponse, "writableFinished"> & { once(event: "close", listener: () => void): unknown };
  /** Takes the words in. */
  say(): Promise<Said>;
  /** What was taken in under the mark by a gateway that was killed before it answered; null where nothing was. */
  recall(): Promise<Said | null>;
}

/**
 * Repeats: knows the requests whose responses have not come to their end. A repeat that its client marks as one joins the turn of such a
 * request (T3). One without the mark is a new message, as a second "yes" is.
 */
export class Repeats {
  readonly #startedAt: number;
  readonly #now: () => number;
  readonly #pending = new Set<Pending>();

  constructor({ startedAt, now = Date.now }: { startedAt: number; now?: () => number }) {
    this.#startedAt = startedAt;
    this.#now = now;
  }

  /** Rejects as `say` does. */
  take({ mark, isRepeat, response, say, recall }: Request): Promise<Said> {
    const known = isRepeat ? this.#repeated(mark) : undefined;
    const pending = known ?? { mark, said: isRepeat ? this.#recalled(recall, say) : say(), cutAt: null };
    pending.cutAt = null;
    this.#pending.add(pending);
    response.once("close", () => {
      if (response.writableFinished) this.#pending.delete(pending);
      else pending.cutAt = this.#now();
      this.#forgetOld();
    });
    pending.said.catch(() => this.#pending.delete(pending));
    return pending.said;
  }

  /** One that was cut, else one whose client may have gone without a word. */
  #repeated(mark: string): Pending | undefined {
    this.#forgetOld();
    const same = [...this.#pending].filter((pending) => pending.mark === mark);
    return same.find(({ cutAt }) => cutAt !== null) ?? same[0];
  }

  async #recalled(recall: Request["recall"], say: Request["say"]): Promise<Said> {
    const isRecent = this.#startedAt > this.#horizon;
    return (isRecent ? await recall() : null) ?? say();
  }

  get #horizon(): number {
    return this.#now() - REPEATED_WITHIN_MS;
  }

  #forgetOld(): void {
    for (const pending of this.#pending) {
      if (pending.cutAt !== null && pending.cutAt < this.#horizon) this.#pending.delete(pending);
    }
  }
}
