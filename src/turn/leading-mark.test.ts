import { describe, expect, test } from "vitest";
import { MarkStream, shownMarks, withoutMark } from "./leading-mark.ts";

const SHOWN = shownMarks(["[YOU]", "[Ann #91bc3e]", "[docs]", "[小明]", "[Bob]"]);

/** The kind: every form in which an agent can write a mark that it was shown, before its own words; and nothing else in brackets. */
describe("F-ROOM-02: marks before an agent's words", () => {
  test.each([
    ["[YOU] hello", "hello"],
    ["[YOU]: hello", "hello"],
    ["[YOU]hello", "hello"],
    ["[you] hello", "hello"],
    ["  \n[YOU]\nhello", "hello"],
    ["［YOU］ hello", "hello"],
    ["【YOU】：hello", "hello"],
    ["[YОU] hello", "hello"],
    ["[Y\u200bOU] hello", "hello"],
    ["\u200b[YOU] hello", "hello"],
    ["[YOU] [YOU] hello", "hello"],
    ["[YOU][YOU]hello", "hello"],
    ["[Ann #91bc3e] I agree", "I agree"],
    ["[ann] I agree", "I agree"],
    ["[YOU] [Ann]: I agree", "I agree"],
    ["[小明] 好的", "好的"],
    ["[docs] hello", "hello"],
    ["[YOU]", ""],
    ["[YOU] NO_REPLY", "NO_REPLY"],
    ["〖YOU〗 hello", "hello"],
    ["﹝YOU﹞ hello", "hello"],
    ["［Ａｎｎ ＃91bc3e］ I agree", "I agree"],
    ["[𝐁𝐨𝐛] I agree", "I agree"],
    ["[YOU] [docs](https://a.example)", "[docs](https://a.example)"],
  ])("F-ROOM-02 G2: %j is told as %j", (text, told) => {
    expect(withoutMark(text, SHOWN)).toBe(told);
  });

  test.each([
    "[docs](https://a.example) has it",
    "[docs][1] has it",
    "[ ] todo",
    "[x] done",
    "[1] first",
    "[Carol] was here",
    "hello [YOU]",
    "hello\n[YOU] again",
    "[YOU",
    "[",
    "[[YOU]]",
    `[${"a".repeat(300)}] hello`,
    "[a\nYOU] hello",
    "  hello",
    "[YOU](https://a.example)",
    "```\n[YOU] hello\n```",
    "",
    " ",
  ])("F-ROOM-02 G2: %j stays as it is", (text) => {
    expect(withoutMark(text, SHOWN)).toBe(text);
  });

  test("F-ROOM-02 G2: told in pieces of any size, it is what it is as a whole", () => {
    const pieces = [
      "[YOU]",
      "[",
      "]",
      "(",
      " ",
      "\n",
      ":",
      "hello",
      "[docs]",
      "(a)",
      "[Ann",
      " #91bc3e]",
      "［YOU］",
      "x",
      "\u200b",
      "  ".repeat(300),
    ];
    let seed = 7;
    const next = (most: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % most;
    };
    for (let round = 0; round < 3_000; round++) {
      let text = "";
      for (let n = next(7); n >= 0; n--) text += pieces[next(pieces.length)];
      const stream = new MarkStream(SHOWN);
      let told = "";
      for (let at = 0; at < text.length; ) {
        const end = at + 1 + next(4);
        told += stream.take(text.slice(at, end));
        at = end;
      }
      told += stream.rest();
      expect(told, JSON.stringify(text)).toBe(withoutMark(text, SHOWN));
    }
  });

  test("F-ROOM-02 O6: what is clear is told at once", () => {
    const stream = new MarkStream(SHOWN);
    expect(stream.take("h")).toBe("h");
    const other = new MarkStream(SHOWN);
    expect(["[", "Y", "OU]", " ", "he", "llo"].map((chunk) => other.take(chunk))).toEqual([
      "",
      "",
      "",
      "",
      "he",
      "llo",
    ]);
  });
});
