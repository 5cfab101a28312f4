import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import type { Person } from "../../src/conversation/person.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import type { AgentSession, Runtime } from "../../src/runtime/runtime.ts";
import type { Store } from "../../src/store/port.ts";
import type { TurnAnswer } from "../../src/store/readers.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { renderNotice } from "../../src/text/render-notice.ts";
import { turnProblem } from "../../src/turn/turn-problem.ts";
import { story } from "../support/harness.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { temporaryFolder } from "../support/store.ts";

describe("an agent that fails", () => {
  test(
    "T9 the author gets one sentence with what to do, the transcript one marked entry, and the next message is answered",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("fail");
      expect(await alice.hears(words)).toContain("The demo agent was told to fail.");
      expect(await alice.fate(words)).toMatchObject({ fate: "failed", reason: "runtime_failed" });
      expect(await alice.transcript()).toEqual(["user: fail", "mark (failed): runtime_failed"]);
      expect(await alice.asks("say still here")).toBe("still here");
      expect(alice.shows()).toHaveLength(2);
    }),
  );

  test(
    "B5 one that dies is built anew once for the turn, and not again; the next message gets a new one that knows what was said",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say remember this");
      expect(await alice.asks("die")).toContain("The demo agent was told to die.");
      expect(stage.gateway.pool.counters).toMatchObject({ opened: 2, restarted: 2 });
      expect(await alice.asks("history")).toContain("me: remember this");
      expect(stage.gateway.pool.counters).toMatchObject({ opened: 3, restarted: 2 });
    }),
  );

  test(
    "B5 one that died in a turn whose words were shown is not run again, and what it said is kept",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("die");
      alice.watches(words);
      await alice.hears(words);
      expect(stage.gateway.pool.counters.opened).toBe(2);
      expect(alice.shows()).toHaveLength(1);
    }),
  );

  test(
    "B5 one that has lost its session is opened anew once, and the failure is said once",
    story(async (stage) => {
      const alice = stage.alice();
      expect(await alice.asks("gone")).toContain("The demo agent was told to forget its session.");
      expect(stage.gateway.pool.counters).toMatchObject({ opened: 2, restarted: 2 });
      expect(alice.shows()).toHaveLength(1);
      expect(await alice.asks("say back")).toBe("back");
    }),
  );

  test(
    "B5 a failing agent delays no other door",
    story(async ({ alice, bob }) => {
      const [hanging, quick] = [await alice().says("hang"), await bob().says("say quick")];
      expect(await bob().hears(quick)).toBe("quick");
      expect(await alice().fate(hanging)).toMatchObject({ fate: "running" });
      await alice().asks("/stop");
    }),
  );
});

