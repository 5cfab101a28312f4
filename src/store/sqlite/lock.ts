import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { TertuliaError } from "../../errors.ts";
import { SQLITE, sqliteCode } from "./database.ts";

/** The holder of a state folder, as it wrote itself down. */
export interface LockHolder {
  readonly pid: number;
  /** The address it listens at; null while it starts. */
  readonly address: string | null;
  readonly since: number;
}

const LOOK_MS = 200;

export interface GatewayLock {
  /** True once a gateway has begun with a state here: without one now, it was lost (E5). */
  readonly hasBooted: boolean;
  /** One has now. Throws `gateway_running` if the lock was lost on the way. */
  booted(): void;
  /** The state was set aside: the next one is new. Throws as `booted` does. */
  forget(): void;
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
  const commit = (write: () => void): void => {
    try {
      if (!db.isTransaction) db.exec("BEGIN IMMEDIATE");
      write();
      db.exec("COMMIT; BEGIN IMMEDIATE");
    } catch (error) {
      db.close();
      throw lockError(path, error);
    }
  };
  const hold = (address: string | null): void => {
    db.exec("DELETE FROM holder");
    db.prepare("INSERT INTO holder VALUES(?, ?, ?)").run(pid, address, now);
  };
  let isBooted = false;
  commit(() => {
    // Whoever said where it listens had a state.
    db.exec(
      `CREATE TABLE IF NOT EXISTS holder(pid INT, address TEXT, since INT); CREATE TABLE IF NOT EXISTS boot(at INT);
       INSERT INTO boot SELECT since FROM holder WHERE address IS NOT NULL AND NOT EXISTS(SELECT 1 FROM boot)`,
    );
    isBooted = db.prepare("SELECT 1 FROM boot LIMIT 1").get() !== undefined;
    hold(null);
  });
  return {
    hasBooted: isBooted,
    booted() {
      commit(() => {
        db.exec("DELETE FROM boot");
        db.prepare("INSERT INTO boot VALUES(?)").run(now);
      });
    },
    forget: () => commit(() => db.exec("DELETE FROM boot; DELETE FROM holder")),
    publish: (address) => commit(() => hold(address)),
    release() {
      if (!db.isOpen) return;
      if (db.isTransaction) db.exec("ROLLBACK");
      db.close();
    },
  };
}

/** True if a gateway has begun with a state here. */
export function hasBooted(path: string): boolean {
  if (!existsSync(path)) return false;
  const db = new DatabaseSync(path, { timeout: LOOK_MS });
  try {
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE name IN('boot','holder')").all();
    const said = { boot: "SELECT 1 FROM boot", holder: "SELECT 1 FROM holder WHERE address IS NOT NULL" } as const;
    return tables.some(({ name }) => db.prepare(said[name as keyof typeof said]).get() !== undefined);
  } catch (error) {
    throw lockError(path, error);
  } finally {
    db.close();
  }
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
