/**
 * One chat completion: sent, and heard to its end. It is whole only with a finish reason; whatever else ends it is a trouble, as data. It
 * ends at once when its signal aborts, and leaves no connection and no timer.
 */
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { z } from "zod";
import type { Clock } from "../../util/clock.ts";
import { Allowance } from "../allowance.ts";
import type { TurnResult } from "../runtime.ts";
import { Connection, type Loss } from "./connection.ts";
import {
  errorIn,
  nameOf,
  readRetryAfter,
  readServerError,
  remarkIn,
  type ServerError,
  type Trouble,
} from "./failures.ts";
import { parseJson } from "./parse-json.ts";

export interface CompletionRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  /** The longest silence: of bytes, so that a comment of the server is a sign of life. */
  readonly idleTimeoutMs: number;
  readonly signal: AbortSignal;
  /** In order, each awaited before the next; the time it takes is no silence of the server. If it rejects, so does the completion. */
  onPart(part: CompletionPart): Promise<void>;
  /** Once, when the server has taken the request: what follows may have had effects. */
  onTaken?(headers: Headers): void;
  /** An event of the server's own, such as a tool's progress; awaited like a part. */
  onOwnEvent?(event: OwnEvent): Promise<void>;
}

export interface OwnEvent {
  readonly name: string;
  /** As JSON; undefined where it is none. */
  readonly data: unknown;
}

export interface CompletionPart {
  readonly type: "text" | "thought";
  readonly text: string;
}

export type Usage = NonNullable<TurnResult["usage"]>;

export type CompletionEnd =
  | { readonly kind: "finished"; readonly reason: string; readonly usage?: Usage }
  | { readonly kind: "broken"; readonly trouble: Trouble; readonly usage?: Usage }
  | { readonly kind: "cancelled" };

/** Below a reply that the limit of output ended; it is part of what was said. */
export const OUTPUT_LIMIT = "\n\n[cut: the model reached its limit of output]";

/** As a part of a turn's result. */
export function usageIn({ usage }: { readonly usage?: Usage | undefined }): { readonly usage?: Usage } {
  return usage === undefined ? {} : { usage };
}

/** After the finish reason only the usage is waited for, after `[DONE]` only the end, so that the connection can serve the next turn. */
const LAST_WORDS_MS = 2_000;
const LAST_BYTES_MS = 250;
const LONGEST_EVENT = 4 * 1024 * 1024;
const LONGEST_ERROR_BYTES = 64 * 1024;

export async function completion(request: CompletionRequest): Promise<CompletionEnd> {
  const connection = new Connection(request);
  try {
    const { url, headers, body } = request;
    // A redirect would turn the POST into a GET, and must not take the key elsewhere.
    const init = { method: "POST", headers, body, redirect: "manual", signal: connection.signal } as const;
    const sent = await connection.wait(() => request.fetch(url, init), request.idleTimeoutMs);
    if ("loss" in sent) return lost(sent.loss, (code) => ({ type: "connect", code }));
    const response = sent.value;
    if (!response.ok || response.body === null) return await refused(response, connection, request);
    const contentType = response.headers.get("content-type");
    if (contentType !== null && !/^text\/event-stream\b/i.test(contentType)) {
      return { kind: "broken", trouble: { type: "no-stream", contentType } };
    }
    request.onTaken?.(response.headers);
    return await new Listener(request, connection).hear(response.body);
  } finally {
    connection.close();
  }
}

function lost(loss: Loss, troubleOf: (code: string) => Trouble): CompletionEnd {
  if (loss.why === "cancelled") return { kind: "cancelled" };
  return { kind: "broken", trouble: loss.why === "silence" ? { type: "silence", ms: loss.ms } : troubleOf(loss.code) };
}

async function refused(
  response: Response,
  connection: Connection,
  { idleTimeoutMs, clock, signal }: CompletionRequest,
): Promise<CompletionEnd> {
  if (response.status >= 300 && response.status < 400) {
    return { kind: "broken", trouble: { type: "redirect", to: plainAddress(response) } };
  }
  const said = await readError(response, connection, idleTimeoutMs);
  if (signal.aborted) return { kind: "cancelled" };
  const { status, headers } = response;
  return {
    kind: "broken",
    trouble: { type: "status", status, said, retryAfterMs: readRetryAfter(headers, clock.now()) },
  };
}

/** Without query and user, where secrets can be. */
function plainAddress(response: Response): string {
  const to = response.headers.get("location") ?? "";
  const url = URL.parse(to, response.url || undefined);
  return url === null ? "" : `${url.origin}${url.pathname}`;
}

