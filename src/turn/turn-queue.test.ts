import { expect, test } from "vitest";
import { createManualClock } from "../../test/support/manual-clock.ts";
import type { BeginResult, Store, Turn } from "../store/store.ts";
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
    onTakeover: () => undefined,
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
