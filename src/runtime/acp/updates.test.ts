import { expect, test } from "vitest";
import { readAnswer, readQuestion, readSaid, readUpdate, readUsage, sumOf } from "./updates.ts";

test("T9: usage is read in all the words agents have for it, and only where there are numbers", () => {
  expect(readUsage({ inputTokens: 1, outputTokens: 2, cachedReadTokens: 3 })).toEqual({
    input: 1,
    output: 2,
    cachedInput: 3,
  });
  expect(readUsage({ prompt_tokens: 1, completion_tokens: 2 })).toEqual({ input: 1, output: 2 });
  expect(readUsage({ promptTokenCount: 1 })).toEqual({ input: 1, output: 0 });
  for (const nothing of [
    null,
    undefined,
    5,
    [],
    {},
    { inputTokens: "1" },
    { inputTokens: -1 },
    { inputTokens: Number.NaN },
  ]) {
    expect(readUsage(nothing)).toBeNull();
  }
  const sum = sumOf({ input: 1, output: 1 }, { input: 2, output: 3, cachedInput: 4 });
  expect(sum).toEqual({ input: 3, output: 4, cachedInput: 4 });
});

test("B5: an answer of any form has a reason to stop, and the usage that stands first", () => {
  const quota = { token_count: { input_tokens: 5, output_tokens: 6 } };
  const usage = { inputTokens: 1, outputTokens: 2, totalTokens: 3 };
  expect(readAnswer({ stopReason: "end_turn", usage, _meta: { quota } })).toEqual({
    stopReason: "end_turn",
    usage: { input: 1, output: 2 },
  });
  expect(readAnswer({ stopReason: "x", usage: null, _meta: { quota } }).usage).toEqual({ input: 5, output: 6 });
  for (const odd of [null, undefined, "done", [], { stopReason: 7 }]) {
    expect(readAnswer(odd)).toEqual({ stopReason: "", usage: null });
  }
});

test("B5: what is no update is none", () => {
  for (const odd of [null, undefined, 5, "x", [], {}, { update: null }, { update: [] }])
    expect(readUpdate(odd)).toBeNull();
  for (const odd of [{}, { sessionUpdate: "plan" }, { sessionUpdate: "tool_call" }, { sessionUpdate: "toString" }]) {
    expect(readSaid(odd)).toBeNull();
  }
});

test("H12: titles and labels are bounded, and stay text", () => {
  const title = "😀".repeat(1_000);
  const read = readQuestion({ sessionId: "s", toolCall: { toolCallId: "t", title }, options: null });
  expect(read.title!.length).toBeLessThanOrEqual(300);
  expect(read.title!.isWellFormed()).toBe(true);
  expect(read.options).toEqual([]);
  expect(readQuestion(null)).toEqual({ sessionId: undefined, toolCallId: "", title: null, options: [] });
});
