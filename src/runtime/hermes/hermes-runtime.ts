/**
 * HermesRuntime: an agent in a Hermes gateway, over its HTTP API. Hermes keeps the transcript; a session here is its id, which can change
 * when Hermes compresses. Turns are chat completions with that id: of the streams Hermes has, only this one ends the agent's work when it is
 * closed, and tells a failed answer from a whole one. What Hermes' tools do is out of our sight.
 */
import { createHash } from "node:crypto";
import { parseSessionKey } from "../../conversation/session-key.ts";
import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import { primerBlock, promptOf } from "../prompt.ts";
import type {
  AgentSession,
  OpenedHow,
  OpenRequest,
  Runtime,
  RuntimeFailure,
  TurnInput,
  TurnOptions,
  TurnResult,
} from "../runtime.ts";
import {
  type CompletionEnd,
  type CompletionPart,
  completion,
  OUTPUT_LIMIT,
  type OwnEvent,
  usageIn,
} from "../wire/completion-stream.ts";
import { type Trouble, waitBeforeRetry } from "../wire/failures.ts";
import { pause } from "../wire/pause.ts";
import { SessionLife } from "../wire/session-life.ts";
import { answered, hermesFailure, SESSION_GONE } from "./hermes-failures.ts";
import { lookUp } from "./hermes-lookup.ts";
import { probeHermes } from "./hermes-probe.ts";
import { type Asked, HermesServer, type HermesServerOptions, isSessionUnknown } from "./hermes-server.ts";
import { SilenceGate } from "./silence.ts";
import { readToolProgress } from "./tool-progress.ts";

export interface HermesRuntimeOptions extends HermesServerOptions {
  /** One of Hermes' model routes; without it Hermes' own choice. */
  readonly model?: string | undefined;
  /** The longest silence; Hermes gives a sign of life every 30 s. */
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
  /** From 0 up to 1: spreads retries. */
  readonly chance: () => number;
}

const CLOSED: RuntimeFailure = { kind: "process-died", message: "The session with Hermes was closed. Ask again." };
/** Sources whose sessions are ours to go on with; any other belongs to another door of Hermes (H13). */
const OWN_SOURCE = "api_server";
const LONGEST_KEY = 256;

/** Throws `config_invalid`. */
export function createHermesRuntime(options: HermesRuntimeOptions): Runtime {
  const server = new HermesServer(options);
  const host: SessionHost = { ...options, server };
  const open = new Set<HermesSession>();
  const closing = new AbortController();
  return {
    name: options.name,
    history: "own",
    effectsAtPrompt: "possible",
    async open(request) {
      request.signal.throwIfAborted();
      closing.signal.throwIfAborted();
      const start = await findStart(request, server);
      request.signal.throwIfAborted();
      closing.signal.throwIfAborted();
      const session = new HermesSession(request, start, host, () => open.delete(session));
      open.add(session);
      return session;
    },
    probe: (signal) => probeHermes(server, signal),
    lookUp: (id) => lookUp(server, id, closing.signal),
    /** The transcript is Hermes' own, and stays. */
    forget: async () => undefined,
    async close() {
      closing.abort(failed(`The runtime ${options.name} has been closed.`));
      for (const session of open) await session.park();
    },
  };
}

function failed(sentence: string): TertuliaError {
  return new TertuliaError("runtime_failed", sentence);
}

interface SessionHost extends Pick<HermesRuntimeOptions, "model" | "idleTimeoutMs" | "clock" | "chance"> {
  readonly server: HermesServer;
}

/** Where a session begins. */
interface Start {
  readonly id: string;
  readonly how: OpenedHow;
  /** The server can be asked about sessions. */
  readonly isAskable: boolean;
}

/** Resume where Hermes knows the session, else new. Throws `runtime_failed`. */
async function findStart(request: OpenRequest, server: HermesServer): Promise<Start> {
  const { signal, primer } = request;
  const answer = <T>(asked: Asked<T>): T => answered(asked, server, signal);
  const { sessions: isAskable } = answer(await server.capabilities(signal));
  const foreign = foreignId(request);
  const ref = request.ref ?? foreign;
  const how = primer.lines.length > 0 ? "primed" : "created";
  if (!isAskable)
    return ref === undefined ? { id: newId(request), how, isAskable } : { id: ref, how: "resumed", isAskable };
  const known = ref === undefined ? null : answer(await server.session(ref, signal));
  // A session of another door is another's to write, unless it was adopted as what it is.
  if (known !== null && (known.source === OWN_SOURCE || foreign !== undefined)) {
    return { id: known.tip, how: "resumed", isAskable };
  }
  // It is opened under its own id (H13), or not at all: an empty one in its place would know nothing of it.
  if (foreign !== undefined) {
    throw failed(`Hermes at ${server.where} has no session ${foreign}. \`hermes sessions list\` shows those it has.`);
  }
  return { id: answer(await server.createSession(signal)), how, isAskable };
}

