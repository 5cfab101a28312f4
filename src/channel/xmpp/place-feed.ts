import type { Element } from "@xmpp/client";
import type { PlatformEvent } from "../../message/platform-event.ts";
import type { Clock } from "../../util/clock.ts";
import type { Log } from "../../util/log.ts";
import type { Archive, Archived, From } from "./archive.ts";
import type { Mark } from "./cursor.ts";
import type { InboundQueue } from "./inbound-queue.ts";
import { pause } from "./pause.ts";
import type { PrivateIdentity } from "./private-address.ts";
import { Recent } from "./recent.ts";

/** When a message was said, seen from this account: while it listened, while it was cut off, or before it first came. */
export type When = "live" | "caught-up" | "history";

export interface ReceivedStanza {
  readonly message: Element;
  readonly when: When;
  /** The archive's id of it (its stanza-id), where there is one. */
  readonly id?: string | undefined;
  /** Epoch ms, by whoever keeps the archive; absent for what is heard live. */
  readonly at?: number | undefined;
  /** In a room, of what is heard live: who had the nick when it came. */
  readonly speaker?: Speaker | undefined;
  /** In an archive: the author's address, where the archive itself vouches for it. */
  readonly author?: string | undefined;
}

export interface Speaker {
  /** By what the room's service vouches for; null where it does not. */
  readonly verified: PrivateIdentity | null;
  readonly isOwn: boolean;
}

export interface PlaceFeedOptions {
  /** The place in the cursor: a room, or "" for the direct chats. */
  readonly place: string;
  /** Whose archive it is. */
  readonly owner: string;
  readonly archive: Pick<Archive, "page">;
  readonly hearing: InboundQueue;
  readonly clock: Clock;
  readonly log: Log;
  readonly history: number;
  readonly read: (received: ReceivedStanza) => readonly PlatformEvent[];
  /** Is shown the last messages, at the first catch-up of a process: they may be named by what comes. */
  readonly recall: (received: ReceivedStanza) => void;
}

const PAGE = 100;
const LONGEST_BUFFER = 1_000;
/** How far two clocks may differ where a time has to do for an id. */
const SKEW_MS = 300_000;
const RECOVER_MS = 5_000;
const RECALLED = 50;

/**
 * PlaceFeed: one place's messages in the archive's order, each once: what was missed first, then what came meanwhile, then live.
 * While it catches up, live messages wait; what there is no room for is read from the archive.
 */
export class PlaceFeed {
  readonly #options: PlaceFeedOptions;
  readonly #seen = new Recent<true>(4_000);
  #state: "buffering" | "live" = "buffering";
  #buffer: ReceivedStanza[] = [];
  #hasArchive = false;
  /** Something was let go that only the archive has. */
  #isBehind = false;
  #mark: Mark | undefined;
  #unreadable = 0;
  #round = 0;
  #isHeld = false;
  #hasRecalled = false;

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

  /** A new session, or a new join: what comes waits until `catchUp`, and an older one is over. */
  begin(): void {
    this.#round += 1;
    this.#state = "buffering";
    this.#buffer = [];
    this.#isBehind = false;
  }

