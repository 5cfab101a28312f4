/**
 * HermesServer: the HTTP API of a Hermes gateway, as much of it as a runtime needs. What it offers is asked, never guessed from a version:
 * one with `/api/sessions` makes sessions and tells of them; an older one only takes the id of a session with each completion.
 */
import { z } from "zod";
import type { Clock } from "../../util/clock.ts";
import { isLoopback } from "../../util/loopback.ts";
import { isProxied, type Proxies } from "../../util/outgoing.ts";
import { below, checkHeaders, invalid, readBaseUrl } from "../wire/address.ts";
import { Connection } from "../wire/connection.ts";
import { createMask, readRetryAfter, readServerError, type Scene, type Trouble } from "../wire/failures.ts";
import { parseJson } from "../wire/parse-json.ts";

export interface HermesServerOptions {
  /** Of the runtime, for error sentences. */
  readonly name: string;
  /** Before `/v1` and `/api`. */
  readonly baseUrl: string;
  /** Hermes' API_SERVER_KEY; without one it keeps no session. */
  readonly key?: string | undefined;
  readonly fetch?: typeof fetch | undefined;
  /** Those that `fetch` goes through: a sentence may name them. */
  readonly proxies?: Proxies | undefined;
  readonly clock: Clock;
}

export interface Capabilities {
  /** It makes sessions and tells of them; without, an id is only sent along. */
  readonly sessions: boolean;
  /** Null of a server that has no list of its capabilities. */
  readonly features: Readonly<Record<string, unknown>> | null;
  /** False: it was started without a key, and refuses every session. */
  readonly keyRequired: boolean;
}

/** What the server knows of a session. `tip` is where it goes on, after a compression under another id. */
export interface KnownSession {
  readonly id: string;
  readonly source: string;
  readonly tip: string;
  /** Null of one that has not ended, or goes on at its tip. */
  readonly endReason: string | null;
}

/** An answer, or why there is none. */
export type Asked<T> = { readonly value: T } | { readonly trouble: Trouble } | { readonly cancelled: true };

/** These are small questions: whoever does not answer them in this time is not well. */
const PATIENCE_MS = 10_000;

export class HermesServer implements Scene {
  readonly where: string;
  readonly isProxied: boolean;
  readonly model = "Hermes";
  readonly localProgram: string | null;
  readonly mask: (text: string) => string;
  readonly hasKey: boolean;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  readonly #baseUrl: URL;

