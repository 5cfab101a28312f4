import { describe, expect, test } from "vitest";
import type { PlatformMessage } from "../message/platform-event.ts";
import type { Source } from "../message/source.ts";
import { type Access, type AccessPolicy, mayEnter, mayStillSpeak, meaningOf, speakerOfWho, whoWrote } from "./gate.ts";

const ALICE = { id: "alice", role: "owner" } as const;
const POLICY: AccessPolicy = {
  agent: { name: "nova", names: ["nova"], mentionFormat: "@{name}", answer: "addressed" },
  names: ["nova", "mohe"],
  agents: new Map([["xmpp mohe@e.org", "mohe"]]),
  people: new Map([["xmpp alice@e.org", ALICE]]),
  access: { open: false, people: ["bob@e.org"], rooms: ["open@muc.e.org"], bots: ["bot@e.org"] },
};
const NOBODY = { siblingAgent: null, address: null };
const room = (more: Partial<Source> = {}): Source => ({
  platform: "xmpp",
  account: "nova@e.org",
  scopeId: "muc.e.org",
  chatId: "core@muc.e.org",
  chatType: "group",
  userId: "core@muc.e.org/alice@e.org",
  userName: "Alice",
  isBot: false,
  ...more,
});
const direct = (userId: string): Source => ({
  platform: "xmpp",
  account: "nova@e.org",
  chatId: userId,
  chatType: "dm",
  userId,
  isBot: false,
});

describe("A4 who wrote it", () => {
  test.each([
    ["own words", { source: room(), isOwn: true, verifiedUser: "alice@e.org" }, NOBODY, { kind: "own" }],
    [
      "a verified person",
      { source: room(), isOwn: false, verifiedUser: "Alice@E.org/phone" },
      NOBODY,
      { kind: "person", person: ALICE },
    ],
    [
      "a verified agent of ours",
      { source: room(), isOwn: false, verifiedUser: "mohe@e.org" },
      NOBODY,
      { kind: "agent", agent: "mohe" },
    ],
    [
      "an agent that a sibling account knows",
      { source: room(), isOwn: false },
      { ...NOBODY, siblingAgent: "mohe" },
      { kind: "agent", agent: "mohe" },
    ],
    [
      "a person whom another account is shown (G7)",
      { source: room(), isOwn: false },
      { ...NOBODY, address: "alice@e.org" },
      { kind: "person", person: ALICE },
    ],
    [
      "a nick that looks like an address",
      { source: room(), isOwn: false },
      NOBODY,
      { kind: "unknown", id: null, seenAs: null, isBot: false },
    ],
    ["a direct chat", { source: direct("alice@e.org/x"), isOwn: false }, NOBODY, { kind: "person", person: ALICE }],
    [
      "a private message of a room",
      { source: { ...direct("alice@e.org"), scopeId: "muc.e.org" }, isOwn: false },
      NOBODY,
      { kind: "unknown", id: null, seenAs: null, isBot: false },
    ],
    [
      "a listed bot",
      { source: direct("bot@e.org"), isOwn: false },
      NOBODY,
      { kind: "unknown", id: "bot@e.org", seenAs: "bot@e.org", isBot: true },
    ],
  ] as const)("%s", (_, written, seen, who) => {
    expect(whoWrote(written, POLICY, seen)).toEqual(who);
  });
});

