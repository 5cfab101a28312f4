import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { Config } from "../config.ts";
import { sessionOfToken } from "../conversation/session-token.ts";
import { TertuliaError } from "../errors.ts";
import type { Gateway, Person } from "../gateway.ts";
import type { SessionRow } from "../store/store.ts";

/** What is known of a request before it is believed. */
export interface RequestFacts {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly remoteAddress: string | undefined;
}

/** Who calls (A4): the bearer of a token, else the owner when the request is truly local. Throws `unauthorized`, `origin_refused`, `content_type`. */
export function callerOf(facts: RequestFacts, config: Config, ownerToken: string): Person {
  const isWrite = facts.method !== "GET" && facts.method !== "HEAD";
  if (isWrite) requireSafeWrite(facts.headers);
  const bearer = /^Bearer (\S+)$/i.exec(facts.headers.authorization ?? "")?.[1];
  if (bearer !== undefined) {
    const person = personOfToken(bearer, config, ownerToken);
    if (person !== null) return person;
    // The `openai` client always sends a key: on true loopback any is as good as none.
    if (config.http.token === "always" || !isTrulyLocal(facts))
      throw new TertuliaError("unauthorized", "This token is not known here.");
  }
  if (config.http.token === "auto" && isTrulyLocal(facts)) return ownerOf(config);
  throw new TertuliaError("unauthorized", "This gateway asks for a token here.");
}

/** The session that a session's own token speaks for; null for any other token (A6). Throws `unauthorized` for one whose session is over. */
export async function scopeOf(
  authorization: string | undefined,
  { gateway, ownerToken }: { gateway: Gateway; ownerToken: string },
): Promise<SessionRow | null> {
  const bearer = /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1];
  const sessionId = bearer === undefined ? null : sessionOfToken(ownerToken, bearer);
  if (sessionId === null) return null;
  const session = await gateway.reader.session(sessionId);
  if (session !== null && session.endedAt === null) return session;
  throw new TertuliaError("unauthorized", "The session of this token has ended.");
}

/** A session's agent acts for the session's person; a room's session is nobody's, and its agent acts under a name that no person has (A9). */
export function callerOfSession(facts: RequestFacts, config: Config, session: SessionRow): Person {
  if (facts.method !== "GET" && facts.method !== "HEAD") requireSafeWrite(facts.headers);
  const person = session.ownerPerson === null ? undefined : config.people[session.ownerPerson];
  if (person === undefined) return { id: `session:${session.id}`, role: "guest" };
  const { id, role, name } = person;
  return { id, role, ...(name === undefined ? {} : { name }) };
}

/** Every write needs JSON and a same or absent Origin, on loopback too: a page elsewhere cannot send either unseen. */
function requireSafeWrite(headers: IncomingHttpHeaders): void {
  const { origin, host } = headers;
  if (origin !== undefined && !isSameOrigin(origin, host)) {
    throw new TertuliaError("origin_refused", `A page at ${JSON.stringify(origin)} may not write here.`);
  }
  if (!/^application\/json\s*(;|$)/i.test(headers["content-type"] ?? "")) {
    throw new TertuliaError("content_type", "A write needs the content type application/json.");
  }
}

function isSameOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host?.toLowerCase();
}

/** From this machine, not through a proxy, and meant for this machine (no rebound name). */
function isTrulyLocal({ headers, remoteAddress }: RequestFacts): boolean {
  const address = (remoteAddress ?? "").replace(/^::ffff:/i, "");
  if (!/^127\.\d+\.\d+\.\d+$/.test(address) && address !== "::1") return false;
  if (Object.keys(headers).some(isProxyHeader)) return false;
  const host = (headers.host ?? "").replace(/:\d+$/, "").toLowerCase();
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

const PROXY_HEADERS = ["forwarded", "via", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip"];

/** Names are lower case. */
function isProxyHeader(name: string): boolean {
  return name.startsWith("x-forwarded") || PROXY_HEADERS.includes(name);
}

function personOfToken(token: string, config: Config, ownerToken: string): Person | null {
  if (isEqual(token, ownerToken)) return ownerOf(config);
  for (const person of Object.values(config.people)) {
    if (person.tokens.some((known) => isEqual(known, token))) {
      return { id: person.id, role: person.role, ...(person.name === undefined ? {} : { name: person.name }) };
    }
  }
  return null;
}

function ownerOf(config: Config): Person {
  const name = config.people.owner?.name;
  return { id: "owner", role: "owner", ...(name === undefined ? {} : { name }) };
}

/** In constant time, whatever the lengths. */
function isEqual(a: string, b: string): boolean {
  const digest = (value: string): Buffer => createHash("sha256").update(value).digest();
  return timingSafeEqual(digest(a), digest(b));
}
