/**
 * A block in a file of somebody else's: the lines between two marker comments are ours, every byte outside them is not. Works on
 * bytes, for such a file may hold anything. Markers made by other programs are taken as they are: whatever follows on a
 * marker's line is kept.
 */
export interface Markers {
  readonly begin: string;
  readonly end: string;
}

export const DIGEST_MARKERS: Markers = { begin: "<!-- CROSS-PLATFORM:BEGIN", end: "<!-- CROSS-PLATFORM:END" };
export const GUIDE_MARKERS: Markers = { begin: "<!-- TERTULIA-GUIDE:BEGIN", end: "<!-- TERTULIA-GUIDE:END" };

/** Why a block cannot be told apart from the text around it. */
export type Damage =
  | "the end marker is missing"
  | "the begin marker is missing"
  | "there are several begin markers"
  | "there are several end markers"
  | "the end marker stands before the begin marker"
  | "both markers stand on one line"
  | "the comment of the begin marker is not closed on its line"
  | "the comment of the end marker is not closed on its line"
  | "a code fence before the block is not closed";

export type Found =
  /** `isQuoted`: the file speaks of the markers, in prose, a quotation or a code fence. */
  | { readonly kind: "absent"; readonly isQuoted: boolean }
  | { readonly kind: "damaged"; readonly why: Damage }
  /** What is ours goes from `from` to before `to`; the marker lines from `lineFrom` to before `lineTo` (with the last one's line end). */
  | {
      readonly kind: "block";
      readonly from: number;
      readonly to: number;
      readonly lineFrom: number;
      readonly lineTo: number;
      readonly beginLine: string;
      readonly newline: "\n" | "\r\n";
    };

/**
 * D7: a marker is a whole line that begins with the marker's comment and closes it at its end. A line inside a code fence is the file's
 * own text. Only between the markers may a fence be left open: what is there was written by a program, which may have cut it.
 */
export function findBlock(bytes: Buffer, markers: Markers): Found {
  const { begins, ends } = markerLines(bytes, markers);
  const damaged = (why: Damage): Found => ({ kind: "damaged", why });
  const [first] = begins;
  const [last] = ends;
  if (first === undefined && last === undefined)
    return { kind: "absent", isQuoted: bytes.includes(markers.begin) || bytes.includes(markers.end) };
  if (first === undefined) return damaged("the begin marker is missing");
  if (first.text.includes(markers.end)) return damaged("both markers stand on one line");
  if (last === undefined) return damaged("the end marker is missing");
  if (begins.length > 1) return damaged("there are several begin markers");
  if (ends.length > 1) return damaged("there are several end markers");
  if (last.from < first.from) return damaged("the end marker stands before the begin marker");
  if (!isClosed(first)) return damaged("the comment of the begin marker is not closed on its line");
  if (!isClosed(last)) return damaged("the comment of the end marker is not closed on its line");
  const newline = first.text.endsWith("\r") ? "\r\n" : "\n";
  const beginLine = bytes.toString("utf8", first.from, first.to - 1);
  return { kind: "block", from: first.to, to: last.from, lineFrom: first.from, lineTo: last.to, beginLine, newline };
}

