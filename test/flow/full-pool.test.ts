import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import type { Said } from "../../src/intake/local-doors.ts";
import { createDemoRuntime } from "../../src/runtime/demo/demo-runtime.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { silentLog } from "../../src/util/log.ts";
import { createManualClock, type ManualClock } from "../support/manual-clock.ts";
import { temporaryFolder } from "../support/store.ts";

const OWNER = { id: "owner", role: "owner" } as const;

describe("more conversations than places for agents", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let clock: ManualClock;
  let gateway: Gateway;

  const open = async (
    maxWarm: number,
    { maxMemoryMb, memoryMb, ...turn }: { maxMemoryMb?: number; memoryMb?: number; turnIdleTimeoutMs?: number } = {},
  ): Promise<void> => {
    folder = temporaryFolder();
    clock = createManualClock(Date.UTC(2026, 10, 30, 12));
    const base = loadConfig({ flags: { home: folder.path }, env: {} });
    gateway = new Gateway({
      config: {
        ...base,
        pool: { ...base.pool, maxWarm, ...(maxMemoryMb === undefined ? {} : { maxMemoryMb }) },
        turn: { ...base.turn, ...turn },
      },
      store: openSqliteStore({ path: `${folder.path}/state.db`, clock }),
      log: silentLog,
      clock,
      runtimes: { demo: { ...createDemoRuntime({ clock }), ...(memoryMb === undefined ? {} : { memoryMb }) } },
    });
    await gateway.start();
  };
  beforeEach(() => open(2));
  afterEach(async () => {
    const stopped = gateway.stop();
    for (let n = 0; n < 300 && gateway.pool.list().length > 0; n++) await clock.advance(100);
    await stopped;
    folder.remove();
  });

  const says = async (name: string, text: string): Promise<Extract<Said, { kind: "turn" }>> => {
    const door = { platform: "console", name } as const;
    const said = await gateway.doors.say({ person: OWNER, agent: "main", door, text });
    if (said.kind !== "turn") throw new Error(said.kind);
    return said;
  };
  const fateOf = async ({ messageId }: { messageId: number }) => (await gateway.reader.fates(messageId))[0]?.fate;
  const settles = async () => {
    for (let n = 0; n < 20; n++) await clock.advance(0);
  };

  test("B4 T10: while all agents are busy a further turn waits, others join it, and it runs when one is free", async () => {
    const first = await says("a", "slow 50");
    await says("b", "slow 90");
    const third = await says("c", "hello");
    await settles();
    expect(await fateOf(first)).toMatchObject({ fate: "running" });
    expect(await fateOf(third)).toEqual({ fate: "waiting", position: 1 });
    const follower = await says("c", "and more");
    expect(follower.turnId).toBe(third.turnId);
    expect(gateway.pool.counters.opened).toBe(2);
    for (let n = 0; n < 200 && (await fateOf(third))?.fate !== "answered"; n++) await clock.advance(100);
    expect(await fateOf(third)).toEqual({ fate: "answered" });
    expect(await fateOf(follower)).toEqual({ fate: "answered" });
  });

  // The kind: messages that come in the same moment, before any of them has its place.
  test.each([
    [1, 2],
    [2, 3],
    [2, 5],
  ])(
    "F-TRN-04 B4 T10: with %i places, those of %i who speak at once and find none wait where others can join them",
    async (places, all) => {
      await gateway.stop();
      folder.remove();
      await open(places);
      const names = Array.from({ length: all }, (_, n) => `c${n}`);
      const said = await Promise.all(names.map((name) => says(name, "slow 20")));
      const states = await Promise.all(
        said.map(({ turnId }) => gateway.reader.turn(turnId).then((turn) => turn!.state)),
      );
      expect(states).toEqual(names.map((_, n) => (n < places ? "running" : "queued")));
      for (const [n, { turnId }] of said.slice(places).entries())
        expect((await says(names[places + n]!, "and more")).turnId).toBe(turnId);
      for (let n = 0; n < 400 && (await fateOf(said.at(-1)!))?.fate !== "answered"; n++) await clock.advance(100);
      expect(await Promise.all(said.map(fateOf))).toEqual(names.map(() => ({ fate: "answered" })));
    },
  );

  test("B4: a restart by hand waits for no place, and takes none from those who wait", async () => {
    const parked = await says("c", "hello");
    await gateway.turns.answerOf(parked.turnId);
    await says("a", "slow 50");
    await says("b", "slow 90");
    await settles();
    expect(await gateway.turns.restart(parked.sessionId)).toEqual({ how: null });
    expect(gateway.pool.list()).toHaveLength(2);
  });

  test("B4 T7: a wait for memory counts for no limit of the turn", async () => {
    await gateway.stop();
    folder.remove();
    await open(8, { maxMemoryMb: 100, memoryMb: 80, turnIdleTimeoutMs: 60_000 });
    const first = await says("a", "slow 1500");
    await settles();
    const second = await says("b", "say at last");
    for (let n = 0; n < 3_000 && (await fateOf(second))?.fate !== "answered"; n++) {
      await clock.advance(100);
      expect((await fateOf(second))?.fate).not.toBe("failed");
    }
    expect(await fateOf(first)).toEqual({ fate: "answered" });
    expect(await fateOf(second)).toEqual({ fate: "answered" });
  });

  test("B4 T4: those who wait begin in the order in which they came, and a busy chat does not overtake them", async () => {
    await says("a", "slow 5");
    await says("b", "slow 300");
    const waiting = [await says("c", "1"), await says("d", "2"), await says("e", "3")];
    const again = await says("a", "4");
    for (let n = 0; n < 400 && (await fateOf(again))?.fate !== "answered"; n++) await clock.advance(20);
    const turns = await Promise.all([...waiting, again].map(({ turnId }) => gateway.reader.turn(turnId)));
    const begun = turns.map((turn) => turn!.begunAt!);
    expect(begun).toEqual([...begun].sort((a, b) => a - b));
  });
});

