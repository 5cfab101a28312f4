import type { Authority } from "../conversation/person.ts";
import { TertuliaError } from "../errors.ts";
import type { GatewayEvents } from "../events.ts";
import type { PermissionOption, TurnEvent } from "../runtime/runtime.ts";
import type { Turn } from "../store/store.ts";
import { WordStream } from "./agent-words.ts";

/** What a watcher of a turn sees; a late one is given the text so far first. */
export type LiveEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool"; readonly id: string; readonly title: string; readonly state: string }
  | {
      readonly type: "permission";
      readonly id: string;
      readonly title: string;
      readonly options: readonly PermissionOption[];
    }
  /** Nothing more comes of it: it is settled, here or by a reset. */
  | { readonly type: "end" };

export interface Watcher {
  onEvent(event: LiveEvent): void;
  /** Whether somebody behind it can answer a permission question. */
  readonly canAnswer: boolean;
}

/** Why a running turn is cancelled. */
export type StopReason =
  | { readonly kind: "stopped" | "superseded" | "shutdown" | "removed" }
  | { readonly kind: "timeout"; readonly limit: "idle" | "total"; readonly ms: number }
  /** The store ended the turn already (a reset): nothing more is written. */
  | { readonly kind: "lost" };

/** A running turn while it runs here: its watchers, its open questions, and the way to stop it. The store has the rest. */
export class LiveTurn {
  #turn: Turn;
  readonly #watchers = new Set<Watcher>();
  readonly #questions = new Map<string, Extract<TurnEvent, { type: "permission" }>>();
  readonly #abort = new AbortController();
  #stopReason: StopReason | null = null;
  #text = "";
  /** What the agent says goes through it before it is said here. */
  words = new WordStream();
  /** Whether words of it were shown to anybody; durable before it is true (T8). */
  shown = false;
  /** What was told of it when its prompt was written, for those who come later; null before that. */
  begun: GatewayEvents["turn:begun"] | null = null;
  /** Whether a tool may have run: durable before it is true. */
  hasEffects = false;

  constructor(turn: Turn) {
    this.#turn = turn;
  }

  get turn(): Turn {
    return this.#turn;
  }
  get signal(): AbortSignal {
    return this.#abort.signal;
  }
  get stopReason(): StopReason | null {
    return this.#stopReason;
  }
  get text(): string {
    return this.#text;
  }
  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }
  get canBeAsked(): boolean {
    return [...this.#watchers].some((watcher) => watcher.canAnswer);
  }
  /** Waits for permission do not count for the limits of a turn (T7). */
  get isAsking(): boolean {
    return this.#questions.size > 0;
  }

  /** The first reason holds. */
  stop(reason: StopReason): void {
    if (this.#stopReason !== null) return;
    this.#stopReason = reason;
    this.denyAll();
    this.#abort.abort();
  }

  watch(watcher: Watcher): () => void {
    this.#watchers.add(watcher);
    if (this.#text !== "") watcher.onEvent({ type: "text", text: this.#text });
    for (const question of this.#questions.values()) watcher.onEvent(question);
    return () => this.#watchers.delete(watcher);
  }

  say(text: string): void {
    this.#text += text;
    this.#tell({ type: "text", text });
  }

  /** Words that it takes in while it runs may leave it with less rights (T11). */
  runsWith(authority: Authority): void {
    this.#turn = { ...this.#turn, authority };
  }

  /** A second try begins from nothing. */
  restart(): void {
    this.#text = "";
    this.words = new WordStream();
  }

  tool(event: Extract<LiveEvent, { type: "tool" }>): void {
    this.#tell(event);
  }

  ask(question: Extract<TurnEvent, { type: "permission" }>): void {
    this.#questions.set(question.id, question);
    this.#tell({ type: "permission", id: question.id, title: question.title, options: question.options });
  }

  get questions(): readonly Pick<Extract<TurnEvent, { type: "permission" }>, "id" | "title" | "options">[] {
    return [...this.#questions.values()].map(({ id, title, options }) => ({ id, title, options }));
  }

  isOpen(id: string): boolean {
    return this.#questions.has(id);
  }

  /** Of a question that is not open any more there is nothing to deny. */
  deny(id: string): void {
    if (this.isOpen(id)) this.answer(id, null);
  }

  denyAll(): void {
    for (const id of [...this.#questions.keys()]) this.deny(id);
  }

  /** Answers an open question; null denies it. Throws `request_invalid` for one that is not open. */
  answer(id: string, optionId: string | null): void {
    const question = this.#questions.get(id);
    if (question === undefined) throw new TertuliaError("request_invalid", "This question is not open any more.");
    if (optionId !== null && !question.options.some((option) => option.id === optionId)) {
      throw new TertuliaError("request_invalid", `The question has no option ${JSON.stringify(optionId)}.`, {
        remedy: `Choose one of ${question.options.map((option) => option.id).join(", ")}.`,
      });
    }
    this.#questions.delete(id);
    question.answer(optionId);
  }

  /** Safe to repeat. */
  end(): void {
    this.#tell({ type: "end" });
    this.#watchers.clear();
  }

  #tell(event: LiveEvent): void {
    for (const watcher of [...this.#watchers]) watcher.onEvent(event);
  }
}
