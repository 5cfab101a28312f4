/**
 * A model for real agents, on loopback: chat completions as OpenAI has them, and content as Gemini generates it. It obeys the words of the
 * demo agent as far as a model has them (`say`, `count`, `slow`, `history`, `tool`), wherever in a prompt an agent puts them, so that what
 * an agent still knows can be asked for. What an agent asks besides its turns (titles, summaries: requests without tools) gets a plain answer.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";

export interface AgentModel {
  /** For chat completions, with `/v1`. */
  readonly url: string;
  /** For Gemini. */
  readonly geminiUrl: string;
  readonly port: number;
  /** What was asked in turns, in order. */
  readonly asked: readonly AskedOfModel[];
  /** Requests that are being answered. */
  readonly running: number;
  close(): Promise<void>;
}

interface AskedOfModel {
  readonly path: string;
  /** Without the system prompt. */
  readonly messages: readonly ModelMessage[];
  readonly system: string;
  readonly at: number;
  /** Ended before it was whole: whoever asked went away. */
  isCut: boolean;
}

interface ModelMessage {
  readonly role: "user" | "assistant" | "tool";
  readonly text: string;
}

/** The last request with these words was left before it was answered. */
export function isLetGo({ asked }: AgentModel, words: string): boolean {
  return asked.findLast(({ messages }) => messages.at(-1)?.text.includes(words))?.isCut === true;
}

export const AGENT_MODEL = "fake-1";
const SLOW_MS = 100;
const CONTEXT = 200_000;

interface Asking {
  readonly system: string;
  readonly messages: readonly ModelMessage[];
  readonly tools: readonly string[];
}

/** What it says: words, or a call of a tool. */
type Saying =
  | { readonly text: readonly string[]; readonly isSlow: boolean }
  | { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> }
  | { readonly refusal: string };

/** How one of the two wires is spoken. */
interface Wire {
  open(): object[];
  word(text: string): object;
  call(tool: string, args: Readonly<Record<string, unknown>>): object[];
  end(isCall: boolean): object[];
  whole(text: string): object;
  last: string;
}

