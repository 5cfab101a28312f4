import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";

/** The owner's token of every gateway that the tests start as a process of its own. */
export const OWNER_TOKEN = "the-token-of-the-tests-owner";
export const SIGNED = { authorization: `Bearer ${OWNER_TOKEN}` };

/** A client at the HTTP door that can act at each moment of an exchange, and does not mind when the gateway dies in it. */

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Exchange {
  /** The last byte of the request was handed to the operating system, or the connection was cut before. */
  readonly flushed: Promise<void>;
  /** Null when the connection was cut before the first byte of an answer. */
  readonly head: Promise<Pick<Reply, "status" | "headers"> | null>;
  /** Null when the connection was cut before the end. */
  readonly done: Promise<Reply | null>;
}

export interface Call {
  readonly method?: "GET" | "POST";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Called in the moment in which the bytes are there; nothing of the client runs in between. */
  readonly onFlushed?: () => void;
  readonly onHead?: (status: number) => void;
  readonly onBytes?: (text: string) => void;
}

/** Each exchange has a connection of its own: one that was cut takes no other with it. */
export function exchange(url: string, call: Call): Exchange {
  const flushed = Promise.withResolvers<void>();
  const head = Promise.withResolvers<Pick<Reply, "status" | "headers"> | null>();
  const done = Promise.withResolvers<Reply | null>();
  const cut = (): void => {
    flushed.resolve();
    head.resolve(null);
    done.resolve(null);
  };
  const body = call.body === undefined ? undefined : JSON.stringify(call.body);
  const request = httpRequest(new URL(call.path, url), {
    method: call.method ?? (body === undefined ? "GET" : "POST"),
    agent: false,
    headers: { ...SIGNED, ...(body === undefined ? {} : { "content-type": "application/json" }), ...call.headers },
  });
  request.on("error", cut);
  request.on("close", cut);
  request.on("response", (response: IncomingMessage) => {
    const { statusCode = 0, headers } = response;
    let text = "";
    call.onHead?.(statusCode);
    head.resolve({ status: statusCode, headers });
    response.setEncoding("utf8");
    response.on("data", (bytes: string) => {
      text += bytes;
      call.onBytes?.(bytes);
    });
    response.on("error", cut);
    response.on("end", () => done.resolve(response.complete ? { status: statusCode, headers, body: text } : null));
  });
  request.end(body, () => {
    call.onFlushed?.();
    flushed.resolve();
  });
  return { flushed: flushed.promise, head: head.promise, done: done.promise };
}

/** A whole exchange with a gateway that lives. */
export async function fetchJson<T>(url: string, call: Call): Promise<{ status: number; body: T }> {
  const reply = await exchange(url, call).done;
  if (reply === null) throw new Error(`The gateway cut ${call.path}.`);
  return { status: reply.status, body: JSON.parse(reply.body) as T };
}

export interface EventLine {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface EventListener {
  /** Resolves with the first event that fits, of those that came since the stream opened. */
  event(fits: (line: EventLine) => boolean): Promise<EventLine>;
  close(): void;
}

/** Listens to `/api/events`; `onEvent` runs in the moment in which the event's bytes are there. Resolves when it is heard. */
export async function listen(
  url: string,
  options: { readonly conversation?: string; readonly onEvent?: (line: EventLine) => void } = {},
): Promise<EventListener> {
  const lines: EventLine[] = [];
  const waiting = new Set<{ fits: (line: EventLine) => boolean; resolve: (line: EventLine) => void }>();
  const query = options.conversation === undefined ? "" : `?conversation=${encodeURIComponent(options.conversation)}`;
  const opened = Promise.withResolvers<void>();
  const request = httpRequest(new URL(`/api/events${query}`, url), { agent: false, headers: SIGNED });
  const take = (line: EventLine): void => {
    lines.push(line);
    options.onEvent?.(line);
    for (const one of waiting) {
      if (!one.fits(line)) continue;
      waiting.delete(one);
      one.resolve(line);
    }
    opened.resolve();
  };
  request.on("error", (cause) => opened.reject(cause));
  request.on("response", (response) => {
    let rest = "";
    response.on("error", () => request.destroy());
    response.setEncoding("utf8").on("data", (text: string) => {
      const blocks = (rest + text).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const name = /^event: (.*)$/m.exec(block)?.[1] ?? "";
        take({ name, data: JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? "{}") as EventLine["data"] });
      }
    });
  });
  request.end();
  await opened.promise;
  return {
    event(fits) {
      const there = lines.find(fits);
      if (there !== undefined) return Promise.resolve(there);
      return new Promise((resolve) => waiting.add({ fits, resolve }));
    },
    close: () => request.destroy(),
  };
}
