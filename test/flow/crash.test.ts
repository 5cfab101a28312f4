import { describe, expect, test } from "vitest";
import { type Door, type Story, story, type Words } from "../support/harness.ts";
import { type Death, VERBS } from "../support/mortal-store.ts";

/** Says it, and dies as planned; resolves with the words if they were heard to be taken in. */
async function saysAndDies(stage: Story, door: Door, text: string, death: Death): Promise<Words | null> {
  stage.willDie(death);
  const said = door.says(text);
  const words = await Promise.race([said, stage.death.then(() => null)]);
  await stage.rests();
  await Promise.race([stage.death, stage.passes(2_000)]);
  expect(stage.process.isDead).toBe(true);
  return words;
}

function attempts(stage: Story): (string | number | null)[] {
  return stage.sql("SELECT attempt FROM turn ORDER BY id").map((row) => row.attempt!);
}

describe("a turn without effects", () => {
  test(
    "T8 is run again once, and said once",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("slow 5");
      await stage.passes(250);
      await stage.comesBack();
      expect(await alice.hears(words)).toBe("1 2 3 4 5");
      expect(attempts(stage)).toEqual([2]);
      expect(alice.shows()).toEqual(["1 2 3 4 5"]);
      expect(await alice.transcript()).toEqual(["user: slow 5", "assistant: 1 2 3 4 5"]);
    }),
  );

  test(
    "T8 G-RUN-02: is run again once and no more: after a second crash it is interrupted, and its author told once",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("slow 5");
      for (let crash = 0; crash < 3; crash++) {
        await stage.passes(250);
        await stage.comesBack();
      }
      expect(await alice.hears(words)).toContain("The gateway was restarted before the answer was complete");
      expect(attempts(stage)).toEqual([2]);
      expect(alice.shows()).toHaveLength(1);
      expect(await alice.transcript()).toEqual(["user: slow 5", "mark (interrupted): crash"]);
    }),
  );

  test(
    "T8 what was taken in by steer is in the second run too",
    story(
      async (stage) => {
        const alice = stage.alice();
        const words = await alice.says("slow 9");
        await stage.passes(100);
        await alice.says("faster");
        await stage.passes(100);
        await stage.comesBack();
        expect(await alice.hears(words)).toContain("1 2 3");
        expect(await alice.transcript()).toEqual([
          "user: slow 9",
          "user: faster",
          expect.stringMatching(/^assistant: 1 2/),
        ]);
        expect(stage.sql("SELECT fate FROM intake")).toEqual([{ fate: "answered" }, { fate: "answered" }]);
      },
      { turn: { busy_mode: "steer" } },
    ),
  );
});