export async function startAgentModel(): Promise<AgentModel> {
  const asked: AskedOfModel[] = [];
  let running = 0;
  const server = createServer((incoming, outgoing) => {
    running++;
    outgoing.once("close", () => running--);
    serve(incoming, outgoing, asked).catch((cause: unknown) => {
      outgoing.destroy(cause instanceof Error ? cause : new Error(String(cause)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    geminiUrl: `http://127.0.0.1:${port}`,
    port,
    asked,
    get running() {
      return running;
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function serve(incoming: IncomingMessage, outgoing: ServerResponse, asked: AskedOfModel[]): Promise<void> {
  const path = (incoming.url ?? "").replace(/\?.*$/, "");
  const raw = await readAll(incoming);
  const json = (body: unknown, status = 200): void => {
    outgoing.writeHead(status, { "content-type": "application/json" });
    outgoing.end(JSON.stringify(body));
  };
  if (incoming.method === "GET" && /\/models$/.test(path)) {
    return json({ object: "list", data: [{ id: AGENT_MODEL, object: "model", context_length: CONTEXT }] });
  }
  if (path.endsWith(":countTokens")) return json({ totalTokens: 10 });
  const isGemini = /:(?:stream)?[gG]enerateContent$/.test(path);
  if (!isGemini && !path.endsWith("/chat/completions")) return json({ error: { message: "not found" } }, 404);
  const body: unknown = JSON.parse(raw);
  const asking = isGemini ? readGemini(body) : readCompletion(body);
  const wire = isGemini ? GEMINI : OPENAI;
  const isStream = isGemini
    ? /:stream/.test(path)
    : z.object({ stream: z.boolean() }).safeParse(body).data?.stream === true;
  const isTurn = asking.tools.length > 0;
  const record: AskedOfModel = { path, ...asking, at: performance.now(), isCut: false };
  if (isTurn) asked.push(record);
  const saying = isTurn ? say(asking) : { text: ["An aside."], isSlow: false };
  if ("refusal" in saying)
    return json({ error: { message: saying.refusal, code: 400, status: "INVALID_ARGUMENT" } }, 400);
  if (!isStream) return json(wire.whole("text" in saying ? saying.text.join("") : ""));
  outgoing.once("close", () => {
    record.isCut = !outgoing.writableFinished;
  });
  outgoing.writeHead(200, { "content-type": "text/event-stream" });
  await stream(outgoing, wire, saying);
}

async function stream(
  outgoing: ServerResponse,
  wire: Wire,
  saying: Exclude<Saying, { refusal: string }>,
): Promise<void> {
  const write = (chunk: object): void => void outgoing.write(`data: ${JSON.stringify(chunk)}\n\n`);
  for (const chunk of wire.open()) write(chunk);
  if ("tool" in saying) {
    for (const chunk of wire.call(saying.tool, saying.arguments)) write(chunk);
  } else {
    for (const text of saying.text) {
      if (outgoing.destroyed) return;
      write(wire.word(text));
      if (saying.isSlow) await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
    }
  }
  for (const chunk of wire.end("tool" in saying)) write(chunk);
  outgoing.end(wire.last);
}

const ORDER = /^\s*(say|count|slow|history|fail|tool)\b[ \t]*(.*)$/;

function say({ messages, tools }: Asking): Saying {
  const last = messages.at(-1);
  if (last?.role === "tool") return { text: [`the tool said: ${last.text}`], isSlow: false };
  const order = last?.text.split("\n").findLast((line) => ORDER.test(line)) ?? "";
  const [, word = "", argument = ""] = ORDER.exec(order) ?? [];
  const numbers = Array.from({ length: Number(argument) || 10 }, (_, at) => (at === 0 ? "1" : ` ${at + 1}`));
  switch (word) {
    case "say":
      return { text: pieces(argument), isSlow: false };
    case "count":
      return { text: numbers, isSlow: false };
    case "slow":
      return { text: numbers, isSlow: true };
    case "history":
      return { text: pieces(messages.map(({ role, text }) => `${role}: ${text}`).join("\n")), isSlow: false };
    case "fail":
      return { refusal: "told to fail" };
    case "tool": {
      const [, name = "", args = "{}"] = /^(\S+)\s*(.*)$/.exec(argument) ?? [];
      const tool = tools.includes(name) ? name : (tools[0] ?? "");
      return { tool, arguments: JSON.parse(args === "" ? "{}" : args) as Record<string, unknown> };
    }
    default:
      return { text: ["I am a fake model; I do not understand language."], isSlow: false };
  }
}

function pieces(text: string): string[] {
  return text.split(/(?<= )/);
}

const part = z.object({ text: z.string().optional() }).loose();
const content = z.union([z.string(), z.array(part), z.null()]).optional();
const completionShape = z.object({
  messages: z.array(z.object({ role: z.string(), content })),
  tools: z.array(z.object({ function: z.object({ name: z.string() }) })).optional(),
});

function readCompletion(body: unknown): Asking {
  const { messages, tools = [] } = completionShape.parse(body);
  const read = messages.map(({ role, content: said }) => ({
    role,
    text: typeof said === "string" ? said : (said ?? []).map(({ text = "" }) => text).join("\n"),
  }));
  return {
    system: read.flatMap(({ role, text }) => (role === "system" ? [text] : [])).join("\n"),
    messages: read.flatMap(({ role, text }) =>
      role === "user" || role === "assistant" || role === "tool" ? [{ role, text } as const] : [],
    ),
    tools: tools.map(({ function: { name } }) => name),
  };
}

const geminiPart = z.object({ text: z.string().optional(), functionResponse: z.unknown().optional() }).loose();
const geminiShape = z.object({
  contents: z.array(z.object({ role: z.string().optional(), parts: z.array(geminiPart).optional() })),
  systemInstruction: z
    .object({ parts: z.array(geminiPart).optional() })
    .loose()
    .optional(),
  tools: z
    .array(z.object({ functionDeclarations: z.array(z.object({ name: z.string() })).optional() }).loose())
    .optional(),
});

function readGemini(body: unknown): Asking {
  const { contents, systemInstruction, tools = [] } = geminiShape.parse(body);
  const textOf = (parts: readonly z.infer<typeof geminiPart>[] = []): string =>
    parts
      .map(
        ({ text, functionResponse }) =>
          text ?? (functionResponse === undefined ? "" : JSON.stringify(functionResponse)),
      )
      .join("\n");
  return {
    system: textOf(systemInstruction?.parts),
    messages: contents.map(({ role, parts = [] }) => ({
      role:
        role === "model" ? "assistant" : parts.some((each) => each.functionResponse !== undefined) ? "tool" : "user",
      text: textOf(parts),
    })),
    tools: tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations.map(({ name }) => name)),
  };
}

const HEAD = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: AGENT_MODEL } as const;
const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const choice = (delta: object, finish: string | null = null): object => ({
  ...HEAD,
  choices: [{ index: 0, delta, finish_reason: finish }],
});

const OPENAI: Wire = {
  open: () => [choice({ role: "assistant", content: "" })],
  word: (text) => choice({ content: text }),
  call: (name, args) => [
    choice({
      tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name, arguments: JSON.stringify(args) } }],
    }),
  ],
  end: (isCall) => [choice({}, isCall ? "tool_calls" : "stop"), { ...HEAD, choices: [], usage: USAGE }],
  whole: (text) => ({
    ...HEAD,
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
    usage: USAGE,
  }),
  last: "data: [DONE]\n\n",
};

const GEMINI_USAGE = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 };
const candidate = (parts: readonly object[], more: object = {}): object => ({
  candidates: [{ index: 0, content: { role: "model", parts }, ...more }],
  modelVersion: AGENT_MODEL,
});

const GEMINI: Wire = {
  open: () => [],
  word: (text) => candidate([{ text }]),
  call: (name, args) => [candidate([{ functionCall: { name, args } }])],
  end: () => [{ ...candidate([{ text: "" }], { finishReason: "STOP" }), usageMetadata: GEMINI_USAGE }],
  whole: (text) => ({ ...candidate([{ text }], { finishReason: "STOP" }), usageMetadata: GEMINI_USAGE }),
  last: "",
};

async function readAll(incoming: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const each of incoming) parts.push(each as Buffer);
  return Buffer.concat(parts).toString("utf8");
}
