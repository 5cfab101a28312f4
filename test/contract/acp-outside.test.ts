/** What an agent says outside of its prompt: late words of it, its history told again, and what is nobody's. */
import { afterEach, describe, expect, test } from "vitest";
import type { AgentSession, HistoryLine, TurnEvent } from "../../src/runtime/runtime.ts";
import { systemClock } from "../../src/util/clock.ts";
import { type HostileOptions, HostileStage, hear } from "../support/hostile-stage.ts";
import { ask, startSlow } from "./runtime.contract.ts";

const stages: HostileStage[] = [];
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.end();
});

interface Logged {
  readonly updates?: number;
  readonly how?: string;
}

function stage(traits = "", options: HostileOptions = {}) {
  const logged: Logged[] = [];
  const warn = (fields: Logged): void => void logged.push(fields);
  const made = new HostileStage(traits, {
    log: { info: () => undefined, error: () => undefined, warn },
    ...options,
    agent: { quietTimeMs: 400, ...options.agent },
  });
  stages.push(made);
  return Object.assign(made, { logged });
}

const typesOf = (events: readonly TurnEvent[]): string[] => events.map(({ type }) => type);

// The kind: words, tools and questions that come after the answer to their own prompt, at once or in a while, some or all of them.
describe("late words", () => {
  test.each([
    ["some of them in the same breath", "after 0 tail|head ", "head tail"],
    ["all of them in the same breath", "after 0,0 a,b", "ab"],
    ["a while later", "after 300 tail|head ", "head tail"],
    ["one after the other", "after 100,200,300 a,b,c|head ", "head abc"],
    ["all of them a while later", "after 250 all", "all"],
  ])("F-ACP-01 B11: %s, they are of the answer", async (_, prompt, text) => {
    const { events, ...result } = await hear(await stage().open(), prompt);
    expect(result).toMatchObject({ outcome: "done", text });
    expect(events.map((event) => (event.type === "text" ? event.text : "")).join("")).toBe(text);
  });

  test("F-ACP-01 B11: what comes later than that is counted, logged and dropped, and is not of the next turn", async () => {
    const hostile = stage();
    const session = await hostile.open();
    const startedAt = performance.now();
    expect((await ask(session, "after 50,250,430,480,700,800,900 a,b,c,d,X,Y,Z")).text).toBe("abcd");
    expect(performance.now() - startedAt).toBeLessThan(700);
    // The next one is asked at once, and would hear them.
    expect((await hear(session, "slowly 50ms next")).text).toBe("next");
    expect(hostile.logged).toMatchObject([{ updates: 1 }, { updates: 3 }]);
  });

  test("F-ACP-01 B11: an agent that is known to keep the order is not waited for", async () => {
    const session = await stage("", { agent: { quietTimeMs: 0 } }).open();
    const startedAt = performance.now();
    for (let i = 0; i < 5; i++) expect((await ask(session, "say hello")).text).toBe("hello");
    expect(performance.now() - startedAt).toBeLessThan(400);
  });

  test("F-ACP-01 B11: the quiet time is measured by the clock", async () => {
    const waits: number[] = [];
    const clock = {
      ...systemClock,
      after: (ms: number, call: () => void) => {
        if (ms === 333 || ms === 500) waits.push(ms);
        return systemClock.after(ms, call);
      },
    };
    const session = await stage("", { clock, agent: { quietTimeMs: 333 } }).open();
    await ask(session, "say hello");
    expect(waits).toEqual([500, 333]);
  });

  test("F-ACP-01 H12: a late tool is told, and a late question is cancelled unasked", async () => {
    const { text, events } = await hear(await stage().open(), "after-news");
    expect(typesOf(events)).toEqual(["text", "tool", "text"]);
    expect(text).toBe('ok{"outcome":"cancelled"}');
  });

  test("F-ACP-01 T7: a stop does not wait for them", async () => {
    const session = await stage().open();
    const cancel = new AbortController();
    const heard = Promise.withResolvers<void>();
    const result = ask(session, "after 400 tail|head", { signal: cancel.signal, onEvent: () => heard.resolve() });
    await heard.promise;
    cancel.abort();
    expect(await result).toEqual({ outcome: "cancelled", text: "head" });
  });

  test("F-ACP-02 B10: an agent that goes on and on between two turns is not asked, and the next one is another", async () => {
    const hostile = stage("resume");
    const session = await hostile.open();
    await ask(session, "chatter 100");
    const second = await ask(session, "say hello");
    expect(second).toMatchObject({ outcome: "failed", text: "", failure: { kind: "protocol" } });
    await session.park();
    expect((await ask(await hostile.open({ ref: session.ref }), "say hello")).text).toBe("hello");
  }, 15_000);
});

