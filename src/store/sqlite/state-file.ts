import {
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readlinkSync,
  readSync,
  renameSync,
  type Stats,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { TertuliaError } from "../../errors.ts";
import { type FileMark, isForeignMark, isNextMark, isSameMark } from "./file-mark.ts";

/**
 * What stands on the disk where a state is, or was, read without SQLite (E5): SQLite takes whatever log it finds beside a file for that file's own,
 * and destroys the one that it finds beside an empty file.
 */

const MAGIC = "SQLite format 3\0";
const HEADER_BYTES = 100;
const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** The state with what SQLite keeps beside it. */
export const STATE_SUFFIXES = ["", "-wal", "-shm"] as const;

interface Header {
  readonly pageSize: number;
  /** Pages that the file holds by its own word; null where it does not say. */
  readonly pages: number | null;
  readonly mark: FileMark;
}

/** The state of the file after the commits in its log. */
interface Log {
  readonly pageSize: number;
  readonly pages: number;
  readonly pageNumbers: ReadonlySet<number>;
  /** The marks that it gives the file, in their order. */
  readonly marks: readonly FileMark[];
}

const MOST_LINKS = 40;

/** Where links from a path lead, also where nothing stands there: SQLite keeps the log beside the file itself. */
export function fileBehind(path: string): string {
  let file = path;
  for (let links = 0; links < MOST_LINKS && lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink(); links++)
    file = resolve(dirname(file), readlinkSync(file));
  return file;
}

/**
 * Whether there is a state. `hasBooted`: a gateway has begun with one here; `isHeld`: one runs, and its log is its own.
 * Throws `store_corrupt` where there was a state that is not there any more, or what is there is none.
 */
export function findState(path: string, { hasBooted, isHeld }: { hasBooted: boolean; isHeld: boolean }): boolean {
  const file = statSync(path, { throwIfNoEntry: false });
  const log = `${fileBehind(path)}-wal`;
  if (file === undefined || (file.isFile() && file.size === 0)) {
    const what = file === undefined ? "is gone" : "is empty";
    if (existsSync(log)) throw corrupt(`${path} ${what}, but its log is there: it holds what was said last.`);
    if (hasBooted) throw corrupt(`${path} ${what}, but there was a state here.`);
    return false;
  }
  if (!file.isFile()) throw corrupt(`${path} is no file.`);
  const header = headerOf(path);
  if (header === null) throw corrupt(`${path} is damaged or is not a Tertulia database.`);
  if (isForeignMark(header.mark)) throw corrupt(`${path} is the database of another program.`);
  if (!isHeld) requireOwnLog({ path, log }, file, header);
  return true;
}

function requireOwnLog({ path, log: logPath }: { path: string; log: string }, file: Stats, header: Header): void {
  const log = logOf(logPath);
  if (log !== null && !isLogOf(header, log))
    throw corrupt(`${logPath} is the log of another file than ${path}: one of them was replaced.`);
  if (isCut(header, file.size, log)) throw corrupt(`${path} is damaged: it was cut short.`);
}

export function corrupt(sentence: string, cause?: unknown): TertuliaError {
  return new TertuliaError("store_corrupt", sentence, { cause });
}

/** Of a file that a log was written over: it has a mark of the log already, or the one before the log's first. */
function isLogOf({ pageSize, mark }: Header, log: Log): boolean {
  if (pageSize !== log.pageSize) return false;
  const [first] = log.marks;
  return first === undefined || isNextMark(mark, first) || log.marks.some((one) => isSameMark(one, mark));
}

/** A page beyond the end of the file must stand in the log. */
function isCut({ pageSize, pages }: Header, size: number, log: Log | null): boolean {
  const there = Math.floor(size / pageSize);
  if (log === null) return pages !== null && there < pages;
  for (let page = there + 1; page <= log.pages; page++) if (!log.pageNumbers.has(page)) return true;
  return false;
}

function headerOf(path: string): Header | null {
  return withFile(path, (read) => {
    const bytes = read(0, HEADER_BYTES);
    if (bytes.length < HEADER_BYTES || bytes.toString("latin1", 0, MAGIC.length) !== MAGIC) return null;
    const saysPages = bytes.readUInt32BE(24) === bytes.readUInt32BE(92);
    return {
      pageSize: pageSizeOf(bytes.readUInt16BE(16)),
      pages: saysPages ? bytes.readUInt32BE(28) : null,
      mark: markIn(bytes),
    };
  });
}

function pageSizeOf(written: number): number {
  return written === 1 ? 65_536 : written;
}

function markIn(firstPage: Buffer): FileMark {
  return { id: firstPage.readUInt32BE(68), schema: firstPage.readUInt32BE(40) };
}

/** Null where nothing was committed to it. What stands behind the last commit, or is of an earlier use of the file, counts for nothing. */
function logOf(path: string): Log | null {
  const { size = 0 } = statSync(path, { throwIfNoEntry: false }) ?? {};
  if (size <= LOG_HEADER_BYTES) return null;
  return withFile(path, (read) => {
    const header = read(0, LOG_HEADER_BYTES);
    const pageSize = header.readUInt32BE(8);
    const salt = header.subarray(16, 24);
    const seen: { page: number; mark: FileMark | null }[] = [];
    let committed: { frames: number; pages: number } | null = null;
    for (let at = LOG_HEADER_BYTES; at + FRAME_HEADER_BYTES + pageSize <= size; at += FRAME_HEADER_BYTES + pageSize) {
      const frame = read(at, FRAME_HEADER_BYTES);
      if (!frame.subarray(8, 16).equals(salt)) break;
      const page = frame.readUInt32BE(0);
      seen.push({ page, mark: page === 1 ? markIn(read(at + FRAME_HEADER_BYTES, HEADER_BYTES)) : null });
      const pages = frame.readUInt32BE(4);
      if (pages > 0) committed = { frames: seen.length, pages };
    }
    if (committed === null) return null;
    const whole = seen.slice(0, committed.frames);
    return {
      pageSize,
      pages: committed.pages,
      pageNumbers: new Set(whole.map(({ page }) => page)),
      marks: whole.flatMap(({ mark }) => mark ?? []),
    };
  });
}

function withFile<T>(path: string, use: (read: (at: number, bytes: number) => Buffer) => T): T {
  const file = openSync(path, "r");
  try {
    return use((at, bytes) => {
      const buffer = Buffer.alloc(bytes);
      return buffer.subarray(0, readSync(file, buffer, 0, bytes, at));
    });
  } finally {
    closeSync(file);
  }
}

/** Moves the state with its log to a name that says when, so that SQLite finds them together there. Returns what was moved: from, to. */
export function setAside(state: string, now: Date): readonly (readonly [from: string, to: string])[] {
  const path = fileBehind(state);
  const day = now
    .toISOString()
    .replace(/\.\d+Z$/, "")
    .replaceAll(":", "")
    .replace("T", "-");
  const there = STATE_SUFFIXES.filter((suffix) => statSync(path + suffix, { throwIfNoEntry: false }) !== undefined);
  let name = `${path}.${day}`;
  for (let n = 2; STATE_SUFFIXES.some((suffix) => existsSync(name + suffix)); n++) name = `${path}.${day}-${n}`;
  // The log last: as long as it stands there, nothing begins anew beside it.
  return there
    .toSorted((a, b) => Number(a === "-wal") - Number(b === "-wal"))
    .map((suffix) => {
      renameSync(path + suffix, name + suffix);
      return [path + suffix, name + suffix];
    });
}
