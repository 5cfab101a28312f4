import { expect, test } from "vitest";
import { createManualClock } from "../../test/support/manual-clock.ts";
import type { Store } from "../store/port.ts";
import type { BeginResult, Turn } from "../store/turns.ts";
import { TurnQueue } from "./turn-queue.ts";

test("T2 T4 a turn that admit begins while its session is being looked at is run", async () => {
  const looks: PromiseWithResolvers<BeginResult>[] = [];
  const ran: number[] = [];
  const begin = (): Promise<BeginResult> => {
    const look = Promise.withResolvers<BeginResult>();
    looks.push(look);
    return look.promise;
  };
  const queue = new TurnQueue({
    store: { begin } as unknown as Store,
    clock: createManualClock(),
    claim: () => ({ holder: "test", epoch: 1 }),
    run: async (turn) => ran.push(turn.id) > 0,
    room: () => 1,
    onRecovery: () => undefined,
    onFault: (error) => {
      throw error;
    },
  });
  const turn = (id: number) => ({ id, sessionId: "s-1" }) as Turn;
  queue.start(turn(1));
  await expect.poll(() => ran).toEqual([1]);
  queue.wake("s-1");
  await expect.poll(() => looks.length).toBe(1);
  queue.start(turn(2));
  looks[0]?.resolve({ kind: "busy" });
  await expect.poll(() => ran).toEqual([1, 2]);
  await queue.stop();
  expect(queue.active).toBe(0);
});

/** A queue whose turns last until they are ended, and whose room is what the test says. */
function crowded() {
  const ran: string[] = [];
  const turns = new Map<string, () => void>();
  const asks = new Map<string, () => void>();
  const waiting = new Set<string>();
  let room = 0;
  const queue = new TurnQueue({
    store: {
      begin: async ({ sessionId }: { sessionId: string }): Promise<BeginResult> =>
        waiting.delete(sessionId)
          ? { kind: "begun", turn: { id: 1, sessionId } as Turn, takeover: null }
          : { kind: "idle", takeover: null },
    } as unknown as Store,
    clock: createManualClock(),
    claim: () => ({ holder: "test", epoch: 1 }),
    async run({ sessionId }, asked) {
      ran.push(sessionId);
      asks.set(sessionId, asked);
      const { promise, resolve } = Promise.withResolvers<void>();
      turns.set(sessionId, resolve);
      await promise;
      return true;
    },
    room: () => room,
    onRecovery: () => undefined,
    onFault: (error) => {
      throw error;
    },
  });
  const rests = async (): Promise<void> => {
    for (let n = 0; n < 10; n++) await new Promise((resolve) => setImmediate(resolve));
  };
  return {
    queue,
    ran,
    rests,
    /** A turn of the session waits, and the queue is told. */
    async comes(sessionId: string): Promise<void> {
      waiting.add(sessionId);
      queue.wake(sessionId);
      await rests();
    },
    asks: (sessionId: string) => asks.get(sessionId)?.(),
    withdraws: (sessionId: string) => waiting.delete(sessionId),
    has: (places: number) => {
      room = places;
    },
    async ends(): Promise<void> {
      for (const end of turns.values()) end();
      await queue.stop();
    },
  };
}

test("B4 T4 who comes while others are held does not go before them, though there is room", async () => {
  const { queue, comes, has, ran, ends } = crowded();
  await comes("held");
  has(5);
  expect(queue.hasRoom(0)).toBe(false);
  await comes("late");
  expect(ran).toEqual([]);
  queue.freed();
  queue.freed();
  await expect.poll(() => ran).toEqual(["held", "late"]);
  await ends();
});

test("B4 a turn that has not asked for its agent yet has its place all the same", async () => {
  const { queue, comes, asks, has, ran, rests, ends } = crowded();
  await comes("one");
  await comes("two");
  has(1);
  queue.freed();
  queue.freed();
  await rests();
  expect(ran).toEqual(["one"]);
  expect(queue.hasRoom(0)).toBe(false);
  asks("one");
  queue.freed();
  await expect.poll(() => ran).toEqual(["one", "two"]);
  // Nobody is held any more, and the second one has not asked yet.
  expect([queue.hasRoom(0), has(2), queue.hasRoom(0)]).toEqual([false, undefined, true]);
  await ends();
});

test("B4 a place that a held session does not need any more goes to the next one", async () => {
  const { queue, comes, withdraws, has, ran, ends } = crowded();
  await comes("withdrawn");
  await comes("next");
  withdraws("withdrawn");
  has(1);
  queue.freed();
  await expect.poll(() => ran).toEqual(["next"]);
  await ends();
});
