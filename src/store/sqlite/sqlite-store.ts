import { chmodSync, closeSync, mkdirSync, openSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import type { Store } from "../port.ts";
import type { StoreReader } from "../readers.ts";
import { admit } from "./admit/admit.ts";
import { Database, SQLITE, sqliteCode, storeError } from "./database.ts";
import { attempt, delivered } from "./deliveries.ts";
import { Marker, OpenFiles } from "./file-mark.ts";
import { GroupCommit, type GroupCommitFile } from "./group-commit.ts";
import { keep } from "./keep.ts";
import { type GatewayLock, hasBooted, readLock } from "./lock.ts";
import { createReader } from "./reads/reader.ts";
import { corrupt, fileBehind, findState } from "./state-file.ts";
import { begin, mark, settle } from "./turns.ts";

export interface SqliteStore extends Store {
  /** Commits and verbs so far, and so how many verbs share a commit. */
  readonly counters: { readonly commits: number; readonly verbs: number };
}

/** The embedded store: one SQLite file (WAL, synchronous FULL, group commit), one writing process. */
function createSqliteStore(db: Database, clock: Clock, on: GroupCommitFile): SqliteStore {
  const writer = new GroupCommit(db, clock, on);
  return {
    ...createReader(db),
    claim: (holder) =>
      writer.run(null, () => {
        const row = db.get<{ value: string }>("UPDATE meta SET value = value + 1 WHERE key = 'boot' RETURNING value")!;
        return { holder, epoch: Number(row.value) };
      }),
    admit: (batch, claim) => writer.run(claim, () => admit(db, batch, claim)),
    begin: (request, claim) => writer.run(claim, () => begin(db, request, claim)),
    mark: (change, claim) => writer.run(claim, () => mark(db, change, claim)),
    settle: (settlement, claim) => writer.run(claim, () => settle(db, settlement, claim)),
    attempt: (request, claim) => writer.run(claim, () => attempt(db, request, claim)),
    delivered: (report, claim) => writer.run(claim, () => delivered(db, report)),
    keep: (change, claim) => writer.run(claim, () => keep(db, change)),
    get counters() {
      return writer.counters;
    },
    async close() {
      writer.close();
      writer.checkpoint();
      on.files.close(() => db.close());
    },
  };
}

/**
 * Opens the state file for writing: creates it (0600), migrates it forward, checks it. Throws `store_newer`,
 * `store_corrupt`, `home_unwritable`, `disk_full`; nothing is damaged then, and where there was a state, none begins anew (E5).
 */
export function openSqliteStore(options: {
  path: string;
  clock: Clock;
  maxPages?: number;
  /** Remembers whether there was a state. */
  lock?: Pick<GatewayLock, "hasBooted" | "booted">;
  /** Nothing can be stored, and why: told once while it is so. */
  onTrouble?: (error: TertuliaError) => void;
}): SqliteStore {
  const { path, lock, onTrouble = () => undefined } = options;
  return atPath(path, () => {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const hasBooted = lock?.hasBooted ?? false;
    if (findState(path, { hasBooted, isHeld: false })) requireSound(path, { mayBeNew: !hasBooted });
    else closeSync(openSync(path, "a", 0o600));
    chmodSync(path, 0o600);
    const db = new Database(path, { readOnly: false });
    try {
      db.exec(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY",
      );
      if (options.maxPages !== undefined) db.exec(`PRAGMA max_page_count = ${options.maxPages}`);
      const marker = new Marker(db);
      marker.begin();
      migrate(db, schemaVersion(db));
      marker.bear();
      lock?.booted();
      const files = new OpenFiles({ path, log: `${fileBehind(path)}-wal` });
      return createSqliteStore(db, options.clock, { files, marker, onTrouble });
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

/** The state, and the lock that remembers whether there was one. */
export interface StateFiles {
  readonly state: string;
  readonly lock: string;
}

/** True if there is a state; for commands, which run beside a gateway or without one. Throws `store_corrupt` as a start would (E5). */
export function hasState({ state, lock }: StateFiles): boolean {
  return atPath(state, () => findState(state, { hasBooted: hasBooted(lock), isHeld: readLock(lock) !== null }));
}

/** A short, read-only look at the file: it never migrates and refuses another schema (E4). The caller closes it, and has asked whether it is there. */
export function openSqliteReader(path: string, lock?: string): { reader: StoreReader; close(): void } {
  return atPath(path, () => {
    const db = new Database(path, { readOnly: true });
    try {
      const version = schemaVersion(db);
      const newest = migrations().length;
      requireSchema(db, { path, version, mayBeNew: lock === undefined || !hasBooted(lock) });
      if (version < newest)
        throw new TertuliaError("store_older", `${path} has schema ${version}, this Tertulia reads ${newest}.`);
      return { reader: createReader(db), close: () => db.close() };
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

/** Looked at without the right to write: closing what may be written, SQLite folds the log into the file. */
function requireSound(path: string, { mayBeNew }: { mayBeNew: boolean }): void {
  const db = new Database(path, { readOnly: true });
  try {
    const version = schemaVersion(db);
    requireSchema(db, { path, version, mayBeNew });
    if (version === 0 && namesIn(db).size > 0) throw corrupt(`${path} is damaged: its version was lost.`);
    touchTrees(db);
  } finally {
    db.close();
  }
}

/** The tables of its version are there, and it is none of a newer Tertulia nor of another program. */
function requireSchema(
  db: Database,
  { path, version, mayBeNew }: { path: string; version: number; mayBeNew: boolean },
): void {
  const newest = migrations().length;
  const names = namesIn(db);
  if (version === 0 && names.size === 0) {
    if (mayBeNew) return;
    throw corrupt(`${path} is empty, but there was a state here.`);
  }
  const isOurs = names.has("table meta") && names.has("table conversation");
  if (!isOurs) throw corrupt(`${path} is the database of another program.`);
  if (version > newest) throw newer(path, version, newest);
  const missing = [...schemaOf(version)].find((name) => !names.has(name));
  if (missing !== undefined) throw corrupt(`${path} is damaged: it has no ${missing}.`);
}

function namesIn(db: Database): ReadonlySet<string> {
  const rows = db.all<{ type: string; name: string }>("SELECT type, name FROM sqlite_schema");
  return new Set(rows.map(({ type, name }) => `${type} ${name}`));
}

function schemaOf(version: number): ReadonlySet<string> {
  const db = new Database(":memory:", { readOnly: false });
  try {
    for (const file of migrations().slice(0, version)) db.exec(readFileSync(file, "utf8"));
    return namesIn(db);
  } finally {
    db.close();
  }
}

function newer(path: string, version: number, newest: number): TertuliaError {
  return new TertuliaError(
    "store_newer",
    `${path} was written by a newer Tertulia (schema ${version}; this one knows ${newest}).`,
  );
}

function schemaVersion(db: Database): number {
  return db.get<{ user_version: number }>("PRAGMA user_version")!.user_version;
}

/** Reads the root of every table and index: a damaged file shows here and not at somebody's message. `doctor` checks the whole. */
function touchTrees(db: Database): void {
  const trees = db.all<{ type: string; name: string; tbl_name: string; sql: string | null }>(
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type IN('table','index')",
  );
  for (const { type, name, tbl_name, sql } of trees) {
    // Of a partial index SQLite reads nothing unless its condition is given.
    const where = type === "index" ? (/ WHERE .*$/s.exec(sql ?? "")?.[0] ?? "") : "";
    const how = type === "table" ? "NOT INDEXED" : `INDEXED BY "${name}"`;
    db.get(`SELECT 1 FROM "${tbl_name}" ${how}${where} LIMIT 1`);
  }
}

/** Runs SQLite's own check of the whole file: returns `ok`, or the first damage. */
export function checkFile(path: string): string {
  return atPath(path, () => {
    const db = new Database(path, { readOnly: true });
    try {
      return db.get<{ quick_check: string }>("PRAGMA quick_check(1)")?.quick_check ?? "no answer";
    } finally {
      db.close();
    }
  });
}

/** `sql/0001-….sql` and on, append-only; the number of files is the schema's version. */
function migrations(): readonly string[] {
  const folder = join(dirname(fileURLToPath(import.meta.url)), "../../../sql");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".sql"))
    .sort()
    .map((name) => join(folder, name));
}

function migrate(db: Database, from: number): void {
  for (const [index, file] of migrations().entries()) {
    if (index < from) continue;
    db.exec("BEGIN IMMEDIATE");
    try {
      db.exec(readFileSync(file, "utf8"));
      db.exec(`PRAGMA user_version = ${index + 1}`);
      db.exec("COMMIT");
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }
}

function atPath<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    throw openError(path, error);
  }
}

function openError(path: string, problem: unknown): TertuliaError {
  // A refused statement comes as our own error already: what counts here is what SQLite said.
  const error = problem instanceof TertuliaError && sqliteCode(problem.cause) !== null ? problem.cause : problem;
  const system = (error as NodeJS.ErrnoException).code;
  if (system === "ENOSPC")
    return new TertuliaError("disk_full", `There is no space left for ${path}.`, { cause: error });
  if (system === "EACCES" || system === "EROFS" || system === "EPERM" || system === "ENOTDIR" || system === "EEXIST") {
    return new TertuliaError("home_unwritable", `${path} cannot be written (${system}).`, { cause: error });
  }
  switch (sqliteCode(error)) {
    case SQLITE.FULL:
      return new TertuliaError("disk_full", `There is no space left for ${path}.`, { cause: error });
    case SQLITE.CORRUPT:
    case SQLITE.NOTADB:
      return corrupt(`${path} is damaged or is not a Tertulia database.`, error);
    case SQLITE.CANTOPEN:
    case SQLITE.READONLY:
    case SQLITE.IOERR:
      return new TertuliaError("home_unwritable", `${path} cannot be opened (${(error as Error).message}).`, {
        cause: error,
      });
    default:
      return storeError(error);
  }
}
