import type { ServerResponse } from "node:http";
import type { Frame, Journal } from "./journal.ts";

/** Whose events they are, and of which conversation; of all that he may see where none is named. */
export interface Interest {
  readonly personId: string;
  readonly isOwner: boolean;
  readonly key: string | undefined;
}

export function isSameInterest(one: Interest, other: Interest): boolean {
  return one.personId === other.personId && one.isOwner === other.isOwner && one.key === other.key;
}

/**
 * JournalReader: one connection that events are sent on, as fast as they are taken. Nothing piles up for it: while its connection is full
 * it stands still in the journal.
 */
export class JournalReader {
  readonly #interest: Interest;
  readonly #journal: Journal<Interest>;
  readonly #response: ServerResponse;
  #at: number;
  #fullSince: number | null = null;

  constructor(options: {
    interest: Interest;
    journal: Journal<Interest>;
    from: number;
    response: ServerResponse;
    now: () => number;
  }) {
    const { interest, journal, from, response, now } = options;
    this.#interest = interest;
    this.#journal = journal;
    this.#response = response;
    this.#at = from;
    // Its end is told by `close`, whatever the reason.
    response.on("error", () => undefined);
    response.on("drain", () => {
      this.#fullSince = null;
      this.take(now());
    });
  }

  /** Sends what nobody else gets. */
  send(bytes: Buffer, now: number): void {
    if (!this.#response.write(bytes)) this.#fullSince ??= now;
  }

  /** Sends what has come meanwhile, as far as the connection takes it. False: it has lost some. */
  take(now: number): boolean {
    if (!this.#journal.reaches(this.#at)) return false;
    while (this.#fullSince === null) {
      const frame: Frame<Interest> | undefined = this.#journal.after(this.#at);
      if (frame === undefined) break;
      this.#at = frame.seq;
      if (frame.isFor(this.#interest)) this.send(frame.bytes, now);
    }
    return true;
  }

  /** For how long its connection has been full. */
  fullMs(now: number): number {
    return this.#fullSince === null ? 0 : now - this.#fullSince;
  }

  /** Ends it: at once where it is not read, else with what was sent. */
  end(): void {
    if (this.#fullSince === null) this.#response.end();
    else this.#response.destroy();
  }
}
