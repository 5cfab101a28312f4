/**
 * TurnRun: one turn of an agent, from its prompt to its result. Events are told one after the other, and none after the end. Every question
 * for permission is answered: by whoever was asked, or `cancelled` at a cancel and at the end.
 */
import type { Clock } from "../../util/clock.ts";
import type { PermissionOption, ToolState, TurnEvent, TurnOptions } from "../runtime.ts";
import { type Question, type Said, sumOf, type Usage } from "./updates.ts";

export interface TurnRunOptions extends TurnOptions {
  readonly clock: Clock;
  readonly queuedNotice: string | undefined;
  /** It says more than can be kept; called once. What follows is not taken. */
  readonly onTooMuch: () => void;
}

/** Characters of one turn. */
export const MOST_TEXT = 4_000_000;

interface OpenQuestion {
  readonly options: readonly PermissionOption[];
  readonly answer: (optionId: string | null) => void;
}

/** More at once are cancelled unasked. */
const MOST_QUESTIONS = 16;
/** Tools whose title and state are remembered. */
const MOST_TOOLS = 1_000;
/** A tool that says no more than that it goes on is told of so often. */
const SIGN_MS = 10_000;

export class TurnRun {
  /** Exactly the text events. */
  text = "";
  /** No tool, no thought and no question so far. */
  isSilent = true;
  /** It was denied a permission. */
  wasDenied = false;
  usage: Usage | null = null;
  /** Rejects with what `onEvent` threw. */
  readonly fault: Promise<never>;
  readonly #fault = Promise.withResolvers<never>();
  readonly #options: TurnRunOptions;
  readonly #questions = new Map<string, OpenQuestion>();
  readonly #tools = new Map<string, { readonly title: string; readonly state: ToolState; readonly toldAt: number }>();
  #asked = 0;
  #tail: Promise<void> = Promise.resolve();
  /** Text at the very beginning that may become the notice of a queue. */
  #held = "";
  #state: "speaking" | "cancelled" | "over" = "speaking";
  #isQueued = false;
  #isTooMuch = false;

  constructor(options: TurnRunOptions) {
    this.#options = options;
    this.fault = this.#fault.promise;
    this.fault.catch(() => undefined);
  }

  /** The agent has put the prompt into its queue: what it answers belongs to no turn. */
  get isQueued(): boolean {
    return this.#isQueued;
  }

  /** More was said than can be kept: the text is its beginning. */
  get isTooMuch(): boolean {
    return this.#isTooMuch;
  }

  /** Settles when it was told. */
  async take(said: Said): Promise<void> {
    if (this.#state !== "speaking") return;
    switch (said.type) {
      case "text":
        if (said.usage !== undefined) this.usage = sumOf(this.usage, said.usage);
        return this.#say(said.text);
      case "thought":
        if (said.usage !== undefined) this.usage = sumOf(this.usage, said.usage);
        this.isSilent = false;
        return said.text === "" ? undefined : this.#tell({ type: "thought", text: said.text });
      case "tool":
        this.isSilent = false;
        return this.#takeTool(said);
      default:
        return this.#tell(said);
    }
  }

  /** Asks whoever watches. Null: cancelled. */
  async ask(question: Question, signal: AbortSignal): Promise<string | null> {
    const { options } = question;
    if (this.#state !== "speaking" || signal.aborted || this.#questions.size >= MOST_QUESTIONS) return null;
    this.isSilent = false;
    const id = `permission-${++this.#asked}`;
    const answered = Promise.withResolvers<string | null>();
    const answer = (optionId: string | null): void => {
      this.#questions.delete(id);
      answered.resolve(optionId);
    };
    const withdraw = (): void => answer(null);
    this.#questions.set(id, { options, answer });
    signal.addEventListener("abort", withdraw, { once: true });
    const title = question.title ?? this.#tools.get(question.toolCallId)?.title ?? "The agent asks for a permission.";
    const decide = (optionId: string | null): void => void this.#decide(id, optionId);
    void this.#tell({ type: "permission", id, title, options, answer: decide, closed: signal });
    try {
      return await answered.promise;
    } finally {
      signal.removeEventListener("abort", withdraw);
    }
  }

  /** What follows is not told any more; open questions are cancelled. */
  cancel(): void {
    if (this.#state === "speaking") this.#state = "cancelled";
    this.#cancelQuestions();
  }

  /** Text of ours below the agent's. */
  add(text: string): Promise<void> {
    this.text += text;
    return this.#tell({ type: "text", text });
  }

  /** Settles when all was told. Nothing is afterwards. */
  async end(): Promise<void> {
    this.#cancelQuestions();
    if (this.#held !== "" && !this.#isQueued && this.#state === "speaking") await this.#speak(this.#held);
    this.#held = "";
    await this.#tail;
  }

  /** Safe to repeat. */
  close(): void {
    this.#state = "over";
    this.#cancelQuestions();
  }

  /** Null denies. It is looked at a moment later: a stop denies first, and cancels in the same breath. */
  async #decide(id: string, optionId: string | null): Promise<void> {
    await Promise.resolve();
    const question = this.#questions.get(id);
    if (question === undefined) return;
    const { options, answer } = question;
    const chosen = options.find((option) => option.id === optionId);
    if (chosen !== undefined) {
      if (chosen.kind.startsWith("reject")) this.wasDenied = true;
      answer(chosen.id);
      return;
    }
    this.wasDenied = true;
    if (this.#options.signal.aborted) return answer(null);
    const rejection =
      options.find(({ kind }) => kind === "reject_once") ?? options.find(({ kind }) => kind === "reject_always");
    answer(rejection?.id ?? null);
  }

  #cancelQuestions(): void {
    for (const { answer } of [...this.#questions.values()]) answer(null);
  }

  async #say(text: string): Promise<void> {
    const { queuedNotice } = this.#options;
    if (text === "" || this.#isQueued) return;
    if (queuedNotice === undefined || this.text !== "") return this.#speak(text);
    this.#held += text;
    this.#isQueued = this.#held.startsWith(queuedNotice);
    if (this.#isQueued || queuedNotice.startsWith(this.#held)) return;
    const held = this.#held;
    this.#held = "";
    return this.#speak(held);
  }

  async #speak(text: string): Promise<void> {
    if (this.#isTooMuch) return;
    if (this.text.length + text.length > MOST_TEXT) {
      this.#isTooMuch = true;
      return this.#options.onTooMuch();
    }
    this.text += text;
    return this.#tell({ type: "text", text });
  }

  async #takeTool({ id, title, state }: Extract<Said, { type: "tool" }>): Promise<void> {
    const now = this.#options.clock.now();
    const before = this.#tools.get(id);
    const known = {
      title: title ?? before?.title ?? "a tool",
      state: state ?? before?.state ?? "running",
      toldAt: now,
    };
    const isNews = before === undefined || before.title !== known.title || before.state !== known.state;
    if (!isNews && Math.abs(now - before.toldAt) < SIGN_MS) return;
    this.#tools.set(id, known);
    if (this.#tools.size > MOST_TOOLS) this.#tools.delete(this.#tools.keys().next().value!);
    await this.#tell({ type: "tool", id, title: known.title, state: known.state });
  }

  #tell(event: TurnEvent): Promise<void> {
    this.#tail = this.#tail.then(async () => {
      if (this.#state !== "speaking") return;
      try {
        await this.#options.onEvent(event);
      } catch (cause) {
        this.#state = "over";
        this.#fault.reject(cause);
      }
    });
    return this.#tail;
  }
}