describe("an agent that is silent", () => {
  test(
    "T7 at turn_idle_timeout the turn ends as failed, the author gets one clear sentence, and the next one runs",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("hang");
      const next = await alice.says("say next");
      await stage.passes(9 * 60_000);
      expect(await alice.fate(words)).toMatchObject({ fate: "running" });
      await stage.passes(2 * 60_000);
      expect(await alice.answer(words)).toMatchObject({ turn: { state: "failed", reason: "timeout" } });
      expect(await alice.hears(next)).toBe("next");
      expect(alice.shows()).toEqual([expect.stringContaining("was silent for 10 min"), "next"]);
    }),
  );

  test(
    "T7 at turn_timeout it ends too, however busy it is",
    story(
      async (stage) => {
        const alice = stage.alice();
        const words = await alice.says("slow 5000");
        await stage.passes(70_000);
        expect(await alice.answer(words)).toMatchObject({ turn: { state: "failed", reason: "timeout" } });
        expect(await alice.hears(words)).toContain("took longer than 1 min");
      },
      { turn: { turn_timeout: "1m" } },
    ),
  );

  test(
    "T7 signs of life put the idle limit off",
    story(
      async (stage) => {
        const alice = stage.alice();
        expect(await alice.asks("slow 30")).toContain("29 30");
      },
      { turn: { turn_idle_timeout: "1s" } },
    ),
  );

  test(
    "T7 one that does not obey is given up after stop_grace; its late words are lost, and the next message is answered",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("stubborn");
      const next = await alice.says("say next");
      await stage.rests();
      await alice.asks("/stop");
      await stage.passes(4_000);
      expect(await alice.fate(words)).toMatchObject({ fate: "running" });
      await stage.passes(2_000);
      expect(await alice.answer(words)).toMatchObject({ turn: { state: "interrupted", reason: "stopped" } });
      expect(await alice.hears(next)).toBe("next");
      expect(stage.gateway.pool.counters.opened).toBe(2);
    }),
  );

  test(
    "T7 a stop in order gives up one that does not obey as well, and leaves nothing open",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("stubborn");
      await stage.rests();
      await stage.restarts();
      expect(await alice.answer(words)).toMatchObject({ turn: { state: "interrupted", reason: "shutdown" } });
      expect(alice.shows()).toHaveLength(1);
    }),
  );

  test(
    "T8 T7 one that hangs when the process is killed is run again once, and timed out then",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("hang");
      await stage.passes(5_000);
      await stage.comesBack();
      await stage.passes(11 * 60_000);
      expect(await alice.answer(words)).toMatchObject({ turn: { state: "failed", reason: "timeout", attempt: 2 } });
      expect(alice.shows()).toHaveLength(1);
    }),
  );
});

describe("an agent that asks for leave", () => {
  test(
    "H12 is answered by who watches, and goes on",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("ask");
      const screen = alice.watches(words);
      await stage.rests();
      const question = screen.seen.find((event) => event.type === "permission");
      expect(question).toMatchObject({ options: [{ id: "allow" }, { id: "reject" }] });
      alice.allows(words, question!.type === "permission" ? question!.id : "", "allow");
      expect(await alice.hears(words)).toBe("You answered: allow");
    }),
  );

  test(
    "H12 a question is asked of late watchers too, and answered only once",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("ask");
      alice.watches(words);
      await stage.rests();
      const late = alice.watches(words);
      const question = late.seen.find((event) => event.type === "permission")!;
      const id = question.type === "permission" ? question.id : "";
      expect(() => alice.allows(words, id, "perhaps")).toThrow("no option");
      alice.allows(words, id, "reject");
      expect(() => alice.allows(words, id, "allow")).toThrow("not open any more");
      expect(await alice.hears(words)).toBe("You answered: reject");
    }),
  );

  test(
    "H12 somebody else does not answer it; the owner may",
    story(async (stage) => {
      const [alice, bob] = [stage.alice(), stage.bob()];
      const [hers, his] = await Promise.all([alice.says("ask"), bob.says("ask")]);
      const [first, second] = [alice.watches(hers), bob.watches(his)];
      await stage.rests();
      const idOf = ({ seen }: typeof first): string => {
        const question = seen.find((event) => event.type === "permission");
        return question?.type === "permission" ? question.id : "";
      };
      expect(() => bob.allows(hers, idOf(first), "allow")).toThrow("somebody else");
      alice.allows(his, idOf(second), "allow");
      alice.allows(hers, idOf(first), "allow");
      expect(await bob.hears(his)).toBe("You answered: allow");
      expect(await alice.hears(hers)).toBe("You answered: allow");
    }),
  );

  test(
    "H12 where nobody can be asked it is denied at once",
    story(async (stage) => {
      expect(await stage.alice().asks("ask")).toBe("no answer");
      const words = await stage.alice().says("ask");
      stage.alice().watches(words, { canAnswer: false });
      expect(await stage.alice().hears(words)).toBe("no answer");
    }),
  );

  test(
    "T7 a question is denied after permission_timeout, and waiting for it does not count for the limits",
    story(
      async (stage) => {
        const alice = stage.alice();
        const words = await alice.says("ask");
        alice.watches(words);
        await stage.passes(4 * 60_000);
        expect(await alice.fate(words)).toMatchObject({ fate: "running" });
        await stage.passes(2 * 60_000);
        expect(await alice.hears(words)).toBe("no answer");
      },
      { turn: { turn_idle_timeout: "2m", turn_timeout: "3m" } },
    ),
  );

  test(
    "T7 a stop denies what is asked, and ends the turn",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("ask");
      alice.watches(words);
      await stage.rests();
      await alice.asks("/stop");
      expect(await alice.answer(words)).toMatchObject({ turn: { state: "interrupted", reason: "stopped" } });
    }),
  );

  test(
    "T8 a turn that asks when the process is killed is asked again once",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("ask");
      await stage.rests();
      await stage.comesBack();
      expect(await alice.hears(words)).toBe("no answer");
      expect(alice.shows()).toEqual(["no answer"]);
    }),
  );
});

