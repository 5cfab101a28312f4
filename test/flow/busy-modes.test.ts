import { describe, expect, test } from "vitest";
import { type Story, story } from "../support/harness.ts";

const busy = (busy_mode: string, turn: object = {}) => ({ turn: { busy_mode, ...turn } });

describe("collect", () => {
  test(
    "T5 what is said while a turn runs is gathered into the one next turn",
    story(async (stage) => {
      const alice = stage.alice();
      const first = await alice.says("slow 3");
      const [second, third] = [await alice.says("say this"), await alice.says("and that")];
      expect(third.turnId).toBe(second.turnId);
      expect(await alice.fate(first)).toMatchObject({ fate: "running" });
      expect(await alice.fate(second)).toEqual({ fate: "waiting", position: 1 });
      expect(await alice.fate(third)).toMatchObject({ fate: "joined", turnId: second.turnId });
      expect(await alice.hears(third)).toBe("this\nand that");
      expect(alice.shows()).toEqual(["1 2 3", "this\nand that"]);
      expect(await alice.fate(third)).toEqual({ fate: "answered" });
    }),
  );

  test(
    "T5 the first message never waits; followers are waited for, but not for ever",
    story(async (stage) => {
      const alice = stage.alice();
      expect(await alice.hears(await alice.says("say at once"))).toBe("at once");
      await alice.says("slow 1");
      const joined = await alice.says("say more");
      for (let n = 0; n < 8; n++) {
        await stage.passes(700);
        await alice.says(`and ${n}`);
      }
      await stage.passes(200);
      // Five times the debounce after the first of them, the turn has begun without waiting for the rest.
      expect(await alice.hears(joined)).toBe("more\nand 0\nand 1\nand 2\nand 3\nand 4");
    }),
  );

  test(
    "T5 a follower that comes when its turn has begun waits for the next one",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.says("slow 2");
      const second = await alice.says("slow 9");
      await stage.passes(1_500);
      expect(await alice.fate(second)).toMatchObject({ fate: "running" });
      const third = await alice.says("say later");
      expect(third.turnId).not.toBe(second.turnId);
      expect(await alice.hears(third)).toBe("later");
    }),
  );

  test(
    "T5 beyond 20 waiting turns or 200 messages in one, the author is told, and the fate is refused",
    story(
      async (stage) => {
        const alice = stage.alice();
        const http = stage.alice("http");
        await alice.says("slow 3");
        await alice.says("say one");
        await alice.says("two");
        expect(await alice.isRefused("three")).toMatchObject({ code: "queue_full" });
        await http.says("slow 3");
        await http.says("say one");
        await http.says("say two");
        const refusal = await http.isRefused("say three");
        expect(refusal).toMatchObject({ code: "queue_full", status: 429 });
        expect(stage.sql("SELECT count(*) AS n FROM intake WHERE fate = 'refused' AND reason = 'queue_full'")).toEqual([
          { n: 2 },
        ]);
        await stage.passes(3_000);
        expect(alice.shows()).toEqual([expect.stringContaining("Too many messages"), "1 2 3", "one\ntwo"]);
        expect(http.shows()).toEqual([expect.stringContaining("Too many messages"), "1 2 3", "one", "two"]);
      },
      busy("collect", { max_messages_per_turn: 2, max_waiting_turns: 2 }),
    ),
  );
});

describe("queue", () => {
  test(
    "T5 every message has a turn of its own, in order",
    story(async (stage) => {
      const alice = stage.alice();
      const words = [];
      for (const text of ["slow 3", "say one", "say two"]) words.push(await alice.says(text));
      expect(new Set(words.map((said) => said.turnId)).size).toBe(3);
      expect(await alice.fate(words[2]!)).toEqual({ fate: "waiting", position: 2 });
      await alice.hears(words[2]!);
      expect(alice.shows()).toEqual(["1 2 3", "one", "two"]);
    }, busy("queue")),
  );

  test(
    "T5 over HTTP it is always queue, whatever the mode",
    story(async ({ alice }) => {
      const http = alice("http");
      await http.says("slow 3");
      const [second, third] = [await http.says("say one"), await http.says("say two")];
      expect(third.turnId).not.toBe(second.turnId);
      await http.hears(third);
      expect(http.shows()).toEqual(["1 2 3", "one", "two"]);
    }, busy("collect")),
  );
});

