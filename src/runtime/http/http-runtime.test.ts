import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { ask, openRequest, startSlow } from "../../../test/contract/runtime.contract.ts";
import {
  FAKE_MODEL,
  type FakeModel,
  type FakeReply,
  type FakeScript,
  type FakeStep,
  obeyWords,
  refuses,
  says,
  startFakeModel,
} from "../../../test/support/fake-model.ts";
import { createManualClock } from "../../../test/support/manual-clock.ts";
import { promptOf } from "../prompt.ts";
import type { AgentSession, Exchange, OpenRequest, Runtime, RuntimeFailure, TurnEvent } from "../runtime.ts";
import { createHttpRuntime, type HttpRuntimeOptions } from "./http-runtime.ts";

const IDLE_MS = 60_000;

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0)) await clean();
});

/** A clock that tells which waits were begun on it. */
function createWatchedClock() {
  const clock = createManualClock(1_700_000_000_000);
  const waits: number[] = [];
  return {
    waits,
    now: () => clock.now(),
    after(ms: number, call: () => void) {
      waits.push(ms);
      return clock.after(ms, call);
    },
    advance: (ms: number) => clock.advance(ms),
    get pending() {
      return clock.pending;
    },
  };
}

interface Stage {
  readonly clock: ReturnType<typeof createWatchedClock>;
  readonly model: FakeModel;
  readonly runtime: Runtime;
  open(more?: Partial<OpenRequest>): Promise<AgentSession>;
}

async function stage(script: FakeScript, more: Partial<HttpRuntimeOptions> = {}): Promise<Stage> {
  const clock = createWatchedClock();
  const model = await startFakeModel(script);
  const runtime = createHttpRuntime({
    name: "http",
    baseUrl: model.url,
    model: FAKE_MODEL,
    key: "k3y-of-the-owner",
    idleTimeoutMs: IDLE_MS,
    clock,
    chance: () => 0.5,
    ...more,
  });
  cleanups.push(async () => {
    await runtime.close();
    expect(clock.pending).toBe(0);
    await model.close();
  });
  return { clock, model, runtime, open: (request = {}) => runtime.open(openRequest(request)) };
}

/** What one turn comes to, with its events. */
async function answerOf(reply: FakeReply | readonly FakeReply[], more: Partial<HttpRuntimeOptions> = {}) {
  const set = await stage([reply].flat(), more);
  const events: TurnEvent[] = [];
  const result = await ask(await set.open(), "hi", { onEvent: (event) => void events.push(event) });
  return { ...set, result, events };
}

const streams = (...steps: readonly FakeStep[]): FakeReply => ({ steps });
const FINISH = [{ finish: "stop" }, { done: true }] as const;

