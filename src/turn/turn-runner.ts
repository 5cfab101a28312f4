import { setMaxListeners } from "node:events";
import type { GatewayEvents } from "../events.ts";
import type { Settled, Turn } from "../store/turns.ts";
import { logFault } from "../util/log.ts";
import type { OpenQuestion } from "./command/command.ts";
import { LiveTurn, type StopReason } from "./live-turn.ts";
import { isAskedAtDoor } from "./permission.ts";
import { TurnRun, type TurnRunOptions } from "./turn-run.ts";
import { TurnWatchers } from "./watchers.ts";

interface TurnRunnerOptions extends TurnRunOptions {
  /** After the commit that ended a turn. */
  readonly onSettled: (settled: Settled) => void;
}

/**
 * TurnRunner: owns the turns that run in this process. Whatever happens to one, it ends in the store or, with the store gone, is
 * recovered at the next start.
 */
export class TurnRunner {
  readonly watchers: TurnWatchers;
  readonly #options: TurnRunnerOptions;
  readonly #live = new Map<number, LiveTurn>();
  /** Stops of turns that are begun and have not come here yet. */
  readonly #early = new Map<number, StopReason>();
  readonly #closing = new AbortController();

  constructor(options: TurnRunnerOptions) {
    this.#options = options;
    this.watchers = new TurnWatchers(
      (turnId) => this.#live.get(turnId),
      (cause) => logFault(options.log, cause),
    );
    // Any number of settlements may wait for a store that cannot be written.
    setMaxListeners(0, this.#closing.signal);
  }

  get running(): number {
    return this.#live.size;
  }

  /** The running turns, as `turn:begun` announced them. */
  get begun(): readonly GatewayEvents["turn:begun"][] {
    const going = [...this.#live.values()].filter(({ stopReason }) => stopReason?.kind !== "lost");
    return going.flatMap(({ begun }) => begun ?? []);
  }

  live(turnId: number): LiveTurn | undefined {
    return this.#live.get(turnId);
  }

  runsIn(sessionId: string): boolean {
    return [...this.#live.values()].some(({ turn }) => turn.sessionId === sessionId);
  }

  /** The open permission questions in a conversation's running turns. */
  questionsOf(conversationId: number): readonly OpenQuestion[] {
    return [...this.#live.values()]
      .filter(({ turn }) => turn.conversationId === conversationId)
      .flatMap(({ turn, questions }) =>
        questions.all.map(({ id, title, options }) => ({
          turnId: turn.id,
          isAskedThere: isAskedAtDoor(turn),
          id,
          title,
          options,
        })),
      );
  }

  /** Resolves with false where the turn was not settled here: its session is to be looked at again. Never rejects. */
  async run(turn: Turn, asked: () => void): Promise<boolean> {
    if (await this.#hasLost(turn)) return false;
    const live = new LiveTurn(turn, this.#options);
    this.#live.set(turn.id, live);
    const early = this.#early.get(turn.id);
    this.#early.delete(turn.id);
    if (early !== undefined) live.stop(early);
    if (this.#closing.signal.aborted) live.stop({ kind: "shutdown" });
    this.watchers.begun(live);
    const settled = await new TurnRun(live, this.#options, { closing: this.#closing.signal, asked }).run();
    this.#live.delete(turn.id);
    // However it ended: nothing more comes of it.
    live.end();
    if (settled !== null) this.#options.onSettled(settled);
    return settled !== null;
  }

  /** A program that cannot be asked has lost nothing. */
  async #hasLost(turn: Turn): Promise<boolean> {
    try {
      return await this.#options.hasLost(turn);
    } catch (cause) {
      logFault(this.#options.log, cause);
      return false;
    }
  }

  stop(turnId: number, reason: StopReason): void {
    const live = this.#live.get(turnId);
    live?.stop(reason);
    if (reason.kind === "lost") this.watchers.ended(turnId);
    else if (live === undefined) this.#stopEarly(turnId, reason).catch((cause) => logFault(this.#options.log, cause));
  }

  /** A turn that is begun and has not come here yet is stopped when it comes. */
  async #stopEarly(turnId: number, reason: StopReason): Promise<void> {
    this.#early.set(turnId, reason);
    const turn = await this.#options.store.turn(turnId);
    if (turn?.state !== "running") this.#early.delete(turnId);
  }

  /** Stops the running turns whose authors are not let in any more (A3). */
  async stopUnwelcome(): Promise<void> {
    for (const turnId of [...this.#live.keys()]) {
      const material = await this.#options.store.turnMaterial(turnId);
      if (material !== null && !this.#options.isLetIn(material)) this.stop(turnId, { kind: "removed" });
    }
  }

  /** Stops the running turns, and each that still comes. */
  stopAll(): void {
    this.#closing.abort();
    for (const live of this.#live.values()) live.stop({ kind: "shutdown" });
  }
}
