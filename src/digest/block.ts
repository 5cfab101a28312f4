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
  | "the comment of the end marker is not closed on its line";

export type Found =
  | { readonly kind: "absent" }
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

export function findBlock(bytes: Buffer, { begin, end }: Markers): Found {
  const begins = allOf(bytes, begin);
  const ends = allOf(bytes, end);
  if (begins.length === 0 && ends.length === 0) return { kind: "absent" };
  const damaged = (why: Damage): Found => ({ kind: "damaged", why });
  if (begins.length === 0) return damaged("the begin marker is missing");
  if (ends.length === 0) return damaged("the end marker is missing");
  if (begins.length > 1) return damaged("there are several begin markers");
  if (ends.length > 1) return damaged("there are several end markers");
  const [first, last] = [begins[0]!, ends[0]!];
  if (last < first) return damaged("the end marker stands before the begin marker");
  const lineEnd = bytes.indexOf("\n", first);
  if (lineEnd < 0 || lineEnd > last) return damaged("both markers stand on one line");
  if (!isClosed(bytes.subarray(first, lineEnd)))
    return damaged("the comment of the begin marker is not closed on its line");
  const endLineEnd = bytes.indexOf("\n", last);
  const lineTo = endLineEnd < 0 ? bytes.length : endLineEnd + 1;
  if (!isClosed(bytes.subarray(last, lineTo)))
    return damaged("the comment of the end marker is not closed on its line");
  const newline = bytes[lineEnd - 1] === 13 ? "\r\n" : "\n";
  const beginLine = bytes.toString("utf8", first, lineEnd);
  return { kind: "block", from: lineEnd + 1, to: last, lineFrom: first, lineTo, beginLine, newline };
}

function isClosed(line: Buffer): boolean {
  return line.includes("-->");
}

function allOf(bytes: Buffer, marker: string): number[] {
  const found: number[] = [];
  for (let at = bytes.indexOf(marker); at >= 0; at = bytes.indexOf(marker, at + 1)) found.push(at);
  return found;
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
