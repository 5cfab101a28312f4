import { describe, expect, test } from "vitest";
import { type Story, story } from "../support/harness.ts";

const MINUTE = 60_000;
const TWO_AGENTS = { agents: { main: { runtime: { kind: "demo" } }, ada: { runtime: { kind: "demo" } } } };

/** Alice has spoken at her terminal, and sent a word into the room from there. */
async function handedOff(stage: Story) {
  const [terminal, room] = [stage.alice(), stage.alice("web", { name: "room" })];
  await terminal.asks("say home");
  const binding = await terminal.sends("I am here now", room);
  return { terminal, room, binding, session: await terminal.session() };
}

describe("a send", () => {
  test(
    "H1 speaks in the room as the agent: once in the place, and as an entry of its session",
    story(async (stage) => {
      const { terminal, room, session, binding } = await handedOff(stage);
      expect(room.shows()).toEqual(["I am here now"]);
      expect(terminal.shows()).toEqual(["home"]);
      expect(await terminal.transcript()).toEqual([
        "user: say home",
        "assistant: home",
        "assistant (sent): I am here now",
      ]);
      expect(stage.sql("SELECT author_kind, author_id FROM message WHERE body = 'I am here now'")).toEqual([
        { author_kind: "agent", author_id: "main" },
      ]);
      expect(binding).toMatchObject({ kind: "live", sessionId: session, conversationKey: room.key });
    }),
  );

  test(
    "H2 H6 what is said in the room is then a turn in that session, answered in the room and seen at its home",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      const words = await room.says("say from the room");
      expect(words.sessionId).toBe(session);
      expect(await room.hears(words)).toBe("from the room");
      expect(room.shows()).toEqual(["I am here now", "from the room"]);
      expect(terminal.shows()).toEqual(["home"]);
      expect((await terminal.transcript()).slice(-2)).toEqual(["user: say from the room", "assistant: from the room"]);
      const seenAtHome = stage.lives
        .flat()
        .filter(({ payload }) => "homeKey" in payload && payload.homeKey === terminal.key);
      expect(seenAtHome.filter(({ name }) => name === "turn:settled")).toHaveLength(2);
    }),
  );

  test(
    "H2 the terminal's next turn knows what the room said, warm and after a restart",
    story(async (stage) => {
      const { terminal, room } = await handedOff(stage);
      await room.asks("say the answer is 42");
      const told = [
        "you: say home",
        "me: home",
        "me: [YOU] (said elsewhere, web) I am here now",
        "you: say the answer is 42",
        "me: the answer is 42",
      ];
      expect((await terminal.asks("history")).split("\n").slice(1)).toEqual(told);
      await stage.restarts();
      expect((await terminal.asks("history")).split("\n").slice(1, 6)).toEqual(told);
    }),
  );

  test(
    "H5 without a session nothing is bound; with one that nobody knows it is refused",
    story(async (stage) => {
      const [terminal, room] = [stage.alice(), stage.alice("web")];
      await terminal.asks("say home");
      expect(await terminal.sends("just so you know", room, null)).toBeNull();
      expect((await room.says("say hello")).sessionId).not.toBe(await terminal.session());
      await expect(terminal.sends("lost", room, "nobody's")).rejects.toMatchObject({ code: "session_unknown" });
      await stage.passes(100);
      expect(room.shows()).toEqual(["just so you know", "hello"]);
    }),
  );

  test(
    "H7 only the owner of a session binds it, and only rooms of his own are his to speak in",
    story(async (stage) => {
      const [alice, bob] = [stage.alice(), stage.bob()];
      await alice.asks("say mine");
      await bob.asks("say his");
      await expect(bob.sends("let me in", bob, await alice.session())).rejects.toMatchObject({ code: "forbidden" });
      await expect(bob.sends("hello", alice)).rejects.toMatchObject({ code: "forbidden" });
      expect(await stage.gateway.reader.bindings({})).toEqual([]);
    }),
  );

  test(
    "H9 a session is bound only where its own agent speaks, and never to its own home",
    story(async (stage) => {
      const [terminal, ada] = [stage.alice(), stage.alice("web", { agent: "ada" })];
      await terminal.asks("say home");
      await expect(terminal.sends("hello", ada)).rejects.toMatchObject({ code: "agent_mismatch" });
      expect(await terminal.sends("to myself", terminal)).toBeNull();
      await expect(terminal.binds(await terminal.session(), "pinned")).rejects.toMatchObject({
        code: "request_invalid",
      });
    }, TWO_AGENTS),
  );

  test(
    "H9 a session that has ended is not bound",
    story(async (stage) => {
      const [terminal, room] = [stage.alice(), stage.alice("web")];
      await terminal.asks("say home");
      const session = await terminal.session();
      await terminal.asks("/new");
      await expect(terminal.sends("late", room, session)).rejects.toMatchObject({ code: "session_ended" });
    }),
  );
});

