import { afterEach, describe, expect, test } from "vitest";
import { ask, openRequest } from "../../../test/contract/runtime.contract.ts";
import {
  type FakeHermes,
  type FakeHermesOptions,
  HERMES_KEY,
  runFailed,
  startFakeHermes,
  toolProgress,
} from "../../../test/support/fake-hermes.ts";
import { type FakeReply, refuses, says, startFakeModel } from "../../../test/support/fake-model.ts";
import { createManualClock, type ManualClock } from "../../../test/support/manual-clock.ts";
import type { AgentSession, OpenRequest, Runtime, TurnEvent } from "../runtime.ts";
import { createHermesRuntime, type HermesRuntimeOptions } from "./hermes-runtime.ts";

interface Stage {
  readonly hermes: FakeHermes;
  readonly clock: ManualClock;
  /** What the runtime has asked its clock to wait, in order. */
  readonly waits: readonly number[];
  readonly runtime: Runtime;
  open(more?: Partial<OpenRequest>): Promise<AgentSession>;
}

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function stage(options: FakeHermesOptions = {}, more: Partial<HermesRuntimeOptions> = {}): Promise<Stage> {
  const hermes = await startFakeHermes(options);
  const clock = createManualClock();
  const waits: number[] = [];
  const runtime = createHermesRuntime({
    name: "hermes",
    baseUrl: hermes.url,
    key: HERMES_KEY,
    idleTimeoutMs: 60_000,
    clock: {
      now: clock.now,
      after(ms, call) {
        waits.push(ms);
        return clock.after(ms, call);
      },
    },
    chance: () => 0.5,
    ...more,
  });
  ends.push(async () => {
    await runtime.close();
    expect(clock.pending).toBe(0);
    await hermes.close();
  });
  return { hermes, clock, waits, runtime, open: (request = {}) => runtime.open(openRequest(request)) };
}

const PRIMER: OpenRequest["primer"] = {
  total: 3,
  lines: [
    { role: "user", text: "my parrot is called Kiwi" },
    { role: "assistant", text: "a fine name" },
  ],
};

