/**
 * HttpRuntime: a model behind an OpenAI-compatible API, which remembers nothing. The gateway keeps the history; a session here is the list
 * of messages in memory, and opening one sends nothing. The model has no tools: a call for one is a failure, and nothing is run.
 */

import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import { promptOf } from "../prompt.ts";
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
  usageIn,
} from "../wire/completion-stream.ts";
import { failureOf, isOverflow, type Trouble, waitBeforeRetry } from "../wire/failures.ts";
import { pause } from "../wire/pause.ts";
import { SessionLife } from "../wire/session-life.ts";
import { type Fitted, HistoryWindow, promptBudget } from "./history-window.ts";
import { probeModel } from "./model-probe.ts";
import { createModelServer, type ModelServer, type ModelServerOptions } from "./model-server.ts";

export interface HttpRuntimeOptions extends ModelServerOptions {
  /** Tokens the model can hold, prompt and reply; 32,768 when not said. */
  readonly window?: number | undefined;
  /** Tokens of one reply, sent as its limit. When not said the server's own holds, and a quarter of the window, at most 4,096, is kept free. */
  readonly maxOutput?: number | undefined;
  /** The longest silence of the server, its thinking before the first word included. */
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
  /** From 0 up to 1: spreads retries. */
  readonly chance: () => number;
}

export const DEFAULT_WINDOW = 32_768;
const MOST_RESERVED = 4_096;

const CLOSED: RuntimeFailure = { kind: "process-died", message: "The session with the model was closed. Ask again." };

/** Throws `config_invalid`. */
export function createHttpRuntime(options: HttpRuntimeOptions): Runtime {
  const server = createModelServer(options);
  const host: SessionHost = { ...options, server, budget: budgetOf(options), dialect: new Dialect(options.maxOutput) };
  const open = new Set<HttpSession>();
  let isClosed = false;
  return {
    name: options.name,
    history: "gateway",
    effectsAtPrompt: "none",
    async open(request) {
      request.signal.throwIfAborted();
      if (isClosed) throw new TertuliaError("runtime_failed", `The runtime ${options.name} has been closed.`);
      const session = new HttpSession(request, host, () => open.delete(session));
      open.add(session);
      return session;
    },
    probe: (signal) => probeModel(server, signal),
    forget: async () => undefined,
    async close() {
      isClosed = true;
      for (const session of open) await session.park();
    },
  };
}

function budgetOf({ name, window = DEFAULT_WINDOW, maxOutput }: HttpRuntimeOptions): number {
  const budget = promptBudget(window, maxOutput ?? Math.min(MOST_RESERVED, Math.floor(window / 4)));
  if (budget > 0) return budget;
  throw new TertuliaError(
    "config_invalid",
    `The runtime ${name} leaves no room for a prompt: max_output (${maxOutput}) must be below seven tenths of window (${window}).`,
    { setting: "max_output" },
  );
}

interface SessionHost {
  readonly server: ModelServer;
  readonly budget: number;
  readonly dialect: Dialect;
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
  readonly chance: () => number;
}

/** What of the common form a server does not take is learned from its refusal, once for all sessions. */
class Dialect {
  readonly #maxOutput: number | undefined;
  #limitField: "max_tokens" | "max_completion_tokens" | null = "max_tokens";
  #usageIsAsked = true;

  constructor(maxOutput: number | undefined) {
    this.#maxOutput = maxOutput;
  }

