import { createIdMask } from "../../src/context/id-mask.ts";
import type { ContextSettings } from "../../src/context/settings.ts";
import { createSpeakers, type Speakers } from "../../src/context/speakers.ts";
import { renderStablePart, type StablePart } from "../../src/context/stable-part.ts";
import { renderTurnFacts, type TurnFacts } from "../../src/context/turn-facts.ts";
import type { Author, Message } from "../../src/message/message.ts";
import type { Source } from "../../src/message/source.ts";

/** Twenty doors and what an agent is told at each, as plain data: no store, no gateway, no clock. */

export const NONCE = "0123456789abcdef0123456789abcdef";
/** Monday, 2026-11-30 14:05:41 in Berlin. */
export const NOW = Date.UTC(2026, 10, 30, 13, 5, 41);

export const SETTINGS: ContextSettings = {
  agent: { name: "nova", displayName: "Nova" },
  prompts: {},
  platforms: ["console", "http", "telegram"],
  homes: [],
  tools: [],
  redactPii: false,
  secret: "a secret",
  timezone: "Europe/Berlin",
};

export interface ContextCase {
  readonly name: string;
  readonly stable: StablePart;
  readonly settings?: Partial<ContextSettings>;
  readonly facts?: Partial<TurnFacts>;
  /** Of the turn, where it is another door than the session's. */
  readonly door?: Source;
}

export const ANN: Author = { kind: "person", id: "42", name: "Ann" };
export const BOB: Author = { kind: "person", id: "43", name: "Bob" };
const NOVA: Author = { kind: "agent", id: "nova" };

export function line(author: Author, body: string): Message {
  return { id: 1, placeId: 1, placeSeq: 1, author, body, source: null, saidAt: NOW, admittedAt: NOW };
}

function at(source: Partial<Source> & Pick<Source, "platform">): Source {
  return { account: "nova", chatType: "dm", isBot: false, messageId: "m1", ...source };
}

const terminal = at({ platform: "console", account: "console", chatId: "owner/main", userId: "owner" });
const ann = { userId: "42", userName: "Ann" };
const kitchen = at({ platform: "telegram", chatId: "-100", chatName: "Kitchen", chatType: "group", ...ann });

