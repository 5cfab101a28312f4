import type { Channel, MessageSender, SendResult } from "../channel/channel.ts";
import { asTertuliaError } from "../errors.ts";
import type { Target } from "../message/target.ts";
import type { Claim, DeliveryReport, Store } from "../store/port.ts";
import type { DeliveryRow } from "../store/rows.ts";
import { originIdOf } from "../text/origin-id.ts";
import { deliveryText } from "../text/render-notice.ts";
import type { Clock } from "../util/clock.ts";
import { type Log, logFault } from "../util/log.ts";

/** Waits before the second, third and fourth attempt (O1); then it has failed, visibly. */
const RETRY_MS = [5_000, 25_000, 120_000];
/** The longest of them, with its jitter. */
const LONGEST_RETRY_MS = 144_000;
/** How often a lane whose channel is offline is looked at. */
const OFFLINE_MS = 5_000;
const STORE_RETRY_MS = 1_000;

export interface OutboxOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly claim: () => Claim;
  /** 0 ≤ chance < 1, for the jitter of retries. */
  readonly chance: () => number;
  readonly ttlMs: number;
  readonly accounts: {
    /** Undefined while the account does not run; null when it is not ours any more. */
    channelOf(account: string): Channel | undefined | null;
  };
  /** After each attempt, when what became of it is durable. */
  readonly onAttempted: (delivery: DeliveryRow, result: DeliveryReport["result"]) => void;
  readonly log: Log;
}

/**
 * Outbox: carries deliveries to push doors, one at a time per lane, in order (O1). A row is `sending` before its words leave;
 * what is found so at the start is unknown (O4) and sent again only where the platform recognises a repeat.
 */
export class Outbox {
  readonly #options: OutboxOptions;
  /** Lanes at work, with the head that was written as `sending` when the lane was empty, and its worker still on the way out. */
  readonly #lanes = new Map<string, { done: Promise<void>; head: DeliveryRow | null }>();
  readonly #timers = new Map<string, () => void>();
  /** What is under way, by its lane; aborted when the platform has shown it. */
  readonly #sending = new Map<string, { readonly id: number; readonly shown: AbortController }>();
  /** Heads that an earlier process was sending, of channels that look back. */
  readonly #held = new Map<string, DeliveryRow>();
  readonly #abort = new AbortController();

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Picks up what an earlier process left. */
  async start(): Promise<void> {
    for (const head of await this.#options.store.openDeliveries()) {
      if (head.state === "queued") this.#work(head);
      else await this.#resolveLeftover(head);
    }
  }

