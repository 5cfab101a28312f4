import { existsSync, statSync } from "node:fs";
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { TertuliaError } from "../../errors.ts";
import { type OpenState, openState } from "./open-state.ts";

export type HermesTable = "sessions" | "messages";

/**
 * A state.db of Hermes, read only: it is opened so, `query_only` is set, and its log is respected, for it may be written this very moment.
 * Which columns there are is looked up: from April 2026 on the schema's number does not say. Throws `foreign_state` where there is none.
 */
export class HermesDb {
  readonly path: string;
  readonly #state: OpenState;
  readonly #columns: Readonly<Record<HermesTable, ReadonlySet<string>>>;

  constructor(path: string) {
    this.path = path;
    if (!existsSync(path)) throw foreignState(`There is no file ${path}.`);
    if (statSync(path).isDirectory()) throw foreignState(`${path} is a folder.`);
    this.#state = opened(path);
    try {
      this.#db.exec("PRAGMA query_only = 1");
      const columns = (table: HermesTable): ReadonlySet<string> =>
        new Set(this.all<{ name: string }>(`PRAGMA table_info(${table})`).map(({ name }) => name));
      this.#columns = { sessions: columns("sessions"), messages: columns("messages") };
      const isHermes = this.has("sessions", "source") && this.has("messages", "session_id");
      if (!isHermes) throw foreignState(`${path} is not a state.db of Hermes.`);
    } catch (cause) {
      this.#state.close();
      throw readError(path, cause);
    }
  }

  has(table: HermesTable, column: string): boolean {
    return this.#columns[table].has(column);
  }

  hasTable(name: string): boolean {
    return this.all("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", name).length > 0;
  }

  /** The column, or what stands for it where this schema has none, under its name. */
  column(table: HermesTable, name: string, otherwise: string): string {
    return this.has(table, name) ? `${table}.${name} AS ${name}` : `${otherwise} AS ${name}`;
  }

  all<T extends object>(sql: string, ...values: SQLInputValue[]): T[] {
    try {
      return this.#db.prepare(sql).all(...values) as T[];
    } catch (cause) {
      throw readError(this.path, cause);
    }
  }

  /** One statement for many calls. */
  prepare<T extends object>(sql: string): (...values: SQLInputValue[]) => T[] {
    const statement = this.#db.prepare(sql);
    return (...values) => {
      try {
        return statement.all(...values) as T[];
      } catch (cause) {
        throw readError(this.path, cause);
      }
    };
  }

  /** All that `read` reads is of one moment. Synchronous, and short: a writer's log grows meanwhile. */
  atOnce<T>(read: () => T): T {
    this.#db.exec("BEGIN");
    try {
      return read();
    } finally {
      // It only read; where a page is damaged there is nothing to commit.
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
    }
  }

  close(): void {
    if (this.#db.isOpen) this.#state.close();
  }

  get #db(): DatabaseSync {
    return this.#state.db;
  }
}

function opened(path: string): OpenState {
  try {
    return openState(path);
  } catch (cause) {
    throw readError(path, cause);
  }
}

function foreignState(sentence: string, cause?: unknown): TertuliaError {
  return new TertuliaError("foreign_state", sentence, { cause });
}

/** SQLite's primary codes. */
const BUSY = [5, 6];
const DAMAGED = [11, 26];
const CANNOT_OPEN = 14;
const UNREADABLE: readonly string[] = ["EACCES", "EPERM", "ENOENT"];
const READABLE =
  "Run this as a user who may read the file, and the file -wal beside it where there is one; the folder need not be writable.";

function codeOf(cause: unknown): number | null {
  const code = (cause as { errcode?: unknown } | null)?.errcode;
  return typeof code === "number" ? code & 0xff : null;
}

/** Whether a read failed for what the file holds there, so that the next may work. */
export function isDamage(cause: unknown): boolean {
  const inner = (cause as { cause?: unknown } | null)?.cause;
  return isAbsurd(inner) || DAMAGED.includes(codeOf(inner) ?? -1);
}

/** An integer that JavaScript has no number for. */
function isAbsurd(cause: unknown): boolean {
  return (cause as { code?: unknown } | null)?.code === "ERR_OUT_OF_RANGE";
}

function readError(path: string, cause: unknown): TertuliaError {
  if (cause instanceof TertuliaError) return cause;
  const code = codeOf(cause);
  if (isAbsurd(cause)) return foreignState(`${path} holds a number that no program wrote on purpose.`, cause);
  const { code: system } = cause as NodeJS.ErrnoException;
  if (system === "ENOSPC") return new TertuliaError("disk_full", `There is no space for a copy of ${path}.`, { cause });
  if (code === CANNOT_OPEN || (code === null && UNREADABLE.includes(system ?? "")))
    return new TertuliaError("foreign_state", `${path} cannot be opened.`, { cause, remedy: READABLE });
  if (code === null) return new TertuliaError("internal", `${path} could not be read.`, { cause });
  if (BUSY.includes(code)) return foreignState(`${path} is locked by another program.`, cause);
  if (DAMAGED.includes(code)) return foreignState(`${path} is damaged, or is no database.`, cause);
  return foreignState(`${path} cannot be read (${(cause as Error).message}).`, cause);
}
