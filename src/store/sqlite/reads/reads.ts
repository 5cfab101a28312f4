import type { Database } from "../database.ts";

/** The reads of a port's reader as synchronous functions over a connection. */
export type ReadsOf<Reader> = {
  readonly [Read in keyof Reader]: Reader[Read] extends (...query: infer Query) => Promise<infer Result>
    ? (db: Database, ...query: Query) => Result
    : never;
};
