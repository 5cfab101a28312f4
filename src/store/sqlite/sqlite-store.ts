import { chmodSync, closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import type {
  AdmitBatch,
  AdmitResult,
  BeginResult,
  Claim,
  DeliveryReport,
  DeliveryRow,
  KeepChange,
  KeepResult,
  Marked,
  NotDue,
  NotRunning,
  Settlement,
  SettleResult,
  Store,
  StoreReader,
  TurnMark,
} from "../store.ts";
import { admit } from "./admit.ts";
import { Database, SQLITE, sqliteCode, storeError } from "./database.ts";
import { attempt, delivered, keep } from "./deliveries.ts";
import { GroupCommit } from "./group-commit.ts";
import { SqliteReader } from "./reads.ts";
import { begin, mark, settle } from "./turns.ts";

/** The embedded store: one SQLite file (WAL, synchronous FULL, group commit), one writing process. */
export class SqliteStore extends SqliteReader implements Store {
  readonly #writer: GroupCommit;

  constructor(db: Database, clock: Clock) {
    super(db);
    this.#writer = new GroupCommit(db, clock);
  }

  claim(holder: string): Promise<Claim> {
    return this.#writer.run(null, () => {
      const row = this.db.get<{ value: string }>(
        "UPDATE meta SET value = value + 1 WHERE key = 'boot' RETURNING value",
      )!;
      return { holder, epoch: Number(row.value) };
    });
  }

  admit(batch: AdmitBatch, claim: Claim): Promise<AdmitResult> {
    return this.#writer.run(claim, () => admit(this.db, batch, claim));
  }

  begin(request: { sessionId: string; now: number }, claim: Claim): Promise<BeginResult> {
    return this.#writer.run(claim, () => begin(this.db, request, claim));
  }

  mark(change: TurnMark, claim: Claim): Promise<Marked | NotRunning> {
    return this.#writer.run(claim, () => mark(this.db, change, claim));
  }

  settle(settlement: Settlement, claim: Claim): Promise<SettleResult> {
    return this.#writer.run(claim, () => settle(this.db, settlement, claim));
  }

  attempt(request: { deliveryId: number; now: number }, claim: Claim): Promise<DeliveryRow | NotDue> {
    return this.#writer.run(claim, () => attempt(this.db, request, claim));
  }

  delivered(report: DeliveryReport, claim: Claim): Promise<void> {
    return this.#writer.run(claim, () => delivered(this.db, report));
  }

  keep(change: KeepChange, claim: Claim): Promise<KeepResult> {
    return this.#writer.run(claim, () => keep(this.db, change));
  }

  /** Commits and verbs so far, and so how many verbs share a commit. */
  get counters(): { readonly commits: number; readonly verbs: number } {
    return this.#writer.counters;
  }

  async close(): Promise<void> {
    this.#writer.close();
    this.#writer.checkpoint();
    this.db.close();
  }
}

/**
 * Opens the state file for writing: creates it (0600), migrates it forward, checks it. Throws `store_newer`,
 * `store_corrupt`, `home_unwritable`, `disk_full`; nothing is damaged then.
 */
export function openSqliteStore(options: { path: string; clock: Clock; maxPages?: number }): SqliteStore {
  const { path } = options;
  return atPath(path, () => {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
    chmodSync(path, 0o600);
    const db = new Database(path, { readOnly: false });
    try {
      const version = schemaVersion(db);
      const newest = migrations().length;
      if (version > newest) throw newer(path, version, newest);
      touchTrees(db);
      db.exec(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY",
      );
      if (options.maxPages !== undefined) db.exec(`PRAGMA max_page_count = ${options.maxPages}`);
      migrate(db, version);
      return new SqliteStore(db, options.clock);
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

/** A short, read-only look at the file: it never migrates and refuses another schema (E4). The caller closes it. */
export function openSqliteReader(path: string): { reader: StoreReader; close(): void } {
  return atPath(path, () => {
    const db = new Database(path, { readOnly: true });
    try {
      const version = schemaVersion(db);
      const newest = migrations().length;
      if (version > newest) throw newer(path, version, newest);
      if (version < newest)
        throw new TertuliaError("store_older", `${path} has schema ${version}, this Tertulia reads ${newest}.`);
      return { reader: new SqliteReader(db), close: () => db.close() };
    } catch (error) {
      db.close();
      throw error;
    }
  });
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

/** What SQLite's own check of the whole file says: `ok`, or the first damage. */
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
      return new TertuliaError("store_corrupt", `${path} is damaged or is not a Tertulia database.`, { cause: error });
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