describe("a tool", () => {
  test(
    "T8 that effects are possible is durable before it runs",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("tool");
      const ran = stage.sideEffects;
      expect(ran).toBe(0);
      for (let round = 0; round < 20 && stage.sideEffects === ran; round++) {
        const [before] = stage.sql("SELECT effects FROM turn");
        await new Promise((resolve) => setImmediate(resolve));
        if (stage.sideEffects > ran) expect(stage.sql("SELECT effects FROM turn")).toEqual([{ effects: "possible" }]);
        else expect(["none", "possible"]).toContain(before!.effects);
      }
      expect(await alice.hears(words)).toBe("I counted one up: 1");
    }),
  );

  test(
    "O6 who watches sees it begin and end",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("tool");
      const screen = alice.watches(words);
      await alice.hears(words);
      expect(screen.seen.flatMap((event) => (event.type === "tool" ? [event.state] : []))).toEqual([
        "pending",
        "running",
        "done",
      ]);
    }),
  );
});

describe("nothing to say", () => {
  test(
    "O5 NO_REPLY alone sends nothing, and counts as answered",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("say  NO_REPLY ");
      expect(await alice.answer(words)).toMatchObject({ silent: true, text: "", turn: { state: "answered" } });
      expect(await alice.fate(words)).toMatchObject({ fate: "answered" });
      expect(alice.shows()).toEqual([]);
      expect(await alice.transcript()).toEqual(["user: say  NO_REPLY "]);
    }),
  );

  test(
    "O5 an empty answer is asked for once more, then there is one short notice",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("say");
      expect(await alice.hears(words)).toContain("gave an empty answer.");
      expect(await alice.fate(words)).toMatchObject({ fate: "failed", reason: "empty" });
      expect(alice.shows()).toHaveLength(1);
      expect(await alice.transcript()).toEqual(["user: say", "mark (failed): empty"]);
      // Both tries are in the memory of the one agent.
      expect(await alice.asks("history")).toContain("you: say\nyou: say");
    }),
  );
});

