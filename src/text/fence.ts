/** A code fence as CommonMark reads it, in list items and quotes too. */
export interface Fence {
  readonly mark: string;
  readonly run: number;
  /** Characters before the run. */
  readonly column: number;
  /** The depth of the quote it stands in. */
  readonly quotes: number;
  /** What its further lines begin with: quote marks stay, list markers are indentation. */
  readonly prefix: string;
  /** What follows the run: the language, usually. */
  readonly info: string;
}

/** What a line is to the fence that is open before it. `head` is behind its run, `end` behind its line break. */
export type FenceLine =
  | { readonly kind: "opens"; readonly fence: Fence; readonly head: number; readonly end: number }
  | { readonly kind: "closes"; readonly head: number; readonly end: number }
  | { readonly kind: "text" }
  /** The quote with the fence is over: the line is outside, and may open another. */
  | { readonly kind: "leaves"; readonly next: FenceLine };

export function isFence(line: FenceLine): line is Extract<FenceLine, { kind: "opens" | "closes" }> {
  return line.kind === "opens" || line.kind === "closes";
}

const FENCE_LINE = /((?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t]){0,64})(`{3,}|~{3,})([^\n]*)/y;
const QUOTE = /[ \t>]{0,64}/y;

/** `start` is the start of a line. */
export function readFenceLine(text: string, start: number, open: Fence | null): FenceLine {
  if (open !== null && open.quotes > quotesAt(text, start)) {
    return { kind: "leaves", next: readFenceLine(text, start, null) };
  }
  FENCE_LINE.lastIndex = start;
  const match = FENCE_LINE.exec(text);
  if (match === null) return { kind: "text" };
  const [all, lead = "", run = "", rest = ""] = match;
  const places = { head: start + lead.length + run.length, end: Math.min(text.length, start + all.length + 1) };
  if (open !== null) return isCloser(open, lead, run, rest) ? { kind: "closes", ...places } : { kind: "text" };
  const mark = run.charAt(0);
  // With a backtick behind it, it is code within a line.
  if (mark === "`" && rest.includes("`")) return { kind: "text" };
  const prefix = lead.replace(/[^\t>]/g, " ");
  const fence: Fence = {
    mark,
    run: run.length,
    column: lead.length,
    quotes: countQuotes(lead),
    prefix,
    info: rest.trimEnd(),
  };
  return { kind: "opens", fence, ...places };
}

function isCloser(open: Fence, lead: string, run: string, rest: string): boolean {
  return (
    run.startsWith(open.mark) &&
    run.length >= open.run &&
    lead.length <= Math.max(3, open.column) &&
    rest.trim() === "" &&
    /^[ \t>]*$/.test(lead)
  );
}

function quotesAt(text: string, start: number): number {
  QUOTE.lastIndex = start;
  return countQuotes(QUOTE.exec(text)?.[0] ?? "");
}

function countQuotes(lead: string): number {
  return lead.split(">").length - 1;
}
