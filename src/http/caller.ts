import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { Config } from "../config/config.ts";
import type { Person } from "../conversation/person.ts";
import { sessionOfToken } from "../conversation/session-token.ts";
import { TertuliaError } from "../errors.ts";
import type { ConversationReader } from "../store/readers.ts";
import type { SessionRow } from "../store/rows.ts";
import { isForwardingHeader } from "./forwarding.ts";

/** What is known of a request before it is believed. */
export interface RequestFacts {
  readonly method: string;
  readonly path: string;
  readonly httpVersion: string;
  readonly headers: IncomingHttpHeaders;
  /** By lower-case name, every value that was sent under it. */
  readonly headersDistinct: NodeJS.Dict<string[]>;
  readonly remoteAddress: string | undefined;
  /** Whether the other end of the connection belongs to the gateway's own user (A11). */
  isOwnUser(): Promise<boolean>;
}

/** Where tokens are known. */
export interface TokenGround {
  readonly config: Config;
  readonly ownerToken: string;
  readonly reader: Pick<ConversationReader, "session">;
}

/** Who calls, and how far that reaches. */
export interface Caller {
  readonly person: Person;
  readonly scope: Scope;
}

export type Scope =
  /** All that is the person's. */
  | { readonly kind: "person" }
  /** A session's own token speaks for that session alone (A6). */
  | { readonly kind: "session"; readonly session: SessionRow }
  /** A scraper's. */
  | { readonly kind: "metrics" };

const WHOLE: Scope = { kind: "person" };

/** A cookie of this name holds a token; those of other programs on this machine are not looked at. */
const TOKEN_COOKIE = "tertulia_token";

const NOBODY: Person = { id: "nobody", role: "guest" };

/**
 * Who calls (A4, A11). A token that is presented decides, on this machine too: one that is not known is nobody's. Without one it is the
 * owner where `http.token` trusts the other end. Throws `unauthorized`, `forbidden`.
 */
export async function callerOf(facts: RequestFacts, ground: TokenGround): Promise<Caller> {
  const presented = presentedTokens(facts);
  if (presented.length > 0) return callerOfTokens(presented, ground);
  if (await isTrusted(facts, ground.config.http.token))
    return { person: personFrom(ground.config, "owner"), scope: WHOLE };
  throw new TertuliaError("unauthorized", "This gateway asks for a token here.");
}

/** Every token that a request presents, whatever it is worth; a header that holds none counts as an unknown one. */
export function presentedTokens({ headersDistinct }: Pick<RequestFacts, "headersDistinct">): readonly string[] {
  const bearers = (headersDistinct.authorization ?? []).map(
    (value) => /^Bearer +(\S+)$/i.exec(value.trim())?.[1] ?? "",
  );
  const keys = ["x-api-key", "api-key"].flatMap((name) => headersDistinct[name] ?? []).map((value) => value.trim());
  const cookies = (headersDistinct.cookie ?? [])
    .flatMap((line) => line.split(";"))
    .flatMap((pair) => {
      const [name, ...value] = pair.split("=");
      return name?.trim() === TOKEN_COOKIE ? [value.join("=").trim()] : [];
    });
  return [...new Set([...bearers, ...keys, ...cookies])];
}

/** Throws `unauthorized` unless all are known, and mean the same. */
async function callerOfTokens(tokens: readonly string[], ground: TokenGround): Promise<Caller> {
  const callers = await Promise.all(tokens.map((token) => callerOfToken(token, ground)));
  const [first] = callers;
  if (first === undefined || callers.some((other) => !isSame(first, other)))
    throw new TertuliaError("unauthorized", "Several tokens are presented, and they are not of the same person.");
  return first;
}

async function callerOfToken(token: string, ground: TokenGround): Promise<Caller> {
  const { config, ownerToken, reader } = ground;
  const sessionId = sessionOfToken(ownerToken, token);
  if (sessionId !== null) return callerOfSession(await reader.session(sessionId), config);
  const id = personIdOf(token, ground);
  if (id !== undefined) return { person: personFrom(config, id), scope: WHOLE };
  if (config.metrics.token !== undefined && isEqual(config.metrics.token, token))
    return { person: NOBODY, scope: { kind: "metrics" } };
  throw new TertuliaError("unauthorized", "This token is not known here.");
}

