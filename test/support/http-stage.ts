import { writeFileSync } from "node:fs";
import { request as httpRequest, type IncomingHttpHeaders, type RequestOptions } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import OpenAI, { type ClientOptions } from "openai";
import { loadConfig } from "../../src/config/config.ts";
import { buildSessionKey, localDoorChatId } from "../../src/conversation/session-key.ts";
import type { Gateway } from "../../src/gateway/gateway.ts";
import { startGateway } from "../../src/gateway/start.ts";
import { temporaryFolder } from "./store.ts";

/** A whole gateway in this process on a port of its own, for clients that really connect. */
export interface HttpStage {
  readonly home: string;
  /** Everything that was logged, as the lines it would be. */
  readonly log: readonly { readonly level: "info" | "warn" | "error"; readonly line: string }[];
  readonly url: string;
  readonly port: number;
  readonly ownerToken: string;
  readonly gateway: Gateway;
  /** The official client of the wire; it does not try again unless it is told to. */
  client(options?: ClientOptions): OpenAI;
  call(request: Call): Promise<Reply>;
  /** A bare connection. */
  connect(): Wire;
  restart(): Promise<void>;
  /** Stops the gateway. How long it took, and what of this process's sockets and timers was still open afterwards. */
  end(): Promise<{ readonly ms: number; readonly open: readonly string[] }>;
}

export interface Call {
  readonly method?: string;
  readonly path: string;
  readonly headers?: RequestOptions["headers"];
  /** JSON of it is sent, unless it is bytes. */
  readonly body?: unknown;
  readonly token?: string;
}

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body as JSON, whatever it is. */
  json<T = ErrorReply>(): T;
}

export interface ErrorReply {
  readonly error: { readonly code: string; readonly message: string; readonly remedy: string; readonly type: string };
}

/** The end of a bare connection that a test holds. */
export interface Wire {
  readonly socket: Socket;
  send(bytes: string | Buffer): void;
  /** Resolves with everything received, once these words are in it, and what comes `then`. */
  received(words: string, then?: string): Promise<string>;
  /** Resolves with everything received, once the other end has closed. */
  closed(): Promise<string>;
  /** Cuts the connection at once. */
  vanish(): void;
}

/** Whoever runs the tests: peers of root, and those in a container, are not told apart. */
export const LOCAL = { port: 0, token: "loopback" };

/** How long a stop may take with nothing running: nobody is waited for. */
const STOP_MS = 1_000;

/** A test that is a story at the HTTP door: when it is over nothing may be left open, and no fault may have been logged. */
export function httpStory(
  tell: (stage: HttpStage) => Promise<void>,
  config?: Readonly<Record<string, unknown>>,
): () => Promise<void> {
  return async () => {
    const stage = await openHttpStage(config);
    let ended: Awaited<ReturnType<HttpStage["end"]>> | undefined;
    try {
      await tell(stage);
    } finally {
      ended = await stage.end();
    }
    if (ended.ms > STOP_MS) throw new Error(`The gateway took ${Math.round(ended.ms)} ms to stop.`);
    if (ended.open.length > 0) throw new Error(`Something is left open: ${ended.open.join(", ")}`);
    const faults = stage.log.filter(({ level }) => level === "error").map(({ line }) => line);
    if (faults.length > 0) throw new Error(`The gateway has logged errors:\n${faults.join("\n")}`);
  };
}

export async function openHttpStage(config: Readonly<Record<string, unknown>> = {}): Promise<HttpStage> {
  const before = openResources();
  const folder = temporaryFolder();
  const log: { level: "info" | "warn" | "error"; line: string }[] = [];
  const wires = new Set<Wire>();
  writeFileSync(join(folder.path, "config.yaml"), JSON.stringify({ http: LOCAL, ...config }));
  const start = () => {
    const note = (level: "info" | "warn" | "error") => (fields: object, message: string) =>
      void log.push({ level, line: asLine(fields, message) });
    return startGateway({
      config: loadConfig({ flags: { home: folder.path }, env: {} }),
      log: { info: note("info"), warn: note("warn"), error: note("error") },
    });
  };
  let running = await start();
  const portOf = (): number => Number(new URL(running.url).port);
  return {
    home: folder.path,
    log,
    get url() {
      return running.url;
    },
    get port() {
      return portOf();
    },
    get ownerToken() {
      return running.ownerToken;
    },
    get gateway() {
      return running.gateway;
    },
    client: (options = {}) =>
      new OpenAI({ baseURL: `${running.url}/v1`, apiKey: running.ownerToken, maxRetries: 0, ...options }),
    call: (request) => call(running.url, request),
    connect() {
      const wire = openWire(portOf());
      wires.add(wire);
      return wire;
    },
    async restart() {
      await running.stop();
      running = await start();
    },
    async end() {
      const from = performance.now();
      await running.stop();
      const ms = performance.now() - from;
      for (const wire of wires) wire.vanish();
      folder.remove();
      return { ms, open: await leftOpen(before) };
    },
  };
}

