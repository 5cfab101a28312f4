/** A partial text of so many characters is worth a second until it is written again. */
const CHARACTERS_A_SECOND = 65_536;

/**
 * When the partial text of a turn is made durable (T8): at most once a second, and a long one so much more seldom that writing it whole
 * never costs more than a short one does.
 */
export class PartialMark {
  #writtenAt: number;
  #written = 0;

  constructor(now: number) {
    this.#writtenAt = now;
  }

  /** Asking counts as writing. */
  isDue(characters: number, now: number): boolean {
    const waitMs = 1_000 * Math.max(1, this.#written / CHARACTERS_A_SECOND);
    // A clock set back must not silence it for long.
    const isTime = now < this.#writtenAt || now - this.#writtenAt >= waitMs;
    return isTime && this.#write(characters, now);
  }

  /** A tool can run long, and nothing is said meanwhile: what is short is written at once. */
  isDueBeforeTool(characters: number, now: number): boolean {
    return characters <= CHARACTERS_A_SECOND ? this.#write(characters, now) : this.isDue(characters, now);
  }

  #write(characters: number, now: number): boolean {
    if (characters === this.#written) return false;
    this.#writtenAt = now;
    this.#written = characters;
    return true;
  }
}
