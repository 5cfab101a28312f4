/**
 * DemoRuntime: the demo agent in this process. It keeps nothing but the memory of open handles: a parked session is opened anew with the
 * primer. A plain answer takes no timer.
 */
import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import type {
  AgentSession,
  OpenedHow,
  Primer,
  Runtime,
  RuntimeFailure,
  TurnInput,
  TurnOptions,
  TurnResult,
} from "../runtime.ts";
import { countWords, type DemoEnding, DemoMemory, type DemoStage, performDemo } from "./demo-agent.ts";

export interface DemoRuntime extends Runtime {
  /** How often the agent's one tool has run, in all sessions. */
  readonly sideEffects: number;
}

export interface DemoRuntimeOptions {
  /** `demo` where absent. */
  readonly name?: string;
  readonly clock: Clock;
}

export function createDemoRuntime({ name = "demo", clock }: DemoRuntimeOptions): DemoRuntime {
  const open = new Set<DemoSession>();
  let sideEffects = 0;
  let isClosed = false;
  return {
    name,
    history: "own",
    effectsAtPrompt: "none",
    get sideEffects() {
      return sideEffects;
    },
    async open(request) {
      request.signal.throwIfAborted();
      if (isClosed) throw new TertuliaError("runtime_failed", "The demo agent has been closed.");
      const session = new DemoSession({
        sessionId: request.sessionId,
        how: request.primer.total > 0 ? "primed" : "created",
        primer: request.primer,
        clock,
        work: () => ++sideEffects,
        onOver: () => open.delete(session),
      });
      open.add(session);
      return session;
    },
    probe: async () => ({ ok: true, detail: "The built-in demo agent needs nothing." }),
    forget: async () => undefined,
    async close() {
      isClosed = true;
      for (const session of open) await session.park();
    },
  };
}

export interface DemoSessionOptions {
  readonly sessionId: string;
  readonly how: OpenedHow;
  readonly primer: Primer;
  readonly clock: Clock;
  /** Does the side effect; returns how often it has happened. */
  readonly work: () => number;
  readonly onOver?: () => void;
}

/** idle ⇄ running; both → over, which is the end. */
type DemoState =
  | { readonly name: "idle" }
  | { readonly name: "running"; readonly run: DemoRun }
  | { readonly name: "over"; readonly failure: RuntimeFailure };

const PARKED: RuntimeFailure = { kind: "process-died", message: "The demo agent was parked." };

const FAILURES = {
  refused: { kind: "refused", message: "The demo agent was told to fail." },
  gone: { kind: "session-gone", message: "The demo agent was told to forget its session." },
  died: { kind: "process-died", message: "The demo agent was told to die." },
} as const satisfies Record<Exclude<DemoEnding, "done">, RuntimeFailure>;

/** One handle of the demo agent. */
export class DemoSession implements AgentSession {
  readonly ref: string;
  readonly how: OpenedHow;
  readonly #options: DemoSessionOptions;
  readonly #memory: DemoMemory;
  readonly #deathListeners = new Set<(failure: RuntimeFailure) => void>();
  #state: DemoState = { name: "idle" };

  constructor(options: DemoSessionOptions) {
    this.ref = options.sessionId;
    this.how = options.how;
    this.#options = options;
    this.#memory = new DemoMemory(options.primer);
  }

