/**
 * AgentConnection: an agent's process with ACP spoken over it. Owns both: when one ends the other does, and who asks is told so. Every
 * question of ours but a prompt has an answer within a bounded time.
 */
import type * as Acp from "@agentclientprotocol/sdk/unstable";
import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import type { RuntimeFailure } from "../runtime.ts";
import { AgentProcess, type StopLimits } from "./agent-process.ts";
import { createAgentStream } from "./agent-stream.ts";
import { AgentGone, AgentSilent, diedOf, refusalOf } from "./failures.ts";
import type { AcpAgent } from "./presets.ts";
import { isFields, type Question, readQuestion } from "./updates.ts";

export interface AcpLimits extends StopLimits {
  /** The longest wait for an answer while a session is opened. */
  readonly answerMs: number;
  /** After a resume or a load: so long without an update ends the replay … */
  readonly quietMs: number;
  /** … and so long in all. */
  readonly replayMs: number;
  readonly lineBytes: number;
}

export const DEFAULT_LIMITS: AcpLimits = {
  stdinGraceMs: 3_000,
  termGraceMs: 2_000,
  answerMs: 30_000,
  quietMs: 250,
  replayMs: 3_000,
  lineBytes: 32 * 1_048_576,
};

/** Who hears what the agent says. */
export interface AgentListener {
  /** Awaited before more is read. */
  onUpdate(params: unknown): Promise<void>;
  /** The id of the option chosen; null: the question is cancelled. The signal aborts when the agent takes it back. */
  onQuestion(question: Question, signal: AbortSignal): Promise<string | null>;
}

export interface ConnectOptions {
  readonly agent: AcpAgent;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly limits: AcpLimits;
  readonly listener: AgentListener;
  readonly onGone: () => void;
}

/** How long the rest of what a dead agent has said is waited for: a child of it can hold the pipe open. */
const REST_MS = 250;

export class AgentConnection {
  readonly process: AgentProcess;
  /** Settles, once, when the agent is gone: by itself or because it was stopped. */
  readonly gone: Promise<RuntimeFailure>;
  readonly #options: ConnectOptions;
  readonly #gone = Promise.withResolvers<RuntimeFailure>();
  readonly #connection: Acp.ClientConnection | null;
  /** Everything the agent has said was taken. */
  #ended: Promise<void> = Promise.resolve();
  #initialized: Acp.InitializeResponse | null = null;

  /** Starts it, without waiting for anything it says. */
  static async start(options: ConnectOptions): Promise<AgentConnection> {
    // On demand: nobody without such an agent pays for it.
    const acp = await import("@agentclientprotocol/sdk/unstable");
    return new AgentConnection(acp, options);
  }

  private constructor(acp: typeof Acp, options: ConnectOptions) {
    const { agent, listener, limits } = options;
    this.#options = options;
    this.gone = this.#gone.promise;
    this.process = new AgentProcess({
      command: agent.command,
      args: agent.args,
      cwd: options.cwd,
      env: options.env,
      clock: options.clock,
      limits: { ...limits, stdinGraceMs: agent.quirks.gracefulExit === "stdin" ? limits.stdinGraceMs : 0 },
      onExit: () => void this.#afterRest(),
      onGone: options.onGone,
    });
    const { stdio } = this.process;
    if (stdio === null) {
      this.#connection = null;
      return;
    }
    const { stream, ended } = createAgentStream({
      ...stdio,
      lineBytes: limits.lineBytes,
      onUpdate: (params) => listener.onUpdate(params),
      // It lives on, and nothing can be asked of it any more.
      onDeaf: () => void this.#afterRest(),
    });
    this.#ended = ended;
    this.#connection = acp
      .client({ name: "tertulia" })
      .onRequest("session/request_permission", readQuestion, async ({ params, signal }) => {
        const optionId = await listener.onQuestion(params, signal);
        return { outcome: optionId === null ? { outcome: "cancelled" } : { outcome: "selected", optionId } };
      })
      .connect(stream);
    void ended.then(() => this.#afterRest());
  }

  get capabilities(): Acp.AgentCapabilities {
    const { agentCapabilities } = this.#initialized ?? {};
    return isFields(agentCapabilities) ? agentCapabilities : {};
  }
  get version(): string | undefined {
    const info = this.#initialized?.agentInfo;
    return isFields(info) && typeof info.version === "string" ? info.version : undefined;
  }

  async initialize(): Promise<void> {
    const response = await this.ask("initialize", {
      protocolVersion: 1,
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
      clientInfo: { name: "tertulia", version: "0.1.0" },
    });
    if (!isFields(response) || response.protocolVersion !== 1) {
      const said = isFields(response) ? String(JSON.stringify(response.protocolVersion)).slice(0, 20) : "none";
      throw new TertuliaError(
        "runtime_failed",
        `${this.#options.agent.title} speaks another version of ACP (${said}).`,
        {
          remedy: "Install a version of the agent that speaks ACP 1.",
        },
      );
    }
    this.#initialized = response as unknown as Acp.InitializeResponse;
  }

  /** Rejects with the SDK's error for what the agent refuses, with `AgentSilent`, or with `AgentGone`. */
  async ask(method: string, params: unknown, ms = this.#options.limits.answerMs): Promise<unknown> {
    const silent = Promise.withResolvers<never>();
    const cancel = this.#options.clock.after(ms, () => silent.reject(new AgentSilent(method, ms)));
    try {
      return await Promise.race([this.request(method, params), silent.promise]);
    } finally {
      cancel();
    }
  }

  /** The same without a limit of time. */
  async request(method: string, params: unknown): Promise<unknown> {
    if (this.#connection === null) throw new AgentGone(await this.gone);
    try {
      return await this.#connection.agent.request(method, params);
    } catch (cause) {
      // The SDK has no code for a connection that ended; what became of the process is told in a moment.
      const isOver = refusalOf(cause) === null && this.#connection.signal.aborted;
      throw isOver ? new AgentGone(await this.gone) : cause;
    }
  }

  /** Settles with the promise, or when the agent cannot say anything any more. */
  async whileConnected(promise: Promise<void>): Promise<void> {
    const over = Promise.withResolvers<void>();
    const signal = this.#connection?.signal ?? AbortSignal.abort();
    const end = (): void => over.resolve();
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    try {
      await Promise.race([promise, over.promise]);
    } finally {
      signal.removeEventListener("abort", end);
    }
  }

  /** Without a word where nobody is left to hear it. */
  notify(method: string, params: unknown): void {
    this.#connection?.agent.notify(method, params).catch(() => undefined);
  }

  /** Settles when nothing of the process is left. Safe to repeat. */
  stop(how: { hasty?: boolean } = {}): Promise<void> {
    return this.process.stop(how);
  }

  /** The process or its output has ended: the other is given a moment to end as well. */
  async #afterRest(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(REST_MS, resolve);
    const exited = this.process.exit !== null ? this.#ended : this.process.exited;
    await Promise.race([exited, late]);
    cancel();
    this.#connection?.close();
    this.#gone.resolve(diedOf(this.process.exit, this.#options.agent));
    await this.process.stop({ hasty: true });
  }
}