describe("steer", () => {
  test(
    "T5 a message is handed to the running turn",
    story(async (stage) => {
      const alice = stage.alice();
      const first = await alice.says("slow 4");
      await stage.passes(100);
      const second = await alice.says("hurry up");
      expect(await alice.hears(first)).toBe("1 2 (meanwhile you said: hurry up) 3 4");
      expect(await alice.fate(second)).toEqual({ fate: "answered" });
      expect(await alice.transcript()).toEqual(["user: slow 4", "user: hurry up", `assistant: ${alice.shows()[0]}`]);
      expect(alice.shows()).toHaveLength(1);
    }, busy("steer")),
  );

  test(
    "T5 what the agent can no longer take in waits on the next turn",
    story(async (stage) => {
      const alice = stage.alice();
      const first = await alice.says("count 3");
      const second = await alice.says("say next");
      expect(await alice.hears(first)).toBe("1 2 3");
      expect(await alice.hears(second)).toBe("next");
    }, busy("steer")),
  );

  test(
    "T4 T5 a later message never overtakes one that could not be handed over",
    story(async (stage) => {
      const alice = stage.alice();
      // The second comes before the prompt is written, the third when the agent listens.
      const asked = await Promise.all([alice.says("slow 4"), alice.says("say second")]);
      await stage.passes(100);
      const third = await alice.says("third");
      expect(await alice.hears(asked[0]!)).toBe("1 2 3 4");
      expect(await alice.hears(third)).toBe("second\nthird");
      expect(await alice.transcript()).toEqual([
        "user: slow 4",
        "assistant: 1 2 3 4",
        "user: say second",
        "user: third",
        "assistant: second\nthird",
      ]);
    }, busy("steer")),
  );

  test(
    "T5 who waits for the answer to a message that was handed over hears the answer of the running turn",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.says("slow 4");
      await stage.passes(100);
      const second = await alice.says("hurry up");
      expect(await alice.hears(second)).toContain("meanwhile you said: hurry up");
    }, busy("steer")),
  );
});

describe("F-TRN-03 T5 however a turn ends, what was handed to it and the agent has not read is the head of the queue", () => {
  /** Between two looks of the agent into its inbox. */
  const handed = async (stage: Story) => {
    const alice = stage.alice();
    const first = await alice.says("slow 50");
    alice.watches(first);
    await stage.passes(950);
    const second = await alice.says("say unread");
    await stage.rests();
    return { alice, first, second };
  };

  test.each<[string, (stage: Story) => Promise<unknown>, string]>([
    ["/stop", (stage) => stage.alice().says("/stop"), "stopped"],
    ["SIGTERM", (stage) => stage.restarts(), "shutdown"],
    ["a crash", (stage) => stage.comesBack(), "crash"],
    ["its limit", (stage) => stage.passes(100), "timeout"],
  ])("F-TRN-03 T5 %s", async (_, ends, reason) => {
    await story(
      async (stage) => {
        const { alice, first, second } = await handed(stage);
        await ends(stage);
        await alice.says("say later");
        expect(await alice.hears(second)).toBe("unread\nsay later");
        const { turn } = await alice.answer(first);
        expect(turn.reason ?? turn.state).toBe(reason);
        expect(await alice.fate(second)).toEqual({ fate: "answered" });
      },
      { turn: { busy_mode: "steer", turn_timeout: reason === "timeout" ? "970ms" : "2h" } },
    )();
  });

  test(
    "F-TRN-03 T5 R4 /new tells apart what was running and what nobody has read",
    story(async (stage) => {
      const { alice, second } = await handed(stage);
      await alice.says("/new");
      await stage.quiets();
      expect(await alice.fate(second)).toEqual({ fate: "withdrawn", reason: "reset" });
      expect(alice.shows().slice(0, 2)).toEqual([
        expect.stringMatching(/^1.*was reset before the answer was complete/s),
        expect.stringContaining("A waiting message was withdrawn"),
      ]);
    }, busy("steer")),
  );

  test(
    "F-TRN-03 T5 what the agent has read is of the turn, and ends with it; what came after that waits",
    story(async (stage) => {
      const { alice, second } = await handed(stage);
      await stage.passes(100);
      const third = await alice.says("say third");
      await stage.rests();
      await alice.says("/stop");
      expect(await alice.hears(third)).toBe("third");
      expect(await alice.fate(second)).toEqual({ fate: "interrupted", reason: "stopped" });
    }, busy("steer")),
  );
});

