import type { RuntimeFailure } from "./runtime.ts";

/** Characters that an agent may say in one turn, and those of its thoughts, plans and titles of tools (B11). */
const MOST = { said: 4_000_000, thought: 40_000_000 } as const;

export type Uttered = keyof typeof MOST;

/** What an agent may still utter in one turn. Beyond it the agent is stopped, and the turn fails with its beginning. */
export class Allowance {
  readonly #uttered: Record<Uttered, number> = { said: 0, thought: 0 };
  #exceeded: Uttered | null = null;

  /** Whether so many more characters may be told. */
  take(uttered: Uttered, characters: number): boolean {
    this.#uttered[uttered] += characters;
    if (this.#uttered[uttered] > MOST[uttered]) this.#exceeded ??= uttered;
    return this.#exceeded === null;
  }

  get exceeded(): Uttered | null {
    return this.#exceeded;
  }
}

export function tooMuch(who: string, uttered: Uttered): RuntimeFailure {
  const message = `${who} ${uttered} more than ${MOST[uttered].toLocaleString("en")} characters and was stopped.`;
  return { kind: "truncated", message };
}
