import stringWidth from "string-width";
import { printable } from "./output.ts";

/** One line, whatever others wrote into it. */
export function oneLine(text: string): string {
  return printable(text.replace(/\s+/g, " ")).trim();
}

/** Rows in columns. The last column keeps its own length: the texts of others stand there. */
export function table(rows: readonly (readonly string[])[]): string {
  const lines = rows.map((row) => row.map(oneLine));
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((row) => stringWidth(row[column] ?? ""))));
  const padded = (cell: string, column: number) => cell + " ".repeat((widths[column] ?? 0) - stringWidth(cell));
  return lines
    .map((row) => row.map((cell, column) => (column === row.length - 1 ? cell : padded(cell, column))))
    .map((row) => row.join("  ").trimEnd())
    .join("\n");
}

export function plural(count: number, noun: string): string {
  return `${count} ${count === 1 ? noun : noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
}
