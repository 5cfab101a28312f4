/**
 * The session key: what counts as the same conversation. This is the only place that builds or splits keys (K15); the
 * store calls it inside `admit`, with settings and identity as plain data. A reply is never routed by a key.
 *
 *     agent:<agent>:<platform>[@<scope>]:<chatType>:<chatId>[:thread:<id>][:user:<id>]
 *     agent:<agent>:person:<personId>               K12
 *     agent:<agent>:job:<id>:<run>                  K17
 *     agent:<agent>:foreign:<runtime>:<id>          H13
 *
 * Promises: different parts give different keys, and a key is parsed back into its parts (an empty id means absent). A
 * lone surrogate has no UTF-8 form and would reach the file as U+FFFD, where two conversations could meet: it is refused.
 * Ids that came through the edge have none (S6).
 */

import { TertuliaError } from "../errors.ts";
import {
  CHAT_TYPES,
  type ChatType,
  isLocalDoor,
  mucServiceOf,
  PLATFORMS,
  type Platform,
  participantOf,
  requireAddress,
  type Source,
  sourceInvalid,
  withoutBlankIds,
} from "../message/source.ts";

export type SessionKey = string & { readonly __brand: "SessionKey" };

/** The settings that decide a key, resolved for one agent and the platform of the message. */
export interface KeyRules {
  /** K6, K7: in a group or channel everybody has a conversation of their own. */
  readonly groupSessionsPerUser: boolean;
  /** K9, K10: the same for threads; independent of the setting above. */
  readonly threadSessionsPerUser: boolean;
  /** K13: `chat` joins a chat's threads and topics to the chat itself. */
  readonly threadScope: "thread" | "chat";
  /** K12: `person` gives a known person one conversation at every door. */
  readonly dmScope: "chat" | "person";
  /** K14: where a room is one conversation whatever `groupSessionsPerUser` says. */
  readonly sharedPlatforms: readonly Platform[];
  /** K20: this agent has more than one account on this platform. Read for Telegram and Weixin direct chats only. */
  readonly accountInKey: boolean;
}

export const DEFAULT_KEY_RULES: KeyRules = Object.freeze({
  groupSessionsPerUser: true,
  threadSessionsPerUser: false,
  threadScope: "thread",
  dmScope: "chat",
  sharedPlatforms: Object.freeze(["xmpp"] as const),
  accountInKey: false,
});

export interface ChatKeyParts {
  readonly form: "chat";
  readonly agent: string;
  readonly platform: Platform;
  readonly scope?: string;
  readonly chatType: ChatType;
  /** `""` only in a dm of a platform that names no chat (K3, K4). */
  readonly chatId: string;
  readonly threadId?: string;
  /** Never in a dm that has a chat id (K2). */
  readonly userId?: string;
}

export type KeyParts =
  | ChatKeyParts
  | { readonly form: "person"; readonly agent: string; readonly personId: string }
  | { readonly form: "job"; readonly agent: string; readonly jobId: string; readonly run: string }
  | { readonly form: "foreign"; readonly agent: string; readonly runtime: string; readonly id: string };

/** The row of the contract that decided a key (K18). */
export type KeyRule =
  | "K1"
  | "K2"
  | "K3"
  | "K4"
  | "K6"
  | "K7"
  | "K8"
  | "K9"
  | "K10"
  | "K11"
  | "K12"
  | "K13"
  | "K14"
  | "K19"
  | "K20";

export interface KeyRequest {
  readonly agent: string;
  readonly source: Source;
  readonly rules: KeyRules;
  /** The person the author is linked to, where the gateway knows one. */
  readonly personId?: string | undefined;
}

export interface DecidedParts {
  readonly parts: KeyParts;
  readonly rule: KeyRule;
}

export interface DecidedKey extends DecidedParts {
  readonly key: SessionKey;
}

const RESERVED_NAMES: readonly string[] = ["person", "job", "foreign"];

/** Whether an agent or a person may be called so in a key: `[a-z0-9_-]+`, and not a word that marks a form of key. */
export function isKeyName(name: string): boolean {
  return /^[a-z0-9_-]+$/.test(name) && !RESERVED_NAMES.includes(name);
}

/** K1–K20 in one call. Throws `source_invalid` for a source without an address (K5) and for what no key can hold. */
export function sessionKeyFor(request: KeyRequest): DecidedKey {
  const decided = keyPartsFor(request);
  return { ...decided, key: buildSessionKey(decided.parts) };
}

/** The parts of the key a message belongs to, and the rule that said so. Throws `source_invalid`, naming the field (K5). */
export function keyPartsFor({ source: written, ...given }: KeyRequest): DecidedParts {
  const source = withoutBlankIds(written);
  const request = { ...given, source };
  const { rules } = request;
  requireAddress(source);
  if (source.chatType === "dm") return directKey(request);
  if (rules.threadScope === "chat" && isThread(source)) return joinedKey(request);
  return roomKey(request);
}

