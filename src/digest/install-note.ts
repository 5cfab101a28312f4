import { existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { TertuliaError } from "../errors.ts";
import { isRecord } from "../util/is-record.ts";
import { readBytes, replaceFile } from "./replace-file.ts";

/** What `digest install` was told of a home, so that a later call by the same home finds the same. */
export interface InstallNote {
  /** A state.db of Hermes; null where none was found. */
  readonly state: string | null;
  readonly owners: readonly string[];
  readonly lang: string;
}

const NOTE = join("shared-context", "tertulia-digest.json");

/** Null where nothing was installed. Throws `digest_home` where the note is damaged. */
export function readNote(home: string): InstallNote | null {
  const path = join(home, NOTE);
  const bytes = readBytes(path);
  if (bytes === null) return null;
  const note = parsed(bytes.toString("utf8"));
  if (note !== null) return note;
  throw new TertuliaError("digest_home", `${path} is damaged.`, {
    remedy: "Remove it, and run `tertulia digest install` again.",
  });
}

function parsed(text: string): InstallNote | null {
  try {
    const note: unknown = JSON.parse(text);
    if (!isRecord(note)) return null;
    const { state, owners, lang } = note;
    const isWhole =
      (state === null || typeof state === "string") &&
      Array.isArray(owners) &&
      owners.every((owner) => typeof owner === "string") &&
      typeof lang === "string";
    return isWhole ? { state, owners, lang } : null;
  } catch (cause) {
    if (cause instanceof SyntaxError) return null;
    throw cause;
  }
}

export function writeNote(
  home: string,
  { state, owners, lang }: InstallNote,
  { nonce, now }: { nonce: () => string; now: number },
): void {
  const path = join(home, NOTE);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  replaceFile(path, () => Buffer.from(`${JSON.stringify({ state, owners, lang }, null, 2)}\n`), {
    nonce,
    now,
    mode: 0o600,
  });
}

/** Says whether there was one. */
export function removeNote(home: string): boolean {
  const path = join(home, NOTE);
  const isThere = existsSync(path);
  rmSync(path, { force: true });
  return isThere;
}
