import type { AgentConfig, Config } from "../config.ts";
import { doorOf } from "../conversation/door.ts";
import { parseSessionKey } from "../conversation/session-key.ts";
import { TertuliaError } from "../errors.ts";

/** The agent named, else the default one. Throws `agent_unknown`. */
export function agentOf({ agents, defaultAgent }: Config, name = defaultAgent): AgentConfig {
  const agent = Object.hasOwn(agents, name) ? agents[name] : undefined;
  if (agent !== undefined) return agent;
  throw new TertuliaError("agent_unknown", `There is no agent ${JSON.stringify(name)}.`, {
    remedy: `Choose one of ${Object.keys(agents).join(", ")}.`,
  });
}

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
