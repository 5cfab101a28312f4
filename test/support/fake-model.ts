/**
 * A model server that answers as it is told: chat completions as a stream, and the list of models, on loopback. Each request is kept as it
 * came. What it does is a list of steps, so that a test can stop a stream at any byte.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface FakeRequest {
  /** From 0, of the completions. */
  readonly n: number;
  readonly path: string;
  /** Of the client's end: the same for one connection. */
  readonly fromPort: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The bytes as they came. */
  readonly raw: string;
  readonly body: FakeBody;
}

interface FakeBody {
  readonly model: string;
  readonly messages: readonly FakeMessage[];
  readonly stream?: boolean;
  readonly stream_options?: unknown;
  readonly max_tokens?: number;
  readonly max_completion_tokens?: number;
}

export interface FakeMessage {
  readonly role: string;
  readonly content: string;
}

export type FakeStep =
  | { readonly text: string }
  | { readonly thought: string; readonly field?: "reasoning_content" | "reasoning" }
  | { readonly tool: string }
  | { readonly finish: string }
  | { readonly usage: Readonly<Record<string, unknown>> }
  /** A chunk of any form. */
  | { readonly chunk: unknown }
  | { readonly event: string; readonly data: string }
  | { readonly comment: string }
  | { readonly raw: string | Uint8Array }
  | { readonly done: true }
  /** Goes on when it is told. */
  | { readonly until: Promise<unknown> }
  /** Sends nothing more; the connection stays open. */
  | { readonly stall: true }
  /** Breaks the connection. */
  | { readonly cut: true };

export interface FakeReply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly contentType?: string | null;
  /** A stream. */
  readonly steps?: readonly FakeStep[];
  /** Or all at once: a text as it is, anything else as JSON. */
  readonly body?: unknown;
}

/** A list is used up in order; its last one is for all that follow. */
export type FakeScript = readonly FakeReply[] | ((request: FakeRequest) => FakeReply);

export interface FakeModel {
  /** The base URL, with `/v1`. */
  readonly url: string;
  readonly port: number;
  /** The completions asked for, in order. */
  readonly requests: readonly FakeRequest[];
  /** Resolves when a request of that number (from 0) is there. */
  arrived(n: number): Promise<FakeRequest>;
  /** Resolves when the answer to that request is over, also by the client's going. */
  ended(n: number): Promise<void>;
  close(): Promise<void>;
}

export interface FakeModelOptions {
  /** Answers `GET` of any path; the list of models by default. */
  readonly get?: (path: string, headers: FakeRequest["headers"]) => FakeReply;
}

export const FAKE_MODEL = "fake-1";

