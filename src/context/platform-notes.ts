import { quoteUntrusted } from "../text/untrusted.ts";

/**
 * The facts of a platform that an agent needs, as data (C3). What it cannot do there is named only while it has no tool for it; an
 * unknown platform gets a neutral text.
 */

/** An ability that a tool can give an agent; while no tool gives it, the platform's notes say that it cannot. */
export type Ability = "search" | "pin" | "react" | "members" | "chats" | "edit" | "begin" | "files";

interface PlatformNotes {
  /** The platform's name in texts. */
  readonly title: string;
  /** How a text must look. */
  readonly markup: string;
  readonly length: string;
  /** Markup and length in a few words. */
  readonly brief: string;
  readonly mentions?: string;
  /** Limits of the platform itself, which no tool lifts. */
  readonly limits?: string;
  readonly cannot: Readonly<Partial<Record<Ability, string>>>;
}

/** Each ability in a few words. */
const BRIEFLY: Readonly<Record<Ability, string>> = {
  search: "search",
  pin: "pin",
  react: "react",
  members: "manage members",
  chats: "manage channels",
  edit: "edit",
  begin: "begin a conversation",
  files: "send files",
};

const CHAT_CANNOT = {
  search: "search earlier messages of this chat",
  pin: "pin messages",
  react: "react to messages",
  edit: "change or delete messages",
  files: "send files",
} as const;

const NOTES: Readonly<Record<string, PlatformNotes>> = {
  console: {
    title: "the terminal",
    markup: "Text is shown as you write it, in a fixed-width font: keep markup light.",
    length: "No limit.",
    brief: "text as it is",
    cannot: {},
  },
  web: {
    title: "the web page",
    markup: "Markdown.",
    length: "No limit.",
    brief: "Markdown",
    cannot: {},
  },
  http: {
    title: "the HTTP API",
    markup: "A program reads your answer, and shows it to its user or not; Markdown is usual.",
    length: "No limit.",
    brief: "usually Markdown",
    cannot: {},
  },
  telegram: {
    title: "Telegram",
    markup: "Simple Markdown: bold, italic, code, quotes, lists, links. No tables, no HTML.",
    length: "A message holds 4,096 characters; a longer answer is sent in parts.",
    brief: "simple Markdown, no tables; 4,096 characters a message",
    mentions: "@username",
    cannot: { ...CHAT_CANNOT, members: "manage members or roles" },
  },
  discord: {
    title: "Discord",
    markup: "Markdown without tables.",
    length: "A message holds 2,000 characters; a longer answer is sent in parts.",
    brief: "Markdown, no tables; 2,000 characters a message",
    mentions: "<@id> with the number of the user; @everyone and @here reach nobody",
    cannot: { ...CHAT_CANNOT, members: "manage members or roles", chats: "list or manage channels" },
  },
  slack: {
    title: "Slack",
    markup: "Simple Markdown: bold, italic, code, quotes, lists, links. No tables.",
    length: "A message holds 4,000 characters; a longer answer is sent in parts.",
    brief: "simple Markdown, no tables; 4,000 characters a message",
    mentions: "<@id> with the id of the user",
    cannot: { ...CHAT_CANNOT, members: "list or manage members", chats: "list or manage channels" },
  },
  weixin: {
    title: "Weixin",
    markup: "Plain text: markup is shown as it stands.",
    length: "A message holds 2,000 characters; write one short answer rather than many messages.",
    brief: "plain text; 2,000 characters a message",
    limits: "You can answer within 24 hours of the person's last message, and at most ten times.",
    cannot: {
      search: CHAT_CANNOT.search,
      edit: CHAT_CANNOT.edit,
      begin: "begin a conversation",
      files: CHAT_CANNOT.files,
    },
  },
  xmpp: {
    title: "XMPP",
    markup: "Plain text; *bold*, _italic_ and `code` are understood by many clients. No tables.",
    length: "No fixed limit; an answer of more than 8,000 characters is sent in parts.",
    brief: "plain text, no tables",
    mentions: "the nick, followed by a colon or a comma",
    cannot: { ...CHAT_CANNOT, members: "manage members or their roles" },
  },
};

const NEUTRAL: Omit<PlatformNotes, "title"> = {
  markup: "Plain text that can be read anywhere.",
  length: "Keep it short: limits are not known.",
  brief: "plain text, kept short",
  cannot: {},
};

export function notesFor(platform: string): PlatformNotes {
  return Object.hasOwn(NOTES, platform)
    ? NOTES[platform]!
    : { title: `the platform ${quoteUntrusted(platform, 40)}`, ...NEUTRAL };
}

/** The lines of the stable part about the platform where a session opened. */
export function platformLines(platform: string, abilities: readonly Ability[]): string[] {
  const { markup, length, mentions, limits } = notesFor(platform);
  const missing = cannotDo(platform, abilities);
  return [
    `Markup: ${markup}`,
    `Length: ${length}`,
    ...(mentions === undefined ? [] : [`Mentions: ${mentions}.`]),
    ...(limits === undefined ? [] : [`Limits: ${limits}`]),
    ...(missing.length === 0 ? [] : [`You cannot ${missing.map(([, text]) => text).join(", ")}.`]),
  ];
}

/** The same in one line, for a turn by another door than the session's own (C6). */
export function doorLimits(platform: string, abilities: readonly Ability[]): string {
  const { title, brief, limits } = notesFor(platform);
  const missing = cannotDo(platform, abilities);
  return [
    `On ${title}: ${brief}.`,
    ...(limits === undefined ? [] : [limits]),
    ...(missing.length === 0 ? [] : [`You cannot ${missing.map(([ability]) => BRIEFLY[ability]).join(", ")}.`]),
  ].join(" ");
}

function cannotDo(platform: string, abilities: readonly Ability[]): [Ability, string][] {
  const cannot = Object.entries(notesFor(platform).cannot) as [Ability, string][];
  return cannot.filter(([ability]) => !abilities.includes(ability));
}
