/**
 * AcpRuntime: any agent that speaks the Agent Client Protocol over stdio. Each session has a process and a folder of its own. The agent
 * keeps the history; what it lost is told it in front of its first prompt.
 */
import { tmpdir } from "node:os";
import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import { type Log, silentLog } from "../../util/log.ts";
import type { OpenedHow, OpenRequest, Runtime, RuntimeProbe } from "../runtime.ts";
import { type AcpRef, AcpSession, frontOf } from "./acp-session.ts";
import { type AcpLimits, AgentConnection, DEFAULT_LIMITS } from "./agent-connection.ts";
import { NOTHING } from "./agent-stream.ts";
import { AgentGone, AgentOdd, AgentSilent, failureOf, lastWords, refusalOf } from "./failures.ts";
import { Inbox } from "./inbox.ts";
import { Leftovers } from "./leftovers.ts";
import type { AcpAgent } from "./presets.ts";
import { Replay } from "./replay.ts";
import { isFields } from "./updates.ts";
import { folderOf, Workspaces } from "./workspace.ts";

export interface AcpRuntimeOptions {
  readonly name: string;
  readonly agent: AcpAgent;
  /** Further variables for the agent, before what it inherits. */
  readonly env: Readonly<Record<string, string>>;
  /** What it inherits: all of it, so nothing of the gateway's own may be in it. */
  readonly inherited: Readonly<Record<string, string>>;
  /** The state folder; sessions work in `workspace/<session id>` there. */
  readonly home: string;
  readonly clock: Clock;
  readonly log?: Log | undefined;
  /** What a session's agent signs in with at the gateway; absent for none. */
  readonly tokenFor?: (sessionId: string) => Promise<string | undefined> | string | undefined;
  readonly mcpServers?: (sessionId: string) => Promise<readonly McpMount[]> | readonly McpMount[];
  readonly limits?: Partial<AcpLimits>;
}

/** A server of tools. Where the agent can it is reached over HTTP, else it is started. */
export interface McpMount {
  readonly name: string;
  readonly http?: { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  readonly stdio?: {
    readonly command: string;
    readonly args: readonly string[];
    readonly env: Readonly<Record<string, string>>;
  };
}

export function createAcpRuntime(options: AcpRuntimeOptions): Runtime {
  const runtime = new AcpRuntime(options);
  return {
    name: options.name,
    history: "own",
    effectsAtPrompt: "possible",
    memoryMb: options.agent.memoryMb,
    open: (request) => runtime.open(request),
    probe: (signal) => runtime.probe(signal),
    forget: (ref) => runtime.forget(ref),
    idOf: (ref) => readRef(ref)?.id ?? null,
    close: () => runtime.close(),
  };
}

/** A process with the folder it works in, until nothing of it is left. */
interface Started {
  readonly connection: AgentConnection;
  readonly inbox: Inbox;
}

class AcpRuntime {
  readonly #options: AcpRuntimeOptions;
  readonly #limits: AcpLimits;
  readonly #workspaces: Workspaces;
  readonly #leftovers: Leftovers;
  /** All that run, by what settles when nothing of one is left. */
  readonly #processes = new Map<AgentConnection, string>();
  /** Ways to go on with a session in which it told its history without an end, or into a turn: it is not asked for them any more. */
  readonly #unending = new Set<GoingOn>();
  readonly #opening = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();

  constructor(options: AcpRuntimeOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#workspaces = new Workspaces(options.home);
    this.#leftovers = new Leftovers(options.home);
  }

  async open(request: OpenRequest): Promise<AcpSession> {
    request.signal.throwIfAborted();
    this.#mustBeOpen();
    const opening = this.#open({ ...request, signal: AbortSignal.any([request.signal, this.#closing.signal]) });
    this.#opening.add(opening);
    try {
      return await opening;
    } finally {
      this.#opening.delete(opening);
    }
  }

