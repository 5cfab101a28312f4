import { readFileSync, writeFileSync } from "node:fs";
import { type ConfigKey, configKeys } from "../src/config/schema.ts";

/** Writes the table of docs/configuration.md as the schema has it. With `--check` it writes nothing, and exits 1 where the page is stale. */
const PAGE = "docs/configuration.md";
const HEAD = ["key", "default", "range", "what it does"];
/** The header, the line below it and the rows. */
const TABLE = /^\| key .*\n(?:\|.*\n)*/m;

const page = readFileSync(PAGE, "utf8");
const fresh = page.replace(TABLE, () => tableOf(configKeys()));
if (process.argv[2] !== "--check") writeFileSync(PAGE, fresh);
else if (fresh !== page || !TABLE.test(page)) {
  console.error(`${PAGE}: its table is not what src/config/schema.ts says; run \`npm run docs\``);
  process.exitCode = 1;
}

function tableOf(keys: readonly ConfigKey[]): string {
  // The keys of a policy stand under reset.default.
  const listed = keys.filter(({ path }) => !/^reset\.\w+\.\*\./.test(path));
  const missing = listed.filter(({ text }) => text === "");
  if (missing.length > 0) throw new Error(`No description: ${missing.map(({ path }) => path).join(", ")}`);
  const rows = [HEAD, ...listed.map(rowOf)];
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, n) => cell.padEnd(widths[n]!)).join(" | ")} |\n`;
  const [head, ...body] = rows.map(line);
  return `${head}${line(widths.map((width) => "-".repeat(width)))}${body.join("")}`;
}

function rowOf({ path, fallback, allowed, text }: ConfigKey): string[] {
  const key = path.replace("*", placeholderIn(path));
  const shown = fallback === undefined ? "–" : `\`${Array.isArray(fallback) ? "[]" : String(fallback)}\``;
  return [`\`${key}\``, shown, allowed, text];
}

function placeholderIn(path: string): string {
  if (/^(?:access|platforms|reset\.platforms)\./.test(path)) return "<platform>";
  if (/^(?:reset\.)?chats\./.test(path)) return "<key>";
  return path.startsWith("reset.types.") ? "<type>" : "<name>";
}