  async turn(input: TurnInput, options: TurnOptions): Promise<TurnResult> {
    if (this.#state.name === "running") throw new Error("The demo agent already runs a turn of this session.");
    if (this.#state.name === "over") return { outcome: "failed", text: "", failure: this.#state.failure };
    if (options.signal.aborted) return { outcome: "cancelled", text: "" };

    const run = new DemoRun(input, options, this.#options);
    this.#state = { name: "running", run };
    for (const line of input.missed) this.#memory.add(line);
    const self = { sessionId: this.#options.sessionId, how: this.how, memory: this.#memory };
    const performance = performDemo(input, self, run);
    this.#memory.add({ role: "user", text: input.text });
    try {
      const ending = await run.ended(performance);
      if (run.text) this.#memory.add({ role: "assistant", text: run.text });
      return this.#resultOf(ending, input, run.text);
    } finally {
      if (this.#state.name === "running") this.#state = { name: "idle" };
    }
  }

  async steer(input: TurnInput): Promise<"consumed" | "too-late"> {
    if (this.#state.name !== "running" || !(await this.#state.run.takeIn(input.text))) return "too-late";
    for (const line of input.missed) this.#memory.add(line);
    this.#memory.add({ role: "user", text: input.text });
    return "consumed";
  }

  async park(): Promise<void> {
    this.#end(PARKED);
    this.#deathListeners.clear();
  }

  onDead(listener: (failure: RuntimeFailure) => void): () => void {
    this.#deathListeners.add(listener);
    return () => this.#deathListeners.delete(listener);
  }

  #resultOf(ending: RunEnding, input: TurnInput, text: string): TurnResult {
    if (ending === "done" || ending === "cancelled") {
      const usage = { input: countWords(input.facts) + countWords(input.text), output: countWords(text) };
      return { outcome: ending, text, usage };
    }
    const failure = ending === "parked" ? PARKED : FAILURES[ending];
    if (ending === "gone" || ending === "died") this.#end(failure);
    if (ending === "died") {
      const listeners = [...this.#deathListeners];
      this.#deathListeners.clear();
      for (const listener of listeners) listener(failure);
    }
    return { outcome: "failed", text, failure };
  }

  #end(failure: RuntimeFailure): void {
    if (this.#state.name === "over") return;
    const before = this.#state;
    this.#state = { name: "over", failure };
    if (before.name === "running") before.run.end("parked");
    this.#options.onOver?.();
  }
}

type RunEnding = DemoEnding | "cancelled" | "parked";

/** One turn on the stage. After its end every promise of the stage stays pending, and no timer is left. */
class DemoRun implements DemoStage {
  /** What was said so far: exactly the text events. */
  text = "";
  readonly #input: TurnInput;
  readonly #options: TurnOptions;
  readonly #owner: Pick<DemoSessionOptions, "clock" | "work">;
  readonly #end = Promise.withResolvers<RunEnding>();
  readonly #cancel = (): void => this.end("cancelled");
  #isOver = false;
  /** Null while, or once, nothing is taken in. */
  #inbox: { readonly text: string; readonly isRead: (isRead: boolean) => void }[] | null = null;
  #wake: (() => void) | null = null;
  #stopTimer: (() => void) | null = null;

  constructor(input: TurnInput, options: TurnOptions, owner: Pick<DemoSessionOptions, "clock" | "work">) {
    this.#input = input;
    this.#options = options;
    this.#owner = owner;
    options.signal.addEventListener("abort", this.#cancel);
  }

  /** Rejects only if `onEvent` did. */
  async ended(performance: Promise<DemoEnding>): Promise<RunEnding> {
    try {
      return await Promise.race([this.#end.promise, performance]);
    } finally {
      this.end("done");
    }
  }

  end(how: RunEnding): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closeInbox();
    this.#options.signal.removeEventListener("abort", this.#cancel);
    this.#stopTimer?.();
    this.#end.resolve(how);
  }

  /** Whether the agent has read it; false when it is too late. */
  async takeIn(text: string): Promise<boolean> {
    if (!this.#inbox) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#inbox.push({ text, isRead: resolve });
    this.#wake?.();
    return promise;
  }

  #closeInbox(): void {
    for (const { isRead } of this.#inbox ?? []) isRead(false);
    this.#inbox = null;
  }

  async say(text: string): Promise<void> {
    if (this.#isOver) return never();
    this.text += text;
    await this.#options.onEvent({ type: "text", text });
    if (this.#isOver) return never();
  }

  async tool(title: string, state: "pending" | "running" | "done"): Promise<void> {
    if (this.#isOver) return never();
    await this.#options.onEvent({ type: "tool", id: `tool-${this.#input.turnId}`, title, state });
    if (this.#isOver) return never();
  }

  async job(id: string, title: string, state: "open" | "closed"): Promise<void> {
    if (this.#isOver) return never();
    await this.#options.onEvent({ type: "job", id, title, state });
    if (this.#isOver) return never();
  }

  async ask(...[title, options]: Parameters<DemoStage["ask"]>): Promise<string | null> {
    if (this.#isOver) return never();
    const answered = Promise.withResolvers<string | null>();
    const id = `ask-${this.#input.turnId}`;
    await this.#options.onEvent({ type: "permission", id, title, options, answer: answered.resolve });
    const chosen = await answered.promise;
    return this.#isOver ? never() : chosen;
  }

  work(): number {
    return this.#owner.work();
  }

  pause(ms: number): Promise<void> {
    if (this.#isOver) return never();
    return new Promise((resolve) => {
      this.#stopTimer = this.#owner.clock.after(ms, resolve);
    });
  }

  listen(): void {
    if (!this.#isOver) this.#inbox = [];
  }

  news(): Promise<void> {
    if (this.#isOver) return never();
    if (this.#inbox && this.#inbox.length > 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  meanwhile(look: "more" | "last"): readonly string[] {
    const taken = this.#inbox?.splice(0) ?? [];
    for (const { isRead } of taken) isRead(true);
    if (look === "last") this.#closeInbox();
    return taken.map(({ text }) => text);
  }

  deafen(): Promise<never> {
    this.#options.signal.removeEventListener("abort", this.#cancel);
    return never();
  }
}

/** A new one each time: what waits for it goes with it. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}
