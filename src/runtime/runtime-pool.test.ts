import { afterEach, describe, expect, test } from "vitest";
import { createManualClock } from "../../test/support/manual-clock.ts";
import { TertuliaError } from "../errors.ts";
import { createDemoRuntime } from "./demo/demo-runtime.ts";
import type { AgentSession, OpenRequest, Runtime, RuntimePoolEvent } from "./runtime.ts";
import { type AcquireRequest, createRuntimePool, type Lease, type RuntimePool } from "./runtime-pool.ts";

const MINUTE_MS = 60_000;

const pools: { pool: RuntimePool; pending: () => number }[] = [];
afterEach(async () => {
  for (const { pool, pending } of pools.splice(0)) {
    await pool.close();
    expect(pool.list()).toEqual([]);
    expect(pending()).toBe(0);
  }
});

function stage({
  maxWarm = 32,
  idleMs = 60 * MINUTE_MS,
  ...memory
}: {
  maxWarm?: number;
  idleMs?: number;
  maxMemoryMb?: number;
} = {}) {
  const clock = createManualClock(1_000_000);
  const events: RuntimePoolEvent[] = [];
  let mostAlive = 0;
  const pool: RuntimePool = createRuntimePool({
    clock,
    idleMs,
    maxWarm,
    ...memory,
    onEvent(event) {
      events.push(event);
      mostAlive = Math.max(mostAlive, pool.list().filter(isAlive).length);
    },
  });
  pools.push({ pool, pending: () => clock.pending });
  const demo = createDemoRuntime({ clock });
  const acquire = (sessionId: string, more: Partial<AcquireRequest> = {}): Promise<Lease> =>
    pool.acquire({
      sessionId,
      runtime: demo,
      request: async () => requestOf(sessionId),
      signal: new AbortController().signal,
      ...more,
    });
  const touch = async (sessionId: string): Promise<void> => (await acquire(sessionId)).release();
  return {
    clock,
    pool,
    demo,
    acquire,
    touch,
    states: (sessionId: string) => events.filter((e) => e.sessionId === sessionId).map((e) => e.to),
    problems: () => events.flatMap((e) => (e.problem === undefined ? [] : [e.problem])),
    hows: () => events.flatMap((e) => (e.how === undefined ? [] : [e.how])),
    mostAlive: () => mostAlive,
    stateOf: (sessionId: string) => pool.list().find((h) => h.sessionId === sessionId)?.state,
  };
}

function isAlive({ state }: { state: string }): boolean {
  return state !== "cold" && state !== "broken";
}

function requestOf(sessionId: string): OpenRequest {
  return {
    sessionId,
    sessionKey: `key:${sessionId}`,
    stablePart: "",
    primer: { total: 0, lines: [] },
    signal: new AbortController().signal,
  };
}

async function say(lease: Lease, text: string) {
  const input = { turnId: 1, facts: "", text, missed: [] };
  return lease.session.turn(input, { signal: new AbortController().signal, onEvent: async () => undefined });
}

/** The demo, with its handles changed. */
function variant(demo: Runtime, change: (session: AgentSession) => Partial<AgentSession>, name = "demo"): Runtime {
  return {
    ...demo,
    name,
    async open(request) {
      const session = await demo.open(request);
      return {
        ref: session.ref,
        how: session.how,
        turn: (input, options) => session.turn(input, options),
        park: () => session.park(),
        onDead: (listener) => session.onDead(listener),
        ...change(session),
      };
    },
  };
}

function failing(demo: Runtime, name = "failing"): Runtime & { opens: number; heal(): void } {
  let isHealed = false;
  const runtime = {
    ...demo,
    name,
    opens: 0,
    heal: () => {
      isHealed = true;
    },
    async open(request: OpenRequest) {
      runtime.opens++;
      if (!isHealed) throw new Error("no such command");
      return demo.open(request);
    },
  };
  return runtime;
}

/** Not settled after everything that can go on has gone on. */
async function isPending(promise: Promise<unknown>, clock: { advance(ms: number): Promise<void> }): Promise<boolean> {
  let isSettled = false;
  const settle = (): void => {
    isSettled = true;
  };
  promise.then(settle, settle);
  await clock.advance(0);
  return !isSettled;
}

