import type { Platform } from "../message/source.ts";
import { parseLocalDoorChatId, parseSessionKey } from "./session-key.ts";

/** A conversation as people see it: `terminal main`, `telegram group -100, thread 7`. */
export function doorOf(key: string): string {
  const parts = parseSessionKey(key);
  switch (parts.form) {
    case "person":
      return `every door of ${parts.personId}`;
    case "job":
      return `job ${parts.jobId}, run ${parts.run}`;
    case "foreign":
      return `${parts.runtime} session ${parts.id}`;
    case "chat": {
      const own = parseLocalDoorChatId(parts.chatId);
      const door = nameOf(parts.platform);
      if (own !== undefined) return `${door} ${own.name}${own.personId === "owner" ? "" : ` of ${own.personId}`}`;
      const thread = parts.threadId === undefined ? "" : `, thread ${parts.threadId}`;
      const user = parts.userId === undefined ? "" : `, user ${parts.userId}`;
      return `${[door, parts.chatType, parts.chatId].filter(Boolean).join(" ")}${thread}${user}`;
    }
  }
}

export function nameOf(platform: Platform): string {
  return platform === "console" ? "terminal" : platform;
}
