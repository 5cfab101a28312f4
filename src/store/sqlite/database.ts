/// <reference types="node" preserve="true" />
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { TertuliaError } from "../../errors.ts";

export type Row = Record<string, SQLInputValue>;

/** One connection with its prepared statements, kept by their text. What SQLite refuses in a statement is thrown as a sentence of ours, with its error as the cause. */
export class Database {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(path: string, options: { readOnly: boolean }) {
    this.#db = new DatabaseSync(path, { readOnly: options.readOnly, timeout: 0 });
  }

  get isTransaction(): boolean {
    return this.#db.isTransaction;
  }

  exec(sql: string): void {
    this.#db.exec(sql);
  }

  get<T extends object>(sql: string, ...values: SQLInputValue[]): T | undefined {
    return this.#told(() => this.#prepare(sql).get(...values)) as T | undefined;
  }

  all<T extends object>(sql: string, ...values: SQLInputValue[]): T[] {
    return this.#told(() => this.#prepare(sql).all(...values)) as T[];
  }

  /** The rowid of an insert. */
  insert(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#told(() => this.#prepare(sql).run(...values)).lastInsertRowid);
  }

  /** How many rows changed. */
  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#told(() => this.#prepare(sql).run(...values)).changes);
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }

  /** Who still reads when the store has closed, such as a command under way, is told so. */
  #told<T>(call: () => T): T {
    if (!this.#db.isOpen) throw new TertuliaError("gateway_stopping", "The gateway has stopped.");
    try {
      return call();
    } catch (error) {
      throw storeError(error);
    }
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/** SQLite's primary result code of an error, or null when it is not one of SQLite's. */
export function sqliteCode(error: unknown): number | null {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  return typeof code === "number" ? code & 0xff : null;
}

export const SQLITE = { BUSY: 5, READONLY: 8, IOERR: 10, CORRUPT: 11, FULL: 13, CANTOPEN: 14, NOTADB: 26 } as const;

/** A bug stays what it is; what SQLite says becomes a sentence. */
export function storeError(error: unknown): TertuliaError {
  if (error instanceof TertuliaError) return error;
  switch (sqliteCode(error)) {
    case SQLITE.FULL:
      return new TertuliaError("store_unavailable", "The disk is full: nothing of this was stored.", { cause: error });
    case SQLITE.CORRUPT:
    case SQLITE.NOTADB:
      return new TertuliaError("store_corrupt", "The database file is damaged.", { cause: error });
    case null:
      return new TertuliaError("internal", "The store failed on its own account.", { cause: error });
    default:
      return new TertuliaError("store_unavailable", `The database cannot be written (${(error as Error).message}).`, {
        cause: error,
      });
  }
}
