import type { AgentConfig, Config } from "../../config/config.ts";
import { doorOf } from "../../conversation/door.ts";
import { parseSessionKey } from "../../conversation/session-key.ts";
import { TertuliaError } from "../../errors.ts";
import { findRoom } from "../../intake/local-doors.ts";

/** The agent named, else the default one. Throws `agent_unknown`. */
export function agentOf({ agents, defaultAgent }: Config, name = defaultAgent): AgentConfig {
  const agent = Object.hasOwn(agents, name) ? agents[name] : undefined;
  if (agent !== undefined) return agent;
  throw new TertuliaError("agent_unknown", `There is no agent ${JSON.stringify(name)}.`, {
    remedy: `Choose one of ${Object.keys(agents).join(", ")}.`,
  });
}

/** The conversation of a room or a chat, in any form that names one. Throws `conversation_unknown`, `agent_unknown`. */
export function roomKey(config: Config, room: string, agent?: string): string {
  const key = config.rooms[room]?.conversation ?? room;
  // A key stands for itself, also where its agent is not configured any more.
  if (key.startsWith("agent:")) return key;
  return findRoom(config, { room, agent: agent === undefined ? undefined : agentOf(config, agent).name }).ref.key;
}

/** The room's name in the configuration where it has one, else its door. */
export function roomName(config: Config, key: string): string {
  const parts = parseSessionKey(key);
  const named = Object.entries(config.rooms).find(
    ([, { conversation, chat }]) =>
      conversation === key || (parts.form === "chat" && chat?.platform === parts.platform && chat.id === parts.chatId),
  );
  return named?.[0] ?? doorOf(key);
}