describe("an agent that keeps no rules", () => {
  test("T5 T7 one that never says whether it took a message in is not waited for longer than stop_grace", async () => {
    const stage = await oddStage(
      {
        async turn(_, { signal, onEvent }) {
          await onEvent({ type: "text", text: "so far" });
          await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
          return { outcome: "cancelled", text: "so far" };
        },
        steer: () => new Promise(() => undefined),
      },
      { turn: { busy_mode: "steer" } },
    );
    const words = await stage.says("one");
    await stage.rests();
    const next = await stage.says("two");
    await stage.rests();
    await stage.says("/stop");
    await stage.passes(6_000);
    expect(await stage.answer(words)).toMatchObject({ turn: { state: "interrupted", reason: "stopped" } });
    await stage.passes(1_000);
    await stage.says("/stop");
    await stage.passes(6_000);
    expect(await stage.answer(next)).toMatchObject({ turn: { state: "interrupted" } });
    await stage.end();
  });

  test("T5 G-CON-06 an answer is kept though a message that was handed over hangs, and what comes of that too late is nobody's", async () => {
    const [handed, asked] = [Promise.withResolvers<"consumed">(), Promise.withResolvers<void>()];
    const stage = await oddStage(
      {
        async turn() {
          await asked.promise;
          return { outcome: "done", text: "answered" };
        },
        steer: () => handed.promise,
      },
      { turn: { busy_mode: "steer" } },
    );
    const words = await stage.says("one");
    await stage.rests();
    const next = await stage.says("two");
    await stage.rests();
    asked.resolve();
    await stage.passes(6_000);
    expect(await stage.answer(words)).toMatchObject({ turn: { state: "answered" }, text: "answered" });
    handed.reject(new Error("too late"));
    await stage.passes(1_000);
    expect(await stage.answer(next)).toMatchObject({ turn: { state: "answered" } });
    // It may still take the message in, and would answer it a second time.
    expect(stage.gateway.pool.list().map(({ restarts }) => restarts)).toEqual([1]);
    await stage.end(["internal: Something went wrong inside Tertulia."]);
  });

  test.each<[string, boolean]>([
    ["read", true],
    ["not read", false],
  ])("F-TRN-03 B5 T5 words handed to an agent that then fails, and had %s them, are not lost", async (_, isRead) => {
    const asked: string[] = [];
    const [dies, handed] = [Promise.withResolvers<void>(), Promise.withResolvers<"consumed" | "too-late">()];
    const stage = await oddStage(
      {
        async turn({ text }) {
          asked.push(text);
          if (asked.length > 1) return { outcome: "done", text: "ok" };
          await dies.promise;
          return { outcome: "failed", text: "", failure: { kind: "process-died", message: "Killed." } };
        },
        steer: () => handed.promise,
      },
      { turn: { busy_mode: "steer" } },
    );
    await stage.says("one");
    await stage.rests();
    await stage.says("two");
    await stage.rests();
    handed.resolve(isRead ? "consumed" : "too-late");
    await stage.rests();
    dies.resolve();
    await stage.passes(3_000);
    expect(asked).toEqual(isRead ? ["one", "one\ntwo"] : ["one", "one", "two"]);
    await stage.end();
  });

  test("H12 a question asked again while it is open is denied at once, and the answer is for the first", async () => {
    const answers: (string | null)[] = [];
    const asking = Promise.withResolvers<void>();
    const stage = await oddStage({
      async turn(_, { onEvent }) {
        await asking.promise;
        const ask = (): Promise<void> =>
          new Promise((resolve) => {
            void onEvent({
              ...QUESTION,
              answer: (option) => {
                answers.push(option);
                resolve();
              },
            });
          });
        await Promise.all([ask(), ask()]);
        return { outcome: "done", text: "ok" };
      },
    });
    const words = await stage.says("one");
    stage.gateway.turns.watch(words.turnId!, { canAnswer: true, onEvent: () => undefined });
    asking.resolve();
    await stage.rests();
    expect(answers).toEqual([null]);
    stage.gateway.turns.answerPermission({ person: OWNER, turnId: words.turnId!, id: "q", optionId: "y" });
    await stage.passes(600_000);
    expect(answers).toEqual([null, "y"]);
    expect(await stage.answer(words)).toMatchObject({ text: "ok" });
    await stage.end();
  });

  test("H12 a question that is open at the end of its turn is denied then, and leaves nothing open", async () => {
    const answers: (string | null)[] = [];
    const asking = Promise.withResolvers<void>();
    const stage = await oddStage({
      async turn(_, { onEvent }) {
        await asking.promise;
        await onEvent({ ...QUESTION, answer: (option) => answers.push(option) });
        return { outcome: "done", text: "ok" };
      },
    });
    const words = await stage.says("one");
    stage.gateway.turns.watch(words.turnId!, { canAnswer: true, onEvent: () => undefined });
    asking.resolve();
    await stage.rests();
    expect(await stage.answer(words)).toMatchObject({ text: "ok" });
    expect(answers).toEqual([null]);
    await stage.end();
  });

  test("B5 R7 messages that meet a resting runtime do not count against their session", async () => {
    let opens = 0;
    const stage = await oddStage({}, {}, () => {
      opens++;
      throw new Error("spawn ENOENT");
    });
    const first = await stage.says("a");
    await stage.rests();
    expect(await stage.answer(first)).toMatchObject({ turn: { reason: "runtime_failed" } });
    for (const text of ["b", "c", "d"]) {
      const words = await stage.says(text);
      await stage.rests();
      const answer = await stage.answer(words);
      expect(answer).toMatchObject({ turn: { state: "failed", reason: "runtime_resting" } });
      expect(turnProblem(answer)).toMatchObject({ status: 503, exitCode: 1, remedy: expect.stringContaining("Wait") });
    }
    expect(opens).toBe(1);
    expect((await stage.says("e")).sessionId).toBe(first.sessionId);
    await stage.rests();
    await stage.end();
  });

  // The kind: every long answer whose words come while it is shown, with tools in between or without.
  test.each([false, true])(
    "F-SEC-04 T8 the partial of a long answer is not written whole each second (with tools: %s)",
    async (hasTools) => {
      const PIECE = "z".repeat(32_768);
      const PIECES = 120;
      const start = Promise.withResolvers<void>();
      const stage = await oddStage({
        async turn(_, { onEvent }) {
          await start.promise;
          for (let i = 0; i < PIECES; i++) {
            await onEvent({ type: "text", text: PIECE });
            if (hasTools) await onEvent({ type: "tool", id: `t${i}`, title: "Read", state: "running" });
            await new Promise<void>((resolve) => void stage.clock.after(1_000, resolve));
          }
          return { outcome: "done", text: PIECE.repeat(PIECES) };
        },
      });
      const { mark } = stage.store;
      const written: { at: number; length: number }[] = [];
      stage.store.mark = async (change, claim) => {
        const { partial } = change;
        if (partial !== undefined) written.push({ at: stage.clock.now(), length: partial.length });
        return mark.call(stage.store, change, claim);
      };
      const words = await stage.says("one");
      stage.gateway.turns.watch(words.turnId!, { canAnswer: false, onEvent: () => undefined });
      const startedAt = stage.clock.now();
      start.resolve();
      await stage.passes(PIECES * 1_000);
      expect((await stage.answer(words)).turn.state).toBe("answered");
      const total = written.reduce((sum, { length }) => sum + length, 0);
      // It says 32 KiB a second; written whole each second that would be 60 times as much.
      expect(total).toBeLessThan(4 * PIECES * PIECE.length);
      // What is not written yet is never more than a moment of it: at the middle, at the end.
      for (const s of [5, 60, 119]) {
        const last = written.filter(({ at }) => at <= startedAt + s * 1_000).at(-1);
        expect(last?.length).toBeGreaterThan(s * PIECE.length * 0.6);
      }
      await stage.end();
    },
    20_000,
  );

  test("F-SEC-04 T8 a short one is, at most, and what was said is durable before a tool runs", async () => {
    const said: string[] = [];
    const stage = await oddStage({
      async turn(_, { onEvent }) {
        const wait = (ms: number) => new Promise<void>((resolve) => void stage.clock.after(ms, resolve));
        for (const ms of [100, 100, 100, 1_000, 100]) {
          await onEvent({ type: "text", text: "x" });
          await wait(ms);
        }
        await onEvent({ type: "tool", id: "t", title: "Read", state: "running" });
        await onEvent({ type: "tool", id: "t", title: "Read", state: "done" });
        return { outcome: "done", text: "xxxxx" };
      },
    });
    const { mark } = stage.store;
    stage.store.mark = async (change, claim) => {
      if (change.partial !== undefined) said.push(change.partial);
      return mark.call(stage.store, change, claim);
    };
    const words = await stage.says("one");
    stage.gateway.turns.watch(words.turnId!, { canAnswer: false, onEvent: () => undefined });
    await stage.passes(3_000);
    expect((await stage.answer(words)).turn.state).toBe("answered");
    expect(said).toEqual(["x", "xxxxx"]);
    await stage.end();
  });

  test("T8 a settlement that cannot be written is tried again, ever more rarely, until it can be or all is stopped", async () => {
    const stage = await oddStage({});
    const { settle } = stage.store;
    const tries: number[] = [];
    let isBroken = true;
    stage.store.settle = async (...given) => {
      tries.push(stage.clock.now());
      if (isBroken) throw new Error("a bug");
      return settle.apply(stage.store, given);
    };
    const words = await stage.says("one");
    await stage.passes(100_000);
    const waits = tries.slice(1).map((at, n) => at - tries[n]!);
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    isBroken = false;
    await stage.passes(30_000);
    expect(await stage.answer(words)).toMatchObject({ turn: { state: "answered" } });
    isBroken = true;
    await stage.says("two");
    await stage.passes(20_000);
    await stage.end(stage.faults);
  });

  test("R4 whoever watches a turn hears its end when a reset ends it, begun or not", async () => {
    const stage = await oddStage(
      {
        async turn(_, { signal }) {
          await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
          return { outcome: "cancelled", text: "" };
        },
      },
      { turn: { busy_mode: "queue" } },
    );
    const seen: string[] = [];
    for (const text of ["one", "two"]) {
      const words = await stage.says(text);
      await stage.rests();
      stage.gateway.turns.watch(words.turnId!, {
        canAnswer: true,
        onEvent: ({ type }) => seen.push(`${text} ${type}`),
      });
    }
    await stage.says("/new");
    await stage.rests();
    expect(seen.toSorted()).toEqual(["one end", "two end"]);
    expect(stage.gateway.turns.begun).toEqual([]);
    await stage.end();
  });

  test("T3 who asks how a turn ended is refused where there is no such turn, or it cannot be read", async () => {
    const stage = await oddStage({});
    await expect(stage.gateway.turns.answerOf(4711)).rejects.toMatchObject({ code: "request_invalid" });
    const { answer } = stage.store;
    stage.store.answer = async () => {
      throw new Error("disk");
    };
    await expect(stage.gateway.turns.answerOf(1)).rejects.toThrow("disk");
    stage.store.answer = answer;
    await stage.end();
  });
});