describe("interrupt", () => {
  test(
    "T5 the running turn is cancelled, what it had said is kept, and the new message is answered",
    story(
      async (stage) => {
        const alice = stage.alice();
        const first = await alice.says("slow 9");
        await stage.passes(250);
        const second = await alice.says("say instead");
        expect(await alice.hears(second)).toBe("instead");
        expect(await alice.answer(first)).toMatchObject({
          turn: { state: "interrupted", reason: "superseded" },
          text: "1 2 3",
        });
        expect(await alice.transcript()).toEqual([
          "user: slow 9",
          "assistant (interrupted): 1 2 3",
          "user: say instead",
          "assistant: instead",
        ]);
        expect(alice.shows()).toEqual([expect.stringMatching(/^1 2 3\n\n\(A newer message interrupted/), "instead"]);
      },
      busy("interrupt", { debounce_ms: 0 }),
    ),
  );

  test(
    "T5 older waiting turns still go first",
    story(
      async (stage) => {
        const alice = stage.alice();
        const bound = stage.alice("http");
        await alice.asks("say home");
        await alice.sends("come in", bound);
        const running = await alice.says("slow 9");
        const waiting = await bound.says("say older");
        await stage.passes(100);
        const newer = await alice.says("say newer");
        await alice.hears(newer);
        expect(await alice.answer(running)).toMatchObject({ turn: { state: "interrupted" } });
        expect(waiting.turnId!).toBeLessThan(newer.turnId!);
        const begun = stage.lives
          .flat()
          .flatMap((event) => (event.name === "turn:begun" ? [event.payload.turn.id] : []));
        expect(begun.slice(-2)).toEqual([waiting.turnId, newer.turnId]);
      },
      busy("interrupt", { debounce_ms: 0 }),
    ),
  );

  test(
    "T5 T7 a turn that is begun and not yet at its agent is cancelled as well",
    story(
      async (stage) => {
        const alice = stage.alice();
        const [first, second] = await Promise.all([alice.says("slow 9"), alice.says("say instead")]);
        expect(await alice.hears(second!)).toBe("instead");
        expect(await alice.answer(first!)).toMatchObject({ turn: { state: "interrupted" }, text: "" });
      },
      busy("interrupt", { debounce_ms: 0 }),
    ),
  );
});

describe("reject", () => {
  test(
    "T5 who speaks while a turn runs is told once that the agent is busy, and can speak again when it is over",
    story(async (stage) => {
      const alice = stage.alice();
      const first = await alice.says("slow 3");
      for (const text of ["say one", "say two"]) expect((await alice.isRefused(text)).code).toBe("busy");
      await alice.hears(first);
      expect(alice.shows()).toEqual([expect.stringContaining("I am busy"), "1 2 3"]);
      expect(await alice.asks("say three")).toBe("three");
      await alice.says("slow 2");
      expect((await alice.isRefused("say four")).code).toBe("busy");
      await stage.passes(300);
      expect(alice.shows().filter((line) => line.includes("I am busy"))).toHaveLength(2);
      expect(await alice.transcript()).toEqual([
        "user: slow 3",
        "assistant: 1 2 3",
        "user: say three",
        "assistant: three",
        "user: slow 2",
        "assistant: 1 2",
      ]);
    }, busy("reject")),
  );
});

describe("order", () => {
  test(
    "T4 messages of one conversation are answered in the order they were taken in, also when the clock goes back",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.says("slow 3");
      await alice.says("say one");
      stage.jumps(-3_600_000);
      await alice.says("say two");
      const last = await alice.says("say three");
      stage.jumps(3_600_000);
      await alice.hears(last);
      expect(alice.shows()).toEqual(["1 2 3", "one", "two", "three"]);
    }, busy("queue")),
  );

  test(
    "T1 doors that share a session have one turn at a time in it",
    story(async (stage) => {
      const [alice, http] = [stage.alice(), stage.alice("http")];
      await alice.asks("say home");
      await alice.sends("come in", http);
      const asked = await Promise.all([alice.says("slow 3"), http.says("slow 4"), alice.says("say last")]);
      for (const words of asked) await alice.hears(words);
      expect(http.shows()).toEqual(["come in", "1 2 3 4"]);
      expect(alice.shows()).toEqual(["home", "1 2 3", "last"]);
      expect((await alice.transcript()).slice(-6)).toEqual([
        "user: slow 3",
        "assistant: 1 2 3",
        "user: slow 4",
        "assistant: 1 2 3 4",
        "user: say last",
        "assistant: last",
      ]);
    }),
  );
});
