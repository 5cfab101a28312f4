import { type Context, Hono } from "hono";
import { TertuliaError } from "../errors.ts";
import type { Gateway, Said, SayRequest } from "../gateway.ts";
import { cleanText } from "../message/source.ts";
import { deliveryText, renderNotice } from "../reply/render-notice.ts";
import { exceptSilence } from "../reply/silence.ts";
import { turnProblem } from "../reply/turn-problem.ts";
import type { TurnAnswer } from "../store/store.ts";
import { jsonBody } from "./body.ts";
import { CompletionBody, chunk, completion, historyOf, lastWords } from "./chat-completion.ts";
import { idempotencyKey, idempotencyOf, sha256 } from "./idempotency.ts";
import { type EventReader, sse } from "./sse.ts";
import { type Env, errorBody } from "./wire.ts";

/** The HTTP door: OpenAI's chat completions, where `model` is the agent and a conversation's history is the gateway's. */

const LONGEST_NAME = 512;

/** Words that were taken in, and what is needed to answer them. */
interface Exchange {
  readonly gateway: Gateway;
  readonly closing: AbortSignal;
  readonly id: string;
  readonly model: string;
  /** What is there at once: a command's answer, or what the message itself caused to be told (a reset, R5). */
  readonly reply: string;
  /** Null: the reply is all there is. */
  readonly turn: { readonly id: number; readonly parks: string | null } | null;
}

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
    for (const [header, value] of Object.entries(headersFor(said, name))) context.header(header, value);
    const parks = request.once === undefined ? null : said.sessionId;
    const exchange: Exchange = {
      gateway,
      closing,
      id: said.turnId === null ? `m${said.messageId}` : `t${said.turnId}`,
      model: request.agent,
      reply: said.kind === "command" ? renderNotice(said.reply) : said.told.map(deliveryText).join("\n"),
      turn: said.turnId === null ? null : { id: said.turnId, parks },
    };
    return body.stream ? sse(context, (reader) => stream(exchange, reader)) : whole(context, exchange);
  });
  return app;
}

/** The conversation by header, else by `user`; with neither, one without a name that the body's history seeds. */
function readRequest(
  context: Context<Env>,
  body: CompletionBody,
  gateway: Gateway,
): { request: SayRequest; name: string } {
  const person = context.get("caller");
  const agent = body.model ?? gateway.config.defaultAgent;
  if (gateway.config.agents[agent] === undefined)
    throw new TertuliaError("agent_unknown", `There is no agent ${JSON.stringify(agent.slice(0, 100))}.`);
  const text = lastWords(body);
  const key = idempotencyKey(context);
  const named = cleanText(decodeHeader(context.req.header("x-tertulia-conversation")) || body.user || "");
  if (named.length > LONGEST_NAME)
    throw new TertuliaError("request_invalid", `The conversation's name is longer than ${LONGEST_NAME} characters.`);
  if (named !== "") {
    const door = { platform: "http" as const, name: named };
    return { request: { person, agent, door, text, ...idempotencyOf(key, text) }, name: named };
  }
  // A retry must find its conversation again: its name comes from the key.
  const name = `once-${key === undefined ? crypto.randomUUID() : sha256(`${person.id}\n${key}`).slice(0, 32)}`;
  const history = historyOf(body).map((line) => ({ ...line, text: cleanText(line.text) }));
  const door = { platform: "http" as const, name };
  return { request: { person, agent, door, text, once: { history }, ...idempotencyOf(key, text, history) }, name };
}

/** Header bytes arrive as Latin-1; a name sent as UTF-8 is read as such. */
function decodeHeader(value: string | undefined): string {
  if (value === undefined) return "";
  const text = Buffer.from(value, "latin1").toString("utf8");
  return text.includes("\uFFFD") ? value : text;
}

function encodeHeader(value: string): string {
  return Buffer.from(value.replace(/[\t\n]/g, " "), "utf8").toString("latin1");
}

function headersFor(said: Said, name: string): Record<string, string> {
  return {
    "X-Tertulia-Conversation": encodeHeader(name),
    "X-Tertulia-Key": encodeHeader(said.key),
    "X-Tertulia-Message": String(said.messageId),
    ...(said.sessionId === null ? {} : { "X-Tertulia-Session": said.sessionId }),
    ...(said.turnId === null ? {} : { "X-Tertulia-Turn": String(said.turnId) }),
  };
}

async function whole(context: Context<Env>, exchange: Exchange): Promise<Response> {
  const answer = await answerOf(exchange);
  const problem = answer === null ? null : turnProblem(answer);
  if (answer !== null && problem !== null) {
    // Clients that try again by themselves would have the words run a second time.
    context.header("X-Should-Retry", "false");
    // A failed or interrupted turn is 502 whatever it failed of (T3).
    const status = answer.turn.state === "withdrawn" ? 409 : 502;
    return context.json({ ...errorBody(problem), partial: answer.text }, status);
  }
  if (answer?.silent) context.header("X-Tertulia-Silent", "true");
  return context.json(completion({ ...exchange, text: textOf(exchange, answer), usage: answer?.turn.usage ?? null }));
}

/** A client that goes away does not cancel the turn (O6). */
async function stream(exchange: Exchange, reader: EventReader): Promise<void> {
  let shown = "";
  const say = (text: string): void => {
    shown += text;
    reader.push(chunk(exchange, { content: text }, null));
  };
  reader.push(chunk(exchange, { role: "assistant", content: "" }, null));
  if (exchange.reply !== "") say(exchange.turn === null ? exchange.reply : `${exchange.reply}\n\n`);
  const stopWatching = watch(exchange, exceptSilence(say));
  reader.gone.addEventListener("abort", stopWatching, { once: true });
  const answer = await answerOf(exchange).finally(stopWatching);
  const problem = answer === null ? null : turnProblem(answer);
  if (problem !== null) {
    reader.push(JSON.stringify(errorBody(problem)));
    return;
  }
  const text = textOf(exchange, answer);
  if (text.startsWith(shown) && text.length > shown.length) say(text.slice(shown.length));
  reader.push(chunk(exchange, {}, "stop"));
  reader.push("[DONE]");
}

function watch({ gateway, turn }: Exchange, say: (text: string) => void): () => void {
  if (turn === null) return () => undefined;
  return gateway.watch(turn.id, {
    canAnswer: false,
    onEvent: (event) => (event.type === "text" ? say(event.text) : undefined),
  });
}

/** How the turn ended; null where there is none. Throws `gateway_stopping` when the server closes before that: the turn waits. */
async function answerOf({ gateway, closing, turn }: Exchange): Promise<TurnAnswer | null> {
  if (turn === null) return null;
  const closed = Promise.withResolvers<never>();
  const onClosing = (): void => closed.reject(stopping(turn.id));
  closing.addEventListener("abort", onClosing, { once: true });
  if (closing.aborted) onClosing();
  try {
    const answer = await Promise.race([gateway.answerOf(turn.id), closed.promise]);
    if (turn.parks !== null) await gateway.park(turn.parks);
    return answer;
  } finally {
    closing.removeEventListener("abort", onClosing);
  }
}

function stopping(turnId: number): TertuliaError {
  return new TertuliaError("gateway_stopping", `The gateway stops before turn ${turnId} was answered.`, {
    remedy: "It is answered when the gateway runs again: ask with the same Idempotency-Key, or read its session.",
  });
}

function textOf({ reply }: Exchange, answer: TurnAnswer | null): string {
  const text = answer === null || answer.silent ? "" : answer.text;
  return reply === "" || text === "" ? reply + text : `${reply}\n\n${text}`;
}
