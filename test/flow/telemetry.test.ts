import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { httpStory } from "../support/http-stage.ts";
import { openPushStage, type PushStage } from "../support/push-stage.ts";
import { type RecordedSpan, recordSpans } from "../support/span-recorder.ts";

const LINE_FIELDS = [
  "turn",
  "session",
  "conversation",
  "outcome",
  "queuedMs",
  "firstTokenMs",
  "totalMs",
  "cold",
  "runtime",
];
const SECRET = "sk-test-ABCDEFGHIJKLMNOPQRSTUVWX123456";

type Line = Readonly<Record<string, unknown>>;

/** A gateway with a push door, the clock in hand, and everything that it logs. */
describe("telemetry", () => {
  let stage: PushStage;
  let logged: Line[];

  beforeEach(async () => {
    logged = [];
    const note = (fields: object, message: string): void => void logged.push({ ...fields, message });
    stage = await openPushStage({ log: { info: note, warn: note, error: note }, chance: 0 });
  });
  afterEach(() => stage.end());

  const turnLines = (): Line[] => logged.filter((line) => line.message === "turn ended");
  const untilTurns = (count: number): Promise<void> => stage.until(() => turnLines().length === count);
  const metrics = async (): Promise<string> => (await stage.gateway.telemetry.metrics()).text;

  test("one line is logged per turn: its ids, its outcome and its times, and nothing else", async () => {
    const { bot, clock, gateway, until } = stage;
    await bot.says("slow 3");
    await until(() => gateway.turns.begun.length === 1);
    await bot.says("say second", { rules: { busyMode: "queue" } });
    for (let step = 0; step < 5; step++) await clock.advance(100);
    await untilTurns(2);
    const [first, second] = turnLines();
    expect(Object.keys(first!).sort()).toEqual([...LINE_FIELDS, "message"].sort());
    expect(first).toMatchObject({ outcome: "answered", queuedMs: 0, firstTokenMs: 0, cold: true, runtime: "demo" });
    expect(first!.totalMs).toBeGreaterThanOrEqual(200);
    expect(second).toMatchObject({ outcome: "answered", cold: false, session: first!.session });
    expect(second!.queuedMs).toBeGreaterThan(0);
    const spent = Number(second!.queuedMs) + Number(second!.firstTokenMs);
    expect(second!.totalMs).toBeGreaterThanOrEqual(spent);
  });

  test("each way a turn can end is an outcome of its own", async () => {
    const { bot, gateway, until } = stage;
    await bot.says("say hello");
    await untilTurns(1);
    await bot.says("say NO_REPLY");
    await untilTurns(2);
    await bot.says("fail");
    await untilTurns(3);
    await bot.says("slow 100");
    await until(() => gateway.turns.begun.length === 1);
    await bot.says("say waits", { rules: { busyMode: "queue" } });
    await bot.resets();
    await untilTurns(5);
    expect(turnLines().map((line) => line.outcome)).toEqual([
      "answered",
      "silent",
      "failed",
      "interrupted",
      "withdrawn",
    ]);
    const text = await metrics();
    for (const outcome of ["answered", "silent", "failed", "interrupted", "withdrawn"])
      expect(text).toContain(`tertulia_turns_total{outcome="${outcome}"} 1\n`);
    expect(text).toContain('tertulia_session_resets_total{reason="new"} 1\n');
    expect(text).toContain('tertulia_cold_starts_total{how="created"}');
  });

  test("the depth of the queue, running turns and warm handles are those of the moment", async () => {
    const { bot, gateway, until } = stage;
    await bot.says("slow 100");
    await until(() => gateway.turns.begun.length === 1);
    await bot.says("say one", { rules: { busyMode: "queue" } });
    await bot.says("say two", { rules: { busyMode: "queue" } });
    const text = await metrics();
    expect(text).toContain("tertulia_queue_depth 2\n");
    expect(text).toContain("tertulia_running_turns 1\n");
    expect(text).toContain("tertulia_warm_handles 1\n");
    expect(text).toContain('tertulia_handles{state="busy"} 1\n');
  });

  test("O1 deliveries are counted by their result, and put off ones by the cause", async () => {
    const { bot, clock, until } = stage;
    bot.answers.push({ kind: "retry", reason: "500" }, { kind: "offline", reason: "no link" });
    await bot.says("say hello");
    await until(() => bot.attempts === 1);
    await clock.advance(5_000);
    await until(() => bot.attempts === 2);
    await clock.advance(5_000);
    await until(() => bot.sent.length === 1);
    await until(async () => (await metrics()).includes('deliveries_total{platform="telegram",result="delivered"} 1'));
    const text = await metrics();
    expect(text).toContain('tertulia_delivery_retries_total{platform="telegram",cause="failed"} 1\n');
    expect(text).toContain('tertulia_delivery_retries_total{platform="telegram",cause="offline"} 1\n');
    expect(text).toContain("tertulia_open_deliveries 0\n");
  });

  test("that it measures makes nobody a watcher: words are not marked as shown for it", async () => {
    const { bot, gateway } = stage;
    expect(gateway.events.isHeard).toBe(false);
    await bot.says("say hello");
    await untilTurns(1);
    const turn = await gateway.reader.turn(Number(turnLines()[0]!.turn));
    expect(turn?.effects).toBe("none");
  });

  describe("with a tracer provider", () => {
    let recorder: ReturnType<typeof recordSpans>;
    beforeEach(() => {
      recorder = recordSpans();
    });
    afterEach(() => recorder.stop());

    const named = (name: string): RecordedSpan[] => recorder.spans.filter((span) => span.name === name);

    test("a turn is a span with what it passed as its children, in their order and within its time", async () => {
      const { bot, clock, gateway, until } = stage;
      await bot.says("slow 3");
      await until(() => gateway.turns.begun.length === 1);
      for (let step = 0; step < 5; step++) await clock.advance(100);
      await until(() => named("deliver").length === 1);
      const [turn] = named("tertulia.turn");
      const children = recorder.spans.filter((span) => span.parentId === turn!.id);
      expect(children.map((span) => span.name)).toEqual(["admit", "begin", "open", "prompt", "settle", "deliver"]);
      expect(recorder.spans).toHaveLength(7);
      expect(turn).toMatchObject({ parentId: null, status: null });
      for (const child of children) {
        expect(child.traceId).toBe(turn!.traceId);
        expect(child.startAt).toBeGreaterThanOrEqual(turn!.startAt);
        expect(child.endAt).toBeGreaterThanOrEqual(child.startAt);
      }
      const [prompt] = named("prompt");
      expect(prompt!.endAt - prompt!.startAt).toBeGreaterThanOrEqual(200);
      expect(prompt!.events).toEqual([{ name: "first token", at: prompt!.startAt }]);
      expect(turn!.attributes).toEqual({
        "tertulia.turn.id": expect.any(Number),
        "tertulia.session.id": expect.any(String),
        "tertulia.conversation.id": expect.any(Number),
        "tertulia.outcome": "answered",
        "tertulia.runtime": "demo",
        "tertulia.cold": true,
      });
    });

    test("O1 each part of a reply is delivered in a span of its own, however often it was tried", async () => {
      const { bot, clock, until } = stage;
      bot.answers.push({ kind: "retry", reason: "500" });
      await bot.says(`say ${"many words ".repeat(700)}`);
      await until(() => bot.attempts === 1);
      await clock.advance(5_000);
      await until(() => named("deliver").length === 2);
      expect(named("deliver").map(({ attributes }) => attributes)).toEqual([
        expect.objectContaining({ "tertulia.delivery.part": 0, "tertulia.delivery.attempt": 2 }),
        expect.objectContaining({ "tertulia.delivery.part": 1, "tertulia.delivery.attempt": 1 }),
      ]);
    });

    test("B5 an agent that is opened anew is asked in spans of its own", async () => {
      const { bot } = stage;
      await bot.says("gone");
      await untilTurns(1);
      expect(named("open")).toHaveLength(2);
      expect(named("prompt")).toHaveLength(2);
      expect(named("tertulia.turn")[0]!.status).toMatchObject({ code: 2 });
      expect(turnLines()[0]).toMatchObject({ outcome: "failed", cold: true });
    });

    test("S5 no words, names, keys or secrets are in spans, metrics or log lines", async () => {
      const { bot, until } = stage;
      await bot.says(`say the password of Ann is ${SECRET}`);
      await until(() => named("deliver").length === 1);
      await bot.says("fail");
      await untilTurns(2);
      const told = JSON.stringify([recorder.spans, turnLines(), await metrics()]);
      for (const word of [SECRET, "password", "Ann", "agent:", "telegram:dm", "/7/"]) expect(told).not.toContain(word);
    });
  });
});

