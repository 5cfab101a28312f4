import type { IncomingMessage } from "node:http";
import { TertuliaError } from "../errors.ts";
import type { Clock } from "../util/clock.ts";

/** All that is on its way in, of everybody; the largest single body that there is must fit. */
const MOST_BYTES = 96_000_000;
/** A body that stands still for so long is not waited for. */
const PATIENCE_MS = 15_000;

/** Bodies: the requests' bodies while they come in. However many come, and however slowly, what they hold together is bounded (A12). */
export class Bodies {
  readonly #clock: Clock;
  #held = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Never holds more than the limit, whether or not a length was declared. Throws `body_too_large`, `request_late`, `too_many`, `request_invalid`. */
  async read(incoming: IncomingMessage, limit: number): Promise<Buffer> {
    if (Number(incoming.headers["content-length"] ?? 0) > limit) throw tooLarge(limit);
    const chunks: Buffer[] = [];
    let size = 0;
    // Destroying the request would take the socket along, and with it the answer that says why.
    const source = incoming.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
    try {
      for (let chunk = await this.#next(source); chunk !== null; chunk = await this.#next(source)) {
        size += chunk.length;
        this.#held += chunk.length;
        if (size > limit) throw tooLarge(limit);
        if (this.#held > MOST_BYTES) throw new TertuliaError("too_many", "Too many bodies are on their way at once.");
        chunks.push(chunk);
      }
      return Buffer.concat(chunks);
    } finally {
      this.#held -= size;
      source.return?.().catch(() => undefined);
    }
  }

  /** Null at the end. */
  async #next(source: AsyncIterator<Buffer>): Promise<Buffer | null> {
    const late = Promise.withResolvers<never>();
    const cancel = this.#clock.after(PATIENCE_MS, () =>
      late.reject(new TertuliaError("request_late", "The body did not arrive in time.")),
    );
    try {
      const { done, value } = await Promise.race([source.next(), late.promise]);
      return done === true ? null : value;
    } catch (cause) {
      if (cause instanceof TertuliaError) throw cause;
      throw new TertuliaError("request_invalid", "The connection was closed before the end of the body.", { cause });
    } finally {
      cancel();
    }
  }
}

export function tooLarge(limit: number): TertuliaError {
  const most = `${limit / 1_000_000} MB`;
  return new TertuliaError("body_too_large", `The body is larger than ${most}.`, { remedy: `Send at most ${most}.` });
}
