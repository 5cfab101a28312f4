import { participantOf, type Source } from "../message/source.ts";
import type { Clock } from "../util/clock.ts";
import type { Log } from "../util/log.ts";
import type { InboxAccount } from "./event-intake.ts";

/** A stranger is told of once in that time, and so many strangers of an account: nobody fills a disk by writing, or by changing his name. */
const WINDOW_MS = 3_600_000;
const MOST_STRANGERS = 20;

interface Window {
  readonly since: number;
  readonly told: Set<string>;
  /** Messages that no line was written for. */
  unsaid: number;
}

/** StrangerLog: lines about messages of people who are not let in. */
export class StrangerLog {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #windows = new Map<string, Window>();

  constructor({ log, clock }: { log: Log; clock: Clock }) {
    this.#log = log;
    this.#clock = clock;
  }

  note({ account, agent, platform }: InboxAccount, source: Source): void {
    const window = this.#windowOf(account);
    const who = participantOf(source) || (source.chatId ?? "");
    if (window.told.has(who) || window.told.size >= MOST_STRANGERS) {
      window.unsaid += 1;
      return;
    }
    window.told.add(who);
    const { chatId, chatType } = source;
    this.#log.info({ account, agent, platform, chat: chatId, chatType }, "a message of somebody who is not let in");
  }

  #windowOf(account: string): Window {
    const now = this.#clock.now();
    const window = this.#windows.get(account);
    if (window !== undefined && now >= window.since && now - window.since < WINDOW_MS) return window;
    if (window !== undefined && window.unsaid > 0)
      this.#log.info(
        { account, messages: window.unsaid },
        "more messages of people who are not let in, since the last such line",
      );
    const next = { since: now, told: new Set<string>(), unsaid: 0 };
    this.#windows.set(account, next);
    return next;
  }
}
