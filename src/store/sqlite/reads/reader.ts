import type { StoreReader } from "../../readers.ts";
import type { Database } from "../database.ts";
import { contextReads } from "./context-reads.ts";
import { conversationReads } from "./conversation-reads.ts";
import { deliveryReads } from "./delivery-reads.ts";
import { digestReads } from "./digest-reads.ts";
import type { ReadsOf } from "./reads.ts";
import { statusReads } from "./status-reads.ts";
import { turnReads } from "./turn-reads.ts";

const READS: ReadsOf<StoreReader> = {
  ...turnReads,
  ...contextReads,
  ...conversationReads,
  ...deliveryReads,
  ...digestReads,
  ...statusReads,
};

/** The reads of the port over one connection. They run between transactions, so they see committed rows only. */
export function createReader(db: Database): StoreReader {
  const bound = Object.entries(READS).map(([name, read]: [string, (db: Database, ...query: never[]) => unknown]) => [
    name,
    async (...query: never[]) => read(db, ...query),
  ]);
  return Object.fromEntries(bound) as StoreReader;
}
