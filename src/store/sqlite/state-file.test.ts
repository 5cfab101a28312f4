import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createManualClock } from "../../../test/support/manual-clock.ts";
import { said, temporaryFolder } from "../../../test/support/store.ts";
import { acquireLock, hasBooted } from "./lock.ts";
import { hasState, openSqliteReader, openSqliteStore, type SqliteStore } from "./sqlite-store.ts";
import { setAside } from "./state-file.ts";

const clock = createManualClock(1_700_000_000_000);
let folder: ReturnType<typeof temporaryFolder>;
const at = (name: string): string => join(folder.path, name);
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder.remove());

/** One run of a gateway in a home, as its files see it. */
function run(home: string): { store: SqliteStore; stop(): Promise<void> } {
  const lock = acquireLock({ path: join(home, "gateway.lock"), pid: 1, now: 0 });
  try {
    const store = openSqliteStore({ path: join(home, "state.db"), clock, lock });
    lock.publish("http://here");
    return {
      store,
      stop: async () => {
        await store.close();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function say(store: SqliteStore, text: string): Promise<void> {
  const claim = await store.claim("test");
  await store.admit({ account: "console", platform: "console", agent: "main", now: 0, events: [said(text)] }, claim);
}

function words(state: string): unknown[] {
  const db = new DatabaseSync(state);
  try {
    return db
      .prepare("SELECT body FROM message ORDER BY id")
      .all()
      .map(({ body }) => body);
  } finally {
    db.close();
  }
}

/** What a SIGKILL leaves of a home: the files as they stand. */
function killed(home: string, name: string): string {
  const left = at(name);
  mkdirSync(left);
  for (const file of ["state.db", "state.db-wal", "gateway.lock"]) copyFileSync(join(home, file), join(left, file));
  return left;
}

/** What the files of a state hold: an empty log holds nothing, and what SQLite shares between processes is made anew. */
const contentOf = (home: string, state = "state.db") =>
  Object.fromEntries(
    readdirSync(home)
      .filter((name) => name.startsWith(state) && !name.endsWith("-shm") && statSync(join(home, name)).isFile())
      .map((name) => [name, readFileSync(join(home, name))] as const)
      .filter(([, bytes]) => bytes.length > 0)
      .map(([name, bytes]) => [name, createHash("sha256").update(bytes).digest("hex")]),
  );

/** Refused by a start and by commands, again and again, and nothing is touched. */
function expectRefused(home: string, code = "store_corrupt"): void {
  const before = contentOf(home);
  for (let time = 0; time < 2; time++) {
    expect(() => run(home)).toThrow(expect.objectContaining({ code }));
    const files = { state: join(home, "state.db"), lock: join(home, "gateway.lock") };
    expect(() => hasState(files) && openSqliteReader(files.state, files.lock).close()).toThrow(
      expect.objectContaining({ code }),
    );
  }
  expect(contentOf(home)).toEqual(before);
}

/** The kind: whatever can become of the file between two starts. A log is destroyed by SQLite beside an empty file, and taken for its own by any other. */
describe("F-STO-01 E5 a state that was there and is not to be read is refused, and begins anew only by hand", () => {
  /** A home that was killed in its second run, with words in the file and words in the log; and a backup from before that run. */
  const home = async (): Promise<string> => {
    mkdirSync(at("live"));
    const first = run(at("live"));
    await say(first.store, "one");
    await first.stop();
    copyFileSync(at("live/state.db"), at("backup.db"));
    const second = run(at("live"));
    await say(second.store, "two");
    const left = killed(at("live"), "left");
    await second.stop();
    return left;
  };

  test("F-STO-01 E5 what a kill leaves is gone on with, whether the log was folded into the file, in part, or not at all", async () => {
    const left = await home();
    const again = run(left);
    await say(again.store, "three");
    await clock.advance(1_000);
    await say(again.store, "four");
    const later = killed(left, "later");
    await clock.advance(1_000);
    const folded = killed(left, "folded");
    await again.stop();
    for (const one of [later, folded]) {
      const last = run(one);
      await last.stop();
      expect(words(join(one, "state.db"))).toEqual(["one", "two", "three", "four"]);
    }
    // The whole folder may be moved, and a record of the lock be lost.
    rmSync(join(left, "gateway.lock"));
    await run(left).stop();
  });

  const kinds: [string, (state: string) => void][] = [
    ["emptied", (state) => truncateSync(state, 0)],
    ["removed", (state) => rmSync(state)],
    ["removed with its log", (state) => [rmSync(state), rmSync(`${state}-wal`)]],
    ["emptied, and its log removed", (state) => [truncateSync(state, 0), rmSync(`${state}-wal`)]],
    ["removed, and its log emptied", (state) => [rmSync(state), truncateSync(`${state}-wal`, 0)]],
    ["a letter", (state) => writeFileSync(state, "This is a letter to my aunt.".repeat(500))],
    ["a letter shorter than a header", (state) => writeFileSync(state, "SQLite format 3")],
    ["cut after its header", (state) => truncateSync(state, 100)],
    ["cut after its first page", (state) => truncateSync(state, 4096)],
    ["cut by its last page", (state) => truncateSync(state, statSync(state).size - 4096)],
    ["cut within a page, without a log", (state) => [rmSync(`${state}-wal`), truncateSync(state, 50_000)]],
    ["a folder", (state) => [rmSync(state), mkdirSync(state)]],
    ["a backup that was copied over it, beside its log", (state) => copyFileSync(at("backup.db"), state)],
    [
      "a backup that was put in its place, beside its log",
      (state) => [rmSync(state), renameSync(at("backup.db"), state)],
    ],
    [
      "another home's state, beside its log",
      (state) => {
        const other = openSqliteStore({ path: at("other.db"), clock });
        void other.close();
        copyFileSync(at("other.db"), state);
      },
    ],
    [
      "an empty database",
      (state) => {
        rmSync(state);
        rmSync(`${state}-wal`);
        const db = new DatabaseSync(state);
        db.exec("CREATE TABLE t(x); DROP TABLE t");
        db.close();
      },
    ],
    [
      "a database of another program",
      (state) => {
        rmSync(state);
        rmSync(`${state}-wal`);
        const db = new DatabaseSync(state);
        db.exec("CREATE TABLE sessions(id TEXT); PRAGMA user_version = 20");
        db.close();
      },
    ],
    [
      "a database of another program, of our version",
      (state) => {
        rmSync(state);
        rmSync(`${state}-wal`);
        const db = new DatabaseSync(state);
        db.exec("CREATE TABLE meta(key TEXT, value TEXT); PRAGMA user_version = 5; PRAGMA application_id = 252006674");
        db.close();
      },
    ],
    [
      "without one of its tables",
      (state) => {
        const db = new DatabaseSync(state);
        db.exec("PRAGMA foreign_keys = OFF; DROP TABLE intake");
        db.close();
      },
    ],
    [
      "without one of its tables, and only its log says so",
      (state) => {
        const db = new DatabaseSync(state);
        db.exec("PRAGMA wal_autocheckpoint = 0; PRAGMA foreign_keys = OFF; DROP TABLE intake");
        const log = readFileSync(`${state}-wal`);
        const before = readFileSync(state);
        db.close();
        writeFileSync(state, before);
        writeFileSync(`${state}-wal`, log);
      },
    ],
  ];
  test.each(kinds)("F-STO-01 E5 %s: refused, by every start and command, and nothing is touched", async (_, change) => {
    const left = await home();
    change(join(left, "state.db"));
    expectRefused(left);
    const lock = acquireLock({ path: join(left, "gateway.lock"), pid: 1, now: 0 });
    const before = Object.values(contentOf(left));
    setAside(join(left, "state.db"), new Date());
    expect(Object.values(contentOf(left))).toEqual(before);
    lock.forget();
    lock.release();
    await run(left).stop();
    expect(words(join(left, "state.db"))).toEqual([]);
  });

  /** The state stands elsewhere, and a link leads there; SQLite keeps the log beside the file itself. */
  const linked = async (): Promise<string> => {
    const left = await home();
    mkdirSync(at("disk"));
    for (const suffix of ["", "-wal"]) renameSync(join(left, `state.db${suffix}`), at(`disk/data.db${suffix}`));
    symlinkSync("data.db", at("disk/link.db"));
    symlinkSync("../disk/link.db", join(left, "state.db"));
    return left;
  };

  test("F-STO-01 E5 a state behind a link is gone on with", async () => {
    const left = await linked();
    await run(left).stop();
    expect(words(join(left, "state.db"))).toEqual(["one", "two"]);
  });

  test.each<[string, () => void]>([
    ["emptied", () => truncateSync(at("disk/data.db"), 0)],
    ["removed", () => rmSync(at("disk/data.db"))],
    ["a backup beside its log", () => copyFileSync(at("backup.db"), at("disk/data.db"))],
  ])("F-STO-01 E5 a state behind a link, %s: refused by its log alone, and set aside with it", async (_, change) => {
    const left = await linked();
    rmSync(join(left, "gateway.lock"));
    change();
    const before = contentOf(at("disk"), "data.db");
    for (let time = 0; time < 2; time++)
      expect(() => run(left)).toThrow(expect.objectContaining({ code: "store_corrupt" }));
    expect(contentOf(at("disk"), "data.db")).toEqual(before);
    const lock = acquireLock({ path: join(left, "gateway.lock"), pid: 1, now: 0 });
    setAside(join(left, "state.db"), new Date());
    expect(Object.values(contentOf(at("disk"), "data.db"))).toEqual(Object.values(before));
    lock.forget();
    lock.release();
    await run(left).stop();
    expect(words(join(left, "state.db"))).toEqual([]);
  });

  test("F-STO-01 E5 a state that has lost its version is not begun anew upon", async () => {
    const left = await home();
    const db = new DatabaseSync(join(left, "state.db"));
    db.exec("PRAGMA user_version = 0");
    db.close();
    const before = contentOf(left);
    expect(() => run(left)).toThrow(expect.objectContaining({ code: "store_corrupt" }));
    expect(contentOf(left)).toEqual(before);
  });

  test("F-STO-01 E5 a rebuilt copy is not taken for the file its log was written for", async () => {
    const left = await home();
    const again = run(left);
    await say(again.store, "three");
    await clock.advance(1_000);
    const db = new DatabaseSync(join(left, "state.db"));
    db.exec(`VACUUM INTO '${at("rebuilt.db")}'`);
    db.close();
    const idle = killed(left, "idle");
    await again.stop();
    copyFileSync(at("rebuilt.db"), join(idle, "state.db"));
    expectRefused(idle);
  });

  test("F-STO-01 E5 a copy made earlier in the same run is not, either", async () => {
    const left = await home();
    const again = run(left);
    await say(again.store, "three");
    await clock.advance(1_000);
    copyFileSync(join(left, "state.db"), at("hot.db"));
    for (const text of ["four", "five"]) {
      await say(again.store, text);
      await clock.advance(1_000);
    }
    await say(again.store, "six");
    const later = killed(left, "later");
    await again.stop();
    copyFileSync(at("hot.db"), join(later, "state.db"));
    expectRefused(later);
  });

  test("F-STO-01 E5 a backup alone is gone on with, and where nothing was, an empty file is a new one", async () => {
    const left = await home();
    rmSync(join(left, "state.db-wal"));
    copyFileSync(at("backup.db"), join(left, "state.db"));
    await run(left).stop();
    expect(words(join(left, "state.db"))).toEqual(["one"]);
    mkdirSync(at("fresh"));
    writeFileSync(at("fresh/state.db"), "");
    expect(hasState({ state: at("fresh/state.db"), lock: at("fresh/gateway.lock") })).toBe(false);
    await run(at("fresh")).stop();
    expect(hasBooted(at("fresh/gateway.lock"))).toBe(true);
  });

  test("F-STO-01 E5 a start that is cut off at any moment is followed by another one", async () => {
    const left = await home();
    for (const [n, sql] of ["PRAGMA application_id = 0", "PRAGMA application_id = 1409286200"].entries()) {
      // A file without a mark, as an older Tertulia leaves it; and one that was about to get another.
      const cut = at(`cut${n}`);
      mkdirSync(cut);
      for (const file of readdirSync(left)) copyFileSync(join(left, file), join(cut, file));
      const db = new DatabaseSync(join(cut, "state.db"));
      db.exec("PRAGMA wal_autocheckpoint = 0; BEGIN; UPDATE meta SET value = value + 1 WHERE key = 'boot'; COMMIT");
      const id = Number(db.prepare("PRAGMA application_id").get()!.application_id);
      db.exec(`PRAGMA application_id = ${id}; ${sql}`);
      const half = killed(cut, `half${n}`);
      db.close();
      await run(half).stop();
    }
    expect(existsSync(at("half1/state.db"))).toBe(true);
  });

  test("F-STO-01 E5 the lock of an older Tertulia, which wrote down only where it listened, is a record too", () => {
    mkdirSync(at("old"));
    const db = new DatabaseSync(at("old/gateway.lock"));
    db.exec("CREATE TABLE holder(pid INT, address TEXT, since INT); INSERT INTO holder VALUES(1, 'http://here', 5)");
    db.close();
    expectRefused(at("old"));
    expect(hasBooted(at("old/gateway.lock"))).toBe(true);
  });
});

/** The kind: whatever happens to the names of the files while a gateway has them open. */
describe("F-SEC-11 E5 a state that is moved away or replaced while it is open is noticed before anything is acknowledged", () => {
  test.each<[string, (state: string) => void]>([
    ["moved away", (state) => renameSync(state, `${state}.bak`)],
    ["removed", (state) => rmSync(state)],
    ["replaced", (state) => [copyFileSync(state, `${state}.copy`), renameSync(`${state}.copy`, state)]],
    ["its log removed", (state) => rmSync(`${state}-wal`)],
    [
      "its log replaced",
      (state) => [copyFileSync(`${state}-wal`, `${state}.w`), renameSync(`${state}.w`, `${state}-wal`)],
    ],
    [
      "all of it moved",
      (state) => ["", "-wal", "-shm"].map((suffix) => renameSync(state + suffix, `${state}.bak${suffix}`)),
    ],
    ["the folder moved", () => renameSync(at("home"), at("elsewhere"))],
    ["emptied in its place", (state) => truncateSync(state, 0)],
    ["cut in its place", (state) => truncateSync(state, 8_192)],
  ])("F-SEC-11 E5 %s", async (_, change) => {
    mkdirSync(at("home"));
    const store = openSqliteStore({ path: at("home/state.db"), clock });
    const claim = await store.claim("test");
    await say(store, "before");
    change(at("home/state.db"));
    const event = said("after");
    const batch = { account: "console", platform: "console", agent: "main", now: 0, events: [event] } as const;
    const both = [store.admit(batch, claim), store.keep({ kind: "prune", now: 0 }, claim)];
    for (const verb of both)
      await expect(verb).rejects.toMatchObject({
        code: "store_unavailable",
        message: expect.stringMatching(/state\.db(-wal)? was moved away or replaced/),
      });
    await store.close();
  });

  test("F-SEC-11 E5 a link that leads elsewhere now, and a log that is gone behind one", async () => {
    for (const change of [
      () => [
        rmSync(at("state.db")),
        copyFileSync(at("data.db"), at("other.db")),
        symlinkSync("other.db", at("state.db")),
      ],
      () => rmSync(at("data.db-wal")),
    ]) {
      for (const name of readdirSync(folder.path)) rmSync(at(name));
      symlinkSync("data.db", at("state.db"));
      const store = openSqliteStore({ path: at("state.db"), clock });
      await say(store, "before");
      change();
      await expect(say(store, "after")).rejects.toMatchObject({ code: "store_unavailable" });
      await store.close();
    }
  });

  test("F-SEC-11 E5 put back, it goes on, and nothing of what was refused is in it", async () => {
    const store = openSqliteStore({ path: at("state.db"), clock });
    await say(store, "before");
    renameSync(at("state.db"), at("away.db"));
    await expect(say(store, "refused")).rejects.toMatchObject({ code: "store_unavailable" });
    renameSync(at("away.db"), at("state.db"));
    await say(store, "after");
    await store.close();
    expect(words(at("state.db"))).toEqual(["before", "after"]);
  });

  test("F-SEC-11 E5 what was put in its place is whole after the end, its log too", async () => {
    const other = openSqliteStore({ path: at("other.db"), clock });
    await say(other, "another");
    const store = openSqliteStore({ path: at("state.db"), clock });
    await say(store, "mine");
    for (const suffix of ["", "-wal", "-shm"]) renameSync(at(`state.db${suffix}`), at(`away.db${suffix}`));
    for (const suffix of ["", "-wal"]) copyFileSync(at(`other.db${suffix}`), at(`state.db${suffix}`));
    await store.close();
    expect(readFileSync(at("state.db-wal")).equals(readFileSync(at("other.db-wal")))).toBe(true);
    await other.close();
    expect(words(at("away.db"))).toEqual(["mine"]);
    expect(words(at("state.db"))).toEqual(["another"]);
  });
});
