import { occupantAddress } from "../../message/source.ts";

/**
 * The address of somebody in a room, by what the room's service vouches for. A nick changes hands while an answer is being
 * written; this does not. It is ours: no server takes it, the nick is looked up when something is sent.
 */
export type PrivateIdentity =
  | { readonly jid: string; readonly occupantId?: undefined }
  | { readonly occupantId: string; readonly jid?: undefined };

export function addressOf(room: string, { jid, occupantId }: PrivateIdentity): string {
  return jid === undefined ? occupantAddress(room, occupantId) : `${room}?jid=${jid}`;
}

export function readAddress(address: string): { room: string; identity: PrivateIdentity } | null {
  const [room = "", ...rest] = address.split("?");
  const [kind, ...parts] = rest.join("?").split("=");
  const value = parts.join("=");
  if (room === "" || value === "" || (kind !== "jid" && kind !== "occupant")) return null;
  return { room, identity: kind === "jid" ? { jid: value } : { occupantId: value } };
}
