import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Lists the rules of docs/contract.md and the cases of docs/reported-failures.md that no test names. A test names a rule at the
 * beginning of its name ("K9", "H1, H2", "K1–K4", "G-KEY-01 K16 …", "R4 …") or in brackets further on ("… (T3)"), and a case ("F-SEC-01")
 * anywhere in it; a table of `.each` may name them in its rows. Prints what is missing, and what does not fit: a rule defined twice, a
 * number that is no rule, a case whose row lists other files than those that name it. `--write` fills that column of the table.
 * Exits 0; with `--strict` 1 where anything was printed but the counts and the written gaps.
 */
const CONTRACT = "docs/contract.md";
const CASES = "docs/reported-failures.md";
const TESTS = ["src", "test"];

const RULE = /[SKRTBCGHDOAE]\d{1,2}(?!\d)/;
const RULE_OR_RANGE = new RegExp(
  String.raw`(?<![\w-])(${RULE.source})(?:\s?(?:–|-|\.\.|to)\s?(${RULE.source}))?(?![\w])`,
  "g",
);
/** Rules, and ids of reported cases (G-KEY-01), as a name begins with them. */
const HEAD = new RegExp(String.raw`^(?:(?:${RULE.source}(?![\w])|[A-Z]-[A-Z]+-\d+)(?:[\s,;:+&/–.-]|and |to )*)+`);

interface Contract {
  /** Section titles by letter, and rule numbers, both in the order of the page. */
  readonly sections: ReadonlyMap<string, string>;
  readonly rules: readonly string[];
  /** Rules that the page says are not kept yet: they need no test, and leave that line when they get one. */
  readonly gaps: readonly string[];
}

