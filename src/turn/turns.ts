import type { Person } from "../conversation/person.ts";
import { TertuliaError } from "../errors.ts";
import { type GatewayEvents, withoutPrompt } from "../events.ts";
import type { OpenedHow } from "../runtime/runtime.ts";
import type { TurnAnswer } from "../store/readers.ts";
import type { Recovery, Settled, Turn, TurnSignal } from "../store/turns.ts";
import { deliveryText } from "../text/render-notice.ts";
import { logFault } from "../util/log.ts";
import type { OpenQuestion } from "./command/command.ts";
import type { StopReason, Watcher } from "./live-turn.ts";
import type { GatewayParts } from "./parts.ts";
import { mayAnswer } from "./permission.ts";
import { restartAgent } from "./restart.ts";
import { TurnAnswers } from "./turn-answers.ts";
import { TurnQueue } from "./turn-queue.ts";
import type { TurnRunOptions } from "./turn-run.ts";
import { TurnRunner } from "./turn-runner.ts";

/** `Turns` learns from the pool's `runtime:state` events that a place may be free. */
interface TurnsOptions extends Omit<TurnRunOptions, keyof GatewayParts | "answers"> {
  /** After the commit that ended a turn: wakes the sessions in `wake` and sends the deliveries. `Turns` does the rest. */
  readonly onSettled: (settled: Settled) => void;
}

/** Turns: every turn of this gateway from its place in the queue to its settlement, and whoever waits for it or watches it. */
export class Turns {
  readonly #parts: GatewayParts;
  readonly #onSettled: (settled: Settled) => void;
  readonly #answers: TurnAnswers;
  readonly #run: TurnRunOptions;
  readonly #runner: TurnRunner;
  readonly #queue: TurnQueue;

  constructor(parts: GatewayParts, options: TurnsOptions) {
    const { pool, onSettled } = options;
    this.#parts = parts;
    this.#onSettled = onSettled;
    this.#answers = new TurnAnswers(parts.store);
    this.#run = { ...parts, ...options, answers: this.#answers };
    this.#runner = new TurnRunner({ ...this.#run, onSettled: (settled) => this.#settled(settled) });
    this.#queue = new TurnQueue({
      ...parts,
      run: (turn, asked) => this.#runner.run(turn, asked),
      room: () => pool.room,
      onRecovery: (recovery) => this.#recovered(recovery),
      onFault: (error) => logFault(parts.log, error),
    });
    parts.events.on("runtime:state", () => this.#queue.freed());
  }

  get running(): number {
    return this.#runner.running;
  }
  /** The running turns, as `turn:begun` announced them. */
  get begun(): readonly GatewayEvents["turn:begun"][] {
    return this.#runner.begun;
  }

  /** There is work in this session. Safe to repeat. */
  wake(sessionId: string): void {
    this.#queue.wake(sessionId);
  }

  /** Whether a turn that is admitted now may begin at once; `coming` others may do so before it (B4). */
  hasRoom(coming: number): boolean {
    return this.#queue.hasRoom(coming);
  }

  /** Runs a turn that `admit` began in its own transaction. */
  run(turn: Turn): void {
    this.#queue.start(turn);
  }

  /** A signal for a turn that does not run any more changes nothing. */
  signal(signal: TurnSignal): void {
    const { turnId } = signal;
    const live = this.#runner.live(turnId);
    if (signal.kind === "steer") live?.steer?.(signal.messageId);
    else if (signal.kind === "answer") live?.questions.answerIfOpen(signal.id, signal.optionId);
    else this.#runner.stop(turnId, { kind: signal.kind === "stop" ? "stopped" : "superseded" });
  }

  /** The store has ended a turn outside its run: a reset, a withdrawal. */
  ended(settled: Settled): void {
    this.#runner.stop(settled.turn.id, { kind: "lost" });
    this.#settled(settled);
  }

  stopTurn(turnId: number, why: StopReason): void {
    this.#runner.stop(turnId, why);
  }

  /** Stops the running turns whose authors are not let in any more (A3). */
  stopUnwelcome(): Promise<void> {
    return this.#runner.stopUnwelcome();
  }

  /** Nothing new begins. Running turns get the grace of a stop, then they are interrupted; resolves when all have ended. */
  async stop(): Promise<void> {
    this.#runner.stopAll();
    await this.#queue.stop();
  }

  /** Resolves with the turn's answer when it has ended. */
  answerOf(turnId: number): Promise<TurnAnswer> {
    return this.#answers.of(turnId);
  }

  /** Shows the watcher a turn's words, from its first on, also when it has not begun yet. Returns the way to stop watching. */
  watch(turnId: number, watcher: Watcher): () => void {
    return this.#runner.watchers.watch(turnId, watcher);
  }

  /** The open permission questions in a conversation's running turns, the oldest first. */
  questionsOf(conversationId: number): readonly OpenQuestion[] {
    return this.#runner.questionsOf(conversationId);
  }

  /** Answers an open permission question; only the turn's own person or the owner may (H12). Throws `request_invalid`, `forbidden`. */
  answerPermission(request: { person: Person; turnId: number; id: string; optionId: string | null }): void {
    const live = this.#runner.live(request.turnId);
    if (live === undefined) throw new TertuliaError("request_invalid", "This turn does not run any more.");
    if (!mayAnswer(request.person, live.turn))
      throw new TertuliaError("forbidden", "This question is for somebody else.");
    live.questions.answer(request.id, request.optionId);
  }

  /** Ends the session's agent and opens it anew, as `restartAgent`. */
  restart(sessionId: string): Promise<{ how: OpenedHow | null }> {
    return restartAgent(sessionId, () => this.#runner.runsIn(sessionId), this.#run);
  }

  #recovered(recovery: Recovery): void {
    const turn = recovery.kind === "rerun" ? recovery.turnId : recovery.turn.id;
    this.#parts.log.info({ turn }, `a turn of an earlier run: ${recovery.kind}`);
    if (recovery.kind === "interrupted") this.#settled(recovery);
  }

  #settled(settled: Settled): void {
    const { events, log } = this.#parts;
    events.step({ kind: "settled", turn: settled.turn, deliveries: settled.deliveries });
    this.#onSettled(settled);
    this.#answers.settled(settled);
    if (events.isHeard) this.#announce(settled).catch((cause) => logFault(log, cause));
  }

  async #announce({ turn, text, deliveries, messageIds }: Settled): Promise<void> {
    const { store, events } = this.#parts;
    const conversation = await store.conversationById(turn.conversationId);
    const session = await store.session(turn.sessionId);
    if (conversation === null || session === null) return;
    const at = { conversationId: conversation.id, conversationKey: conversation.key };
    events.emit("turn:settled", {
      turn: withoutPrompt(turn),
      text,
      silent: turn.reason === "silent",
      messageIds,
      sessionId: session.id,
      homeKey: session.homeKey,
      ...at,
    });
    for (const delivery of deliveries)
      events.emit("delivery:written", { delivery, text: deliveryText(delivery), ...at });
  }
}
