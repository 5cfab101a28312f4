import { describe, expect, test } from "vitest";
import { story } from "../support/harness.ts";

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
      expect(await alice.hears(words)).toContain("empty answer");
      expect(await alice.fate(words)).toMatchObject({ fate: "failed", reason: "empty" });
      expect(alice.shows()).toHaveLength(1);
      expect(await alice.transcript()).toEqual(["user: say", "mark (failed): empty"]);
      // Both tries are in the memory of the one agent.
      expect(await alice.asks("history")).toContain("you: say\nyou: say");
    }),
  );
});