export async function startFakeModel(script: FakeScript, options: FakeModelOptions = {}): Promise<FakeModel> {
  const requests: FakeRequest[] = [];
  const arrivals = new Moments<FakeRequest>();
  const endings = new Moments<void>();
  const get = options.get ?? listModels;
  const replyTo = (request: FakeRequest): FakeReply =>
    typeof script === "function" ? script(request) : (script[Math.min(request.n, script.length - 1)] ?? says(""));

  const server = createServer((incoming, outgoing) => {
    const path = incoming.url ?? "";
    const serve = async (): Promise<void> => {
      if (incoming.method === "GET") return write(outgoing, get(path, incoming.headers));
      const raw = await readAll(incoming);
      const { headers } = incoming;
      const fromPort = incoming.socket.remotePort;
      const request = { n: requests.length, path, fromPort, headers, raw, body: JSON.parse(raw) as FakeBody };
      requests.push(request);
      outgoing.once("close", () => endings.at(request.n).resolve());
      arrivals.at(request.n).resolve(request);
      return write(outgoing, replyTo(request));
    };
    serve().catch((cause: unknown) => outgoing.destroy(cause instanceof Error ? cause : new Error(String(cause))));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    port,
    requests,
    arrived: (n) => arrivals.at(n).promise,
    ended: (n) => endings.at(n).promise,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** An answer in pieces, in good order, with usage. */
export function says(...pieces: readonly string[]): FakeReply {
  const usage = { prompt_tokens: 10, completion_tokens: pieces.length };
  return { steps: [...pieces.map((text) => ({ text })), { finish: "stop" }, { usage }, { done: true }] };
}

export function refuses(status: number, error: unknown, headers: Readonly<Record<string, string>> = {}): FakeReply {
  return { status, headers, body: { error } };
}

/** The words of the demo agent, as far as a model has them. The order is the last paragraph of the last message. */
export function obeyWords({ body }: FakeRequest): FakeReply {
  const order = body.messages.at(-1)?.content.split("\n\n").at(-1) ?? "";
  const [, word = "", argument = ""] = /^\s*(\S+)(?:\s+(.*))?$/s.exec(order) ?? [];
  const count = Number(argument) || 10;
  const counted = Array.from({ length: count }, (_, at) => (at === 0 ? "1" : ` ${at + 1}`));
  switch (word) {
    case "say":
      return says(argument);
    case "count":
      return says(...counted);
    case "slow":
      return { steps: [{ text: "1" }, { stall: true }] };
    case "history":
      return says(body.messages.map(({ role, content }) => `${role}: ${content}`).join("\n"));
    case "fail":
      return { steps: [{ finish: "content_filter" }, { done: true }] };
    default:
      return says("I am a fake model; I do not understand language.");
  }
}

function listModels(path: string): FakeReply {
  if (path !== "/v1/models") return refuses(404, "not found");
  return { body: { object: "list", data: [{ id: FAKE_MODEL, object: "model" }] } };
}

async function write(outgoing: ServerResponse, reply: FakeReply): Promise<void> {
  const { status = 200, headers = {}, steps } = reply;
  const contentType = reply.contentType === undefined ? defaultType(reply) : reply.contentType;
  outgoing.writeHead(status, { ...(contentType === null ? {} : { "content-type": contentType }), ...headers });
  if (steps === undefined) {
    outgoing.end(typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body ?? {}));
    return;
  }
  outgoing.flushHeaders();
  const gone = new Promise<void>((resolve) => outgoing.once("close", resolve));
  for (const step of steps) {
    if (outgoing.destroyed) return;
    if ("stall" in step) return;
    if ("until" in step) await Promise.race([step.until, gone]);
    else if ("cut" in step) {
      outgoing.destroy();
      return;
    } else await new Promise((resolve) => outgoing.write(bytesOf(step), resolve));
  }
  outgoing.end();
}

function defaultType({ steps, body }: FakeReply): string {
  if (steps !== undefined) return "text/event-stream; charset=utf-8";
  return typeof body === "string" ? "text/html" : "application/json";
}

type WrittenStep = Exclude<FakeStep, { stall: true } | { cut: true } | { until: Promise<unknown> }>;

function bytesOf(step: WrittenStep): string | Uint8Array {
  if ("raw" in step) return step.raw;
  if ("comment" in step) return `: ${step.comment}\n\n`;
  if ("event" in step) return `event: ${step.event}\ndata: ${step.data}\n\n`;
  if ("done" in step) return "data: [DONE]\n\n";
  return `data: ${JSON.stringify(chunkOf(step))}\n\n`;
}

function chunkOf(
  step: Exclude<WrittenStep, { raw: unknown } | { comment: string } | { event: string } | { done: true }>,
) {
  if ("chunk" in step) return step.chunk;
  if ("usage" in step) return { ...HEAD, choices: [], usage: step.usage };
  const choice = (delta: object, finish: string | null = null) => ({
    ...HEAD,
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  if ("text" in step) return choice({ content: step.text });
  if ("thought" in step) return choice({ [step.field ?? "reasoning_content"]: step.thought });
  if ("finish" in step) return choice({}, step.finish);
  return choice({
    tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: step.tool, arguments: "{}" } }],
  });
}

const HEAD = { id: "chatcmpl-1", object: "chat.completion.chunk", model: FAKE_MODEL } as const;

async function readAll(incoming: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of incoming) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}

/** Promises by number, asked for before or after they resolve. */
class Moments<T> {
  readonly #moments: PromiseWithResolvers<T>[] = [];

  at(n: number): PromiseWithResolvers<T> {
    this.#moments[n] ??= Promise.withResolvers<T>();
    return this.#moments[n];
  }
}
