import { type Context, Hono } from "hono";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { Said, SayRequest } from "../../intake/local-doors.ts";
import { ownDoorOf } from "../../intake/local-doors.ts";
import { cleanText } from "../../message/source.ts";
import type { TurnAnswer } from "../../store/readers.ts";
import { deliveryText, renderNotice } from "../../text/render-notice.ts";
import { exceptSilence } from "../../text/silence.ts";
import { turnProblem } from "../../turn/turn-problem.ts";
import { tooLarge } from "../bodies.ts";
import { BODY_LIMIT, sizedBody } from "../body.ts";
import {
  CompletionBody,
  chunk,
  completion,
  historyOf,
  instructionsOf,
  lastWords,
  usageChunk,
} from "../chat-completion.ts";
import { nameOf, readHeader, writeHeader } from "../conversation-name.ts";
import { idempotencyKey, idempotencyOf, sha256 } from "../idempotency.ts";
import { Repeats } from "../repeats.ts";
import { type EventReader, sse } from "../sse.ts";
import { asErrorOf, type Env, errorBody, UNANSWERED } from "../wire.ts";

/** The HTTP door: OpenAI's chat completions, where `model` is the agent and a conversation's history is the gateway's. */

const LONGEST_NAME = 512;
/** With the older messages, which clients send along and nobody reads where the conversation has a name. */
const WHOLE_LIMIT = 32_000_000;
/** More of a system message is not kept; the agent is told less. */
const INSTRUCTIONS_KEPT = 16_000;

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

/** What is said at this door. */
type Asked = SayRequest & { readonly door: { readonly platform: "http"; readonly name: string } };

export interface CompletionsOptions {
  readonly gateway: Gateway;
  readonly closing: AbortSignal;
  readonly startedAt: number;
}

export function completions({ gateway, closing, startedAt }: CompletionsOptions): Hono<Env> {
  const app = new Hono<Env>();
  const repeats = new Repeats({ startedAt });
  app.get("/models", (context) =>
    context.json({ object: "list", data: Object.keys(gateway.config.agents).map(modelOf) }),
  );
  app.get("/models/:agent", (context) => context.json(modelOf(agentNamed(gateway, context.req.param("agent")))));
  app.post("/chat/completions", async (context) => {
    const { data: body, bytes } = await sizedBody(context, CompletionBody, WHOLE_LIMIT);
    const request = readRequest(context, body, gateway);
    requireSize(body, bytes, request);
    const said = await take(context, request);
    for (const [header, value] of Object.entries(headersFor(said, request))) context.header(header, value);
    const exchange: Exchange = {
      gateway,
      closing,
      id: said.turnId === null ? `m${said.messageId}` : `t${said.turnId}`,
      model: request.agent,
      reply: said.kind === "command" ? renderNotice(said.reply) : said.told.map(deliveryText).join("\n"),
      turn:
        said.turnId === null ? null : { id: said.turnId, parks: request.once === undefined ? null : said.sessionId },
    };
    if (!body.stream) return whole(context, exchange);
    return sse(context, (reader) => stream(exchange, reader, body.stream_options?.include_usage === true));
  });
  return app;

  /** Under a key the store knows a repeat; without one only the client does (T3). */
  function take(context: Context<Env>, request: SayRequest): Promise<Said> {
    if (request.idempotency !== undefined) return gateway.doors.say(request);
    const { person, agent, door, text, once, instructions } = request;
    const place = once === undefined ? door : once.history;
    const bodyHash = sha256(JSON.stringify([agent, place, text, instructions]));
    // No header can hold it: it is never somebody's own key.
    const key = `\n${bodyHash}`;
    return repeats.take({
      mark: `${person.id}\n${bodyHash}`,
      isRepeat: Number(context.req.header("x-stainless-retry-count")) > 0,
      response: context.env.outgoing,
      say: () => gateway.doors.say({ ...request, idempotency: { key, bodyHash, isReused: true } }),
      recall: async () => {
        const found = await gateway.doors.saidUnder(person.id, key);
        return found !== null && (await wasCutByEnd(found)) ? found : null;
      },
    });
  }

  /** The gateway before this one was killed while the turn was open. */
  async function wasCutByEnd({ turnId }: Said): Promise<boolean> {
    const turn = turnId === null ? null : await gateway.reader.turn(turnId);
    if (turn === null || turn.admittedAt >= startedAt) return false;
    return turn.settledAt === null || turn.settledAt >= startedAt;
  }
}

function modelOf(agent: string): object {
  return { id: agent, object: "model", created: 0, owned_by: "tertulia" };
}

