import { BRACKETS, isYou, oneLine } from "../text/untrusted.ts";
import { normalized } from "../util/normalized.ts";

/**
 * An agent that sees `[YOU]` and `[Ann]` before the words of a conversation also writes such marks before its own words. They are taken
 * off before its words come into a turn (G2). A link and a checkbox stay.
 */

/** The length of the part of a text in which marks are looked for. */
const LOOK = 512;
const LONGEST_MARK = 160;
const BLANKS = /^[\s\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]*/u;
const SEPARATOR = /^\s*[:：]?[\s\p{Cf}]*/u;

/** Marks as they were shown, `[Ann #91bc3e]`; an agent may leave the tag out. */
export type ShownMarks = ReadonlySet<string>;

export function shownMarks(marks: Iterable<string>): ShownMarks {
  const names = [...marks].map((mark) => folded(mark.slice(1, -1)));
  return new Set(names.flatMap((name) => [name, name.replace(/ #\w{1,12}$/, "")]));
}

export function withoutMark(text: string, shown: ShownMarks): string {
  return text.slice(lengthOf(text, shown, true) ?? 0);
}

/** A turn's text as it comes in: all parts together equal `withoutMark` of the whole. The first words wait until it is clear whether they are a mark. */
export class MarkStream {
  readonly #shown: ShownMarks;
  /** The words that wait; null once it is clear. */
  #held: string | null = "";

  constructor(shown: ShownMarks) {
    this.#shown = shown;
  }

  take(chunk: string): string {
    if (this.#held === null) return chunk;
    this.#held += chunk;
    return this.#release(lengthOf(this.#held, this.#shown, false));
  }

  /** The words that still wait, when nothing more comes. */
  rest(): string {
    return this.#held === null ? "" : this.#release(lengthOf(this.#held, this.#shown, true));
  }

  #release(length: number | null): string {
    if (length === null || this.#held === null) return "";
    const words = this.#held.slice(length);
    this.#held = null;
    return words;
  }
}

/** The length of the marks at the beginning; null while what follows can change it. */
function lengthOf(text: string, shown: ShownMarks, isWhole: boolean): number | null {
  const looked = text.slice(0, LOOK);
  return marksIn(looked, shown, isWhole || text.length >= LOOK);
}

function marksIn(text: string, shown: ShownMarks, isWhole: boolean): number | null {
  let taken = 0;
  for (;;) {
    const open = taken + BLANKS.exec(text.slice(taken))![0].length;
    const mark = markAt(text, open, isWhole);
    if (mark === null) return null;
    if (mark === undefined || !(isYou(mark.name) || shown.has(folded(mark.name)))) return taken;
    if (text[mark.end] === "(") return taken;
    // `[name][1]` is a link too, unless what follows is a mark itself.
    if (text[mark.end] === "[") {
      const more = marksIn(text.slice(mark.end), shown, isWhole);
      return more === null ? null : more > 0 ? mark.end + more : taken;
    }
    taken = mark.end + SEPARATOR.exec(text.slice(mark.end))![0].length;
    if (taken === text.length) return isWhole ? taken : null;
  }
}

/** The mark that begins at `open`. Undefined if there is none; null if there may be one. */
function markAt(text: string, open: number, isWhole: boolean): { name: string; end: number } | undefined | null {
  if (open >= text.length) return isWhole ? undefined : null;
  if (!BRACKETS.open.includes(text[open]!)) return undefined;
  const longest = text.slice(open + 1, open + LONGEST_MARK);
  const close = [...BRACKETS.close].map((bracket) => longest.indexOf(bracket)).filter((at) => at >= 0);
  const end = longest.indexOf("\n");
  const at = Math.min(...close);
  if (close.length === 0 || (end >= 0 && end < at)) {
    const canCome = end < 0 && longest.length === text.length - open - 1 && longest.length < LONGEST_MARK - 1;
    return canCome && !isWhole ? null : undefined;
  }
  const behind = open + 1 + at + 1;
  if (behind >= text.length && !isWhole) return null;
  const name = longest.slice(0, at);
  // `[[page]]` is somebody's link.
  return [...BRACKETS.open].some((bracket) => name.includes(bracket)) ? undefined : { name, end: behind };
}

function folded(name: string): string {
  return normalized(oneLine(name), "NFKC").toLowerCase();
}
