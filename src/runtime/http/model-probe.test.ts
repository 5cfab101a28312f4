import { createServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import {
  FAKE_MODEL,
  type FakeModel,
  type FakeModelOptions,
  type FakeReply,
  refuses,
  startFakeModel,
} from "../../../test/support/fake-model.ts";
import { createManualClock } from "../../../test/support/manual-clock.ts";
import { systemClock } from "../../util/clock.ts";
import { createHttpRuntime, type HttpRuntimeOptions } from "./http-runtime.ts";

const models: FakeModel[] = [];
afterEach(async () => {
  for (const model of models.splice(0)) await model.close();
});

async function server(get?: FakeModelOptions["get"]): Promise<FakeModel> {
  const model = await startFakeModel([], get === undefined ? {} : { get });
  models.push(model);
  return model;
}

function probe(more: Partial<HttpRuntimeOptions> & { baseUrl: string }, signal = new AbortController().signal) {
  const settings = { name: "http", model: FAKE_MODEL, idleTimeoutMs: 60_000, clock: systemClock, chance: () => 0.5 };
  return createHttpRuntime({ ...settings, ...more }).probe(signal);
}

const listOf = (...ids: string[]): FakeReply => ({ body: { data: ids.map((id) => ({ id })) } });

test("E3: a model that is there is said to be there", async () => {
  const { url, port } = await server();
  expect(await probe({ baseUrl: url })).toEqual({ ok: true, detail: `127.0.0.1:${port} has the model ${FAKE_MODEL}.` });
  expect(await probe({ baseUrl: `${url}/` })).toMatchObject({ ok: true });
});

test.each([
  ["qwen3", "qwen3:latest"],
  ["gemini-x", "models/gemini-x"],
  ["models/gemini-x", "gemini-x"],
])("E3: %s is listed as %s", async (model, listed) => {
  const { url } = await server(() => listOf("other", listed));
  expect(await probe({ baseUrl: url, model })).toMatchObject({ ok: true });
});

test("E3: an unknown model is told with the nearest names", async () => {
  const { url } = await server(() => listOf("llama3.2:3b", "qwen3:8b", "qwen3:14b", "mistral", "gemma"));
  expect((await probe({ baseUrl: url, model: "qwen-3:8b" })).detail).toMatch(
    /does not have the model qwen-3:8b\. The nearest it has: "qwen3:8b", "qwen3:14b", /,
  );
  const empty = await server(() => listOf());
  expect((await probe({ baseUrl: empty.url })).detail).toContain("no model");
});

test.each<[string, Partial<HttpRuntimeOptions>, FakeReply, RegExp]>([
  ["a wrong key", { key: "s3cret-key" }, refuses(401, "bad s3cret-key"), /refuses the key/],
  ["no key", {}, refuses(401, "who?"), /wants a key.*`key: \$\{NAME\}`/],
  ["a busy server", {}, refuses(503, { message: "loading model" }), /"loading model"/],
  ["no list", {}, refuses(404, "not found"), /no list of models.*\/v1/],
  ["a web page", {}, { body: "<html>" }, /not with a list of models.*\/v1/],
])("E3: %s is told, with the remedy and without the key", async (_name, more, reply, sentence) => {
  const { url } = await server(() => reply);
  const result = await probe({ baseUrl: url, ...more });
  expect(result).toMatchObject({ ok: false, detail: expect.stringMatching(sentence) });
  expect(result.detail).not.toContain("s3cret");
});

test.each([
  ["a page of the server's own", { body: "Ollama is running" }],
  ["nothing", refuses(404, "not found")],
])("E3: where /v1 is missing and there is %s, that is said", async (_name, other) => {
  const { port } = await server((path) => (path === "/v1/models" ? listOf(FAKE_MODEL) : other));
  const { ok, detail } = await probe({ baseUrl: `http://127.0.0.1:${port}/` });
  expect(ok).toBe(false);
  expect(detail).toBe(`There is nothing at this address, but there is at 127.0.0.1:${port}/v1: base_url lacks /v1.`);
});

test("E3: where nothing listens, it asks whether the program runs", async () => {
  const listener = createServer();
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as { port: number };
  await new Promise((resolve) => listener.close(resolve));
  expect(await probe({ baseUrl: `http://127.0.0.1:${port}/v1` })).toEqual({
    ok: false,
    detail: `Nothing answers at 127.0.0.1:${port} (ECONNREFUSED). Is the model server running?`,
  });
});

test("E3: a server that does not answer is waited for 5 s, an aborted probe not at all", async () => {
  const silent: { stall: true }[] = [{ stall: true }];
  const { url, asked } = await silentServer(silent);
  const clock = createManualClock();
  const waiting = probe({ baseUrl: url, clock });
  await asked;
  await clock.advance(5_000);
  expect((await waiting).detail).toContain("within 5 s");
  expect(clock.pending).toBe(0);
  expect(await probe({ baseUrl: url }, AbortSignal.abort())).toMatchObject({ ok: false });
});

async function silentServer(steps: FakeReply["steps"] & object) {
  const asked = Promise.withResolvers<void>();
  const { url } = await server(() => {
    asked.resolve();
    return { steps };
  });
  return { url, asked: asked.promise };
}
