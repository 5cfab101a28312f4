import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { EventSourceParserStream } from "eventsource-parser/stream";
import type { WireEvent } from "../channel/console/transcript.ts";
import type { Config } from "../config/config.ts";
import { asTertuliaError, isErrorCode, TertuliaError } from "../errors.ts";
import { readLock } from "../store/sqlite/lock.ts";
import { createDirectFetch } from "../util/outgoing.ts";

/** A gateway that holds the lock but has not said where it listens is starting. */
const START_MS = 5_000;
const START_STEP_MS = 50;
const RECONNECT_MS = { first: 250, most: 2_000 };

/**
 * Client: how a command reaches the running gateway (E4). Every request may throw `gateway_down` (nobody there, or it went away
 * before it answered) and the error that the gateway answered with. A gateway that came back elsewhere is found by the next request.
 */
export interface Client {
  /** Where the gateway was found last. */
  readonly address: string;
  get<T>(path: string, options?: RequestOptions): Promise<T>;
  post<T>(path: string, body: unknown, options?: PostOptions): Promise<T>;
  /**
   * What happens in a conversation, from now on until `signal` aborts. A stream that was cut is opened again as soon as a gateway is
   * there; what happened in between is not in it. Throws what the gateway refuses the stream with.
   */
  events(conversationKey: string, signal: AbortSignal): AsyncGenerator<StreamItem, void>;
}

interface RequestOptions {
  readonly signal?: AbortSignal;
}
interface PostOptions extends RequestOptions {
  /** A retry under the same key finds the message instead of sending it again (T3). */
  readonly idempotencyKey?: string;
}

export type StreamItem =
  /** Everything from here on is heard. */
  | { readonly kind: "open"; readonly address: string }
  | { readonly kind: "event"; readonly event: WireEvent }
  /** Once for each outage. */
  | { readonly kind: "cut" };

/** Throws `gateway_down` when nobody holds the lock of this state folder. */
export async function connect(config: Config): Promise<Client> {
  return new HttpClient(config, await findGateway(config));
}

class HttpClient implements Client {
  readonly #config: Config;
  readonly #fetch: ReturnType<typeof createDirectFetch>;
  #address: string | null;

  constructor(config: Config, address: string) {
    this.#config = config;
    // The gateway is on this machine, and a proxy has no business with the token.
    this.#fetch = createDirectFetch(config.proxies);
    this.#address = address;
  }

  get address(): string {
    return this.#address ?? "nowhere";
  }

  get<T>(path: string, options: RequestOptions = {}): Promise<T> {
    return this.#json(path, { ...options });
  }

  post<T>(path: string, body: unknown, { idempotencyKey, ...options }: PostOptions = {}): Promise<T> {
    return this.#json(path, {
      ...options,
      method: "POST",
      body: JSON.stringify(body),
      headers: {
        "content-type": "application/json",
        ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      },
    });
  }

  async *events(conversationKey: string, signal: AbortSignal): AsyncGenerator<StreamItem, void> {
    const path = `/api/events?conversation=${encodeURIComponent(conversationKey)}`;
    let waitMs = RECONNECT_MS.first;
    let isCut = false;
    while (!signal.aborted) {
      try {
        for await (const event of this.#stream(path, signal)) {
          if (event.name === "hello") {
            waitMs = RECONNECT_MS.first;
            isCut = false;
            yield { kind: "open", address: this.address };
          } else if (event.name !== "keepalive") {
            yield { kind: "event", event };
          }
        }
      } catch (cause) {
        if (signal.aborted) return;
        if (!isAway(cause)) throw cause;
      }
      if (!isCut) yield { kind: "cut" };
      isCut = true;
      await pause(waitMs, signal);
      waitMs = Math.min(2 * waitMs, RECONNECT_MS.most);
    }
  }

  async #request(path: string, init: RequestInit): Promise<Response> {
    // It can change while a conversation goes on.
    const token = this.#config.client.token ?? readToken(this.#config.files.token);
    const base = this.#address ?? (await findGateway(this.#config));
    this.#address = base;
    const headers = { ...init.headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    let response: Response;
    try {
      response = await this.#fetch(base + path, { ...init, headers });
    } catch (cause) {
      init.signal?.throwIfAborted();
      this.#address = null;
      throw lost(base, cause);
    }
    if (!response.ok) throw await refusalIn(response);
    return response;
  }

  async #json<T>(path: string, init: RequestInit): Promise<T> {
    const response = await this.#request(path, init);
    try {
      return (await response.json()) as T;
    } catch (cause) {
      init.signal?.throwIfAborted();
      throw lost(response.url, cause);
    }
  }

  async *#stream(path: string, signal: AbortSignal): AsyncGenerator<WireEvent, void> {
    const { body } = await this.#request(path, { signal });
    if (body === null) return;
    const messages = body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
    try {
      for await (const { event, data } of messages) {
        if (event !== undefined) yield { name: event, payload: JSON.parse(data) } as WireEvent;
      }
    } catch (cause) {
      signal.throwIfAborted();
      this.#address = null;
      throw lost(path, cause);
    }
  }
}

/** The gateway is not there for the moment: the same request may work later. */
export function isAway(cause: unknown): boolean {
  const { code } = asTertuliaError(cause);
  return code === "gateway_down" || code === "gateway_stopping";
}

/** Ends at once, and without an error, when `signal` aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (cause) {
    if (!signal.aborted) throw cause;
  }
}

async function findGateway(config: Config): Promise<string> {
  for (let waitedMs = 0; ; waitedMs += START_STEP_MS) {
    const holder = readLock(config.files.lock);
    if (holder === null) throw new TertuliaError("gateway_down", `No gateway runs for ${config.home}.`);
    if (holder.address !== null) return holder.address;
    if (waitedMs >= START_MS)
      throw new TertuliaError("gateway_down", `The gateway of ${config.home} does not say where it listens.`, {
        remedy: `Wait until it has started, or end its process${holder.pid === 0 ? "" : ` (${holder.pid})`}.`,
      });
    await delay(START_STEP_MS);
  }
}

/** Without the file, or the right to read it, this machine's own rights are all there is. */
export function readToken(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim() || undefined;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "EACCES") return undefined;
    throw new TertuliaError("home_unwritable", `${path} cannot be read (${code}).`, { cause });
  }
}

function lost(where: string, cause: unknown): TertuliaError {
  return new TertuliaError("gateway_down", `The gateway went away (${where}).`, {
    cause,
    remedy: "Start it again with `tertulia start`.",
  });
}

/** The error as the gateway said it; what is not of our form comes from something else that listens there. */
async function refusalIn(response: Response): Promise<TertuliaError> {
  const text = await response.text().catch((cause) => {
    throw lost(response.url, cause);
  });
  const error = errorIn(text);
  if (error !== undefined && isErrorCode(error.code))
    return new TertuliaError(error.code, error.message, { remedy: error.remedy });
  return new TertuliaError("internal", `${response.url} answered ${response.status}, and not as a gateway does.`);
}

function errorIn(text: string): { code: string; message: string; remedy: string } | undefined {
  try {
    return (JSON.parse(text) as { error?: { code: string; message: string; remedy: string } }).error;
  } catch (cause) {
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}
