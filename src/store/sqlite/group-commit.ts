import { TertuliaError } from "../../errors.ts";
import type { Clock } from "../../util/clock.ts";
import type { Claim } from "../port.ts";
import { type Database, SQLITE, sqliteCode, storeError } from "./database.ts";
import type { Marker, OpenFiles } from "./file-mark.ts";

interface Job {
  readonly claim: Claim | null;
  /** Synchronous and repeatable: it may run once in the group and once more alone. */
  readonly verb: () => unknown;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

export interface GroupCommitFile {
  readonly files: OpenFiles;
  readonly marker: Marker;
  /** Nothing can be stored, and why: told once while it is so. */
  readonly onTrouble: (error: TertuliaError) => void;
}

const BUSY_RETRY_MS = 25;
const BUSY_LIMIT_MS = 30_000;
const CHECKPOINT_MS = 500;
const GROUP_LIMIT = 512;

/**
 * Group commit: verbs queue, and one `setImmediate` callback runs BEGIN, each verb, COMMIT synchronously; promises settle
 * after the COMMIT. Nothing else runs in between. If a verb throws, the whole is rolled back and each verb is replayed in a
 * transaction of its own, for an error such as SQLITE_FULL has already rolled back more than a savepoint would say. A file
 * locked by another process is tried again from a timer for 30 s; the event loop is never blocked for it. What would go into a file that is not in
 * its place any more is refused (E5).
 */
export class GroupCommit {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #files: OpenFiles;
  readonly #marker: Marker;
  readonly #onTrouble: (error: TertuliaError) => void;
  /** The trouble that was reported; null again once a commit succeeds. */
  #trouble: string | null = null;
  #queue: Job[] = [];
  #scheduled = false;
  #busySince: number | null = null;
  #cancelTimer: (() => void) | null = null;
  #cancelCheckpoint: (() => void) | null = null;
  #closed = false;
  /** Commits and verbs so far: what grouping saves can be seen. */
  readonly counters = { commits: 0, verbs: 0 };

  constructor(db: Database, clock: Clock, { files, marker, onTrouble }: GroupCommitFile) {
    this.#db = db;
    this.#clock = clock;
    this.#files = files;
    this.#marker = marker;
    this.#onTrouble = onTrouble;
  }

  /** Runs a verb under a claim; null only for the verb that hands out claims. */
  run<T>(claim: Claim | null, verb: () => T): Promise<T> {
    if (this.#closed) return Promise.reject(new TertuliaError("store_unavailable", "The store is closed."));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ claim, verb, resolve: resolve as (value: never) => void, reject });
      this.#schedule();
    });
  }

