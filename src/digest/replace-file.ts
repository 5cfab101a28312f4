import {
  accessSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

/** What a temporary file of ours is called, beside the file it becomes. */
const TEMPORARY = /^\.(.+)\.tertulia-[0-9a-f]{12}\.tmp$/;
/** Older ones were left by a crash. */
const STALE_MS = 10 * 60_000;
const TRIES = 5;

export interface ReplaceOptions {
  /** Unique for every call: two runs never share a temporary file. 12 hex digits. */
  readonly nonce: () => string;
  readonly now: number;
  /** Of a file that was not there. */
  readonly mode?: number;
}

/** The bytes of a file; null where there is none. Throws what the system says. */
export function readBytes(path: string): Buffer | null {
  try {
    return readFileSync(path);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    // ENOTDIR: a file stands where its folder would be.
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw cause;
  }
}

/**
 * Changes a file as a whole: what `change` makes of its bytes goes into a temporary file beside it, onto the disk, and in its
 * place by one rename. A reader sees the old bytes or the new ones; a crash leaves the old. Mode, owner and a link to the file stay.
 * Where somebody else wrote meanwhile, `change` is asked once more with what stands there now. The same bytes, or null, write nothing.
 */
export function replaceFile(
  path: string,
  change: (bytes: Buffer | null) => Buffer | null,
  options: ReplaceOptions,
): boolean {
  const target = targetOf(path);
  for (let attempt = 1; ; attempt++) {
    const before = readBytes(target);
    const after = change(before);
    if (after === null || (before !== null && after.equals(before))) return false;
    requireWritable(target);
    const temporary = writeTemporary(target, after, options);
    try {
      if (attempt < TRIES && !isSame(readBytes(target), before)) {
        rmSync(temporary, { force: true });
        continue;
      }
      renameSync(temporary, target);
    } catch (cause) {
      rmSync(temporary, { force: true });
      throw cause;
    }
    syncFolder(dirname(target));
    sweep(target, options.now);
    return true;
  }
}

/** A link is followed, also to a file that is not there yet: the rename would take its place. */
function targetOf(path: string): string {
  try {
    return realpathSync(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause;
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
    return isLink ? targetOf(resolve(dirname(path), readlinkSync(path))) : path;
  }
}

/** A rename asks for no right to the file itself, only to its folder: who may not write the file is kept from it here. */
function requireWritable(path: string): void {
  const old = statSync(path, { throwIfNoEntry: false });
  if (old === undefined) return;
  accessSync(path, constants.W_OK);
  // The superuser may write any file; one that nobody shall write he leaves as well.
  if ((old.mode & 0o222) === 0)
    throw Object.assign(new Error(`EACCES: ${path} is read only`), { code: "EACCES", path });
}

function writeTemporary(target: string, bytes: Buffer, { nonce, mode = 0o644 }: ReplaceOptions): string {
  const temporary = join(dirname(target), `.${basename(target)}.tertulia-${nonce()}.tmp`);
  const old = statSync(target, { throwIfNoEntry: false });
  const fd = openSync(temporary, "wx", 0o600);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    fchmodSync(fd, old === undefined ? mode : old.mode & 0o7777);
    const own = fstatSync(fd);
    if (old !== undefined && (old.uid !== own.uid || old.gid !== own.gid)) keepOwner(fd, old);
    fsyncSync(fd);
  } catch (cause) {
    rmSync(temporary, { force: true });
    throw cause;
  } finally {
    closeSync(fd);
  }
  return temporary;
}

/** Only the superuser may give a file away; for everybody else it stays the writer's. */
function keepOwner(fd: number, { uid, gid }: { uid: number; gid: number }): void {
  try {
    fchownSync(fd, uid, gid);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EPERM") throw cause;
  }
}

function isSame(a: Buffer | null, b: Buffer | null): boolean {
  return a === null || b === null ? a === b : a.equals(b);
}

function syncFolder(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function sweep(target: string, now: number): void {
  const folder = dirname(target);
  for (const name of readdirSync(folder)) {
    if (TEMPORARY.exec(name)?.[1] !== basename(target)) continue;
    const path = join(folder, name);
    const age = now - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now);
    if (age > STALE_MS) rmSync(path, { force: true });
  }
}