function personIdOf(token: string, { config, ownerToken }: Omit<TokenGround, "reader">): string | undefined {
  return Object.values(config.people).find(({ id, tokens }) =>
    (id === "owner" ? [ownerToken, ...tokens] : tokens).some((one) => isEqual(one, token)),
  )?.id;
}

/** Whether these tokens are still that person's, in the same role. */
export function areStillOf(person: Person, tokens: readonly string[], ground: Omit<TokenGround, "reader">): boolean {
  return (
    ground.config.people[person.id]?.role === person.role &&
    tokens.every((token) => personIdOf(token, ground) === person.id)
  );
}

/** A session's agent acts for the session's person; a room's session is nobody's, and its agent acts under a name that no person has (A9). Throws `unauthorized`. */
function callerOfSession(session: SessionRow | null, config: Config): Caller {
  if (session === null || session.endedAt !== null)
    throw new TertuliaError("unauthorized", "The session of this token has ended.");
  const { id, ownerPerson } = session;
  const isOfPerson = ownerPerson !== null && config.people[ownerPerson] !== undefined;
  const person: Person = isOfPerson ? personFrom(config, ownerPerson) : { id: `session:${id}`, role: "guest" };
  return { person, scope: { kind: "session", session } };
}

function isSame(one: Caller, other: Caller): boolean {
  const nameOf = ({ scope }: Caller) => (scope.kind === "session" ? scope.session.id : scope.kind);
  return one.person.id === other.person.id && nameOf(one) === nameOf(other);
}

function personFrom(config: Config, id: string): Person {
  const { role, name } = config.people[id]!;
  return { id, role, ...(name === undefined ? {} : { name }) };
}

/** Throws `forbidden` where a token reaches less far than that. */
export function requireScope({ kind }: Scope, path: string): void {
  if (kind === "metrics" && path !== "/metrics")
    throw new TertuliaError("forbidden", "This token only reads the metrics.", { remedy: "Use a person's token." });
  if (kind === "session" && path !== "/api/send")
    throw new TertuliaError("forbidden", "A session's own token only sends.", {
      remedy: "Use `tertulia send`; for anything else a person's token is needed.",
    });
}

/**
 * What a page elsewhere could send unseen is refused, whatever it presents: a write needs JSON and a same or absent Origin, and nothing is
 * fetched for a page of another site but the page itself, as a person who follows a link does. Throws `origin_refused`, `content_type`.
 */
export function requireOwnPage({ method, path, headers }: Pick<RequestFacts, "method" | "path" | "headers">): void {
  const { origin, host } = headers;
  const isRead = method === "GET" || method === "HEAD";
  const site = headers["sec-fetch-site"];
  const isVisit =
    isRead && path === "/" && headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
  if (site !== undefined && site !== "same-origin" && site !== "none" && !isVisit)
    throw new TertuliaError("origin_refused", "A page of another site may not fetch anything here.");
  if (isRead) return;
  if (origin !== undefined && !isSameOrigin(origin, host))
    throw new TertuliaError("origin_refused", `A page at ${JSON.stringify(origin)} may not write here.`);
  if (!/^application\/json\s*(;|$)/i.test(headers["content-type"] ?? ""))
    throw new TertuliaError("content_type", "A write needs the content type application/json.");
}

function isSameOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host?.toLowerCase();
}

async function isTrusted(facts: RequestFacts, policy: Config["http"]["token"]): Promise<boolean> {
  if (policy === "always" || !isTrulyLocal(facts)) return false;
  return policy === "loopback" || facts.isOwnUser();
}

/** From this machine, through nothing in between as far as can be seen, and meant for this machine (no rebound name). */
function isTrulyLocal({ httpVersion, headers, headersDistinct, remoteAddress }: RequestFacts): boolean {
  const address = (remoteAddress ?? "").replace(/^::ffff:/i, "");
  if (!/^127\.\d+\.\d+\.\d+$/.test(address) && address !== "::1") return false;
  // Clients of today speak 1.1; what speaks 1.0 is a proxy that need not say so.
  if (httpVersion !== "1.1" || Object.keys(headers).some(isForwardingHeader)) return false;
  const hosts = headersDistinct.host ?? [];
  return hosts.length === 1 && isOwnName(hosts[0]!.replace(/:\d+$/, "").toLowerCase());
}

function isOwnName(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** In constant time, whatever the lengths. */
function isEqual(a: string, b: string): boolean {
  const digest = (value: string): Buffer => createHash("sha256").update(value).digest();
  return timingSafeEqual(digest(a), digest(b));
}
