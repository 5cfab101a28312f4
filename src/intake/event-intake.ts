import { parseSessionKey } from "../conversation/session-key.ts";
import type { Engine } from "../engine/engine.ts";
import { TertuliaError } from "../errors.ts";
import type { EventBus } from "../events.ts";
import type { Author } from "../message/message.ts";
import type { Platform } from "../message/source.ts";
import type { Outbox } from "../reply/outbox.ts";
import type { RuntimePool } from "../runtime/runtime-pool.ts";
import type { AdmitOutcome, InboundEvent } from "../store/events.ts";
import type { Claim, Store } from "../store/port.ts";
import type { DeliveryRow } from "../store/rows.ts";
import { deliveryText } from "../text/render-notice.ts";
import type { Clock } from "../util/clock.ts";
import type { Log } from "../util/log.ts";

/** The account that events come in by, and the agent it belongs to. */
export interface InboxAccount {
  readonly account: string;
  readonly platform: Platform;
  readonly agent: string;
}

export interface EventIntakeOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly claim: () => Claim;
  readonly log: Log;
  readonly events: EventBus;
  readonly engine: Engine;
  readonly outbox: Outbox;
  readonly pool: Pick<RuntimePool, "drop">;
}

/** Sets nothing in motion. */
type Quiet = Extract<AdmitOutcome, { kind: "duplicate" | "rejected" | "own" | "noted" | "adopted" }>;

function isQuiet(outcome: AdmitOutcome): outcome is Quiet {
  return ["duplicate", "rejected", "own", "noted", "adopted"].includes(outcome.kind);
}

/** The one way in: events of an account become durable in one transaction, and then set turns, notices and deliveries in motion. */
export class EventIntake {
  readonly #options: EventIntakeOptions;
  readonly #open = new Set<Promise<unknown>>();
  #isStopped = false;

  constructor(options: EventIntakeOptions) {
    this.#options = options;
  }

  /** Resolves when the events and the cursor are durable; only then may a platform be acknowledged (T2). Throws `gateway_stopping`. */
  async commit(
    account: InboxAccount,
    events: readonly InboundEvent[],
    cursor?: string,
  ): Promise<readonly AdmitOutcome[]> {
    if (this.#isStopped) throw new TertuliaError("gateway_stopping", "The gateway is stopping.");
    const committed = this.#commit(account, events, cursor);
    this.#open.add(committed);
    try {
      return await committed;
    } finally {
      this.#open.delete(committed);
    }
  }

  /** Takes nothing more in; resolves when all that was taken in is set in motion. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.allSettled(this.#open);
  }

  async #commit(
    account: InboxAccount,
    events: readonly InboundEvent[],
    cursor?: string,
  ): Promise<readonly AdmitOutcome[]> {
    const { store, clock, claim, engine } = this.#options;
    const hold = !engine.hasRoom(this.#open.size + events.length - 1);
    const batch = { ...account, now: clock.now(), hold, events, ...(cursor === undefined ? {} : { cursor }) };
    const { outcomes } = await store.admit(batch, claim());
    for (const [index, outcome] of outcomes.entries()) await this.#setInMotion(events[index]!, outcome);
    return outcomes;
  }

  async #setInMotion(event: InboundEvent, outcome: AdmitOutcome): Promise<void> {
    if (outcome.kind === "own" && outcome.shown !== null) this.#options.outbox.confirmed(outcome.shown);
    if (isQuiet(outcome)) return;
    const { engine, events, pool, log } = this.#options;
    if (outcome.kind === "changed") {
      for (const settled of outcome.settled) engine.ended(settled);
      for (const sessionId of outcome.wake) engine.wake(sessionId);
      return;
    }
    for (const ended of outcome.ended) {
      // An ended session's handle goes before the next one opens (R4).
      await pool.drop(ended.sessionId);
      events.emit("session:ended", { ...ended, conversationKey: outcome.key });
    }
    for (const sessionId of outcome.rewound) await pool.drop(sessionId);
    for (const putOff of outcome.putOff)
      log.info(putOff, `a reset was put off (${putOff.reason}), held by a ${putOff.heldBy}`);
    for (const settled of outcome.settled) engine.ended(settled);
    if ("turnId" in outcome && outcome.turnId !== null)
      events.step({ kind: "admitted", turnId: outcome.turnId, agent: parseSessionKey(outcome.key).agent });
    this.#announce(event, outcome);
    this.#handOn(outcome.notices, outcome);
    if ("reply" in outcome) this.#handOn([outcome.reply], outcome);
    if ("deliveries" in outcome) this.#handOn(outcome.deliveries, outcome);
    if ("signal" in outcome && outcome.signal !== null) engine.signal(outcome.signal);
    if ("begun" in outcome && outcome.begun !== null) engine.run(outcome.begun);
    else if ("turnId" in outcome && outcome.turnId !== null && outcome.sessionId !== null)
      engine.wake(outcome.sessionId);
    for (const sessionId of outcome.wake) engine.wake(sessionId);
  }

  #announce(event: InboundEvent, outcome: Exclude<AdmitOutcome, Quiet | { kind: "changed" }>): void {
    const { events } = this.#options;
    if (!events.isHeard) return;
    if ("messageId" in outcome && "text" in event && event.kind !== "own") {
      const author: Author =
        event.kind === "send" ? { kind: "agent", id: parseSessionKey(outcome.key).agent } : event.speaker.author;
      events.emit("message:admitted", {
        conversationKey: outcome.key,
        conversationId: outcome.conversationId,
        messageId: outcome.messageId,
        text: event.text,
        author,
        outcome: outcome.kind,
        turnId: "turnId" in outcome ? outcome.turnId : null,
      });
    }
    if (outcome.kind === "sent" && outcome.bound !== null)
      events.emit("binding:changed", { conversationKey: outcome.key, binding: outcome.bound });
    if (outcome.kind === "bound")
      events.emit("binding:changed", { conversationKey: outcome.key, binding: outcome.binding });
    if (outcome.kind === "cleared") events.emit("binding:changed", { conversationKey: outcome.key, binding: null });
  }

  #handOn(deliveries: readonly DeliveryRow[], at: { readonly conversationId: number; readonly key: string }): void {
    for (const delivery of deliveries) {
      this.#options.events.emit("delivery:written", {
        delivery,
        text: deliveryText(delivery),
        conversationKey: at.key,
        conversationId: at.conversationId,
      });
    }
    this.#options.outbox.take(deliveries);
  }
}