describe("the end of a handoff", () => {
  test(
    "H2 H3 it ends by the clock, an hour after the last send, and the room speaks in its own session again",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      stage.jumps(60 * MINUTE - 1);
      const last = await room.says("say still bound");
      expect(last.sessionId).toBe(session);
      await room.hears(last);
      stage.jumps(1);
      const own = await room.says("say on my own");
      expect(own.sessionId).toBe(await room.session());
      expect(own.sessionId).not.toBe(session);
      await room.hears(own);
      expect((await terminal.transcript()).join()).not.toContain("on my own");
    }),
  );

  test(
    "H2 a further send renews it; words in the room do not",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      await stage.passes(40 * MINUTE);
      await room.asks("say hello");
      await terminal.sends("still here", room);
      await stage.passes(40 * MINUTE);
      expect((await room.says("say bound")).sessionId).toBe(session);
      await stage.passes(30 * MINUTE);
      expect((await room.says("say alone")).sessionId).not.toBe(session);
    }),
  );

  test(
    "H2 a clock that steps back a minute keeps it; from further in the future it is void",
    story(async (stage) => {
      const { room, session } = await handedOff(stage);
      stage.jumps(-MINUTE);
      const words = await room.says("say bound");
      expect(words.sessionId).toBe(session);
      await room.hears(words);
      stage.jumps(-(5 * MINUTE));
      expect((await room.says("say alone")).sessionId).not.toBe(session);
      expect(await stage.gateway.reader.bindings({})).toEqual([]);
    }),
  );

  test(
    "H3 it ends by hand; the room's own session is told once that it has spoken elsewhere, and why not any more",
    story(async (stage) => {
      const { room, session } = await handedOff(stage);
      await room.clears();
      await room.asks("say on my own");
      const own = await room.session();
      expect(own).not.toBe(session);
      await room.binds(session, "live");
      await room.asks("say bound");
      expect(await room.clears()).toBe(true);
      expect(await room.clears()).toBe(false);
      expect(await room.asks("hello")).toContain(`Note: this door spoke in session ${session} for a while`);
      expect(await room.asks("hello")).not.toContain("for a while");
    }),
  );

  test(
    "H3 what waits when it ends stays where it was admitted; what comes after is resolved afresh, and still answered in order",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      await terminal.says("slow 5");
      const waiting = await room.says("say bound");
      await room.clears();
      const joining = await room.says("and this");
      expect([waiting.sessionId, joining.sessionId]).toEqual([session, session]);
      await stage.passes(1_400);
      const own = await room.says("say alone");
      expect(own.sessionId).not.toBe(session);
      await room.hears(own);
      expect(room.shows()).toEqual(["I am here now", "bound\nand this", "alone"]);
    }),
  );

  test(
    "H10 when the bound session was set aside, the message is answered in the room's own, and both doors are told once",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      for (let n = 0; n < 3; n++) await terminal.asks("gone");
      const words = await room.says("say on my own");
      expect(words.sessionId).not.toBe(session);
      await room.hears(words);
      await room.asks("say again");
      const ended = (line: string): boolean => line.includes(`session ${session} has ended`);
      expect(room.shows().filter(ended)).toHaveLength(1);
      expect(terminal.shows().filter(ended)).toHaveLength(1);
      expect(room.shows().at(-1)).toBe("again");
    }),
  );

  test(
    "H9 when its home begins anew, the room is told once and speaks in its own session again",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      await terminal.asks("/new");
      const words = await room.says("say on my own");
      expect(words.sessionId).toBe(await room.session());
      await room.hears(words);
      expect(room.shows()).toEqual([
        "I am here now",
        expect.stringContaining(`Session ${session}, in which this door was speaking, has ended`),
        "on my own",
      ]);
    }),
  );

  test(
    "H9 when the session is due for a reset, the room falls back, and its home resets it with its own next message",
    story(
      async (stage) => {
        const { terminal, room, session } = await handedOff(stage);
        await stage.passes(31 * MINUTE);
        expect((await room.says("say on my own")).sessionId).not.toBe(session);
        expect(await terminal.session()).toBe(session);
        await terminal.asks("say back");
        expect(await terminal.session()).not.toBe(session);
      },
      { reset: { default: { mode: "idle", idle_minutes: 30 } } },
    ),
  );
});

