import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TertuliaError } from "../errors.ts";
import { CHAT_TYPES, cleanSource, cleanText, describeSource, hasNoAddress, PLATFORMS, type Source } from "./source.ts";
import { sourceFromJson, sourceToJson } from "./source-json.ts";

function refusalOf(json: unknown): TertuliaError {
  try {
    sourceFromJson(json);
  } catch (error) {
    if (error instanceof TertuliaError) return error;
    throw error;
  }
  throw new Error("the source was accepted");
}

/** Every UTF-16 string: lone surrogates, controls and the empty string too. */
const anyText = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) });

const anySource = fc
  .record(
    {
      platform: fc.constantFrom(...PLATFORMS),
      account: anyText.filter((text) => text !== ""),
      chatType: fc.constantFrom(...CHAT_TYPES),
      isBot: fc.boolean(),
      scopeId: anyText,
      chatId: anyText,
      chatName: anyText,
      chatTopic: anyText,
      threadId: anyText,
      parentChatId: anyText,
      parentChatType: fc.constantFrom(...CHAT_TYPES),
      userId: anyText,
      userIdAlt: anyText,
      userName: anyText,
      messageId: anyText,
    },
    { requiredKeys: ["platform", "account", "chatType", "isBot"] },
  )
  .map((source): Source => ({ ...source }));

const everyField: Source = {
  platform: "slack",
  account: "B1",
  scopeId: "T1",
  chatId: "C1",
  chatName: "general",
  chatType: "thread",
  chatTopic: "plans",
  threadId: "1700.1",
  parentChatId: "C1",
  parentChatType: "channel",
  userId: "U1",
  userIdAlt: "W1",
  userName: "Alice",
  isBot: true,
  messageId: "1700.2",
};

describe("the fields", () => {
  it("S1 every field has its name on the wire", () => {
    expect(sourceToJson(everyField)).toEqual({
      platform: "slack",
      account: "B1",
      scope_id: "T1",
      chat_id: "C1",
      chat_name: "general",
      chat_type: "thread",
      chat_topic: "plans",
      thread_id: "1700.1",
      parent_chat_id: "C1",
      parent_chat_type: "channel",
      user_id: "U1",
      user_id_alt: "W1",
      user_name: "Alice",
      is_bot: true,
      message_id: "1700.2",
    });
  });

  it("S1 a numeric id becomes a string", () => {
    const source = sourceFromJson({
      platform: "telegram",
      account: 7,
      chat_id: -100500,
      chat_type: "group",
      thread_id: 2,
      user_id: 0,
      message_id: Number.MAX_SAFE_INTEGER,
    });
    expect(source).toEqual({
      platform: "telegram",
      account: "7",
      chatId: "-100500",
      chatType: "group",
      threadId: "2",
      userId: "0",
      messageId: "9007199254740991",
      isBot: false,
    });
  });

  it("S1 a message id beyond 2^53 is kept exactly as a string and refused as a number", () => {
    const weixin = { platform: "weixin", account: "b", chat_id: "u" };
    expect(sourceFromJson({ ...weixin, message_id: "9223372036854775807" }).messageId).toBe("9223372036854775807");
    // The literal a client sends; JSON.parse has rounded it before anybody can look.
    const refusal = refusalOf(JSON.parse(`{"platform":"weixin","chat_id":"u","message_id":9007199254740993}`));
    expect(refusal.code).toBe("source_invalid");
    expect(refusal.message).toContain("message_id");
  });

  it("S1 a fraction is no id", () => {
    expect(refusalOf({ platform: "telegram", chat_id: 1.5 }).message).toContain("chat_id");
  });
});

describe("reading and writing", () => {
  it("S2 a source comes back as it was written", () => {
    fc.assert(
      fc.property(
        anySource.filter((source) => !hasNoAddress(source)),
        (source) => {
          expect(sourceFromJson(sourceToJson(source))).toEqual(source);
          expect(sourceFromJson(JSON.parse(JSON.stringify(sourceToJson(source))))).toEqual(source);
        },
      ),
    );
  });

  it("S2 missing optional fields stay absent, and null counts as missing", () => {
    const least = { platform: "discord", account: "nova", chatId: "abc", chatType: "dm", isBot: false } as const;
    const json = { platform: "discord", account: "nova", chat_id: "abc", chat_type: "dm", is_bot: false } as const;
    expect(sourceToJson(least)).toStrictEqual(json);
    expect(sourceFromJson(json)).toStrictEqual(least);
    expect(sourceFromJson({ ...json, user_id: null, chat_type: null, is_bot: null })).toStrictEqual(least);
  });

  it("S2 a missing chat type reads as dm", () => {
    expect(sourceFromJson({ platform: "telegram", account: "nova", chat_id: "99" }).chatType).toBe("dm");
  });

  it("S2 the default of the parent's chat type is not stored", () => {
    const source = sourceFromJson({ platform: "discord", chat_type: "thread", chat_id: "T", parent_chat_id: "C" });
    expect(source).not.toHaveProperty("parentChatType");
  });

  it("S2 a missing account reads as the platform's name", () => {
    expect(sourceFromJson({ platform: "console", chat_id: "owner/main" }).account).toBe("console");
  });

  it.each([
    ["an unknown platform", { platform: "nonexistent", chat_id: "1" }, "platform"],
    ["a platform named like a property of every object", { platform: "toString", chat_id: "1" }, "platform"],
    ["no platform", { chat_id: "1" }, "platform"],
    ["an unknown chat type", { platform: "slack", chat_id: "1", chat_type: "forum" }, "chat_type"],
    ["an empty chat type", { platform: "slack", chat_id: "1", chat_type: "" }, "chat_type"],
    [
      "an unknown chat type of the parent",
      { platform: "slack", chat_id: "1", parent_chat_type: "x" },
      "parent_chat_type",
    ],
    ["a group without a chat", { platform: "slack", chat_type: "group", user_id: "U1", thread_id: "7" }, "chat_id"],
    ["a dm with no address at all", { platform: "telegram" }, "chat_id"],
    ["a dm with empty ids only", { platform: "telegram", chat_id: "", thread_id: "", user_id: "" }, "chat_id"],
    ["an id that is an object", { platform: "telegram", chat_id: {} }, "chat_id"],
    ["a name that is a number", { platform: "telegram", chat_id: "1", user_name: 7 }, "user_name"],
    ["a bot flag that is a text", { platform: "telegram", chat_id: "1", is_bot: "false" }, "is_bot"],
    ["a list", [], "object"],
    ["nothing", null, "object"],
  ])("S2 %s is refused, naming the field", (_, json, field) => {
    const refusal = refusalOf(json);
    expect(refusal.code).toBe("source_invalid");
    expect(refusal.message).toContain(field);
  });

  it("S3 trust facts on the wire have no effect", () => {
    const json = { platform: "slack", account: "B1", chat_id: "D1" };
    const forged = { authorised: true, authorized: true, is_self: true, mentioned: true, role_authorized: true };
    expect(sourceFromJson({ ...json, ...forged })).toStrictEqual(sourceFromJson(json));
  });
});

