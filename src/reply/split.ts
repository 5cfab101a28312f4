import { type Fence, type FenceLine, readFenceLine } from "./fence.ts";

/** What a platform counts: UTF-16 units (JavaScript's `length`), code points, or bytes of UTF-8. */
export type Unit = "utf16" | "codepoints" | "bytes";

export interface Limit {
  readonly limit: number;
  readonly unit: Unit;
}

/** A part before it is put together: the text, and the fences that were added to it. */
export interface Piece {
  readonly open: string;
  readonly text: string;
  readonly close: string;
}

/** The higher, the better a place to cut. Within code, a blank line counts as `line` and any other line end as `sentence`. */
const RANK = { paragraph: 4, line: 3, sentence: 2, word: 1 } as const;
type Rank = (typeof RANK)[keyof typeof RANK];
const RANKS: readonly Rank[] = [RANK.paragraph, RANK.line, RANK.sentence, RANK.word];

/** Where a part could end. */
interface Spot {
  readonly at: number;
  /** The fence that is open there. */
  readonly fence: OpenFence | null;
}
interface FurthestSpot extends Spot {
  /** From where on its fence is what it is there. */
  readonly since: number;
}
interface RankedSpot extends Spot {
  readonly rank: Rank;
  /** The length of the part's text. */
  readonly length: number;
}
interface Cut extends Spot {
  /** Without added fences. */
  readonly isBare: boolean;
}

/** A fence with what closes it at the end of a part, and opens it again in the next. */
interface OpenFence extends Fence {
  readonly reopen: string;
  readonly reclose: string;
}

/**
 * Splits a text for a platform (O3). Each part is within the limit, added fences included. It ends at the end of a paragraph, else of a
 * line, a sentence, a word, and only where there is none between two graphemes; an end that would leave three quarters of the part unused
 * counts only where there is no other. Spaces at a cut stay in the earlier part. A text within the limit is returned as it is; an empty
 * one has no part.
 *
 * A code fence that is open at a cut is closed there and opened again, with its info string, in the next part. One that would fill more
 * than three quarters of a part loses the info string when it is opened again; if that does not help, it is left as it stands. One that
 * the text leaves open is closed at the end of the last part. Code within a line is not closed where the line is cut.
 *
 * Only a grapheme that is larger than the limit is cut, between its code points. With a limit below four bytes a part may be larger.
 */
export function splitText(text: string, limit: Limit): readonly string[] {
  return splitInPieces(text, limit).map((piece) => piece.open + piece.text + piece.close);
}

/** The parts with what was added to each told apart: their texts, one after the other, are the text. */
export function splitInPieces(text: string, limit: Limit): readonly Piece[] {
  if (text === "") return [];
  if (lengthIn(text, limit.unit) <= limit.limit) return [{ open: "", text, close: "" }];
  const pieces: Piece[] = [];
  let from: Spot = { at: 0, fence: null };
  while (from.at < text.length) {
    const to = nextCut(text, from, limit);
    pieces.push(pieceBetween(text, from, to));
    from = to;
  }
  return pieces;
}

export function lengthIn(text: string, unit: Unit): number {
  switch (unit) {
    case "utf16":
      return text.length;
    case "bytes":
      return Buffer.byteLength(text);
    case "codepoints": {
      let length = 0;
      for (let at = 0; at < text.length; at += unitsOf(text.codePointAt(at)!)) length++;
      return length;
    }
  }
}

function pieceBetween(text: string, from: Spot, to: Cut): Piece {
  const words = text.slice(from.at, to.at);
  if (to.isBare) return { open: "", text: words, close: "" };
  const reclose = to.fence?.reclose ?? "";
  return { open: from.fence?.reopen ?? "", text: words, close: words.endsWith("\n") ? reclose.slice(1) : reclose };
}

function nextCut(text: string, from: Spot, limit: Limit): Cut {
  const survey = new Survey(text, from, limit);
  survey.run();
  if (survey.reachedEnd !== null) return { ...survey.reachedEnd, isBare: false };
  const { spots, furthest } = survey;
  const graphemes = segmenter.segment(text.slice(from.at, furthest.at + 2));
  const isEdge = ({ at }: Spot): boolean => graphemes.containing(at - from.at)?.index === at - from.at;
  const canCut = (spot: Spot): boolean => isEdge(spot) && !makesFence(text, from.at, spot);
  const best =
    bestOf(spots, limit.limit / 4, canCut) ??
    bestOf(spots, 0, canCut) ??
    betweenGraphemes(text, from, furthest, graphemes) ??
    bestOf(spots, 0, isEdge);
  return best === undefined ? cutByForce(text, from, furthest, graphemes, limit) : { ...best, isBare: false };
}