describe("commands in a bound room", () => {
  test(
    "H9 /new acts on the room: it is unbound, its own turns in the foreign session end, and the home goes on",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      await room.says("slow 9");
      const home = await terminal.says("say still at home");
      const waiting = await room.says("say lost");
      await stage.passes(100);
      await room.asks("/new");
      expect(await terminal.hears(home)).toBe("still at home");
      expect(await room.answer(waiting)).toMatchObject({ turn: { state: "withdrawn", reason: "reset" } });
      expect(await terminal.session()).toBe(session);
      const words = await room.says("say fresh");
      expect(words.sessionId).not.toBe(session);
      expect(await room.hears(words)).toBe("fresh");
      expect(await stage.gateway.reader.bindings({})).toEqual([]);
    }),
  );

  test(
    "H9 /stop stops only a turn of this conversation",
    story(async (stage) => {
      const { terminal, room } = await handedOff(stage);
      const home = await terminal.says("slow 3");
      const waiting = await room.says("say next");
      expect(await room.asks("/stop")).toBe("There was nothing to stop.");
      expect(await terminal.hears(home)).toBe("1 2 3");
      expect(await room.hears(waiting)).toBe("next");
      const hanging = await room.says("hang");
      expect(await terminal.asks("/stop")).toBe("There was nothing to stop.");
      expect(await room.asks("/stop")).toBe("Stopped.");
      expect(await room.answer(hanging)).toMatchObject({ turn: { state: "interrupted", reason: "stopped" } });
    }),
  );
});