  /** Rows of a commit: heads are being sent already, the rest follow by themselves. */
  take(deliveries: readonly DeliveryRow[]): void {
    for (const delivery of deliveries) {
      if (delivery.target.door === "push" && delivery.state !== "delivered") this.#work(delivery);
    }
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
    await Promise.all([...this.#lanes.values()].map((lane) => lane.done));
  }

  /** The places of these targets are read up to now: what was under way there has come back, or did not arrive. */
  async caughtUp({
    account,
    covers,
    isSure,
  }: {
    account: string;
    covers: (target: Target) => boolean;
    isSure: boolean;
  }): Promise<void> {
    const now = this.#options.clock.now();
    for (const [lane, head] of [...this.#held]) {
      if (head.target.account !== account || !covers(head.target)) continue;
      this.#held.delete(lane);
      const result: DeliveryReport["result"] = isSure
        ? { kind: "retry", dueAt: now, reason: "it had not arrived before the restart", counts: true }
        : { kind: "unknown", reason: "restart" };
      await this.#report({ deliveryId: head.id, now, result }, head);
      await this.#next(lane);
    }
  }

  /** The platform has shown that delivery: whoever waits for a sign of it need not, and its lane goes on. */
  confirmed({ lane, deliveryId }: { lane: string; deliveryId: number }): void {
    const sending = this.#sending.get(lane);
    if (sending?.id === deliveryId) sending.shown.abort();
    if (!this.#held.delete(lane)) return;
    this.#next(lane).catch((cause) => this.#fault(lane, cause));
  }

  async #resolveLeftover(head: DeliveryRow): Promise<void> {
    const sender = this.#options.accounts.channelOf(head.target.account)?.sender;
    if (sender?.looksBack === true) {
      this.#held.set(head.lane, head);
      return;
    }
    const now = this.#options.clock.now();
    if (sender?.recognisesRepeats === true) {
      await this.#report(
        { deliveryId: head.id, now, result: { kind: "retry", dueAt: now, reason: "restart", counts: true } },
        head,
      );
    } else {
      await this.#report({ deliveryId: head.id, now, result: { kind: "unknown", reason: "restart" } }, head);
    }
    await this.#next(head.lane);
  }

  #work(delivery: DeliveryRow): void {
    const busy = this.#lanes.get(delivery.lane);
    if (busy !== undefined && delivery.state === "sending") busy.head = delivery;
    if (this.#abort.signal.aborted || busy !== undefined || this.#timers.has(delivery.lane)) return;
    const lane = { done: Promise.resolve(), head: null as DeliveryRow | null };
    this.#lanes.set(delivery.lane, lane);
    lane.done = this.#sendLane(delivery)
      .catch((cause) => this.#fault(delivery.lane, cause))
      .finally(() => this.#lanes.delete(delivery.lane))
      .then(() => (lane.head === null ? this.#next(delivery.lane) : this.#work(lane.head)))
      .catch((cause) => this.#fault(delivery.lane, cause));
  }

  /** The lane's next head, if there is one and it is due. */
  async #next(lane: string): Promise<void> {
    if (this.#abort.signal.aborted || this.#lanes.has(lane) || this.#timers.has(lane)) return;
    const [head] = await this.#options.store.openDeliveries({ lane });
    if (head === undefined || head.state !== "queued") return;
    const wait = head.dueAt - this.#options.clock.now();
    // The store says at the attempt whether it is due: after a clock was set back it is asked all the same.
    if (wait > 0) this.#later(lane, Math.min(wait, LONGEST_RETRY_MS), () => this.#work(head));
    else this.#work(head);
  }

  #later(lane: string, ms: number, goOn: () => void): void {
    if (this.#abort.signal.aborted) return;
    this.#timers.get(lane)?.();
    this.#timers.set(
      lane,
      this.#options.clock.after(ms, () => {
        this.#timers.delete(lane);
        goOn();
      }),
    );
  }

  async #sendLane(first: DeliveryRow): Promise<void> {
    const { store, clock, claim } = this.#options;
    let row = first;
    if (row.state === "queued") {
      const attempted = await store.attempt({ deliveryId: row.id, now: clock.now() }, claim());
      if ("kind" in attempted && attempted.kind === "not_due") return;
      row = attempted as DeliveryRow;
    }
    const channel = this.#options.accounts.channelOf(row.target.account);
    const result: DeliveryReport["result"] =
      channel === null
        ? { kind: "failed", reason: "its account is not configured any more" }
        : await this.#send(row, channel?.sender);
    // It stays as it is, and the next start looks whether it has arrived.
    if (result.kind === "unknown" && this.#abort.signal.aborted && channel?.sender?.looksBack === true) return;
    await this.#report({ deliveryId: row.id, now: clock.now(), result }, row);
  }

  async #send(row: DeliveryRow, sender: MessageSender | undefined): Promise<DeliveryReport["result"]> {
    const { clock, ttlMs } = this.#options;
    const now = clock.now();
    const isTooOld = now - row.createdAt >= ttlMs;
    if (isTooOld) return { kind: "failed", reason: "too old to deliver" };
    if (sender === undefined)
      return { kind: "retry", dueAt: now + OFFLINE_MS, reason: "channel is not running", counts: false };
    const text = deliveryText(row);
    const sent = await this.#hand(row, text, sender);
    switch (sent.kind) {
      case "sent":
        return sent.externalId === undefined
          ? { kind: "delivered" }
          : { kind: "delivered", externalId: sent.externalId };
      case "offline":
        return { kind: "retry", dueAt: clock.now() + OFFLINE_MS, reason: sent.reason, counts: false };
      case "unknown":
        // The platform recognises a repeat: it can be asked as often as after a plain failure.
        return sender.recognisesRepeats ? this.#again(row, sent.reason, 0) : { kind: "unknown", reason: sent.reason };
      case "failed":
        return { kind: "failed", reason: sent.reason };
      case "retry":
        return this.#again(row, sent.reason, sent.retryAfterMs ?? 0);
    }
  }

  /** A sender that throws has a bug: whether the words left is not known then. */
  async #hand(row: DeliveryRow, text: string, sender: MessageSender): Promise<SendResult> {
    const shown = new AbortController();
    const isShown = new Promise<SendResult>((resolve) => {
      shown.signal.addEventListener("abort", () => resolve({ kind: "sent" }), { once: true });
    });
    this.#sending.set(row.lane, { id: row.id, shown });
    const signal = AbortSignal.any([this.#abort.signal, shown.signal]);
    try {
      return await Promise.race([isShown, sender.send(row.target, text, { idempotencyKey: originIdOf(row), signal })]);
    } catch (cause) {
      logFault(this.#options.log, cause);
      return { kind: "unknown", reason: "the channel failed" };
    } finally {
      this.#sending.delete(row.lane);
    }
  }

  /** After 5, 25 and 120 s with jitter, not before the platform allows it; then it has failed. */
  #again(row: DeliveryRow, reason: string, retryAfterMs: number): DeliveryReport["result"] {
    const { clock, chance } = this.#options;
    const wait = RETRY_MS[row.attempt - 1];
    if (wait === undefined) return { kind: "failed", reason };
    return {
      kind: "retry",
      dueAt: clock.now() + Math.round(Math.max(wait * (1 + chance() / 5), retryAfterMs)),
      reason,
      counts: true,
    };
  }

  async #report(report: DeliveryReport, row: DeliveryRow): Promise<void> {
    const { store, clock, claim, onAttempted, log } = this.#options;
    for (;;) {
      try {
        await store.delivered(report, claim());
        break;
      } catch (cause) {
        // What became of the attempt must be known before the lane goes on, or a row would stay `sending`.
        const error = asTertuliaError(cause);
        if (error.code !== "store_unavailable" || this.#abort.signal.aborted) throw error;
        logFault(log, error);
        await new Promise<void>((resolve) => clock.after(STORE_RETRY_MS, resolve));
      }
    }
    onAttempted(row, report.result);
  }

  #fault(lane: string, cause: unknown): void {
    const error = asTertuliaError(cause);
    logFault(this.#options.log, error);
    if (error.code !== "store_unavailable") return;
    this.#later(lane, STORE_RETRY_MS, () => {
      this.#next(lane).catch((again) => this.#fault(lane, again));
    });
  }
}