describe("one handle per session and runtime", () => {
  test("B3: a second message in a live session opens nothing", async () => {
    const { acquire, pool } = stage();
    const first = await acquire("s1");
    expect(first.cold).toBe(true);
    expect(first.how).toBe("created");
    first.release();
    const second = await acquire("s1");
    expect(second.cold).toBe(false);
    expect(second.session).toBe(first.session);
    second.release();
    expect(pool.counters).toEqual({ opened: 1, parked: 0, evicted: 0, restarted: 0 });
  });

  test("B1: whoever asks at the same time waits for the same open, and then one after the other", async () => {
    const { acquire, pool, clock } = stage();
    const first = await acquire("s1");
    const later = [acquire("s1"), acquire("s1")] as const;
    expect(await isPending(later[0], clock)).toBe(true);
    first.release();
    const second = await later[0];
    expect(await isPending(later[1], clock)).toBe(true);
    second.release();
    (await later[1]).release();
    expect(pool.counters.opened).toBe(1);
  });

  test("B1: the same session has a handle of its own in each runtime", async () => {
    const { acquire, demo, pool } = stage();
    const here = await acquire("s1");
    const there = await acquire("s1", { runtime: variant(demo, () => ({}), "other") });
    expect(there.session).not.toBe(here.session);
    expect(pool.list().map((h) => h.runtime)).toEqual(["demo", "other"]);
    here.release();
    there.release();
  });

  test("B2: every change of state is told", async () => {
    const { acquire, states, hows, clock } = stage({ idleMs: MINUTE_MS });
    (await acquire("s1")).release();
    (await acquire("s1")).release();
    await clock.advance(MINUTE_MS);
    expect(states("s1")).toEqual(["warming", "warm", "busy", "warm", "busy", "warm", "draining", "cold"]);
    expect(hows()).toEqual(["created"]);
  });

  test("B1: what a lease does after its end changes nothing", async () => {
    const { acquire, pool } = stage();
    const first = await acquire("s1");
    first.release();
    const second = await acquire("s1");
    first.release();
    await first.discard();
    expect(pool.list().map((h) => h.state)).toEqual(["busy"]);
    second.release();
  });
});

