import type { Context } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import { asErrorOf, type Env, errorBody } from "./wire.ts";

/** A reader that does not keep up is cut, so that nothing piles up for it: characters that wait, and the time of one write. */
const MOST_WAITING = 8_000_000;
const PATIENCE_MS = 60_000;
/** A stream on which nothing comes has a comment as often: relays cut what is silent. */
const HEARTBEAT_MS = 15_000;
const HEARTBEAT = ": keepalive\n\n";

interface Line {
  readonly event?: string;
  readonly data: string;
}

/**
 * EventReader: the other end of a stream of server-sent events. Takes lines at once and writes them in order, as fast as they are
 * read. Once it is gone (went away, or was cut) lines are thrown away.
 */
export class EventReader {
  readonly #stream: SSEStreamingApi;
  readonly #hangUp: () => void;
  readonly #gone = new AbortController();
  readonly #waiting: Line[] = [];
  readonly #heartbeat = setInterval(() => this.#beat(), HEARTBEAT_MS);
  #size = 0;
  #writing: Promise<void> | null = null;

  constructor(stream: SSEStreamingApi, hangUp: () => void) {
    this.#stream = stream;
    this.#hangUp = hangUp;
    stream.onAbort(() => {
      clearInterval(this.#heartbeat);
      this.#gone.abort();
    });
  }

  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  push(data: string, event?: string): void {
    if (this.gone.aborted) return;
    this.#waiting.push(event === undefined ? { data } : { data, event });
    this.#size += data.length;
    if (this.#size > MOST_WAITING) this.#cut();
    else this.#writing ??= this.#write();
  }

  /** Nothing more is told. Resolves when everything was taken, or nobody is there who would. */
  async end(): Promise<void> {
    clearInterval(this.#heartbeat);
    await this.#writing;
  }

  /** While something is being written, that is the sign of life. */
  #beat(): void {
    this.#writing ??= this.#inTime(this.#stream.write(HEARTBEAT)).then(() => this.#write());
  }

  async #write(): Promise<void> {
    for (let line = this.#waiting.shift(); line !== undefined; line = this.#waiting.shift()) {
      this.#size -= line.data.length;
      await this.#inTime(this.#stream.writeSSE(line));
    }
    this.#writing = null;
  }

  async #inTime(writing: Promise<unknown>): Promise<void> {
    const tooSlow = setTimeout(() => this.#cut(), PATIENCE_MS);
    await writing;
    clearTimeout(tooSlow);
  }

  #cut(): void {
    this.#waiting.length = 0;
    this.#stream.abort();
    this.#hangUp();
  }
}

/** The response that streams what `tell` pushes; it ends when `tell` has, and what that throws is the last line. */
export function sse(context: Context<Env>, tell: (reader: EventReader) => Promise<void>): Response {
  // Hono answers HEAD with the GET's headers, and would leave a body that nobody reads.
  if (context.req.method === "HEAD") return context.body(null, 200, { "Content-Type": "text/event-stream" });
  return streamSSE(context, async (stream) => {
    const reader = new EventReader(stream, () => context.env.outgoing.destroy());
    try {
      await tell(reader);
    } catch (cause) {
      reader.push(JSON.stringify(errorBody(asErrorOf(context, cause))));
    }
    await reader.end();
  });
}