/** H13: the id of the Hermes session that is this session's home. */
function foreignId({ sessionKey }: OpenRequest): string | undefined {
  if (!/^agent:[^:]*:foreign:/.test(sessionKey)) return undefined;
  const parts = parseSessionKey(sessionKey);
  return parts.form === "foreign" ? parts.id : undefined;
}

/** In the form Hermes itself gives, of a server that makes none when asked. */
function newId({ sessionId }: OpenRequest): string {
  return `api-${hash(sessionId).slice(0, 16)}`;
}

/** What Hermes' long-term memory is kept under; it outlives the session. */
function memoryKey(sessionKey: string): string {
  const isPlain = sessionKey.length <= LONGEST_KEY && /^[\x21-\x7e]+$/.test(sessionKey);
  return isPlain ? sessionKey : `tertulia:${hash(sessionKey)}`;
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

class HermesSession implements AgentSession {
  readonly how: OpenedHow;
  readonly #thread: Thread;
  readonly #host: SessionHost;
  readonly #life: SessionLife;

  constructor(request: OpenRequest, start: Start, host: SessionHost, onOver: () => void) {
    this.how = start.how;
    this.#thread = new Thread(request, start, host);
    this.#host = host;
    this.#life = new SessionLife(CLOSED, onOver);
  }

  get ref(): string {
    return this.#thread.id ?? newId(this.#thread.request);
  }

  turn(input: TurnInput, options: TurnOptions): Promise<TurnResult> {
    return this.#life.run((parked) =>
      new TurnRun(this.#host, this.#thread, { ...options, parked }).answer(promptOf(input)),
    );
  }

  async park(): Promise<void> {
    this.#life.end();
  }

  /** The agent is another's process: that it is gone is seen by the next turn. */
  onDead(): () => void {
    return () => undefined;
  }
}

/** The session as Hermes has it. */
class Thread {
  readonly request: OpenRequest;
  /** Null: Hermes is to give one with the first answer. */
  id: string | null;
  /** The first message is still to be sent. */
  isFresh: boolean;
  /** It is known of no turn since that the server still has it. */
  #isSure = true;
  /** A server that refuses the id of an opened session at its first turn gets it anew, once: nothing has run. */
  #mayBeginAnew = true;
  readonly #isAskable: boolean;
  readonly #server: HermesServer;

  constructor(request: OpenRequest, { id, how, isAskable }: Start, { server }: SessionHost) {
    this.request = request;
    this.id = id;
    this.isFresh = how !== "resumed";
    this.#isAskable = isAskable;
    this.#server = server;
  }

  /** Whether the session is there, and where it goes on now; what came between, if not. */
  async look(signal: AbortSignal): Promise<Trouble | "gone" | "cancelled" | null> {
    if (this.#isSure || !this.#isAskable || this.id === null) return null;
    const asked = await this.#server.session(this.id, signal);
    if ("cancelled" in asked) return "cancelled";
    if ("trouble" in asked) return asked.trouble;
    if (asked.value === null) return "gone";
    this.id = asked.value.tip;
    return null;
  }

  /** What is sent with the message. */
  headers(): Record<string, string> {
    return {
      "x-hermes-session-key": memoryKey(this.request.sessionKey),
      ...(this.id === null ? {} : { "x-hermes-session-id": this.id }),
    };
  }

  messages(prompt: string): readonly { readonly role: "system" | "user"; readonly content: string }[] {
    const { stablePart, primer, sessionId } = this.request;
    // Where Hermes makes the id it is made of what is sent: two conversations that begin alike would be one.
    const system = this.id === null ? `${stablePart}\n\nConversation: ${hash(sessionId).slice(0, 16)}` : stablePart;
    const opening = this.isFresh ? primerBlock(primer) : "";
    return [
      ...(system === "" ? [] : [{ role: "system" as const, content: system }]),
      { role: "user", content: opening === "" ? prompt : `${opening}\n\n${prompt}` },
    ];
  }

  /** Hermes has taken the message, in the session it names. */
  taken(headers: Headers): void {
    this.id = headers.get("x-hermes-session-id")?.trim() || this.id;
    this.isFresh = false;
    this.#mayBeginAnew = false;
    this.#isSure = false;
  }

  /** False when it is too late for it. */
  beginAnew(): boolean {
    if (!this.#mayBeginAnew || this.#isAskable) return false;
    // One that takes only ids it gave itself refuses ours at first, too: then it is to give one.
    this.id = null;
    this.isFresh = true;
    this.#mayBeginAnew = false;
    return true;
  }
}

/** One turn: its tries, and what was said in it. */
class TurnRun {
  /** Exactly the text events. */
  #text = "";
  readonly #gate = new SilenceGate();
  readonly #host: SessionHost;
  readonly #thread: Thread;
  readonly #options: TurnOptions & { readonly parked: AbortSignal };
  readonly #signal: AbortSignal;
  #isTaken = false;

  constructor(host: SessionHost, thread: Thread, options: TurnOptions & { readonly parked: AbortSignal }) {
    this.#host = host;
    this.#thread = thread;
    this.#options = options;
    this.#signal = AbortSignal.any([options.signal, options.parked]);
  }

  /** Rejects only if `onEvent` did. */
  async answer(prompt: string): Promise<TurnResult> {
    const { server, clock, chance } = this.#host;
    let retries = 0;
    while (!this.#signal.aborted) {
      const found = await this.#thread.look(this.#signal);
      if (found === "cancelled") break;
      if (found === "gone") return this.#failed({ kind: "session-gone", message: SESSION_GONE }, {});
      const end = found === null ? await this.#ask(prompt) : ({ kind: "broken", trouble: found } as const);
      if (end.kind === "cancelled") break;
      if (end.kind === "finished") return this.#finished(end);
      const { trouble } = end;
      if (!this.#isTaken && isSessionUnknown(trouble) && this.#thread.beginAnew()) continue;
      const wait = !this.#isTaken && hasRunNothing(trouble) ? waitBeforeRetry(trouble, retries, chance) : null;
      if (wait === null) return this.#failed(hermesFailure(trouble, server, this.#isTaken), end);
      retries++;
      await pause(clock, wait, this.#signal);
    }
    return this.#stopped();
  }

  #ask(prompt: string): Promise<CompletionEnd> {
    const { server, clock, idleTimeoutMs, model } = this.#host;
    return completion({
      url: server.url("/v1/chat/completions"),
      headers: { accept: "text/event-stream", ...server.headers, ...this.#thread.headers() },
      body: JSON.stringify({
        ...(model === undefined ? {} : { model }),
        messages: this.#thread.messages(prompt),
        stream: true,
      }),
      fetch: server.fetch,
      clock,
      idleTimeoutMs,
      signal: this.#signal,
      onTaken: (headers) => {
        this.#isTaken = true;
        this.#thread.taken(headers);
      },
      onPart: (part) => this.#hear(part),
      onOwnEvent: (event) => this.#hearOwn(event),
    });
  }

  async #hear({ type, text }: CompletionPart): Promise<void> {
    if (type === "thought") await this.#options.onEvent({ type, text });
    else await this.#say(this.#gate.take(text));
  }

  async #say(text: string): Promise<void> {
    if (text === "" || this.#signal.aborted) return;
    this.#text += text;
    await this.#options.onEvent({ type: "text", text });
  }

  async #hearOwn(event: OwnEvent): Promise<void> {
    const tool = readToolProgress(event);
    if (tool !== null) await this.#options.onEvent(tool);
  }

  async #finished(end: CompletionEnd & { kind: "finished" }): Promise<TurnResult> {
    const { server } = this.#host;
    if (end.reason === "error") return this.#failed(hermesFailure({ type: "cut" }, server), end);
    await this.#say(this.#gate.rest());
    if (end.reason === "length") await this.#say(OUTPUT_LIMIT);
    if (this.#signal.aborted) return this.#stopped();
    return { outcome: "done", text: this.#text, ...usageIn(end) };
  }

  #failed(failure: RuntimeFailure, end: { readonly usage?: TurnResult["usage"] }): TurnResult {
    if (this.#signal.aborted) return this.#stopped();
    return { outcome: "failed", text: this.#text, failure, ...usageIn(end) };
  }

  #stopped(): TurnResult {
    if (this.#options.signal.aborted) return { outcome: "cancelled", text: this.#text };
    return { outcome: "failed", text: this.#text, failure: CLOSED };
  }
}

/** The request was refused before the agent began: it can be sent again. */
function hasRunNothing(trouble: Trouble): boolean {
  if (trouble.type === "connect") return trouble.code === "ECONNREFUSED";
  return trouble.type === "status" && (trouble.status === 429 || trouble.status === 503);
}
