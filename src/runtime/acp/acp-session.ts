/**
 * AcpSession: one session of an agent, in a process of its own. idle → listening, until nothing of an earlier turn still comes → running →
 * idle; all → over, which is the end of the process as well: a session whose agent cannot be trusted to have ended its turn is not spoken
 * to again.
 */

import type { Clock } from "../../util/clock.ts";
import { tooMuch } from "../allowance.ts";
import { primerBlock, promptOf } from "../prompt.ts";
import type {
  AgentSession,
  OpenedHow,
  Primer,
  RuntimeFailure,
  TurnInput,
  TurnOptions,
  TurnResult,
} from "../runtime.ts";
import type { AgentConnection } from "./agent-connection.ts";
import { AgentGone, failureOf } from "./failures.ts";
import type { Inbox } from "./inbox.ts";
import type { AcpAgent } from "./presets.ts";
import { ReplayFilter } from "./replay.ts";
import { TurnRun } from "./turn-run.ts";
import { type Answered, readAnswer } from "./updates.ts";

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
  /** It replayed its history into a turn: the agent is not to go on with a session in this way any more. */
  readonly onLateReplay: () => void;
  /** So many words came outside of a turn since the last one: told at the first of them, and when that is over. */
  readonly onStrays: (count: number) => void;
}