  bodyOf(model: string, messages: Fitted["messages"]): string {
    return JSON.stringify({
      model,
      messages,
      stream: true,
      ...(this.#usageIsAsked ? { stream_options: { include_usage: true } } : {}),
      ...(this.#maxOutput === undefined || this.#limitField === null ? {} : { [this.#limitField]: this.#maxOutput }),
    });
  }

  /** Whether the request can be put otherwise. */
  learn(trouble: Trouble): boolean {
    if (trouble.type !== "status" || ![400, 422].includes(trouble.status) || isOverflow(trouble)) return false;
    const said = `${trouble.said.code} ${trouble.said.message}`;
    if (this.#usageIsAsked && /stream_options|include_usage/.test(said)) {
      this.#usageIsAsked = false;
      return true;
    }
    if (this.#maxOutput === undefined || this.#limitField === null || !said.includes(this.#limitField)) return false;
    this.#limitField = this.#limitField === "max_tokens" ? "max_completion_tokens" : null;
    return true;
  }
}

class HttpSession implements AgentSession {
  readonly how: OpenedHow;
  readonly #host: SessionHost;
  readonly #window: HistoryWindow;
  readonly #life: SessionLife;

  constructor(request: OpenRequest, host: SessionHost, onOver: () => void) {
    const { stablePart, primer, exchanges = [], ref } = request;
    this.how = exchanges.length > 0 ? "resumed" : primer.lines.length > 0 ? "primed" : "created";
    this.#host = host;
    this.#window = new HistoryWindow({ stablePart, seeds: primer.lines, exchanges, ref, budget: host.budget });
    this.#life = new SessionLife(CLOSED, onOver);
  }

  get ref(): string {
    return this.#window.ref;
  }

  turn(input: TurnInput, options: TurnOptions): Promise<TurnResult> {
    return this.#life.run(async (parked) => {
      const prompt = promptOf(input);
      const run = new TurnRun(this.#host, this.#window, { ...options, parked });
      let isWhole = false;
      try {
        const result = await run.answer(prompt);
        isWhole = result.outcome === "done" && result.text.trim() !== "";
        return result;
      } finally {
        // What an `onEvent` that throws leaves behind is a turn that was cut.
        const mark = isWhole ? null : "cut";
        this.#window.add({ turnId: input.turnId, prompt, reply: run.text, mark });
      }
    });
  }

  async park(): Promise<void> {
    this.#life.end();
  }

  /** There is nothing that could die: each turn asks anew. */
  onDead(): () => void {
    return () => undefined;
  }
}

/** One turn: its tries, and what was said in it. */
class TurnRun {
  /** Exactly the text events. */
  text = "";
  readonly #host: SessionHost;
  readonly #window: HistoryWindow;
  readonly #options: TurnOptions & { readonly parked: AbortSignal };
  readonly #signal: AbortSignal;

  constructor(host: SessionHost, window: HistoryWindow, options: TurnOptions & { readonly parked: AbortSignal }) {
    this.#host = host;
    this.#window = window;
    this.#options = options;
    this.#signal = AbortSignal.any([options.signal, options.parked]);
  }

  /** Rejects only if `onEvent` did. */
  async answer(prompt: string): Promise<TurnResult> {
    const { server, clock, chance } = this.#host;
    let retries = 0;
    let isShortened = false;
    while (!this.#signal.aborted) {
      const sent = this.#window.fit(prompt);
      const end = await this.#ask(sent);
      if (end.kind === "cancelled") break;
      if (end.usage !== undefined) this.#window.learn(sent.estimate, end.usage.input);
      if (end.kind === "finished") return this.#finished(end);
      const { trouble } = end;
      if (this.text === "" && isOverflow(trouble) && !isShortened && sent.exchanges > 0) {
        this.#window.dropBlock();
        isShortened = true;
        continue;
      }
      const wait = this.text === "" ? waitBeforeRetry(trouble, retries, chance) : null;
      if (wait === null) return this.#failed(failureOf(trouble, server), end);
      retries++;
      await pause(clock, wait, this.#signal);
    }
    return this.#stopped();
  }

  /** Puts the request otherwise, and again, where the server says that it does not know a field. */
  async #ask(sent: Fitted): Promise<CompletionEnd> {
    const { server, dialect, clock, idleTimeoutMs } = this.#host;
    for (;;) {
      const end = await completion({
        url: server.url("/chat/completions"),
        headers: { accept: "text/event-stream", ...server.headers },
        body: dialect.bodyOf(server.model, sent.messages),
        fetch: server.fetch,
        clock,
        idleTimeoutMs,
        signal: this.#signal,
        onPart: (part) => this.#tell(part),
      });
      if (end.kind !== "broken" || this.text !== "" || !dialect.learn(end.trouble)) return end;
    }
  }

  async #tell(part: CompletionPart): Promise<void> {
    if (part.type === "text") this.text += part.text;
    await this.#options.onEvent(part);
  }

  async #finished(end: CompletionEnd & { kind: "finished" }): Promise<TurnResult> {
    const { server } = this.#host;
    if (end.reason === "content_filter") return this.#failed(failureOf({ type: "filtered" }, server), end);
    if (end.reason === "error") return this.#failed(failureOf({ type: "cut" }, server), end);
    if (/^(?:tool_calls|function_call)$/.test(end.reason)) {
      return this.#failed(failureOf({ type: "tool-call", tool: "" }, server), end);
    }
    if (end.reason === "length") {
      if (this.text.trim() === "") return this.#failed(failureOf({ type: "no-room" }, server), end);
      await this.#tell({ type: "text", text: OUTPUT_LIMIT });
    }
    if (this.#signal.aborted) return this.#stopped();
    return { outcome: "done", text: this.text, ...usageIn(end) };
  }

  #failed(failure: RuntimeFailure, end: { readonly usage?: TurnResult["usage"] }): TurnResult {
    if (this.#signal.aborted) return this.#stopped();
    return { outcome: "failed", text: this.text, failure, ...usageIn(end) };
  }

  #stopped(): TurnResult {
    if (this.#options.signal.aborted) return { outcome: "cancelled", text: this.text };
    return { outcome: "failed", text: this.text, failure: CLOSED };
  }
}
