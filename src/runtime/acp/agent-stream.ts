/// <reference types="node" preserve="true" />
/**
 * The way of the messages between an agent's process and the SDK. What the SDK would complain about on our own error output, or would take
 * in without bound, does not come to it: noise and lines without end are skipped, answers nobody waits for are dropped, and updates go
 * straight to their taker, one after the other. Nothing more is read before the taker is done.
 */
import type { Readable, Writable } from "node:stream";
import type { AnyMessage, Stream } from "@agentclientprotocol/sdk/unstable";

export interface AgentStreamOptions {
  readonly input: Writable;
  readonly output: Readable;
  /** A longer line is skipped. */
  readonly lineBytes: number;
  /** The params of a `session/update`, as they came. */
  readonly onUpdate: (params: unknown) => Promise<void>;
  /** Once, when the agent takes nothing any more although its input was not ended. */
  readonly onDeaf: () => void;
}

export interface AgentStream {
  /** What the SDK is connected to. */
  readonly stream: Stream;
  /** Settles when the agent's output has ended and everything in it was taken. Never rejects. */
  readonly ended: Promise<void>;
}

/** The answer null. */
export const NOTHING: object = Object.freeze({});

/** So much may wait to be read by an agent before we stop reading what it says. */
const UNREAD_BYTES = 1_048_576;
const NEWLINE = 0x0a;

export function createAgentStream({ input, output, lineBytes, onUpdate, onDeaf }: AgentStreamOptions): AgentStream {
  input.once("close", () => {
    if (!input.writableEnded) onDeaf();
  });
  /** Requests of ours that have no answer yet. */
  const asked = new Set<unknown>();
  let toSdk: ReadableStreamDefaultController<AnyMessage> | null = null;
  const stream: Stream = {
    readable: new ReadableStream<AnyMessage>({
      start(controller) {
        toSdk = controller;
      },
      cancel() {
        toSdk = null;
      },
    }),
    writable: new WritableStream<AnyMessage>({
      async write(message) {
        if ("method" in message && "id" in message) asked.add(message.id);
        if (input.writable) input.write(`${JSON.stringify(message)}\n`);
      },
    }),
  };

  const take = async (line: string): Promise<void> => {
    const message = readMessage(line);
    if (message === null) return;
    if (message.method === "session/update" && !("id" in message)) return onUpdate(message.params);
    if (typeof message.method === "string") {
      if (!("id" in message) && message.method !== "$/cancel_request") return;
    } else if (!asked.delete(message.id)) {
      return;
    }
    // The SDK would make an empty object of it, which is an answer of another kind.
    if (message.result === null) message.result = NOTHING;
    toSdk?.enqueue(message as unknown as AnyMessage);
    // The SDK hands it on before the next one is read: their order is kept, and a flood of them waits in the pipe.
    await new Promise((resolve) => setImmediate(resolve));
    if (input.writableLength > UNREAD_BYTES) await drained(input);
  };

  const read = async (): Promise<void> => {
    try {
      for await (const line of linesOf(output, lineBytes)) await take(line);
    } catch {
      // The pipe broke, which is an end like the other.
    }
    toSdk?.close();
    toSdk = null;
  };
  return { stream, ended: read() };
}

/** A JSON-RPC message in outline; null for noise. */
function readMessage(line: string): Record<string, unknown> | null {
  if (!line.startsWith("{")) return null;
  try {
    const value: unknown = JSON.parse(line);
    const isMessage = typeof value === "object" && value !== null && ("method" in value || "id" in value);
    return isMessage ? { jsonrpc: "2.0", ...value } : null;
  } catch {
    return null;
  }
}

/** Without those that are longer than `most` bytes, of which no more than that is ever held. */
async function* linesOf(output: Readable, most: number): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let held = 0;
  let isTooLong = false;
  const finish = (): string | null => {
    const line = isTooLong ? null : Buffer.concat(parts).toString("utf8").trim();
    parts = [];
    held = 0;
    isTooLong = false;
    return line;
  };
  for await (const chunk of output as AsyncIterable<Buffer>) {
    let from = 0;
    while (from < chunk.length) {
      const at = chunk.indexOf(NEWLINE, from);
      const part = chunk.subarray(from, at < 0 ? chunk.length : at);
      held += part.length;
      if (held > most) {
        isTooLong = true;
        parts = [];
      } else {
        parts.push(part);
      }
      if (at < 0) break;
      from = at + 1;
      const line = finish();
      if (line) yield line;
    }
  }
  const last = finish();
  if (last) yield last;
}

function drained(input: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      input.off("drain", done);
      input.off("close", done);
      resolve();
    };
    input.on("drain", done);
    input.on("close", done);
    if (input.destroyed) done();
  });
}
