import { runtimeOf } from "../config/config.ts";
import { asSeenBy } from "../context/turn-context.ts";
import { asTertuliaError } from "../errors.ts";
import type { Runtime, TurnResult } from "../runtime/runtime.ts";
import type { TurnMaterial } from "../store/readers.ts";
import type { Settled, Turn } from "../store/turns.ts";
import { logFault } from "../util/log.ts";
import { AgentAttempt, type AttemptOptions } from "./agent-attempt.ts";
import type { LiveTurn } from "./live-turn.ts";
import { PartialMark } from "./partial-mark.ts";
import { answeredEnding, cancelledEnding, failedBy, isGone, lostEnding, type TurnEnding } from "./turn-ending.ts";
import { watchLimits } from "./turn-limits.ts";

/** A settlement that the store cannot take is tried again: the answer is not lost while this process lives. */
const SETTLE_RETRY_MS = 1_000;
const LONGEST_SETTLE_RETRY_MS = 30_000;

export interface TurnRunOptions extends AttemptOptions {
  /** Throws `runtime_unknown`. */
  readonly runtimeNamed: (name: string) => Runtime;
  /** H10: whether the turn's session is gone in its own program. Then the turn waits in another session already. */
  readonly hasLost: (turn: Turn) => Promise<boolean>;
  /** A3: whether the turn's authors are still let in. Checked again before the agent is asked anything. */
  readonly isLetIn: (material: TurnMaterial) => boolean;
}

/** TurnRun: takes one begun turn through context and agent to its settlement. */
export class TurnRun {
  readonly #live: LiveTurn;
  readonly #options: TurnRunOptions;
  /** Aborts when the gateway stops. */
  readonly #closing: AbortSignal;
  readonly #asked: () => void;

  constructor(live: LiveTurn, options: TurnRunOptions, about: { closing: AbortSignal; asked: () => void }) {
    this.#live = live;
    this.#options = options;
    this.#closing = about.closing;
    this.#asked = about.asked;
  }

  /** Null where the turn was not settled here: its session is to be looked at again. Never rejects. */
  async run(): Promise<Settled | null> {
    try {
      const ending = await this.#ending();
      return ending === null ? null : await this.#settle(ending);
    } catch (cause) {
      // The store could not be written, or a bug: the turn is ended so that the next one runs.
      logFault(this.#options.log, cause);
      return this.#settle(failedBy(asTertuliaError(cause), this.#live.text));
    }
  }

  async #ending(): Promise<TurnEnding | null> {
    const { store, pool, isLetIn, runtimeNamed, config } = this.#options;
    const found = await store.turnMaterial(this.#live.turn.id);
    if (found === null) return null;
    if (!isLetIn(found)) {
      this.#live.stop({ kind: "removed" });
      return cancelledEnding(this.#live);
    }
    const runtime = runtimeNamed(runtimeOf(config(), found.home));
    const material = await asSeenBy(runtime.name, found, store);
    // Its handle would still hold the session as it was before another runtime went on with it.
    const isReturn = found.runtimeState !== null && found.runtimeState.runtime !== runtime.name;
    if (isReturn && runtime.history === "gateway") await pool.drop(material.session.id, runtime.name);
    return this.#ask(material, runtime);
  }

  /** Asks the agent; at most one controlled rebuild (B5). */
  async #ask(material: TurnMaterial, runtime: Runtime): Promise<TurnEnding> {
    const { clock, store } = this.#options;
    const config = this.#options.config();
    const live = this.#live;
    const { turnIdleTimeoutMs: idleMs, turnTimeoutMs: totalMs } = config.turn;
    const limits = watchLimits(live, { clock, idleMs, totalMs });
    const shared = { live, runtime, limits, partial: new PartialMark(clock.now()), asked: this.#asked };
    try {
      const first = await new AgentAttempt({ ...shared, material }, this.#options).run();
      if (!("result" in first)) return first;
      if (!isWorthAnother(live, material, first.result))
        return answeredEnding(live, first, { material, runtime, config });
      live.restart();
      // The second attempt also gets the messages that the first one had taken in.
      const found = await store.turnMaterial(live.turn.id);
      if (found === null) return lostEnding();
      const again = await asSeenBy(runtime.name, found, store);
      const second = await new AgentAttempt({ ...shared, material: again }, this.#options).run();
      return "result" in second ? answeredEnding(live, second, { material: again, runtime, config }) : second;
    } finally {
      limits.cancel();
    }
  }

  async #settle(ending: TurnEnding): Promise<Settled | null> {
    const { store, clock, claim, log, answers } = this.#options;
    const { id: turnId, attempt } = this.#live.turn;
    for (let waitMs = SETTLE_RETRY_MS; this.#live.stopReason?.kind !== "lost"; waitMs *= 2) {
      try {
        const result = await store.settle({ turnId, attempt, now: clock.now(), ...ending }, claim());
        return result.kind === "not_running" ? null : result;
      } catch (cause) {
        const error = asTertuliaError(cause);
        logFault(log, error);
        answers.failed(turnId, error);
        // A turn that is left running would keep its session from ever going on.
        if (error.code === "stale_claim" || this.#closing.aborted) return null;
        await this.#pause(Math.min(waitMs, LONGEST_SETTLE_RETRY_MS));
      }
    }
    return null;
  }

  /** Until the time is over, or the gateway stops. */
  async #pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const goOn = (): void => resolve();
    const cancel = this.#options.clock.after(ms, goOn);
    this.#closing.addEventListener("abort", goOn, { once: true });
    await promise;
    cancel();
    this.#closing.removeEventListener("abort", goOn);
  }
}

/** Whether a second attempt may be made: nothing can have happened yet, and the agent was lost (T8, B5) or its answer is empty (O5). */
function isWorthAnother(live: LiveTurn, { afterCancel }: TurnMaterial, result: TurnResult): boolean {
  if (live.stopReason !== null || live.hasEffects) return false;
  if (isGone(result)) return !live.shown;
  const isEmpty = result.outcome === "done" && result.text.trim() === "";
  return isEmpty && (!live.shown || afterCancel);
}