/** A rule is defined where its number stands in bold at the start of a list item or a table row. */
export function readContract(markdown: string): Contract {
  const sections = [...markdown.matchAll(/^## ([A-Z]): (.+)$/gm)].map((match) => [match[1]!, match[2]!] as const);
  const rules = [...markdown.matchAll(/^\s*(?:[-*]|\|) \*\*([A-Z]\d+)\*\*/gm)].map((match) => match[1]!);
  const gaps = /^Rules that this build does not keep yet: (.*)\.$/m.exec(markdown)?.[1]?.split(", ") ?? [];
  return { sections: new Map(sections), rules, gaps };
}

/** The rules that a name of a test holds; a range names all between its ends. */
export function rulesIn(name: string): string[] {
  const head = HEAD.exec(name.trimStart())?.[0] ?? "";
  const brackets = [...name.matchAll(/\(([^()]*)\)/g)].map((match) => match[1]!).filter((text) => HEAD.test(text));
  return [head, ...brackets].flatMap((text) =>
    [...text.matchAll(RULE_OR_RANGE)].flatMap((match) => between(match[1]!, match[2])),
  );
}

function between(first: string, last: string | undefined): string[] {
  const from = Number(first.slice(1));
  const to = last === undefined || last[0] !== first[0] ? from : Number(last.slice(1));
  const range = Array.from({ length: Math.max(0, to - from) + 1 }, (_, i) => `${first[0]}${from + i}`);
  return last === undefined || range.includes(last) ? range : [...range, last];
}

/** The names of `test(`, `it(` and `describe(` calls in a source text, with what their tables put into them. */
export function testNames(source: string): string[] {
  const names: string[] = [];
  for (const call of source.matchAll(/(?<![\w.$])(?:test|it|describe)((?:\.\w+)*)(?:<[^()`]*>)?([(`])/g)) {
    const line = source.slice(source.lastIndexOf("\n", call.index) + 1, call.index);
    if (/^\s*\/?\*|\/\//.test(line)) continue;
    const opening = call.index + call[0].length - 1;
    const isTable = /\.(each|for)$/.test(call[1]!);
    const direct = isTable ? undefined : readString(source, opening + 1);
    // `.each(rows)(name, …)`, `.skipIf(condition)(name, …)`: the name is in the second pair of brackets.
    const end = direct === undefined ? endOf(source, opening) : opening;
    const name = direct ?? (source[end] === "(" ? readString(source, end + 1) : undefined);
    if (name === undefined) continue;
    names.push(name);
    if (isTable && name.startsWith("%")) names.push(...firstCells(source.slice(opening + 1, end)));
    // `$says`, or `${vector.says}`: the strings of that field name the tests.
    const field = /^\$\{?(?:\w+\.)*(\w+)/.exec(name)?.[1];
    if (field !== undefined) names.push(...fieldsOf(source, field));
  }
  return names;
}

/** The reported failures that a name of a test holds. */
export function casesIn(name: string): string[] {
  return name.match(/(?<![\w-])[FG]-[A-Z]+-\d+(?!\d)/g) ?? [];
}

function fieldsOf(source: string, field: string): string[] {
  return [...source.matchAll(new RegExp(String.raw`\b${field}:\s*(?=["'\`])`, "g"))].flatMap((match) => {
    const value = readString(source, match.index + match[0].length);
    return value === undefined ? [] : [value];
  });
}

/** The string that begins at `at` or after white space there; interpolations stay as they are written. */
function readString(source: string, at: number): string | undefined {
  const start = at + (/^\s*/.exec(source.slice(at, at + 400))?.[0].length ?? 0);
  const quote = source[start];
  if (quote === undefined || !`"'\``.includes(quote)) return undefined;
  return source.slice(start + 1, endOf(source, start) - 1);
}

/** What `%s` at the beginning of a name stands for: the first string of each row, or each string of a plain list. */
function firstCells(table: string): string[] {
  const isPlain = !/\[[^\]]*[[{]/.test(table);
  const found: string[] = [];
  for (let at = 0; at < table.length; at++) {
    if (!`"'\``.includes(table[at]!)) continue;
    const end = endOf(table, at);
    if (isPlain || /\[\s*$/.test(table.slice(0, at))) found.push(table.slice(at + 1, end - 1));
    at = end - 1;
  }
  return found;
}

/** The index after the string or the bracketed text that opens at `at`. Comments and regular expressions are not known to it. */
function endOf(source: string, at: number): number {
  const quote = source[at]!;
  const isString = `"'\``.includes(quote);
  let depth = 0;
  for (let i = at; i < source.length; i++) {
    const character = source[i]!;
    if (isString) {
      if (character === "\\") i++;
      else if (i > at && character === quote) return i + 1;
    } else if (`"'\``.includes(character)) i = endOf(source, i) - 1;
    else if ("([{".includes(character)) depth++;
    else if (")]}".includes(character) && --depth === 0) return i + 1;
  }
  return source.length;
}

/** One row of the table of cases: its id, and the line with its cells. */
interface CaseRow {
  readonly id: string;
  readonly cells: readonly string[];
}

const NONE = "none";

/** The rows of docs/reported-failures.md; the third cell lists the tests. */
export function readCases(markdown: string): CaseRow[] {
  return markdown.split("\n").flatMap((line) => {
    const cells = cellsOf(line);
    const id = /^[FG]-[A-Z]+-\d+$/.exec(cells[0] ?? "")?.[0];
    return id === undefined ? [] : [{ id, cells }];
  });
}

function cellsOf(line: string): string[] {
  return line.startsWith("|")
    ? line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim())
    : [];
}

function testsCell(files: ReadonlySet<string> | undefined): string {
  return files === undefined
    ? NONE
    : [...files]
        .sort()
        .map((file) => `\`${file}\``)
        .join(", ");
}

/** The page with the third cell of each row as the tests say, and its tables aligned. */
export function withTests(markdown: string, tests: ReadonlyMap<string, ReadonlySet<string>>): string {
  const lines = markdown.split("\n").map((line) => {
    const [id = "", text = "", , ...rest] = cellsOf(line);
    return /^[FG]-[A-Z]+-\d+$/.test(id) ? [id, text, testsCell(tests.get(id)), ...rest] : line;
  });
  return alignTables(lines.map((line) => (typeof line === "string" ? line : `| ${line.join(" | ")} |`)).join("\n"));
}

function alignTables(markdown: string): string {
  return markdown.replace(/(?:^\|.*\n)+/gm, (table) => {
    const rows = table.trimEnd().split("\n").map(cellsOf);
    const widths = rows[0]!.map((_, column) =>
      Math.max(...rows.map((row, at) => (at === 1 ? 3 : row[column]!.length))),
    );
    const aligned = rows.map((row, at) =>
      row.map((cell, column) => (at === 1 ? "-".repeat(widths[column]!) : cell.padEnd(widths[column]!))),
    );
    return `${aligned.map((row) => `| ${row.join(" | ")} |`).join("\n")}\n`;
  });
}

/** What the contract and the tests do not agree on. */
export function compare(contract: Contract, named: ReadonlySet<string>) {
  const known = new Set(contract.rules);
  return {
    missing: contract.rules.filter((rule) => !named.has(rule)),
    twice: contract.rules.filter((rule, index) => contract.rules.indexOf(rule) !== index),
    unknown: [...named].filter((rule) => !known.has(rule)).sort(),
  };
}

/** By rule or case: the files whose tests name it. */
function namedByTests(idsIn: (name: string) => string[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const file of testFiles())
    for (const id of testNames(readFileSync(file, "utf8")).flatMap(idsIn))
      found.set(id, (found.get(id) ?? new Set()).add(file));
  return found;
}

function testFiles(): string[] {
  return TESTS.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
  ).filter((file) => /\.(test|contract|suite)\.ts$/.test(file));
}

/** Prints what does not fit between rules and tests; returns how much of it fails a strict run. */
function reportRules(): number {
  const contract = readContract(readFileSync(CONTRACT, "utf8"));
  const { gaps } = contract;
  const { missing, twice, unknown } = compare(contract, new Set(namedByTests(rulesIn).keys()));
  for (const [letter, title] of contract.sections) {
    const ofSection = missing.filter((rule) => rule.startsWith(letter));
    if (ofSection.length > 0) console.log(`${letter} (${title}): ${ofSection.join(", ")}`);
  }
  const total = new Set(contract.rules).size;
  console.log(
    `${total - missing.length} of ${total} rules are named by a test; known gaps: ${gaps.join(", ") || NONE}`,
  );
  const held = gaps.filter((rule) => !missing.includes(rule));
  for (const rule of twice) console.error(`${rule} is defined twice in ${CONTRACT}`);
  for (const rule of unknown) console.error(`${rule} is named by a test, but is no rule of ${CONTRACT}`);
  for (const rule of held) console.error(`${rule} is named by a test: it is no gap any more`);
  return missing.filter((rule) => !gaps.includes(rule)).length + twice.length + unknown.length + held.length;
}

function reportCases(isWriting: boolean): number {
  const tests = namedByTests(casesIn);
  if (isWriting) writeFileSync(CASES, withTests(readFileSync(CASES, "utf8"), tests));
  const rows = readCases(readFileSync(CASES, "utf8"));
  const missing = rows.filter(({ id }) => !tests.has(id)).map(({ id }) => id);
  const stale = rows.filter(({ id, cells }) => cells[2] !== testsCell(tests.get(id))).map(({ id }) => id);
  const known = new Set(rows.map(({ id }) => id));
  const unknown = [...tests.keys()].filter((id) => !known.has(id)).sort();
  if (missing.length > 0) console.log(`reported failures without a test: ${missing.join(", ")}`);
  console.log(`${rows.length - missing.length} of ${rows.length} reported failures are named by a test`);
  if (stale.length > 0)
    console.error(`${CASES} lists other tests than name ${stale.join(", ")}: npm run rules -- --write`);
  for (const id of unknown) console.error(`${id} is named by a test, but has no row in ${CASES}`);
  return missing.length + stale.length + unknown.length;
}

function main(flags: readonly string[]): void {
  const faults = reportRules() + reportCases(flags.includes("--write"));
  if (flags.includes("--strict") && faults > 0) process.exitCode = 1;
}

if (import.meta.main) main(process.argv.slice(2));
