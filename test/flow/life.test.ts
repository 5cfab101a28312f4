import { describe, expect, test } from "vitest";
import { story } from "../support/harness.ts";

describe("/new", () => {
  test(
    "R6 ends the session and begins an empty one; the reply names both",
    story(async ({ alice }) => {
      const terminal = alice();
      await terminal.asks("say one");
      const before = await terminal.session();
      const reply = await terminal.asks("/new");
      const after = await terminal.session();
      expect(after).not.toBe(before);
      expect(reply).toContain(after);
      expect(reply).toContain(before);
      expect(await terminal.transcript()).toEqual([]);
      expect(await terminal.transcript(before)).toEqual(["user: say one", "assistant: one"]);
      expect(await terminal.asks("history")).toBe("Earlier messages: 0");
    }),
  );

  test(
    "R6 what follows the command is the new session's first message, and gets its own answer",
    story(async ({ alice }) => {
      const terminal = alice();
      await terminal.asks("say one");
      const words = await terminal.says("/reset say two");
      expect(words.reply).toContain("New session");
      expect(words.sessionId).toBe(await terminal.session());
      expect(await terminal.hears(words)).toBe("two");
      expect(await terminal.transcript()).toEqual(["user: say two", "assistant: two"]);
      expect(terminal.shows()).toEqual(["one", words.reply, "two"]);
    }),
  );

  test(
    "R6 works as the very first words at a door",
    story(async ({ alice }) => {
      const words = await alice().says("/new say hello");
      expect(await alice().hears(words)).toBe("hello");
      expect(words.reply).not.toContain("The one before");
    }),
  );

  test(
    "R5 the model is told once that the conversation is fresh, and why",
    story(async ({ alice }) => {
      const terminal = alice();
      await terminal.asks("say one");
      const before = await terminal.session();
      await terminal.asks("/new");
      const told = `fresh conversation (the user asked for a new one). The one before is session ${before}`;
      expect(await terminal.asks("hello")).toContain(told);
      expect(await terminal.asks("hello again")).not.toContain("fresh conversation");
    }),
  );

  test(
    "R5 a note is not used up by a turn whose prompt was never written",
    story(async (stage) => {
      const terminal = stage.alice();
      await terminal.asks("say one");
      await terminal.asks("/new");
      stage.willDie({ moment: "before", verb: "mark" });
      await terminal.says("hello");
      await stage.death;
      await stage.comesBack();
      await stage.passes(100);
      expect(terminal.shows().at(-1)).toContain("fresh conversation");
    }),
  );

  test(
    "R4 a running turn is interrupted in the old session, and what the agent still says is thrown away",
    story(async (stage) => {
      const terminal = stage.alice();
      const running = await terminal.says("slow 30");
      const screen = terminal.watches(running);
      await stage.passes(1_200);
      const before = await terminal.session();
      await terminal.asks("/new");
      expect(await terminal.answer(running)).toMatchObject({ turn: { state: "interrupted", reason: "reset" } });
      const transcript = await terminal.transcript(before);
      expect(transcript).toEqual(["user: slow 30", expect.stringMatching(/^assistant \(interrupted\): 1 2/)]);
      await stage.passes(2_000);
      expect(await terminal.transcript(before)).toEqual(transcript);
      expect(await terminal.transcript()).toEqual([]);
      expect(screen.text()).not.toContain("30");
      expect(terminal.shows().filter((line) => line.includes("was reset before the answer"))).toHaveLength(1);
    }),
  );

  test(
    "R4 the warm handle goes before the next session opens",
    story(async (stage) => {
      const terminal = stage.alice();
      await terminal.says("slow 9");
      await stage.passes(100);
      const words = await terminal.says("/new whoami");
      expect(await terminal.hears(words)).toContain(`Session: ${words.sessionId} (created)`);
      await stage.rests();
      expect(stage.gateway.pool.list()).toMatchObject([{ sessionId: words.sessionId, state: "warm" }]);
    }),
  );

  test(
    "R4 two resets at once: who asks for the answer of the first one's message hears that it was interrupted",
    story(async ({ alice }) => {
      await alice().asks("say one");
      const [first, second] = await Promise.all([alice().says("/new slow 2"), alice().says("/new say two")]);
      expect(await alice().answer(first!)).toMatchObject({ turn: { state: "interrupted", reason: "reset" } });
      expect(await alice().hears(second!)).toBe("two");
    }),
  );

  test(
    "R4 what waits is withdrawn, and its author told once for each turn",
    story(async (stage) => {
      const terminal = stage.alice();
      await terminal.says("slow 9");
      const waiting = await terminal.says("say lost");
      const joined = await terminal.says("say lost too");
      await terminal.asks("/new");
      expect(await terminal.hears(waiting)).toContain("2 waiting messages were withdrawn");
      for (const words of [waiting, joined])
        expect(await terminal.fate(words)).toEqual({ fate: "withdrawn", reason: "reset" });
      await stage.passes(3_000);
      expect(terminal.shows().filter((line) => line.includes("withdrawn"))).toHaveLength(1);
      const told = stage.lives
        .flat()
        .flatMap((event) => (event.name === "delivery:written" ? [event.payload.text] : []));
      expect(told.filter((line) => line.includes("withdrawn"))).toHaveLength(1);
    }),
  );

  test(
    "R4 what waits of a bound door moves to its own session and is answered there; the door is told and unbound",
    story(async (stage) => {
      const [terminal, http] = [stage.alice(), stage.alice("http")];
      await terminal.asks("say home");
      await terminal.sends("come in", http);
      await terminal.says("slow 9");
      const waiting = await http.says("say still here");
      const foreign = await terminal.session();
      expect(waiting.sessionId).toBe(foreign);
      await terminal.asks("/new");
      expect(await http.hears(waiting)).toBe("still here");
      expect(await http.transcript()).toEqual(["user: say still here", "assistant: still here"]);
      expect(http.shows()).toEqual([
        "come in",
        expect.stringContaining(`Session ${foreign}, in which this door was speaking`),
        "still here",
      ]);
      expect(await stage.gateway.reader.bindings({})).toEqual([]);
    }),
  );

  test(
    "R4 the running turn of a bound door is interrupted when the home resets, and its author is told at his door",
    story(async (stage) => {
      const [terminal, http] = [stage.alice(), stage.alice("http")];
      await terminal.asks("say home");
      await terminal.sends("come in", http);
      const running = await http.says("slow 9");
      await stage.passes(100);
      await terminal.asks("/new");
      expect(await http.answer(running)).toMatchObject({ turn: { state: "interrupted", reason: "reset" } });
      expect(http.shows().filter((line) => line.includes("was reset before"))).toHaveLength(1);
      expect(terminal.shows().join()).not.toContain("was reset before");
    }),
  );

  test(
    "R4 a report that comes after the reset is not taken, and recovery never opens the old session again",
    story(async (stage) => {
      const terminal = stage.alice();
      await terminal.says("slow 9");
      await stage.passes(100);
      const before = await terminal.session();
      stage.willDie({ moment: "after", verb: "admit" });
      const reset = terminal.says("/new say fresh");
      await Promise.race([reset, stage.death]);
      await stage.comesBack();
      await stage.passes(2_000);
      expect(await terminal.session()).not.toBe(before);
      expect(await terminal.transcript(before)).toEqual([
        "user: slow 9",
        expect.stringMatching(/^(mark|assistant) \(interrupted\)/),
      ]);
      expect(await terminal.transcript()).toEqual(["user: say fresh", "assistant: fresh"]);
    }),
  );
});

