import type { LiveTurn, Watcher } from "./live-turn.ts";

interface Follower {
  readonly watcher: Watcher;
  stop: () => void;
  isOver: boolean;
}

/** TurnWatchers: attaches watchers to running turns, and keeps those whose turn has not begun yet. */
export class TurnWatchers {
  readonly #live: (turnId: number) => LiveTurn | undefined;
  readonly #onFault: (cause: unknown) => void;
  /** Watchers of turns that have not begun yet, by turn. */
  readonly #waiting = new Map<number, readonly Follower[]>();

  constructor(live: (turnId: number) => LiveTurn | undefined, onFault: (cause: unknown) => void) {
    this.#live = live;
    this.#onFault = onFault;
  }

  /** Shows the watcher a turn's words, from its first on, also when it has not begun yet. Returns the way to stop watching. */
  watch(turnId: number, watcher: Watcher): () => void {
    const follower: Follower = { watcher, stop: () => undefined, isOver: false };
    const live = this.#live(turnId);
    if (live === undefined) this.#waiting.set(turnId, [...(this.#waiting.get(turnId) ?? []), follower]);
    else this.#attach(live, follower);
    return () => {
      follower.isOver = true;
      follower.stop();
      const waiting = this.#waiting.get(turnId)?.filter((other) => other !== follower) ?? [];
      if (waiting.length > 0) this.#waiting.set(turnId, waiting);
      else this.#waiting.delete(turnId);
    };
  }

  /** The turn has begun: those who waited for it see it from here on. */
  begun(live: LiveTurn): void {
    for (const follower of this.#take(live.turn.id)) this.#attach(live, follower);
  }

  /** A reset ended the turn, begun or not: nobody waits for words of it. */
  ended(turnId: number): void {
    this.#live(turnId)?.end();
    for (const { watcher } of this.#take(turnId)) watcher.onEvent({ type: "end" });
  }

  /** Text that nobody was shown yet is marked as shown before the watcher gets it (T8). */
  #attach(live: LiveTurn, follower: Follower): void {
    if (live.text === "" || live.shown) {
      follower.stop = live.watch(follower.watcher);
      return;
    }
    live
      .markShown()
      .then(() => {
        if (!follower.isOver && this.#live(live.turn.id) !== undefined) follower.stop = live.watch(follower.watcher);
      })
      .catch(this.#onFault);
  }

  #take(turnId: number): readonly Follower[] {
    const waiting = this.#waiting.get(turnId) ?? [];
    this.#waiting.delete(turnId);
    return waiting;
  }
}