function agentNamed({ config }: Gateway, agent: string): string {
  if (Object.hasOwn(config.agents, agent)) return agent;
  throw new TertuliaError("agent_unknown", `There is no agent ${JSON.stringify(agent.slice(0, 100))}.`);
}

/** The conversation by header, else by `user`; with neither, one without a name that the body's history seeds. */
function readRequest(context: Context<Env>, body: CompletionBody, gateway: Gateway): Asked {
  const person = context.get("caller");
  const agent = agentNamed(gateway, body.model ?? gateway.config.defaultAgent);
  const text = lastWords(body);
  const key = idempotencyKey(context);
  const named = nameOf(readHeader(context.req.header("x-tertulia-conversation")) || body.user || "");
  if (named.length > LONGEST_NAME)
    throw new TertuliaError("request_invalid", `The conversation's name is longer than ${LONGEST_NAME} characters.`);
  if (named !== "") {
    const door = { platform: "http" as const, name: named };
    return { person, agent, door, text, ...instructionsIn(body, gateway), ...idempotencyOf(key, text) };
  }
  // A retry must find its conversation again: its name comes from the key.
  const name = `once-${key === undefined ? crypto.randomUUID() : sha256(`${person.id}\n${key}`).slice(0, 32)}`;
  const history = historyOf(body).map((line) => ({ ...line, text: cleanText(line.text) }));
  const door = { platform: "http" as const, name };
  return { person, agent, door, text, once: { history }, ...idempotencyOf(key, text, history) };
}

/** Throws `request_invalid` where the owner does not want them. */
function instructionsIn(body: CompletionBody, { config }: Gateway): Pick<SayRequest, "instructions"> {
  const instructions = instructionsOf(body).slice(0, INSTRUCTIONS_KEPT);
  if (instructions === "") return {};
  if (config.http.systemMessages === "give") return { instructions };
  throw new TertuliaError("request_invalid", "A conversation with a name takes no system message here.", {
    remedy: "Leave it out; the owner gives instructions in the configuration (`prompt`, http.system_messages).",
  });
}

/** In a conversation with a name the older messages do not count: they are not read. */
function requireSize(body: CompletionBody, bytes: number, { once }: SayRequest): void {
  const isAllRead = once !== undefined || body.messages.length === 1;
  const read = isAllRead ? bytes : Buffer.byteLength(JSON.stringify({ ...body, messages: body.messages.slice(-1) }));
  if (read > BODY_LIMIT) throw tooLarge(BODY_LIMIT);
}

function headersFor({ key, messageId, sessionId, turnId }: Said, { door }: Asked): Record<string, string> {
  return {
    "X-Tertulia-Conversation": writeHeader(ownDoorOf(key)?.name ?? door.name),
    "X-Tertulia-Key": writeHeader(key),
    "X-Tertulia-Message": String(messageId),
    ...(sessionId === null ? {} : { "X-Tertulia-Session": sessionId }),
    ...(turnId === null ? {} : { "X-Tertulia-Turn": String(turnId) }),
  };
}

async function whole(context: Context<Env>, exchange: Exchange): Promise<Response> {
  const unanswered = (error: TertuliaError, more: object = {}): Response => {
    context.header("X-Should-Retry", "false");
    return context.json({ ...errorBody(error), ...more }, UNANSWERED);
  };
  let answer: TurnAnswer | null;
  try {
    answer = await answerOf(exchange);
  } catch (cause) {
    // The words are in: whatever keeps the answer back, they are not to be sent a second time.
    return unanswered(asErrorOf(context, cause));
  }
  const problem = answer === null ? null : turnProblem(answer);
  if (answer !== null && problem !== null) return unanswered(problem, { partial: answer.text });
  if (answer?.silent) context.header("X-Tertulia-Silent", "true");
  return context.json(completion({ ...exchange, text: textOf(exchange, answer), usage: answer?.turn.usage ?? null }));
}

/** A client that goes away does not cancel the turn (O6). */
async function stream(exchange: Exchange, reader: EventReader, withUsage: boolean): Promise<void> {
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
  if (withUsage) reader.push(usageChunk(exchange, answer?.turn.usage ?? null));
  reader.push("[DONE]");
}

function watch({ gateway, turn }: Exchange, say: (text: string) => void): () => void {
  if (turn === null) return () => undefined;
  return gateway.turns.watch(turn.id, {
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
    const answer = await Promise.race([gateway.turns.answerOf(turn.id), closed.promise]);
    if (turn.parks !== null) await gateway.pool.drop(turn.parks);
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
