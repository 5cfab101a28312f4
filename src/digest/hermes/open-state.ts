import {
  closeSync,
  constants,
  copyFileSync,
  mkdtempSync,
  openSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { TertuliaError } from "../../errors.ts";

/** How long another program may hold the file before a read gives up. */
const BUSY_MS = 1_000;
/** SQLite's primary codes for a database whose side files cannot be made. */
const READ_ONLY = 8;
const CANNOT_OPEN = 14;
/** Of a log: another one means that it was begun anew. */
const LOG_HEADER = 32;
const TRIES = 3;

export interface OpenState {
  readonly db: DatabaseSync;
  /** Closes it, and leaves nothing behind. */
  close(): void;
}

/**
 * Opens a database to be read. A reader of one with a log (WAL) keeps the file -shm beside it; in a folder that may not be written the file
 * is read alone where its log holds nothing, else a private copy of both. Throws what SQLite or the system says.
 */
export function openState(path: string): OpenState {
  try {
    return opened(path);
  } catch (cause) {
    const real = realpathSync(path);
    // What a journal would take back is not to be read.
    if (!isUnwritable(cause) || sizeOf(`${real}-journal`) > 0) throw cause;
    return sizeOf(`${real}-wal`) > 0 ? openedCopy(real) : opened(immutable(real));
  }
}

function opened(path: string | URL): OpenState {
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
  try {
    // It is opened by the first read.
    db.exec("PRAGMA schema_version");
    return { db, close: () => db.close() };
  } catch (cause) {
    db.close();
    throw cause;
  }
}

function immutable(path: string): URL {
  const url = pathToFileURL(path);
  url.searchParams.set("immutable", "1");
  return url;
}

function openedCopy(path: string): OpenState {
  const folder = mkdtempSync(join(tmpdir(), "tertulia-digest-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    const copy = join(folder, "state.db");
    copyBoth(path, copy);
    const { db, close } = opened(copy);
    const closeAndRemove = (): void => {
      close();
      remove();
    };
    return { db, close: closeAndRemove };
  } catch (cause) {
    remove();
    throw cause;
  }
}

/** The log is copied last: whatever a checkpoint wrote into the file meanwhile stands in it too, as long as it is the same log. */
function copyBoth(path: string, copy: string): void {
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const before = logHeader(path);
    copyFileSync(path, copy, constants.COPYFILE_FICLONE);
    copyFileSync(`${path}-wal`, `${copy}-wal`, constants.COPYFILE_FICLONE);
    if (before.equals(logHeader(copy))) return;
  }
  throw new TertuliaError("foreign_state", `${path} is written so often that it could not be copied.`);
}

function logHeader(path: string): Buffer {
  const header = Buffer.alloc(LOG_HEADER);
  const file = openSync(`${path}-wal`, "r");
  try {
    return header.subarray(0, readSync(file, header));
  } finally {
    closeSync(file);
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function isUnwritable(cause: unknown): boolean {
  const code = (cause as { errcode?: unknown } | null)?.errcode;
  return typeof code === "number" && [READ_ONLY, CANNOT_OPEN].includes(code & 0xff);
}
