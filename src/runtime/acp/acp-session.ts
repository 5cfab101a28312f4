/**
 * AcpSession: one session of an agent, in a process of its own. idle ⇄ running; both → over, which is the end of the process as well: a
 * session whose agent cannot be trusted to have ended its turn is not spoken to again.
 */
import { primerBlock, promptOf } from "../../context/prompt.ts";
import type { Clock } from "../../util/clock.ts";
import type {
  AgentSession,
  OpenedHow,
  Primer,
  RuntimeFailure,
  TurnInput,
  TurnOptions,
  TurnResult,
} from "../runtime.ts";
import type { AgentConnection, AgentListener } from "./agent-connection.ts";
import { AgentGone, failureOf } from "./failures.ts";
import type { AcpAgent } from "./presets.ts";
import { MOST_TEXT, TurnRun } from "./turn-run.ts";
import { type Answered, type Question, readAnswer, readSaid, readUpdate } from "./updates.ts";

/** Below a reply that a limit of the agent's ended; it is part of what was said. */
const CUTS: Readonly<Record<string, string>> = {
  max_tokens: "[cut: the agent reached its limit of output]",
  max_turn_requests: "[cut: the agent reached its limit of steps]",
};

/** Stands before words that would be a command of the agent's own. */
const LEAD = "The message:";
/** As agents see it that take away what shows nothing. */
const SLASH = /^[\s\p{C}\p{Z}]*\//u;

/** What a session is opened again by. */
export interface AcpRef {
  /** The agent's own; null when it has lost it. */
  readonly id: string | null;
  /** Whose id that is. */
  readonly command: string;
  readonly folder: string;
}

export interface AcpSessionOptions {
  readonly agent: AcpAgent;
  readonly connection: AgentConnection;
  readonly inbox: Inbox;
  readonly clock: Clock;
  readonly ref: AcpRef & { readonly id: string };
  readonly how: OpenedHow;
  /** Stands before the first prompt. */
  readonly front: string;
}

type SessionState =
  | { readonly name: "idle" }
  | { readonly name: "running"; readonly run: TurnRun }
  | { readonly name: "over"; readonly failure: RuntimeFailure };

/** Where what an agent says goes, from its start on: to nobody until there is a session, and then only what is of it. */
export class Inbox implements AgentListener {
  /** Counts what came while nobody listened. */
  dropped = 0;
  #onDropped = (): void => undefined;
  #to: { readonly sessionId: string; readonly run: () => TurnRun | null } | null = null;

  connect(sessionId: string, run: () => TurnRun | null): void {
    this.#to = { sessionId, run };
  }

  async onUpdate(params: unknown): Promise<void> {
    const read = readUpdate(params);
    if (read === null) return;
    const run = this.#to !== null && read.sessionId === this.#to.sessionId ? this.#to.run() : null;
    if (run === null) {
      this.dropped++;
      this.#onDropped();
      return;
    }
    const said = readSaid(read.update);
    if (said !== null) await run.take(said);
  }

  async onQuestion(question: Question, signal: AbortSignal): Promise<string | null> {
    const isOurs = this.#to !== null && question.sessionId === this.#to.sessionId;
    return (isOurs ? this.#to?.run()?.ask(question, signal) : null) ?? null;
  }

  /** Until nothing has come for `quietMs`, at most `mostMs`, or the signal aborts. */
  async quiet(
    clock: Clock,
    limits: { readonly quietMs: number; readonly mostMs: number },
    signal: AbortSignal,
  ): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancelMost = clock.after(limits.mostMs, resolve);
    let cancel = clock.after(limits.quietMs, resolve);
    this.#onDropped = () => {
      cancel();
      cancel = clock.after(limits.quietMs, resolve);
    };
    const stop = (): void => resolve();
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    await promise;
    signal.removeEventListener("abort", stop);
    this.#onDropped = () => undefined;
    cancel();
    cancelMost();
  }
}

export class AcpSession implements AgentSession {
  readonly how: OpenedHow;
  readonly #options: AcpSessionOptions;
  readonly #deathListeners = new Set<(failure: RuntimeFailure) => void>();
  #state: SessionState = { name: "idle" };
  #ref: AcpRef;
  #front: string;
  /** Of the handle, in all. */
  #turns = 0;
  #wasCancelled = false;

