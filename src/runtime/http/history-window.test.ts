import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Exchange } from "../runtime.ts";
import { type ChatMessage, estimateTokens, HistoryWindow, promptBudget } from "./history-window.ts";

const STABLE = "# Where you are\nYou are Nova.";

function windowOf(more: Partial<ConstructorParameters<typeof HistoryWindow>[0]> = {}): HistoryWindow {
  return new HistoryWindow({ stablePart: STABLE, seeds: [], exchanges: [], budget: 1_000, ...more });
}

function answered(turnId: number, prompt: string, reply: string): Exchange {
  return { turnId, prompt, reply, mark: null };
}

const contents = (messages: readonly ChatMessage[]): string[] => messages.map(({ content }) => content);
const afterOf = (window: HistoryWindow): unknown => JSON.parse(window.ref).after;

test("C1: the stable part is the first message, as it is; without one there is no system message", () => {
  expect(windowOf().fit("hi").messages).toEqual([
    { role: "system", content: STABLE },
    { role: "user", content: "hi" },
  ]);
  expect(windowOf({ stablePart: "" }).fit("hi").messages).toEqual([{ role: "user", content: "hi" }]);
});

describe("an exchange without a whole answer", () => {
  const historyOf = (exchange: Omit<Exchange, "turnId">): string[] =>
    contents(windowOf({ exchanges: [{ turnId: 1, ...exchange }] }).fit("next").messages).slice(1, -1);

  test("T9: keeps the user's words and is marked, alternating roles (PER-03, RUN-08)", () => {
    expect(historyOf({ prompt: "a", reply: null, mark: "failed" })).toEqual(["a", "[no answer was given]"]);
    expect(historyOf({ prompt: "a", reply: "half an", mark: "interrupted" })).toEqual([
      "a",
      "half an\n[the answer was cut off here]",
    ]);
    expect(historyOf({ prompt: " ", reply: "what?", mark: null })).toEqual(["[no words]", "what?"]);
  });

  test("O5: silence is an answer", () => {
    expect(historyOf({ prompt: "a", reply: null, mark: null })).toEqual(["a", "NO_REPLY"]);
    expect(historyOf({ prompt: "a", reply: "NO_REPLY\n", mark: null })).toEqual(["a", "NO_REPLY"]);
  });

  test("T9: one of more than a block is left out: it would push out what was said before", () => {
    const long = "x".repeat(3_000);
    expect(historyOf({ prompt: long, reply: null, mark: "failed" })).toEqual([]);
    expect(historyOf({ prompt: long, reply: "I see", mark: "interrupted" })).toHaveLength(2);
  });

  test("O5: a turn that is run again takes the place of its try without an answer, and only of that", () => {
    const window = windowOf();
    window.add({ turnId: 1, prompt: "try one", reply: "", mark: "cut" });
    window.add(answered(1, "try two", "yes"));
    window.add(answered(1, "try three", "also"));
    expect(contents(window.fit("next").messages).slice(1, -1)).toEqual(["try two", "yes", "try three", "also"]);
  });
});

test("C1: what was said before the first exchange comes first, as exchanges", () => {
  const window = windowOf({
    seeds: [
      { role: "assistant", text: "hello" },
      { role: "user", text: "one" },
      { role: "user", text: "two" },
      { role: "mark", text: "(failed: no route)" },
      { role: "assistant", text: "three" },
      { role: "user", text: "four" },
    ],
    exchanges: [answered(7, "five", "six")],
  });
  expect(window.fit("seven").messages.map(({ role, content }) => `${role}: ${content}`)).toEqual([
    `system: ${STABLE}`,
    "user: [no words]",
    "assistant: hello",
    "user: one\ntwo",
    "assistant: (failed: no route)\nthree",
    "user: four",
    "assistant: [no answer was given]",
    "user: five",
    "assistant: six",
    "user: seven",
  ]);
});

test("C6: what does not fit goes in blocks of a quarter of the budget, the oldest first", () => {
  // 70 bytes are 20 tokens, an exchange is 40: ten of them are 400 of the 500 that the stable part and the prompt leave.
  const text = (n: number): string => `${n}`.padEnd(70, ".");
  const budget = estimateTokens(STABLE) + 20 + 500;
  const window = windowOf({ budget });
  const kept: number[] = [];
  for (let turnId = 1; turnId <= 40; turnId++) {
    kept.push(window.fit(text(turnId)).exchanges);
    window.add(answered(turnId, text(turnId), text(turnId)));
  }
  // A block is 132 tokens or more: four exchanges.
  expect(kept.slice(0, 24)).toEqual([
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 9, 10, 11, 12, 9, 10, 11, 12, 9, 10, 11,
  ]);
});

