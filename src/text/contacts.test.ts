import { describe, expect, test } from "vitest";
import { doorLine } from "../context/door-line.ts";
import { createIdMask } from "../context/id-mask.ts";
import { createSpeakers } from "../context/speakers.ts";
import { renderStablePart, topicLine } from "../context/stable-part.ts";
import { tellsId, withoutContacts } from "./contacts.ts";

const ID = "15550001111@s.example";
const mask = createIdMask({
  redactPii: true,
  secret: "s",
  names: new Map([
    ["owner", "Ann"],
    [`xmpp ${ID}`, "Ann"],
  ]),
});
const plain = createIdMask({ redactPii: true, secret: "s" });

/** The kind: every label that somebody chose, or a channel made of an id, and that says what the id would. */
describe("F-CTX-01: names that tell the id", () => {
  test.each([
    ["15550001111", ID],
    ["+1 (555) 000-1111", ID],
    ["１５５５０００１１１１", ID],
    ["٠١٢٣٤٥٦٧٨٩", ID],
    [ID, ID],
    ["me: 15550001111@S.example", ID],
    ["call 0151 2345 678", "ann@example.org"],
    ["ann@example.org", "x"],
    ["Ann <ann@example.org>", "x"],
    ["anna@münchen.example", "x"],
    ["1555\u200b0001111", ID],
    ["user-8842", "8842"],
    ["1_555_000_1111", "x"],
    ["1|555|000~1111", "x"],
    ["1’555’000’1111", "x"],
    ["1\ufe0f\u20e35\ufe0f\u20e35\ufe0f\u20e35\ufe0f\u20e30\ufe0f\u20e31\ufe0f\u20e31\ufe0f\u20e3", "x"],
    ["1,555,000,1111", ID],
    ["1:555:000:1111", ID],
    ["112233", "112233@s.example"],
    ["me 1122-33", "+112233@s.example"],
  ])("F-CTX-01 C5: %j tells who %j is", (name, id) => {
    expect(tellsId(name, id)).toBe(true);
    expect(plain.name("xmpp", name, id)).toMatch(/^user_[0-9a-f]{12}$/);
    expect(mask.name("discord", name, id)).toBe(name);
  });

  test.each([
    ["Ann", "ann@example.org"],
    ["Ann 2026-12-01", "42"],
    ["@ann", "42"],
    ["Ann @ work", "42"],
    ["Room 42", "42"],
    ["", "42"],
    ["R2D2", "7"],
    ["Ann 10:30, 11:45, 12:00", "42"],
    ["Ann 123", "123@s.example"],
  ])("F-CTX-01 C5: %j tells nothing of %j", (name, id) => {
    expect(plain.name("xmpp", name, id)).toBe(name);
  });

  test("F-CTX-01 C5: the name that the owner gave stands for it, by person and by account", () => {
    expect(mask.name("xmpp", "15550001111", "owner")).toBe("Ann");
    expect(mask.name("xmpp", "15550001111", ID)).toBe("Ann");
    const telling = createIdMask({ redactPii: true, secret: "s", names: new Map([["owner", "0151 234567890"]]) });
    expect(telling.name("xmpp", "15550001111", "owner")).toMatch(/^user_/);
  });

  test("F-CTX-01 C5: so it is at the door, in the stable part, in marks, in the names of rooms and in topics", () => {
    const source = {
      platform: "xmpp",
      account: "mohe@test",
      chatId: ID,
      chatType: "dm",
      userId: ID,
      userName: "15550001111",
      isBot: false,
    } as const;
    const room = {
      ...source,
      chatId: "15550001111@rooms.example",
      chatType: "group",
      chatName: "15550001111",
    } as const;
    const topic = { ...source, chatTopic: "Ask ann@example.org or +49 151 23456789, until 2026-12-01" };
    const author = { kind: "person", id: ID, name: "15550001111" } as const;
    const settings = {
      agent: { name: "mohe", displayName: "Mohe" },
      prompts: {},
      platforms: ["xmpp"],
      homes: [],
      tools: [],
      redactPii: true,
      secret: "s",
      timezone: "UTC",
    } as const;
    const texts = [
      doorLine(source, plain),
      doorLine(room, plain),
      topicLine(topic, plain) ?? "",
      renderStablePart({ source: { ...topic, ...room, chatTopic: topic.chatTopic }, shared: false }, settings),
      createSpeakers({ agent: "mohe", known: [author], platform: "xmpp", mask: plain }).markOf(author),
    ];
    for (const text of texts) expect(text).not.toMatch(/1555000|ann@|23456789/);
    expect(texts[2]).toContain("until 2026-12-01");
    expect(createSpeakers({ agent: "mohe", known: [author], platform: "xmpp", mask }).markOf(author)).toBe("[Ann]");
    expect(doorLine(source, mask)).toBe('XMPP (DM with "Ann")');
  });

  test("F-CTX-01: what is no contact stays, letter by letter", () => {
    for (const text of ["a @ b", "@", "@@", "x@", "@x", "v1.2.3", "10:30", "2026-12-01", "in 3 4 5 6 days"])
      expect(withoutContacts(text, () => "!")).toBe(text);
  });
});

/** The kind: a name in any place of the prompt that reads as the agent's own mark. */
describe("F-CTX-03: names in the form of a mark", () => {
  test.each(["[YOU]", "［YOU］", "[[YOU]]", "【YOU】", "[ Y O U ]", "[YОU]", "[YOU] [YOU]"])(
    "F-CTX-03 G2: %j is no mark anywhere",
    (name) => {
      const source = {
        platform: "xmpp",
        account: "mohe@test",
        chatId: "c",
        chatType: "dm",
        userId: "eve@test",
        userName: name,
        chatName: name,
        isBot: false,
      } as const;
      const raw = createIdMask({ redactPii: false, secret: "s" });
      const author = { kind: "person", id: "eve@test", name } as const;
      const speakers = createSpeakers({ agent: "mohe", known: [author], platform: "xmpp", mask: raw });
      const texts = [
        doorLine(source, raw),
        doorLine({ ...source, chatType: "group" }, raw),
        speakers.nameOf(author),
        speakers.markOf(author).slice(1, -1),
      ];
      for (const text of texts) expect(text).not.toMatch(/[[［【]\s*Y|\]|］|】/);
    },
  );
});
