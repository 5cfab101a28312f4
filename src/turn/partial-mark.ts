/** For each so many characters of a partial text, one second passes until it is written again. */
const CHARACTERS_A_SECOND = 65_536;

/**
 * PartialMark: decides when the partial text of a turn is made durable (T8): at most once a second, and a long text less often, because
 * it is written whole each time.
 */
export class PartialMark {
  #writtenAt: number;
  #written = 0;

  constructor(now: number) {
    this.#writtenAt = now;
  }

  /** A yes counts as written: whoever asks must write. */
  isDue(characters: number, now: number): boolean {
    const waitMs = 1_000 * Math.max(1, this.#written / CHARACTERS_A_SECOND);
    // A clock that is set back must not delay the next write for long.
    const isTime = now < this.#writtenAt || now - this.#writtenAt >= waitMs;
    return isTime && this.#write(characters, now);
  }

  /** A tool can run for long without any text: a short text is written at once before it. */
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
