import { type Block, readBlocks, readFenceLine } from "./fence.ts";
import { breaksIn, RANKS, type Rank } from "./text-breaks.ts";
import { type Limit, lengthIn, type Unit, unitsOf, widthOf } from "./unit.ts";

/** A part before it is put together: the text, and the fences that were added to it. */
export interface Piece {
  readonly open: string;
  readonly text: string;
  readonly close: string;
}

interface Whole extends Limit {
  readonly text: string;
  readonly blocks: readonly Block[];
}

/** A place where a part could end. `block` is the index of the block that is open there. */
interface Spot {
  readonly at: number;
  readonly block: number;
}
interface RankedSpot extends Spot {
  readonly rank: Rank;
}

/** How far back a cut looks for a place that makes no fence, in graphemes, and how much of the half lines it reads, in characters. */
const MOST_STEPS = 64;
const FENCE_LOOK = 256;

const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

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

/** Splits a text into parts whose added fences stand apart: the texts of the pieces, one after the other, are the text. */
export function splitInPieces(text: string, limit: Limit): readonly Piece[] {
  if (text === "") return [];
  if (lengthIn(text, limit.unit) <= limit.limit) return [{ open: "", text, close: "" }];
  const whole = { ...limit, text, blocks: readBlocks(text, limit) };
  const pieces: Piece[] = [];
  for (let from: Spot = { at: 0, block: 0 }; from.at < text.length; ) {
    const { spots, furthest } = scan(whole, from);
    const to = furthest.at === text.length ? furthest : bestCut(whole, from, spots, furthest);
    pieces.push(to === null ? loneGrapheme(whole, from) : pieceBetween(whole, from, to));
    from = to ?? { at: from.at + pieces.at(-1)!.text.length, block: from.block };
  }
  return pieces;
}

function pieceBetween({ text, blocks }: Whole, from: Spot, to: Spot): Piece {
  const words = text.slice(from.at, to.at);
  const reclose = blocks[to.block]?.fence?.reclose ?? "";
  const close = words.endsWith("\n") ? reclose.slice(1) : reclose;
  return { open: blocks[from.block]?.fence?.reopen ?? "", text: words, close };
}

/** Reads from the start of a part as far as the limit allows. Finds the places where it could end, and the last place that has room. */
function scan({ text, blocks, limit, unit }: Whole, from: Spot): { spots: RankedSpot[]; furthest: Spot } {
  const spots: RankedSpot[] = [];
  let furthest = from;
  let read = { at: from.at, room: limit - lengthIn(blocks[from.block]?.fence?.reopen ?? "", unit) };
  for (let block = from.block; block < blocks.length; block++) {
    const { start, end, fence } = blocks[block]!;
    const begin = Math.max(read.at, start);
    const room = read.room - lengthIn(text.slice(read.at, begin), unit);
    const close = lengthIn(fence?.reclose ?? "", unit);
    read = advance(text, begin, end, room - close, unit);
    if (room >= close) {
      furthest = { at: read.at, block };
      if (fence === null) spots.push({ at: begin, block, rank: 0 });
      for (const { at, rank } of breaksIn(text.slice(begin, read.at + 1), fence !== null)) {
        const isWithin = begin + at <= read.at && (fence === null || begin + at < end);
        if (isWithin) spots.push({ at: begin + at, block, rank });
      }
      if (fence === null && read.at === end) spots.push({ at: end, block, rank: 0 });
    }
    read = advance(text, read.at, end, read.room + close, unit);
    if (read.at < end || read.room < 0) break;
  }
  // A part of nothing but white space is not made where it can be helped.
  const words = text.slice(from.at, furthest.at);
  const least = furthest.at - words.trimStart().length;
  return { spots: spots.filter(({ at }) => at > least), furthest };
}

/** Goes on over code points for as long as there is room. */
function advance(text: string, from: number, end: number, most: number, unit: Unit): { at: number; room: number } {
  let [at, room] = [from, most];
  while (at < end) {
    const code = text.codePointAt(at)!;
    const width = widthOf(code, unit);
    if (width > room) break;
    room -= width;
    at += unitsOf(code);
  }
  return { at, room };
}

/** Chooses the end of a part; null where its first grapheme has room only without the fences. */
function bestCut(whole: Whole, from: Spot, spots: readonly RankedSpot[], furthest: Spot): Spot | null {
  const { text, blocks, limit, unit } = whole;
  const graphemes = segmenter.segment(text.slice(from.at, furthest.at + 2));
  const edgeUpTo = (at: number): number => from.at + (graphemes.containing(at - from.at)?.index ?? 0);
  const isEdge = ({ at }: Spot): boolean => edgeUpTo(at) === at;
  const canCut = (spot: Spot): boolean => isEdge(spot) && !makesFence(whole, from.at, spot);
  const quarter = advance(text, from.at, furthest.at, limit / 4, unit).at;
  const long = spots.filter(({ at }) => at >= quarter);
  const best = bestOf(long, canCut) ?? bestOf(spots, canCut);
  if (best !== undefined) return best;

  const last = { at: edgeUpTo(furthest.at), block: furthest.block };
  const least = Math.max(from.at + 1, blocks[furthest.block]!.start);
  for (let { at } = last, step = 0; step < MOST_STEPS && at >= least; at = edgeUpTo(at - 1), step++) {
    if (!makesFence(whole, from.at, { at, block: furthest.block })) return { at, block: furthest.block };
  }
  const forced = bestOf(spots, isEdge) ?? last;
  if (forced.at > from.at) return forced;
  if (lengthIn(firstGrapheme(whole, from), unit) <= limit) return null;
  return { at: Math.max(furthest.at, from.at + unitsOf(text.codePointAt(from.at)!)), block: furthest.block };
}

/** The last one of the best rank. */
function bestOf(spots: readonly RankedSpot[], canCut: (spot: Spot) => boolean): RankedSpot | undefined {
  for (const rank of RANKS) {
    const found = spots.findLast((spot) => spot.rank === rank && canCut(spot));
    if (found !== undefined) return found;
  }
  return undefined;
}

function loneGrapheme(whole: Whole, from: Spot): Piece {
  return { open: "", text: firstGrapheme(whole, from), close: "" };
}

function firstGrapheme({ text, limit }: Whole, { at }: Spot): string {
  return segmenter.segment(text.slice(at, at + 2 * limit + 2)).containing(0)!.segment;
}

/** True where one half of a line that is cut here would be read as the line of a fence, which the whole is not. */
function makesFence({ text, blocks }: Whole, start: number, { at, block }: Spot): boolean {
  if (text[at - 1] === "\n") return false;
  const fence = blocks[block]?.fence ?? null;
  const head = text.slice(Math.max(start, at - FENCE_LOOK), at);
  const tail = text.slice(at, at + FENCE_LOOK);
  return readFenceLine(tail, 0, fence) !== null || readFenceLine(head, head.lastIndexOf("\n") + 1, fence) !== null;
}
