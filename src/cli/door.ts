import type { Config } from "../config.ts";
import { doorOf } from "../conversation/door.ts";
import { parseSessionKey } from "../conversation/session-key.ts";

/** A room of the configuration, or a conversation key. */
export function roomKey(config: Config, name: string): string {
  return config.rooms[name]?.conversation ?? name;
}

/** The room's name in the configuration where it has one, else its door. */
export function roomName(config: Config, key: string): string {
  const parts = parseSessionKey(key);
  const chatId = parts.form === "chat" && parts.chatType !== "dm" ? parts.chatId : undefined;
  const named = Object.entries(config.rooms).find(
    ([, { conversation, chat }]) => conversation === key || (chat !== undefined && chat.id === chatId),
  );
  return named?.[0] ?? doorOf(key);
}
