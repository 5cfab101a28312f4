/**
 * The HTTP API of a Hermes gateway, as far as a runtime sees it, on loopback. It keeps transcripts as Hermes does, obeys the words of the demo
 * agent, and comes in three generations:
 * - `sessions`: lists its capabilities, makes sessions and tells of them; a completion echoes the id it was sent.
 * - `any-id`: knows only completions, and begins a session under any id.
 * - `own-ids`: the same, but goes on only with ids it gave; without one the id is made of system and first user message, so that two
 *   conversations that begin alike are one.
 */
import { createHash } from "node:crypto";
import {
  type FakeMessage,
  type FakeReply,
  type FakeRequest,
  type FakeStep,
  obeyWords,
  refuses,
  startFakeModel,
} from "./fake-model.ts";

export interface FakeHermesOptions {
  readonly generation?: "sessions" | "any-id" | "own-ids";
  /** Null: started without API_SERVER_KEY. */
  readonly key?: string | null;
  /** Instead of obeying words; its headers go before those of the session. */
  readonly answer?: (request: FakeRequest) => FakeReply | null;
  /** Completions of a session that was compressed go on in its newest part, and say its id. */
  readonly followsTip?: boolean;
  readonly features?: Readonly<Record<string, unknown>>;
}

export interface FakeHermes {
  /** The base URL, without `/v1`. */
  readonly url: string;
  readonly port: number;
  /** Every POST, in order. */
  readonly requests: readonly FakeRequest[];
  /** The completions among them. */
  readonly turns: readonly FakeRequest[];
  arrived(n: number): Promise<FakeRequest>;
  ended(n: number): Promise<void>;
  /** What a session holds; by id, also of compressed ones. */
  readonly sessions: ReadonlyMap<string, HeldSession>;
  /** A session of another door of Hermes. */
  hold(id: string, session: Partial<HeldSession>): void;
  lose(id: string): void;
  /** As after a compression: it goes on under the id returned. */
  compress(id: string): string;
  close(): Promise<void>;
}

interface HeldSession {
  readonly source: string;
  readonly messages: FakeMessage[];
  /** Where it goes on after a compression. */
  next: string | null;
  /** Why it ended, if it has. */
  readonly endReason?: string;
}

export const HERMES_KEY = "fake-api-server-key";

const FEATURES = {
  chat_completions: true,
  chat_completions_streaming: true,
  tool_progress_events: true,
  session_resources: true,
  run_stop: true,
};

