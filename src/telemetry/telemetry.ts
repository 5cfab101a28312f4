import type { EventBus, Step } from "../events.ts";
import type { RuntimePool } from "../runtime/runtime-pool.ts";
import type { DeliveryReport } from "../store/port.ts";
import type { StatusReader } from "../store/readers.ts";
import type { DeliveryRow } from "../store/rows.ts";
import type { Turn } from "../store/turns.ts";
import type { Clock } from "../util/clock.ts";
import type { Log } from "../util/log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { TurnSpans } from "./spans.ts";
import { lineOf, startTimings, type TurnStep, type TurnTimings, take } from "./turn-timings.ts";

/** Turns on their way, at most; the oldest are forgotten, and then have no times but the store's. */
const MOST_TRIPS = 10_000;

export interface TelemetryOptions {
  readonly events: EventBus;
  readonly clock: Clock;
  readonly log: Log;
  readonly store: StatusReader;
  readonly pool: Pick<RuntimePool, "list">;
  readonly turns: { readonly running: number };
}

/** Telemetry: one line per turn in the log, metrics, and spans. It hears the steps of turns and deliveries, and nobody waits for it. */
export class Telemetry {
  readonly #options: TelemetryOptions;
  readonly #metrics: Metrics = createMetrics();
  readonly #spans = new TurnSpans();
  readonly #trips = new Map<number, TurnTimings>();

  constructor(options: TelemetryOptions) {
    this.#options = options;
    options.events.onStep((step) => this.#hear(step));
    options.events.on("session:ended", ({ reason }) => this.#metrics.resets.inc({ reason }));
  }

  /** The metrics as they stand, and their content type. */
  async metrics(): Promise<{ readonly text: string; readonly contentType: string }> {
    const { store, pool, turns } = this.#options;
    const { turns: openTurns, deliveries: openDeliveries } = await store.openCounts();
    const { running } = turns;
    const text = await this.#metrics.text({
      waitingTurns: Math.max(0, openTurns - running),
      runningTurns: running,
      openDeliveries,
      handles: pool.list().map((handle) => handle.state),
    });
    return { text, contentType: this.#metrics.contentType };
  }

  #hear(step: Step): void {
    if (step.kind === "settled") this.#settled(step.turn, step.deliveries);
    else if (step.kind === "attempted") this.#attempted(step.delivery, step.result);
    else this.#passed(step);
  }

  #passed(step: TurnStep): void {
    if (step.kind === "taken_in") {
      this.#trips.delete(step.turnId);
      return;
    }
    if (step.kind === "opened" && step.cold) this.#metrics.coldStarts.inc({ how: step.how });
    take(this.#tripOf(step.turnId), step, this.#options.clock.now());
  }

  #settled(turn: Turn, deliveries: readonly DeliveryRow[]): void {
    const now = this.#options.clock.now();
    const trip = this.#trips.get(turn.id) ?? startTimings();
    this.#trips.delete(turn.id);
    const line = lineOf(turn, trip, now);
    this.#metrics.turns.inc({ outcome: line.outcome });
    const whose = { agent: trip.agent ?? "none", runtime: trip.runtime ?? "none", door: turn.target.platform };
    this.#metrics.turnsOf.inc({ ...whose, outcome: line.outcome });
    const { input = 0, output = 0, cachedInput = 0 } = turn.usage ?? {};
    for (const [kind, count] of Object.entries({ input, output, cached_input: cachedInput }))
      if (count > 0) this.#metrics.tokens.inc({ ...whose, kind }, count);
    this.#metrics.queued.observe(line.queuedMs / 1_000);
    if (line.firstTokenMs !== null) this.#metrics.firstText.observe(line.firstTokenMs / 1_000);
    this.#metrics.total.observe(line.totalMs / 1_000);
    this.#options.log.info(line, "turn ended");
    this.#spans.settled(turn, trip, line, deliveries, now);
  }

  #attempted(delivery: DeliveryRow, result: DeliveryReport["result"]): void {
    const { platform } = delivery.target;
    if (result.kind === "retry") this.#metrics.retries.inc({ platform, cause: result.counts ? "failed" : "offline" });
    else this.#ended(delivery, result.kind);
    this.#spans.attempted(delivery, result, this.#options.clock.now());
  }

  #ended(delivery: DeliveryRow, result: "delivered" | "unknown" | "failed"): void {
    this.#metrics.deliveries.inc({ platform: delivery.target.platform, result });
    this.#options.log.info({ delivery: delivery.id, result }, "delivery ended");
  }

  #tripOf(turnId: number): TurnTimings {
    const known = this.#trips.get(turnId);
    if (known !== undefined) return known;
    const trip = startTimings();
    this.#trips.set(turnId, trip);
    const [oldest] = this.#trips.keys();
    if (this.#trips.size > MOST_TRIPS && oldest !== undefined) this.#trips.delete(oldest);
    return trip;
  }
}