describe("a turn with effects", () => {
  test(
    "T8 of which words were shown is interrupted: what it had said is kept, and its author told once",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("slow 30");
      alice.watches(words);
      await stage.passes(2_050);
      await stage.comesBack();
      const told = await alice.hears(words);
      expect(told).toMatch(/^1 2 3 [\d ]+\n\n\(The gateway was restarted/);
      expect(await alice.answer(words)).toMatchObject({
        turn: { state: "interrupted", reason: "crash", effects: "shown" },
      });
      expect(alice.shows()).toEqual([told]);
      await stage.comesBack();
      await stage.passes(1_000);
      expect(alice.shows()).toEqual([told]);
      expect(await alice.transcript()).toEqual([
        "user: slow 30",
        expect.stringMatching(/^assistant \(interrupted\): 1 2 3/),
      ]);
    }),
  );

  test(
    "T8 whose tool may have run is never run again",
    story(async (stage) => {
      const alice = stage.alice();
      await saysAndDies(stage, alice, "tool", { moment: "before", verb: "settle" });
      expect(stage.sideEffects).toBe(1);
      await stage.comesBack();
      await stage.passes(1_000);
      expect(stage.sideEffects).toBe(1);
      expect(alice.shows()).toEqual([expect.stringContaining("The gateway was restarted")]);
    }),
  );

  test(
    "T8 nothing is shown and no tool runs before that is durable",
    story(async (stage) => {
      const alice = stage.alice();
      // The first mark is of the prompt, the second of the effect.
      await saysAndDies(stage, alice, "tool", { moment: "before", verb: "mark", skip: 1 });
      expect(stage.sideEffects).toBe(0);
      await stage.comesBack();
      await stage.passes(500);
      expect(alice.shows()).toEqual(["I counted one up: 1"]);
      const words = await alice.says("slow 5");
      await stage.rests();
      stage.willDie({ moment: "before", verb: "mark" });
      const screen = alice.watches(words);
      await stage.death;
      expect(screen.text()).toBe("");
      await stage.comesBack();
      expect(await alice.hears(words)).toBe("1 2 3 4 5");
    }),
  );

  test(
    "T8 T4 what waited runs after it, in order, at every door",
    story(async (stage) => {
      const [alice, http] = [stage.alice(), stage.alice("http")];
      const running = await alice.says("slow 30");
      alice.watches(running);
      const waiting = await alice.says("say next");
      const [slow, last] = [await http.says("slow 9"), await http.says("say last")];
      await stage.passes(150);
      await stage.comesBack();
      for (const [door, words] of [
        [alice, waiting],
        [http, slow],
        [http, last],
      ] as const)
        await door.hears(words);
      expect(alice.shows()).toEqual([expect.stringContaining("The gateway was restarted"), "next"]);
      expect(http.shows()).toEqual(["1 2 3 4 5 6 7 8 9", "last"]);
    }),
  );
});

describe("at every step of a message's way", () => {
  const deaths = ["say hello", "tool", "fail"].flatMap((text) =>
    VERBS.slice(0, 4).flatMap((verb) =>
      (["before", "after"] as const).flatMap((moment) =>
        [0, 1, 2].map((skip) => ({ text, death: { verb, moment, skip } })),
      ),
    ),
  );

  test.each(deaths)(
    "T2 T10 $text, killed $death.moment its $death.verb ($death.skip calls let through)",
    async ({ text, death }) => {
      await story(async (stage) => {
        const alice = stage.alice();
        stage.willDie(death);
        const heard = await Promise.race([alice.says(text), stage.death.then(() => null)]);
        await stage.passes(2_000);
        await stage.comesBack();
        await stage.passes(2_000);
        const fates = stage.sql("SELECT fate FROM intake");
        if (death.verb === "admit" && death.moment === "before" && death.skip === 0) {
          expect(heard).toBeNull();
          expect(fates).toEqual([]);
          return;
        }
        expect(fates).toEqual([{ fate: expect.stringMatching(/answered|failed|interrupted/) }]);
        if (heard !== null) expect((await alice.answer(heard)).turn.state).toBe(fates[0]!.fate);
        expect(alice.shows()).toHaveLength(1);
        expect(stage.sideEffects).toBeLessThanOrEqual(1);
        expect(await alice.transcript()).toHaveLength(2);
      })();
    },
  );

  test(
    "T3 T8 a client that never heard its message was taken in retries under its key, and it is run once",
    story(async (stage) => {
      const http = stage.alice("http");
      const key = { key: "k", bodyHash: "h" };
      stage.willDie({ moment: "after", verb: "admit" });
      await Promise.race([http.says("tool", key), stage.death]);
      await stage.comesBack();
      expect(await http.hears(await http.says("tool", key))).toBe("I counted one up: 1");
      expect(stage.sideEffects).toBe(1);
      expect(http.shows()).toHaveLength(1);
    }),
  );

  test(
    "T8 O4 an answer that was stored and never heard is not said again; who asks later finds it",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await saysAndDies(stage, alice, "say once", { moment: "after", verb: "settle" });
      await stage.comesBack();
      expect(await alice.hears(words!)).toBe("once");
      expect(alice.shows()).toEqual(["once"]);
      expect(attempts(stage)).toEqual([1]);
    }),
  );

  test(
    "T8 R4 a reset that was stored and never heard holds, and its first message is answered",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      const before = await alice.session();
      stage.willDie({ moment: "after", verb: "admit" });
      await Promise.race([alice.says("/new say two"), stage.death]);
      await stage.comesBack();
      await stage.passes(500);
      expect(await alice.session()).not.toBe(before);
      expect(await alice.transcript()).toEqual(["user: say two", "assistant: two"]);
    }),
  );

  test(
    "T8 a crash while taking over is one more crash, and no more",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("slow 30");
      alice.watches(words);
      await stage.passes(150);
      stage.process.kill();
      for (const moment of ["before", "after"] as const) {
        await stage.comesBack({ moment, verb: "begin" });
        await stage.death;
      }
      await stage.comesBack();
      expect(await alice.hears(words)).toContain("The gateway was restarted");
      expect(alice.shows()).toHaveLength(1);
      expect(attempts(stage)).toEqual([1]);
    }),
  );

  test(
    "T7 T8 G-RUN-02: a turn that was told to stop is not run again",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("slow 9");
      await stage.passes(100);
      stage.willDie({ moment: "after", verb: "admit" });
      await Promise.race([alice.says("/stop"), stage.death]);
      await stage.comesBack();
      expect(await alice.answer(words)).toMatchObject({ turn: { state: "interrupted", reason: "stopped" } });
      expect(alice.shows()).toEqual(["Stopped.", expect.stringContaining("The turn was stopped")]);
    }),
  );

  test(
    "T5 T8 a turn that a newer message has cut off is not run again, and the newer one is answered",
    story(
      async (stage) => {
        const alice = stage.alice();
        const words = await alice.says("slow 9");
        await stage.passes(100);
        stage.willDie({ moment: "after", verb: "admit" });
        await Promise.race([alice.says("say instead"), stage.death]);
        await stage.comesBack();
        expect(await alice.answer(words)).toMatchObject({ turn: { state: "interrupted", reason: "superseded" } });
        await stage.passes(1_000);
        expect(alice.shows().at(-1)).toBe("instead");
      },
      { turn: { busy_mode: "interrupt" } },
    ),
  );

  test(
    "H2 T8 a send that was stored and never heard has bound the room",
    story(async (stage) => {
      const [alice, http] = [stage.alice(), stage.alice("http")];
      await alice.asks("say home");
      stage.willDie({ moment: "after", verb: "admit" });
      await Promise.race([alice.sends("come in", http), stage.death]);
      await stage.comesBack();
      expect(http.shows()).toEqual(["come in"]);
      expect((await http.says("say hello")).sessionId).toBe(await alice.session());
      await stage.passes(200);
    }),
  );
});

