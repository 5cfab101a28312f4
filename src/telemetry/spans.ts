import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { DeliveryReport } from "../store/port.ts";
import type { DeliveryRow } from "../store/rows.ts";
import type { Turn } from "../store/turns.ts";
import type { TurnLine, TurnTimings } from "./turn-timings.ts";

/** Turns whose deliveries are waited for, at most. */
const MOST_OPEN = 1_000;

/** A turn's span, while deliveries of it are on their way. */
interface Open {
  readonly context: Context;
  readonly deliveries: Set<number>;
}

/**
 * One span per turn, `tertulia.turn`, with what it passed as its children: admit, begin, open, prompt, settle, deliver. They are written
 * when the turn has ended, with their own times; without an SDK, or where it does not sample the turn, nothing is. Attributes are ids.
 */
export class TurnSpans {
  readonly #tracer: Tracer;
  readonly #open = new Map<number, Open>();

  constructor(tracer: Tracer = trace.getTracer("tertulia")) {
    this.#tracer = tracer;
  }

  /** `committedAt`: when its settlement was durable. */
  settled(
    turn: Turn,
    trip: TurnTimings,
    line: TurnLine,
    deliveries: readonly DeliveryRow[],
    committedAt: number,
  ): void {
    const attributes = {
      "tertulia.turn.id": line.turn,
      "tertulia.session.id": line.session,
      "tertulia.conversation.id": line.conversation,
      "tertulia.outcome": line.outcome,
      ...(line.runtime === null ? {} : { "tertulia.runtime": line.runtime }),
      ...(line.cold === null ? {} : { "tertulia.cold": line.cold }),
    };
    const startTime = new Date(turn.admittedAt);
    const root = this.#tracer.startSpan("tertulia.turn", { startTime, attributes, root: true }, ROOT_CONTEXT);
    if (root.isRecording()) {
      if (line.outcome === "failed") root.setStatus({ code: SpanStatusCode.ERROR, message: turn.reason ?? "" });
      const context = trace.setSpan(ROOT_CONTEXT, root);
      this.#children(context, turn, trip, committedAt);
      this.#deliveries(context, turn, deliveries, committedAt);
    }
    root.end(new Date(Math.max(committedAt, turn.admittedAt)));
  }

  /** What became of a delivery to a push door; one that is tried again is not over. */
  attempted(delivery: DeliveryRow, result: DeliveryReport["result"], at: number): void {
    const open = delivery.turnId === null ? undefined : this.#open.get(delivery.turnId);
    if (open === undefined || result.kind === "retry" || !open.deliveries.delete(delivery.id)) return;
    const span = this.#child(open.context, "deliver", delivery.createdAt, at, {
      ...deliveryAttributes(delivery),
      "tertulia.delivery.result": result.kind,
      "tertulia.delivery.attempt": delivery.attempt,
    });
    if (result.kind !== "delivered") span.setStatus({ code: SpanStatusCode.ERROR, message: result.kind });
    span.end(new Date(Math.max(at, delivery.createdAt)));
    // A part that failed has taken the later ones with it.
    if (open.deliveries.size === 0 || result.kind === "failed") this.#open.delete(delivery.turnId!);
  }

  #children(context: Context, turn: Turn, trip: TurnTimings, committedAt: number): void {
    const whole = (name: string, from: number, to: number): void =>
      this.#child(context, name, from, to).end(new Date(Math.max(from, to)));
    if (trip.admittedAt !== null) whole("admit", turn.admittedAt, trip.admittedAt);
    if (turn.begunAt !== null) whole("begin", trip.admittedAt ?? turn.admittedAt, turn.begunAt);
    const endedAt = turn.settledAt ?? committedAt;
    for (const attempt of trip.attempts) {
      whole("open", attempt.askedAt, attempt.openedAt ?? endedAt);
      if (attempt.promptedAt !== null) this.#prompt(context, attempt.promptedAt, attempt.heardAt ?? endedAt, trip);
    }
    whole("settle", endedAt, committedAt);
  }

  #prompt(context: Context, from: number, to: number, { spokeAt }: TurnTimings): void {
    const span = this.#child(context, "prompt", from, to);
    if (spokeAt !== null && spokeAt >= from && spokeAt <= to) span.addEvent("first token", new Date(spokeAt));
    span.end(new Date(Math.max(from, to)));
  }

  /** At pull doors they are delivered with the settlement; the others are waited for. */
  #deliveries(context: Context, turn: Turn, deliveries: readonly DeliveryRow[], committedAt: number): void {
    const waiting = new Set<number>();
    for (const delivery of deliveries) {
      if (delivery.state !== "delivered") {
        waiting.add(delivery.id);
        continue;
      }
      this.#child(context, "deliver", committedAt, committedAt, {
        ...deliveryAttributes(delivery),
        "tertulia.delivery.result": "delivered",
      }).end(new Date(committedAt));
    }
    if (waiting.size === 0) return;
    this.#open.set(turn.id, { context, deliveries: waiting });
    const [oldest] = this.#open.keys();
    if (this.#open.size > MOST_OPEN && oldest !== undefined) this.#open.delete(oldest);
  }

  #child(context: Context, name: string, from: number, to: number, attributes: Attributes = {}): Span {
    return this.#tracer.startSpan(name, { startTime: new Date(Math.min(from, to)), attributes }, context);
  }
}

function deliveryAttributes(delivery: DeliveryRow): Attributes {
  return {
    "tertulia.delivery.id": delivery.id,
    "tertulia.delivery.part": delivery.part,
    "tertulia.platform": delivery.target.platform,
  };
}
