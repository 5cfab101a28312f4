import { createHash } from "node:crypto";
import { type Context, Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { z } from "zod";
import { type ErrorCode, isErrorCode, TertuliaError } from "../../errors.ts";
import type { Gateway, Said, SayRequest } from "../../gateway.ts";
import { jsonBody } from "../../http/body.ts";
import { type Env, errorBody } from "../../http/wire.ts";
import { renderNotice } from "../../reply/render-notice.ts";
import type { TurnAnswer } from "../../store/store.ts";

/** The HTTP door: OpenAI's chat completions, where `model` is the agent and a conversation's history is the gateway's. */

const Part = z.object({ type: z.string(), text: z.string().optional() });
const ChatMessage = z.object({
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: z.union([z.string(), z.array(Part), z.null()]).optional(),
});
const CompletionBody = z.object({
  model: z.string().optional(),
  messages: z.array(ChatMessage).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  user: z.string().optional(),
});
type CompletionBody = z.infer<typeof CompletionBody>;

const LONGEST_NAME = 512;

export function completions(gateway: Gateway, closing: AbortSignal): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/models", (context) =>
    context.json({
      object: "list",
      data: Object.values(gateway.config.agents).map((agent) => ({
        id: agent.name,
        object: "model",
        created: 0,
        owned_by: "tertulia",
      })),
    }),
  );
  app.post("/chat/completions", async (context) => {
    const body = await jsonBody(context, CompletionBody);
    const { request, name } = readRequest(context, body, gateway);
    const said = await gateway.say(request);
    const headers = headersFor(said, name);
    if (said.kind === "turn") {
      if (body.stream) return streamed(context, gateway, said, body, headers, closing, request.once !== undefined);
      const answer = await gateway.answerOf(said.turnId);
      if (request.once !== undefined) await gateway.park(said.sessionId);
      const problem = problemOf(answer);
      if (problem !== null)
        return context.json({ ...errorBody(problem), partial: answer.text }, problem.status as 502, headers);
      return context.json(completionOf(answer, said.turnId, agentOf(body, gateway)), 200, {
        ...headers,
        ...(answer.silent ? { "X-Tertulia-Silent": "true" } : {}),
      });
    }
    const text = renderNotice(said.reply);
    if (body.stream) return streamedText(context, text, body, gateway, headers);
    return context.json(completion({ id: `m${said.messageId}`, model: agentOf(body, gateway), text }), 200, headers);
  });
  return app;
}

function agentOf(body: CompletionBody, gateway: Gateway): string {
  const model = body.model ?? gateway.config.defaultAgent;
  if (gateway.config.agents[model] === undefined)
    throw new TertuliaError("agent_unknown", `There is no agent ${JSON.stringify(model)}.`);
  return model;
}

/** The conversation by header, else by `user`; with neither, one without a name that the body's history seeds. */
function readRequest(
  context: Context<Env>,
  body: CompletionBody,
  gateway: Gateway,
): { request: SayRequest; name: string } {
  const person = context.get("caller");
  const agent = agentOf(body, gateway);
  const last = body.messages.at(-1);
  if (last?.role !== "user") throw new TertuliaError("request_invalid", "The last message must be the user's.");
  const text = textOf(last);
  const key = context.req.header("idempotency-key");
  const bodyHash = createHash("sha256").update(text).digest("hex");
  const idempotency = key === undefined ? {} : { idempotency: { key, bodyHash } };
  const named = decodeHeader(context.req.header("x-tertulia-conversation")) || body.user || "";
  if (named.length > LONGEST_NAME)
    throw new TertuliaError("request_invalid", `The conversation's name is longer than ${LONGEST_NAME} characters.`);
  if (named !== "")
    return { request: { person, agent, door: { platform: "http", name: named }, text, ...idempotency }, name: named };
  // A retry must find its conversation again: its name comes from the key.
  const name = `once-${key === undefined ? crypto.randomUUID() : createHash("sha256").update(`${person.id}\n${key}`).digest("hex").slice(0, 32)}`;
  const history = body.messages.slice(0, -1).flatMap((message) => historyLine(message));
  return {
    request: { person, agent, door: { platform: "http", name }, text, ...idempotency, once: { history } },
    name,
  };
}

function historyLine(message: z.infer<typeof ChatMessage>): { role: "user" | "assistant"; text: string }[] {
  const text = textOf(message, true);
  if (text === "") return [];
  if (message.role === "assistant") return [{ role: "assistant", text }];
  return [{ role: "user", text: message.role === "user" ? text : `(${message.role}) ${text}` }];
}

function textOf(message: z.infer<typeof ChatMessage>, lenient = false): string {
  if (typeof message.content === "string") return message.content;
  const parts = message.content ?? [];
  const other = parts.find((part) => part.type !== "text");
  if (other !== undefined && !lenient)
    throw new TertuliaError("request_invalid", `Parts of type ${JSON.stringify(other.type)} are not taken here.`, {
      remedy: "Send text.",
    });
  return parts.map((part) => part.text ?? "").join("");
}

