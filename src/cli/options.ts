/** What commands that take the same thing say of it in their help. */

export const ROOM =
  "a room of the configuration, a room's id, platform:address of a room or a person, or a conversation key";
export const SESSION_FROM = "(default TERTULIA_SESSION_ID, else Hermes' own HERMES_SESSION_ID)";
export const SHARE = "others read along there, and may see what the session holds";
export const OF_AGENT = "whose conversation, in a chat that several agents are in (default the configured one)";
export const SPEAKING_AGENT = "who speaks, in a chat that several agents are in (default the configured one)";
