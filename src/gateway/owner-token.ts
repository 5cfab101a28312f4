import { chmodSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { TertuliaError } from "../errors.ts";
import { randomIds } from "../util/ids.ts";
import type { Log } from "../util/log.ts";

/** The owner's token: a file that only its owner can read, made when it is first needed. */

const SHORTEST = 16;

export interface OwnerToken {
  /** As the file has it at this moment; of a file that holds none, one that nobody knows. Does not throw. */
  readonly current: string;
}

/** Reads or makes it, and follows the file from then on. `onChange`: another one holds. Throws `home_unwritable`, `disk_full`. */
export function openOwnerToken(path: string, { log, onChange }: { log: Log; onChange?: () => void }): OwnerToken {
  let current = readOrMake(path);
  let seen = stamp(path);
  return {
    get current() {
      const now = stamp(path);
      if (now === seen) return current;
      const before = current;
      current = followed(path, log);
      seen = stamp(path);
      if (current !== before) {
        log.info({ path }, "the owner's token has changed: the one before holds no more");
        onChange?.();
      }
      return current;
    },
  };
}

/** Puts a new one in the old one's place, whole at once. Throws `home_unwritable`, `disk_full`. */
export function rotateOwnerToken(path: string): string {
  const token = randomIds.token();
  const next = `${path}.${process.pid}.new`;
  return guarded(path, () => {
    try {
      writeFileSync(next, `${token}\n`, { mode: 0o600 });
      renameSync(next, path);
    } finally {
      rmSync(next, { force: true });
    }
    return token;
  });
}

function readOrMake(path: string): string {
  return guarded(path, () => {
    if (!existsSync(path)) writeFileSync(path, `${randomIds.token()}\n`, { mode: 0o600, flag: "wx" });
    chmodSync(path, 0o600);
    return ownerTokenIn(path);
  });
}

/** The token that the file holds; nothing is made. Throws `home_unwritable`. */
export function ownerTokenIn(path: string): string {
  return guarded(path, () => {
    const token = readFileSync(path, "utf8").trim();
    if (token.length >= SHORTEST) return token;
    throw new TertuliaError("home_unwritable", `${path} holds no usable token.`, {
      remedy: "`tertulia token rotate` puts a new one there.",
    });
  });
}

/** Whoever changed the file has taken the old one back: it stops, whether or not there is another. */
function followed(path: string, log: Log): string {
  try {
    return readOrMake(path);
  } catch (cause) {
    log.warn({ err: cause }, `nobody is the owner by token: ${(cause as Error).message}`);
    return randomIds.token();
  }
}

/** Differs when the file was written, or replaced by another. */
function stamp(path: string): string {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? "none" : `${stat.ino} ${stat.ctimeNs}`;
}

function guarded<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    if (cause instanceof TertuliaError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOSPC") throw new TertuliaError("disk_full", `There is no space left for ${path}.`, { cause });
    throw new TertuliaError("home_unwritable", `${path} cannot be read or written (${code}).`, { cause });
  }
}
