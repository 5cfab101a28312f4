import { appendFileSync, chmodSync, readFileSync, renameSync, writeFileSync } from "node:fs";

export const HISTORY_SIZE = 1_000;

/** The lines typed at this terminal, newest first. Throws the system's error for a file that is there and cannot be read. */
export function readHistory(path: string): string[] {
  const lines = textOf(path).split("\n").filter(Boolean);
  if (lines.length > HISTORY_SIZE) {
    const next = `${path}.new`;
    writeFileSync(next, `${lines.slice(-HISTORY_SIZE).join("\n")}\n`, { mode: 0o600 });
    renameSync(next, path);
  }
  return lines.slice(-HISTORY_SIZE).reverse();
}

/** 0600: what one types may hold secrets. */
export function addToHistory(path: string, line: string): void {
  appendFileSync(path, `${line}\n`, { mode: 0o600 });
}

function textOf(path: string): string {
  try {
    chmodSync(path, 0o600);
    return readFileSync(path, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw cause;
  }
}
