import type { Context } from "hono";
import { type SSEStreamingApi, streamSSE } from "hono/streaming";
import { asTertuliaError } from "../errors.ts";
import { type Env, errorBody } from "./wire.ts";

/** A reader that does not keep up is cut, so that nothing piles up for it: characters that wait, and the time of one write. */
const MOST_WAITING = 8_000_000;
const PATIENCE_MS = 60_000;

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
  #size = 0;
  #writing: Promise<void> | null = null;

  constructor(stream: SSEStreamingApi, hangUp: () => void) {
    this.#stream = stream;
    this.#hangUp = hangUp;
    stream.onAbort(() => this.#gone.abort());
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

  /** Resolves when everything was taken, or nobody is there who would. */
  async flushed(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    for (let line = this.#waiting.shift(); line !== undefined; line = this.#waiting.shift()) {
      this.#size -= line.data.length;
      const tooSlow = setTimeout(() => this.#cut(), PATIENCE_MS);
      await this.#stream.writeSSE(line);
      clearTimeout(tooSlow);
    }
    this.#writing = null;
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
      const error = asTertuliaError(cause);
      if (error.code === "internal")
        context.get("log").error({ err: cause, path: context.req.path }, "a stream failed");
      reader.push(JSON.stringify(errorBody(error)));
    }
    await reader.flushed();
  });
}