  hear(received: ReceivedStanza): void {
    if (this.#state === "live") {
      if (this.#put(received)) return;
      this.#fellBehind();
    } else if (this.#buffer.length < LONGEST_BUFFER) this.#buffer.push(received);
    else this.#isBehind = true;
  }

  /** Reads what was missed. Rejects when the archive does not answer; then it can be called again. */
  async catchUp({ hasArchive, signal }: { hasArchive: boolean; signal: AbortSignal }): Promise<void> {
    const round = this.#round;
    const isOver = (): boolean => signal.aborted || round !== this.#round || this.#options.hearing.stopped.aborted;
    this.#hasArchive = hasArchive;
    do {
      this.#isBehind = false;
      if (hasArchive) await this.#readArchive(isOver);
      if (!isOver()) await this.#flush(isOver);
    } while (this.#isBehind && hasArchive && !isOver());
    if (!isOver()) this.#goLive();
  }

  /** Goes on without what the archive would not give. The cursor stays before it: it is read when the archive answers again. */
  async giveUp(): Promise<void> {
    this.#isHeld = this.#mark !== undefined;
    const round = this.#round;
    const isOver = (): boolean => round !== this.#round || this.#options.hearing.stopped.aborted;
    await this.#flush(isOver);
    if (!isOver()) this.#goLive();
  }

  #goLive(): void {
    this.#state = "live";
    if (this.#mark !== undefined) return;
    // Nothing was there to hear: what comes from now on is no history.
    this.#mark = { at: this.#options.clock.now() };
    this.#options.hearing.put({ place: this.#options.place, events: [], mark: this.#mark });
  }

  async #readArchive(isOver: () => boolean): Promise<void> {
    const { archive, owner, history } = this.#options;
    if (this.#mark === undefined) {
      const { messages } = await archive.page(owner, { newest: true }, history);
      if (!isOver()) await this.#putPage(messages, { when: "history", isOver });
      return;
    }
    await this.#recall();
    let from: From = this.#mark.id === undefined ? since(this.#mark) : { after: this.#mark.id };
    while (!isOver()) {
      const page = await archive.page(owner, from, PAGE).catch((cause) => {
        // The archive has forgotten the message: the time has to do.
        if ("after" in from && cause?.condition === "item-not-found") return null;
        throw cause;
      });
      if (page === null) {
        from = since(this.#mark);
        continue;
      }
      if (isOver()) return;
      this.#isHeld = false;
      await this.#putPage(page.messages, { when: "caught-up", isOver });
      const last = page.messages.at(-1);
      if (page.isLast || last === undefined) return;
      from = { after: last.id };
    }
  }

  /** What may be edited or replied to is known again after a restart. It is a help, and no condition. */
  async #recall(): Promise<void> {
    if (this.#hasRecalled) return;
    this.#hasRecalled = true;
    const { archive, owner, recall, log, place } = this.#options;
    try {
      const { messages } = await archive.page(owner, { newest: true }, RECALLED);
      for (const archived of messages) recall({ ...archived, when: "history" });
    } catch (err) {
      log.info({ err, place }, "xmpp: the messages before the last stop could not be read");
    }
  }

  async #putPage(
    messages: readonly Archived[],
    { when, isOver }: { when: When; isOver: () => boolean },
  ): Promise<void> {
    // What came live as well is heard as that; what the server had kept for us has its place here.
    const live = new Set(this.#buffer.filter(({ when }) => when === "live").map(({ id }) => id));
    for (const archived of messages) {
      if (live.has(archived.id)) continue;
      if (!(await this.#putInTime({ ...archived, when }, isOver))) return;
    }
    await this.#options.hearing.settled();
  }

  async #flush(isOver: () => boolean): Promise<void> {
    for (let next = this.#buffer.shift(); next !== undefined; next = this.#buffer.shift()) {
      if (!(await this.#putInTime(next, isOver))) return;
    }
  }

  /** Waits for room. False: it is over, and the message comes again. */
  async #putInTime(received: ReceivedStanza, isOver: () => boolean): Promise<boolean> {
    while (!this.#put(received)) {
      if (isOver()) return false;
      await this.#options.hearing.settled();
    }
    return true;
  }

  /** False: there is no room for it. */
  #put(given: ReceivedStanza): boolean {
    const { hearing, place, clock } = this.#options;
    if (given.id !== undefined && this.#seen.has(given.id)) return true;
    const id = given.id ?? this.#mark?.id;
    const reached: Mark = { at: given.at ?? clock.now(), ...(id === undefined ? {} : { id }) };
    const mark = this.#isHeld && this.#mark !== undefined ? this.#mark : reached;
    if (!hearing.put({ place, events: this.#read(given), mark })) return false;
    this.#mark = mark;
    if (given.id !== undefined) this.#seen.set(given.id, true);
    return true;
  }

  /** T2: what cannot be read is refused, and the cursor passes it. */
  #read(received: ReceivedStanza): readonly PlatformEvent[] {
    const { read, log, place, clock } = this.#options;
    try {
      return read(received);
    } catch (err) {
      log.error({ err, place }, "xmpp: a message could not be read");
      const eventId = `unreadable/${place}/${received.id ?? `${clock.now()}-${++this.#unreadable}`}`;
      return [{ kind: "refused", eventId, code: "unreadable", sentence: "The message could not be read." }];
    }
  }

  #fellBehind(): void {
    const { log, place } = this.#options;
    if (!this.#hasArchive) {
      log.error({ place }, "xmpp: more is said than can be stored, and the place keeps no archive: a message is lost");
      return;
    }
    log.warn({ place }, "xmpp: more is said than can be stored; the rest is read from the archive later");
    this.begin();
    this.#isBehind = true;
    this.#recover(this.#round).catch((err) => log.error({ err, place }, "xmpp: a place is not heard any more"));
  }

  async #recover(round: number): Promise<void> {
    const { hearing, log, place, clock } = this.#options;
    const signal = hearing.stopped;
    for (;;) {
      await hearing.settled();
      if (round !== this.#round || hearing.stopped.aborted) return;
      try {
        return await this.catchUp({ hasArchive: true, signal });
      } catch (err) {
        log.error({ err, place }, "xmpp: the archive does not answer; it is asked again");
        await pause(clock, RECOVER_MS, hearing.stopped);
      }
    }
  }
}

function since(mark: Mark): From {
  return { start: mark.at - SKEW_MS };
}
