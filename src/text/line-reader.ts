/** The higher, the better a place to cut. Within code, a blank line counts as `line` and any other line end as `sentence`. */
export const RANK = { paragraph: 4, line: 3, sentence: 2, word: 1 } as const;
export type Rank = (typeof RANK)[keyof typeof RANK];
export const RANKS: readonly Rank[] = [RANK.paragraph, RANK.line, RANK.sentence, RANK.word];

export const NEWLINE = 0x0a;

/** Reads one line, or what is left of it, and says how good a place to cut each position in it is. */
export class LineReader {
  readonly #isCode: boolean;
  /** Whether there was anything but what lines begin with: a number or another mark of a list, and spaces. */
  #hasWords = false;
  #isBlank = true;
  #before: Before = "word";
  #isAfterSpace = false;

  constructor(isCode: boolean) {
    this.#isCode = isCode;
  }

  /** The rank of the place before this character, which is taken in; null where it is none to cut at. */
  rankBefore(code: number): Rank | null {
    if (isSpace(code)) {
      this.#isAfterSpace = true;
      return null;
    }
    this.#isBlank = false;
    const rank = this.#hasWords ? this.#rankBeforeWord(code) : null;
    this.#before = kindOf(code, this.#isAfterSpace ? "word" : this.#before);
    this.#isAfterSpace = false;
    this.#hasWords ||= !LINE_MARKS.has(code);
    return rank;
  }

  get rankOfEnd(): Rank {
    if (this.#isCode) return this.#isBlank ? RANK.line : RANK.sentence;
    return this.#isBlank ? RANK.paragraph : RANK.line;
  }

  #rankBeforeWord(code: number): Rank | null {
    if (this.#isAfterSpace) return this.#before.endsWith("stop") && !this.#isCode ? RANK.sentence : RANK.word;
    if (CLOSERS.has(code) || MARKS.has(code) || STOPS.has(code) || CJK_STOPS.has(code) || CJK_PAUSES.has(code))
      return null;
    if (this.#before === "cjk_stop") return RANK.sentence;
    return this.#before === "cjk_pause" ? RANK.word : null;
  }
}

/** What the last characters were, closing marks left out. */
type Before = "word" | "stop" | "cjk_stop" | "cjk_pause";

function kindOf(code: number, before: Before): Before {
  if (CLOSERS.has(code)) return before;
  if (MARKS.has(code)) return before.endsWith("stop") ? "stop" : "word";
  if (CJK_STOPS.has(code)) return "cjk_stop";
  if (STOPS.has(code)) return before === "cjk_stop" ? before : "stop";
  return CJK_PAUSES.has(code) ? "cjk_pause" : "word";
}

const codes = (characters: string): ReadonlySet<number> => new Set([...characters].map((one) => one.codePointAt(0)!));
/** End a sentence when a space follows. */
const STOPS = codes(".!?…।؟۔");
const CJK_STOPS = codes("。！？｡");
const CJK_PAUSES = codes("，、；：");
/** Belong to the sentence they end. */
const CLOSERS = codes(")]}”’»」』）】》〉］｝");
/** Open or close: only a space behind them tells. */
const MARKS = codes("\"'*_`");
const LINE_MARKS = codes("0123456789.)-*+#>");

/** Where a line may be cut: no-break spaces are none. */
export function isSpace(code: number): boolean {
  if (code < 0x80) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return code === 0x3000 || (code >= 0x2000 && code <= 0x200a && code !== 0x2007) || code === 0x2028 || code === 0x2029;
}