describe("handles are parked", () => {
  test("B4: an unused handle is parked after the idle time, and one timer serves all", async () => {
    const { touch, acquire, clock, pool } = stage({ idleMs: 10 * MINUTE_MS });
    await touch("s1");
    await clock.advance(4 * MINUTE_MS);
    await touch("s2");
    const busy = await acquire("s3");
    expect(clock.pending).toBe(1);
    await clock.advance(6 * MINUTE_MS);
    expect(pool.list().map((h) => h.sessionId)).toEqual(["s2", "s3"]);
    await clock.advance(4 * MINUTE_MS);
    expect(pool.list().map((h) => h.sessionId)).toEqual(["s3"]);
    await clock.advance(60 * MINUTE_MS);
    expect(pool.list().map((h) => h.state)).toEqual(["busy"]);
    busy.release();
  });

  test("B4: using a handle starts its idle time anew", async () => {
    const { touch, clock, pool } = stage({ idleMs: 10 * MINUTE_MS });
    await touch("s1");
    await clock.advance(9 * MINUTE_MS);
    await touch("s1");
    await clock.advance(9 * MINUTE_MS);
    expect(pool.counters.parked).toBe(0);
    await clock.advance(MINUTE_MS);
    expect(pool.counters.parked).toBe(1);
  });

  test("B4: the least recently used idle handle makes place, a busy one never", async () => {
    const { acquire, touch, pool } = stage({ maxWarm: 3 });
    const busy = await acquire("busy");
    await touch("s1");
    await touch("s2");
    await touch("s1");
    await touch("s3");
    expect(pool.list().map((h) => h.sessionId)).toEqual(["busy", "s1", "s3"]);
    expect(pool.counters.evicted).toBe(1);
    busy.release();
  });

  test("B4: when all are busy the next ones wait in the order of asking", async () => {
    const { acquire, clock } = stage({ maxWarm: 1 });
    const first = await acquire("s1");
    const order: string[] = [];
    const waiting = ["s2", "s3", "s1"].map(async (sessionId) => {
      const lease = await acquire(sessionId);
      order.push(sessionId);
      lease.release();
    });
    await clock.advance(MINUTE_MS);
    expect(order).toEqual([]);
    first.release();
    await Promise.all(waiting);
    expect(order).toEqual(["s2", "s3", "s1"]);
  });

  test("B4: a wait that is given up leaves nothing, and the next in line is served", async () => {
    const { acquire, pool, stateOf } = stage({ maxWarm: 1 });
    const first = await acquire("s1");
    const giveUp = new AbortController();
    const second = acquire("s2", { signal: giveUp.signal });
    const third = acquire("s3");
    giveUp.abort(new Error("stopped"));
    await expect(second).rejects.toThrow("stopped");
    expect(stateOf("s2")).toBeUndefined();
    first.release();
    (await third).release();
    expect(pool.counters.opened).toBe(2);
  });

  test("B4: a park that hangs is abandoned after ten seconds", async () => {
    const { acquire, demo, clock, problems, pool } = stage({ maxWarm: 1 });
    const stuck = variant(demo, () => ({ park: () => new Promise<void>(() => undefined) }));
    (await acquire("s1", { runtime: stuck })).release();
    const next = acquire("s2");
    await clock.advance(9_999);
    expect(await isPending(next, clock)).toBe(true);
    await clock.advance(1);
    (await next).release();
    expect(problems()).toHaveLength(1);
    expect(pool.counters).toMatchObject({ evicted: 1, parked: 0 });
  });

  test("B4 G-RUN-04: 2,000 sessions, limit 3: never more than three handles, and nothing is remembered of the others", async () => {
    const { touch, clock, pool, mostAlive } = stage({ maxWarm: 3, idleMs: MINUTE_MS });
    for (let i = 0; i < 1_000; i++) await touch(`one-by-one-${i}`);
    await Promise.all(Array.from({ length: 1_000 }, (_, i) => touch(`at-once-${i}`)));
    expect(mostAlive()).toBe(3);
    expect(pool.list()).toHaveLength(3);
    expect(pool.counters).toEqual({ opened: 2_000, parked: 1_997, evicted: 1_997, restarted: 0 });
    await clock.advance(MINUTE_MS);
    expect(pool.list()).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  test("B4 G-RUN-04: one session evicted and opened again 50 times", async () => {
    const { touch, clock, pool } = stage({ idleMs: MINUTE_MS });
    for (let i = 0; i < 50; i++) {
      await touch("s1");
      await clock.advance(MINUTE_MS);
    }
    expect(pool.counters).toMatchObject({ opened: 50, parked: 50 });
    expect(clock.pending).toBe(0);
  });
});

describe("a session ends", () => {
  test("R4: its idle handle is parked before drop is done, and the next acquire opens anew", async () => {
    const { acquire, pool } = stage();
    const before = await acquire("s1");
    before.release();
    await pool.drop("s1");
    expect(pool.list()).toEqual([]);
    const after = await acquire("s1");
    expect(after.cold).toBe(true);
    expect(after.session).not.toBe(before.session);
    after.release();
    await pool.drop("s1");
    await pool.drop("s1");
  });

  test("R4: its busy handle is parked when the turn gives it back, and not used by the next", async () => {
    const { acquire, pool, clock } = stage();
    const before = await acquire("s1");
    await pool.drop("s1");
    const after = await acquire("s1");
    expect(after.session).not.toBe(before.session);
    expect(pool.list()).toHaveLength(2);
    before.release();
    await clock.advance(0);
    expect(pool.counters.parked).toBe(1);
    expect(pool.list()).toHaveLength(1);
    after.release();
  });

  test("R4: an open that is under way is aborted; who waits gets a new handle, after the old one is gone", async () => {
    const { acquire, demo, pool, clock } = stage();
    let opens = 0;
    let isAborted = false;
    const slow: Runtime = {
      ...demo,
      open(request) {
        if (++opens > 1) return demo.open(request);
        return new Promise((_, reject) => {
          request.signal.addEventListener("abort", () => {
            isAborted = true;
            reject(request.signal.reason);
          });
        });
      },
    };
    const waiting = acquire("s1", { runtime: slow });
    await clock.advance(0);
    await pool.drop("s1");
    expect(isAborted).toBe(true);
    (await waiting).release();
    expect(opens).toBe(2);
  });

  test("B4: a session is not opened anew before its handle that was dropped is closed", async () => {
    const { acquire, demo, pool, clock } = stage();
    const parked = Promise.withResolvers<void>();
    const slow = variant(demo, () => ({ park: () => parked.promise }));
    (await acquire("s1", { runtime: slow })).release();
    const dropped = pool.drop("s1");
    const waiting = acquire("s1", { runtime: slow });
    expect(await isPending(waiting, clock)).toBe(true);
    expect(pool.counters.opened).toBe(1);
    parked.resolve();
    await dropped;
    (await waiting).release();
    expect(pool.counters.opened).toBe(2);
  });

  test("B1: whoever waits through a drop keeps the count of restarts", async () => {
    const { acquire, pool, clock } = stage({ maxWarm: 1 });
    const other = await acquire("other");
    const waiting = acquire("s1", { restarts: 4 });
    await clock.advance(0);
    await pool.drop("s1");
    other.release();
    const lease = await waiting;
    expect(lease.restarts).toBe(4);
    lease.release();
  });
});

describe("an agent fails", () => {
  test("B5: one that dies idle is cold at once, and its restart is counted", async () => {
    const { acquire, demo, stateOf, problems, pool } = stage();
    let die = (): void => undefined;
    const mortal = variant(demo, () => ({
      onDead: (listener) => {
        die = () => listener({ kind: "process-died", message: "killed" });
        return () => undefined;
      },
    }));
    (await acquire("s1", { runtime: mortal })).release();
    die();
    die();
    expect(stateOf("s1")).toBe("cold");
    expect(problems()).toEqual([{ kind: "process-died", message: "killed" }]);
    const next = await acquire("s1", { runtime: mortal });
    expect(next).toMatchObject({ cold: true, restarts: 1 });
    expect(pool.counters.restarted).toBe(1);
    next.release();
  });

  test("B5: one that dies in a turn is opened anew after it, and counted once", async () => {
    const { acquire } = stage();
    const first = await acquire("s1", { restarts: 4 });
    expect(first.restarts).toBe(4);
    expect((await say(first, "die")).failure?.kind).toBe("process-died");
    await first.discard();
    const second = await acquire("s1");
    expect(second).toMatchObject({ cold: true, restarts: 5 });
    expect((await say(second, "say back")).text).toBe("back");
    second.release();
  });

  test("B5: a discarded handle is closed and counts as a restart, which is forgotten after the idle time", async () => {
    const { acquire, pool, clock } = stage({ idleMs: MINUTE_MS });
    const first = await acquire("s1");
    await first.discard();
    expect(pool.counters).toMatchObject({ parked: 1, restarted: 1 });
    expect(pool.list()).toMatchObject([{ state: "cold", restarts: 1 }]);
    await clock.advance(MINUTE_MS);
    expect(pool.list()).toEqual([]);
  });

  test("B5: an open that fails is refused at once until its back-off is over, which doubles to a minute", async () => {
    const { acquire, demo, clock, stateOf } = stage();
    const runtime = failing(demo);
    for (const backOffMs of [1, 2, 4, 8, 16, 32, 60, 60].map((s) => s * 1_000)) {
      const opens = runtime.opens;
      await expect(acquire("s1", { runtime })).rejects.toMatchObject({ code: "runtime_failed" });
      expect(stateOf("s1")).toBe("broken");
      await clock.advance(backOffMs - 1);
      await expect(acquire("s1", { runtime })).rejects.toThrow("can be tried again in 1 s");
      expect(runtime.opens).toBe(opens + 1);
      await clock.advance(1);
    }
    runtime.heal();
    (await acquire("s1", { runtime })).release();
    expect(stateOf("s1")).toBe("warm");
  });

  test("B5: what is refused because of the back-off is no failure of its own", async () => {
    const { acquire, demo } = stage();
    const runtime = failing(demo);
    await expect(acquire("s1", { runtime })).rejects.toMatchObject({ code: "runtime_failed" });
    await expect(acquire("s1", { runtime })).rejects.toMatchObject({ code: "runtime_resting" });
  });

  test("B5: a clock that is set back does not make a back-off longer", async () => {
    const { acquire, demo, clock, stateOf } = stage();
    const runtime = failing(demo);
    await expect(acquire("s1", { runtime })).rejects.toThrow();
    runtime.heal();
    clock.set(clock.now() - 500_000);
    (await acquire("s1", { runtime })).release();
    expect(stateOf("s1")).toBe("warm");
    clock.set(clock.now() + 500_000);
  });

  test("B5: all who wait for an open that fails are told, and a failure is forgotten in time", async () => {
    const { acquire, demo, clock, pool } = stage();
    const runtime = failing(demo);
    const both = await Promise.allSettled([acquire("s1", { runtime }), acquire("s1", { runtime })]);
    expect(both.map((r) => r.status)).toEqual(["rejected", "rejected"]);
    expect(runtime.opens).toBe(1);
    await clock.advance(61_000);
    expect(pool.list()).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  test("B5: a failing runtime neither delays nor breaks another session", async () => {
    const { acquire, touch, demo, clock } = stage({ maxWarm: 1 });
    const runtime = failing(demo);
    await expect(acquire("s1", { runtime })).rejects.toThrow();
    await touch("s2");
    await touch("s1");
    expect(clock.now()).toBe(1_000_000);
  });

  test("B5: what the question for the request throws is no failure of the runtime", async () => {
    const { acquire, touch, pool } = stage();
    const gone = new TertuliaError("store_unavailable", "The disk is full.");
    const request = (): Promise<OpenRequest> => Promise.reject(gone);
    await expect(acquire("s1", { request })).rejects.toBe(gone);
    expect(pool.list()).toEqual([]);
    await touch("s1");
  });

  test("B5: an open that nobody waits for any more is aborted, and abandoned when it does not end", async () => {
    const { acquire, touch, demo, clock, stateOf } = stage({ maxWarm: 1 });
    let arrive = (_: AgentSession): void => undefined;
    const deaf: Runtime = {
      ...demo,
      open: () =>
        new Promise((resolve) => {
          arrive = resolve;
        }),
    };
    const giveUp = new AbortController();
    const waiting = acquire("s1", { runtime: deaf, signal: giveUp.signal });
    await clock.advance(0);
    giveUp.abort(new Error("stopped"));
    await expect(waiting).rejects.toThrow("stopped");
    const next = touch("s2");
    expect(await isPending(next, clock)).toBe(true);
    await clock.advance(10_000);
    await next;
    expect(stateOf("s1")).toBeUndefined();

    let parks = 0;
    const late = await demo.open(requestOf("s1"));
    arrive({ ...late, ref: "s1", how: "created", park: async () => void parks++ });
    await clock.advance(0);
    expect(parks).toBe(1);
  });
});

test("B8: close parks every handle, those in a turn too, and refuses who comes or waits", async () => {
  const { acquire, touch, pool, clock } = stage({ maxWarm: 2 });
  const busy = await acquire("s1");
  await touch("s2");
  const turn = say(busy, "stubborn");
  const waiting = [acquire("s1"), acquire("s1")];
  const refused = Promise.allSettled(waiting);
  await pool.close();
  expect((await refused).map((r) => r.status)).toEqual(["rejected", "rejected"]);
  await expect(acquire("s3")).rejects.toMatchObject({ code: "gateway_stopping" });
  expect((await turn).outcome).toBe("failed");
  expect(pool.counters).toMatchObject({ opened: 2, parked: 2 });
  busy.release();
  await busy.discard();
  expect(clock.pending).toBe(0);
});

describe("a runtime that fails as a whole", () => {
  test("B5 three failed opens in a row, of whatever sessions, make it rest for all of them, and for no other runtime", async () => {
    const { acquire, clock, demo } = stage();
    const bad = failing(demo);
    for (const id of ["a", "b", "c"])
      await expect(acquire(id, { runtime: bad })).rejects.toThrow("could not be started");
    await expect(acquire("d", { runtime: bad })).rejects.toMatchObject({ code: "runtime_resting" });
    expect(bad.opens).toBe(3);
    (await acquire("d")).release();
    await clock.advance(1_000);
    await expect(acquire("d", { runtime: bad })).rejects.toMatchObject({ code: "runtime_failed" });
    await clock.advance(1_000);
    await expect(acquire("e", { runtime: bad })).rejects.toMatchObject({ code: "runtime_resting" });
    await clock.advance(1_000);
    bad.heal();
    (await acquire("e", { runtime: bad })).release();
    (await acquire("f", { runtime: bad })).release();
  });

  test("B5 one session that fails again and again does not make its runtime rest for the others", async () => {
    const { acquire, clock, demo } = stage();
    const bad = failing(demo);
    for (let n = 0; n < 5; n++) {
      await expect(acquire("a", { runtime: bad })).rejects.toMatchObject({ code: "runtime_failed" });
      await clock.advance(60_000);
    }
    await expect(acquire("a", { runtime: bad })).rejects.toMatchObject({ code: "runtime_failed" });
    bad.heal();
    (await acquire("b", { runtime: bad })).release();
  });

  test("B5 while a resting runtime is tried again for one session, the others do not wait for it", async () => {
    const { acquire, clock, demo } = stage();
    const bad = failing(demo);
    for (const id of ["a", "b", "c"]) await expect(acquire(id, { runtime: bad })).rejects.toThrow();
    await clock.advance(2_000);
    const opening = Promise.withResolvers<AgentSession>();
    const slow = { ...bad, open: () => opening.promise };
    const first = acquire("d", { runtime: slow });
    await clock.advance(0);
    await expect(acquire("e", { runtime: slow })).rejects.toMatchObject({ code: "runtime_resting" });
    opening.resolve(await demo.open(requestOf("d")));
    (await first).release();
  });
});

describe("memory", () => {
  const MB = 1024 * 1024;
  const heavy = (demo: Runtime, measured: Record<string, number>, memoryMb = 100): Runtime => ({
    ...variant(demo, ({ ref }) => ({ memory: async () => (measured[ref] ?? memoryMb) * MB }), "heavy"),
    memoryMb,
  });

  test("B4 a session that does not fit waits, and takes the place of the least recently used idle one", async () => {
    const { acquire, clock, demo, stateOf, pool } = stage({ maxMemoryMb: 250 });
    const runtime = heavy(demo, {});
    const a = await acquire("a", { runtime });
    const b = await acquire("b", { runtime });
    const c = acquire("c", { runtime });
    expect(await isPending(c, clock)).toBe(true);
    expect(pool.room).toBe(31 - 2);
    a.release();
    (await c).release();
    expect(stateOf("a")).toBeUndefined();
    expect(stateOf("b")).toBe("busy");
    b.release();
  });

  test("B4 what was measured counts after a turn: idle ones go until the rest fits", async () => {
    const { acquire, clock, demo, stateOf, pool } = stage({ maxMemoryMb: 500 });
    const runtime = heavy(demo, { c: 350 });
    for (const id of ["a", "b", "c"]) (await acquire(id, { runtime })).release();
    await clock.advance(0);
    expect([stateOf("a"), stateOf("b"), stateOf("c")]).toEqual([undefined, "warm", "warm"]);
    expect(pool.list().map(({ memoryMb }) => memoryMb)).toEqual([100, 350]);
  });

  test("B4 one that is larger than the limit runs alone, and not never", async () => {
    const { acquire, demo } = stage({ maxMemoryMb: 50 });
    (await acquire("a", { runtime: heavy(demo, {}) })).release();
  });
});
