import type { PlatformEvent } from "../../message/platform-event.ts";
import type { Clock } from "../../util/clock.ts";
import type { Log } from "../../util/log.ts";
import type { Inbox } from "../channel.ts";
import { type Mark, type Marks, readCursor, writeCursor } from "./cursor.ts";
import { pause } from "./pause.ts";

const LONGEST_TEXT = 16 * 1024 * 1024;
const BATCH = 100;
const RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;

/** What was heard somewhere, and how far that place is heard with it. */
export interface InboundBatch {
  readonly place: string;
  readonly events: readonly PlatformEvent[];
  readonly mark?: Mark;
}

/**
 * InboundQueue: hands on what is heard, in its order, one batch at a time; a batch that could not be stored is handed on again. What
 * waits is bounded: beyond that `put` refuses, and the place reads it from its archive later.
 */
export class InboundQueue {
  readonly #hear: NonNullable<Inbox["receive"]>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #mostWaiting: number;
  #marks: Marks;
  #queue: InboundBatch[] = [];
  #size = 0;
  #work: Promise<void> | null = null;
  readonly #stopped = new AbortController();

  constructor({ inbox, clock, log, mostWaiting }: { inbox: Inbox; clock: Clock; log: Log; mostWaiting: number }) {
    if (inbox.receive === undefined) throw new Error("The XMPP channel needs an inbox that hears.");
    this.#hear = inbox.receive.bind(inbox);
    this.#clock = clock;
    this.#log = log;
    this.#mostWaiting = mostWaiting;
    this.#marks = readCursor(inbox.cursor);
  }

  /** As it is stored; what still waits is not in it. */
  markOf(place: string): Mark | undefined {
    return this.#marks[place];
  }

  /** What is said from now on in other places is nothing that was missed, should the account come there again. */
  keepOnly(places: readonly string[]): void {
    const kept = Object.entries(this.#marks).filter(([place]) => places.includes(place));
    if (kept.length === Object.keys(this.#marks).length) return;
    this.#marks = Object.fromEntries(kept);
    this.put({ place: "", events: [] });
  }

  /** Aborted when the channel stops. */
  get stopped(): AbortSignal {
    return this.#stopped.signal;
  }

  /** False: there is no room for it. */
  put(heard: InboundBatch): boolean {
    const size = sizeOf(heard);
    if (this.stopped.aborted || this.#queue.length >= this.#mostWaiting || this.#size + size > LONGEST_TEXT)
      return false;
    this.#queue.push(heard);
    this.#size += size;
    this.#work ??= this.#run();
    return true;
  }

  /** Resolves when all that was put is durable, or the channel stops. */
  async settled(): Promise<void> {
    while (this.#work !== null) await this.#work;
  }

  /** What was not handed on comes again. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#queue = [];
    this.#size = 0;
    await this.settled();
  }

  async #run(): Promise<void> {
    // What comes in the same moment is one batch.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, BATCH);
      for (const heard of batch) this.#size -= sizeOf(heard);
      await this.#store(batch);
    }
    this.#work = null;
  }

  async #store(batch: readonly InboundBatch[]): Promise<void> {
    const moved = batch.flatMap(({ place, mark }) => (mark === undefined ? [] : [[place, mark] as const]));
    const marks = { ...this.#marks, ...Object.fromEntries(moved) };
    const events = batch.flatMap(({ events }) => events);
    for (let wait = RETRY_MS; ; wait = Math.min(wait * 2, LONGEST_RETRY_MS)) {
      try {
        await this.#hear(events, writeCursor(marks));
        this.#marks = marks;
        return;
      } catch (err) {
        if (this.stopped.aborted) return;
        this.#log.error({ err, events: events.length }, "xmpp: what was heard could not be stored; it is tried again");
        await pause(this.#clock, wait, this.stopped);
        if (this.stopped.aborted) return;
      }
    }
  }
}

function sizeOf({ events }: InboundBatch): number {
  return events.reduce((size, event) => size + ("text" in event ? event.text.length : 0) + 1_000, 0);
}