describe("bindings", () => {
  test(
    "H4 of two agents never touch each other",
    story(async (stage) => {
      const doors = ["main", "ada"].map((agent) => ({
        home: stage.alice("console", { agent }),
        room: stage.alice("web", { agent }),
      }));
      for (const { home, room } of doors) {
        await home.asks(`say I am ${home.agent}`);
        await home.sends(`${home.agent} is here`, room);
      }
      const [main, ada] = doors as [(typeof doors)[0], (typeof doors)[0]];
      await main.room.clears();
      expect((await main.room.says("say alone")).sessionId).not.toBe(await main.home.session());
      expect((await ada.room.says("say bound")).sessionId).toBe(await ada.home.session());
      await stage.passes(200);
      expect(main.room.shows()).toEqual(["main is here", "alone"]);
      expect(ada.room.shows()).toEqual(["ada is here", "bound"]);
    }, TWO_AGENTS),
  );

  test(
    "H4 a live one overrides a pinned one while it is valid, and leaves it in place",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      const work = stage.alice("console", { name: "work" });
      await work.asks("say at work");
      const speaksIn = async (text: string): Promise<string | null> => {
        const words = await room.says(text);
        await room.hears(words);
        return words.sessionId;
      };
      await room.binds(await work.session(), "pinned");
      expect(await speaksIn("say live")).toBe(session);
      await stage.passes(61 * MINUTE);
      expect(await speaksIn("say pinned")).toBe(await work.session());
      stage.jumps(100_000 * MINUTE);
      expect(await speaksIn("say pinned for ever")).toBe(await work.session());
      await terminal.sends("live again", room);
      expect(await speaksIn("say live")).toBe(session);
      await room.clears();
      expect(await speaksIn("say alone")).toBe(await room.session());
      expect(await stage.gateway.reader.bindings({})).toEqual([]);
    }),
  );

  test(
    "H4 the configured session is the lowest layer, and never a row",
    story(
      async (stage) => {
        const [terminal, room] = [stage.alice(), stage.alice("web")];
        await terminal.asks("say home");
        expect(await terminal.session()).toBe("s1");
        expect((await room.says("say by default")).sessionId).toBe("s1");
        expect(await stage.gateway.reader.bindings({})).toEqual([]);
        await terminal.asks("/new");
        const words = await room.says("say alone");
        expect(words.sessionId).toBe(await room.session());
        expect(await room.hears(words)).toBe("alone");
      },
      { agents: { main: { runtime: { kind: "demo" }, default_session: "s1" } } },
    ),
  );

  test(
    "H8 the same works from any door to any other",
    story(async (stage) => {
      const [http, terminal] = [stage.alice("http"), stage.alice()];
      await http.asks("say from http");
      await http.sends("look here", terminal);
      expect(await terminal.asks("history")).toContain("me: from http");
      expect(terminal.shows()[0]).toBe("look here");
    }),
  );

  test(
    "H2 a message that joins a waiting turn follows that turn; a new turn is resolved afresh",
    story(async (stage) => {
      const { terminal, room, session } = await handedOff(stage);
      await room.clears();
      const own = await room.says("slow 5");
      const waiting = await room.says("say one");
      await terminal.sends("come over", room);
      expect((await room.says("two")).turnId).toBe(waiting.turnId);
      expect(waiting.sessionId).toBe(own.sessionId);
      expect(await room.hears(waiting)).toBe("one\ntwo");
      expect((await room.says("say three")).sessionId).toBe(session);
    }),
  );

  test(
    "T4 H2 a room that was bound meanwhile is still answered in order, across both sessions",
    story(async (stage) => {
      const [terminal, room] = [stage.alice(), stage.alice("web")];
      await terminal.asks("say home");
      const slow = await room.says("slow 5");
      await terminal.sends("come over", room);
      const quick = await room.says("say quick");
      expect(quick.sessionId).toBe(await terminal.session());
      expect(await room.hears(quick)).toBe("quick");
      expect(await room.hears(slow)).toBe("1 2 3 4 5");
      expect(room.shows()).toEqual(["come over", "1 2 3 4 5", "quick"]);
    }),
  );
});

describe("what a session has not seen", () => {
  test(
    "H11 after fallback the room's own session is given what was said meanwhile, the agent's words included",
    story(async (stage) => {
      const [terminal, room] = [stage.alice(), stage.alice("web")];
      await room.asks("say before");
      await terminal.asks("say home");
      await terminal.sends("I am here now", room);
      await room.asks("say meanwhile");
      await room.clears();
      const prompt = await promptOf(stage, room.asks("say after"));
      expect(roomLines(prompt)).toEqual(["| [YOU] I am here now", "| [Alice] say meanwhile", "| [YOU] meanwhile"]);
      expect(roomLines(await promptOf(stage, room.asks("say more")))).toEqual([]);
    }),
  );

  test(
    "H11 so it is when the room had no session of its own before",
    story(async (stage) => {
      const { room } = await handedOff(stage);
      await room.asks("say meanwhile");
      await room.clears();
      const prompt = await promptOf(stage, room.asks("say after"));
      expect(roomLines(prompt)).toEqual(["| [YOU] I am here now", "| [Alice] say meanwhile", "| [YOU] meanwhile"]);
    }),
  );

  test(
    "H11 the bound session is given the lines of the room that it has not seen, but not its own",
    story(async (stage) => {
      const [terminal, room] = [stage.alice(), stage.alice("web")];
      await room.asks("say room talk");
      await terminal.asks("say home");
      await terminal.sends("I am here now", room);
      const prompt = await promptOf(stage, room.asks("say bound"));
      const block = prompt.slice(prompt.findIndex((line) => line.startsWith("--- facts")));
      expect(roomLines(block)).toEqual(["| [Alice] say room talk", "| [YOU] room talk"]);
      expect(prompt.join("\n")).toContain("Handoff: this message comes from another door");
      expect(roomLines(await promptOf(stage, terminal.asks("say at home")))).toEqual([]);
    }),
  );

  test(
    "H11 R4 what stood in the room before /new never comes back as news",
    story(async (stage) => {
      const { room } = await handedOff(stage);
      await room.asks("say old");
      await room.asks("/new");
      const prompt = await promptOf(stage, room.asks("say new"));
      expect(roomLines(prompt)).toEqual([]);
    }),
  );

  test(
    "H11 a message that waits, and a command, are no lines of the room",
    story(async (stage) => {
      const { terminal, room } = await handedOff(stage);
      await room.asks("/status");
      await terminal.says("slow 3");
      const [first, second] = [
        await room.says("say one"),
        await stage.alice("web", { name: "other" }).says("say elsewhere"),
      ];
      await room.hears(first);
      expect(second.turnId).not.toBe(first.turnId);
      const [row] = stage.sql<{ prompt: string }>("SELECT prompt FROM turn WHERE id = ?", first.turnId);
      expect(roomLines(row!.prompt.split("\n"))).toEqual([]);
    }),
  );
});

