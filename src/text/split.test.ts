import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PLATFORMS } from "../message/source.ts";
import type { Target } from "../message/target.ts";
import { assembleReply } from "./assemble.ts";
import { limitOf } from "./limits.ts";
import { type Piece, splitInPieces, splitText } from "./split.ts";
import { type Limit, lengthIn, type Unit } from "./unit.ts";

const UNITS: readonly Unit[] = ["utf16", "codepoints", "bytes"];
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** An own measure, to hold the other to. */
function measure(text: string, unit: Unit): number {
  if (unit === "utf16") return text.length;
  return unit === "codepoints" ? [...text].length : new TextEncoder().encode(text).length;
}

/** The fence that stays open behind a text, by CommonMark's words, for fences that stand at most three spaces in. */
function openFenceOf(text: string): { run: string; lead: string; info: string } | null {
  let open: { run: string; lead: string; info: string } | null = null;
  for (const line of text.split("\n")) {
    const [, lead, run, rest] = /^( {0,3})(`{3,}|~{3,})(.*?)\s*$/s.exec(line) ?? [];
    if (lead === undefined || run === undefined || rest === undefined) continue;
    if (open === null) {
      if (run.startsWith("~") || !rest.includes("`")) open = { run, lead, info: rest };
    } else if (rest === "" && run.startsWith(open.run)) {
      open = null;
    }
  }
  return open;
}

const word = fc.constantFrom("word", "x", "longer-word", "it", "3.14", "e.g.", "naïve", "Straße");
const stop = fc.constantFrom(
  ". ",
  "! ",
  "? ",
  ", ",
  "… ",
  '." ',
  "。",
  "！",
  "？」",
  "，",
  " ",
  "  ",
  "\t",
  "\u3000",
  "\u00a0",
);
const emoji = fc.constantFrom(
  "👩‍👩‍👧‍👦",
  "🇩🇪",
  "🇨🇳🇫🇷",
  "👍🏽",
  "❤️",
  "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
  "1️⃣",
  "e\u0301",
  "क्षि",
  "각",
  "o\u0302\u0323\u0301",
  "漢字",
  "\ud800",
  "\udc00",
);
const line = fc.constantFrom("\n", "\r\n", "\n\n", "\r\n\r\n", "\n \n", "\n- ", "\n1. ");
const fence = fc.constantFrom(
  "```",
  "```js\n",
  "\n```\n",
  "\n```ts\n",
  "\n~~~\n",
  "\n~~~ sh x\n",
  "\n````md\n",
  "\n````\n",
  "\n  ```\n",
  "\r\n```\r\n",
  "``",
  "~~~",
  "\n```a`b",
  "\n``` \n",
);
const run = fc
  .tuple(fc.constantFrom("x", "漢", "👍🏽", " ", "\n", "`", "\u0301", "ab "), fc.integer({ min: 1, max: 300 }))
  .map(([one, times]) => one.repeat(times));
const prose = fc.array(fc.oneof({ weight: 6, arbitrary: word }, { weight: 5, arbitrary: stop }, line, emoji), {
  maxLength: 200,
});
const anything = fc.array(
  fc.oneof(
    word,
    stop,
    emoji,
    line,
    fence,
    fence,
    run,
    fc.string({ unit: "binary", maxLength: 20 }),
    fc.string({ unit: "grapheme", maxLength: 20 }),
  ),
  { maxLength: 120 },
);
const text = fc.oneof(prose, anything).map((tokens) => tokens.join(""));
const limit = fc.record({
  limit: fc.oneof(fc.integer({ min: 20, max: 120 }), fc.integer({ min: 20, max: 5_000 })),
  unit: fc.constantFrom(...UNITS),
});

/** For every text and every limit, in every unit. */
function holds(property: (pieces: readonly Piece[], text: string, limit: Limit) => void): void {
  for (const unit of UNITS) {
    fc.assert(
      fc.property(text, limit, (said, { limit }) =>
        property(splitInPieces(said, { limit, unit }), said, { limit, unit }),
      ),
      { numRuns: 400 },
    );
  }
}