describe("the session as Hermes has it", () => {
  test("B5: a new session is made by Hermes, and its id is sent with each turn", async () => {
    const { hermes, open } = await stage();
    const session = await open();
    expect(session.ref).toMatch(/^api_\d+_[0-9a-f]{8}$/);
    await ask(session, "say one");
    await ask(session, "say two");
    expect(hermes.turns.map(({ headers }) => headers["x-hermes-session-id"])).toEqual([session.ref, session.ref]);
    expect(hermes.requests.filter(({ path }) => path === "/api/sessions")).toHaveLength(1);
  });

  test("C1: the system message is the stable part, byte for byte; the history is not sent", async () => {
    const { hermes, open } = await stage();
    const session = await open({ stablePart: "Source: CLI terminal\n  é" });
    await ask(session, "say one");
    await ask(session, "say two", { facts: "facts" });
    expect(hermes.turns.map(({ body }) => body.messages)).toEqual([
      [
        { role: "system", content: "Source: CLI terminal\n  é" },
        { role: "user", content: "say one" },
      ],
      [
        { role: "system", content: "Source: CLI terminal\n  é" },
        { role: "user", content: "facts\n\nsay two" },
      ],
    ]);
  });

  test("B5: an id that comes back in the header is taken over, and is the ref from then on", async () => {
    let next: string | null = null;
    let hermes: FakeHermes | null = null;
    // It compresses after we looked where the session is, and before it takes the turn.
    const during: typeof fetch = async (...request) => {
      const [, sent] = request;
      const id = new Headers(sent?.headers).get("x-hermes-session-id");
      if (sent?.method === "POST" && id !== null && hermes?.sessions.get(id)?.messages.length === 2) {
        next = hermes.compress(id);
      }
      return fetch(...request);
    };
    const staged = await stage({ followsTip: true }, { fetch: during });
    hermes = staged.hermes;
    const session = await staged.open();
    await ask(session, "say the parrot is called Kiwi");
    const first = session.ref;
    expect((await ask(session, "history")).text).toContain("Kiwi");
    expect(next).not.toBeNull();
    expect(session.ref).toBe(next);
    expect(session.ref).not.toBe(first);
  });

  test("B5: a Hermes that echoes the old id after a compression is asked where the session goes on", async () => {
    const { hermes, open } = await stage();
    const session = await open();
    await ask(session, "say the parrot is called Kiwi");
    const first = session.ref;
    const next = hermes.compress(hermes.compress(first));
    expect((await ask(session, "history")).text).toContain("Kiwi");
    expect(session.ref).toBe(next);
    expect(hermes.turns.at(-1)?.headers["x-hermes-session-id"]).toBe(next);
    // Also when it was parked meanwhile.
    const again = await open({ ref: first, primer: PRIMER });
    expect([again.how, again.ref]).toEqual(["resumed", next]);
  });

  test("B5: a session Hermes lost is noticed before anything is sent, and begins anew with the primer", async () => {
    const { hermes, open } = await stage();
    const session = await open();
    await ask(session, "say one");
    hermes.lose(session.ref);
    expect(await ask(session, "say two")).toMatchObject({ outcome: "failed", failure: { kind: "session-gone" } });
    expect(hermes.turns).toHaveLength(1);

    const again = await open({ ref: session.ref, primer: PRIMER });
    expect(again.how).toBe("primed");
    expect(again.ref).not.toBe(session.ref);
    await ask(again, "history");
    await ask(again, "say more");
    expect(hermes.turns.map(({ body }) => body.messages.at(-1)?.content).slice(1)).toEqual([
      "This session so far, the last 2 of 3 messages:\n| they: my parrot is called Kiwi\n| you: a fine name\n\nhistory",
      "say more",
    ]);
  });

  test("H13: a session of another door of Hermes is left alone, unless it is this session's home", async () => {
    const { hermes, open } = await stage();
    hermes.hold("20260401_120000_abcdef", { source: "telegram", messages: [{ role: "user", content: "secret" }] });
    const mine = await open({ ref: "20260401_120000_abcdef" });
    expect(mine.how).toBe("created");
    expect((await ask(mine, "history")).text).not.toContain("secret");

    const adopted = await open({ sessionKey: "agent:main:foreign:hermes:20260401_120000_abcdef" });
    expect([adopted.how, adopted.ref]).toEqual(["resumed", "20260401_120000_abcdef"]);
    expect((await ask(adopted, "history")).text).toContain("secret");
    await expect(open({ sessionKey: "agent:main:foreign:hermes:gone" })).rejects.toThrow("has no session gone");
  });

  test("K20: long-term memory is kept under the session key; one that no header can hold under its hash", async () => {
    const { hermes, open } = await stage();
    for (const sessionKey of [
      "agent:main:telegram:dm:99",
      `agent:main:web:dm:${"x".repeat(300)}`,
      "agent:main:web:dm:中",
    ]) {
      await ask(await open({ sessionKey }), "say hi");
    }
    const keys = hermes.turns.map(({ headers }) => String(headers["x-hermes-session-key"]));
    expect(keys[0]).toBe("agent:main:telegram:dm:99");
    expect(keys.slice(1).every((key) => /^tertulia:[0-9a-f]{64}$/.test(key))).toBe(true);
    expect(new Set(keys).size).toBe(3);
  });
});