  async probe(signal: AbortSignal): Promise<RuntimeProbe> {
    const { agent } = this.#options;
    let started: Started | null = null;
    try {
      signal.throwIfAborted();
      this.#mustBeOpen();
      started = await this.#start("", tmpdir(), {});
      const { connection } = started;
      await aborted(connection.initialize(), signal);
      const abilities = abilitiesOf(connection);
      const { version } = connection;
      return {
        ok: true,
        detail: `${agent.title} answers${abilities.length === 0 ? "" : ` and can: ${abilities.join(", ")}`}.`,
        abilities,
        ...(version === undefined ? {} : { version }),
      };
    } catch (cause) {
      const error = this.#openFailure(cause, started?.connection ?? null);
      const exit = started?.connection.process.exit;
      const isMissing = exit?.kind === "unstartable" && exit.code === "ENOENT";
      if (isMissing) return { ok: false, detail: error.message, missing: agent.install };
      return { ok: false, detail: `${error.message} ${error.remedy}` };
    } finally {
      await started?.connection.stop();
    }
  }

  async forget(ref: string): Promise<void> {
    const folder = readRef(ref)?.folder;
    if (folder !== undefined) await this.#workspaces.remove(folder);
  }

  async close(): Promise<void> {
    this.#closing.abort(closed(this.#options.name));
    await Promise.allSettled(this.#opening);
    await Promise.all([...this.#processes.keys()].map((connection) => connection.stop()));
  }

  async #open(request: OpenRequest): Promise<AcpSession> {
    const { agent } = this.#options;
    const { signal } = request;
    const folder = folderOf(request.sessionId);
    let started: Started | null = null;
    try {
      // One process at a time works in a folder.
      await Promise.all([...this.#processes].flatMap(([other, its]) => (its === folder ? [other.stop()] : [])));
      const context = agent.contextFile === null ? null : { file: agent.contextFile, text: request.stablePart };
      const cwd = await this.#workspaces.prepare(folder, context);
      const env = await this.#environment(request);
      signal.throwIfAborted();
      started = await this.#start(folder, cwd, env);
      const { pid } = started.connection.process;
      if (pid !== undefined) this.#leftovers.note(pid, request.sessionId);
      return await aborted(this.#openSession(started, request, cwd, folder), signal);
    } catch (cause) {
      await started?.connection.stop({ hasty: true });
      if (signal.aborted) throw signal.reason;
      throw this.#openFailure(cause, started?.connection ?? null);
    }
  }

  async #openSession(
    { connection, inbox }: Started,
    request: OpenRequest,
    cwd: string,
    folder: string,
  ): Promise<AcpSession> {
    const { agent, clock } = this.#options;
    await connection.initialize();
    const place = { cwd, mcpServers: await this.#mounts(request.sessionId, connection) };
    const before = readRef(request.ref ?? "");
    const onStrays = (updates: number): void => this.#onStrays(request.sessionId, updates);
    const session = { agent, connection, inbox, clock, onStrays };
    if (before?.id != null && before.command === agent.command) {
      inbox.replay = new Replay(request.primer.lines);
      const how = await this.#goOn(connection, inbox, before.id, place);
      if (how !== null && (await this.#hasReplayed(inbox, how, request.signal))) {
        const onLateReplay = (): void => this.#avoid(how);
        const ref = { id: before.id, command: agent.command, folder };
        return new AcpSession({ ...session, how, front: "", ref, onLateReplay });
      }
      request.signal.throwIfAborted();
      if (how !== null) this.#avoid(how);
    }
    const response = await connection.ask("session/new", place);
    const id = isFields(response) ? response.sessionId : undefined;
    if (typeof id !== "string" || id === "") throw new AgentOdd("a session without an id");
    return new AcpSession({
      ...session,
      how: request.primer.total > 0 ? "primed" : "created",
      front: frontOf(agent.contextFile === null ? request.stablePart : null, request.primer),
      ref: { id, command: agent.command, folder },
      onLateReplay: () => undefined,
    });
  }

  /** B10: whether nothing more of the history is to come: the last answer that we know was told, or the agent fell silent. */
  async #hasReplayed(inbox: Inbox, how: GoingOn, signal: AbortSignal): Promise<boolean> {
    const { quietMs, replayMs } = this.#limits;
    const { replay } = inbox;
    const isExpected = (): boolean => replay.isSeen || (how === "loaded" && replay.known.length > 0);
    const patienceMs = (): number => (isExpected() && !replay.isWhole ? UNSURE_FACTOR * quietMs : quietMs);
    return (await inbox.quiet({ quietMs: patienceMs, mostMs: replayMs }, signal)) || replay.isWhole;
  }

  #avoid(how: GoingOn): void {
    if (this.#unending.has(how)) return;
    this.#unending.add(how);
    const { name, log = silentLog } = this.#options;
    log.warn({ runtime: name, how }, "an agent told its history as if it were an answer: its sessions are begun anew");
  }

  #onStrays(sessionId: string, updates: number): void {
    const { name, log = silentLog } = this.#options;
    log.warn({ runtime: name, session: sessionId, updates }, "an agent spoke outside of a turn: dropped");
  }

  /** How the session goes on; null where it does not. Throws where the agent is gone, silent or not signed in. */
  async #goOn(
    connection: AgentConnection,
    inbox: Inbox,
    sessionId: string,
    place: { readonly cwd: string },
  ): Promise<GoingOn | null> {
    const { quirks } = this.#options.agent;
    const { loadSession, sessionCapabilities } = connection.capabilities;
    const canList = sessionCapabilities?.list != null;
    if (quirks.resumeMayLie && canList && !(await this.#isListed(connection, sessionId, place.cwd))) return null;
    // COMPAT: hermes acp makes a new session of one that it does not know, and does not say under which id.
    const canResume = sessionCapabilities?.resume != null && !this.#unending.has("resumed");
    if (canResume && (canList || !quirks.resumeMayLie || loadSession !== true)) {
      if ((await this.#tried(connection.ask("session/resume", { sessionId, ...place }))) !== REFUSED) return "resumed";
    }
    if (loadSession !== true || this.#unending.has("loaded")) return null;
    const before = inbox.dropped;
    const loaded = await this.#tried(
      connection.ask("session/load", { sessionId, ...place }, LOAD_FACTOR * this.#limits.answerMs),
    );
    if (loaded === REFUSED) return null;
    // COMPAT: hermes acp answers null for a session that it does not have, and replays nothing.
    return loaded === NOTHING && inbox.dropped === before ? null : "loaded";
  }

  /** A refusal is a session that is not there, unless it says that nothing can be opened. */
  async #tried(answer: Promise<unknown>): Promise<unknown> {
    try {
      return await answer;
    } catch (cause) {
      const isFinal = refusalOf(cause) === null || failureOf(cause, this.#options.agent).kind === "auth";
      if (isFinal) throw cause;
      return REFUSED;
    }
  }

  async #isListed(connection: AgentConnection, sessionId: string, cwd: string): Promise<boolean> {
    let cursor: unknown;
    for (let page = 0; page < MOST_PAGES; page++) {
      const answer = await this.#tried(
        connection.ask("session/list", { cwd, ...(cursor === undefined ? {} : { cursor }) }),
      );
      if (!isFields(answer) || !Array.isArray(answer.sessions)) return false;
      if (answer.sessions.some((session: unknown) => isFields(session) && session.sessionId === sessionId)) return true;
      cursor = answer.nextCursor;
      if (typeof cursor !== "string") return false;
    }
    return false;
  }

  async #start(folder: string, cwd: string, env: Readonly<Record<string, string>>): Promise<Started> {
    const { agent, clock, inherited } = this.#options;
    const inbox = new Inbox(clock);
    const connection: AgentConnection = await AgentConnection.start({
      agent,
      cwd,
      env: { ...inherited, ...this.#options.env, ...env },
      clock,
      limits: this.#limits,
      listener: inbox,
      onGone: () => {
        this.#processes.delete(connection);
        const { pid } = connection.process;
        if (pid !== undefined && folder !== "") this.#leftovers.strike(pid);
      },
    });
    this.#processes.set(connection, folder);
    return { connection, inbox };
  }

  async #environment({ sessionId, sessionKey }: OpenRequest): Promise<Record<string, string>> {
    const token = await this.#options.tokenFor?.(sessionId);
    return {
      TERTULIA_HOME: this.#options.home,
      TERTULIA_SESSION_ID: sessionId,
      TERTULIA_SESSION_KEY: sessionKey,
      ...(token === undefined ? {} : { TERTULIA_TOKEN: token }),
    };
  }

  async #mounts(sessionId: string, connection: AgentConnection): Promise<readonly object[]> {
    const mounts = (await this.#options.mcpServers?.(sessionId)) ?? [];
    const speaksHttp = connection.capabilities.mcpCapabilities?.http === true;
    return mounts.flatMap(({ name, http, stdio }): object[] => {
      if (http !== undefined && speaksHttp)
        return [{ type: "http", name, url: http.url, headers: pairs(http.headers) }];
      return stdio === undefined ? [] : [{ name, command: stdio.command, args: stdio.args, env: pairs(stdio.env) }];
    });
  }

  #mustBeOpen(): void {
    if (this.#closing.signal.aborted) throw closed(this.#options.name);
  }

  #openFailure(cause: unknown, connection: AgentConnection | null): TertuliaError {
    if (cause instanceof TertuliaError) return cause;
    const { agent } = this.#options;
    // What is no fault of the agent's is none of ours to explain.
    if (connection === null || !isAgents(cause)) throw cause;
    const failure = failureOf(cause, agent);
    const exit = connection.process.exit;
    const remedy = exit?.kind === "unstartable" ? agent.install : failure.kind === "auth" ? agent.signIn : undefined;
    const secrets = secretsIn({ ...this.#options.inherited, ...this.#options.env });
    const said = exit?.kind === "unstartable" ? "" : lastWords(connection.process.stderr, secrets);
    return new TertuliaError("runtime_failed", failure.message + said, {
      cause: failure,
      ...(remedy === undefined ? {} : { remedy }),
    });
  }
}

type GoingOn = Extract<OpenedHow, "resumed" | "loaded">;

/** Where the replay did not reach the last answer that we know, the agent has to be silent for so many times as long. */
const UNSURE_FACTOR = 4;
const REFUSED = Symbol("refused");
const MOST_PAGES = 20;
/** A long history is replayed before the answer. */
const LOAD_FACTOR = 4;

function closed(name: string): TertuliaError {
  return new TertuliaError("runtime_failed", `The runtime ${name} has been closed.`);
}

/** Null for what is no reference of ours. */
function readRef(ref: string): AcpRef | null {
  let value: unknown;
  try {
    value = JSON.parse(ref);
  } catch {
    return null;
  }
  if (!isFields(value)) return null;
  const { id, command, folder } = value;
  if (typeof command !== "string" || typeof folder !== "string") return null;
  return { id: typeof id === "string" && id !== "" ? id : null, command, folder };
}

function abilitiesOf({ capabilities }: AgentConnection): string[] {
  const { loadSession, sessionCapabilities: session, mcpCapabilities, promptCapabilities } = capabilities;
  return [
    ...(loadSession === true ? ["load"] : []),
    ...(["resume", "list", "fork", "close", "delete"] as const).filter((name) => session?.[name] != null),
    ...(promptCapabilities?.image === true ? ["images"] : []),
    ...(mcpCapabilities?.http === true ? ["mcp over http"] : []),
  ];
}

function pairs(fields: Readonly<Record<string, string>>): { name: string; value: string }[] {
  return Object.entries(fields).map(([name, value]) => ({ name, value }));
}

function isAgents(cause: unknown): boolean {
  const isTyped = cause instanceof AgentGone || cause instanceof AgentSilent || cause instanceof AgentOdd;
  return isTyped || refusalOf(cause) !== null;
}

/** Values of variables that sound like it. */
function secretsIn(env: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    /KEY|TOKEN|SECRET|PASS|CREDENTIAL/i.test(name) ? [value] : [],
  );
}

/** The promise, or the reason of the signal where that comes first. */
async function aborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: abort, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([promise, abort]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    promise.catch(() => undefined);
  }
}