// The kind: everything an agent says outside of a prompt of ours: its history before or after the answer to the load, with gaps, without an
// end, in the middle of a turn; messages of people again; words of another session; tools and questions of all of these.
describe("a history that is told again", () => {
  const LINES: readonly HistoryLine[] = [
    { role: "user", text: "say one" },
    { role: "assistant", text: "the first answer" },
    { role: "user", text: "say two" },
    { role: "assistant", text: "(not delivered) the second answer", said: "the second answer" },
    { role: "user", text: "say three" },
    { role: "assistant", text: "the third answer" },
  ];
  const PRIMER = { total: LINES.length, lines: LINES };
  /** A session that has said all that, opened again. */
  const reopened = async (hostile: HostileStage, primer = PRIMER): Promise<AgentSession> => {
    const session = await hostile.open();
    for (const count of ["first", "second", "third"]) await ask(session, `say the ${count} answer`);
    await session.park();
    return hostile.open({ ref: session.ref, primer });
  };
  const still = { agent: { quietTimeMs: 0 }, limits: { quietMs: 250, replayMs: 3_000 } };

  test.each([
    ["before the answer to the load", "load history"],
    ["with the messages of people", "load history user tools"],
    ["after it, in gaps of 300 ms", "load history late gap=300"],
    ["after it, with everything, in gaps of 300 ms", "load history late user tools gap=300"],
    ["by a resume", "resume resume-replays history gap=100"],
  ])("F-ACP-02 B10: %s, it is no answer, and is known", async (_, traits) => {
    const session = await reopened(stage(traits, still));
    expect(session.how).toMatch(/loaded|resumed/);
    const { text, events } = await hear(session, "slowly the new answer");
    expect(text).toBe("the new answer");
    expect(typesOf(events)).toEqual(["text"]);
    // The same words again are an answer.
    expect((await ask(session, "say the third answer")).text).toBe("the third answer");
  });

  test("F-ACP-02 B5 B10: where it does not end in time the session is begun anew with the primer, and none is loaded any more", async () => {
    const hostile = stage("load history late user gap=400", { ...still, limits: { quietMs: 250, replayMs: 900 } });
    const session = await reopened(hostile);
    expect(session.how).toBe("primed");
    expect((await hear(session, "slowly 1000ms the new answer")).text).toBe("the new answer");
    await session.park();
    const startedAt = performance.now();
    expect((await hostile.open({ ref: session.ref, primer: PRIMER })).how).toBe("primed");
    expect(performance.now() - startedAt).toBeLessThan(800);
    expect(hostile.logged).toMatchObject([{ how: "loaded" }]);
  });

  test.each([
    ["its answers", "load history late delay=600 gap=20"],
    ["its answers, one behind the other", "load history late delay=600 gap=80"],
    ["its answers and what was asked", "load history late user delay=600 gap=20"],
    ["that and its tools, while it says the answer", "load history late user tools delay=600 gap=60"],
  ])("F-ACP-02 B10: %s, told in the middle of the next turn, are not of it", async (_, traits) => {
    const hostile = stage(traits, { ...still, limits: { quietMs: 60, replayMs: 3_000 } });
    const session = await reopened(hostile);
    const { text, events, outcome } = await hear(session, "slowly 900ms the new answer");
    expect({ text, outcome }).toEqual({ text: "the new answer", outcome: "done" });
    expect(typesOf(events)).toEqual(["text"]);
    await session.park();
    expect((await hostile.open({ ref: session.ref, primer: PRIMER })).how).toBe("primed");
  });

  test("F-ACP-02 B10: told behind the answer, within the quiet time, they are not of it either", async () => {
    const hostile = stage("load history late delay=500 gap=50", { limits: { quietMs: 60, replayMs: 3_000 } });
    const session = await reopened(hostile);
    expect((await hear(session, "say the new answer")).text).toBe("the new answer");
  });

  test("F-ACP-02 B10: where nothing but history came, that is said, and the session goes on from the transcript", async () => {
    const hostile = stage("load history late user delay=400 gap=10", {
      ...still,
      limits: { quietMs: 60, replayMs: 3_000 },
    });
    const session = await reopened(hostile);
    const run = startSlow(session, "slowly 500ms  ");
    const result = await run.result;
    expect(result).toMatchObject({ outcome: "failed", text: "", failure: { kind: "protocol" } });
    expect(result.failure?.message).toContain("repeated its history");
    await session.park();
    expect((await hostile.open({ ref: session.ref, primer: PRIMER })).how).toBe("primed");
  });

  test("F-ACP-02 B10: an agent that says first what it was asked replays nothing", async () => {
    for (const traits of ["echo", "load history echo", "resume history echo"]) {
      const session = await reopened(stage(traits, still));
      expect((await ask(session, "say the new answer", { facts: "<f>\nSource: CLI\n</f>" })).text).toBe(
        "the new answer",
      );
      expect((await ask(session, "say the third answer")).text).toBe("the third answer");
    }
  });

  test("F-ACP-02 B10: an answer that was given before, or begins like one, is an answer", async () => {
    for (const traits of ["load history", "load", "resume history"]) {
      const session = await reopened(stage(traits, still));
      expect((await ask(session, "say the third answer")).text).toBe("the third answer");
      expect((await ask(session, "say the third answers")).text).toBe("the third answers");
    }
  });
});