test("B4: with `ref` a window opens where it was dropped to, also when that exchange is gone", () => {
  const exchanges = [1, 2, 3, 4].map((turnId) => answered(turnId, `q${turnId}`, `a${turnId}`));
  const ref = JSON.stringify({ after: 2, ratio: 1.2 });
  expect(contents(windowOf({ exchanges, ref }).fit("q5").messages)).toEqual([STABLE, "q3", "a3", "q4", "a4", "q5"]);
  expect(windowOf({ exchanges, ref }).ref).toBe(ref);
  const undone = exchanges.filter(({ turnId }) => turnId !== 2);
  expect(contents(windowOf({ exchanges: undone, ref }).fit("q5").messages)).toHaveLength(6);
  for (const foreign of ["", "s-1", "{}", '{"after":"x","ratio":0}', "null"]) {
    expect(windowOf({ exchanges, ref: foreign }).fit("q5").exchanges).toBe(4);
  }
});

test("a prompt over the budget goes alone, and nothing is dropped for it", () => {
  const window = windowOf({ exchanges: [answered(1, "q", "a")] });
  const { ref } = window;
  expect(window.fit("x".repeat(10_000))).toMatchObject({ exchanges: 0 });
  expect(window.ref).toBe(ref);
  expect(window.fit("next").exchanges).toBe(1);
});

test("an overflow drops one block, or says that there is none", () => {
  const window = windowOf({ exchanges: [1, 2, 3].map((turnId) => answered(turnId, "q".repeat(700), "a".repeat(350))) });
  expect(window.dropBlock()).toBe(true);
  expect(afterOf(window)).toBe(1);
  expect([window.dropBlock(), window.dropBlock(), window.dropBlock()]).toEqual([true, true, false]);
  expect(afterOf(window)).toBe(3);
});

test("tokens are bytes by 3.5, scaled by what the server counts", () => {
  expect(["", "a", "hello, world", "你好世界", "😀"].map(estimateTokens)).toEqual([0, 1, 4, 4, 2]);
  expect(promptBudget(10_000, 1_000)).toBe(6_000);
  const window = windowOf();
  const ratio = (): number => JSON.parse(window.ref).ratio;
  for (let i = 0; i < 30; i++) window.learn(100, 80);
  expect(ratio()).toBeCloseTo(0.8, 1);
  window.learn(100, 0);
  window.learn(0, 100);
  expect(ratio()).toBeCloseTo(0.8, 1);
  for (let i = 0; i < 30; i++) window.learn(100, 10_000);
  expect(ratio()).toBeCloseTo(3.5, 1);
});

const hash = (messages: readonly ChatMessage[]): string =>
  createHash("sha256").update(JSON.stringify(messages)).digest("hex");

const words = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 60 }),
  fc.string({ unit: "binary", maxLength: 20 }),
  fc
    .record({ letter: fc.constantFrom("a", "é", "я", "好", "日本", "😀", "👩‍👩‍👧", "\ud83d"), times: fc.nat(400) })
    .map(({ letter, times }) => letter.repeat(times)),
);
const turnPlan = fc.record({
  prompt: words,
  reply: fc.option(words, { nil: null }),
  mark: fc.constantFrom(null, null, null, "failed", "interrupted"),
  counted: fc.double({ min: 0.2, max: 4, noNaN: true }),
  overflow: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
});

test("PER-03: for any sizes and scripts the history is whole exchanges within the budget, stable between drops, the same warm and opened anew", () => {
  fc.assert(
    fc.property(fc.array(turnPlan, { maxLength: 40 }), fc.integer({ min: 60, max: 3_000 }), (plans, budget) => {
      const warm = windowOf({ budget });
      const exchanges: Exchange[] = [];
      let before: { after: unknown; messages: readonly ChatMessage[] } | null = null;
      plans.forEach((plan, at) => {
        const cold = windowOf({ budget, exchanges, ref: warm.ref });
        const { messages, estimate, exchanges: kept } = warm.fit(plan.prompt);
        expect(cold.fit(plan.prompt).messages).toEqual(messages);
        expect(cold.ref).toBe(warm.ref);

        // Well formed: the stable part, then user and assistant in turn, the prompt last; nothing empty, nothing that is no text.
        expect(messages[0]).toEqual({ role: "system", content: STABLE });
        messages.slice(1).forEach(({ role, content }, i) => {
          expect(role).toBe(i % 2 === 0 ? "user" : "assistant");
          expect(content.trim() !== "" && content.isWellFormed()).toBe(true);
        });
        expect(messages).toHaveLength(2 + 2 * kept);

        // Within the budget, unless the prompt is over it alone.
        const { ratio } = JSON.parse(warm.ref) as { ratio: number };
        if (kept > 0) expect(estimate * ratio).toBeLessThanOrEqual(budget);

        // Between two drops each request begins with the exchanges of the one before.
        const after = afterOf(warm);
        if (before !== null && before.after === after && kept > 0) {
          // The prompt too, where its exchange was kept.
          const isNext = messages.length === before.messages.length + 2;
          const prefix = before.messages.slice(0, isNext ? undefined : -1);
          expect(hash(messages.slice(0, prefix.length))).toBe(hash(prefix));
        }
        if (kept > 0) before = { after, messages };

        if (plan.overflow) warm.dropBlock();
        const exchange = { turnId: at + 1, prompt: plan.prompt, reply: plan.reply, mark: plan.mark };
        warm.add(exchange);
        exchanges.push(exchange);
        warm.learn(estimate, Math.round(estimate * plan.counted));
      });
    }),
    { numRuns: 150 },
  );
});
