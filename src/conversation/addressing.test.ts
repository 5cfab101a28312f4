import { describe, expect, test } from "vitest";
import { addressOf, type Called, isCommandFor } from "./addressing.ts";

const NOVA: Called = { name: "nova", names: ["nova"], mentionFormat: "@{name}", answer: "addressed" };
const MOHE: Called = { name: "mohe", names: ["mohe", "墨和"], mentionFormat: "@{name}", answer: "addressed" };
const OTHERS = ["nova", "nova2", "ai", "墨和二号", "mohe", "墨和"];

function isFor(agent: Called, text: string, more: { isReplyToOwn?: boolean; isMentioned?: boolean } = {}): boolean {
  return addressOf({ text, isReplyToOwn: false, isMentioned: false, ...more }, agent, OTHERS).isAddressed;
}

describe("G1 G-ATH-03 an agent is called", () => {
  test.each([
    "nova, hi",
    "@nova: hi",
    "NOVA hi",
    "＠nova 你好",
    "nova：你好",
    "nova，你好",
    "你好@nova",
    "说@nova好吗",
    "hello (@nova)",
    "hello\nand @nova too",
    "@nova.",
    "@nova's turn",
    "  @Nova",
    "＠ｎｏｖａ hi",
    "privet, @novaпривет",
    "> @other old line\n@nova yes",
    "see https://example.org/@other and @nova",
  ])("%j", (text) => expect(isFor(NOVA, text)).toBe(true));

  test("CJK names have no boundary", () => {
    expect(isFor(MOHE, "@墨和你怎么看")).toBe(true);
    expect(isFor(MOHE, "请＠墨和看看")).toBe(true);
    expect(isFor(MOHE, "墨和，你怎么看")).toBe(true);
  });

  test("by a reply to its own message, by a mention the platform knows of, or always", () => {
    expect(isFor(NOVA, "ok", { isReplyToOwn: true })).toBe(true);
    expect(isFor(NOVA, "ok", { isMentioned: true })).toBe(true);
    expect(isFor({ ...NOVA, answer: "always" }, "ok")).toBe(true);
  });

  test("in a format of its own", () => {
    const tagged = { ...NOVA, mentionFormat: "<{name}>" };
    expect(isFor(tagged, "hi <nova> there")).toBe(true);
    expect(isFor(tagged, "hi @nova")).toBe(true);
    expect(isFor(tagged, "hi <nova2> there")).toBe(false);
  });
});

describe("G1 G-ATH-03 an agent is not called", () => {
  test.each([
    "@nova2 hi",
    "nova2, hi",
    "> @nova old line\nyes",
    "＞ @nova old line\nyes",
    "`@nova`",
    "``a ` @nova``",
    "```\n@nova\n```",
    "```\n@nova",
    "@nová hi",
    "@nova\u0301 hi",
    "问一下nova好吗",
    "@nobody hi",
    "@all hi",
    "ok",
    "novatian, hi",
    "nova_x: hi",
    "@nova_x hi",
    "@nova-two hi",
    "mail bob@nova please",
    "https://example.org/@nova",
    "https://nova, hi",
    "[nova](https://example.org/@nova)",
    "example.org/@nova",
    "a nova, hi",
    "xmpp:someone@nova",
  ])("%j", (text) => expect(isFor(NOVA, text)).toBe(false));

  test("by the name of another that begins like its own", () => {
    expect(isFor(MOHE, "@墨和二号 hi")).toBe(false);
    expect(isFor({ ...NOVA, name: "ai", names: ["ai"] }, "let's try again tomorrow")).toBe(false);
  });
});

describe("what stands behind the address", () => {
  test.each([
    ["@nova /status", "/status"],
    ["nova: /new hello", "/new hello"],
    ["＠ｎｏｖａ，/status", "/status"],
    ["/status", "/status"],
  ])("%j", (text, rest) => {
    expect(addressOf({ text, isReplyToOwn: true, isMentioned: false }, NOVA).rest).toBe(rest);
  });

  test("a command names its agent", () => {
    expect(isCommandFor("/status@nova", NOVA)).toBe(true);
    expect(isCommandFor("/new@Nova go on", NOVA)).toBe(true);
    expect(isCommandFor("/status@nova2", NOVA)).toBe(false);
    expect(isCommandFor("/status", NOVA)).toBe(false);
  });
});
