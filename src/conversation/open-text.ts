/**
 * What was said in one's own words: not quoted, not code, not an address of something. Spots are blanked, so that nothing grows together.
 * Each step reads the text once, whatever stands in it: strangers write it, and the whole gateway waits (A2).
 */

const BLANKED = " \u0001 ";

/** `text` is folded: one width, lower case. */
export function openText(text: string): string {
  return withoutAddresses(withoutLinks(withoutQuotes(withoutCode(withoutFences(text)))));
}

/** From a line that opens a fence to the one that closes it, or to the end. */
function withoutFences(text: string): string {
  const open: string[] = [];
  let mark: string | null = null;
  for (const line of text.split("\n")) {
    const start = line.trimStart();
    if (mark !== null) {
      if (start.startsWith(mark)) mark = null;
      continue;
    }
    mark = ["```", "~~~"].find((one) => start.startsWith(one)) ?? null;
    open.push(mark === null ? line : BLANKED);
  }
  return open.join("\n");
}

/** From a run of backticks to the next one of the same length. */
function withoutCode(text: string): string {
  const runs = [...text.matchAll(/`+/g)].map(({ index, 0: { length } }) => ({ at: index, length }));
  /** For each run the next one of its length. */
  const closers: (number | undefined)[] = [];
  const nextOfLength = new Map<number, number>();
  for (let run = runs.length - 1; run >= 0; run--) {
    closers[run] = nextOfLength.get(runs[run]!.length);
    nextOfLength.set(runs[run]!.length, run);
  }
  let open = "";
  let from = 0;
  for (let run = 0; run < runs.length; run++) {
    const closer = closers[run];
    if (closer === undefined) continue;
    open += text.slice(from, runs[run]!.at) + BLANKED;
    from = runs[closer]!.at + runs[closer]!.length;
    run = closer;
  }
  return open + text.slice(from);
}

function withoutQuotes(text: string): string {
  return text
    .split("\n")
    .map((line) => (line.trimStart().startsWith(">") ? " " : line))
    .join("\n");
}

/** `[words](where)`: the words stay. */
function withoutLinks(text: string): string {
  let open = "";
  let from = 0;
  for (let at = text.indexOf("]("); at >= 0; at = text.indexOf("](", at)) {
    const end = endOfRun(text, at + 2, ")");
    if (text[end] === ")") {
      open += `${text.slice(from, at)}] `;
      from = end + 1;
    }
    at = end;
  }
  return open + text.slice(from);
}

/** `mailto:a@b`, `https://a/b`, `a.example/b`: from where one begins to the end of its run. */
function withoutAddresses(text: string): string {
  let open = "";
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (isSpace(text[at]!) || BRACKETS.includes(text[at]!)) continue;
    const end = endOfRun(text, at, BRACKETS);
    const run = text.slice(at, end);
    const start = Math.min(startOfUri(run), startOfHost(run));
    if (start < run.length) {
      open += text.slice(from, at + start) + BLANKED;
      from = end;
    }
    at = end;
  }
  return open + text.slice(from);
}

/** An address may stand between them. */
const BRACKETS = "<>";
const SCHEME_LETTER = /[a-z0-9+.-]/;
const HOST_LETTER = /[a-z0-9-]/;
const WORD_LETTER = /\w/;

/** A scheme with a colon, and an `@` or a slash somewhere behind it. The length of the run where there is none. */
function startOfUri(run: string): number {
  const last = Math.max(run.lastIndexOf("@"), run.lastIndexOf("/"));
  let start: number | null = null;
  for (let at = 0; at < last; at++) {
    const letter = run[at]!;
    if (letter === ":" && start !== null) return start;
    if (!SCHEME_LETTER.test(letter)) start = null;
    else if (start === null && /[a-z]/.test(letter) && !WORD_LETTER.test(run[at - 1] ?? "")) start = at;
  }
  return run.length;
}

/** Names with dots between them, the last of two letters or more, and a slash behind it. */
function startOfHost(run: string): number {
  let start = 0;
  /** Of the name that is being read. */
  let name = 0;
  for (let at = 0; at < run.length; at++) {
    const letter = run[at]!;
    if (HOST_LETTER.test(letter)) continue;
    if (letter === "/" && name > start && /^[a-z]{2,}$/.test(run.slice(name, at))) return start;
    if (letter !== "." || at === name) start = at + 1;
    name = at + 1;
  }
  return run.length;
}

/** The next white space, or one of the marks. */
function endOfRun(text: string, from: number, marks: string): number {
  let at = from;
  while (at < text.length && !marks.includes(text[at]!) && !isSpace(text[at]!)) at++;
  return at;
}

function isSpace(letter: string): boolean {
  return /\s/.test(letter);
}