describe("a Hermes without sessions", () => {
  test("B5: goes on under the id it gives; two conversations that begin alike are two", async () => {
    const { hermes, open } = await stage({ generation: "own-ids" });
    const one = await open({ sessionId: "s-1" });
    const two = await open({ sessionId: "s-2" });
    await ask(one, "say hello");
    await ask(two, "say hello");
    expect(one.ref).toMatch(/^api-[0-9a-f]{16}$/);
    expect(one.ref).not.toBe(two.ref);
    await ask(one, "say the parrot is called Kiwi");
    expect((await ask(two, "history")).text).not.toContain("Kiwi");
    expect((await ask(one, "history")).text).toContain("Kiwi");
    expect(hermes.sessions.size).toBe(2);
  });

  test("B5: an id it does not know any more begins anew with the primer, in the same turn: nothing had run", async () => {
    const { hermes, open } = await stage({ generation: "own-ids" });
    const session = await open({ ref: "api-0123456789abcdef", primer: PRIMER });
    expect((await ask(session, "history")).text).toContain("Kiwi");
    expect(session.ref).not.toBe("api-0123456789abcdef");
    hermes.lose(session.ref);
    expect(await ask(session, "say two")).toMatchObject({ outcome: "failed", failure: { kind: "session-gone" } });
  });
});

describe("the key", () => {
  test("E3: without a key Hermes keeps no session, and the sentence says what to do", async () => {
    const { open, runtime } = await stage({ generation: "any-id", key: null });
    const { outcome, failure } = await ask(await open(), "say hi");
    expect([outcome, failure?.kind]).toEqual(["failed", "auth"]);
    expect(failure?.message).toContain("Set API_SERVER_KEY there, and `key` to the same here");
    expect((await probe(runtime)).ok).toBe(true);
  });

  test("E3: a probe says that a Hermes without a key keeps no session", async () => {
    const { runtime } = await stage({ key: null });
    expect(await probe(runtime)).toMatchObject({ ok: false, version: "0.19.0" });
    expect((await probe(runtime)).detail).toContain("keeps no session without a key");
  });

  test("E3: a wrong key ends the opening with the remedy, and stands in no sentence", async () => {
    const { open, runtime } = await stage({}, { key: "wrong-key-0123456789" });
    await expect(open()).rejects.toThrow("Set `key` to its API_SERVER_KEY");
    expect(await probe(runtime)).toMatchObject({ ok: false });
    const lacking = await stage({}, { key: undefined });
    await expect(lacking.open()).rejects.toThrow("wants a key");
  });

  test("E2: an address that ends in /v1, or a key that cannot be sent, is refused", () => {
    const make = (more: Partial<HermesRuntimeOptions>) => () =>
      createHermesRuntime({
        name: "hermes",
        baseUrl: "http://127.0.0.1:8642",
        idleTimeoutMs: 1,
        clock: createManualClock(),
        chance: () => 0,
        ...more,
      });
    expect(make({ baseUrl: "http://127.0.0.1:8642/v1" })).toThrow("ends before /v1");
    expect(make({ baseUrl: "http://u:p@127.0.0.1:8642" })).toThrow("holds a name or a password");
    expect(make({ key: "a\nb" })).toThrow("cannot be sent");
  });
});

