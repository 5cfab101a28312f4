import { type Limit, lengthIn } from "./unit.ts";

/** The line of a code fence, as CommonMark reads it, in list items and quotes too. */
export interface FenceLine {
  /** The text before the run: spaces, quote marks, a list marker. */
  readonly lead: string;
  /** The backticks or tildes. */
  readonly run: string;
  /** The text behind the run: the language, usually. */
  readonly info: string;
  /** The position behind the run. */
  readonly head: number;
  /** The position behind the line break. */
  readonly end: number;
}

/** A fence with the lines that close it at the end of a part and open it again in the next; both are empty where they have no room. */
interface OpenFence extends FenceLine {
  readonly reopen: string;
  readonly reclose: string;
}

/** A stretch of text in which a part may end. Between two blocks stands the line that opens or closes a fence, or nothing. */
export interface Block {
  readonly start: number;
  readonly end: number;
  readonly fence: OpenFence | null;
}

const FENCE_LINE = /((?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t]){0,64})(`{3,}|~{3,})([^\n]*)/y;
const QUOTE = /[ \t>]{0,64}/y;

/** Divides a text at its fences. The blocks do not depend on where it is cut. */
export function readBlocks(text: string, { limit, unit }: Limit): readonly Block[] {
  const blocks: Block[] = [];
  let block: Omit<Block, "end"> = { start: 0, fence: null };
  const begin = (end: number, start: number, fence: OpenFence | null): void => {
    blocks.push({ ...block, end });
    block = { start, fence };
  };
  for (let at = 0, next = 0; at < text.length; at = next) {
    next = text.indexOf("\n", at) + 1 || text.length;
    if (block.fence !== null && quotesAt(text, at) < countQuotes(block.fence.lead)) begin(at, at, null);
    const line = readFenceLine(text, at, block.fence);
    // Nobody draws a fence that fills half a part.
    if (line === null || 2 * lengthIn(text.slice(at, line.head), unit) > limit) continue;
    const opened = block.fence === null ? reopenable(line, { limit, unit }) : null;
    const added = opened?.reclose ?? block.fence?.reopen ?? "";
    const isWhole = lengthIn(added + text.slice(at, line.end), unit) <= limit;
    begin(at, isWhole ? line.end : line.head, opened);
  }
  return [...blocks, { ...block, end: text.length }];
}

/** Reads the line at `start` if it closes the open fence, or opens one where none is open. */
export function readFenceLine(text: string, start: number, open: FenceLine | null): FenceLine | null {
  FENCE_LINE.lastIndex = start;
  const [line, lead = "", run = "", info = ""] = FENCE_LINE.exec(text) ?? [];
  if (line === undefined) return null;
  // A backtick behind a run of backticks makes it code within a line.
  const isFence = open === null ? !(run.startsWith("`") && info.includes("`")) : isCloser(open, lead, run, info);
  const end = Math.min(text.length, start + line.length + 1);
  return isFence ? { lead, run, info: info.trimEnd(), head: start + lead.length + run.length, end } : null;
}

function isCloser(open: FenceLine, lead: string, run: string, info: string): boolean {
  const isIndented = /^[ \t>]*$/.test(lead) && lead.length <= Math.max(3, open.lead.length);
  return isIndented && run.startsWith(open.run) && info.trim() === "";
}

/** The further lines of a list item are indented by the width of its marker. */
function reopenable(line: FenceLine, { limit, unit }: Limit): OpenFence {
  const bare = line.lead.replace(/[^\t>]/g, " ") + line.run;
  const reclose = `\n${bare}`;
  const reopen = [`${bare}${line.info}\n`, `${bare}\n`].find((one) => lengthIn(one + reclose, unit) <= (limit * 3) / 4);
  return reopen === undefined ? { ...line, reopen: "", reclose: "" } : { ...line, reopen, reclose };
}

function quotesAt(text: string, start: number): number {
  QUOTE.lastIndex = start;
  return countQuotes(QUOTE.exec(text)?.[0] ?? "");
}

function countQuotes(lead: string): number {
  return lead.split(">").length - 1;
}