  /** Throws `config_invalid`. */
  constructor(options: HermesServerOptions) {
    const { name, key, clock } = options;
    this.#baseUrl = readBaseUrl(options);
    if (/\/v1(?:\/|$)/.test(this.#baseUrl.pathname)) {
      throw invalid("base_url", `The base_url of the runtime ${name} ends before /v1.`);
    }
    checkHeaders(name, key, {});
    this.where = this.#baseUrl.host;
    this.isProxied = isProxied(this.#baseUrl, options.proxies);
    this.localProgram = isLoopback(this.#baseUrl)
      ? "Hermes (`hermes gateway run`, with API_SERVER_ENABLED=true)"
      : null;
    this.mask = createMask(key === undefined ? [] : [key]);
    this.hasKey = key !== undefined;
    this.headers = {
      "content-type": "application/json",
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    };
    this.fetch = options.fetch ?? fetch;
    this.clock = clock;
  }

  url(path: string): string {
    return below(this.#baseUrl, path);
  }

  async capabilities(signal: AbortSignal): Promise<Asked<Capabilities>> {
    const asked = await this.#ask("GET", "/v1/capabilities", capabilitiesShape, signal);
    if ("trouble" in asked && asked.trouble.type === "status" && [404, 405].includes(asked.trouble.status)) {
      return { value: { sessions: false, features: null, keyRequired: true } };
    }
    if (!("value" in asked)) return asked;
    const { features, auth } = asked.value;
    return {
      value: { sessions: features.session_resources === true, features, keyRequired: auth?.required !== false },
    };
  }

  /** An empty one, under an id of the server's choice. */
  async createSession(signal: AbortSignal): Promise<Asked<string>> {
    const asked = await this.#ask("POST", "/api/sessions", sessionShape, signal);
    return "value" in asked ? { value: asked.value.session.id } : asked;
  }

  /** Null: there is no such session. */
  async session(id: string, signal: AbortSignal): Promise<Asked<KnownSession | null>> {
    const path = `/api/sessions/${encodeURIComponent(id)}`;
    const asked = await this.#ask("GET", path, sessionShape, signal);
    if (isUnknownSession(asked)) return { value: null };
    if (!("value" in asked)) return asked;
    const { source, end_reason, ended_at: endedAt } = asked.value.session;
    const endReason = end_reason ?? (endedAt == null ? null : "ended");
    const known = { id, source: source ?? "", tip: id, endReason };
    if (endReason !== "compression") return { value: known };
    // Only the list of its messages says where it goes on.
    const messages = await this.#ask("GET", `${path}/messages`, messagesShape, signal);
    return "value" in messages ? { value: { ...known, tip: messages.value.session_id, endReason: null } } : messages;
  }

  /** Of the server, as it names it; absent of an older one. */
  async version(signal: AbortSignal): Promise<string | undefined> {
    const asked = await this.#ask("GET", "/health", healthShape, signal);
    return "value" in asked ? (asked.value.version ?? undefined) : undefined;
  }

  /** A Hermes of any age tells that it is well. */
  async isThere(signal: AbortSignal): Promise<boolean> {
    return "value" in (await this.#ask("GET", "/health", healthShape, signal));
  }

  async #ask<T>(method: "GET" | "POST", path: string, shape: z.ZodType<T>, signal: AbortSignal): Promise<Asked<T>> {
    const connection = new Connection({ clock: this.clock, signal });
    try {
      const waited = await connection.wait(async (): Promise<Asked<T>> => {
        const body = method === "POST" ? { body: "{}" } : {};
        const init = { method, headers: this.headers, redirect: "manual", signal: connection.signal, ...body } as const;
        const response = await this.fetch(this.url(path), init);
        const said = parseJson(await response.text());
        if (!response.ok) return { trouble: troubleOf(response, said, this.clock.now()) };
        const { data } = shape.safeParse(said);
        return data === undefined ? { trouble: { type: "garbled" } } : { value: data };
      }, PATIENCE_MS);
      if (!("loss" in waited)) return waited.value;
      const { loss } = waited;
      if (loss.why === "cancelled") return { cancelled: true };
      if (loss.why === "silence") return { trouble: { type: "silence", ms: loss.ms } };
      return { trouble: { type: "connect", code: loss.code } };
    } finally {
      connection.close();
    }
  }
}

function troubleOf({ status, headers }: Response, body: unknown, now: number): Trouble {
  if (status >= 300 && status < 400) return { type: "redirect", to: "" };
  return { type: "status", status, said: readServerError(body), retryAfterMs: readRetryAfter(headers, now) };
}

/** A page of some other server with status 404 is no word on a session. */
function isUnknownSession(asked: Asked<unknown>): boolean {
  return "trouble" in asked && isSessionUnknown(asked.trouble);
}

export function isSessionUnknown(trouble: Trouble): boolean {
  if (trouble.type !== "status" || ![400, 404, 410].includes(trouble.status)) return false;
  return /session/i.test(`${trouble.said.code} ${trouble.said.message}`);
}

const capabilitiesShape = z.object({
  features: z.record(z.string(), z.unknown()),
  auth: z.object({ required: z.boolean().nullish() }).nullish(),
});
const sessionShape = z.object({
  session: z.object({
    id: z.string().min(1),
    source: z.string().nullish(),
    end_reason: z.string().nullish(),
    ended_at: z.unknown().optional(),
  }),
});
const messagesShape = z.object({ session_id: z.string().min(1) });
const healthShape = z.object({ version: z.string().nullish() });