/** K1–K4, K12, K19, K20. */
function directKey({ agent, source, rules, personId }: KeyRequest): DecidedParts {
  if (rules.dmScope === "person" && personId) return { parts: { form: "person", agent, personId }, rule: "K12" };
  const chatId = source.chatId ?? "";
  // With a chat id the chat is the person already; a user part would split it whenever the id form changes (K2).
  const userId = chatId === "" ? participantOf(source) : "";
  const parts = chatParts(agent, source, { scope: keyScope(source, rules), chatId, threadId: source.threadId, userId });
  return { parts, rule: directRule(source, parts) };
}

function directRule(source: Source, parts: ChatKeyParts): KeyRule {
  if (parts.chatId === "") return parts.userId === undefined ? "K4" : "K3";
  if (parts.scope !== undefined && isUniquePerAccount(source)) return "K20";
  if (isLocalDoor(source.platform) && parseLocalDoorChatId(parts.chatId) !== undefined) return "K19";
  return parts.threadId === undefined ? "K1" : "K2";
}

/** K6–K11, K14. */
function roomKey({ agent, source, rules }: KeyRequest): DecidedParts {
  const rule = roomRule(source, rules);
  const isPerUser = rule === "K6" || rule === "K10" || rule === "K11";
  const parts = chatParts(agent, source, {
    scope: keyScope(source, rules),
    chatId: source.chatId ?? "",
    threadId: source.threadId,
    userId: isPerUser ? participantOf(source) : "",
  });
  return { parts, rule };
}

function roomRule(source: Source, rules: KeyRules): KeyRule {
  const hasUser = participantOf(source) !== "";
  if (source.threadId) return rules.threadSessionsPerUser && hasUser ? "K10" : "K9";
  if (rules.sharedPlatforms.includes(source.platform)) return "K14";
  if (!rules.groupSessionsPerUser) return "K7";
  if (!hasUser) return "K8";
  return source.platform === "slack" && source.scopeId ? "K11" : "K6";
}

/** K13: the key the same person would have in the parent chat. */
function joinedKey(request: KeyRequest): DecidedParts {
  const { threadId: _, ...rest } = request.source;
  const parent = { ...request, source: { ...rest, ...parentOf(request.source) } };
  const { parts } = parent.source.chatType === "dm" ? directKey(parent) : roomKey(parent);
  return { parts, rule: parts.form === "person" ? "K12" : "K13" };
}

/** Where the thread is only a part of the chat named in the source (a forum topic), that chat is the parent. */
function parentOf(source: Source): { chatId: string; chatType: ChatType } {
  const chatId = source.parentChatId || source.chatId || "";
  const isTopic = source.chatType !== "thread" && chatId === source.chatId;
  return { chatId, chatType: source.parentChatType ?? (isTopic ? source.chatType : "group") };
}

function isThread(source: Source): boolean {
  return source.chatType === "thread" || Boolean(source.threadId);
}

/** K14, K20. A Discord guild is not in the key: channel ids are unique without it. */
function keyScope(source: Source, rules: KeyRules): string {
  if (source.platform === "slack") return source.scopeId ?? "";
  if (source.platform === "xmpp") return source.chatType === "dm" ? (source.scopeId ?? "") : mucServiceOf(source);
  return rules.accountInKey && isUniquePerAccount(source) ? source.account : "";
}

/** K20: platforms where another account of ours may know the same chat id as another chat. */
function isUniquePerAccount(source: Source): boolean {
  return source.chatType === "dm" && (source.platform === "telegram" || source.platform === "weixin");
}

interface ChatIds {
  readonly scope: string;
  readonly chatId: string;
  readonly threadId: string | undefined;
  readonly userId: string;
}

function chatParts(agent: string, source: Source, { scope, chatId, threadId, userId }: ChatIds): ChatKeyParts {
  return {
    form: "chat",
    agent,
    platform: source.platform,
    ...(scope ? { scope } : {}),
    chatType: source.chatType,
    chatId,
    ...(threadId ? { threadId } : {}),
    ...(userId ? { userId } : {}),
  };
}

/** K15. Throws `source_invalid` for parts that are no key: a bad name, a missing id, an address K2 or K5 rules out. */
export function buildSessionKey(parts: KeyParts): SessionKey {
  const agent = `agent:${nameOf("agent", parts.agent)}`;
  switch (parts.form) {
    case "person":
      return `${agent}:person:${nameOf("person_id", parts.personId)}` as SessionKey;
    case "job":
      return `${agent}:job:${givenId("job_id", parts.jobId)}:${givenId("run", parts.run)}` as SessionKey;
    case "foreign":
      return `${agent}:foreign:${givenId("runtime", parts.runtime)}:${givenId("id", parts.id)}` as SessionKey;
    case "chat":
      return `${agent}:${chatAddress(parts)}` as SessionKey;
  }
}

