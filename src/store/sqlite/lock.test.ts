import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { temporaryFolder } from "../../../test/support/store.ts";
import { acquireLock, readLock } from "./lock.ts";

describe("E4 the lock of a state folder", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  const path = (): string => `${folder.path}/gateway.lock`;
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(() => folder.remove());

  test("E4 one holds it, a second is refused and told who and where, and readers can read the address", () => {
    expect(readLock(path())).toBeNull();
    const lock = acquireLock({ path: path(), pid: 4711, now: 1 });
    expect(() => acquireLock({ path: path(), pid: 2, now: 2 })).toThrow(/process 4711, which is starting/);
    lock.publish("http://127.0.0.1:1");
    expect(() => acquireLock({ path: path(), pid: 2, now: 2 })).toThrow(/process 4711, at http:\/\/127\.0\.0\.1:1/);
    expect(readLock(path())).toMatchObject({ pid: 4711, address: "http://127.0.0.1:1" });
    lock.release();
    lock.release();
    expect(readLock(path())).toBeNull();
    acquireLock({ path: path(), pid: 3, now: 3 }).release();
    expect(statSync(path()).mode & 0o777).toBe(0o600);
  });

  test("E4 it is free again when its holder was killed", async () => {
    const script = `import { acquireLock } from ${JSON.stringify(new URL("./lock.ts", import.meta.url).href)};
      acquireLock({ path: process.argv[1], pid: process.pid, now: 0 }).publish("here"); console.log("held"); setInterval(() => {}, 1000);`;
    const holder = spawn(process.execPath, ["--input-type=module", "-e", script, path()], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(holder.stdout, "data");
    expect(readLock(path())).toMatchObject({ address: "here" });
    holder.kill("SIGKILL");
    await once(holder, "exit");
    expect(readLock(path())).toBeNull();
    acquireLock({ path: path(), pid: 1, now: 0 }).release();
  });

  test("E4 a folder that cannot be is said", () => {
    execFileSync("touch", [`${folder.path}/file`]);
    expect(() => acquireLock({ path: `${folder.path}/file/gateway.lock`, pid: 1, now: 0 })).toThrow(
      /cannot be written/,
    );
  });
});
