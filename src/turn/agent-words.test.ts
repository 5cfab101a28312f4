import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cleanText } from "../message/source.ts";
import { cleanAside, cleanResult, WordStream } from "./agent-words.ts";

function streamed(chunks: readonly string[]): string {
  const words = new WordStream();
  return chunks.map((chunk) => words.take(chunk)).join("") + words.rest();
}

// The kind: whatever a runtime says, in whatever chunks, wherever a chunk ends.
describe("F-HTTP-02 O7 S6: an agent's words", () => {
  test.each([
    ["an emoji that is cut in two", ["a\ud83e", "\udd9c!"], "a🦜!"],
    ["one that is cut by an empty chunk", ["\ud83e", "", "\udd9c"], "🦜"],
    ["a half at the end", ["a", "b\ud83e"], "ab\uFFFD"],
    ["a half whose other half does not come", ["\ud83e", "a"], "\uFFFDa"],
    ["two first halves", ["\ud83e", "\ud83e", "\udd9c"], "\uFFFD🦜"],
    ["a second half alone", ["a", "\udd9c"], "a\uFFFD"],
    ["halves with something dropped between them", ["\ud83e", "\u0007", "\udd9c"], "\uFFFD\uFFFD"],
    ["NUL and escape sequences", ["a\0", "\u001b[31", "mb\u009b\u007f\t\n"], "a\uFFFD[31mb\t\n"],
  ])("F-HTTP-02 O7: %s", (_, chunks, told) => {
    expect(streamed(chunks)).toBe(told);
  });

  test("F-HTTP-02 O7: cut anywhere, they are what the whole is", () => {
    const unit = fc.constantFrom("a", "\0", "\u0007", "\t", "\n", "\ud83e", "\udd9c", "\uFFFD", "é", "🦜");
    fc.assert(
      fc.property(fc.array(fc.array(unit).map((units) => units.join(""))), (chunks) => {
        expect(streamed(chunks)).toBe(cleanText(chunks.join("")));
      }),
    );
  });

  test("F-HTTP-02 S6: a failure is told in clean words, and what did not fail has none", () => {
    const failure = { kind: "refused", message: "no\ud800\u001b" } as const;
    expect(cleanResult({ outcome: "failed", text: "a\0", failure })).toEqual({
      outcome: "failed",
      text: "a\uFFFD",
      failure: { kind: "refused", message: "no\uFFFD" },
    });
    expect(cleanResult({ outcome: "done", text: "a" })).toEqual({ outcome: "done", text: "a" });
  });

  test("F-HTTP-02 S6: a question is asked in clean words, and answered with the agent's own ids", () => {
    const answers: (string | null)[] = [];
    const asked = cleanAside({
      type: "permission",
      id: "q\ud800",
      title: "May I\u0007?",
      options: [{ id: "yes\udc00", label: "Yes\0", kind: "allow_once" }],
      answer: (id) => void answers.push(id),
    });
    expect(asked).toMatchObject({ id: "q\uFFFD", title: "May I?", options: [{ id: "yes\uFFFD", label: "Yes\uFFFD" }] });
    asked.answer("yes\uFFFD");
    asked.answer(null);
    expect(answers).toEqual(["yes\udc00", null]);
  });
});