describe("time", () => {
  const idle = { reset: { default: { mode: "idle", idle_minutes: 30 } } };
  const HOUR = 3_600_000;

  test(
    "R1 by default no time ends a conversation",
    story(async (stage) => {
      await stage.alice().asks("say one");
      const before = await stage.alice().session();
      stage.jumps(400 * 24 * HOUR);
      await stage.alice().asks("say two");
      expect(await stage.alice().session()).toBe(before);
    }),
  );

  test(
    "R2 R5 an idle conversation starts anew with its next message; user and model are told once why",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      const before = await alice.session();
      await stage.passes(HOUR);
      const answer = await alice.asks("hello");
      expect(answer).toContain("fresh conversation (the earlier one was idle for too long)");
      expect(await alice.session()).not.toBe(before);
      await alice.asks("say three");
      expect(alice.shows()).toEqual(["one", expect.stringContaining(`The one before is ${before}`), answer, "three"]);
    }, idle),
  );

  test(
    "R2 a turn that runs or waits keeps the session, however late it is",
    story(
      async (stage) => {
        const alice = stage.alice();
        await alice.says("slow 3");
        const before = await alice.session();
        stage.jumps(HOUR);
        const waiting = await alice.says("say still here");
        expect(waiting.sessionId).toBe(before);
        await alice.hears(waiting);
      },
      { ...idle, turn: { turn_idle_timeout: "1d" } },
    ),
  );

  test(
    "R2 a clock that goes back resets nothing",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      const before = await alice.session();
      stage.jumps(-(100 * HOUR));
      await alice.asks("say two");
      expect(await alice.session()).toBe(before);
    }, idle),
  );

  test(
    "R10 commands and words sent from elsewhere are no activity of a human in the session",
    story(async (stage) => {
      const [alice, http] = [stage.alice(), stage.alice("http")];
      await alice.asks("say one");
      const before = await alice.session();
      for (let n = 0; n < 3; n++) {
        await stage.passes(15 * 60_000);
        await alice.asks("/status");
        await alice.sends("news", http);
      }
      await alice.asks("say two");
      expect(await alice.session()).not.toBe(before);
    }, idle),
  );

  test(
    "R9 a restart is not a reset: the session goes on, and the agent is told what was said",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      const before = await alice.session();
      await stage.restarts();
      expect(await alice.asks("history")).toBe("Earlier messages: 2\nyou: say one\nme: one");
      expect(await alice.session()).toBe(before);
    }),
  );

  test(
    "R7 after three failures of the session's own making in a row the next message starts a new one",
    story(async (stage) => {
      const alice = stage.alice();
      for (let n = 0; n < 3; n++) await alice.asks("gone");
      const before = await alice.session();
      expect(await alice.asks("hello")).toContain(
        "fresh conversation (the earlier one failed repeatedly and was set aside)",
      );
      expect(await alice.session()).not.toBe(before);
      expect(alice.shows().at(-2)).toContain("failed several times in a row");
    }),
  );

  test(
    "R7 an answer in between, or failures of another kind, suspend nothing",
    story(async (stage) => {
      const alice = stage.alice();
      const texts = ["gone", "gone", "say well", "gone", "fail", "fail", "fail", "die", "die", "die", "gone"];
      for (const text of texts) await alice.asks(text);
      const before = await alice.session();
      await alice.asks("say one");
      expect(await alice.session()).toBe(before);
    }),
  );
});

