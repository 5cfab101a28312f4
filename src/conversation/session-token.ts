import { createHmac, timingSafeEqual } from "node:crypto";

/** The token that a session's agent is given (A6): it speaks for that session and nothing else. It is derived, so it outlives a restart and is stored nowhere. */

const PREFIX = "tts_";

export function sessionToken(secret: string, sessionId: string): string {
  return `${PREFIX}${Buffer.from(sessionId).toString("base64url")}.${sealOf(secret, sessionId)}`;
}

/** The session a token speaks for; null for any other token. */
export function sessionOfToken(secret: string, token: string): string | null {
  const [head = "", seal = ""] = token.split(".");
  if (!head.startsWith(PREFIX)) return null;
  const sessionId = Buffer.from(head.slice(PREFIX.length), "base64url").toString();
  const right = Buffer.from(sealOf(secret, sessionId));
  const given = Buffer.from(seal);
  return given.length === right.length && timingSafeEqual(given, right) ? sessionId : null;
}

function sealOf(secret: string, sessionId: string): string {
  return createHmac("sha256", `tertulia session ${secret}`).update(sessionId).digest("base64url");
}
