/** Ids of accounts, rooms and conversations that could never be met: names, addresses of one device, keys of another form (A4). */

import { buildSessionKey, parseSessionKey } from "../conversation/session-key.ts";
import { accountId, type Platform } from "../message/source.ts";
import { isBareJid, type Settings } from "./schema.ts";

/** What is written cannot hold. */
export interface Objection {
  readonly path: readonly string[];
  readonly allowed: string;
}

type Subject = "account" | "bot" | "chat";

export function* unmetIds({ people, access, rooms, platforms, chats, reset }: Settings): Generator<Objection> {
  for (const [id, { accounts }] of Object.entries(people))
    for (const [n, account] of accounts.entries())
      yield* objection(account.platform, "account", account.id, ["people", id, "accounts", String(n), "id"]);
  for (const [platform, lists] of Object.entries(access) as [Platform, (typeof access)["xmpp"]][])
    for (const [list, subject] of [
      ["people", "account"] as const,
      ["bots", "bot"] as const,
      ["rooms", "chat"] as const,
    ])
      for (const [n, id] of (lists?.[list] ?? []).entries())
        yield* objection(platform, subject, id, ["access", platform, list, String(n)]);
  for (const [name, { platform, chat, conversation }] of Object.entries(rooms)) {
    if (platform !== undefined && chat !== undefined) yield* objection(platform, "chat", chat, ["rooms", name, "chat"]);
    if (conversation !== undefined) yield* unmetKey(conversation, ["rooms", name, "conversation"]);
  }
  for (const [platform, { home }] of Object.entries(platforms))
    if (home !== undefined) yield* objection(platform as Platform, "chat", home, ["platforms", platform, "home"]);
  for (const key of Object.keys(chats)) yield* unmetKey(key, ["chats", key]);
  for (const key of Object.keys(reset.chats)) yield* unmetKey(key, ["reset", "chats", key]);
}

function* objection(platform: Platform, subject: Subject, id: string, path: readonly string[]): Generator<Objection> {
  const form = formFor(platform, subject, id.trim());
  if (form !== null) yield { path, allowed: form };
}

/** The form that would be met, with the id in it where that can be told; null where it is right. */
function formFor(platform: Platform, subject: Subject, id: string): string | null {
  const numbers: readonly Platform[] = ["telegram", "discord"];
  if (numbers.includes(platform)) {
    if (/^-?\d+$/.test(id)) return null;
    return `the number that ${platform} gives the ${subject}, in quotes, as in "42"; a name can be anybody's`;
  }
  if (platform !== "xmpp") return null;
  if ((isBareJid(id) && !id.startsWith("*@")) || (subject === "bot" && isDomain(id))) return null;
  const what = subject === "chat" ? "the address of a room" : "the address of an account";
  const plain = id.replace(/^<?(?:(?:xmpp|mailto):)?|[?>].*$/gi, "");
  if (plain !== id && isBareJid(plain)) return `${what} alone, as in ${accountId("xmpp", plain)}`;
  const bare = accountId("xmpp", id);
  if (isBareJid(bare) && !bare.startsWith("*")) return `${what} without what follows the /, as in ${bare}`;
  const local = /^[\w.-]+$/.test(id) ? id.toLowerCase() : subject === "chat" ? "core" : "alice";
  return `${what}, as in ${local}@${subject === "chat" ? "conference.example.org" : "example.org"}; a name can be anybody's`;
}

/** A component of a server has no part before the @. */
function isDomain(id: string): boolean {
  return /^[^\s@/"'&<>]+\.[^\s@/"'&<>]+$/u.test(id);
}

/** A conversation whose key no message has: of XMPP ids stand in it as the server compares them, and a room's with its service (K14). */
function* unmetKey(key: string, path: readonly string[]): Generator<Objection> {
  const parts = parseSessionKey(key);
  if (parts.form !== "chat" || parts.platform !== "xmpp" || parts.chatId === "") return;
  // A private message through a room has an occupant's id.
  if (parts.chatType === "dm" && parts.scope !== undefined) return;
  const form = formFor("xmpp", parts.chatType === "dm" ? "account" : "chat", parts.chatId);
  if (form !== null && !isBareJid(accountId("xmpp", parts.chatId))) {
    yield { path, allowed: `a key with ${form}` };
    return;
  }
  const chatId = accountId("xmpp", parts.chatId);
  const met = buildSessionKey({
    ...parts,
    chatId,
    ...(parts.chatType === "dm" ? {} : { scope: chatId.slice(chatId.indexOf("@") + 1) }),
  });
  if (met !== key) yield { path, allowed: `the key that its messages have: ${met}` };
}
