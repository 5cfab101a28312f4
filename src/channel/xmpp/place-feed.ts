import type { Element } from "@xmpp/client";
import type { Heard } from "../../message/heard.ts";
import type { Clock } from "../../util/clock.ts";
import type { Log } from "../../util/log.ts";
import type { Archive, Archived, From } from "./archive.ts";
import type { Mark } from "./cursor.ts";
import type { Hearing } from "./hearing.ts";
import { Recent } from "./recent.ts";

/** When a message was said, seen from this account: while it listened, while it was cut off, or before it first came. */
export type When = "live" | "caught-up" | "history";

export interface Overheard {
  readonly message: Element;
  readonly when: When;
  /** The archive's id of it (its stanza-id), where there is one. */
  readonly id?: string | undefined;
  /** Epoch ms, by whoever keeps the archive; absent for what is heard live. */
  readonly at?: number | undefined;
}

export interface PlaceFeedOptions {
  /** The place in the cursor: a room, or "" for the direct chats. */
  readonly place: string;
  /** Whose archive it is. */
  readonly owner: string;
  readonly archive: Archive;
  readonly hearing: Hearing;
  readonly clock: Clock;
  readonly log: Log;
  readonly history: number;
  readonly read: (overheard: Overheard) => readonly Heard[];
}

const PAGE = 100;
const LONGEST_BUFFER = 1_000;
/** How far two clocks may differ where a time has to do for an id. */
const SKEW_MS = 300_000;

/**
 * PlaceFeed: one place's messages in the archive's order, each once: what was missed first, then what came meanwhile, then live.
 * While it catches up, live messages wait; what there is no room for is read from the archive.
 */
export class PlaceFeed {
  readonly #options: PlaceFeedOptions;
  readonly #seen = new Recent<true>(4_000);
  #state: "buffering" | "live" = "buffering";
  #buffer: Overheard[] = [];
  #hasArchive = false;
  /** Something was let go that only the archive has. */
  #isBehind = false;
  #mark: Mark | undefined;

  constructor(options: PlaceFeedOptions) {
    this.#options = options;
    this.#mark = options.hearing.markOf(options.place);
  }

  /** How far the place is heard; absent before it ever was. */
  get mark(): Mark | undefined {
    return this.#mark;
  }
  get isLive(): boolean {
    return this.#state === "live";
  }

  /** A new session: what comes waits until `catchUp`. */
  begin(): void {
    this.#state = "buffering";
    this.#buffer = [];
    this.#isBehind = false;
  }

  hear(overheard: Overheard): void {
    if (this.#state === "live") {
      if (this.#put(overheard)) return;
      this.#fellBehind();
    } else if (this.#buffer.length < LONGEST_BUFFER) this.#buffer.push(overheard);
    else this.#isBehind = true;
  }

  /** Reads what was missed. Rejects when the archive does not answer; then it can be called again. */
  async catchUp({ hasArchive, signal }: { hasArchive: boolean; signal: AbortSignal }): Promise<void> {
    this.#hasArchive = hasArchive;
    do {
      this.#isBehind = false;
      if (hasArchive) await this.#readArchive(signal);
      await this.#flush();
    } while (this.#isBehind && hasArchive && !signal.aborted);
    if (signal.aborted) return;
    this.#state = "live";
    if (this.#mark === undefined) this.#put({ mark: { at: this.#options.clock.now() } });
  }

  /** Goes on without what the archive would not give. */
  async giveUp(): Promise<void> {
    await this.#flush();
    this.#state = "live";
  }

  async #readArchive(signal: AbortSignal): Promise<void> {
    const { archive, owner, history } = this.#options;
    if (this.#mark === undefined) {
      const { messages } = await archive.page(owner, { newest: true }, history);
      await this.#putPage(messages, "history");
      return;
    }
    let from: From = this.#mark.id === undefined ? since(this.#mark) : { after: this.#mark.id };
    while (!signal.aborted) {
      const page = await archive.page(owner, from, PAGE).catch((cause) => {
        // The archive has forgotten the message: the time has to do.
        if ("after" in from && cause?.condition === "item-not-found") return null;
        throw cause;
      });
      if (page === null) {
        from = since(this.#mark);
        continue;
      }
      await this.#putPage(page.messages, "caught-up");
      const last = page.messages.at(-1);
      if (page.isLast || last === undefined) return;
      from = { after: last.id };
    }
  }

  async #putPage(messages: readonly Archived[], when: When): Promise<void> {
    // What came live as well is heard as that.
    const live = new Set(this.#buffer.map(({ id }) => id));
    for (const { id, at, message } of messages) {
      if (live.has(id)) continue;
      if (!(await this.#putInTime({ message, id, at, when }))) return;
    }
    await this.#options.hearing.settled();
  }

  async #flush(): Promise<void> {
    for (let next = this.#buffer.shift(); next !== undefined; next = this.#buffer.shift()) {
      if (!(await this.#putInTime(next))) return;
    }
  }

  /** Waits for room. False: the channel stops, and it comes again at the next start. */
  async #putInTime(overheard: Overheard): Promise<boolean> {
    while (!this.#put(overheard)) {
      if (this.#options.hearing.isStopped) return false;
      await this.#options.hearing.settled();
    }
    return true;
  }

  /** False: there is no room for it. */
  #put(given: Overheard | { readonly mark: Mark }): boolean {
    const { hearing, place, clock, read } = this.#options;
    if ("mark" in given) {
      this.#mark = given.mark;
      return hearing.put({ place, events: [], mark: given.mark });
    }
    if (given.id !== undefined && this.#seen.has(given.id)) return true;
    const id = given.id ?? this.#mark?.id;
    const mark: Mark = { at: given.at ?? clock.now(), ...(id === undefined ? {} : { id }) };
    const isIn = hearing.put({ place, events: read(given), mark });
    if (!isIn) return false;
    this.#mark = mark;
    if (given.id !== undefined) this.#seen.set(given.id, true);
    return true;
  }

  #fellBehind(): void {
    const { hearing, log, place } = this.#options;
    if (!this.#hasArchive) {
      log.error({ place }, "xmpp: more is said than can be stored, and the place keeps no archive: a message is lost");
      return;
    }
    log.warn({ place }, "xmpp: more is said than can be stored; the rest is read from the archive later");
    this.begin();
    this.#isBehind = true;
    const signal = new AbortController().signal;
    hearing
      .settled()
      .then(() => this.catchUp({ hasArchive: true, signal }))
      .catch((err) => log.error({ err, place }, "xmpp: the archive does not answer"));
  }
}

function since(mark: Mark): From {
  return { start: mark.at - SKEW_MS };
}