/** The start of the body, as an error. One that is not to be had says nothing. */
async function readError(response: Response, connection: Connection, patienceMs: number): Promise<ServerError> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (reader !== undefined && text.length < LONGEST_ERROR_BYTES) {
    const read = await connection.wait(() => reader.read(), patienceMs);
    if ("loss" in read || read.value.done) break;
    text += decoder.decode(read.value.value, { stream: true });
  }
  return readServerError(parseJson(text));
}

class Listener {
  readonly #request: CompletionRequest;
  readonly #connection: Connection;
  readonly #events: EventSourceMessage[] = [];
  readonly #parser = createParser({
    onEvent: (event) => this.#events.push(event),
    onError: ({ type }) => {
      if (type === "max-buffer-size-exceeded") this.#isTooLong = true;
    },
    maxBufferSize: LONGEST_EVENT,
  });
  #isTooLong = false;
  #isDone = false;
  /** Behind a finish reason: when the answer is taken as it is. */
  #closesAt = Number.POSITIVE_INFINITY;
  #reason: string | null = null;
  #usage: Usage | null = null;
  readonly #allowance = new Allowance();
  #hasSpoken = false;
  /** What the server said beside the answer. */
  #remark: ServerError | null = null;

  constructor(request: CompletionRequest, connection: Connection) {
    this.#request = request;
    this.#connection = connection;
  }

  async hear(body: ReadableStream<Uint8Array>): Promise<CompletionEnd> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    for (;;) {
      const read = await this.#connection.wait(() => reader.read(), this.#patienceMs());
      if ("loss" in read) return this.#endedBy(read.loss);
      const isLast = read.value.done;
      // Some servers leave the last line open.
      this.#parser.feed(isLast ? "\n\n" : decoder.decode(read.value.value, { stream: true }));
      const end = await this.#takeEvents();
      if (end !== null) return isLast && isGarbled(end) ? this.#over({ type: "cut" }) : end;
      if (isLast) return this.#over({ type: "cut" });
    }
  }

  #patienceMs(): number {
    const { idleTimeoutMs, clock } = this.#request;
    if (this.#reason === null) return idleTimeoutMs;
    const now = clock.now();
    const rest = Math.min(idleTimeoutMs, this.#isDone ? LAST_BYTES_MS : LAST_WORDS_MS);
    // Words are still words there; signs of life and whatever else comes put nothing off.
    this.#closesAt = Math.min(this.#closesAt, now + rest);
    return Math.max(0, this.#closesAt - now);
  }

  #endedBy(loss: Loss): CompletionEnd {
    if (loss.why === "cancelled") return { kind: "cancelled" };
    return this.#over(loss.why === "silence" ? { type: "silence", ms: loss.ms } : { type: "cut" });
  }

  /** The stream is over: with a finish reason that is an end, without one it is a trouble. */
  #over(trouble: Trouble): CompletionEnd {
    if (this.#reason !== null) return { kind: "finished", reason: this.#reason, ...this.#used() };
    const isUnexplained = trouble.type === "cut" && this.#remark !== null;
    return this.#broken(isUnexplained ? troubleSaid(this.#remark!) : trouble);
  }

  #broken(trouble: Trouble): CompletionEnd {
    return { kind: "broken", trouble, ...this.#used() };
  }

  #used(): { readonly usage?: Usage } {
    return this.#usage === null ? {} : { usage: this.#usage };
  }

  async #takeEvents(): Promise<CompletionEnd | null> {
    for (const event of this.#events.splice(0)) {
      const end = await this.#take(event);
      if (end !== null) return end;
      if (this.#request.signal.aborted) return { kind: "cancelled" };
    }
    return this.#isTooLong ? this.#over({ type: "garbled" }) : null;
  }

  async #take({ event = "message", data }: EventSourceMessage): Promise<CompletionEnd | null> {
    if (this.#isDone) return null;
    if (event === "error") {
      const body = parseJson(data);
      return this.#over(troubleSaid(body === undefined ? { code: "", message: data.trim() } : readServerError(body)));
    }
    if (event !== "message") {
      if (!this.#allowance.take("thought", data.length)) return this.#tooMuch();
      await this.#request.onOwnEvent?.({ name: event, data: parseJson(data) });
      return null;
    }
    // COMPAT: some servers and proxies keep the connection alive with events that hold nothing.
    if (data.trim() === "") return null;
    if (data.trim() === "[DONE]") {
      this.#isDone = true;
      return this.#reason === null ? this.#over({ type: "cut" }) : null;
    }
    const body = parseJson(data);
    if (body === undefined) return this.#over({ type: "garbled" });
    const said = errorIn(body);
    if (said !== null) return this.#over(troubleSaid(said));
    for (const chunk of Array.isArray(body) ? body : [body]) {
      const end = await this.#takeChunk(chunkShape.parse(chunk), chunk);
      if (end !== null) return end;
    }
    return null;
  }

  async #takeChunk({ usage, choices }: Chunk, body: unknown): Promise<CompletionEnd | null> {
    if (usage !== null) this.#usage = usageOf(usage);
    const [choice] = choices;
    if (choice === undefined) {
      this.#remark = remarkIn(body) ?? this.#remark;
      return null;
    }
    const { finish_reason: reason } = choice;
    // COMPAT: some servers give the whole message in one piece, and some repeat it at the end.
    const delta = choice.delta ?? (this.#hasSpoken ? null : (choice.message ?? { content: choice.text }));
    const called = delta?.tool_calls?.[0] ?? (delta?.function_call == null ? null : { function: delta.function_call });
    if (called != null) return this.#over({ type: "tool-call", tool: called.function?.name ?? "" });
    const end = await this.#tell("thought", delta?.reasoning_content || delta?.reasoning || "");
    if (end !== null) return end;
    if (this.#request.signal.aborted) return { kind: "cancelled" };
    const text = textOf(delta?.content) || delta?.refusal || "";
    this.#hasSpoken ||= text !== "" && choice.text == null;
    // COMPAT: some servers send an empty reason until there is one.
    if (reason) this.#reason = reason;
    return this.#tell("text", text);
  }

  async #tell(type: CompletionPart["type"], text: string): Promise<CompletionEnd | null> {
    if (text === "") return null;
    if (!this.#allowance.take(type === "text" ? "said" : "thought", text.length)) return this.#tooMuch();
    await this.#request.onPart({ type, text });
    this.#closesAt = Number.POSITIVE_INFINITY;
    return null;
  }

  /** B11: it is not heard any more. */
  #tooMuch(): CompletionEnd {
    return this.#broken({ type: "too-much", uttered: this.#allowance.exceeded ?? "said" });
  }
}

