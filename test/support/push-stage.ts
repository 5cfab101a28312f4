import { loadConfig } from "../../src/config/config.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import type { Store } from "../../src/store/port.ts";
import type { DeliveryRow } from "../../src/store/rows.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/util/clock.ts";
import { type Log, silentLog } from "../../src/util/log.ts";
import { createManualClock, type ManualClock } from "./manual-clock.ts";
import { createPushChannel, type PushChannel } from "./push-channel.ts";
import { temporaryFolder } from "./store.ts";

/** A gateway over a real file, whose only door is written to, with the clock in hand. */
export interface PushStage {
  readonly bot: PushChannel;
  readonly clock: ManualClock;
  readonly store: Store;
  readonly gateway: Gateway;
  /** Until it has come to that, without the clock, but in real time: commits are on a real disk. */
  until(isSo: () => boolean | Promise<boolean>): Promise<void>;
  /** What has gone or is to go to a chat of the bot. */
  deliveries(chat?: string): Promise<readonly DeliveryRow[]>;
  /** Another process opens the same file, as after a crash of this one. */
  successor(options?: { recognisesRepeats?: boolean }): Promise<PushStage>;
  /** Stops the gateway, and looks whether a timer is left. */
  end(): Promise<void>;
}

export interface PushStageOptions {
  readonly log?: Log;
  /** 0.5 unless said: the jitter of what is repeated. */
  readonly chance?: number;
}

export async function openPushStage(options: PushStageOptions = {}): Promise<PushStage> {
  const folder = temporaryFolder();
  const stage = await openIn(folder.path, createManualClock(1_700_000_000_000), createPushChannel(), options);
  return {
    ...stage,
    async end() {
      await stage.end();
      folder.remove();
    },
  };
}

async function openIn(
  home: string,
  clock: ManualClock,
  bot: PushChannel,
  { log = silentLog, chance = 0.5 }: PushStageOptions,
): Promise<PushStage> {
  const store = openSqliteStore({ path: `${home}/state.db`, clock: systemClock });
  const config = loadConfig({ flags: { home }, env: {} });
  const gateway = new Gateway({ config, store, log, clock, chance: () => chance, channels: [bot] });
  await gateway.start();
  return {
    bot,
    clock,
    store,
    gateway,
    async until(isSo) {
      for (let i = 0; i < 2_000; i++) {
        if (await isSo()) return;
        await clock.advance(0);
      }
      throw new Error(`It did not come to that: ${isSo.toString()}`);
    },
    deliveries: (chat = "7") => store.deliveries({ lane: `telegram/bot//${chat}/`, after: 0, limit: 50 }),
    successor: (door) => openIn(home, createManualClock(clock.now()), createPushChannel(door), { log, chance }),
    async end() {
      await gateway.stop();
      if (clock.pending > 0) throw new Error(`${clock.pending} timers are left.`);
    },
  };
}