/** One line of a file; `to` is behind its line end. The text is read byte by byte (latin1), without the line feed. */
interface Line {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

function isClosed({ text }: Line): boolean {
  return text.trimEnd().endsWith("-->");
}

/** The lines that are markers, open comments among them. */
function markerLines(bytes: Buffer, { begin, end }: Markers): { begins: Line[]; ends: Line[] } {
  const begins: Line[] = [];
  const ends: Line[] = [];
  /** End markers in a fence that was opened in the block: they count if it is never closed. */
  let fenced: Line[] = [];
  let fence: string | null = null;
  /** What ends the HTML that stands as it is; it quotes like a fence, and only the file's own can. */
  let html: RegExp | null = null;
  for (const line of linesOf(bytes)) {
    if (fence === null && begins.length === ends.length) {
      const wasOpen = html !== null;
      const isAny = isMarker(line.text, begin) || isMarker(line.text, end);
      if (html === null && !isAny) html = rawHtmlAt(line.text);
      if (html?.test(line.text)) html = null;
      if (wasOpen || html !== null) continue;
    }
    fence = fenceAfter(line.text, fence);
    if (fence === null) fenced = [];
    const isInBlock = begins.length > ends.length;
    if (fence !== null && isInBlock && isMarker(line.text, end)) fenced.push(line);
    if (fence !== null) continue;
    if (isMarker(line.text, begin)) begins.push(line);
    else if (isMarker(line.text, end)) ends.push(line);
  }
  return { begins, ends: [...ends, ...fenced] };
}

/** `BEGINNER` is another word. */
function isMarker(text: string, marker: string): boolean {
  const next = text.slice(marker.length);
  return text.startsWith(marker) && (next.trimEnd() === "" || /^\s/.test(next) || next.startsWith("-->"));
}

/** Also as the first thing of an item in a list, where the line that closes it is indented less. */
const FENCE = /^((?: {0,3}(?:[-*+]|\d{1,9}[.)]) +)*) {0,3}(`{3,}|~{3,})(.*)$/;

/** The code fence that is open behind a line: its opening characters, or null. */
function fenceAfter(text: string, open: string | null): string | null {
  const [, item = "", marks, info = ""] = FENCE.exec(text.trimEnd()) ?? [];
  if (marks === undefined) return open;
  if (open !== null) return item === "" && marks.startsWith(open) && info === "" ? null : open;
  return marks.startsWith("`") && info.includes("`") ? null : marks;
}

/** The end of an HTML block that begins in the line and may hold empty lines, as Markdown has it; null where none does. */
function rawHtmlAt(text: string): RegExp | null {
  if (/^ {0,3}<!--/.test(text)) return /-->/;
  return /^ {0,3}<(?:pre|script|style|textarea)(?=[\s>]|$)/i.test(text) ? /<\/(?:pre|script|style|textarea)>/i : null;
}

const BOM = "\u00ef\u00bb\u00bf";

function* linesOf(bytes: Buffer): Generator<Line> {
  for (let from = 0; from < bytes.length; ) {
    const at = bytes.indexOf("\n", from);
    const end = at < 0 ? bytes.length : at;
    const text = bytes.toString("latin1", from, end);
    const start = from === 0 && text.startsWith(BOM) ? BOM.length : 0;
    const to = at < 0 ? end : at + 1;
    yield { from: from + start, to, text: text.slice(start) };
    from = to;
  }
}

/** The file with other lines between the markers; the same object where they are there already. */
export function fillBlock(bytes: Buffer, block: Found & { kind: "block" }, content: string): Buffer {
  const text = content === "" ? "" : `${content}\n`.replaceAll("\n", block.newline);
  const inner = Buffer.from(text);
  if (bytes.subarray(block.from, block.to).equals(inner)) return bytes;
  return Buffer.concat([bytes.subarray(0, block.from), inner, bytes.subarray(block.to)]);
}

/**
 * The file with a new block at its end: one line end in front of it, always, which `removeBlock` takes away again. None in a file that
 * was not there (null).
 */
export function addBlock(
  bytes: Buffer | null,
  markers: Markers,
  { label, content }: { label: string; content: string },
): Buffer {
  const newline = bytes?.includes("\r\n") ? "\r\n" : "\n";
  const lines = [`${markers.begin} ${label} -->`, ...content.split("\n"), `${markers.end} -->`, ""].join(newline);
  return bytes === null ? Buffer.from(lines) : Buffer.concat([bytes, Buffer.from(newline + lines)]);
}

/** The file without the block and its markers; as it was before `addBlock` where nothing was changed around it. */
export function removeBlock(bytes: Buffer, block: Found & { kind: "block" }): Buffer {
  const before = bytes.subarray(0, block.lineFrom);
  const after = bytes.subarray(block.lineTo);
  // A lone CR in front of it is the file's own.
  const size = before.toString("latin1").endsWith(block.newline) ? block.newline.length : 0;
  const rest = before.subarray(0, before.length - size);
  // Without a line end of its own the text before would run into the text after.
  const isAlone = after.length === 0 || rest.length === 0 || rest.at(-1) === 10;
  return Buffer.concat([isAlone ? rest : before, after]);
}
