/** The lower, the better a place to cut: 0 ends a paragraph, 1 a line, 2 a sentence, 3 a word. */
export const RANKS = [0, 1, 2, 3] as const;
export type Rank = (typeof RANKS)[number];

/** Spaces at which a line may be cut: no-break spaces are not among them. */
const SPACE = "\\t\\v\\f\\r \\u2000-\\u2006\\u2008-\\u200a\\u2028\\u2029\\u3000";
/** A full stop ends a sentence when a space follows; a CJK stop needs none. */
const STOP = ".!?…।؟۔";
const CJK_STOP = "。！？｡";
const CJK_PAUSE = "，、；：";
/** Closing marks belong to the sentence that they end. */
const CLOSER = ")\\]}”’»」』）】》〉］｝";
/** Marks that open or close: only a space behind them tells. */
const MARK = "\"'*_`";

const BREAK = new RegExp(
  [
    `((?<=^|\\n)[${SPACE}]*\\n)`,
    "(\\n)",
    // A number or another mark of a list, with which a line begins.
    `(?<=^|\\n)[${SPACE}\\d.)*+#>-]+`,
    `([${STOP}${CJK_STOP}${CJK_PAUSE}][${STOP}${CJK_STOP}${CJK_PAUSE}${CLOSER}${MARK}]*)([${SPACE}]*)`,
    `([${SPACE}]+)`,
  ].join("|"),
  "g",
);
const HAS_STOP = new RegExp(`[${STOP}${CJK_STOP}]`);
const HAS_CJK_STOP = new RegExp(`[${CJK_STOP}]`);
const HAS_MARK = new RegExp(`[${MARK}]`);
const HAS_CJK = new RegExp(`[${CJK_STOP}${CJK_PAUSE}]`);

/** Finds the places behind which a text may be cut, in their order. In code, only its lines and words count, and for less. */
export function* breaksIn(text: string, isCode: boolean): Generator<{ readonly at: number; readonly rank: Rank }> {
  for (const match of text.matchAll(BREAK)) {
    const at = match.index + match[0].length;
    const rank = rankOf(match, text.startsWith("\n", at));
    if (rank !== null) yield { at, rank: isCode ? IN_CODE[rank] : rank };
  }
}

const IN_CODE = [1, 2, 3, 3] as const;

function rankOf([, blank, line, stop = "", gap, space]: RegExpExecArray, isBeforeLineEnd: boolean): Rank | null {
  if (blank !== undefined) return 0;
  if (line !== undefined) return 1;
  if (isBeforeLineEnd) return null;
  if (space !== undefined) return 3;
  if (gap) return HAS_STOP.test(stop) ? 2 : 3;
  if (!HAS_CJK.test(stop) || HAS_MARK.test(stop)) return null;
  return HAS_CJK_STOP.test(stop) ? 2 : 3;
}