  constructor(options: AcpSessionOptions) {
    this.#options = options;
    this.how = options.how;
    this.#ref = options.ref;
    this.#front = options.front;
    options.inbox.connect(options.ref.id, () => (this.#state.name === "running" ? this.#state.run : null));
    void options.connection.gone.then((failure) => this.#over(failure));
  }

  get ref(): string {
    return JSON.stringify(this.#ref);
  }

  async memory(): Promise<number | undefined> {
    return this.#options.connection.process.memory();
  }

  async turn(input: TurnInput, options: TurnOptions): Promise<TurnResult> {
    const { agent, clock } = this.#options;
    if (this.#state.name === "running") throw new Error(`${agent.title} already runs a turn of this session.`);
    if (this.#state.name === "over") return { outcome: "failed", text: "", failure: this.#state.failure };
    if (options.signal.aborted) return { outcome: "cancelled", text: "" };

    const sendCancel = (): void =>
      this.#options.connection.notify("session/cancel", { sessionId: this.#options.ref.id });
    const { queuedNotice } = agent.quirks;
    const run = new TurnRun({ ...options, clock, queuedNotice, onTooMuch: sendCancel });
    this.#state = { name: "running", run };
    const cancel = (): void => {
      // First the cancel: an answer alone would let it go on.
      sendCancel();
      run.cancel();
    };
    options.signal.addEventListener("abort", cancel, { once: true });
    try {
      const result = await this.#converse(run, blocksOf(this.#takeFront(), input), options.signal);
      this.#wasCancelled = result.outcome === "cancelled";
      return result;
    } catch (cause) {
      // `onEvent` threw, and the agent goes on with a prompt that is nobody's.
      this.#over({ kind: "protocol", message: `${agent.title} was stopped in the middle of a turn.` });
      void this.#options.connection.stop({ hasty: true });
      throw cause;
    } finally {
      options.signal.removeEventListener("abort", cancel);
      run.close();
      this.#turns++;
      if (this.#state.name === "running") this.#state = { name: "idle" };
    }
  }

  async park(): Promise<void> {
    const { connection, agent, ref } = this.#options;
    const before = this.#state;
    this.#deathListeners.clear();
    this.#over({ kind: "process-died", message: `${agent.title} was parked. Ask again.` });
    if (before.name === "idle" && connection.capabilities.sessionCapabilities?.close != null) {
      await connection.ask("session/close", { sessionId: ref.id }, CLOSE_MS).catch(() => undefined);
    }
    await connection.stop({ hasty: before.name === "running" });
  }

  onDead(listener: (failure: RuntimeFailure) => void): () => void {
    this.#deathListeners.add(listener);
    return () => this.#deathListeners.delete(listener);
  }

  /** Rejects only with what `onEvent` threw. */
  async #converse(run: TurnRun, prompt: readonly TextBlock[], signal: AbortSignal): Promise<TurnResult> {
    const { agent, connection, ref } = this.#options;
    const ask = (): Promise<unknown> =>
      Promise.race([connection.request("session/prompt", { sessionId: ref.id, prompt }), run.fault]);
    let answer: Answered;
    try {
      answer = readAnswer(await ask());
      const isSwallowed = agent.quirks.emptyAfterCancel && this.#wasCancelled && isNothing(run, answer);
      if (isSwallowed && !signal.aborted) answer = readAnswer(await ask());
      await connection.whileConnected(Promise.race([run.end(), run.fault]));
    } catch (cause) {
      await connection.whileConnected(Promise.race([run.end(), run.fault]));
      if (signal.aborted) return { outcome: "cancelled", text: run.text };
      return this.#failed(run, failureOf(cause, agent), cause);
    }
    const usage = answer.usage ?? run.usage;
    const result = await this.#resultOf(run, answer, signal);
    return usage === null ? result : { ...result, usage };
  }

  async #resultOf(run: TurnRun, { stopReason }: Answered, signal: AbortSignal): Promise<TurnResult> {
    const { agent } = this.#options;
    if (signal.aborted) return { outcome: "cancelled", text: run.text };
    if (run.isTooMuch) {
      const message = `${agent.title} said more than ${MOST_TEXT.toLocaleString("en")} characters and was stopped.`;
      return { outcome: "failed", text: run.text, failure: { kind: "truncated", message } };
    }
    if (stopReason === "cancelled") return { outcome: "cancelled", text: run.text };
    if (run.isQueued) {
      const failure = {
        kind: "protocol",
        message: `${agent.title} was still busy with an earlier turn. Ask again.`,
      } as const;
      this.#retire(failure);
      return { outcome: "failed", text: "", failure };
    }
    const isEmpty = run.text.trim() === "";
    const cut = CUTS[stopReason];
    if (stopReason === "refusal") return this.#refused(run);
    if (cut !== undefined && isEmpty) {
      const message = `${agent.title} reached a limit of its own (${stopReason}) before it said a word. Ask for less at once.`;
      return { outcome: "failed", text: run.text, failure: { kind: "truncated", message } };
    }
    if (cut !== undefined) await Promise.race([run.add(`\n\n${cut}`), run.fault]);
    if (isEmpty && run.wasDenied) {
      const message = `${agent.title} ended its turn without a word when it was denied a permission.`;
      return { outcome: "failed", text: run.text, failure: { kind: "refused", message } };
    }
    if (isEmpty && stopReason !== "end_turn") {
      const message = `${agent.title} ended its turn for a reason that is not known (${stopReason.slice(0, 60) || "none"}).`;
      return { outcome: "failed", text: run.text, failure: { kind: "protocol", message } };
    }
    return { outcome: "done", text: run.text };
  }

  #refused(run: TurnRun): TurnResult {
    const { agent } = this.#options;
    const isFirst = this.#turns === 0 && (this.how === "resumed" || this.how === "loaded");
    if (agent.quirks.resumeMayLie && isFirst && run.text === "" && run.isSilent) {
      // It said that it went on with the session, and does not have it.
      this.#ref = { ...this.#ref, id: null };
      const message = `${agent.title} has lost this session. Ask again: it goes on from the transcript.`;
      return this.#failed(run, { kind: "session-gone", message }, null);
    }
    const message = `${agent.title} refuses to go on. Ask in other words, or begin anew with /new.`;
    return { outcome: "failed", text: run.text, failure: { kind: "refused", message } };
  }

  /** What can be repaired only by opening the session anew ends the process, so that this is what happens. */
  #failed(run: TurnRun, failure: RuntimeFailure, cause: unknown): TurnResult {
    // Resumed it would be too long again: the next one begins with the last part of the transcript.
    if (failure.kind === "overflow") this.#ref = { ...this.#ref, id: null };
    const isPoisoned = failure.kind === "overflow" || failure.kind === "session-gone" || failure.kind === "protocol";
    if (isPoisoned && !(cause instanceof AgentGone)) this.#retire(failure);
    return { outcome: "failed", text: run.text, failure };
  }

  #takeFront(): string {
    const front = this.#front;
    this.#front = "";
    return front;
  }

  #retire(failure: RuntimeFailure): void {
    this.#over(failure);
    void this.#options.connection.stop();
  }

  #over(failure: RuntimeFailure): void {
    if (this.#state.name === "over") return;
    this.#state = { name: "over", failure };
    const listeners = [...this.#deathListeners];
    this.#deathListeners.clear();
    for (const listener of listeners) listener(failure);
  }
}

/** A close that is not answered is no reason to wait. */
const CLOSE_MS = 1_000;

interface TextBlock {
  readonly type: "text";
  readonly text: string;
}

/** What an agent that begins a session is told before its first prompt. */
export function frontOf(stablePart: string | null, primer: Primer): string {
  return [stablePart ?? "", primerBlock(boundedPrimer(primer))].filter((part) => part !== "").join("\n\n");
}

/** The facts, then the words. No block begins with a slash: to many agents that is a command of their own. */
function blocksOf(front: string, { facts, missed, text }: TurnInput): readonly TextBlock[] {
  const before = [front, promptOf({ facts, missed, text: "" })].filter((part) => part !== "").join("\n\n");
  const led = SLASH.test(before) ? `${LEAD}\n\n${before}` : before;
  if (SLASH.test(text)) return [{ type: "text", text: `${led === "" ? LEAD : led}\n\n${text}` }];
  return [...(led === "" ? [] : [{ type: "text", text: led } as const]), { type: "text", text }];
}

const PRIMER_LINES = 40;
const PRIMER_CHARACTERS = 12_000;

function boundedPrimer({ total, lines }: Primer): Primer {
  let characters = 0;
  const last = lines.slice(-PRIMER_LINES);
  const from = last.findLastIndex((line) => {
    characters += line.text.length;
    return characters > PRIMER_CHARACTERS;
  });
  return { total, lines: last.slice(from + 1) };
}

/** Neither a word nor a tool nor a token. */
function isNothing(run: TurnRun, { stopReason, usage }: Answered): boolean {
  return stopReason === "end_turn" && run.text === "" && run.isSilent && (usage?.output ?? 0) === 0;
}
