/**
 * TurnRun: one turn of an agent, from its prompt to its result. Events are told one after the other, and none after the end. Every question
 * for permission is answered: by whoever was asked, or `cancelled` at a cancel and at the end.
 */
import type { Clock } from "../../util/clock.ts";
import { Allowance, type Uttered } from "../allowance.ts";
import type { PermissionOption, ToolState, TurnEvent, TurnOptions } from "../runtime.ts";
import type { ReplayFilter } from "./replay.ts";
import { type Question, type Said, sumOf, type Usage } from "./updates.ts";

export interface TurnRunOptions extends TurnOptions {
  readonly clock: Clock;
  readonly queuedNotice: string | undefined;
  readonly filter: ReplayFilter;
  /** It says more than can be kept; called once. What follows is not taken. */
  readonly onTooMuch: () => void;
}

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
  /** speaking: everything is told; answered: only the late words of its prompt are, and nothing is asked any more. */
  #state: "speaking" | "answered" | "cancelled" | "over" = "speaking";
  #isQueued = false;
  readonly #allowance = new Allowance();

  constructor(options: TurnRunOptions) {
    this.#options = options;
    this.fault = this.#fault.promise;
    this.fault.catch(() => undefined);
  }

  /** The agent has put the prompt into its queue: what it answers belongs to no turn. */
  get isQueued(): boolean {
    return this.#isQueued;
  }

  /** More was uttered than may be: the text is its beginning. */
  get exceeded(): Uttered | null {
    return this.#allowance.exceeded;
  }

  /** The agent has told something of its history in this turn. */
  get hasReplayed(): boolean {
    return this.#options.filter.hasDropped;
  }

  /** Settles when it was told. */
  async take(said: Said): Promise<void> {
    const { filter } = this.#options;
    if (!this.#isHeard) return;
    if ((said.type === "text" || said.type === "thought") && said.usage !== undefined)
      this.usage = sumOf(this.usage, said.usage);
    if (said.type === "echo") return this.#say(filter.echo(said.text));
    if (said.type === "text") return this.#say(filter.text(said.text));
    if (filter.isReplaying()) return;
    switch (said.type) {
      case "thought":
        this.isSilent = false;
        return said.text === "" || this.#isTooMuch("thought", said.text)
          ? undefined
          : this.#tell({ type: "thought", text: said.text });
      case "tool":
        this.isSilent = false;
        return this.#takeTool(said);
      case "plan":
        return this.#isTooMuch("thought", said.entries.map(({ text }) => text).join("")) ? undefined : this.#tell(said);
      default:
        return this.#tell(said);
    }
  }

  get #isHeard(): boolean {
    return this.#state === "speaking" || this.#state === "answered";
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

  asked(): void {
    if (this.#state === "answered") this.#state = "speaking";
  }

  /** The prompt was answered: what still comes are words that were late, and open questions are nobody's any more. */
  answered(): void {
    if (this.#state === "speaking") this.#state = "answered";
    this.#cancelQuestions();
  }

  /** What follows is not told any more; open questions are cancelled. */
  cancel(): void {
    if (this.#isHeard) this.#state = "cancelled";
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
    if (this.#isHeard) await this.#say(this.#options.filter.end());
    if (this.#held !== "" && !this.#isQueued && this.#isHeard) await this.#speak(this.#held);
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
    if (this.#isTooMuch("said", text)) return;
    this.text += text;
    return this.#tell({ type: "text", text });
  }

  #isTooMuch(uttered: Uttered, text: string): boolean {
    if (this.exceeded !== null) return true;
    const isAllowed = this.#allowance.take(uttered, text.length);
    if (!isAllowed) this.#options.onTooMuch();
    return !isAllowed;
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
    if (this.#isTooMuch("thought", known.title)) return;
    this.#tools.set(id, known);
    if (this.#tools.size > MOST_TOOLS) this.#tools.delete(this.#tools.keys().next().value!);
    await this.#tell({ type: "tool", id, title: known.title, state: known.state });
  }

  #tell(event: TurnEvent): Promise<void> {
    this.#tail = this.#tail.then(async () => {
      if (!this.#isHeard) return;
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