describe("commands", () => {
  test(
    "T7 /stop ends the running turn at once, keeps what was said, and leaves what waits",
    story(async (stage) => {
      const alice = stage.alice();
      const running = await alice.says("slow 9");
      await stage.passes(250);
      const waiting = await alice.says("say next");
      expect(await alice.asks("/stop")).toBe("Stopped.");
      expect(await alice.answer(running)).toMatchObject({
        turn: { state: "interrupted", reason: "stopped" },
        text: "1 2 3",
      });
      expect(await alice.hears(waiting)).toBe("next");
      expect(await alice.transcript()).toEqual([
        "user: slow 9",
        "assistant (interrupted): 1 2 3",
        "user: say next",
        "assistant: next",
      ]);
    }),
  );

  test(
    "T7 /stop right behind the message stops it, also when it has not reached its agent",
    story(async (stage) => {
      const alice = stage.alice();
      const [hanging, stop] = await Promise.all([alice.says("hang"), alice.says("/stop")]);
      expect(stop!.reply).toBe("Stopped.");
      expect(await alice.answer(hanging!)).toMatchObject({ turn: { state: "interrupted", reason: "stopped" } });
    }),
  );

  test(
    "T7 /stop right behind /new with a first message stops that one",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      const [fresh, stop] = await Promise.all([alice.says("/new hang"), alice.says("/stop")]);
      expect(stop!.reply).toBe("Stopped.");
      expect(await alice.answer(fresh!)).toMatchObject({ turn: { state: "interrupted", reason: "stopped" } });
    }),
  );

  test(
    "T7 /stop with nothing running says so, and stops no turn of another door",
    story(async (stage) => {
      const [alice, http] = [stage.alice(), stage.alice("http")];
      expect(await alice.asks("/stop")).toBe("There was nothing to stop.");
      const other = await http.says("slow 3");
      expect(await alice.asks("/stop")).toBe("There was nothing to stop.");
      expect(await http.hears(other)).toBe("1 2 3");
    }),
  );

  test(
    "T7 commands overtake the queue and never enter the model's history",
    story(async (stage) => {
      const alice = stage.alice();
      const running = await alice.says("slow 3");
      const waiting = await alice.says("history");
      for (const command of ["/status", "/whoami", "/help", "/nothing"]) await alice.asks(command);
      expect(await alice.fate(running)).toMatchObject({ fate: "running" });
      expect(await alice.hears(waiting)).toBe("Earlier messages: 2\nyou: slow 3\nme: 1 2 3");
      expect((await alice.transcript()).join()).not.toContain("/");
      expect(await alice.asks("hello")).not.toContain("/status");
    }),
  );

  test(
    "T10 a command is answered, and that is its fate",
    story(async ({ alice }) => {
      const words = await alice().says("/help");
      expect(await alice().fate(words)).toEqual({ fate: "answered", reason: "command" });
      expect(alice().shows()).toEqual([words.reply]);
    }),
  );

  test(
    "T10 /status tells the session, what became of the last messages, and the binding",
    story(async (stage) => {
      const [alice, http] = [stage.alice(), stage.alice("http")];
      expect(await alice.asks("/status")).toContain("Nothing was said here yet");
      await alice.says("slow 3");
      await alice.says("say next");
      const busy = await alice.asks("/status");
      expect(busy).toMatch(/"slow 3" (running|waiting)/);
      expect(busy).toContain('"say next" waiting');
      await stage.passes(3_000);
      const session = await alice.session();
      const quiet = await alice.asks("/status");
      expect(quiet).toContain(`Session: ${session}, 4 entries`);
      expect(quiet).toContain('"say next" answered');
      await alice.sends("come in", http);
      expect(await http.asks("/status")).toMatch(new RegExp(`Session: ${session}[\\s\\S]*Bound: live`));
    }),
  );

  test(
    "K19 /whoami tells person, agent and conversation; /help lists every command",
    story(async ({ alice, bob }) => {
      expect(await alice().asks("/whoami")).toBe(
        "You are Alice (owner).\nYou talk to main.\nConversation: agent:main:console:dm:owner%2Fmain",
      );
      expect(await bob().asks("/whoami")).toContain("You are Bob (member).");
      const help = await alice().asks("/help");
      for (const command of ["/new", "/stop", "/status", "/whoami", "/help"]) expect(help).toContain(command);
    }),
  );

  test(
    "E3 an unknown command is said to be unknown; a path is no command",
    story(async ({ alice }) => {
      expect(await alice().asks("/nonsense now")).toContain("There is no command /nonsense");
      expect(await alice().asks("/etc/hosts is a file")).toContain("You said: /etc/hosts is a file");
    }),
  );
});