function isGarbled(end: CompletionEnd): boolean {
  return end.kind === "broken" && end.trouble.type === "garbled";
}

/** An error in the stream: its code is a status where the server gives one, else it counts as the server's fault. */
function troubleSaid(said: ServerError): Trouble {
  const trouble = (status: number) => ({ type: "status", status, said, retryAfterMs: null }) as const;
  const [given] = /\b[45]\d\d\b/.exec(said.code) ?? [];
  if (given !== undefined) return trouble(Number(given));
  if (/rate_?limit/i.test(said.code)) return trouble(429);
  const isRequestFault = /invalid|context|BadRequest|validation/i.test(said.code);
  return trouble(isRequestFault || nameOf(trouble(400)) !== "request-refused" ? 400 : 500);
}

// What is not as it should be is read as if it were not there.
const words = z.string().nullish().catch(null);
const call = z.object({ name: words }).nullish().catch(null);
const content = z
  .union([z.string(), z.array(z.object({ type: words, text: words }))])
  .nullish()
  .catch(null);
const message = z
  .object({
    content,
    refusal: words,
    reasoning_content: words,
    reasoning: words,
    tool_calls: z
      .array(z.object({ function: call }))
      .nullish()
      .catch(null),
    function_call: call,
  })
  .partial()
  .nullish()
  .catch(null);
const count = z.number().nonnegative();
const usageShape = z.object({
  prompt_tokens: count,
  completion_tokens: count.nullish(),
  prompt_tokens_details: z
    .object({ cached_tokens: count.nullish(), cache_write_tokens: count.nullish() })
    .nullish()
    .catch(null),
  prompt_cache_hit_tokens: count.nullish(),
  cache_read_input_tokens: count.nullish(),
  cache_creation_input_tokens: count.nullish(),
});
const choiceShape = z
  .object({ delta: message, message, text: words, finish_reason: words })
  .catch({ delta: null, message: null, text: null, finish_reason: null });
const chunkShape = z
  .object({ choices: z.array(choiceShape).catch([]), usage: usageShape.nullable().catch(null) })
  .catch({ choices: [], usage: null });
type Chunk = z.output<typeof chunkShape>;

function usageOf(usage: z.infer<typeof usageShape>): Usage {
  const details = usage.prompt_tokens_details;
  const cached = details?.cached_tokens ?? usage.prompt_cache_hit_tokens ?? usage.cache_read_input_tokens;
  const written = details?.cache_write_tokens ?? usage.cache_creation_input_tokens;
  return {
    input: usage.prompt_tokens,
    output: usage.completion_tokens ?? 0,
    ...(cached == null ? {} : { cachedInput: cached }),
    ...(written == null ? {} : { cacheWrite: written }),
  };
}

function textOf(said: z.infer<typeof content>): string {
  if (said == null || typeof said === "string") return said ?? "";
  return said.map((part) => (part.type == null || part.type === "text" ? (part.text ?? "") : "")).join("");
}
