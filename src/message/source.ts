/**
 * Source: where a message comes from. Structured, by value, travelling with the turn (S5): nothing process-wide carries it.
 * All ids are strings. Missing optional fields stay absent (S2). The wire form is in source-json.ts.
 */

import { TertuliaError } from "../errors.ts";

export const PLATFORMS = ["console", "web", "http", "telegram", "discord", "slack", "weixin", "xmpp"] as const;
export type Platform = (typeof PLATFORMS)[number];

export const CHAT_TYPES = ["dm", "group", "channel", "thread"] as const;
export type ChatType = (typeof CHAT_TYPES)[number];

export interface Source {
  readonly platform: Platform;
  /** The account of ours that heard it: a bot name, a JID; at own doors the platform's name. */
  readonly account: string;
  /** Slack workspace, Discord guild, XMPP MUC service; at own doors the agent. */
  readonly scopeId?: string;
  /** Absent or empty where the platform names no chat (K3–K5). */
  readonly chatId?: string;
  readonly chatName?: string;
  readonly chatType: ChatType;
  readonly chatTopic?: string;
  readonly threadId?: string;
  readonly parentChatId?: string;
  /** What the parent chat is; `group` where the wire does not say. */
  readonly parentChatType?: ChatType;
  readonly userId?: string;
  readonly userIdAlt?: string;
  readonly userName?: string;
  readonly isBot: boolean;
  readonly messageId?: string;
}

/** The terminal, the page and the HTTP API: doors whose chat ids are ours to give (K19). */
export function isLocalDoor(platform: Platform): boolean {
  return platform === "console" || platform === "web" || platform === "http";
}

/** An account's id in the one form it is compared in: of a JID the bare address, in lower case (A4). An occupant's id is no JID. */
export function accountId(platform: Platform, id: string): string {
  if (isOccupantAddress(id)) return id;
  return platform === "xmpp" ? (id.split("/", 1)[0] ?? "").toLowerCase() : id;
}

/** Of a room's occupant, by the id that the room's service gave him; his account is not known. */
export function occupantAddress(room: string, occupantId: string): string {
  return `${room}?occupant=${occupantId}`;
}

export function isOccupantAddress(id: string): boolean {
  return id.includes("?occupant=");
}

/** Whether the place shows no account of the author's: no right can hang on one. */
export function isAddressHidden({ platform, chatType, scopeId, userId, userIdAlt }: Source): boolean {
  if (platform !== "xmpp" || (chatType === "dm" && scopeId === undefined)) return false;
  const vouched = chatType === "dm" ? userId : userIdAlt;
  return vouched === undefined || isOccupantAddress(vouched);
}

/** The ids that a platform may leave out. */
const IDS = ["scopeId", "chatId", "threadId", "parentChatId", "userId", "userIdAlt", "messageId"] as const;

/** A blank id is no id: everybody who comes with one would meet (K5). */
export function withoutBlankIds(source: Source): Source {
  const blank = IDS.filter((field) => source[field] !== undefined && isBlank(source[field]));
  if (blank.length === 0) return source;
  return Object.fromEntries(
    Object.entries(source).filter(([field]) => !blank.some((id) => id === field)),
  ) as unknown as Source;
}

/** Who spoke, as keys and places name them: the stable alternate id wins (K3). `""` when the platform does not say. */
export function participantOf(source: Source): string {
  return source.userIdAlt || source.userId || "";
}

/** The XMPP service of a room: what the channel says, else the domain of the room's JID, so that both name one room (K14). */
export function mucServiceOf(source: Source): string {
  if (source.scopeId) return source.scopeId;
  const jid = source.chatId ?? "";
  const at = jid.indexOf("@");
  return at < 0 ? "" : (jid.slice(at + 1).split("/", 1)[0] ?? "");
}

/** K5: whether the source names nowhere a conversation could be: such messages would all meet in one shared sink. */
export function hasNoAddress(source: Source): boolean {
  const { chatId, chatType, threadId, ...ids } = withoutBlankIds(source);
  if (chatId) return false;
  return chatType !== "dm" || !(threadId || ids.userIdAlt || ids.userId);
}

/** Throws `source_invalid`, naming `chat_id`, for a source without an address (S2, K5). */
export function requireAddress(source: Source): void {
  if (!hasNoAddress(source)) return;
  const why = source.chatType === "dm" ? "is missing, and there is no thread_id or user_id either" : "is missing";
  throw sourceInvalid("chat_id", why);
}

/** `problem` continues the sentence that begins with the field, by its name on the wire: "is missing". */
export function sourceInvalid(field: string, problem: string, cause?: unknown): TertuliaError {
  return new TertuliaError("source_invalid", `The source cannot be read: ${field} ${problem}.`, { cause });
}

/** S4: one line for logs and people. Names in it are what others chose: escape it where that matters. */
export function describeSource(source: Source): string {
  if (source.platform === "console") return "CLI terminal";
  const thread = source.threadId ? `, thread: ${source.threadId}` : "";
  return describeChat(source) + thread;
}

function describeChat(source: Source): string {
  const chat = source.chatName || source.chatId || "";
  switch (source.chatType) {
    case "dm":
      return `DM with ${source.userName || source.userId || "user"}`;
    case "group":
      return `group: ${chat}`;
    case "channel":
      return `channel: ${chat}`;
    case "thread":
      return chat;
  }
}

/**
 * S6: lone surrogates and NUL become U+FFFD, other control characters except tab and newline are dropped. Safe to repeat.
 * Surrogates come first: dropping what stands between two lone ones would make a pair nobody wrote.
 */
export function cleanText(text: string): string {
  return text
    .toWellFormed()
    .replaceAll("\0", "\uFFFD")
    .replace(/[^\P{Cc}\t\n]/gu, "");
}

/** Whether nothing of a text can be seen: blanks of every width, control and format characters, fillers. */
export function isBlank(text: string): boolean {
  return !/[^\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]/u.test(text);
}

/** S6 for every text of a source. An id that was nothing but control characters is then empty, which means absent. */
export function cleanSource(source: Source): Source {
  const cleaned = Object.entries(source).map(([field, value]) => [
    field,
    typeof value === "string" ? cleanText(value) : value,
  ]);
  return Object.fromEntries(cleaned) as Source;
}
