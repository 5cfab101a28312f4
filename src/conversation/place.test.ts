import { describe, expect, it } from "vitest";
import type { Source } from "../message/source.ts";
import { placeOf } from "./place.ts";

const at = (source: Partial<Source>): Source => ({
  platform: "telegram",
  account: "nova_bot",
  chatType: "dm",
  isBot: false,
  ...source,
});
const place = (source: Partial<Source>, agent = "main") => placeOf({ agent, source: at(source) });

describe("the scope of a place", () => {
  it.each([
    ["a Telegram dm has the account", { chatId: "55" }, "nova_bot"],
    ["a Telegram group is one place for all accounts", { chatType: "group", chatId: "-1" }, ""],
    ["a Weixin dm has the account", { platform: "weixin", account: "b@im.bot", chatId: "u" }, "b@im.bot"],
    [
      "a Slack channel has the workspace",
      { platform: "slack", scopeId: "T1", chatType: "channel", chatId: "C1" },
      "T1",
    ],
    ["a Slack dm has the workspace", { platform: "slack", scopeId: "T1", chatId: "D1" }, "T1"],
    [
      "an XMPP room has its service",
      { platform: "xmpp", scopeId: "muc.x", chatType: "group", chatId: "r@muc.x" },
      "muc.x",
    ],
    ["an XMPP room names its service itself", { platform: "xmpp", chatType: "group", chatId: "r@muc.x" }, "muc.x"],
    ["an XMPP dm has the account", { platform: "xmpp", account: "nova@x", chatId: "alice@x" }, "nova@x"],
    [
      "a private message in a room has both",
      { platform: "xmpp", account: "nova@x", scopeId: "muc.x", chatId: "o1" },
      "nova@x|muc.x",
    ],
    ["a Discord channel has none", { platform: "discord", scopeId: "guild", chatType: "channel", chatId: "C" }, ""],
    ["the terminal has the agent", { platform: "console", account: "console", chatId: "owner/main" }, "main"],
    ["the page has the agent", { platform: "web", account: "web", chatId: "owner/1" }, "main"],
    ["HTTP has the agent", { platform: "http", account: "http", chatId: "owner/x" }, "main"],
  ] as const)("K20 %s", (_, source, scope) => {
    expect(place(source).scope).toBe(scope);
  });

  it("K20 two bots never share a dm", () => {
    expect(place({ chatId: "55", account: "a" })).not.toEqual(place({ chatId: "55", account: "b" }));
  });

  it("K20 two agents never share a conversation at an own door", () => {
    const source = { platform: "console", account: "console", chatId: "owner/main" } as const;
    expect(place(source, "nova")).not.toEqual(place(source, "mohe"));
  });

  it("K20 two agents share a room", () => {
    const source = { platform: "discord", chatType: "channel", chatId: "C" } as const;
    expect(place({ ...source, account: "nova" }, "nova")).toEqual(place({ ...source, account: "mohe" }, "mohe"));
  });

  it("G-KEY-04 the same channel id in two workspaces is two places", () => {
    const source = { platform: "slack", chatType: "channel", chatId: "C9" } as const;
    expect(place({ ...source, scopeId: "T1" })).not.toEqual(place({ ...source, scopeId: "T2" }));
  });
});

describe("the ids of a place", () => {
  it("K13 a thread is its own place", () => {
    const source = { chatType: "group", chatId: "-100", threadId: "2" } as const;
    expect(place(source)).toEqual({ platform: "telegram", scope: "", chatId: "-100", threadId: "2" });
    expect(place({ ...source, threadId: "7" })).not.toEqual(place(source));
  });

  it("K3 two people whom a platform gives no chat do not share a place", () => {
    expect(place({ userId: "jordan" })).toEqual({
      platform: "telegram",
      scope: "nova_bot",
      chatId: "user:jordan",
      threadId: "",
    });
    expect(place({ userId: "jordan", userIdAlt: "uuid" })).not.toEqual(place({ userId: "jordan" }));
  });

  it.each([" ", "\t", "\u200b", "\u3000\u2060"])("F-KEY-01 K3 an id of blanks is none: %j", (blank) => {
    expect(place({ chatId: blank, userId: "jordan", threadId: blank })).toEqual(place({ userId: "jordan" }));
    expect(place({ chatId: blank, userIdAlt: blank, userId: "jordan" })).toEqual(place({ userId: "jordan" }));
    const room = { platform: "xmpp", chatType: "group", chatId: "r@muc.x" } as const;
    expect(place({ ...room, scopeId: blank })).toEqual(place(room));
  });

  it("K4 a thread without a chat and an author is its place", () => {
    expect(place({ threadId: "7" })).toMatchObject({ chatId: "", threadId: "7" });
  });
});
