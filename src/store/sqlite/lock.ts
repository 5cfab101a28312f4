import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { TertuliaError } from "../../errors.ts";
import { SQLITE, sqliteCode } from "./database.ts";

/** Who holds a state folder, as the holder wrote it. */
export interface LockHolder {
  readonly pid: number;
  /** Where it listens; null while it starts. */
  readonly address: string | null;
  readonly since: number;
}

const LOOK_MS = 200;

export interface GatewayLock {
  /** Says where the holder listens. Throws `gateway_running` if the lock was lost on the way. */
  publish(address: string): void;
  release(): void;
}

/**
 * E4: the lock is a side SQLite file in journal mode DELETE: the holder commits its address and then keeps a write transaction
 * open. Readers can read the address, a second holder is refused, and the operating system frees it when the holder dies.
 */
export function acquireLock(options: { path: string; pid: number; now: number }): GatewayLock {
  const { path, pid, now } = options;
  const db = openLock(path);
  const write = (address: string | null): void => {
    db.exec("BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS holder(pid INT, address TEXT, since INT); DELETE FROM holder");
    db.prepare("INSERT INTO holder VALUES(?, ?, ?)").run(pid, address, now);
    db.exec("COMMIT");
  };
  const hold = (address: string | null): void => {
    try {
      write(address);
      db.exec("BEGIN IMMEDIATE");
    } catch (error) {
      db.close();
      throw lockError(path, error);
    }
  };
  hold(null);
  return {
    publish(address) {
      db.exec("COMMIT");
      hold(address);
    },
    release() {
      if (!db.isOpen) return;
      if (db.isTransaction) db.exec("ROLLBACK");
      db.close();
    },
  };
}

/** The holder of a lock, or null when nobody holds it. Never waits and never writes. */
export function readLock(path: string): LockHolder | null {
  if (!existsSync(path)) return null;
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { timeout: 0 });
    db.exec("BEGIN IMMEDIATE");
    db.exec("ROLLBACK");
    return null;
  } catch (error) {
    if (sqliteCode(error) !== SQLITE.BUSY || db === undefined) throw lockError(path, error);
    return holderIn(db);
  } finally {
    db?.close();
  }
}

function holderIn(db: DatabaseSync): LockHolder {
  try {
    const row = db.prepare("SELECT pid, address, since FROM holder").get() as unknown as LockHolder | undefined;
    return row ?? { pid: 0, address: null, since: 0 };
  } catch (error) {
    // In the moment of its own commit the holder lets nobody read.
    if (sqliteCode(error) === SQLITE.BUSY) return { pid: 0, address: null, since: 0 };
    throw error;
  }
}

function openLock(path: string): DatabaseSync {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
    // A command that looks who holds it has it for an instant: that is waited for, a holder is not.
    return new DatabaseSync(path, { timeout: LOOK_MS });
  } catch (error) {
    throw lockError(path, error);
  }
}

function lockError(path: string, error: unknown): TertuliaError {
  if (error instanceof TertuliaError) return error;
  if (sqliteCode(error) === SQLITE.BUSY) {
    const holder = describe(path);
    return new TertuliaError("gateway_running", `Another gateway holds ${dirname(path)}${holder}.`, { cause: error });
  }
  const system = (error as NodeJS.ErrnoException).code;
  if (system === "ENOSPC" || sqliteCode(error) === SQLITE.FULL) {
    return new TertuliaError("disk_full", `There is no space left in ${dirname(path)}.`, { cause: error });
  }
  return new TertuliaError("home_unwritable", `${dirname(path)} cannot be written (${(error as Error).message}).`, {
    cause: error,
  });
}

function describe(path: string): string {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 0 });
  try {
    const holder = holderIn(db);
    return `: process ${holder.pid}${holder.address === null ? ", which is starting" : `, at ${holder.address}`}`;
  } finally {
    db.close();
  }
}