export async function startFakeHermes(options: FakeHermesOptions = {}): Promise<FakeHermes> {
  const { generation = "sessions", key = HERMES_KEY, answer = () => null, followsTip = false } = options;
  const sessions = new Map<string, HeldSession>();
  let made = 0;

  const tipOf = (id: string): string => {
    const next = sessions.get(id)?.next ?? null;
    return next === null ? id : tipOf(next);
  };
  const isRefused = (headers: FakeRequest["headers"]): FakeReply | null =>
    key === null || headers.authorization === `Bearer ${key}`
      ? null
      : refuses(401, { message: "Invalid API key", type: "invalid_request_error", code: "invalid_api_key" });
  const unknown = (id: string): FakeReply =>
    refuses(404, { message: `Session not found: ${id}`, type: "invalid_request_error", code: "session_not_found" });
  const tell = (id: string, { source, next, messages, endReason }: HeldSession): FakeReply => ({
    body: {
      object: "hermes.session",
      session: {
        id,
        source,
        end_reason: next === null ? (endReason ?? null) : "compression",
        message_count: messages.length,
      },
    },
  });

  const get = (path: string, headers: FakeRequest["headers"]): FakeReply => {
    if (path === "/health")
      return {
        body: { status: "ok", platform: "hermes-agent", ...(generation === "sessions" ? { version: "0.19.0" } : {}) },
      };
    const refused = isRefused(headers);
    if (refused !== null) return refused;
    if (generation !== "sessions") return { status: 404, body: "404: Not Found" };
    if (path === "/v1/capabilities") {
      return {
        body: {
          object: "hermes.api_server.capabilities",
          auth: { type: "bearer", required: key !== null },
          features: { ...FEATURES, ...options.features },
        },
      };
    }
    const [, encoded = "", of] = /^\/api\/sessions\/([^/]+)(\/messages)?$/.exec(path) ?? [];
    const id = decodeURIComponent(encoded);
    const session = sessions.get(id);
    if (session === undefined) return unknown(id);
    return of === undefined ? tell(id, session) : { body: { object: "list", session_id: tipOf(id), data: [] } };
  };

  const create = (): FakeReply => {
    const id = `api_1796057372_${(++made).toString(16).padStart(8, "0")}`;
    const session: HeldSession = { source: "api_server", messages: [], next: null };
    sessions.set(id, session);
    return { ...tell(id, session), status: 201 };
  };

  const complete = (request: FakeRequest): FakeReply => {
    const { headers, body } = request;
    const sent = single(headers["x-hermes-session-id"]);
    const memory = single(headers["x-hermes-session-key"]);
    if (key === null && (sent ?? memory) !== undefined) {
      const message =
        "Session continuation requires API key authentication. Configure API_SERVER_KEY to enable this feature.";
      return refuses(403, { message, type: "invalid_request_error" });
    }
    if ((sent ?? "").length > 256 || (memory ?? "").length > 256) {
      return refuses(400, { message: "Session key too long", type: "invalid_request_error" });
    }
    if (sent !== undefined && generation === "own-ids" && !sessions.has(sent)) return unknown(sent);
    const system = body.messages.filter(({ role }) => role === "system").map(({ content }) => content);
    const user = body.messages.findLast(({ role }) => role === "user")?.content ?? "";
    const derived = `api-${createHash("sha256")
      .update(`${system.join("\n")}\n${user}`)
      .digest("hex")
      .slice(0, 16)}`;
    const id = followsTip ? tipOf(sent ?? derived) : (sent ?? derived);
    const session = sessions.get(id) ?? { source: "api_server", messages: [], next: null };
    sessions.set(id, session);
    session.messages.push({ role: "user", content: user });
    const messages = [...body.messages.filter(({ role }) => role === "system"), ...session.messages];
    const reply = answer(request) ?? obey({ ...request, body: { ...body, messages } });
    const said = (reply.steps ?? []).map((step) => ("text" in step ? step.text : "")).join("");
    if (said !== "") session.messages.push({ role: "assistant", content: said });
    if (reply.steps === undefined) return reply;
    return { ...reply, headers: { "x-hermes-session-id": id, ...reply.headers } };
  };

  const model = await startFakeModel(
    (request) => {
      const refused = isRefused(request.headers);
      if (refused !== null) return refused;
      if (request.path === "/v1/chat/completions") return complete(request);
      if (request.path === "/api/sessions" && generation === "sessions") return create();
      return { status: 404, body: "404: Not Found" };
    },
    { get },
  );
  return {
    url: model.url.replace(/\/v1$/, ""),
    port: model.port,
    requests: model.requests,
    get turns() {
      return model.requests.filter(({ path }) => path === "/v1/chat/completions");
    },
    arrived: model.arrived,
    ended: model.ended,
    sessions,
    hold: (id, session) => void sessions.set(id, { source: "api_server", messages: [], next: null, ...session }),
    lose: (id) => void sessions.delete(id),
    compress(id) {
      const next = `20261130_165000_${(++made).toString(16).padStart(6, "0")}`;
      const session = sessions.get(id);
      if (session === undefined) throw new Error(`There is no session ${id}.`);
      sessions.set(next, { source: session.source, messages: [...session.messages], next: null });
      session.next = next;
      return next;
    },
    close: model.close,
  };
}

/** The words of a model, but for `fail`: Hermes says of a run that failed that it did. */
function obey(request: FakeRequest): FakeReply {
  const order = request.body.messages.at(-1)?.content.split("\n\n").at(-1) ?? "";
  return /^\s*fail\b/.test(order) ? { steps: runFailed("HTTP 400: told to fail") } : obeyWords(request);
}

/** The end of a run that came to nothing, as Hermes streams it. */
export function runFailed(message: string): readonly FakeStep[] {
  const choices = [{ index: 0, delta: {}, finish_reason: "error" }];
  const chunk = { choices, error: { message, type: "agent_error" }, hermes: { completed: false, failed: true } };
  return [{ chunk }, { done: true }];
}

export function toolProgress(fields: Readonly<Record<string, unknown>>): FakeStep {
  return { event: "hermes.tool.progress", data: JSON.stringify(fields) };
}

function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