async function until(isSo: () => boolean): Promise<void> {
  for (let i = 0; i < 100_000; i++) {
    if (isSo()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error("it did not come to that");
}

/** Lets the waits of a back-off pass as soon as they begin. */
async function throughWaits<T>(clock: Stage["clock"], waits: readonly number[], result: Promise<T>): Promise<T> {
  for (const ms of waits) {
    await until(() => clock.waits.at(-1) === ms);
    await clock.advance(ms - 1);
    await clock.advance(1);
  }
  return result;
}

describe("a whole answer", () => {
  test("O6: is streamed piece by piece, with thoughts and usage", async () => {
    const { result, events } = await answerOf(
      streams(
        { thought: "hm" },
        { thought: "ah", field: "reasoning" },
        { text: "Hello" },
        { text: ", world" },
        { finish: "stop" },
        { usage: { prompt_tokens: 20, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 16 } } },
        { done: true },
      ),
    );
    expect(events).toEqual([
      { type: "thought", text: "hm" },
      { type: "thought", text: "ah" },
      { type: "text", text: "Hello" },
      { type: "text", text: ", world" },
    ]);
    expect(result).toEqual({ outcome: "done", text: "Hello, world", usage: { input: 20, output: 4, cachedInput: 16 } });
  });

  test("what is asked: the model, the messages, a stream with usage, the key in its header", async () => {
    const { model } = await answerOf(says("ok"), { maxOutput: 500, headers: { "X-Title": "Tertulia" } });
    const [request] = model.requests;
    expect(request?.path).toBe("/v1/chat/completions");
    expect(request?.headers).toMatchObject({ authorization: "Bearer k3y-of-the-owner", "x-title": "Tertulia" });
    expect(request?.body).toEqual({
      model: FAKE_MODEL,
      messages: [
        { role: "system", content: "Source: CLI terminal" },
        { role: "user", content: "hi" },
      ],
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 500,
    });
  });

  test.each<[string, FakeReply, string]>([
    ["comments", streams({ comment: "keepalive" }, { text: "a" }, { comment: "x" }, { text: "b" }, ...FINISH), "ab"],
    [
      "events of the server's own",
      streams({ event: "hermes.tool.progress", data: '{"tool":"ls"' }, { text: "a" }, ...FINISH),
      "a",
    ],
    [
      "chunks without choices",
      streams({ chunk: { id: 1 } }, { chunk: { choices: [] } }, { text: "a" }, ...FINISH),
      "a",
    ],
    [
      "content in parts",
      streams({ chunk: deltaOf([{ type: "text", text: "a" }, { type: "thinking" }]) }, ...FINISH),
      "a",
    ],
    ["a refusal", streams({ chunk: { choices: [{ delta: { refusal: "I must not." } }] } }, ...FINISH), "I must not."],
    ["no content type", { ...streams({ text: "a" }, ...FINISH), contentType: null }, "a"],
    ["no [DONE]", streams({ text: "a" }, { finish: "stop" }), "a"],
    ["a cut after the finish reason", streams({ text: "a" }, { finish: "stop" }, { cut: true }), "a"],
    ["a finish reason of its own", streams({ text: "a" }, { finish: "eos" }), "a"],
    ["a usage of its own", streams({ text: "a" }, { usage: { tokens: "many" } }, ...FINISH), "a"],
    ["an open last line", streams({ text: "a" }, { raw: `data: ${JSON.stringify(deltaOf("b", "stop"))}` }), "ab"],
    ["nothing at all", streams(...FINISH), ""],
  ])("is heard with %s", async (_name, reply, text) => {
    const { result } = await answerOf(reply);
    expect(result).toMatchObject({ outcome: "done", text });
  });

  // The kind: everything that can stand in a stream of events and says nothing, and every shape of a chunk that says little.
  const line = (said: unknown): string => JSON.stringify(said);
  const HI = line(deltaOf("a"));
  const END = line(deltaOf("b", "stop"));
  test.each<[string, string]>([
    ["an event with empty data", `data:\n\ndata: ${HI}\n\ndata: \n\ndata: ${END}\n\n`],
    ["a data line without a colon", `data\n\ndata: ${HI}\n\ndata\ndata\n\ndata: ${END}\n\n`],
    ["empty data of an event with a name", `event: ping\ndata:\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["comments, ids and retry times", `:\n: hm\n\nid: 1\nretry: 5\n\ndata: ${HI}\n\nid\ndata: ${END}\n\n`],
    ["CRLF", `data:\r\n\r\ndata: ${HI}\r\n\r\ndata: ${END}\r\n\r\ndata: [DONE]\r\n\r\n`],
    ["CR", `data: ${HI}\r\rdata: ${END}\r\rdata: [DONE]\r\r`],
    ["no space behind the colon", `data:${HI}\n\ndata:${END}\n\ndata:[DONE]\n\n`],
    ["a byte order mark", `\uFEFFdata: ${HI}\n\ndata: ${END}\n\n`],
    ["JSON over several lines", `data: {"choices":\ndata: [{"delta":{"content":"a"}}]}\n\ndata: ${END}\n\n`],
    ["more lines between events", `\n\n\ndata: ${HI}\n\n\n\n\ndata: ${END}\n\n`],
    ["null, an empty object, an empty list", `data: null\n\ndata: {}\n\ndata: []\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["other values", `data: "ping"\n\ndata: 1\n\ndata: true\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["chunks in a list", `data: [${HI},${END}]\n\n`],
    ["usage alone", `data: {"usage":{"prompt_tokens":1}}\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["choices that are none", `data: {"choices":null}\n\ndata: {"choices":{}}\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["odd choices", `data: {"choices":[null]}\n\ndata: {"choices":[7]}\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["a null delta", `data: {"choices":[{"delta":null}]}\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["no delta", `data: {"choices":[{"index":0}]}\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["null content", `data: ${line(deltaOf(null))}\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    ["odd content", `data: ${line(deltaOf({ a: 1 }))}\n\ndata: ${line(deltaOf(7))}\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
    [
      "no error",
      `data: {"error":null,"choices":[]}\n\ndata: {"error":{},"choices":[]}\n\ndata: ${HI}\n\ndata: ${END}\n\n`,
    ],
    ["an odd reason", `data: {"choices":[{"delta":{"content":"a"},"finish_reason":7}]}\n\ndata: ${END}\n\n`],
    [
      "the message again at its end",
      `data: ${HI}\n\ndata: ${line(deltaOf("b"))}\n\ndata: ${line({ choices: [{ message: { content: "ab" }, finish_reason: "stop" }] })}\n\n`,
    ],
    [
      "the message in one piece",
      `data: ${line({ choices: [{ message: { content: "ab" }, finish_reason: "stop" }] })}\n\n`,
    ],
    [
      "texts in place of deltas",
      `data: {"choices":[{"text":"a"}]}\n\ndata: {"choices":[{"text":"b","finish_reason":"stop"}]}\n\n`,
    ],
    ["a word of its progress", `data: {"message":"loading"}\n\ndata: ${HI}\n\ndata: ${END}\n\n`],
  ])("F-MOD-01 O6: is heard with %s", async (_name, raw) => {
    const { result } = await answerOf(streams({ raw }));
    expect(result).toMatchObject({ outcome: "done", text: "ab" });
  });

  test("a character cut between two packets is whole", async () => {
    const bytes = new TextEncoder().encode(`data: ${JSON.stringify(deltaOf("😀 好"))}\n\n`);
    const cut = bytes.indexOf(0xf0) + 2;
    const gate = Promise.withResolvers<void>();
    const { clock, model, open } = await stage([
      streams({ raw: bytes.subarray(0, cut) }, { until: gate.promise }, { raw: bytes.subarray(cut) }, ...FINISH),
    ]);
    const result = ask(await open(), "hi");
    await model.arrived(0);
    // The first packet has been read when the next silence begins.
    await until(() => clock.waits.length >= 3);
    gate.resolve();
    expect((await result).text).toBe("😀 好");
  });

  test("after the finish reason a silent server is not waited for", async () => {
    const { clock, open } = await stage([streams({ text: "a" }, { finish: "stop" }, { stall: true })]);
    const result = ask(await open(), "hi");
    await until(() => clock.waits.at(-1) === 2_000);
    await clock.advance(2_000);
    expect(await result).toEqual({ outcome: "done", text: "a" });
  });

  test("B3: connections serve further turns", async () => {
    const { open, model } = await stage([says("ok")]);
    const session = await open();
    for (const turnId of [1, 2, 3, 4, 5, 6]) await ask(session, "hi", { turnId });
    // fetch opens a second one where the first is free a moment too late.
    expect(new Set(model.requests.map(({ fromPort }) => fromPort)).size).toBeLessThanOrEqual(2);
  });

  test("T9: the model's limit of output is marked below what it said", async () => {
    const { result, events } = await answerOf(streams({ text: "Once" }, { finish: "length" }, { done: true }));
    expect(result).toMatchObject({ outcome: "done", text: "Once\n\n[cut: the model reached its limit of output]" });
    expect(events.map((event) => (event.type === "text" ? event.text : "")).join("")).toBe(result.text);
  });
});

function deltaOf(content: unknown, finish: string | null = null): object {
  return { choices: [{ index: 0, delta: { content }, finish_reason: finish }] };
}

describe("E3: a failure is typed, keeps what was said, and says what to do", () => {
  test.each<[string, FakeReply, RuntimeFailure["kind"], string, RegExp]>([
    ["a cut without a finish reason", streams({ text: "half" }, { cut: true }), "truncated", "half", /ended before/],
    ["an end without a finish reason", streams({ text: "half" }), "truncated", "half", /ended before/],
    ["[DONE] without a finish reason", streams({ text: "half" }, { done: true }), "truncated", "half", /ended before/],
    [
      "a line cut in the middle",
      streams({ text: "half" }, { raw: 'data: {"choi' }),
      "truncated",
      "half",
      /ended before/,
    ],
    ["an empty body", streams(), "truncated", "", /ended before/],
    ["thoughts that leave no room", streams({ thought: "hm" }, { finish: "length" }), "truncated", "", /max_output/],
    [
      "a tool call",
      streams({ text: "I look" }, { tool: "ls" }, { finish: "tool_calls" }),
      "protocol",
      "I look",
      /\("ls"\).*Nothing was run/,
    ],
    ["a tool call by its finish reason", streams({ finish: "tool_calls" }), "protocol", "", /Nothing was run/],
    ["a filtered answer", streams({ text: "Well" }, { finish: "content_filter" }), "refused", "Well", /filter/],
    [
      "an error after words",
      streams({ text: "half" }, { chunk: { error: { message: "boom", code: 502 } } }),
      "unreachable",
      "half",
      /"boom"/,
    ],
    [
      "an error event after words",
      streams({ text: "half" }, { event: "error", data: '{"message":"boom"}' }),
      "unreachable",
      "half",
      /"boom"/,
    ],
    ["something that is no chunk", streams({ raw: "data: hello\n\n" }), "protocol", "", /no chat completion/],
    ["a web page", { body: "<html>" }, "protocol", "", /text\/html.*\/v1/],
    ["JSON instead of a stream", { body: { choices: [] } }, "protocol", "", /application\/json/],
    ["a wrong key", refuses(401, { message: "Incorrect API key: k3y-of-the-owner" }), "auth", "", /key/],
    ["a key without the right", refuses(403, { message: "no" }), "auth", "", /key/],
    ["no credit", refuses(402, { message: "Insufficient Balance" }), "auth", "", /credit/],
    ["a wrong path", { status: 404, body: "<html>" }, "unreachable", "", /\/v1/],
    ["an unknown model", refuses(404, { message: `model "${FAKE_MODEL}" not found` }), "refused", "", /doctor/],
    [
      "a request it does not take",
      refuses(400, { message: "roles must alternate; k3y-of-the-owner" }),
      "protocol",
      "",
      /roles must alternate/,
    ],
    ["a filtered request", refuses(400, { message: "no", code: "content_filter" }), "refused", "", /filter/],
    ["a long wait", refuses(429, { message: "slow down" }, { "retry-after": "1000" }), "rate-limited", "", /in 17 min/],
    [
      "a redirect",
      { status: 307, headers: { location: "https://u:pw@other.test/v1?key=abc" } },
      "unreachable",
      "",
      /"https:\/\/other\.test\/v1"/,
    ],
  ])("%s", async (_name, reply, kind, text, sentence) => {
    const { result, model } = await answerOf([reply, says("not asked for")]);
    expect(result).toMatchObject({ outcome: "failed", text, failure: { kind } });
    expect(result.failure?.message).toMatch(sentence);
    expect(JSON.stringify(result)).not.toMatch(/k3y-of-the-owner|pw|abc/);
    expect(model.requests).toHaveLength(1);
  });

  // The kind: every place and form in which a server puts an error into a stream that it has begun with 200.
  const LONG = "This model's maximum context length is 4096 tokens";
  const BOOM = "the GPU fell over";
  test.each<[string, object | string]>([
    ["nested", { error: { message: BOOM, type: "server_error" } }],
    ["nested, with a code of its own", { error: { message: BOOM, code: 1234 } }],
    ["nested twice", { error: { error: { message: BOOM } } }],
    ["as a string", { error: BOOM }],
    ["as a string beside its type", { error: BOOM, error_type: "generation" }],
    ["flat", { error_type: "generation", error_message: BOOM }],
    ["flat, with a code", { error_code: 17, error_msg: BOOM }],
    ["as an object", { object: "error", message: BOOM, type: "ServerError", param: null }],
    ["by its type", { type: "error", message: BOOM }],
    ["by its status", { status: "error", message: BOOM }],
    ["by its code", { code: "InternalError", message: BOOM, request_id: "1" }],
    ["as no success", { success: false, message: BOOM }],
    ["in the first choice", { choices: [{ error: { message: BOOM, code: 502 }, finish_reason: "error" }] }],
    ["in a choice as a string", { choices: [{ delta: { content: "" }, error: BOOM }] }],
    ["in a list", [{ error: { message: BOOM } }]],
    ["in a list of errors", { errors: [{ message: BOOM }] }],
    ["flat, in the other spelling", { errorCode: 17, errorMessage: BOOM }],
    ["under a capital", { Error: { Message: BOOM } }],
    ["as a list", { error: [{ message: BOOM }] }],
    ["as a list of strings", { error: [BOOM] }],
    ["as a number beside its words", { error: 5, message: BOOM }],
    ["beside a reason", { error: true, reason: BOOM }],
    ["as a code with other words", { code: 1234, msg: BOOM }],
    ["as a problem", { type: "about:blank", title: "Internal Server Error", status: 500, detail: BOOM }],
    ["as not ok", { ok: false, description: BOOM }],
    ["as its result", { choices: null, base_resp: { status_code: 1008, status_msg: BOOM } }],
    ["as a detail", { detail: BOOM }],
    ["as a list of details", { detail: [{ loc: ["body"], msg: BOOM }] }],
  ])("F-MOD-02 E3: an error in the stream, %s, is told in the server's words", async (_name, chunk) => {
    const { result } = await answerOf(streams({ text: "half" }, { chunk }));
    expect(result).toMatchObject({ outcome: "failed", text: "half" });
    expect(result.failure?.message).toContain(BOOM);
  });

  test.each<[string, object]>([
    ["nested", { error: { message: LONG } }],
    ["nested, as an error of its own", { error: { message: LONG, code: 500, type: "server_error" } }],
    ["flat", { error_type: "validation", error_message: "`inputs` tokens + `max_new_tokens` must be <= 4096" }],
    ["as an object", { object: "error", message: LONG, code: 400 }],
    ["as a string", { error: LONG }],
    ["by its code", { error: { code: "context_length_exceeded", message: "no" } }],
    ["in the first choice", { choices: [{ error: { message: LONG, code: 400 }, finish_reason: "error" }] }],
    ["of the provider behind it", { error: { message: "Provider returned error", metadata: { raw: LONG } } }],
    ["as a detail", { detail: LONG }],
  ])(
    "F-MOD-02 B5: a conversation that is too long, %s, is recognised as that, and sent shorter",
    async (_name, chunk) => {
      const { result } = await answerOf(streams({ chunk }));
      expect(result.failure?.kind).toBe("overflow");
      const { open, model } = await stage([streams({ chunk }), says("ok")]);
      const exchanges: Exchange[] = [{ turnId: 1, prompt: "hi", reply: "hello", mark: null }];
      expect(await ask(await open({ exchanges }), "and now?", { turnId: 2 })).toMatchObject({ text: "ok" });
      expect(model.requests[1]?.body.messages.length).toBeLessThan(model.requests[0]?.body.messages.length ?? 0);
    },
  );

  test.each<[string, object]>([
    ["a good code", { code: 0, message: "ok" }],
    ["a good status", { code: 200, message: "success", choices: [], usage: null }],
    ["no error, flat", { error_code: 0, error_msg: "", choices: [] }],
    ["a good result", { choices: [], base_resp: { status_code: 0, status_msg: "" } }],
    ["a name only", { id: "1", object: "chat.completion.chunk", status: "in_progress" }],
  ])("F-MOD-02 O6: an event with %s is no error", async (_name, chunk) => {
    const { result } = await answerOf(streams({ chunk }, { text: "whole" }, { chunk }, { finish: "stop" }));
    expect(result).toMatchObject({ outcome: "done", text: "whole" });
  });

  test("F-MOD-02 E3: an event `error` that is no JSON, or empty, is an error with what it says", async () => {
    const { result } = await answerOf(streams({ text: "half" }, { event: "error", data: BOOM }));
    expect(result.failure?.message).toContain(BOOM);
    const empty = await answerOf(streams({ text: "half" }, { event: "error", data: "" }));
    expect(empty.result).toMatchObject({ outcome: "failed", text: "half" });
  });

  // The kind: a server that never stops: words, thoughts, refusals, in pieces or in one, at once or with breaks.
  test.each<[string, (piece: string) => FakeStep, string, number]>([
    ["says", (text) => ({ text }), "fake-1 said more than 4,000,000 characters and was stopped.", 4_000_000],
    [
      "refuses",
      (refusal) => ({ chunk: { choices: [{ delta: { refusal } }] } }),
      "fake-1 said more than 4,000,000 characters and was stopped.",
      4_000_000,
    ],
    ["thinks", (thought) => ({ thought }), "fake-1 thought more than 40,000,000 characters and was stopped.", 0],
  ])(
    "F-SEC-04 B11: a model that %s without an end is stopped, and its beginning kept",
    async (_name, step, sentence, kept) => {
      const piece = "z".repeat(500_000);
      const steps = Array.from({ length: 100 }, () => step(piece));
      const { result, model } = await answerOf([streams(...steps, { stall: true }), says("not asked for")]);
      expect(result).toMatchObject({ outcome: "failed", failure: { kind: "truncated", message: sentence } });
      expect(result.text).toHaveLength(kept);
      await model.ended(0);
      expect(model.requests).toHaveLength(1);
    },
  );

  // The same behind the end of the answer: signs of life are no words, however many come.
  test.each<[string, FakeStep[], number]>([
    ["a finish reason", [], 2_000],
    ["[DONE]", [{ done: true }], 250],
  ])("F-SEC-04 T7: a server that never stops behind %s holds no answer back", async (_, end, mostMs) => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const comments: FakeStep[] = gates.flatMap(({ promise }) => [{ until: promise }, { comment: "keepalive" }]);
    const { clock, open, model } = await stage([
      streams({ text: "whole" }, { finish: "stop" }, ...end, ...comments, { stall: true }),
    ]);
    const result = ask(await open(), "hi");
    await until(() => clock.waits.at(-1) === mostMs);
    for (const gate of gates) {
      await clock.advance(mostMs / 2 - 1);
      const { length } = clock.waits;
      gate.resolve();
      await until(() => clock.waits.length > length);
    }
    await clock.advance(2);
    expect(await result).toMatchObject({ outcome: "done", text: "whole" });
    await model.ended(0);
  });

  test("silence is counted in bytes: a comment is a sign of life", async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const { clock, open, model } = await stage([
      streams(
        { text: "half" },
        { until: gates[0].promise },
        { comment: "keepalive" },
        { until: gates[1].promise },
        { comment: "x" },
        { stall: true },
      ),
    ]);
    const result = ask(await open(), "hi");
    await until(() => clock.waits.length === 3);
    for (const gate of gates) {
      await clock.advance(IDLE_MS - 1);
      const { length } = clock.waits;
      gate.resolve();
      await until(() => clock.waits.length > length);
    }
    await clock.advance(IDLE_MS);
    expect(await result).toMatchObject({ outcome: "failed", text: "half", failure: { kind: "stalled" } });
    await model.ended(0);
  });

  test("silence before the first byte is not waited for longer, nor tried again", async () => {
    const never = Promise.withResolvers<void>();
    const { clock, open, model } = await stage([streams({ until: never.promise })]);
    const result = ask(await open(), "hi");
    await model.arrived(0);
    await until(() => clock.waits.length === 2);
    await clock.advance(IDLE_MS);
    expect((await result).failure).toMatchObject({ kind: "stalled", message: expect.stringContaining("1 min") });
    expect(model.requests).toHaveLength(1);
  });

  test("the time a listener takes is no silence of the server", async () => {
    const { clock, open } = await stage([says("a", "b")]);
    const result = ask(await open(), "hi", { onEvent: () => clock.advance(IDLE_MS * 2) });
    expect(await result).toMatchObject({ outcome: "done", text: "ab" });
  });

  test("a listener that throws ends the turn, and the connection", async () => {
    const { open, model } = await stage([streams({ text: "a" }, { stall: true }), says("better")]);
    const session = await open();
    const boom = new Error("store gone");
    await expect(ask(session, "hi", { onEvent: () => Promise.reject(boom) })).rejects.toBe(boom);
    await model.ended(0);
    expect((await ask(session, "again", { turnId: 2 })).text).toBe("better");
  });
});

describe("retries", () => {
  test.each([429, 500, 503])("DLV-02: %i is tried again twice, later each time", async (status) => {
    const { clock, open, model } = await stage([refuses(status, "no"), refuses(status, "no"), says("at last")]);
    const result = await throughWaits(clock, [1_000, 4_000], ask(await open(), "hi"));
    expect(result).toMatchObject({ outcome: "done", text: "at last" });
    expect(model.requests).toHaveLength(3);
  });

  test("after the third try it fails", async () => {
    const { clock, open, model } = await stage([refuses(503, { message: "loading" })]);
    const result = await throughWaits(clock, [1_000, 4_000], ask(await open(), "hi"));
    expect(result.failure).toMatchObject({ kind: "unreachable", message: expect.stringContaining('"loading"') });
    expect(model.requests).toHaveLength(3);
  });

  test("DLV-02: not before the time the server asks for", async () => {
    const { clock, open, model } = await stage([refuses(429, "no", { "retry-after": "33" }), says("ok")]);
    const result = ask(await open(), "hi");
    await until(() => clock.waits.at(-1) === 33_000);
    await clock.advance(32_999);
    expect(model.requests).toHaveLength(1);
    await clock.advance(1);
    expect((await result).text).toBe("ok");
  });

  test("an error in the stream is tried again while no word was shown, thoughts or not", async () => {
    const busy = streams({ thought: "hm" }, { chunk: { error: { message: "overloaded", type: "overloaded_error" } } });
    const { clock, open } = await stage([busy, says("ok")]);
    expect((await throughWaits(clock, [1_000], ask(await open(), "hi"))).text).toBe("ok");
  });

  test("a connection that breaks before the answer begins is tried again", async () => {
    const { clock, open, model } = await stage(({ n }) =>
      n === 0 ? { status: 200, headers: { "content-length": "x" } } : says("ok"),
    );
    expect((await throughWaits(clock, [1_000], ask(await open(), "hi"))).text).toBe("ok");
    expect(model.requests).toHaveLength(2);
  });

  test("where nothing listens, the sentence says what may not be running", async () => {
    const probe = createServer();
    await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
    const { port } = probe.address() as { port: number };
    await new Promise((resolve) => probe.close(resolve));
    const { clock, open } = await stage([], { baseUrl: `http://127.0.0.1:${port}/v1` });
    const result = await throughWaits(clock, [1_000, 4_000], ask(await open(), "hi"));
    expect(result.failure).toEqual({
      kind: "unreachable",
      message: `Nothing answers at 127.0.0.1:${port} (ECONNREFUSED). Is the model server running?`,
    });
  });
});

describe("a field the server does not know", () => {
  test("is left out or renamed, once and for all sessions", async () => {
    const { open, model } = await stage(
      ({ body }) => {
        if (body.stream_options !== undefined)
          return refuses(400, { message: "Unrecognized request argument: stream_options" });
        if (body.max_tokens !== undefined) {
          return refuses(400, { message: "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead." });
        }
        return says("ok");
      },
      { maxOutput: 100 },
    );
    expect((await ask(await open(), "hi")).text).toBe("ok");
    expect((await ask(await open(), "hi")).text).toBe("ok");
    expect(model.requests).toHaveLength(4);
    expect(model.requests.at(-1)?.body).toMatchObject({ max_completion_tokens: 100 });
  });

  test("a refusal that names none of ours is a failure", async () => {
    const { result, model } = await answerOf(refuses(400, { message: "max_tokens must be positive" }));
    expect(result.failure?.kind).toBe("protocol");
    expect(model.requests).toHaveLength(1);
  });
});

describe("overflow", () => {
  const exchanges: readonly Exchange[] = Array.from({ length: 8 }, (_, at) => ({
    turnId: at + 1,
    prompt: `question ${at + 1} ${"?".repeat(300)}`,
    reply: `answer ${at + 1} ${".".repeat(300)}`,
    mark: null,
  }));
  const overflow = refuses(400, { message: "maximum context length is 900 tokens", code: "context_length_exceeded" });
  const window = { window: 4_000, maxOutput: 400 };

  test("one block is dropped, whole exchanges, and the turn goes on; the ref tells", async () => {
    const { open, model } = await stage([overflow, says("ok")], window);
    const session = await open({ exchanges });
    const { ref } = session;
    expect((await ask(session, "hi", { turnId: 9 })).text).toBe("ok");
    expect(session.ref).not.toBe(ref);
    expect(model.requests.map(({ body }) => body.messages.length)).toEqual([18, 10]);
    expect(model.requests[1]?.body.messages[1]?.content).toMatch(/^question 5 /);

    const again = await open({ exchanges, ref: session.ref });
    await ask(again, "hi", { turnId: 9 });
    expect(model.requests[2]?.raw).toBe(model.requests[1]?.raw);
  });

  test("a second one fails, and what was dropped stays dropped", async () => {
    const { open, model } = await stage([overflow, overflow, says("ok")], window);
    const session = await open({ exchanges });
    expect((await ask(session, "hi", { turnId: 9 })).failure?.kind).toBe("overflow");
    expect((await ask(session, "hi again", { turnId: 10 })).text).toBe("ok");
    expect(model.requests.map(({ body }) => body.messages.length)).toEqual([18, 10, 12]);
  });

  test("without a history there is nothing to drop", async () => {
    const { result, model } = await answerOf(overflow, window);
    expect(result.failure?.kind).toBe("overflow");
    expect(model.requests).toHaveLength(1);
  });
});

describe("the end of a turn from outside", () => {
  test("T7: a cancel ends it at once with what was said, and the server is left", async () => {
    const { open, model } = await stage(obeyWords);
    const session = await open();
    const slow = startSlow(session);
    await slow.heard;
    slow.cancel.abort();
    expect(await slow.result).toEqual({ outcome: "cancelled", text: "1" });
    await model.ended(0);
  });

  test("T7: a cancel ends a wait before a retry, and one for the first byte", async () => {
    const never = Promise.withResolvers<void>();
    const { clock, open, model } = await stage([refuses(503, "no"), streams({ until: never.promise })]);
    const session = await open();
    const first = startSlow(session, "hi");
    await until(() => clock.waits.at(-1) === 1_000);
    first.cancel.abort();
    expect(await first.result).toEqual({ outcome: "cancelled", text: "" });
    expect(clock.pending).toBe(0);

    const second = startSlow(session, "hi");
    await model.arrived(1);
    second.cancel.abort();
    expect(await second.result).toEqual({ outcome: "cancelled", text: "" });
    expect(clock.pending).toBe(0);
  });

  test("B8: closing the runtime ends the turns that run", async () => {
    const { open, model, runtime } = await stage(obeyWords);
    const slow = startSlow(await open());
    await slow.heard;
    await runtime.close();
    expect(await slow.result).toMatchObject({ outcome: "failed", text: "1", failure: { kind: "process-died" } });
    await model.ended(0);
  });
});

describe("the history", () => {
  const factsOf = (n: number): string => `--- facts ${n}\nSource: Telegram, at 10:0${n}\n--- end ${n}`;

  test("CTX-03: from turn to turn each request begins with the bytes of the one before; the stable part is first and unchanged", async () => {
    const { open, model } = await stage(obeyWords);
    const session = await open({ stablePart: "# Where you are\nYou are Nova." });
    for (const n of [1, 2, 3]) await ask(session, `say ${n}`, { turnId: n, facts: factsOf(n) });
    const bytes = model.requests.map(({ body }) => JSON.stringify(body.messages).slice(0, -1));
    const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
    for (const [at, text] of bytes.slice(1).entries()) {
      expect(hash(text.slice(0, bytes[at]?.length))).toBe(hash(bytes[at] ?? ""));
    }
    expect(model.requests.map(({ body }) => body.messages[0])).toEqual(
      Array(3).fill({ role: "system", content: "# Where you are\nYou are Nova." }),
    );
  });

  test("PER-03, RUN-08, B4: after every kind of ending it is well formed, and the same bytes when opened anew", async () => {
    const replies = [
      says("fine"),
      refuses(400, { message: "poisoned" }),
      streams({ text: "half" }, { cut: true }),
      streams({ text: "I look" }, { tool: "ls" }),
      says(" NO_REPLY\n"),
      streams(...FINISH),
      streams({ text: "long" }, { finish: "length" }),
      says("  padded  "),
      says("last"),
    ];
    const { open, model } = await stage(replies);
    const warm = await open();
    const exchanges: Exchange[] = [];
    for (const turnId of replies.keys()) {
      const input = { turnId: turnId + 1, facts: factsOf(turnId), text: `question ${turnId}`, missed: [] };
      const { outcome, text } = await ask(warm, input.text, input);
      // As the gateway stores it: an empty answer is a failure, silence has no text.
      const isEmpty = text.trim() === "";
      const reply = isEmpty || text.trim() === "NO_REPLY" ? null : text;
      exchanges.push({
        turnId: input.turnId,
        prompt: promptOf(input),
        reply,
        mark: outcome === "done" && !isEmpty ? null : "failed",
      });
    }
    const { ref } = warm;
    await ask(warm, "and now?", { turnId: 99 });
    const cold = await open({ exchanges, ref });
    expect(cold.how).toBe("resumed");
    await ask(cold, "and now?", { turnId: 99 });

    const [first, second] = model.requests.slice(-2);
    expect(second?.raw).toBe(first?.raw);
    expect(first?.body.messages.map(({ role }) => role).join()).toBe(`system${",user,assistant".repeat(9)},user`);
    expect(first?.raw).not.toContain("poisoned");
    const said = first?.body.messages.filter(({ role }) => role === "assistant").map(({ content }) => content);
    expect(said).toEqual([
      "fine",
      "[no answer was given]",
      "half\n[the answer was cut off here]",
      "I look\n[the answer was cut off here]",
      "NO_REPLY",
      "[no answer was given]",
      "long\n\n[cut: the model reached its limit of output]",
      "padded",
      "last",
    ]);
  });

  test("C1: seed lines of a conversation that is told whole come before the first turn", async () => {
    const { open, model } = await stage([says("ok")]);
    const session = await open({
      primer: {
        total: 2,
        lines: [
          { role: "user", text: "my parrot is called Kiwi" },
          { role: "assistant", text: "a fine name" },
        ],
      },
    });
    expect(session.how).toBe("primed");
    await ask(session, "what is it called?");
    expect(model.requests[0]?.body.messages.map(({ content }) => content).slice(1)).toEqual([
      "my parrot is called Kiwi",
      "a fine name",
      "what is it called?",
    ]);
  });

  test("the count of the server scales the estimate, and the ref keeps it", async () => {
    const counted = streams({ text: "ok" }, { finish: "stop" }, { usage: { prompt_tokens: 14 } }, { done: true });
    const { open } = await stage([counted]);
    const session = await open({ stablePart: "" });
    await ask(session, "x".repeat(70));
    expect(JSON.parse(session.ref)).toEqual({ after: null, ratio: 0.91 });
  });
});

describe("E2: a runtime that cannot work is not made, and the sentence holds no secret", () => {
  const make = (more: Partial<HttpRuntimeOptions>) => () =>
    createHttpRuntime({
      name: "nova",
      baseUrl: "http://127.0.0.1:1/v1",
      model: "m",
      idleTimeoutMs: IDLE_MS,
      clock: createManualClock(),
      chance: () => 0.5,
      ...more,
    });
  test.each<[string, Partial<HttpRuntimeOptions>, RegExp]>([
    ["an address of another kind", { baseUrl: "ftp://models.test" }, /http/],
    ["no address", { baseUrl: "models" }, /http/],
    ["a password in the address", { baseUrl: "https://u:s3cret@models.test/v1" }, /`key`/],
    ["the address of the completions", { baseUrl: "https://models.test/v1/chat/completions" }, /before/],
    ["a key with a line end", { key: "s3cret\n" }, /line end/],
    ["an empty key", { key: "" }, /key/],
    ["a header with a line end", { headers: { "x-key": "s3cret\n" } }, /x-key/],
    ["no model", { model: " " }, /model/],
    ["no room for a prompt", { window: 1_000, maxOutput: 800 }, /window \(1000\)/],
  ])("%s", (_name, more, sentence) => {
    expect(make(more)).toThrow(sentence);
    expect(make(more)).toThrow(
      expect.objectContaining({ code: "config_invalid", message: expect.not.stringContaining("s3cret") }),
    );
  });
});
