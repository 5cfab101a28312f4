/** Place: one chat, or one thread of it, on one platform. Messages are stored once per place, for all agents there. */

import {
  isLocalDoor,
  mucServiceOf,
  type Platform,
  participantOf,
  type Source,
  withoutBlankIds,
} from "../message/source.ts";

/** The identity of a place; `""` for absent, so that a unique index holds it. */
export interface Place {
  readonly platform: Platform;
  readonly scope: string;
  readonly chatId: string;
  readonly threadId: string;
}

/**
 * K20. Unlike the key, a place has the account wherever chat ids are unique only per account, and the agent at own doors:
 * two bots never share one. It does not depend on any setting, so a changed setting moves no message; with
 * `thread_scope: chat` a thread is still its own place (K13).
 */
export function placeOf({ agent, source: written }: { readonly agent: string; readonly source: Source }): Place {
  const source = withoutBlankIds(written);
  return {
    platform: source.platform,
    scope: scopeOf(agent, source),
    chatId: source.chatId || chatlessId(source),
    threadId: source.threadId ?? "",
  };
}

function scopeOf(agent: string, source: Source): string {
  if (isLocalDoor(source.platform)) return agent;
  const isDirect = source.chatType === "dm";
  switch (source.platform) {
    case "telegram":
    case "weixin":
      return isDirect ? source.account : "";
    case "xmpp":
      return isDirect ? xmppDirectScope(source) : mucServiceOf(source);
    case "slack":
      return source.scopeId ?? "";
    default:
      return "";
  }
}

/** A private message through a room stays apart from the plain dm: it is the room's service that vouches for the id. */
function xmppDirectScope({ account, scopeId }: Source): string {
  return scopeId ? `${account}|${scopeId}` : account;
}

/** A dm without a chat id is the chat of its author (K3): were it empty, everybody's lines would meet in one place. */
function chatlessId(source: Source): string {
  const participant = participantOf(source);
  return participant === "" ? "" : `user:${participant}`;
}
