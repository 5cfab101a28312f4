/** A model server's stream, read as the `http` runtime reads it: chunks of completions and what servers send instead, in any cut. */
import { type CompletionEnd, completion } from "../../../src/runtime/wire/completion-stream.ts";
import { systemClock } from "../../../src/util/clock.ts";
import { type Chance, distorted, hostileBytes, hostileText, hostileValue } from "./chance.ts";
import type { FuzzTarget } from "./fuzz.ts";

const ENDS: readonly CompletionEnd["kind"][] = ["finished", "broken", "cancelled"];

export function modelStream(): FuzzTarget {
  return {
    name: "model stream",
    async take(chance, count) {
      let taken = 0;
      while (taken < count) {
        const events = Array.from({ length: 1 + chance.whole(20) }, () => serverEvent(chance));
        taken += events.length;
        const bytes = hostileBytes(chance, events.join(""));
        const end = await read(cut(chance, bytes));
        if (!ENDS.includes(end.kind)) throw new Error(`no end of a completion: ${JSON.stringify(end)}`);
      }
      return taken;
    },
    async takeLong(piece, length) {
      const text = piece.repeat(Math.ceil(length / piece.length));
      await read([Buffer.from(`data: ${JSON.stringify(chunk({ content: text }))}\n\ndata: ${text}\n\n`)]);
    },
    close: () => Promise.resolve(),
  };
}

function read(chunks: readonly Buffer[]): Promise<CompletionEnd> {
  const headers = { "content-type": "text/event-stream" };
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const bytes of chunks) if (bytes.length > 0) controller.enqueue(bytes);
      controller.close();
    },
  });
  return completion({
    url: "http://model.invalid/v1/chat/completions",
    headers: {},
    body: "{}",
    fetch: () => Promise.resolve(new Response(body, { headers })),
    clock: systemClock,
    idleTimeoutMs: 60_000,
    signal: new AbortController().signal,
    onPart: () => Promise.resolve(),
    onOwnEvent: () => Promise.resolve(),
  });
}

function chunk(delta: unknown, more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { id: "c1", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: null, ...more }] };
}

function serverEvent(chance: Chance): string {
  switch (chance.whole(9)) {
    case 0:
      return `: ${hostileText(chance).replaceAll("\n", " ")}\n\n`;
    case 1:
      return "data:\n\n";
    case 2:
      return `event: ${hostileText(chance)}\ndata: ${hostileText(chance)}\n\n`;
    case 3:
      return `data: ${JSON.stringify(hostileValue(chance))}\n\n`;
    case 4:
      return `data: ${JSON.stringify(distorted(chance, { error: { message: hostileText(chance), code: 400, type: "x" } }))}\r\n\r\n`;
    case 5:
      return `data: ${JSON.stringify(chunk({}, { finish_reason: chance.oneOf(["stop", "length", "", "tool_calls"]) }))}\n\n`;
    case 6:
      return chance.oneOf(["data: [DONE]\n\n", "data:[DONE]\r\r", "\n", "\ufeff", "retry: 1\n", "id: \u0000\n"]);
    default:
      return `data: ${JSON.stringify(distorted(chance, chunk(distorted(chance, { content: hostileText(chance) }))))}\n\n`;
  }
}

function cut(chance: Chance, bytes: Buffer): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + chance.whole(200);
    chunks.push(bytes.subarray(at, end));
    at = end;
  }
  return chunks;
}