describe("A1 who may enter", () => {
  const stranger = (id: string | null) => ({ kind: "unknown", id, seenAs: id, isBot: false }) as const;
  const closed: Access = { open: false, people: null, rooms: null, bots: null };
  test.each([
    ["nobody where nothing was said", stranger("bob@e.org"), direct("bob@e.org"), null, false],
    ["nobody where no list was given", stranger("bob@e.org"), direct("bob@e.org"), closed, false],
    ["nobody by an empty list", stranger("bob@e.org"), direct("bob@e.org"), { ...closed, people: [] }, false],
    ["everybody where it is open", stranger(null), room(), { ...closed, open: true }, true],
    ["who is listed", stranger("bob@e.org"), direct("bob@e.org"), POLICY.access, true],
    ["a listed bot", stranger("bot@e.org"), direct("bot@e.org"), POLICY.access, true],
    ["another", stranger("eve@e.org"), direct("eve@e.org"), POLICY.access, false],
    ["nobody without an id by a list of people", stranger(null), room(), POLICY.access, false],
    ["everybody in a listed room", stranger(null), room({ chatId: "Open@muc.e.org" }), POLICY.access, true],
    [
      "nobody in a direct chat that is called like a listed room",
      stranger("x"),
      direct("open@muc.e.org"),
      POLICY.access,
      false,
    ],
    ["a person of the configuration", { kind: "person", person: ALICE } as const, room(), null, true],
  ])("%s", (_, who, source, access, enters) => {
    expect(mayEnter(who, source, access)).toBe(enters);
  });

  test("A3 looked at again, whoever was taken off the list does not speak any more", () => {
    const knows = (id: string): boolean => id === "alice";
    const house = { people: POLICY.people, access: POLICY.access, knows, address: null };
    const author = (id: string, kind: "person" | "bot" | "agent" = "person") => ({ kind, id });
    expect(mayStillSpeak(author("alice"), direct("alice@e.org"), house)).toBe(true);
    expect(mayStillSpeak(author("alice"), direct("alice@e.org"), { ...house, people: new Map() })).toBe(false);
    expect(mayStillSpeak(author("bob@e.org"), direct("bob@e.org"), house)).toBe(true);
    expect(mayStillSpeak(author("eve@e.org"), direct("eve@e.org"), house)).toBe(false);
    expect(mayStillSpeak(author("mohe", "agent"), direct("mohe@e.org"), { ...house, access: null })).toBe(true);
  });
});

test("A4 a stranger's id cannot be taken for a person's of ours", () => {
  const named = { kind: "unknown", id: "alice", seenAs: "alice", isBot: false } as const;
  expect(speakerOfWho(named, direct("alice"), "nova").author.id).toBe("xmpp:alice");
  const hidden = { kind: "unknown", id: null, seenAs: null, isBot: false } as const;
  expect(speakerOfWho(hidden, room({ userId: "core@muc.e.org?occupant=7" }), "nova").author.id).toMatch(/^xmpp:/);
});

describe("G1 what a message means", () => {
  const said = (text: string, more: Partial<PlatformMessage> = {}): PlatformMessage => ({
    kind: "message",
    eventId: "1",
    source: room(),
    target: { door: "push", platform: "xmpp", account: "nova@e.org", chatId: "core@muc.e.org" },
    saidAt: 0,
    isOwn: false,
    text,
    isHistory: false,
    ...more,
  });
  const person = { kind: "person", person: ALICE } as const;
  const bot = { kind: "unknown", id: "bot@e.org", seenAs: null, isBot: true } as const;
  const nobody = { kind: "unknown", id: null, seenAs: null, isBot: false } as const;
  const recorded = { kind: "words", addressed: false };
  test.each([
    ["not addressed", said("hello"), person, false, recorded],
    ["addressed by name", said("@nova hello"), person, false, { kind: "words", addressed: true, reply: "hello" }],
    ["a reply to its own message", said("hello"), person, true, { kind: "words", addressed: true, reply: "hello" }],
    ["a command to it", said("@nova /new"), person, false, { kind: "command", text: "/new" }],
    ["a command with its name", said("/new@nova"), person, false, { kind: "command", text: "/new@nova" }],
    ["a command for another", said("@nova /new@mohe"), person, false, recorded],
    ["a command that is not for it", said("/new"), person, false, recorded],
    ["a command of a bot is words", said("@nova /new"), bot, false, { kind: "words", addressed: true }],
    ["history is never answered", said("@nova /new", { isHistory: true }), person, false, recorded],
    ["own words are never answered (G3)", said("@nova hello"), { kind: "own" } as const, false, recorded],
    [
      "the same agent by another account",
      said("@nova hello"),
      { kind: "agent", agent: "nova" } as const,
      false,
      recorded,
    ],
    [
      "another agent asks it",
      said("@nova hello"),
      { kind: "agent", agent: "mohe" } as const,
      false,
      { kind: "words", addressed: true },
    ],
    ["late words of nobody are no command (G8)", said("@nova /new", { isCaughtUp: true }), nobody, false, recorded],
    ["a blank (F-ROOM-05)", said("\u200b \u3164"), person, true, recorded],
    [
      "the nick that the room gave it",
      said("@nova2 hi", { ownName: "nova2" }),
      person,
      false,
      { kind: "words", addressed: true, reply: "hi" },
    ],
  ])("%s", (_, heard, who, isReply, meaning) => {
    expect(meaningOf(heard, who, POLICY, isReply)).toEqual(meaning);
  });
});
