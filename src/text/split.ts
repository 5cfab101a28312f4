import { CutScanner, type FurthestSpot, type RankedSpot, type Spot } from "./cut-scanner.ts";
import { isFence, readFenceLine } from "./fence.ts";
import { NEWLINE, RANKS } from "./line-reader.ts";
import { type Limit, lengthIn, unitsOf } from "./unit.ts";

/** A part before it is put together: the text, and the fences that were added to it. */
export interface Piece {
  readonly open: string;
  readonly text: string;
  readonly close: string;
}

interface Cut extends Spot {
  /** Without added fences. */
  readonly isBare: boolean;
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

function pieceBetween(text: string, from: Spot, to: Cut): Piece {
  const words = text.slice(from.at, to.at);
  if (to.isBare) return { open: "", text: words, close: "" };
  const reclose = to.fence?.reclose ?? "";
  return { open: from.fence?.reopen ?? "", text: words, close: words.endsWith("\n") ? reclose.slice(1) : reclose };
}

function nextCut(text: string, from: Spot, limit: Limit): Cut {
  const survey = new CutScanner(text, from, limit);
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