describe("one agent that hangs", () => {
  test("B5 G-RUN-05: among 50 conversations it delays nobody else, and /stop frees its place", async () => {
    const folder = temporaryFolder();
    const clock = createManualClock(Date.UTC(2026, 10, 30, 12));
    const base = loadConfig({ flags: { home: folder.path }, env: {} });
    const gateway = new Gateway({
      config: { ...base, pool: { ...base.pool, maxWarm: 8 } },
      store: openSqliteStore({ path: `${folder.path}/state.db`, clock }),
      log: silentLog,
      clock,
      runtimes: { demo: createDemoRuntime({ clock }) },
    });
    await gateway.start();
    const says = (name: string, text: string) =>
      gateway.doors.say({ person: OWNER, agent: "main", door: { platform: "console", name }, text });
    const hanging = await says("hanging", "hang");
    const before = clock.now();
    const turns = await Promise.all(Array.from({ length: 49 }, (_, n) => says(`c${n}`, "hello")));
    const answers = Promise.all(turns.map((said) => gateway.turns.answerOf(said.turnId!)));
    expect((await answers).every(({ turn }) => turn.state === "answered")).toBe(true);
    expect(clock.now()).toBe(before);
    expect((await gateway.reader.turn(hanging.turnId!))?.state).toBe("running");
    await says("hanging", "/stop");
    for (let n = 0; n < 200 && (await gateway.reader.turn(hanging.turnId!))?.state === "running"; n++)
      await clock.advance(100);
    expect((await gateway.reader.turn(hanging.turnId!))?.state).toBe("interrupted");
    const stopped = gateway.stop();
    for (let n = 0; n < 300 && gateway.pool.list().length > 0; n++) await clock.advance(100);
    await stopped;
    folder.remove();
  });
});