describe("one turn", () => {
  test("T8: tools are told as they run, in order with the words", async () => {
    const { open } = await stage({
      answer: () => ({
        steps: [
          { text: "looking" },
          toolProgress({ tool: "terminal", label: "ls -l", toolCallId: "call_1", status: "running" }),
          toolProgress({ tool: "_thinking", label: "hm", toolCallId: "call_0", status: "running" }),
          toolProgress({ tool: "terminal", toolCallId: "call_1", status: "completed" }),
          { event: "hermes.something.new", data: "not json" },
          { text: " done" },
          { finish: "stop" },
          { done: true },
        ],
      }),
    });
    const { events, result } = await heard(await open());
    expect(events).toEqual([
      { type: "text", text: "looking" },
      { type: "tool", id: "call_1", title: "ls -l", state: "running" },
      { type: "tool", id: "call_1", title: "terminal", state: "done" },
      { type: "text", text: " done" },
    ]);
    expect(result).toMatchObject({ outcome: "done", text: "looking done" });
  });

  test("T8: a tool of an older Hermes, without id and status, runs", async () => {
    const { open } = await stage({
      generation: "any-id",
      answer: () => ({ steps: [toolProgress({ tool: "terminal", emoji: "x", label: "ls" }), { finish: "stop" }] }),
    });
    expect((await heard(await open())).events).toEqual([
      { type: "tool", id: "terminal", title: "ls", state: "running" },
    ]);
  });

  test("T7: a keepalive is a sign of life, silence is none", async () => {
    const gate = Promise.withResolvers<void>();
    const { open, clock, waits } = await stage({
      answer: () => ({ steps: [{ text: "a" }, { until: gate.promise }, { comment: "keepalive" }, { stall: true }] }),
    });
    const session = await open();
    const first = Promise.withResolvers<TurnEvent>();
    const turn = ask(session, "say hi", { onEvent: first.resolve });
    await first.promise;
    await clock.advance(59_000);
    const before = waits.length;
    gate.resolve();
    await expect.poll(() => waits.length).toBe(before + 1);
    await clock.advance(59_000);
    expect(await Promise.race([turn, "still waiting"])).toBe("still waiting");
    await clock.advance(1_001);
    expect(await turn).toMatchObject({ outcome: "failed", text: "a", failure: { kind: "stalled" } });
  });

  test("T9: a stream that ends without a finish reason is cut, with what was said", async () => {
    const { open } = await stage({ answer: () => ({ steps: [{ text: "half" }, { cut: true }] }) });
    const session = await open();
    expect(await ask(session, "say hi")).toMatchObject({
      outcome: "failed",
      text: "half",
      failure: { kind: "truncated" },
    });
  });

  test("T9: what Hermes says of a run that failed is a failure, not an answer", async () => {
    const { open } = await stage({
      answer: () => ({ steps: [{ text: "half" }, ...runFailed(`HTTP 401: bad ${HERMES_KEY}`)] }),
    });
    const { failure, ...result } = await ask(await open(), "say hi");
    expect(result).toMatchObject({ outcome: "failed", text: "half" });
    expect(failure).toMatchObject({ kind: "refused", message: expect.stringContaining("HTTP 401: bad") });
    expect(failure?.message).not.toContain(HERMES_KEY);
  });

  test.each([["[SILENT]"], [" [silent]\n"], ["SILENT"], ["NO_REPLY"], ["NO REPLY"]])(
    "O5: %j alone is our silence",
    async (said) => {
      const { open } = await stage({ answer: () => says(...said) });
      const { events, result } = await heard(await open());
      expect(result).toMatchObject({ outcome: "done", text: "NO_REPLY" });
      expect(events).toEqual([{ type: "text", text: "NO_REPLY" }]);
    },
  );

  test.each([["No, thanks"], ["[SILENT] is what I would say"], ["NO"], ["Silently"], [" a b "]])(
    "O5: %j is an answer, and what is shown is what was said",
    async (said) => {
      const { open } = await stage({ answer: () => says(...said) });
      const { events, result } = await heard(await open());
      expect(result.text).toBe(said);
      expect(events.map((event) => (event.type === "text" ? event.text : "")).join("")).toBe(said);
    },
  );

  test("T1: too many runs at once, or a restart, is waited out: nothing had run", async () => {
    const replies: FakeReply[] = [
      refuses(
        429,
        { message: "Too many concurrent runs (max 10)", code: "rate_limit_exceeded" },
        { "retry-after": "2" },
      ),
      refuses(503, { message: "Gateway is draining" }),
    ];
    const { hermes, open, clock, waits } = await stage({ answer: () => replies.shift() ?? null });
    const turn = ask(await open(), "say hi");
    for (const [wait, turns] of [
      [2_000, 1],
      [4_000, 2],
    ] as const) {
      await expect.poll(() => hermes.turns.length).toBe(turns);
      await expect.poll(() => waits.at(-1)).toBe(wait);
      await clock.advance(wait);
    }
    expect(await turn).toMatchObject({ outcome: "done", text: "hi" });
  });

  test("T8: an error after which it may have run is not tried again", async () => {
    const { hermes, open } = await stage({ answer: () => refuses(500, { message: "Internal server error" }) });
    expect(await ask(await open(), "say hi")).toMatchObject({ outcome: "failed", failure: { kind: "unreachable" } });
    expect(hermes.turns).toHaveLength(1);
  });

  test("T7: a stop closes the connection, which is what ends the agent's work", async () => {
    const { hermes, open } = await stage();
    const session = await open();
    const cancel = new AbortController();
    const turn = ask(session, "slow 10", { signal: cancel.signal, onEvent: () => cancel.abort() });
    expect(await turn).toMatchObject({ outcome: "cancelled", text: "1" });
    await hermes.ended(1);
  });

  test("B8: parking ends a running turn, and the session opens no more", async () => {
    const { hermes, open, runtime } = await stage();
    const session = await open();
    const turn = ask(session, "slow 10", { onEvent: () => void runtime.close() });
    expect(await turn).toMatchObject({ outcome: "failed", failure: { kind: "process-died" } });
    await hermes.ended(1);
  });

  test("F-SEC-04 B11: words without an end are stopped, and so are news of tools", async () => {
    const piece = "z".repeat(500_000);
    const word = { chunk: { choices: [{ delta: { content: piece } }] } };
    const news = { event: "hermes.tool.progress", data: JSON.stringify({ tool: "ls", label: piece }) };
    for (const [step, sentence, kept] of [
      [word, "Hermes said more than 4,000,000 characters and was stopped.", 4_000_000],
      [news, "Hermes thought more than 40,000,000 characters and was stopped.", 0],
    ] as const) {
      const { open } = await stage({
        answer: () => ({ steps: [...Array.from({ length: 100 }, () => step), { stall: true }] }),
      });
      const result = await ask(await open(), "say hi");
      expect(result).toMatchObject({ outcome: "failed", failure: { kind: "truncated", message: sentence } });
      expect(result.text).toHaveLength(kept);
    }
  });

  test("O6: a limit of output is said in the last line", async () => {
    const { open } = await stage({ answer: () => ({ steps: [{ text: "much" }, { finish: "length" }] }) });
    expect((await ask(await open(), "say hi")).text).toBe("much\n\n[cut: the model reached its limit of output]");
  });
});