test("H12 T7 a question that the agent takes back is not open any more, and counts for no limit", async () => {
  const back = new AbortController();
  const asking = Promise.withResolvers<void>();
  const stage = await oddStage({
    async turn(_, { onEvent }) {
      await asking.promise;
      await onEvent({ ...QUESTION, answer: () => undefined, closed: back.signal });
      return new Promise(() => undefined);
    },
  });
  const words = await stage.says("one");
  const seen: unknown[] = [];
  stage.gateway.turns.watch(words.turnId!, { canAnswer: true, onEvent: (event) => seen.push(event) });
  asking.resolve();
  await stage.rests();
  expect(seen).toMatchObject([{ type: "permission", id: "q" }]);
  back.abort();
  const late = { person: OWNER, turnId: words.turnId!, id: "q", optionId: "y" };
  expect(() => stage.gateway.turns.answerPermission(late)).toThrow("This question is not open any more.");
  await stage.passes(11 * 60_000);
  expect(await stage.answer(words)).toMatchObject({ turn: { state: "failed", reason: "timeout" } });
  await stage.end();
});

test("H12 of two open questions /allow answers the older one, and says which, and what is still asked", async () => {
  const answers: string[] = [];
  const asking = Promise.withResolvers<void>();
  const stage = await oddStage({
    async turn(_, { onEvent }) {
      await asking.promise;
      const both = ["Remove all files", "Read the weather"].map((title) => {
        const answered = Promise.withResolvers<void>();
        const answer = (option: string | null): void => {
          answers.push(`${title}: ${option}`);
          answered.resolve();
        };
        void onEvent({ ...QUESTION, id: title, title, answer });
        return answered.promise;
      });
      await Promise.all(both);
      return { outcome: "done", text: "ok" };
    },
  });
  const words = await stage.says("one");
  stage.gateway.turns.watch(words.turnId!, { canAnswer: true, onEvent: () => undefined });
  asking.resolve();
  await stage.rests();
  const reply = async (text: string): Promise<string> => {
    const said = await stage.says(text);
    await stage.rests();
    return said.kind === "command" ? renderNotice(said.reply) : said.kind;
  };
  expect(await reply("/deny")).toBe("Refused: Remove all files. The agent also asks leave: Read the weather");
  expect(await reply("/allow")).toBe("Answered: yes.");
  expect(answers).toEqual(["Remove all files: null", "Read the weather: y"]);
  expect(await stage.answer(words)).toMatchObject({ text: "ok" });
  await stage.end();
});