describe("a stop in order", () => {
  test(
    "R9 T7 the running turn is interrupted with what it had said, its author told once; what waited runs after the start",
    story(async (stage) => {
      const alice = stage.alice();
      const running = await alice.says("slow 9");
      const waiting = await alice.says("say next");
      await stage.passes(250);
      await stage.restarts();
      expect(await alice.answer(running)).toMatchObject({
        turn: { state: "interrupted", reason: "shutdown" },
        text: "1 2 3",
      });
      expect(await alice.hears(waiting)).toBe("next");
      expect(alice.shows()).toEqual([expect.stringMatching(/^1 2 3\n\n\(The gateway was stopped/), "next"]);
    }),
  );

  test(
    "T2 T7 what is being taken in when it stops is interrupted, and its author told",
    story(async (stage) => {
      const alice = stage.alice();
      const { calls } = stage.process.activity;
      const saying = alice.says("hang");
      while (stage.process.activity.calls === calls) await Promise.resolve();
      await stage.restarts();
      expect(await alice.answer(await saying)).toMatchObject({ turn: { state: "interrupted", reason: "shutdown" } });
      expect(alice.shows()).toHaveLength(1);
    }),
  );

  test(
    "T7 words that come while it stops are refused, and no turn is begun",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.says("slow 3");
      await alice.says("say later");
      const stopped = stage.restarts();
      expect((await alice.isRefused("say too late")).code).toBe("gateway_stopping");
      await stopped;
      await stage.passes(3_000);
      expect(alice.shows()).toEqual([expect.stringContaining("The gateway was stopped"), "later"]);
    }),
  );
});
