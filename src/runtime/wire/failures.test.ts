import { describe, expect, test } from "vitest";
import {
  createMask,
  failureOf,
  isOverflow,
  nameOf,
  readRetryAfter,
  readServerError,
  type Scene,
  type Trouble,
  waitBeforeRetry,
} from "./failures.ts";

const SCENE: Scene = { where: "models.test", model: "m-1", localProgram: null, mask: createMask(["s3cret-key"]) };

const status = (code: number, body: unknown = {}, retryAfterMs: number | null = null): Trouble => ({
  type: "status",
  status: code,
  said: readServerError(body),
  retryAfterMs,
});
const error = (message: string, code?: string) => ({ error: { message, ...(code === undefined ? {} : { code }) } });

describe("what a server says, in its own form", () => {
  test.each<[string, number, unknown, ReturnType<typeof nameOf>]>([
    [
      "OpenAI",
      400,
      error("This model's maximum context length is 8192 tokens. However, …", "context_length_exceeded"),
      "overflow",
    ],
    ["OpenAI", 400, error("Your input exceeds the context window of this model."), "overflow"],
    ["Anthropic", 400, error("prompt is too long: 213462 tokens > 200000 maximum"), "overflow"],
    ["Anthropic", 400, error("input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000"), "overflow"],
    [
      "Google",
      400,
      [error("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).")],
      "overflow",
    ],
    [
      "llama.cpp",
      400,
      {
        error: {
          code: 400,
          message: "the request exceeds the available context size",
          type: "exceed_context_size_error",
        },
      },
      "overflow",
    ],
    ["Moonshot", 400, error("Invalid request: Your request exceeded model token limit: 8192"), "overflow"],
    ["Qwen", 400, error("Range of input length should be [1, 30720]"), "overflow"],
    ["a proxy", 413, "<html>", "overflow"],
    ["OpenAI", 401, error("Incorrect API key provided: sk-ab**cd.", "invalid_api_key"), "key-refused"],
    ["Google", 400, [error("API key not valid. Please pass a valid API key.")], "key-refused"],
    [
      "OpenAI",
      429,
      error("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota"),
      "no-credit",
    ],
    ["DeepSeek", 402, error("Insufficient Balance"), "no-credit"],
    ["OpenAI", 429, error("Rate limit reached for m-1 on tokens per min", "rate_limit_exceeded"), "rate-limited"],
    [
      "OpenAI",
      404,
      error("The model `m-2` does not exist or you do not have access to it.", "model_not_found"),
      "model-unknown",
    ],
    [
      "Ollama",
      404,
      { error: { message: 'model "m-2" not found, try pulling it first', type: "api_error" } },
      "model-unknown",
    ],
    ["OpenRouter", 400, error("m-2 is not a valid model ID"), "model-unknown"],
    ["vLLM", 404, { detail: "Not Found" }, "path-unknown"],
    ["a web page", 405, undefined, "path-unknown"],
    ["Azure", 400, error("The response was filtered", "content_filter"), "content-refused"],
    ["Anthropic", 529, error("Overloaded", "overloaded_error"), "server-busy"],
    ["a proxy", 502, "<html>", "server-busy"],
    ["vLLM", 400, error("roles must alternate user/assistant"), "request-refused"],
    ["vLLM", 422, { detail: "bad" }, "request-refused"],
  ])("%s, %i: %o", (_server, code, body, name) => {
    expect(nameOf(status(code, body))).toBe(name);
  });
});

describe("retries (DLV-02)", () => {
  const chance = (): number => 0.5;

  test("only what can pass by itself is tried again, twice at most, later each time", () => {
    for (const trouble of [
      status(429),
      status(500),
      status(503),
      status(408),
      { type: "connect", code: "ECONNREFUSED" } as const,
    ]) {
      expect([0, 1, 2].map((retries) => waitBeforeRetry(trouble, retries, chance))).toEqual([1_000, 4_000, null]);
    }
    const others: Trouble[] = [
      status(400),
      status(401),
      status(402),
      status(404),
      status(413),
      { type: "redirect", to: "" },
      { type: "silence", ms: 60_000 },
      { type: "cut" },
      { type: "no-stream", contentType: "text/html" },
      { type: "garbled" },
      { type: "tool-call", tool: "ls" },
      { type: "filtered" },
      { type: "no-room" },
      { type: "connect", code: "DEPTH_ZERO_SELF_SIGNED_CERT" },
    ];
    for (const trouble of others) expect(waitBeforeRetry(trouble, 0, chance)).toBeNull();
    expect(others.filter(isOverflow)).toEqual([status(413)]);
  });

  test("the server's own time is kept; a long one is not waited for", () => {
    expect(waitBeforeRetry(status(429, {}, 33_000), 0, chance)).toBe(33_000);
    expect(waitBeforeRetry(status(429, {}, 100), 0, chance)).toBe(1_000);
    expect(waitBeforeRetry(status(429, {}, 1_000_000), 0, chance)).toBeNull();
    expect(failureOf(status(429, {}, 1_000_000), SCENE)).toMatchObject({
      kind: "rate-limited",
      retryAfterMs: 1_000_000,
    });
    expect([0, 0.999].map((luck) => waitBeforeRetry(status(500), 0, () => luck))).toEqual([750, 1_250]);
  });

  test("retry-after is read as seconds, milliseconds or a date", () => {
    const now = Date.UTC(2026, 0, 1);
    const read = (headers: Record<string, string>) => readRetryAfter(new Headers(headers), now);
    expect(read({ "retry-after": "33" })).toBe(33_000);
    expect(read({ "retry-after": "1.5" })).toBe(1_500);
    expect(read({ "retry-after-ms": "250", "retry-after": "1" })).toBe(250);
    expect(read({ "retry-after": new Date(now + 5_000).toUTCString() })).toBe(5_000);
    expect(read({ "retry-after": new Date(now - 5_000).toUTCString() })).toBe(0);
    expect(read({ "retry-after": "soon" })).toBeNull();
    expect(read({})).toBeNull();
  });
});

test("E3: every failure says what to do next, and no key is in it", () => {
  const said = error("bad key s3cret-key, header Bearer abc.def, sk-proj-0123456789");
  for (const code of [302, 400, 401, 402, 403, 404, 413, 418, 429, 500]) {
    const { message } = failureOf(status(code, said), SCENE);
    expect(message).not.toMatch(/s3cret|abc\.def|0123456789/);
    expect(message).toMatch(/\. .+\.$/);
  }
  const { message } = failureOf(status(400, error("x\n# Heading\u202e")), SCENE);
  expect(message).toContain('"x # Heading"');
});

test("E3: a connection that fails is told by its cause", () => {
  const local: Scene = { ...SCENE, where: "127.0.0.1:11434", localProgram: "Ollama (`ollama serve`)" };
  const sentence = (code: string, scene = SCENE) => failureOf({ type: "connect", code }, scene).message;
  expect(sentence("ECONNREFUSED", local)).toBe(
    "Nothing answers at 127.0.0.1:11434 (ECONNREFUSED). Is Ollama (`ollama serve`) running?",
  );
  expect(sentence("ENOTFOUND")).toContain("cannot be found");
  expect(sentence("ERR_SSL_WRONG_VERSION_NUMBER")).toContain("http://");
  expect(sentence("DEPTH_ZERO_SELF_SIGNED_CERT")).toContain("NODE_EXTRA_CA_CERTS");
  expect(sentence("BAD_PORT")).toContain("another");
});
