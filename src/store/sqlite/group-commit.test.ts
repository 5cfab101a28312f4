import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { said, temporaryFolder } from "../../../test/support/store.ts";
import { systemClock } from "../../util/clock.ts";
import type { InboundEvent } from "../events.ts";
import type { Claim } from "../port.ts";
import { openSqliteStore, type SqliteStore } from "./sqlite-store.ts";

describe("group commit", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let store: SqliteStore;
  let claim: Claim;
  const path = (): string => `${folder.path}/state.db`;
  const open = async (maxPages?: number): Promise<void> => {
    store = openSqliteStore({ path: path(), clock: systemClock, ...(maxPages === undefined ? {} : { maxPages }) });
    claim = await store.claim("test");
  };
  const admit = (event: InboundEvent, account = "console") =>
    store.admit({ account, platform: "console", agent: "main", now: Date.now(), events: [event] }, claim);

  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(async () => {
    await store.close();
    folder.remove();
  });

  test("verbs that wait together share a commit, and settle after it in their order", async () => {
    await open();
    const before = { ...store.counters };
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 64 }, (_, i) => admit(said("hi", { name: `n${i}` })).then(() => order.push(i))),
    );
    expect(order).toEqual(Array.from({ length: 64 }, (_, i) => i));
    expect(store.counters.verbs - before.verbs).toBe(64);
    expect(store.counters.commits - before.commits).toBe(1);
  });

  test("a verb that throws is alone: the others of its group are replayed and stay", async () => {
    await open();
    const bad = { ...said("bad"), text: null as unknown as string };
    const results = await Promise.allSettled([
      admit(said("a", { name: "a" })),
      admit(bad),
      admit(said("b", { name: "b" })),
    ]);
    expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect((await store.counts()).messages).toBe(2);
  });

  test("G-PER-05 a full file refuses what does not fit, whole, and takes the next message when there is space", async () => {
    await open(90);
    let refused: unknown = null;
    for (let i = 0; i < 200 && refused === null; i++) {
      await admit(said("x".repeat(4_000), { name: `n${i}` })).catch((error) => {
        refused = error;
      });
    }
    expect(refused).toMatchObject({ code: "store_unavailable" });
    const { messages, turns } = await store.counts();
    expect(turns).toBe(messages);
    // In a group, too, each is refused by itself, and nothing half written stays.
    const group = await Promise.allSettled(
      Array.from({ length: 8 }, (_, i) => admit(said("y".repeat(4_000), { name: `g${i}` }))),
    );
    expect(group.every((result) => result.status === "rejected")).toBe(true);
    expect((await store.counts()).messages).toBe(messages);
    await store.close();
    await open();
    expect((await admit(said("fits"))).outcomes[0]!.kind).toBe("queued");
    expect(new DatabaseSync(path()).prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  });

  test("G-PER-02 while another process holds the file, verbs wait, in order, and the event loop stays alive", async () => {
    await open();
    const other = new DatabaseSync(path());
    other.exec("BEGIN IMMEDIATE");
    let ticks = 0;
    const ticking = setInterval(() => {
      ticks += 1;
      if (ticks === 20) other.exec("COMMIT");
    }, 5);
    const outcomes = await Promise.all([admit(said("1", { name: "a" })), admit(said("2", { name: "b" }))]);
    clearInterval(ticking);
    other.close();
    expect(outcomes.map(({ outcomes: [outcome] }) => outcome!.kind)).toEqual(["queued", "queued"]);
    expect(ticks).toBeGreaterThanOrEqual(20);
  });

  test("G-PER-01 short read-only and read-write openers beside a writing gateway break nothing", async () => {
    await open();
    for (let i = 0; i < 40; i++) {
      const reader = new DatabaseSync(path(), { readOnly: true });
      await admit(said("hi", { name: `n${i}` }));
      reader.prepare("SELECT count(*) FROM message").get();
      reader.close();
    }
    const writer = new DatabaseSync(path());
    writer.exec("UPDATE meta SET value = value");
    writer.close();
    await admit(said("after"));
    expect((await store.counts()).messages).toBe(41);
    const check = new DatabaseSync(path(), { readOnly: true });
    expect(check.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    check.close();
  });

  test("what is queued at close is committed; later verbs are refused", async () => {
    await open();
    const last = admit(said("last words"));
    await store.close();
    expect((await last).outcomes[0]!.kind).toBe("queued");
    await expect(admit(said("late"))).rejects.toMatchObject({ code: "store_unavailable" });
    await open();
    expect((await store.counts()).messages).toBe(1);
  });
});
