import type { Authority } from "../conversation/person.ts";
import type { GatewayEvents } from "../events.ts";
import type { PermissionOption } from "../runtime/runtime.ts";
import type { DeliveryRow } from "../store/rows.ts";
import type { Turn, TurnMark } from "../store/turns.ts";
import type { GatewayParts } from "./parts.ts";
import { OpenQuestions, type PermissionQuestion } from "./permission.ts";

/** An event of a running turn. A watcher that comes late gets the text so far first. */
export type LiveEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool"; readonly id: string; readonly title: string; readonly state: string }
  | {
      readonly type: "permission";
      readonly id: string;
      readonly title: string;
      readonly options: readonly PermissionOption[];
    }
  /** The turn is settled, by its run or by a reset. It is the last event. */
  | { readonly type: "end" };

export interface Watcher {
  onEvent(event: LiveEvent): void;
  /** Whether a person behind it can answer a permission question. */
  readonly canAnswer: boolean;
}

/** Why a running turn is cancelled. */
export type StopReason =
  | { readonly kind: "stopped" | "superseded" | "shutdown" | "removed" }
  | { readonly kind: "timeout"; readonly limit: "idle" | "total"; readonly ms: number }
  /** The store ended the turn already (a reset): nothing more is written. */
  | { readonly kind: "lost" };

export interface LiveTurnOptions extends Pick<GatewayParts, "store" | "clock" | "claim"> {
  /** Delivery rows were written while a turn runs. */
  readonly onDeliveries: (deliveries: readonly DeliveryRow[]) => void;
}

/** LiveTurn: a turn while it runs in this process, with its watchers, its open questions, and the way to stop it. */
export class LiveTurn {
  readonly questions = new OpenQuestions();
  readonly #options: LiveTurnOptions;
  readonly #watchers = new Set<Watcher>();
  readonly #abort = new AbortController();
  #turn: Turn;
  #stopReason: StopReason | null = null;
  #text = "";
  /** Whether any of its text was shown to anybody; durable before it is true (T8). */
  #shown = false;
  /** Whether a tool may have run; durable before the tool runs. */
  hasEffects = false;
  /** The payload of `turn:begun`, for those who come later; null before that. */
  begun: GatewayEvents["turn:begun"] | null = null;
  /** Hands a waiting message to the agent (T5); null while the agent cannot be handed one. */
  steer: ((messageId: number) => void) | null = null;

  constructor(turn: Turn, options: LiveTurnOptions) {
    this.#turn = turn;
    this.#options = options;
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
  get shown(): boolean {
    return this.#shown;
  }
  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }
  get canBeAsked(): boolean {
    return [...this.#watchers].some((watcher) => watcher.canAnswer);
  }

  /** Cancels the turn. The first reason holds. */
  stop(reason: StopReason): void {
    if (this.#stopReason !== null) return;
    this.#stopReason = reason;
    this.questions.denyAll();
    this.#abort.abort();
  }

  watch(watcher: Watcher): () => void {
    this.#watchers.add(watcher);
    if (this.#text !== "") watcher.onEvent({ type: "text", text: this.#text });
    for (const question of this.questions.all) watcher.onEvent(question);
    return () => this.#watchers.delete(watcher);
  }

  /** Makes a change of the running turn durable. False if a reset has ended the turn meanwhile: then it is stopped as `lost`. */
  async mark(change: Omit<TurnMark, "turnId" | "attempt" | "now">): Promise<boolean> {
    const { store, clock, claim, onDeliveries } = this.#options;
    const { id: turnId, attempt } = this.#turn;
    const marked = await store.mark({ turnId, attempt, now: clock.now(), ...change }, claim());
    if (marked.kind === "not_running") {
      this.stop({ kind: "lost" });
      return false;
    }
    if (marked.deliveries.length > 0) onDeliveries(marked.deliveries);
    return true;
  }

  /** Makes durable that `text` is shown to somebody (T8). Must be awaited before it is shown. */
  async markShown(text = this.#text): Promise<void> {
    if (await this.mark({ effects: "shown", ...(text === "" ? {} : { partial: text }) })) this.#shown = true;
  }

  say(text: string): void {
    this.#text += text;
    this.#emit({ type: "text", text });
  }

  tool(event: Extract<LiveEvent, { type: "tool" }>): void {
    this.#emit(event);
  }

  ask(question: PermissionQuestion): void {
    this.questions.add(question);
    this.#emit({ type: "permission", id: question.id, title: question.title, options: question.options });
  }

  /** A message that the turn takes in while it runs may leave it with fewer rights (T11). */
  runsWith(authority: Authority): void {
    this.#turn = { ...this.#turn, authority };
  }

  /** Forgets the first attempt's text: the second one begins anew. */
  restart(): void {
    this.#text = "";
  }

  /** Tells the watchers that nothing more comes. Safe to repeat. */
  end(): void {
    this.#emit({ type: "end" });
    this.#watchers.clear();
  }

  #emit(event: LiveEvent): void {
    for (const watcher of [...this.#watchers]) watcher.onEvent(event);
  }
}
