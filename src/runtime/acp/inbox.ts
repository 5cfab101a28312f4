/**
 * Inbox: where what an agent says goes, from its start on. Words are of a turn only while one runs, and only where they are of its session;
 * everything else is nobody's (B10): before the first prompt it is a replay, and after an answer it was too late.
 */
import type { Clock } from "../../util/clock.ts";
import type { AgentListener } from "./agent-connection.ts";
import { Replay } from "./replay.ts";
import type { TurnRun } from "./turn-run.ts";
import { type Question, readSaid, readUpdate } from "./updates.ts";

export interface QuietLimits {
  /** So long without an update is quiet; asked after each of them. */
  readonly quietMs: () => number;
  readonly mostMs: number;
}

interface Receiver {
  readonly sessionId: string;
  readonly run: () => TurnRun | null;
  /** Words that are of no turn. */
  readonly onStray: () => void;
}

export class Inbox implements AgentListener {
  /** Counts what came while nobody listened. */
  dropped = 0;
  /** What came before there was a session to speak in. */
  replay = new Replay([]);
  readonly #clock: Clock;
  #onUpdate = (): void => undefined;
  #to: Receiver | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  connect(to: Receiver): void {
    this.#to = to;
  }

  async onUpdate(params: unknown): Promise<void> {
    const read = readUpdate(params);
    if (read === null) return;
    const said = readSaid(read.update);
    const isOurs = this.#to !== null && read.sessionId === this.#to.sessionId;
    const run = isOurs ? this.#to?.run() : null;
    if (run != null) {
      if (said !== null) await run.take(said);
    } else {
      this.dropped++;
      if (said !== null && this.#to === null) this.replay.hear(said);
      if (isOurs && (said?.type === "text" || said?.type === "thought" || said?.type === "tool")) this.#to?.onStray();
    }
    this.#onUpdate();
  }

  async onQuestion(question: Question, signal: AbortSignal): Promise<string | null> {
    const isOurs = this.#to !== null && question.sessionId === this.#to.sessionId;
    return (isOurs ? this.#to?.run()?.ask(question, signal) : null) ?? null;
  }

  /** Whether the agent fell silent, within `mostMs`. The signal ends the wait. */
  async quiet({ quietMs, mostMs }: QuietLimits, signal: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const cancelMost = this.#clock.after(mostMs, () => resolve(false));
    const listen = (): (() => void) => this.#clock.after(quietMs(), () => resolve(true));
    let cancel = listen();
    this.#onUpdate = () => {
      cancel();
      cancel = listen();
    };
    const stop = (): void => resolve(false);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    const isQuiet = await promise;
    signal.removeEventListener("abort", stop);
    this.#onUpdate = () => undefined;
    cancel();
    cancelMost();
    return isQuiet;
  }
}