describe("splitText", () => {
  test("O3 the texts of the parts are the text, and what is added are lines of fences only", () => {
    holds((pieces, said, limit) => {
      expect(pieces.map((piece) => piece.text).join("")).toBe(said);
      expect(splitText(said, limit)).toEqual(pieces.map(({ open, text, close }) => open + text + close));
      for (const { open, text, close } of pieces) {
        expect(open).toMatch(/^$|^[\t >]*(`{3,}|~{3,})[^\n]*\n$/);
        expect(close).toMatch(text.endsWith("\n") ? /^$|^[\t >]*(`{3,}|~{3,})$/ : /^$|^\n[\t >]*(`{3,}|~{3,})$/);
      }
    });
  });

  test("O3 every part is within the limit, and none is empty", () => {
    holds((_, said, limit) => {
      for (const part of splitText(said, limit)) {
        expect(lengthIn(part, limit.unit)).toBe(measure(part, limit.unit));
        expect(measure(part, limit.unit)).toBeLessThanOrEqual(limit.limit);
        expect(part).not.toBe("");
      }
    });
  });

  test("O3 a text within the limit is returned as it is, and no text has no part", () => {
    holds((pieces, said, { limit, unit }) => {
      if (said !== "" && measure(said, unit) <= limit) expect(pieces).toEqual([{ open: "", text: said, close: "" }]);
    });
    expect(splitText("", { limit: 20, unit: "bytes" })).toEqual([]);
    expect(splitText("```js\nopen", { limit: 20, unit: "utf16" })).toEqual(["```js\nopen"]);
  });

  test("O3 no surrogate pair and no grapheme is cut, unless one is larger than the limit", () => {
    holds((pieces, said, { limit, unit }) => {
      let at = 0;
      const cuts = pieces.slice(0, -1).map((piece) => (at += piece.text.length));
      const edges = graphemes.segment(said);
      for (const cut of cuts) {
        const { segment, index } = edges.containing(cut)!;
        if (index === cut) continue;
        expect(measure(segment, unit)).toBeGreaterThan(limit);
        expect(/^[\udc00-\udfff]/.test(said.slice(cut)) && /[\ud800-\udbff]$/.test(said.slice(0, cut))).toBe(false);
      }
    });
  });

  test("O3 fences are closed and opened again: every part of a split text is balanced", () => {
    holds((pieces, said, { limit, unit }) => {
      if (pieces.length < 2 || hasStrangeFence(said, limit)) return;
      for (const { open, text, close } of pieces) expect(openFenceOf(open + text + close)).toBeNull();
      let before = "";
      for (const [index, piece] of pieces.entries()) {
        if (index > 0 && /\n$/.test(before)) expectReopened(piece, openFenceOf(before), { limit, unit });
        before += piece.text;
      }
    });
  });

  /** Fences that a part has no room for at both its ends, whose last mark has an accent, and where the scanner above does not look. */
  function hasStrangeFence(said: string, limit: number): boolean {
    // A place that makes no fence is looked for a few graphemes back, as far as there are some.
    if (/[ \t]{50}|`{50}/.test(said)) return true;
    if ([...graphemes.segment(said)].some(({ segment }) => measure(segment, "bytes") > limit / 4)) return true;
    return said.split("\n").some((line) =>
      [...line.matchAll(/`{3,}|~{3,}/g)].some(({ 0: run, index }) => {
        const before = line.slice(0, index);
        const spaces = before.length - before.trimEnd().length;
        const isElsewhere = /^[\s>\d.)*+-]*$/.test(before) && !/^ {0,3}$/.test(before);
        const hasAccent = /^[\p{M}\u200d]/u.test(line.slice(index + run.length));
        // Code within a line, for ever open where the line is cut.
        const isInline = before.trim() === "" && line.length > limit && line.slice(index + run.length).includes("`");
        return hasAccent || isElsewhere || isInline || 2 * (spaces + run.length) + 2 > (limit * 3) / 4;
      }),
    );
  }

  function expectReopened(piece: Piece, fence: ReturnType<typeof openFenceOf>, { limit, unit }: Limit): void {
    if (fence === null) {
      expect(piece.open).toBe("");
      return;
    }
    const bare = fence.lead + fence.run;
    const full = `${bare}${fence.info}\n`;
    const isWithInfo = measure(`${full}\n${bare}`, unit) <= (limit * 3) / 4;
    // A grapheme that has no room beside the fence stands alone.
    if (piece.open === "") expect([...graphemes.segment(piece.text)]).toHaveLength(1);
    else expect(piece.open).toBe(isWithInfo ? full : `${bare}\n`);
  }

  test("O3 a cut is at the end of a word where there is one: only in words longer than three quarters of the limit it is not", () => {
    const words = fc.array(fc.constantFrom("a", "bcd", "efghij", "klmnopq."), { minLength: 1, maxLength: 400 });
    fc.assert(
      fc.property(words, fc.integer({ min: 20, max: 300 }), (said, limit) => {
        const parts = splitText(said.join(" "), { limit, unit: "utf16" });
        for (const part of parts.slice(0, -1)) expect(part).toMatch(/ $/);
      }),
    );
  });

  test("O3 a part ends at a paragraph before a line, a line before a sentence, a sentence before a word", () => {
    const parts = (said: string, limit: number) => splitText(said, { limit, unit: "utf16" });
    expect(parts("One here.\nTwo here.\n\nThree. Four is the last", 35)).toEqual([
      "One here.\nTwo here.\n\n",
      "Three. Four is the last",
    ]);
    expect(parts("One here. Two\nthree four. Five six seven", 30)).toEqual([
      "One here. Two\n",
      "three four. Five six seven",
    ]);
    expect(parts('He said "one." She said two three', 25)).toEqual(['He said "one." ', "She said two three"]);
    expect(parts("one two three four", 12)).toEqual(["one two ", "three four"]);
    expect(parts("abcdefghijklmnop", 10)).toEqual(["abcdefghij", "klmnop"]);
  });

  test("O3 a line break of CRLF stays whole, and a blank line of it ends a paragraph", () => {
    expect(splitText("One here.\r\n\r\nTwo is here.\r\nAnd more", { limit: 25, unit: "utf16" })).toEqual([
      "One here.\r\n\r\n",
      "Two is here.\r\nAnd more",
    ]);
    expect(splitText(`${"x".repeat(19)}\r\ny`, { limit: 20, unit: "utf16" })).toEqual(["x".repeat(19), "\r\ny"]);
  });

  test("O3 sentences of Chinese and Japanese end without a space, after their closing marks", () => {
    expect(
      splitText("第一句话比较长。「第二句！」第三句还没有完，所以继续写。", { limit: 20, unit: "codepoints" }),
    ).toEqual(["第一句话比较长。「第二句！」", "第三句还没有完，所以继续写。"]);
    expect(splitText("还没有完的一句话很长很长，所以在逗号后面分开吧", { limit: 20, unit: "utf16" })[0]).toBe(
      "还没有完的一句话很长很长，",
    );
  });

  test("O3 a number at the start of a line is not the end of a sentence", () => {
    expect(splitText("Do the following now:\n12. buy-some-bread-and", { limit: 40, unit: "utf16" })).toEqual([
      "Do the following now:\n",
      "12. buy-some-bread-and",
    ]);
  });

  test("O3 an early end does not leave most of the part unused, unless there is no other", () => {
    expect(splitText(`Hi.\n\n${"word ".repeat(30)}`, { limit: 60, unit: "utf16" })[0]).toHaveLength(60);
    expect(splitText(`Hi.\n\n${"x".repeat(100)}`, { limit: 60, unit: "utf16" })[0]).toBe("Hi.\n\n");
  });

  test("O3 a fence is closed at the end of a part, and opened again with its info string", () => {
    expect(
      splitText("Look:\n\n```ts\nconst a = 1;\nconst b = 2;\nconst c = 3;\nconst d = 4;\n```\n\nThat is all.", {
        limit: 50,
        unit: "utf16",
      }),
    ).toEqual([
      "Look:\n\n```ts\nconst a = 1;\nconst b = 2;\n```",
      "```ts\nconst c = 3;\nconst d = 4;\n```\n\nThat is all.",
    ]);
  });

  test("O3 a longer fence is closed by its own length, and what looks like a fence within it is text", () => {
    const said = `\`\`\`\`md\n\`\`\`js\n${"code\n".repeat(8)}\`\`\`\n${"more\n".repeat(8)}\`\`\`\`\nend`;
    const parts = splitText(said, { limit: 60, unit: "utf16" });
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts.slice(0, -1)) expect(part).toMatch(/^````md\n[\s\S]*\n````$/);
    expect(parts.at(-1)).toMatch(/^````md\n[\s\S]*\n````\nend$/);
  });

  test("O3 a fence in a list item or a quote is opened again where it stands", () => {
    const item = splitText("- item\n  ```js\n  aaaaaaaaaaaaaaaa\n  bbbbbbbbbbbbbbbb\n  ```\n- next", {
      limit: 45,
      unit: "utf16",
    });
    expect(item).toEqual(["- item\n  ```js\n  aaaaaaaaaaaaaaaa\n  ```", "  ```js\n  bbbbbbbbbbbbbbbb\n  ```\n- next"]);
    const marked = splitText("1. ```js\n   aaaaaaaaaaaaaaaa\n   bbbbbbbbbbbbbbbb\n   ```", {
      limit: 45,
      unit: "utf16",
    });
    expect(marked[1]).toBe("   ```js\n   bbbbbbbbbbbbbbbb\n   ```");
    const quote = splitText("> ```js\n> aaaaaaaaaaaaaaaa\n> bbbbbbbbbbbbbbbb\nout of the quote", {
      limit: 40,
      unit: "utf16",
    });
    expect(quote).toEqual(["> ```js\n> aaaaaaaaaaaaaaaa\n> ```", "> ```js\n> bbbbbbbbbbbbbbbb\n", "out of the quote"]);
  });

  test("O3 a cut in a line of code makes no line that reads as a fence", () => {
    const parts = splitText(`\`\`\`\n${"x".repeat(36)} \`\`\`\nmore code\n\`\`\``, { limit: 45, unit: "utf16" });
    for (const part of parts) expect(openFenceOf(part)).toBeNull();
  });

  test("O3 a block of code that fits stays whole where the text before it can stand alone", () => {
    const code = "```\nline one\nline two\n```\n";
    expect(splitText(`Here is what you asked for:\n${code}`, { limit: 50, unit: "utf16" })).toEqual([
      "Here is what you asked for:\n",
      code,
    ]);
  });

  test("O3 a megabyte is split in well under two seconds, whatever it is", () => {
    const texts = [
      "word and more. ",
      "x",
      "\n",
      "`",
      "\u0301",
      "🇩🇪",
      "```js\nx = 1\n```\n\n",
      "> ```\n> a\n",
      "第一句话，比较长。",
    ];
    for (const one of texts) {
      const said = one.repeat(Math.ceil(2 ** 20 / one.length));
      const begunAt = performance.now();
      const pieces = splitInPieces(said, { limit: 4_096, unit: "utf16" });
      expect(performance.now() - begunAt).toBeLessThan(2_000);
      expect(pieces.map((piece) => piece.text).join("") === said).toBe(true);
    }
  });
});

describe("the reply of a turn", () => {
  const target = (platform: Target["platform"]): Target => ({ door: "push", platform, account: "bot", chatId: "7" });
  const partsFor = (said: string, at: Target): readonly string[] => assembleReply(said, at).parts ?? [];

  test("O3 is split by the unit and limit of its platform, and whole at pull doors", () => {
    const said = "Eine Antwort über 很多东西 🎉. ".repeat(2_000);
    for (const platform of PLATFORMS) {
      const at = target(platform);
      const limit = limitOf(at);
      if (limit !== null) {
        const parts = partsFor(said, at);
        expect(parts.length).toBeGreaterThan(1);
        expect(parts.join("")).toBe(said);
        for (const part of parts) expect(measure(part, limit.unit)).toBeLessThanOrEqual(limit.limit);
      }
      expect(partsFor(said, { ...at, door: "pull" })).toEqual([said]);
    }
    expect(limitOf(target("telegram"))).toEqual({ limit: 4_096, unit: "utf16" });
    expect(limitOf(target("discord"))).toEqual({ limit: 2_000, unit: "codepoints" });
  });

  test("G-DLV-04 O3 never has a part that platforms refuse as empty", () => {
    const said = `first${"\n".repeat(9_000)}last`;
    expect(splitText(said, { limit: 4_096, unit: "utf16" }).join("")).toBe(said);
    const parts = partsFor(said, target("telegram"));
    expect(parts.map((part) => part.trim())).toEqual(["first", "last"]);
  });
});
