import { describe, expect, test } from "vitest";
import { Door, story } from "../support/harness.ts";

const TWO_AGENTS = { agents: { main: { runtime: { kind: "demo" } }, ada: { runtime: { kind: "demo" } } } };

describe("doors", () => {
  test(
    "K19 every door has its own conversation, and its own session",
    story(async ({ alice }) => {
      const terminal = alice();
      const http = alice("http");
      expect(await terminal.asks("say hello")).toBe("hello");
      expect(await http.asks("say good day")).toBe("good day");
      expect(terminal.key).toBe("agent:main:console:dm:owner%2Fmain");
      expect(http.key).toBe("agent:main:http:dm:owner%2Fmain");
      expect(await http.session()).not.toBe(await terminal.session());
      expect(await terminal.transcript()).toEqual(["user: say hello", "assistant: hello"]);
      expect(await http.transcript()).toEqual(["user: say good day", "assistant: good day"]);
      expect(terminal.shows()).toEqual(["hello"]);
    }),
  );

  test(
    "K19 a second name at the same door is another conversation",
    story(async ({ alice }) => {
      await alice().asks("say one");
      await alice("console", { name: "work" }).asks("say two");
      expect(alice().shows()).toEqual(["one"]);
      expect(alice("console", { name: "work" }).shows()).toEqual(["two"]);
    }),
  );

  test(
    "K19 two people at doors of the same name do not meet",
    story(async ({ alice, bob }) => {
      await alice().asks("say for Alice");
      expect(await bob().asks("history")).toBe("Earlier messages: 0");
      expect(await alice().session()).not.toBe(await bob().session());
      expect(bob().shows()).toEqual(["Earlier messages: 0"]);
    }),
  );

  test(
    "K19 a person reaches no conversation of somebody else by its key; the owner does, and the answer goes to that door",
    story(async (stage) => {
      const [alice, bob] = [stage.alice(), stage.bob()];
      await alice.asks("say mine");
      await bob.asks("say his");
      await expect(bob.speaksInto(alice, "history")).rejects.toMatchObject({ code: "forbidden" });
      await stage.waitsFor(stage.gateway.turns.answerOf((await alice.speaksInto(bob, "say from Alice")).turnId!));
      expect(bob.shows()).toEqual(["his", "from Alice"]);
      expect(alice.shows()).toEqual(["mine"]);
      expect(await bob.transcript()).toEqual([
        "user: say his",
        "assistant: his",
        "user: say from Alice",
        "assistant: from Alice",
      ]);
    }),
  );

  test(
    "K20 two agents at one door share neither session nor place",
    story(async ({ alice }) => {
      const [main, ada] = [alice(), alice("console", { agent: "ada" })];
      await main.asks("say I am main");
      expect(await ada.asks("history")).toBe("Earlier messages: 0");
      expect(main.shows()).toEqual(["I am main"]);
      expect(ada.shows()).toEqual(["Earlier messages: 0"]);
      await expect(
        new Door(alice().story, { person: main.person, platform: "console", agent: "nobody" }).says("hi"),
      ).rejects.toMatchObject({ code: "agent_unknown" });
    }, TWO_AGENTS),
  );

  test(
    "S5 what two people ask at the same moment is answered to each at his own door",
    story(async ({ alice, bob }) => {
      const asked = await Promise.all([alice().says("slow 3"), bob().says("slow 5"), alice("http").says("say quick")]);
      const heard = [
        await alice().hears(asked[0]!),
        await bob().hears(asked[1]!),
        await alice("http").hears(asked[2]!),
      ];
      expect(heard).toEqual(["1 2 3", "1 2 3 4 5", "quick"]);
      expect([alice().shows(), bob().shows(), alice("http").shows()]).toEqual([["1 2 3"], ["1 2 3 4 5"], ["quick"]]);
    }),
  );

  test(
    "B3 a second message starts no second agent",
    story(async ({ alice, gateway }) => {
      await alice().asks("say one");
      await alice().asks("say two");
      expect(gateway.pool.counters).toMatchObject({ opened: 1, parked: 0 });
    }),
  );

  test(
    "B4 an agent that nobody needs is parked, and told what was said before when it is needed again",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say remember this");
      await stage.passes(61 * 60_000);
      expect(stage.gateway.pool.list()).toEqual([]);
      expect(await alice.asks("history")).toBe("Earlier messages: 2\nyou: say remember this\nme: remember this");
      expect(stage.gateway.pool.counters).toMatchObject({ opened: 2, parked: 1 });
    }),
  );

  test(
    "B4 with one place for an agent, the doors are served one after the other",
    story(
      async ({ alice, bob, gateway }) => {
        const [slow, quick] = [await alice().says("slow 5"), await bob().says("say quick")];
        expect(await bob().hears(quick)).toBe("quick");
        expect(await alice().hears(slow)).toBe("1 2 3 4 5");
        expect(alice().shows()).toEqual(["1 2 3 4 5"]);
        expect(gateway.pool.counters).toMatchObject({ opened: 2, evicted: 1 });
      },
      { pool: { max_warm: 1 } },
    ),
  );

  test(
    "O6 who watches a turn sees its words as they come, and a late one sees them from the first",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("slow 4");
      const early = alice.watches(words);
      await stage.passes(100);
      const late = alice.watches(words);
      await stage.rests();
      expect(late.text()).toBe(early.text());
      expect(early.text()).not.toBe("");
      expect(await alice.hears(words)).toBe("1 2 3 4");
      expect([early.text(), late.text()]).toEqual(["1 2 3 4", "1 2 3 4"]);
      expect(early.seen.at(-1)).toMatchObject({ type: "end" });
    }),
  );

  test(
    "O6 who stops watching does not stop the turn",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("slow 3");
      const screen = alice.watches(words);
      await stage.passes(100);
      screen.stop();
      expect(await alice.hears(words)).toBe("1 2 3");
      expect(screen.text()).not.toBe("1 2 3");
    }),
  );

  test(
    "S6 an empty message is refused before anything is stored",
    story(async ({ alice, gateway }) => {
      expect((await alice().isRefused(" \n\u0000".replace("\u0000", ""))).code).toBe("request_invalid");
      expect(await gateway.reader.counts()).toMatchObject({ conversations: 0, messages: 0 });
    }),
  );
});

