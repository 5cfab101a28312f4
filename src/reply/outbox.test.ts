import { expect, test } from "vitest";
import { createManualClock } from "../../test/support/manual-clock.ts";
import type { Store } from "../store/port.ts";
import type { DeliveryRow } from "../store/rows.ts";
import { silentLog } from "../util/log.ts";
import { Outbox } from "./outbox.ts";

test("O1 after a clock that was set back the store is asked, at the latest after the longest retry, what is due", async () => {
  const clock = createManualClock(1_000_000);
  const row = { id: 1, lane: "l", state: "queued", dueAt: clock.now() + 3_600_000, target: { account: "bot" } };
  const asked: number[] = [];
  const outbox = new Outbox({
    store: {
      openDeliveries: async () => [row as DeliveryRow],
      attempt: async () => {
        asked.push(clock.now() - 1_000_000);
        return { kind: "not_due" };
      },
    } as unknown as Store,
    clock,
    claim: () => ({ holder: "test", epoch: 1 }),
    chance: () => 0,
    ttlMs: 86_400_000,
    accounts: { channelOf: () => undefined },
    onAttempted: () => undefined,
    log: silentLog,
  });
  await outbox.start();
  await clock.advance(300_000);
  expect(asked).toEqual([0, 144_000, 288_000]);
  await outbox.stop();
  expect(clock.pending).toBe(0);
});