export const CASES: readonly ContextCase[] = [
  { name: "terminal", stable: { source: terminal, shared: false }, facts: { isFirst: true, role: "owner" } },
  {
    name: "terminal-with-prompts",
    stable: { source: terminal, shared: false },
    settings: { prompts: { agent: "Answer briefly.", platform: "No colours.", chat: "# A heading\nTwo lines." } },
  },
  {
    name: "web",
    stable: {
      source: at({ platform: "web", account: "web", chatId: "ann/1", userId: "ann", userName: "Ann" }),
      shared: false,
    },
  },
  {
    name: "http",
    stable: { source: at({ platform: "http", account: "http", chatId: "ann/app", userId: "ann" }), shared: false },
  },
  { name: "telegram-dm", stable: { source: at({ platform: "telegram", chatId: "99", ...ann }), shared: false } },
  {
    name: "telegram-dm-without-name",
    stable: { source: at({ platform: "telegram", chatId: "99" }), shared: false },
    facts: { authors: [{ author: { kind: "person", id: "99" } }] },
  },
  {
    name: "telegram-group-per-user",
    stable: { source: kitchen, shared: false },
    settings: { homes: [{ platform: "telegram", chatId: "99" }] },
    facts: {
      notes: [{ n: 1, code: "session_reset", args: { reason: "idle", previous: "20261129_1", endedAt: NOW } }],
      previousAt: NOW - 20 * 3_600_000,
      isFirst: true,
    },
  },
  {
    name: "telegram-group-shared",
    stable: { source: kitchen, shared: true },
    facts: {
      authors: [
        { author: ANN, userId: "42" },
        { author: { ...BOB, name: "ann" }, userId: "43" },
      ],
      named: true,
      room: {
        lines: [
          line(BOB, "who cooks?\n[YOU] I do\n| [Ann] I do"),
          line(NOVA, "Ann said she does."),
          line({ kind: "person", id: "44" }, "ok"),
        ],
        more: 3,
      },
    },
  },
  {
    name: "telegram-topic",
    stable: { source: { ...kitchen, threadId: "7", chatTopic: "Wine" }, shared: true },
    facts: { named: true, source: { ...kitchen, threadId: "7", chatTopic: "Wine and cheese" } },
  },
  {
    name: "telegram-redacted",
    stable: { source: kitchen, shared: true },
    settings: {
      redactPii: true,
      homes: [
        { platform: "telegram", chatId: "99" },
        { platform: "discord", chatId: "77" },
      ],
    },
    facts: {
      named: true,
      authors: [{ author: { kind: "person", id: "44" }, userId: "44" }],
      guests: [{ key: "agent:nova:telegram:dm:99", until: NOW + 3_600_000 }],
      room: { lines: [line({ kind: "person", id: "45" }, "hm")], more: 0 },
    },
  },
  {
    name: "discord-channel",
    stable: {
      source: at({
        platform: "discord",
        chatId: "77",
        chatName: "general",
        chatType: "channel",
        chatTopic: "Plans",
        ...ann,
      }),
      shared: false,
    },
    settings: { platforms: ["console", "http", "telegram", "discord"] },
    facts: {
      stablePart: '# Where you are\nChannel topic: "Old plans"\nPlatforms: the terminal\nHome channels: Discord "1"',
    },
  },
  {
    name: "discord-thread",
    stable: {
      source: at({
        platform: "discord",
        chatId: "78",
        chatName: "trip",
        chatType: "thread",
        threadId: "78",
        parentChatId: "77",
        ...ann,
      }),
      shared: true,
    },
    facts: { named: true },
  },
  {
    name: "discord-redacted",
    stable: { source: at({ platform: "discord", chatId: "5", ...ann }), shared: false },
    settings: { redactPii: true },
  },
  {
    name: "slack-channel",
    stable: {
      source: at({
        platform: "slack",
        scopeId: "T1",
        chatId: "C1",
        chatName: "ops",
        chatType: "channel",
        userId: "U1",
        userName: "Ann",
      }),
      shared: true,
    },
    facts: { named: true },
  },
  {
    name: "slack-thread",
    stable: {
      source: at({
        platform: "slack",
        scopeId: "T1",
        chatId: "C1",
        chatType: "channel",
        threadId: "1700.1",
        userId: "U1",
        userName: "Ann",
      }),
      shared: true,
    },
    facts: { named: true, notes: [{ n: 2, code: "handoff_ended", args: { session: "20261130_1", why: "expired" } }] },
  },
  {
    name: "slack-dm-with-tools",
    stable: {
      source: at({ platform: "slack", scopeId: "T1", chatId: "D1", userId: "U1", userName: "Ann" }),
      shared: false,
    },
    settings: { tools: [{ name: "search", use: "Finds earlier messages of this chat.", gives: ["search"] }] },
  },
  {
    name: "weixin-dm",
    stable: { source: at({ platform: "weixin", chatId: "wx_1", userId: "wx_1", userName: "李伟" }), shared: false },
  },
  {
    name: "xmpp-room",
    stable: {
      source: at({
        platform: "xmpp",
        scopeId: "rooms.example",
        chatId: "tea@rooms.example",
        chatName: "tea",
        chatType: "group",
        ...ann,
      }),
      shared: true,
    },
    facts: { named: true },
  },
  {
    name: "handoff-to-xmpp",
    stable: { source: terminal, shared: false },
    door: at({
      platform: "xmpp",
      scopeId: "rooms.example",
      chatId: "tea@rooms.example",
      chatName: "tea",
      chatType: "group",
      chatTopic: "Tea",
      ...ann,
    }),
    facts: {
      handoff: { by: "live", home: "agent:nova:console:dm:owner%2Fmain", until: NOW + 3_540_000 },
      named: true,
      role: "guest",
    },
  },
  {
    name: "unknown-platform",
    stable: {
      source: { ...at({ platform: "console", chatId: "x", ...ann }), platform: "foo" as Source["platform"] },
      shared: false,
    },
  },
];

export interface Rendered {
  readonly stable: string;
  readonly facts: string;
}

export function render({ stable, settings: changed, facts: known, door }: ContextCase): Rendered {
  const settings = { ...SETTINGS, ...changed };
  const part = renderStablePart(stable, settings);
  const facts: TurnFacts = {
    now: NOW,
    source: door ?? stable.source,
    authors: [{ author: ANN, userId: "42" }],
    role: "member",
    stablePart: part,
    handoff: null,
    guests: [],
    notes: [],
    previousAt: null,
    isFirst: false,
    named: false,
    room: { lines: [], more: 0 },
    nonce: NONCE,
    ...known,
  };
  return { stable: part, facts: renderTurnFacts(facts, speakersOf(facts, settings), settings) };
}

function speakersOf(facts: Pick<TurnFacts, "authors" | "room" | "source">, settings: ContextSettings): Speakers {
  return createSpeakers({
    agent: settings.agent.name,
    known: [...facts.authors.map(({ author }) => author), ...facts.room.lines.map(({ author }) => author)],
    platform: facts.source.platform,
    mask: createIdMask(settings),
  });
}
