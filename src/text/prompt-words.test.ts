import { describe, expect, test } from "vitest";
import { encloseFacts, promptsIn, wordsOfPrompt } from "./prompt-words.ts";

const NONCE = "0123456789abcdef0123456789abcdef";
const OWNER = ["Source: CLI terminal", 'From: "Ann", id "owner"; rights: owner', "Time: now"];
const GUEST = [
  'Source: XMPP (group: "core")',
  'From: "Bob", id "bob@x"; rights: guest',
  "Said here before:",
  '> [Cy] "hi"',
];
const facts = (lines: readonly string[] = OWNER, nonce = NONCE): string => encloseFacts(lines, nonce);

// The kind: our frame in any position a prompt of ours has it, whole or cut; and people's text that only looks like it.
describe("F-HER-02 D11 the frame of a prompt is taken off, and the words stay", () => {
  test.each<[string, string, string | null]>([
    ["a whole prompt", `${facts()}\n\nwhat I said`, "what I said"],
    [
      "words of several lines, with a frame quoted in them",
      `${facts()}\n\none\n${facts(GUEST)}\ntwo`,
      `one\n${facts(GUEST)}\ntwo`,
    ],
    [
      "what was missed in front",
      `In this session since your last answer:\n| they: x\n| y\n\n${facts()}\n\nhello`,
      "hello",
    ],
    ["a primer in front", `This session so far, the last 2 of 7 messages:\n| they: x\n\n${facts()}\n\nhello`, "hello"],
    [
      "both in front",
      `This session so far:\n| they: a\n\nIn this session since your last answer:\n| you: b\n\n${facts()}\n\nhi`,
      "hi",
    ],
    ["lines that end as Windows ends them", `${facts()}\n\nhi`.replaceAll("\n", "\r\n"), "hi"],
    ["a prompt that was cut inside the facts", facts().slice(0, 70), null],
    ["a prompt that was cut inside the first line of its facts", facts().slice(0, 20), null],
    ["a prompt that was cut in what stands before its facts", "This session so far:\n| they: x\n| you", null],
    ["a prompt without words", facts(), null],
    ["another nonce", `${facts(OWNER, "f".repeat(32))}\n\nhi`, "hi"],
  ])("%s", (_, text, words) => {
    expect(wordsOfPrompt(text)?.words).toBe(words);
  });

  test("F-HER-02 D11 at whatever line or character a prompt was cut, nothing of ours is the owner's words", () => {
    const whole = `This session so far, the last 2 of 7 messages:\n| they: x\n| y\n\n${facts()}\n\n`;
    const least = whole.indexOf("| they") + 2;
    for (let length = least; length < whole.length; length++) {
      const told = promptsIn(whole.slice(0, length));
      expect([length, told.map(({ words }) => words)]).toEqual([length, [null]]);
    }
  });

  test.each([
    ["plain words", "facts are facts"],
    ["a frame in the middle of words", `look:\n${facts()}\nis that so?`],
    ["marks without a nonce", "--- facts\nSource: CLI terminal\n--- end\n\nhi"],
    ["a line that only begins so", "--- facts of life\nhi"],
    ["a quotation of ours", `> ${facts().replaceAll("\n", "\n> ")}\nhm`],
    ["nothing", ""],
  ])("no prompt of ours: %s", (_, text) => {
    expect(wordsOfPrompt(text)).toBeNull();
  });

  test("a turn of the owner's at the terminal or in a direct chat is the owner's", () => {
    expect(wordsOfPrompt(`${facts()}\n\nhi`)).toMatchObject({ isOwners: true, isPrivate: true });
    const direct = facts(['Source: Telegram (DM with "Ann")', 'From: "Ann", id "7"; rights: owner']);
    expect(wordsOfPrompt(`${direct}\n\nhi`)).toMatchObject({ isOwners: true, isPrivate: true });
  });

  test("F-HER-02 D11 facts of the first version say only the door: the owner's where nobody else can be", () => {
    for (const [source, isOwners] of [
      ["CLI terminal", true],
      ['XMPP (group: "core")', false],
    ] as const)
      expect(wordsOfPrompt(`${facts([`Source: ${source}`, "Note: x"])}\n\nhi`)).toMatchObject({
        words: "hi",
        isOwners,
      });
  });

  test("a turn of others is not the owner's; where others read, the owner's words are, and are not private", () => {
    const guests = { words: "[Bob] hi", isOwners: false, isPrivate: false };
    expect(wordsOfPrompt(`${facts(GUEST)}\n\n[Bob] hi`)).toEqual(guests);
    const room = facts(['Source: XMPP (group: "core")', 'From: "Ann"; rights: owner']);
    expect(wordsOfPrompt(`${room}\n\n[Ann] hi`)).toMatchObject({ isOwners: true, isPrivate: false });
    const named = facts(['Source: Telegram (DM with "rights: owner")', 'From: "x; rights: owner"; rights: guest']);
    expect(wordsOfPrompt(`${named}\n\nhi`)?.isOwners).toBe(false);
  });
});

// The kind: messages that Hermes has joined, in any order, with what was typed there; and words in which a frame is only quoted.
describe("F-HER-02 D11 several prompts in one message", () => {
  const second = facts(GUEST, "fedcba9876543210fedcba9876543210");
  const own = (words: string | null) => ({ words, isOwners: true, isPrivate: true });
  const others = (words: string | null) => ({ words, isOwners: false, isPrivate: false });

  test.each([
    ["two of the owner's", `${facts()}\n\none\n\n${facts(OWNER, "a".repeat(32))}\n\ntwo`, [own("one"), own("two")]],
    ["the owner's and another's", `${facts()}\n\none\n\n${second}\n\n[Bob] two`, [own("one"), others("[Bob] two")]],
    [
      "what was typed there in front",
      `typed\n\nmore\n\n${second}\n\n[Bob] two`,
      [own("typed\n\nmore"), others("[Bob] two")],
    ],
    [
      "rows in front of each",
      `In this session since your last answer:\n| you: b\n\n${facts()}\n\none\n\nIn this session since your last answer:\n| they: --- facts\n\n${second}\n\ntwo`,
      [own("one"), others("two")],
    ],
    ["one without words", `${facts()}\n\n${second}\n\ntwo`, [own(null), others("two")]],
    ["one that was cut", `${facts()}\n\none\n\n${second.slice(0, 90)}`, [own("one"), others(null)]],
    ["a frame quoted in words", `${facts()}\n\nlook:\n${second}\nhm`, [own(`look:\n${second}\nhm`)]],
  ])("%s", (_, text, found) => {
    expect(promptsIn(text)).toEqual(found);
    expect(promptsIn(text.replaceAll("\n", "\r\n")).map(({ isOwners }) => isOwners)).toEqual(
      found.map(({ isOwners }) => isOwners),
    );
  });

  test.each(["", "plain", `look:\n${facts()}\nis that so?`, `--- facts are\n\nstubborn`])("none: %j", (text) => {
    expect(promptsIn(text)).toEqual([]);
  });
});