function call(url: string, { method, path, headers, body, token }: Call): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const bytes = body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  const request = httpRequest(`${url}${path}`, {
    method: method ?? (bytes === undefined ? "GET" : "POST"),
    agent: false,
    headers: {
      ...(bytes === undefined ? {} : { "content-type": "application/json", "content-length": bytes.length }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
  });
  request.on("error", reject);
  request.on("response", (response) => {
    let text = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => {
      text += chunk;
    });
    response.on("error", reject);
    response.on("end", () =>
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text,
        json: <T>() => JSON.parse(text) as T,
      }),
    );
  });
  request.end(bytes);
  return promise;
}

function openWire(port: number): Wire {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  const { promise: closed, resolve } = Promise.withResolvers<string>();
  const waiting = new Set<{ words: string; then: string } & Omit<PromiseWithResolvers<string>, "promise">>();
  const look = (): void => {
    for (const one of waiting) {
      const at = text.indexOf(one.words);
      if (at < 0 || !text.includes(one.then, at)) continue;
      waiting.delete(one);
      one.resolve(text);
    }
  };
  socket.setEncoding("utf8");
  socket.on("data", (chunk) => {
    text += chunk;
    look();
  });
  // A reset is one of the ways in which the other end closes.
  socket.on("error", () => socket.destroy());
  socket.on("close", () => {
    resolve(text);
    for (const one of waiting) one.reject(new Error(`${one.words} never came, but: ${text.slice(0, 500)}`));
    waiting.clear();
  });
  return {
    socket,
    send: (bytes) => void socket.write(bytes),
    received(words, then = "") {
      const { promise, ...ends } = Promise.withResolvers<string>();
      waiting.add({ words, then, ...ends });
      look();
      return promise;
    },
    closed: () => closed,
    vanish: () => void socket.destroy(),
  };
}

/** A request as the bytes it is. */
export function bytesOf(method: string, path: string, headers: Readonly<Record<string, string>>, body = ""): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}

/** A chat completion as the bytes it is. */
export function completionBytes(body: object, headers: Readonly<Record<string, string>> = {}): string {
  const text = JSON.stringify(body);
  return bytesOf(
    "POST",
    "/v1/chat/completions",
    {
      Host: "127.0.0.1",
      "Content-Type": "application/json",
      "Content-Length": String(Buffer.byteLength(text)),
      ...headers,
    },
    text,
  );
}

/** The key of a person's own door (K19). */
export function doorKey(platform: "http" | "console" | "web", name: string, personId = "owner"): string {
  const chatId = localDoorChatId(personId, name);
  return buildSessionKey({ form: "chat", agent: "main", platform, chatType: "dm", chatId });
}

/** Until it holds; what is waited for comes from another connection, so there is no event for it here. */
export async function until(holds: () => boolean | Promise<boolean>, patienceMs = 5_000): Promise<void> {
  const end = performance.now() + patienceMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`It does not come to hold: ${holds.toString()}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Until so many event streams are connected. */
export function untilStreams(stage: HttpStage, count: number): Promise<void> {
  return until(async () => {
    const { eventStreams } = (await stage.call({ path: "/api/status", token: stage.ownerToken })).json<{
      eventStreams: number;
    }>();
    return eventStreams === count;
  });
}

const WATCHED = ["TCPSocketWrap", "TCPServerWrap", "TCPConnectWrap", "Timeout"];

function openResources(): string[] {
  return process.getActiveResourcesInfo().filter((kind) => WATCHED.includes(kind));
}

/** What is open now and was not before. Clients see the end of a connection a moment after it. */
async function leftOpen(before: readonly string[]): Promise<string[]> {
  const end = performance.now() + 1_000;
  for (;;) {
    const open = openResources();
    const more = WATCHED.filter((kind) => count(open, kind) > count(before, kind));
    if (more.length === 0 || performance.now() > end) return more;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function count(kinds: readonly string[], kind: string): number {
  return kinds.filter((one) => one === kind).length;
}

function asLine(fields: object, message: string): string {
  const plain = Object.entries(fields).map(([name, value]) => [
    name,
    value instanceof Error ? errorLine(value) : value,
  ]);
  return JSON.stringify({ ...Object.fromEntries(plain), message });
}

function errorLine(error: Error): string {
  return `${error.stack}${error.cause === undefined ? "" : ` caused by ${String(error.cause)}`}`;
}