describe("retries", () => {
  const key = { key: "k1", bodyHash: "h1" };

  test(
    "T3 a retry under the same Idempotency-Key attaches to the running turn",
    story(async ({ alice }) => {
      const http = alice("http");
      const [first, second] = [await http.says("slow 3", key), await http.says("slow 3", key)];
      expect(second).toMatchObject({ messageId: first.messageId, turnId: first.turnId });
      expect(await http.hears(second)).toBe("1 2 3");
      expect(http.shows()).toEqual(["1 2 3"]);
    }),
  );

  test(
    "T3 a retry of an answered message returns the stored answer, also after a restart",
    story(async (stage) => {
      const http = stage.alice("http");
      await http.hears(await http.says("tool", key));
      await stage.restarts();
      expect(await http.hears(await http.says("tool", key))).toBe("I counted one up: 1");
      expect(stage.sideEffects).toBe(1);
    }),
  );

  test(
    "T3 a retry of a failed message is not run again",
    story(async (stage) => {
      const http = stage.alice("http");
      const first = await http.says("fail", key);
      const told = await http.hears(first);
      const again = await http.says("fail", key);
      expect(again.turnId).toBe(first.turnId);
      expect(await http.hears(again)).toBe(told);
    }),
  );

  test(
    "T3 a retry of a command returns its stored reply and has no second effect",
    story(async (stage) => {
      const http = stage.alice("http");
      await http.asks("say one");
      const first = await http.says("/new", key);
      const session = await http.session();
      expect(await http.says("/new", key)).toMatchObject({ messageId: first.messageId, reply: first.reply });
      expect(await http.session()).toBe(session);
    }),
  );

  test(
    "T3 another body under a known key is refused, and the same key of another person is his own",
    story(async ({ alice, bob }) => {
      await alice("http").hears(await alice("http").says("say one", key));
      await expect(alice("http").says("say two", { ...key, bodyHash: "h2" })).rejects.toMatchObject({
        code: "idempotency_conflict",
      });
      expect(await bob("http").hears(await bob("http").says("say mine", key))).toBe("mine");
    }),
  );
});

// Whatever stands in words, they are words: known commands and unknown ones, alone and above more, at each own door.
describe("F-TTY-02 S7: words are never a command", () => {
  test.each(["/new", "/new\nmore", "/status", "/nothing", "  /stop "])("F-TTY-02 S7 %j", (text) =>
    story(async ({ alice, gateway }) => {
      const terminal = alice();
      await terminal.asks("say before");
      const session = await terminal.session();
      const person = { id: "owner", role: "owner" } as const;
      for (const platform of ["console", "web", "http"] as const) {
        const door = { platform, name: "main" };
        const said = await gateway.doors.say({ person, agent: "main", door, text, as: "words" });
        expect(said.kind).toBe("turn");
        expect((await gateway.turns.answerOf(said.turnId!)).text).toContain(`You said: ${text}`);
      }
      expect(await terminal.session()).toBe(session);
      const typed = await gateway.doors.say({
        person,
        agent: "main",
        door: { platform: "console", name: "main" },
        text,
      });
      expect(typed.kind).toBe("command");
    })(),
  );
});