  /** Commits what is queued and stops; later verbs are refused. */
  close(): void {
    this.#closed = true;
    this.#cancelTimer?.();
    this.#cancelCheckpoint?.();
    while (this.#queue.length > 0) {
      const before = this.#queue.length;
      this.#flush();
      if (this.#queue.length === before) this.#rejectAll(this.#queue.splice(0), busyError(null));
    }
    this.#cancelTimer?.();
    this.#cancelCheckpoint?.();
  }

  #schedule(): void {
    if (this.#scheduled || this.#busySince !== null) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      if (this.#queue.length > 0) this.#flush();
    });
  }

  #flush(): void {
    const group = this.#queue.splice(0, GROUP_LIMIT);
    if (!this.#begin(group)) return;
    const done = this.#runGroup(group);
    if (done !== null) {
      for (const settle of done) settle();
    } else {
      for (const job of group) this.#runAlone(job);
    }
    this.#scheduleCheckpoint();
    if (this.#queue.length > 0) this.#schedule();
  }

  /** BEGIN, or false with the group back in the queue, or rejected. */
  #begin(group: Job[]): boolean {
    try {
      this.#db.exec("BEGIN IMMEDIATE");
      this.#busySince = null;
      return true;
    } catch (error) {
      if (sqliteCode(error) === SQLITE.BUSY) this.#waitForLock(group, error);
      else this.#rejectAll(group, this.#failure(error));
      return false;
    }
  }

  #waitForLock(group: Job[], error: unknown): void {
    const now = this.#clock.now();
    this.#busySince ??= now;
    if (now - this.#busySince >= BUSY_LIMIT_MS) {
      this.#busySince = null;
      this.#rejectAll(group, this.#failure(busyError(error)));
      if (this.#queue.length > 0) this.#schedule();
      return;
    }
    this.#queue.unshift(...group);
    if (this.#closed) return;
    this.#cancelTimer = this.#clock.after(BUSY_RETRY_MS, () => this.#flush());
  }

  /** The ways to settle each promise, or null when the group was rolled back and must be replayed one by one. */
  #runGroup(group: readonly Job[]): (() => void)[] | null {
    try {
      const settles = group.map((job) => this.#runJob(job));
      this.#commit();
      this.counters.commits += 1;
      this.counters.verbs += group.length;
      return settles;
    } catch (error) {
      this.#rollback();
      if (group.length > 1) return null;
      const failure = this.#failure(error);
      return group.map((job) => () => job.reject(failure));
    }
  }

  #runAlone(job: Job): void {
    try {
      this.#db.exec("BEGIN IMMEDIATE");
      const settle = this.#runJob(job);
      this.#commit();
      this.counters.commits += 1;
      this.counters.verbs += 1;
      settle();
    } catch (error) {
      this.#rollback();
      job.reject(this.#failure(error));
    }
  }

  #failure(cause: unknown): TertuliaError {
    const error = storeError(cause);
    const isTrouble = error.code === "store_unavailable" || error.code === "store_corrupt";
    if (isTrouble && this.#trouble !== error.message) {
      this.#trouble = error.message;
      this.#onTrouble(error);
    }
    return error;
  }

  #runJob(job: Job): () => void {
    if (job.claim !== null && job.claim.epoch !== this.#epoch()) {
      return () => job.reject(new TertuliaError("stale_claim", "A newer gateway has taken over this state."));
    }
    const value = job.verb() as never;
    return () => job.resolve(value);
  }

  #epoch(): number {
    return Number(this.#db.get<{ value: string }>("SELECT value FROM meta WHERE key = 'boot'")?.value);
  }

  #commit(): void {
    // An error inside may have ended the transaction already: then nothing of it is left to commit.
    if (!this.#db.isTransaction) throw new Error("the transaction was rolled back by SQLite");
    this.#requireFiles();
    this.#marker.mark();
    this.#db.exec("COMMIT");
    this.#marker.marked();
    this.#requireFiles();
    this.#trouble = null;
  }

  /** Looked at before a commit, and once more before anybody is told of it. */
  #requireFiles(): void {
    const { moved } = this.#files;
    if (moved !== null) throw movedError(moved);
  }

  #rollback(): void {
    if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
  }

  #rejectAll(group: readonly Job[], error: TertuliaError): void {
    for (const job of group) job.reject(error);
  }

  /** The log is folded into the file from a timer, never inside a commit. */
  #scheduleCheckpoint(): void {
    if (this.#cancelCheckpoint !== null || this.#closed) return;
    this.#cancelCheckpoint = this.#clock.after(CHECKPOINT_MS, () => {
      this.#cancelCheckpoint = null;
      this.checkpoint();
    });
  }

  /** Passive: it never waits for a reader. A full disk shows at the next commit, where somebody is told. */
  checkpoint(): void {
    try {
      this.#db.exec("PRAGMA wal_checkpoint(PASSIVE)");
      this.#marker.due();
    } catch (error) {
      if (sqliteCode(error) === null) throw error;
    }
  }
}

function movedError(path: string): TertuliaError {
  return new TertuliaError(
    "store_unavailable",
    `${path} was moved away or replaced while the gateway runs: nothing is stored.`,
    {
      remedy:
        "Put the file back where it was; or stop the gateway, put the right state.db in its place, and start it again.",
    },
  );
}

function busyError(cause: unknown): TertuliaError {
  return new TertuliaError("store_unavailable", "The database is locked by another program.", {
    cause,
    remedy: "End the program that holds state.db, then send the message again.",
  });
}