describe("GET /metrics", () => {
  test(
    "tells what was played, in Prometheus' text format",
    httpStory(async (stage) => {
      const client = stage.client();
      const ask = (content: string) =>
        client.chat.completions.create({ model: "main", messages: [{ role: "user", content }] });
      await ask("say hello");
      await ask("say NO_REPLY");
      await expect(ask("fail")).rejects.toThrow();
      const reply = await stage.call({ path: "/metrics" });
      expect(reply.status).toBe(200);
      expect(reply.headers["content-type"]).toMatch(/^text\/plain; version=0\.0\.4/);
      for (const outcome of ["answered", "silent", "failed"])
        expect(reply.text).toContain(`tertulia_turns_total{outcome="${outcome}"} 1\n`);
      expect(reply.text).toContain("tertulia_turn_seconds_count 3\n");
      expect(reply.text).toContain("tertulia_queue_depth 0\n");
      expect(stage.log.filter(({ line }) => line.includes("turn ended"))).toHaveLength(3);
      // Every line is a comment, a sample, or empty.
      for (const line of reply.text.split("\n"))
        expect(line).toMatch(/^$|^# (HELP|TYPE) tertulia_\w+ .+$|^tertulia_\w+(\{[^}]*\})? [-+\d.eInfNa]+$/);
    }),
  );

  test(
    "A4 is for the owner: members are refused, and what comes through a proxy needs a token",
    httpStory(
      async (stage) => {
        const get = (call: object) => stage.call({ path: "/metrics", ...call });
        expect((await get({ token: "a-token-of-bob-0123456789" })).status).toBe(403);
        expect((await get({ headers: { "x-forwarded-for": "10.0.0.1" } })).status).toBe(401);
        expect((await get({ headers: { "x-forwarded-for": "10.0.0.1" }, token: stage.ownerToken })).status).toBe(200);
      },
      { people: { bob: { tokens: ["a-token-of-bob-0123456789"] } } },
    ),
  );

  // Of the kind: whose work it was, at which door, what it cost, and who may read that; labels are names of the configuration, and few.
  test(
    "F-OPS-03 A11: turns and tokens are told by agent, runtime and door, and strangers choose no label",
    httpStory(
      async (stage) => {
        const ask = (model: string, content: string) =>
          stage
            .client()
            .chat.completions.create({ model, user: `somebody's "name"\n`, messages: [{ role: "user", content }] });
        await ask("main", "say hello");
        await ask("other", "say hello");
        await ask("other", "say hello");
        await expect(ask("other", "fail")).rejects.toThrow();
        const { text } = await stage.call({ path: "/metrics" });
        const of = (agent: string, runtime: string) => `agent="${agent}",runtime="${runtime}",door="http"`;
        expect(text).toContain(`tertulia_agent_turns_total{${of("main", "demo")},outcome="answered"} 1\n`);
        expect(text).toContain(`tertulia_agent_turns_total{${of("other", "second")},outcome="answered"} 2\n`);
        expect(text).toContain(`tertulia_agent_turns_total{${of("other", "second")},outcome="failed"} 1\n`);
        for (const kind of ["input", "output"])
          expect(text).toMatch(new RegExp(`tertulia_tokens_total\\{${of("main", "demo")},kind="${kind}"\\} [1-9]`));
        expect(text).not.toContain("somebody");
      },
      {
        runtimes: { second: { kind: "demo" } },
        agents: { main: { runtime: { kind: "demo" } }, other: { runtime: "second" } },
      },
    ),
  );

  test(
    "F-OPS-03 A11: a scraper's token reads the metrics and nothing else, wherever it stands",
    httpStory(
      async (stage) => {
        const token = "a-scraper-reads-this";
        const local = await stage.call({ path: "/metrics", token });
        const far = await stage.call({
          path: "/metrics",
          headers: { "x-api-key": token, "x-forwarded-for": "10.0.0.1" },
        });
        expect([local.status, far.status]).toEqual([200, 200]);
        for (const path of ["/api/whoami", "/api/sessions", "/api/events", "/v1/models", "/api/status", "/metrics/x"])
          expect([path, (await stage.call({ path, token })).status]).toEqual([path, 403]);
        const body = { messages: [{ role: "user", content: "hello" }] };
        expect((await stage.call({ path: "/v1/chat/completions", token, body })).status).toBe(403);
        expect((await stage.gateway.reader.counts()).messages).toBe(0);
      },
      { metrics: { token: "a-scraper-reads-this" } },
    ),
  );
});