/** The last one of the best rank. */
function bestOf(
  spots: readonly RankedSpot[],
  leastLength: number,
  canCut: (spot: Spot) => boolean,
): RankedSpot | undefined {
  for (const rank of RANKS) {
    const found = spots.findLast((spot) => spot.rank === rank && spot.length >= leastLength && canCut(spot));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Whether one half of a line that is cut here would be read as the line of a fence, which the whole is not. */
function makesFence(text: string, start: number, { at, fence }: Spot): boolean {
  if (text.charCodeAt(at - 1) === NEWLINE) return false;
  const head = text.slice(Math.max(start, at - FENCE_LOOK), at);
  const tail = text.slice(at, at + FENCE_LOOK);
  return isFence(readFenceLine(tail, 0, fence)) || isFence(readFenceLine(head, head.lastIndexOf("\n") + 1, fence));
}

function isFence({ kind }: FenceLine): boolean {
  return kind === "opens" || kind === "closes";
}

/** How far a half line is looked at. */
const FENCE_LOOK = 256;
/** How many graphemes are gone back for a place that makes no fence. */
const MOST_STEPS = 64;

const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

function betweenGraphemes(
  text: string,
  from: Spot,
  { at: last, fence, since }: FurthestSpot,
  graphemes: Intl.Segments,
): Spot | undefined {
  let at = edgeUpTo(last, from, graphemes);
  for (let step = 0; step < MOST_STEPS && at > from.at && at >= since; step++) {
    if (!makesFence(text, from.at, { at, fence })) return { at, fence };
    at = edgeUpTo(at - 1, from, graphemes);
  }
  return undefined;
}

/** Where there is no good place: between graphemes, else between code points. */
function cutByForce(text: string, from: Spot, furthest: Spot, graphemes: Intl.Segments, { limit, unit }: Limit): Cut {
  const edge = edgeUpTo(furthest.at, from, graphemes);
  if (edge > from.at) return { at: edge, fence: furthest.fence, isBare: false };
  // What is too large beside the fences of the part may have room without them.
  const first = segmenter.segment(text.slice(from.at, from.at + 2 * limit + 2)).containing(0)!.segment;
  if (lengthIn(first, unit) <= limit) return { at: from.at + first.length, fence: from.fence, isBare: true };
  const least = from.at + unitsOf(text.codePointAt(from.at)!);
  return { at: Math.max(furthest.at, least), fence: furthest.fence, isBare: false };
}

/** The start of the grapheme that a place is in. */
function edgeUpTo(at: number, from: Spot, graphemes: Intl.Segments): number {
  return from.at + (graphemes.containing(at - from.at)?.index ?? 0);
}

/** Reads on from the start of a part as far as the limit allows, and notes where it could end. */
class Survey {
  readonly spots: RankedSpot[] = [];
  /** The last place at all that is within the limit, outside the lines of fences. */
  furthest: FurthestSpot;
  reachedEnd: Spot | null = null;
  readonly #text: string;
  readonly #start: number;
  readonly #limit: number;
  readonly #unit: Unit;
  /** Of the added opening and the text so far. */
  #length: number;
  readonly #openLength: number;
  #at: number;
  #fence: OpenFence | null;
  #since: number;
  #closeLength: number;
  /** Whether there was anything but white space: a part of nothing else is not made where it can be helped. */
  #hasWords = false;

  constructor(text: string, from: Spot, { limit, unit }: Limit) {
    this.#text = text;
    this.#start = from.at;
    this.#limit = limit;
    this.#unit = unit;
    this.#at = from.at;
    this.#fence = from.fence;
    this.#openLength = this.#lengthOf(from.fence?.reopen ?? "");
    this.#closeLength = this.#lengthOf(from.fence?.reclose ?? "");
    this.#length = this.#openLength;
    this.#since = from.at;
    this.furthest = { ...from, since: from.at };
  }

  run(): void {
    const text = this.#text;
    while (this.#at < text.length && this.#length <= this.#limit) {
      const isLineStart = this.#at === 0 || text.charCodeAt(this.#at - 1) === NEWLINE;
      if (!isLineStart || !this.#readFence()) this.#readLine();
    }
    if (this.#at === text.length && this.#hasRoom) this.reachedEnd = { at: this.#at, fence: this.#fence };
  }

  get #hasRoom(): boolean {
    return this.#length + this.#closeLength <= this.#limit;
  }

  /** Takes a line that opens or closes a fence as a whole, or what marks it where no part has room for it; false for any other. */
  #readFence(): boolean {
    let line = readFenceLine(this.#text, this.#at, this.#fence);
    if (line.kind === "leaves") {
      this.#enter(null);
      this.#edge();
      this.#reach();
      line = line.next;
    }
    if (!isFence(line) || !("head" in line)) return false;
    // What fills half a part is no fence that anybody would draw.
    if (2 * this.#lengthOf(this.#text.slice(this.#at, line.head)) > this.#limit) return false;
    if (line.kind === "opens") this.#open(line.fence, line);
    else this.#close(line);
    return true;
  }

  #open(fence: Fence, { head, end }: { readonly head: number; readonly end: number }): void {
    const open = this.#reopenable(fence);
    const length = this.#lengthOf(this.#text.slice(this.#at, end));
    const isWhole = length + this.#lengthOf(open.reclose) <= this.#limit;
    this.#edge();
    this.#enter(open);
    this.#take(isWhole ? end : head);
  }

  #close({ head, end }: { readonly head: number; readonly end: number }): void {
    const length = this.#lengthOf(this.#text.slice(this.#at, end));
    const isWhole = this.#lengthOf(this.#fence?.reopen ?? "") + length <= this.#limit;
    // No part shall begin with the end of a fence.
    if (this.spots.at(-1)?.at === this.#at) this.spots.pop();
    this.#enter(null);
    this.#take(isWhole ? end : head);
    if (isWhole) this.#note(RANK.paragraph);
  }

  /** Here a block ends or begins. */
  #edge(): void {
    if (this.spots.at(-1)?.at === this.#at) this.spots.pop();
    this.#note(RANK.paragraph);
  }

  #readLine(): void {
    const text = this.#text;
    const line = new LineReader(this.#fence !== null);
    while (this.#at < text.length) {
      const code = text.codePointAt(this.#at)!;
      const rank = line.rankBefore(code);
      if (rank !== null) this.#note(rank);
      this.#advance(this.#at + unitsOf(code), widthOf(code, this.#unit));
      if (this.#length > this.#limit) return;
      this.#hasWords ||= !isSpace(code);
      this.#reach();
      if (code === NEWLINE) break;
    }
    if (text.charCodeAt(this.#at - 1) === NEWLINE) this.#note(line.rankOfEnd);
  }

  #note(rank: Rank): void {
    if (!this.#hasWords || !this.#hasRoom || this.#at === this.#start) return;
    this.spots.push({ at: this.#at, fence: this.#fence, rank, length: this.#length - this.#openLength });
  }

  #reach(): void {
    if (this.#hasRoom) this.furthest = { at: this.#at, fence: this.#fence, since: this.#since };
  }

  #take(end: number): void {
    this.#advance(end, this.#lengthOf(this.#text.slice(this.#at, end)));
    this.#since = end;
    this.#reach();
  }

  #advance(at: number, length: number): void {
    this.#at = at;
    this.#length += length;
  }

  #enter(fence: OpenFence | null): void {
    this.#fence = fence;
    this.#since = this.#at;
    this.#closeLength = this.#lengthOf(fence?.reclose ?? "");
    this.#hasWords = true;
  }

  #reopenable(fence: Fence): OpenFence {
    const bare = fence.prefix + fence.mark.repeat(fence.run);
    const reclose = `\n${bare}`;
    for (const reopen of [`${bare}${fence.info}\n`, `${bare}\n`]) {
      const length = this.#lengthOf(reopen) + this.#lengthOf(reclose);
      if (length <= (this.#limit * 3) / 4) return { ...fence, reopen, reclose };
    }
    return { ...fence, reopen: "", reclose: "" };
  }

  #lengthOf(text: string): number {
    return lengthIn(text, this.#unit);
  }
}

/** Reads one line, or what is left of it, and says how good a place to cut each position in it is. */
class LineReader {
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

const NEWLINE = 0x0a;
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
function isSpace(code: number): boolean {
  if (code < 0x80) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return code === 0x3000 || (code >= 0x2000 && code <= 0x200a && code !== 0x2007) || code === 0x2028 || code === 0x2029;
}

function unitsOf(code: number): number {
  return code > 0xffff ? 2 : 1;
}

function widthOf(code: number, unit: Unit): number {
  switch (unit) {
    case "utf16":
      return unitsOf(code);
    case "codepoints":
      return 1;
    case "bytes":
      if (code < 0x80) return 1;
      if (code < 0x800) return 2;
      return code < 0x10000 ? 3 : 4;
  }
}
