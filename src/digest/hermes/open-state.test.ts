import { execFile } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type HermesState, hermesState } from "../../../test/support/hermes-state.ts";
import { temporaryFolder } from "../../../test/support/store.ts";

const NOW = 1_764_504_000; // 2025-11-30T12:00:00Z
/** Nobody: the superuser may write everywhere. */
const NOBODY = 65_534;
const other = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
let temporary: string;
let state: HermesState | null;

beforeEach(() => {
  folder = temporaryFolder();
  home = join(folder.path, "home");
  temporary = join(folder.path, "tmp");
  for (const path of [home, temporary]) mkdirSync(path);
  chmodSync(folder.path, 0o755);
  if (other.uid !== undefined) chownSync(temporary, other.uid, other.gid);
  state = hermesState(join(home, "state.db"));
  state.message(state.session({ id: "s", source: "cli" }), "user", "in the file", NOW - 60);
});
afterEach(() => {
  state?.close();
  chmodSync(home, 0o755);
  folder.remove();
});

/** What another user of this machine reads there: the user lines, or the error. */
async function reads(): Promise<{ said?: string[]; error?: { code: string; remedy: string } }> {
  const talks = new URL("./talks.ts", import.meta.url).href;
  const digest = new URL("../digest.ts", import.meta.url).href;
  const script = `
    const { createHermesTalks } = await import(${JSON.stringify(talks)});
    const { readDigest, DEFAULT_DIGEST } = await import(${JSON.stringify(digest)});
    try {
      const { sections } = await readDigest(createHermesTalks({ path: process.argv[1] }), DEFAULT_DIGEST, ${NOW * 1000});
      console.log(JSON.stringify({ said: sections.flatMap(({ pairs }) => pairs.map(({ user }) => user)) }));
    } catch (error) {
      console.log(JSON.stringify({ error }));
    }`;
  const argv = ["--no-warnings", "--input-type=module", "-e", script, join(home, "state.db")];
  const { stdout } = await promisify(execFile)(process.execPath, argv, { ...other, env: { TMPDIR: temporary } });
  return JSON.parse(stdout);
}

function closed(): void {
  state?.close();
  state = null;
}

const lockFolder = (): void => {
  for (const name of readdirSync(home)) chmodSync(join(home, name), 0o444);
  chmodSync(home, 0o555);
};

/** F-DIG-04: with no log, an empty one, a full one, one of a program at work; and what cannot be read at all. */
describe("F-DIG-04 a state.db in a folder that cannot be written", () => {
  test("F-DIG-04 D1: whose log was folded in is read", async () => {
    closed();
    expect(readdirSync(home)).toEqual(["state.db"]);
    lockFolder();
    expect(await reads()).toEqual({ said: ["in the file"] });
    expect(readdirSync(home)).toEqual(["state.db"]);
  });

  test("F-DIG-04 D1: whose log is empty is read", async () => {
    state?.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    expect(statSync(join(home, "state.db-wal")).size).toBe(0);
    rmSync(join(home, "state.db-shm"));
    lockFolder();
    expect(await reads()).toEqual({ said: ["in the file"] });
  });

  test("F-DIG-04 D1: what stands only in the log is read too, and no copy stays", async () => {
    state?.message("s", "user", "in the log", NOW - 30);
    rmSync(join(home, "state.db-shm"));
    lockFolder();
    expect(await reads()).toEqual({ said: ["in the file", "in the log"] });
    expect(readdirSync(temporary)).toEqual([]);
    expect(existsSync(join(home, "state.db-shm"))).toBe(false);
  });

  test("F-DIG-04 D1: of a Hermes at work, with all three files, what was said last is read", async () => {
    state?.message("s", "user", "in the log", NOW - 30);
    lockFolder();
    expect(await reads()).toEqual({ said: ["in the file", "in the log"] });
    state?.message("s", "user", "said meanwhile", NOW - 20);
    expect(await reads()).toEqual({ said: ["in the file", "in the log", "said meanwhile"] });
    expect(readdirSync(temporary)).toEqual([]);
  });

  test("F-DIG-04 D1: without a log, as an older Hermes writes it, it is read", async () => {
    state?.exec("PRAGMA journal_mode = DELETE");
    closed();
    lockFolder();
    expect(await reads()).toEqual({ said: ["in the file"] });
  });

  test.each(["state.db", "state.db-wal"])(
    "F-DIG-04 E3: a %s that may not be read is said, with a remedy that helps, and no copy stays",
    async (name) => {
      state?.message("s", "user", "in the log", NOW - 30);
      rmSync(join(home, "state.db-shm"));
      lockFolder();
      chmodSync(join(home, name), 0o000);
      expect(await reads()).toMatchObject({
        error: { code: "foreign_state", remedy: expect.stringContaining("may read the file") },
      });
      expect(readdirSync(temporary)).toEqual([]);
    },
  );
});