/** Header bytes arrive as Latin-1; a name sent as UTF-8 is read as such. */
function decodeHeader(value: string | undefined): string {
  if (value === undefined) return "";
  const bytes = Buffer.from(value, "latin1");
  const text = bytes.toString("utf8");
  return text.includes("\uFFFD") ? value : text;
}

function headersFor(said: Said, name: string): Record<string, string> {
  return {
    "X-Tertulia-Conversation": Buffer.from(name, "utf8")
      .toString("latin1")
      .replace(/[\x00-\x1f\x7f]/g, "?"),
    "X-Tertulia-Key": Buffer.from(said.key, "utf8").toString("latin1"),
    "X-Tertulia-Message": String(said.messageId),
    ...("sessionId" in said && said.sessionId !== null ? { "X-Tertulia-Session": said.sessionId } : {}),
    ...("turnId" in said && said.turnId !== null ? { "X-Tertulia-Turn": String(said.turnId) } : {}),
  };
}

/** A turn that did not end in an answer, as the error its author gets (T3: 502 with its code). */
function problemOf(answer: TurnAnswer): TertuliaError | null {
  const { state, reason } = answer.turn;
  if (state === "answered") return null;
  const sentence = answer.notices.map(renderNotice).join(" ");
  return new TertuliaError(
    problemCode(state, reason),
    sentence === "" ? `The message was not answered (${reason ?? state}).` : sentence,
  );
}

function problemCode(state: string, reason: string | null): ErrorCode {
  if (state === "withdrawn") return "turn_withdrawn";
  if (state === "interrupted") return "turn_interrupted";
  if (reason === "timeout") return "turn_timeout";
  return reason !== null && isErrorCode(reason) ? reason : "turn_failed";
}

function completionOf(answer: TurnAnswer, turnId: number, model: string): object {
  return completion({ id: `t${turnId}`, model, text: answer.silent ? "" : answer.text });
}

function completion({ id, model, text }: { id: string; model: string; text: string }): object {
  return {
    id: `chatcmpl-${id}`,
    object: "chat.completion",
    created: Math.floor(Date.now() / 1_000),
    model,
    choices: [
      { index: 0, message: { role: "assistant", content: text, refusal: null }, finish_reason: "stop", logprobs: null },
    ],
  };
}

function chunk(id: string, model: string, delta: object, finish: string | null): string {
  return JSON.stringify({
    id: `chatcmpl-${id}`,
    object: "chat.completion.chunk",
    created: Math.floor(Date.now() / 1_000),
    model,
    choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }],
  });
}

/** A client that goes away does not cancel the turn (O6). */
function streamed(
  context: Context<Env>,
  gateway: Gateway,
  said: Extract<Said, { kind: "turn" }>,
  body: CompletionBody,
  headers: Record<string, string>,
  closing: AbortSignal,
  isOnce: boolean,
): Response {
  for (const [name, value] of Object.entries(headers)) context.header(name, value);
  const model = agentOf(body, gateway);
  const id = `t${said.turnId}`;
  return streamSSE(context, async (stream) => {
    let shown = "";
    let writing = stream.writeSSE({ data: chunk(id, model, { role: "assistant", content: "" }, null) });
    const write = (data: string): void => {
      writing = writing.then(() => stream.writeSSE({ data }));
    };
    const onText = (text: string): void => {
      shown += text;
      write(chunk(id, model, { content: text }, null));
    };
    const ending = gateway.answerOf(said.turnId);
    const stopWatching = gateway.watch(said.turnId, {
      canAnswer: false,
      onEvent: (event) => (event.type === "text" ? onText(event.text) : undefined),
    });
    const gone = new Promise<null>((resolve) => {
      stream.onAbort(() => resolve(null));
      closing.addEventListener("abort", () => setTimeout(() => resolve(null), 500), { once: true });
    });
    const answer = await Promise.race([ending, gone]);
    stopWatching();
    if (answer === null) return;
    if (isOnce) await gateway.park(said.sessionId);
    const problem = problemOf(answer);
    if (problem !== null) {
      await writing;
      await stream.writeSSE({ data: JSON.stringify(errorBody(problem)) });
      return;
    }
    if (!answer.silent && answer.text.startsWith(shown) && answer.text.length > shown.length)
      onText(answer.text.slice(shown.length));
    write(chunk(id, model, {}, "stop"));
    await writing;
    await stream.writeSSE({ data: "[DONE]" });
  });
}

function streamedText(
  context: Context<Env>,
  text: string,
  body: CompletionBody,
  gateway: Gateway,
  headers: Record<string, string>,
): Response {
  for (const [name, value] of Object.entries(headers)) context.header(name, value);
  const model = agentOf(body, gateway);
  return streamSSE(context, async (stream) => {
    await stream.writeSSE({ data: chunk("c", model, { role: "assistant", content: text }, null) });
    await stream.writeSSE({ data: chunk("c", model, {}, "stop") });
    await stream.writeSSE({ data: "[DONE]" });
  });
}
