import { type KeyParts, parseLocalDoorChatId, parseSessionKey } from "../conversation/session-key.ts";
import { describeSource, isLocalDoor, type Source } from "../message/source.ts";
import type { Target } from "../message/target.ts";
import { nameInMark, oneLine, plainLabel, quoteUntrusted } from "../text/untrusted.ts";
import type { IdMask } from "./id-mask.ts";
import { notesFor } from "./platform-notes.ts";

/** Doors as an agent reads of them: S4's words, with every name and id quoted (C4) and ids masked (C5). */

/** `CLI terminal`, `Telegram (DM with "Ann")`, `Discord (group: "Kitchen", thread: "7")`. */
export function doorLine(source: Source, mask: IdMask, most?: number): string {
  const { platform } = source;
  const name = (value: string | undefined): string =>
    oneLine(value ?? "") === "" ? "" : quoteUntrusted(value ?? "", most);
  const id = (value: string | undefined, hide: (platform: string, id: string) => string): string =>
    name(value) === "" ? "" : quoteUntrusted(hide(platform, value ?? ""), most);
  const line = describeSource({
    ...source,
    chatId: id(source.chatId, mask.chat),
    chatName: name(plainLabel(mask.chatName(platform, source.chatName ?? "", source.chatId ?? ""))),
    userName: name(nameInMark(mask.name(platform, source.userName ?? "", source.userId ?? source.chatId ?? ""))),
    userId: id(source.userId, mask.user),
    threadId: id(source.threadId, mask.thread),
  });
  if (platform === "console") return line;
  return `${capital(notesFor(platform).title.replace(/^the /, ""))} (${line === "" ? "unnamed chat" : line})`;
}

/** A conversation by its key, for a door that is not this turn's: `terminal "main"`, `Telegram group "-100"`. */
export function conversationLine(key: string, mask: IdMask): string {
  const parts = parseSessionKey(key);
  switch (parts.form) {
    case "person":
      return "all doors of one person";
    case "job":
      return `job ${quoteUntrusted(parts.jobId, 60)}`;
    case "foreign":
      return `a session of ${quoteUntrusted(parts.runtime, 60)}`;
    case "chat":
      return chatLine(parts, mask);
  }
}

function chatLine(parts: Extract<KeyParts, { form: "chat" }>, mask: IdMask): string {
  const title = notesFor(parts.platform).title.replace(/^the /, "");
  const own = isLocalDoor(parts.platform) ? parseLocalDoorChatId(parts.chatId) : undefined;
  if (own !== undefined) {
    const name = mask.hides(parts.platform) ? mask.chat(parts.platform, parts.chatId) : own.name;
    return `${title} ${quoteUntrusted(name, 60)}`;
  }
  const chat = quoteUntrusted(mask.chat(parts.platform, parts.chatId || (parts.userId ?? "")), 60);
  const thread =
    parts.threadId === undefined ? "" : `, thread ${quoteUntrusted(mask.thread(parts.platform, parts.threadId), 60)}`;
  return `${title} ${parts.chatType} ${chat}${thread}`;
}

/** The source that a conversation's key and target imply, for when no message of it is at hand. */
export function sourceOfConversation({ key, target }: { readonly key: string; readonly target: Target }): Source {
  const parts = parseSessionKey(key);
  const chat = parts.form === "chat" ? parts : undefined;
  const userId = chat?.userId ?? (chat === undefined ? undefined : parseLocalDoorChatId(chat.chatId)?.personId);
  return {
    platform: target.platform,
    account: target.account,
    ...(target.scopeId === undefined ? {} : { scopeId: target.scopeId }),
    chatId: chat?.chatId ?? target.chatId,
    chatType: chat?.chatType ?? "dm",
    ...(target.threadId === undefined ? {} : { threadId: target.threadId }),
    ...(userId === undefined ? {} : { userId }),
    isBot: false,
  };
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
