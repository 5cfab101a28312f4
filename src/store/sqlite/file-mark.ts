import { randomInt } from "node:crypto";
import { renameSync, statSync } from "node:fs";
import type { Database } from "./database.ts";

/**
 * The mark of a state file, in the header of its first page: by it a log is known to be the file's own (E5). Each boot gives the file a mark of its own before
 * anything else is written; each log of that boot begins with the mark that follows. A copy of the file made at another time has another mark.
 */
export interface FileMark {
  /** SQLite's application id: a letter of ours and 24 bits. 0 in a file that had no mark yet. */
  readonly id: number;
  /** SQLite's count of schema changes: a rebuilt copy of the file has another one. */
  readonly schema: number;
}

const OURS = 0x54_00_00_00;
const NUMBERS = 0x1_00_00_00;

export function isForeignMark({ id }: FileMark): boolean {
  return id !== 0 && Math.floor(id / NUMBERS) !== OURS / NUMBERS;
}

export function isSameMark(a: FileMark, b: FileMark): boolean {
  return a.id === b.id && (a.id === 0 || a.schema === b.schema);
}

export function isNextMark(mark: FileMark, next: FileMark): boolean {
  return mark.id !== 0 && next.id === nextId(mark.id) && mark.schema === next.schema;
}

function nextId(id: number): number {
  return OURS + ((id + 1) % NUMBERS);
}

/** Marks an open file. */
export class Marker {
  readonly #db: Database;
  #isDue = false;

  constructor(db: Database) {
    this.#db = db;
  }

  /** The log says first which file it is for: whatever follows, an interrupted start finds them together. */
  begin(): void {
    this.#write(this.#id());
  }

  /** A mark of this boot's own, and the log is empty. */
  bear(): void {
    this.#write(OURS + randomInt(NUMBERS));
    this.#db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    this.#isDue = true;
  }

  /** After the log was folded into the file: the next commit may begin it anew. */
  due(): void {
    this.#isDue = true;
  }

  /** Inside of a transaction, just before it is committed. */
  mark(): void {
    if (this.#isDue) this.#write(nextId(this.#id()));
  }

  /** That transaction is durable. */
  marked(): void {
    this.#isDue = false;
  }

  #id(): number {
    return this.#db.get<{ application_id: number }>("PRAGMA application_id")!.application_id;
  }

  #write(id: number): void {
    this.#db.exec(`PRAGMA application_id = ${id}`);
  }
}

/** The files that a connection has open, by what they are and not by their names: another one under such a name is none of ours (E5). */
export class OpenFiles {
  readonly #files: readonly { readonly path: string; readonly is: string | null }[];
  readonly #leastBytes: number;

  /** Once the log is there. */
  constructor({ path, log }: { path: string; log: string }) {
    this.#files = [path, log].map((name) => ({ path: name, is: identity(name) }));
    this.#leastBytes = sizeOf(path);
  }

  /** The name under which something else stands, or nothing; null while all is in its place. We never make a state shorter. */
  get moved(): string | null {
    const [state] = this.#files;
    if (sizeOf(state!.path) < this.#leastBytes) return state!.path;
    return this.#files.find(({ path, is }) => identity(path) !== is)?.path ?? null;
  }

  /** Closing, SQLite removes the log by its name; a log that is none of ours stays. */
  close(close: () => void): void {
    const [, log] = this.#files;
    const isTheirs = log !== undefined && identity(log.path) !== log.is && identity(log.path) !== null;
    if (!isTheirs) {
      close();
      return;
    }
    const kept = `${log.path}.kept`;
    renameSync(log.path, kept);
    try {
      close();
    } finally {
      renameSync(kept, log.path);
    }
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function identity(path: string): string | null {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
