import type { Config } from "../config.ts";
import { doorOf } from "../conversation/door.ts";

/** A room of the configuration, or a conversation key. */
export function roomKey(config: Config, name: string): string {
  return config.rooms[name]?.conversation ?? name;
}

/** The room's name in the configuration where it has one, else its door. */
export function roomName(config: Config, key: string): string {
  const named = Object.entries(config.rooms).find(([, room]) => room.conversation === key);
  return named?.[0] ?? doorOf(key);
}
