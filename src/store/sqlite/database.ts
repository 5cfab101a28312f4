/// <reference types="node" preserve="true" />
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { TertuliaError } from "../../errors.ts";
import type { Claim } from "../port.ts";

/** One connection with its prepared statements, kept by their text. Throws a `TertuliaError` with SQLite's error as the cause. */
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
    return this.#guarded(() => this.#prepare(sql).get(...values)) as T | undefined;
  }

  all<T extends object>(sql: string, ...values: SQLInputValue[]): T[] {
    return this.#guarded(() => this.#prepare(sql).all(...values)) as T[];
  }

  /** The rowid of an insert. */
  insert(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#guarded(() => this.#prepare(sql).run(...values)).lastInsertRowid);
  }

  /** How many rows changed. */
  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#guarded(() => this.#prepare(sql).run(...values)).changes);
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }

  /** Throws `gateway_stopping` after close: a command under way may still read. */
  #guarded<T>(call: () => T): T {
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

/** A verb inside its transaction: the connection, the claim and the time that it writes with. */
export interface Write {
  readonly db: Database;
  readonly claim: Claim;
  readonly now: number;
}

/** SQLite's primary result code of an error, or null when it is not one of SQLite's. */
export function sqliteCode(error: unknown): number | null {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  return typeof code === "number" ? code & 0xff : null;
}

export const SQLITE = { BUSY: 5, READONLY: 8, IOERR: 10, CORRUPT: 11, FULL: 13, CANTOPEN: 14, NOTADB: 26 } as const;

/** Turns an error of SQLite into one with a code and a sentence. */
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