const OWNER: Person = { id: "owner", role: "owner" };
const QUESTION = {
  type: "permission",
  id: "q",
  title: "May I?",
  options: [{ id: "y", label: "yes", kind: "allow_once" }],
} as const;

/** A gateway whose agent does what the test says; `end` stops it and looks at what was logged. */
async function oddStage(session: Partial<AgentSession>, config: object = {}, open = (): void => undefined) {
  const folder = temporaryFolder();
  const clock = createManualClock(1_700_000_000_000);
  const faults: string[] = [];
  writeFileSync(`${folder.path}/config.yaml`, JSON.stringify({ welcome: false, ...config }));
  const opened = openSqliteStore({ path: `${folder.path}/state.db`, clock });
  const store: Store & { -readonly [Verb in "mark" | "settle" | "answer"]: Store[Verb] } = opened;
  const runtime: Runtime = {
    name: "demo",
    history: "own",
    effectsAtPrompt: "none",
    probe: async () => ({ ok: true, detail: "" }),
    forget: async () => undefined,
    close: async () => undefined,
    async open() {
      open();
      return {
        ref: "odd",
        how: "created",
        turn: async () => ({ outcome: "done", text: "ok" }),
        park: async () => undefined,
        onDead: () => () => undefined,
        ...session,
      };
    },
  };
  const gateway = new Gateway({
    config: loadConfig({ flags: { home: folder.path }, env: {} }),
    store,
    clock,
    chance: () => 0,
    runtimes: { demo: runtime },
    log: { info: () => undefined, warn: () => undefined, error: (_, message) => faults.push(message) },
  });
  await gateway.start();
  const rests = async (): Promise<void> => {
    for (let round = 0; round < 30; round++) await new Promise((resolve) => setImmediate(resolve));
  };
  const passes = async (ms: number): Promise<void> => {
    await rests();
    for (let left = ms; left > 0; left -= 1_000) {
      await clock.advance(Math.min(1_000, left));
      await rests();
    }
  };
  return {
    gateway,
    store,
    clock,
    faults,
    rests,
    passes,
    says: (text: string) =>
      gateway.doors.say({ person: OWNER, agent: "main", door: { platform: "console", name: "main" }, text }),
    /** Of a turn that has ended; it is not waited for. */
    async answer({ turnId }: { turnId: number | null }): Promise<TurnAnswer> {
      const answer = await store.answer(turnId ?? 0);
      if (answer === null) throw new Error("The turn has not ended.");
      return answer;
    },
    async end(logged: readonly string[] = []): Promise<void> {
      const stopped = gateway.stop();
      await passes(6_000);
      await stopped;
      expect(clock.pending).toBe(0);
      expect(faults).toEqual(logged);
      folder.remove();
    },
  };
}