function chatAddress(parts: ChatKeyParts): string {
  const { platform, scope, chatType, chatId, threadId, userId } = parts;
  if (!chatId && (chatType !== "dm" || !(threadId || userId))) throw sourceInvalid("chat_id", "is missing");
  if (chatId && chatType === "dm" && userId) throw sourceInvalid("user_id", "is no part of a dm that has a chat_id");
  return [
    scope ? `${platform}@${encodeId("scope_id", scope)}` : platform,
    chatType,
    encodeId("chat_id", chatId),
    ...(threadId ? ["thread", encodeId("thread_id", threadId)] : []),
    ...(userId ? ["user", encodeId("user_id", userId)] : []),
  ].join(":");
}

/** The inverse of `buildSessionKey`. Throws `source_invalid` for every text that it would not have built. */
export function parseSessionKey(key: string): KeyParts {
  const parts = readKey(key);
  // Building it again is the whole check of the details: names, needless escapes, empty ids, what is left over.
  if (parts === undefined || !builds(parts, key)) throw sourceInvalid("session_key", "is not a session key");
  return parts;
}

export function isSessionKey(text: string): boolean {
  try {
    parseSessionKey(text);
    return true;
  } catch (cause) {
    if (cause instanceof TertuliaError && cause.code === "source_invalid") return false;
    throw cause;
  }
}

function builds(parts: KeyParts, key: string): boolean {
  try {
    return buildSessionKey(parts) === key;
  } catch (cause) {
    throw sourceInvalid("session_key", "is not a session key", cause);
  }
}

function readKey(key: string): KeyParts | undefined {
  const [word, agent, form, ...rest] = key.split(":");
  if (word !== "agent" || agent === undefined || form === undefined) return undefined;
  const ids = rest.map(decodeId);
  const [first, second] = ids;
  if (form === "person") {
    return ids.length === 1 && first !== undefined ? { form, agent, personId: first } : undefined;
  }
  if (form === "job" || form === "foreign") {
    if (ids.length !== 2 || first === undefined || second === undefined) return undefined;
    return form === "job" ? { form, agent, jobId: first, run: second } : { form, agent, runtime: first, id: second };
  }
  return readChat(agent, form, ids);
}

function readChat(agent: string, door: string, ids: readonly string[]): ChatKeyParts | undefined {
  const [name, scope] = door.split("@");
  const [type, chatId, ...rest] = ids;
  const platform = PLATFORMS.find((known) => known === name);
  const chatType = CHAT_TYPES.find((known) => known === type);
  if (!platform || !chatType || chatId === undefined) return undefined;
  const threadId = rest[0] === "thread" ? rest.splice(0, 2)[1] : undefined;
  const userId = rest[0] === "user" ? rest.splice(0, 2)[1] : undefined;
  return {
    form: "chat",
    agent,
    platform,
    ...(scope === undefined ? {} : { scope: decodeId(scope) }),
    chatType,
    chatId,
    ...(threadId === undefined ? {} : { threadId }),
    ...(userId === undefined ? {} : { userId }),
  };
}

/**
 * Whether several people speak in the conversation of a key: the same decision that made the key says whether speakers are named
 * (C2). A direct chat, and a room where everybody has a conversation of their own, have one speaker.
 */
export function hasSeveralSpeakers(key: string): boolean {
  const parts = parseSessionKey(key);
  return parts.form === "chat" && parts.chatType !== "dm" && parts.userId === undefined;
}

/** K19: the chat id of a conversation at an own door. The name may hold anything; the key encodes it like every id. */
export function localDoorChatId(personId: string, name: string): string {
  if (name === "") throw sourceInvalid("the conversation's name", "is missing");
  return `${nameOf("person_id", personId)}/${name}`;
}

/** The inverse of `localDoorChatId`; `undefined` for a chat id that is not of this form. */
export function parseLocalDoorChatId(chatId: string): { personId: string; name: string } | undefined {
  // The first slash: a person id has none, a name may.
  const slash = chatId.indexOf("/");
  const personId = chatId.slice(0, Math.max(slash, 0));
  const name = chatId.slice(slash + 1);
  return isKeyName(personId) && name !== "" ? { personId, name } : undefined;
}

function nameOf(field: string, name: string): string {
  if (!isKeyName(name)) {
    throw sourceInvalid(field, `must be of a-z, 0-9, _ and -, and none of ${RESERVED_NAMES.join(", ")}`);
  }
  return name;
}

function givenId(field: string, id: string): string {
  if (id === "") throw sourceInvalid(field, "is missing");
  return encodeId(field, id);
}

function encodeId(field: string, id: string): string {
  if (!id.isWellFormed()) throw sourceInvalid(field, "holds half of a surrogate pair");
  // A space at an end would be cut off in a header.
  return id.replace(/[%:@/\p{Cc}]|^ | $/gu, encodeURIComponent);
}

function decodeId(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw sourceInvalid("session_key", "is not a session key", cause);
  }
}