/** The lines of the last prompt, once it has been answered. */
async function promptOf(stage: Story, asked: Promise<string>): Promise<string[]> {
  await asked;
  return stage.lastPrompt().split("\n");
}

/** Those that tell what was said in the room. */
function roomLines(prompt: readonly string[]): string[] {
  return prompt.filter((line) => line.startsWith("|"));
}

describe("whose session it is", () => {
  test(
    "H7 a session speaks at another person's door only when that is said, and then nothing else of it is shared",
    story(async (stage) => {
      const [alice, bob] = [stage.alice(), stage.bob()];
      await alice.asks("say my secret is 42");
      await bob.asks("say hello");
      await expect(alice.sends("Hello Bob", bob, undefined, false)).rejects.toMatchObject({ code: "not_shared" });
      await expect(bob.binds(await alice.session(), "pinned")).rejects.toMatchObject({ code: "forbidden" });
      expect(await bob.asks("history")).not.toContain("secret");
      expect(await alice.sends("Hello Bob", bob)).toMatchObject({ shared: true });
    }),
  );

  test(
    "H4 H7 a configured session is the lowest layer for its own person only, and not once it is suspended",
    story(
      async (stage) => {
        const [alice, web, bob] = [stage.alice(), stage.alice("web"), stage.bob()];
        await alice.asks("say my secret is 42");
        expect(await alice.session()).toBe("s1");
        expect((await web.says("say from the web")).sessionId).toBe("s1");
        const words = await bob.says("history");
        expect(words.sessionId).not.toBe("s1");
        expect(await bob.hears(words)).not.toContain("secret");
        expect(await bob.asks("/status")).not.toContain("s1");
      },
      { agents: { main: { runtime: { kind: "demo" }, default_session: "s1" } } },
    ),
  );

  test(
    "K12 O2 words of the owner at another person's door stay that person's conversation",
    story(
      async (stage) => {
        const [alice, bob] = [stage.alice(), stage.bob()];
        await alice.asks("say my secret is 42");
        await bob.asks("say hello");
        const { gateway } = stage;
        const key = "agent:main:console:dm:bob%2Fmain";
        const said = await gateway.doors.say({
          person: { id: "owner", role: "owner" },
          agent: "main",
          door: { key },
          text: "history",
        });
        if (said.kind !== "turn") throw new Error(said.kind);
        expect(said.key).toBe("agent:main:person:bob");
        expect((await gateway.turns.answerOf(said.turnId)).text).not.toContain("secret");
      },
      { session: { dm_scope: "person" } },
    ),
  );

  test(
    "T3 the same key with other words is refused, and nothing passes as sent that was not",
    story(async (stage) => {
      const [alice, room] = [stage.alice(), stage.alice("web", { name: "room" })];
      await alice.asks("say hi");
      const send = (text: string) =>
        stage.gateway.bridge.send({
          person: { id: "owner", role: "owner" },
          room: room.key,
          text,
          sessionId: null,
          eventId: "k",
        });
      const first = await send("one");
      expect(await send("one")).toMatchObject({ messageId: first.messageId });
      await expect(send("two")).rejects.toMatchObject({ code: "idempotency_conflict" });
    }),
  );
});