describe("the probe", () => {
  test("E3: says version and what is missing", async () => {
    const { runtime } = await stage();
    expect(await probe(runtime)).toMatchObject({ ok: true, version: "0.19.0" });
    const lacking = await stage({ features: { session_resources: false } });
    expect((await probe(lacking.runtime)).detail).toContain("a lost one is not noticed");
    const old = await stage({ generation: "any-id" });
    expect((await probe(old.runtime)).detail).toContain("old one");
  });

  test("E3: nothing there, or something that is no Hermes, is said", async () => {
    const other = await startFakeModel([says("hi")]);
    const { runtime } = await stage({}, { baseUrl: other.url.replace("/v1", "") });
    expect(await probe(runtime)).toMatchObject({ ok: false, detail: expect.stringContaining("no Hermes") });
    await other.close();
    expect((await probe(runtime)).detail).toContain("hermes gateway run");
    const { open } = await stage({}, { baseUrl: other.url.replace("/v1", "") });
    await expect(open()).rejects.toMatchObject({ code: "runtime_failed" });
  });
});

async function heard(session: AgentSession) {
  const events: TurnEvent[] = [];
  const result = await ask(session, "say hi", { onEvent: (event) => void events.push(event) });
  return { events, result };
}

const probe = (runtime: Runtime) => runtime.probe(new AbortController().signal);