type SessionState =
  | { readonly name: "idle" | "listening" }
  | { readonly name: "running"; readonly run: TurnRun }
  | { readonly name: "over"; readonly failure: RuntimeFailure };

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
  /** Words outside of a turn, since the last one. */
  #strays = 0;
  /** From here on no word of an earlier turn is expected. */
  #calmAt: number;

  constructor(options: AcpSessionOptions) {
    this.#options = options;
    this.how = options.how;
    this.#ref = options.ref;
    this.#front = options.front;
    this.#calmAt = options.clock.now();
    options.inbox.connect({
      sessionId: options.ref.id,
      run: () => (this.#state.name === "running" ? this.#state.run : null),
      onStray: () => this.#onStray(),
    });
    void options.connection.gone.then((failure) => this.#over(failure));
  }

  get ref(): string {
    return JSON.stringify(this.#ref);
  }

  async memory(): Promise<number | undefined> {
    return this.#options.connection.process.memory();
  }

  async turn(input: TurnInput, options: TurnOptions): Promise<TurnResult> {
    const { agent } = this.#options;
    if (this.#state.name === "running" || this.#state.name === "listening")
      throw new Error(`${agent.title} already runs a turn of this session.`);
    if (this.#state.name === "idle" && !options.signal.aborted) await this.#listen(options.signal);
    if (this.#state.name === "over") return { outcome: "failed", text: "", failure: this.#state.failure };
    if (options.signal.aborted) return { outcome: "cancelled", text: "" };

    const sendCancel = (): void =>
      this.#options.connection.notify("session/cancel", { sessionId: this.#options.ref.id });
    const prompt = blocksOf(this.#takeFront(), input);
    const run = this.#createRun(prompt, options, sendCancel);
    this.#state = { name: "running", run };
    const cancel = (): void => {
      // First the cancel: an answer alone would let it go on.
      sendCancel();
      run.cancel();
    };
    options.signal.addEventListener("abort", cancel, { once: true });
    try {
      const result = await this.#converse(run, prompt, options.signal);
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
      this.#calmAt = this.#options.clock.now() + (agent.quietTimeMs === 0 ? 0 : BETWEEN_PROMPTS_MS);
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

  /** Until nothing of an earlier turn is expected any more: what came then would be taken for the answer. */
  async #listen(signal: AbortSignal): Promise<void> {
    const { agent, clock, inbox } = this.#options;
    const leftMs = (): number => Math.min(this.#calmAt - clock.now(), BETWEEN_PROMPTS_MS);
    if (leftMs() > 0) {
      this.#state = { name: "listening" };
      const isQuiet = await inbox.quiet({ quietMs: leftMs, mostMs: MOST_TALK_MS }, signal);
      if (this.#state.name !== "listening") return;
      this.#state = { name: "idle" };
      if (!isQuiet && !signal.aborted) {
        const message = `${agent.title} went on talking although nothing was asked, and was stopped. Ask again: it is started anew.`;
        this.#retire({ kind: "protocol", message });
      }
    }
    this.#endStrays();
  }

  #onStray(): void {
    const { agent, clock, onStrays } = this.#options;
    this.#strays++;
    this.#calmAt = Math.max(this.#calmAt, clock.now() + agent.quietTimeMs);
    if (this.#strays === 1) onStrays(1);
  }

  #endStrays(): void {
    if (this.#strays > 1) this.#options.onStrays(this.#strays);
    this.#strays = 0;
  }

  #createRun(prompt: readonly TextBlock[], options: TurnOptions, onTooMuch: () => void): TurnRun {
    const { agent, clock, inbox } = this.#options;
    const texts = prompt.map(({ text }) => text);
    const { known, isSeen, isWhole } = inbox.replay;
    const filter = new ReplayFilter({
      known,
      prompts: [texts.join(""), ...texts],
      isExpected: this.#turns === 0 && !isWhole && (this.how === "loaded" || (this.how === "resumed" && isSeen)),
    });
    return new TurnRun({ ...options, clock, queuedNotice: agent.quirks.queuedNotice, filter, onTooMuch });
  }

  /** Rejects only with what `onEvent` threw. */
  async #converse(run: TurnRun, prompt: readonly TextBlock[], signal: AbortSignal): Promise<TurnResult> {
    const { agent, connection, ref } = this.#options;
    const ask = (): Promise<unknown> =>
      Promise.race([connection.request("session/prompt", { sessionId: ref.id, prompt }), run.fault]);
    const hear = async (): Promise<Answered> => {
      run.asked();
      const answer = readAnswer(await ask());
      run.answered();
      await Promise.race([this.#hearLate(signal), run.fault]);
      return answer;
    };
    let answer: Answered;
    try {
      answer = await hear();
      const isSwallowed = agent.quirks.emptyAfterCancel && this.#wasCancelled && isNothing(run, answer);
      if (isSwallowed && !signal.aborted) answer = await hear();
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

  /** B11: words of the prompt that come after its answer. */
  async #hearLate(signal: AbortSignal): Promise<void> {
    const { agent, connection, inbox } = this.#options;
    if (agent.quietTimeMs === 0) return;
    const quiet = inbox.quiet({ quietMs: () => agent.quietTimeMs, mostMs: MOST_LATE_MS }, signal);
    await connection.whileConnected(quiet.then(() => undefined));
  }

  async #resultOf(run: TurnRun, { stopReason }: Answered, signal: AbortSignal): Promise<TurnResult> {
    const { agent } = this.#options;
    if (signal.aborted) return { outcome: "cancelled", text: run.text };
    if (run.exceeded !== null)
      return { outcome: "failed", text: run.text, failure: tooMuch(agent.title, run.exceeded) };
    if (run.hasReplayed) this.#options.onLateReplay();
    if (run.isQueued) {
      const failure = {
        kind: "protocol",
        message: `${agent.title} was still busy with an earlier turn. Ask again.`,
      } as const;
      this.#retire(failure);
      return { outcome: "failed", text: "", failure };
    }
    const isEmpty = run.text.trim() === "";
    // One that calls its turn cancelled although nobody cancelled it has answered all the same, if it has said something.
    if (stopReason === "cancelled" && isEmpty && !run.wasDenied) return { outcome: "cancelled", text: "" };
    if (isEmpty && run.hasReplayed) {
      this.#ref = { ...this.#ref, id: null };
      const message = `${agent.title} repeated its history in place of an answer. Ask again: it goes on from the transcript.`;
      return this.#failed(run, { kind: "protocol", message }, null);
    }
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
    this.#endStrays();
    const listeners = [...this.#deathListeners];
    this.#deathListeners.clear();
    for (const listener of listeners) listener(failure);
  }
}

/** Late words are waited for so long in all. */
const MOST_LATE_MS = 500;
/** Of an agent whose words can be late: from an answer to the next prompt. */
const BETWEEN_PROMPTS_MS = 1_000;
/** An agent that never falls silent between two turns is not asked. */
const MOST_TALK_MS = 3_000;
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
