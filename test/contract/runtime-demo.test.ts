import { describe, expect, test } from "vitest";
import { createDemoRuntime } from "../../src/runtime/demo/demo-runtime.ts";
import type { OpenRequest, TurnEvent } from "../../src/runtime/runtime.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { ask, openRequest, runtimeContract, startSlow } from "./runtime.contract.ts";

const HONEST_LINE = "I am the built-in demo agent; I do not understand language.";

runtimeContract("demo", async () => {
  const clock = createManualClock();
  return {
    runtime: createDemoRuntime({ clock }),
    dispose: async () => expect(clock.pending).toBe(0),
  };
});

async function stage(more: Partial<OpenRequest> = {}) {
  const clock = createManualClock();
  const runtime = createDemoRuntime({ clock });
  return { clock, runtime, session: await runtime.open(openRequest(more)) };
}

describe("the demo agent", () => {
  test("C6: says what it is and what it was given", async () => {
    const { session } = await stage({
      sessionId: "s1",
      primer: {
        total: 7,
        lines: [
          { role: "user", text: "hi" },
          { role: "assistant", text: "hello\nthere" },
        ],
      },
    });
    const facts = "<<facts 8f3a>>\nSource: Telegram (dm with Ana)\nYou missed nothing.\n<</facts 8f3a>>";
    expect((await ask(session, "How are\nyou?", { facts })).text).toBe(
      [
        HONEST_LINE,
        "Door: Telegram (dm with Ana)",
        "Session: s1 (primed)",
        "Earlier messages: 7, the last of them:",
        "  you: hi",
        "  me: hello there",
        "Told: You missed nothing.",
        "You said: How are\nyou?",
      ].join("\n"),
    );
  });

  test("C6: its answer stays readable, whatever it is told", async () => {
    const { session } = await stage();
    const facts = `Source: CLI terminal\n${Array.from({ length: 30 }, (_, i) => `${i} ${"😀".repeat(500)}`).join("\n")}`;
    await ask(session, "one");
    const lines = (await ask(session, "two", { facts })).text.split("\n");
    expect(lines).toHaveLength(10);
    expect(lines[8]).toBe("Told: and 28 lines more");
    expect(lines.every((line) => [...line].length < 120 && line.isWellFormed())).toBe(true);
  });

  test("C2: obeys a word behind the name of its author", async () => {
    const { session } = await stage();
    expect((await ask(session, "[Ana] say hello")).text).toBe("hello");
    expect((await ask(session, "Say hello")).text).toContain("You said: Say hello");
  });

  test("whoami, history", async () => {
    const { session } = await stage({ sessionId: "s1" });
    expect((await ask(session, "whoami", { facts: "Source: CLI terminal" })).text).toBe(
      [HONEST_LINE, "Door: CLI terminal", "Session: s1 (created)"].join("\n"),
    );
    for (let i = 0; i < 10; i++) await ask(session, `say ${i}`);
    const lines = (await ask(session, "history")).text.split("\n");
    expect(lines[0]).toBe("Earlier messages: 22, the last 20:");
    expect(lines).toHaveLength(21);
    expect(lines.slice(-2)).toEqual(["you: say 9", "me: 9"]);
  });

  test("O5: say alone answers an empty text", async () => {
    const { session } = await stage();
    const events: TurnEvent[] = [];
    const result = await ask(session, "say", { onEvent: (event) => void events.push(event) });
    expect(result).toEqual({ outcome: "done", text: "", usage: { input: 1, output: 0 } });
    expect(events).toEqual([]);
  });

  test("T7: slow says one word each 100 ms; a cancel leaves no timer", async () => {
    const { session, clock } = await stage();
    const whole = ask(session, "slow 3");
    await clock.advance(300);
    expect(await whole).toEqual({ outcome: "done", text: "1 2 3", usage: { input: 2, output: 3 } });
    const slow = startSlow(session, "slow");
    await clock.advance(250);
    slow.cancel.abort();
    expect(await slow.result).toMatchObject({ outcome: "cancelled", text: "1 2 3" });
    expect(clock.pending).toBe(0);
  });

  test("T5: what is said meanwhile is taken in until the last look", async () => {
    const { session, clock } = await stage();
    const steer = (text: string) => session.steer?.({ turnId: 1, facts: "", text, missed: [] });
    expect(await steer("nobody listens")).toBe("too-late");
    const slow = startSlow(session, "slow 2");
    await clock.advance(50);
    const faster = steer("faster");
    await clock.advance(100);
    expect(await faster).toBe("consumed");
    const thanks = steer("thanks");
    await clock.advance(50);
    expect(await thanks).toBe("consumed");
    expect(await steer("bye")).toBe("too-late");
    expect((await slow.result).text).toBe("1 (meanwhile you said: faster) 2 (meanwhile you said: thanks)");
    expect((await ask(session, "history")).text).toContain("you: faster");
  });

  test("F-TRN-03 T5: what the agent has not read when its turn ends, was never taken in", async () => {
    const { session, clock } = await stage();
    const steer = (text: string) => session.steer?.({ turnId: 1, facts: "", text, missed: [] });
    const slow = startSlow(session, "slow 9");
    await clock.advance(50);
    const faster = steer("faster");
    slow.cancel.abort();
    expect(await faster).toBe("too-late");
    expect((await slow.result).text).toBe("1");
    expect((await ask(session, "history")).text).not.toContain("faster");
  });

  test("T7: hang answers nothing until it is cancelled, stubborn not even then", async () => {
    const { session, clock } = await stage();
    const hung = startSlow(session, "hang");
    await session.steer?.({ turnId: 1, facts: "", text: "well?", missed: [] });
    await clock.advance(3_600_000);
    hung.cancel.abort();
    expect(await hung.result).toMatchObject({ outcome: "cancelled", text: " (meanwhile you said: well?)" });

    const stubborn = startSlow(session, "stubborn");
    stubborn.cancel.abort();
    expect(await Promise.race([stubborn.result, clock.advance(1_000)])).toBeUndefined();
    await session.park();
    expect(await stubborn.result).toMatchObject({ outcome: "failed", failure: { kind: "process-died" } });
  });

  test("H12: ask says what was answered", async () => {
    const { session } = await stage();
    const answer = (optionId: string | null) =>
      ask(session, "ask", { onEvent: (event) => void (event.type === "permission" && event.answer(optionId)) });
    expect((await answer("allow")).text).toBe("You answered: allow");
    expect((await answer("reject")).text).toBe("You answered: reject");
    expect((await answer(null)).text).toBe("no answer");
  });

  test("T8: the tool runs only after it was taken note of, and never after a cancel", async () => {
    const { session, runtime } = await stage();
    const seen: string[] = [];
    const onEvent = async (event: TurnEvent) => {
      await Promise.resolve();
      seen.push(event.type === "tool" ? `${event.state} ${runtime.sideEffects}` : event.type);
    };
    expect((await ask(session, "tool", { onEvent })).text).toBe("I counted one up: 1");
    expect(seen).toEqual(["pending 0", "running 0", "done 1", "text"]);

    const cancel = new AbortController();
    const result = await ask(session, "tool", { signal: cancel.signal, onEvent: () => cancel.abort() });
    expect(result.outcome).toBe("cancelled");
    expect(runtime.sideEffects).toBe(1);
  });

  test("B5: gone loses the session, without dying", async () => {
    const { session } = await stage();
    session.onDead(() => expect.unreachable());
    expect((await ask(session, "gone")).failure?.kind).toBe("session-gone");
    expect((await ask(session, "say hello")).failure?.kind).toBe("session-gone");
  });

  test("B8: close ends the turns that run", async () => {
    const { session, runtime, clock } = await stage();
    const slow = startSlow(session);
    await slow.heard;
    await runtime.close();
    expect((await slow.result).outcome).toBe("failed");
    expect(clock.pending).toBe(0);
  });
});
