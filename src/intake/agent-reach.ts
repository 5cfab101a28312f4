import type { Config } from "../config/config.ts";
import { parseSessionKey } from "../conversation/session-key.ts";
import type { ConversationReader } from "../store/readers.ts";
import type { SessionRow } from "../store/rows.ts";
import { findRoom, ownDoorOf, type RoomOfAgent } from "./local-doors.ts";

/**
 * Where an agent speaks by its session's own token (A9): in the session's own room or chat, in its homes, at the doors of the session's
 * person, and in rooms that the configuration shares, for the owner's sessions. Never in another person's direct chat.
 */
export async function isInReach(
  { ref: { key }, rules }: RoomOfAgent,
  session: SessionRow,
  { config, reader }: { readonly config: Config; readonly reader: ConversationReader },
): Promise<boolean> {
  if (key === session.homeKey) return true;
  const person = await personOf(key, reader);
  if (person !== undefined) return person !== null && person === session.ownerPerson;
  const isOwners = session.ownerPerson !== null && config.people[session.ownerPerson]?.role === "owner";
  return (isOwners && rules.share === true) || isHome(key, session, { config, reader });
}

/** Whose direct chat a key names; null for nobody's in particular, undefined for no direct chat. */
async function personOf(key: string, reader: ConversationReader): Promise<string | null | undefined> {
  const parts = parseSessionKey(key);
  if (parts.form === "person") return parts.personId;
  if (parts.form !== "chat" || parts.chatType !== "dm") return undefined;
  return ownDoorOf(key)?.personId ?? (await reader.conversation(key))?.personId ?? null;
}

/** By `home_room`, `platforms.<platform>.home`, or `/sethome`. */
async function isHome(
  key: string,
  { agent }: SessionRow,
  { config, reader }: { readonly config: Config; readonly reader: ConversationReader },
): Promise<boolean> {
  const room = config.agents[agent]?.homeRoom;
  if (room !== undefined && findRoom(config, { room, agent }).ref.key === key) return true;
  const parts = parseSessionKey(key);
  if (parts.form === "chat" && config.platforms[parts.platform]?.home === parts.chatId) return true;
  return (await reader.homes(agent)).some(({ conversationKey }) => conversationKey === key);
}