describe("the description", () => {
  const at = (source: Partial<Source>): Source => ({
    platform: "telegram",
    account: "nova",
    chatType: "dm",
    isBot: false,
    ...source,
  });

  it.each([
    ["the terminal", at({ platform: "console", chatId: "owner/main", threadId: "7" }), "CLI terminal"],
    ["a dm by name", at({ chatId: "99", userId: "456", userName: "bob" }), "DM with bob"],
    ["a dm by id", at({ chatId: "99", userId: "456", userName: "" }), "DM with 456"],
    ["a dm of nobody known", at({ chatId: "99" }), "DM with user"],
    ["a group by name", at({ chatType: "group", chatId: "-1", chatName: "Dev Chat" }), "group: Dev Chat"],
    ["a group by id", at({ chatType: "group", chatId: "-1" }), "group: -1"],
    ["a channel by name", at({ chatType: "channel", chatId: "5", chatName: "News" }), "channel: News"],
    ["a channel by id", at({ chatType: "channel", chatId: "5" }), "channel: 5"],
    ["a thread by name", at({ chatType: "thread", chatId: "5", chatName: "Q&A", threadId: "8" }), "Q&A, thread: 8"],
    ["a thread by id", at({ chatType: "thread", chatId: "5" }), "5"],
    [
      "a topic of a group",
      at({ chatType: "group", chatId: "-1", chatName: "Dev", threadId: "42" }),
      "group: Dev, thread: 42",
    ],
    ["a dm topic", at({ chatId: "99", userName: "bob", threadId: "t" }), "DM with bob, thread: t"],
  ])("S4 %s", (_, source, text) => {
    expect(describeSource(source)).toBe(text);
  });
});

describe("by value", () => {
  it("S5 reading, describing and cleaning leave the source alone and keep nothing", () => {
    const source = Object.freeze({ ...everyField, userName: "a\u0007" });
    const before = structuredClone(source);
    const cleaned = cleanSource(source);
    describeSource(source);
    sourceToJson(source);
    expect(source).toEqual(before);
    expect(cleaned).not.toBe(source);
  });
});

describe("cleaning", () => {
  it.each([
    ["a NUL", "a\u0000b", "a\uFFFDb"],
    ["a lone high surrogate", "a\uD83Db", "a\uFFFDb"],
    ["a lone low surrogate at the end", "a\uDE00", "a\uFFFD"],
    ["a pair", "a😀b", "a😀b"],
    ["two halves with a control between", "\uD83D\u0001\uDE00", "\uFFFD\uFFFD"],
    ["tab and newline", "a\tb\nc", "a\tb\nc"],
    ["a carriage return", "a\r\nb\rc", "a\nbc"],
    ["bell, escape, delete and C1", "\u0007a\u001b[0m\u007f\u0085\u009fb", "a[0mb"],
    ["what is no control character", "é\u00a0\u200d\u2028中", "é\u00a0\u200d\u2028中"],
  ])("S6 %s", (_, dirty, clean) => {
    expect(cleanText(dirty)).toBe(clean);
  });

  it("S6 a cleaned text is well formed, has no control characters, and stays as it is", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const clean = cleanText(text);
        expect(clean.isWellFormed()).toBe(true);
        expect(clean).not.toMatch(/[^\P{Cc}\t\n]/u);
        expect(cleanText(clean)).toBe(clean);
      }),
    );
  });

  it("S6 every text of a source is cleaned, and absent fields stay absent", () => {
    fc.assert(
      fc.property(anySource, (source) => {
        const cleaned = cleanSource(source);
        expect(Object.keys(cleaned)).toEqual(Object.keys(source));
        for (const [field, value] of Object.entries(source)) {
          expect(cleaned[field as keyof Source]).toBe(typeof value === "string" ? cleanText(value) : value);
        }
      }),
    );
  });

  it("S6 an id of control characters only is then no address", () => {
    expect(hasNoAddress(cleanSource({ ...everyField, chatId: "\u0001\u0002" }))).toBe(true);
  });
});
