import {
  type Attributes,
  type Context,
  INVALID_SPAN_CONTEXT,
  type Span,
  type SpanContext,
  type SpanOptions,
  type SpanStatus,
  type TimeInput,
  TraceFlags,
  trace,
} from "@opentelemetry/api";

/** A span that has ended, as an exporter would get it. */
export interface RecordedSpan {
  readonly name: string;
  readonly id: string;
  readonly traceId: string;
  readonly parentId: string | null;
  readonly startAt: number;
  readonly endAt: number;
  readonly attributes: Attributes;
  readonly events: readonly { readonly name: string; readonly at: number }[];
  readonly status: SpanStatus | null;
}

/** A tracer provider in memory, against the API only; `stop` takes it away again. */
export function recordSpans(): { readonly spans: RecordedSpan[]; stop(): void } {
  const spans: RecordedSpan[] = [];
  let count = 0;
  const startSpan = (name: string, options: SpanOptions = {}, context?: Context): Span => {
    const parent = (context && !options.root && trace.getSpanContext(context)) || null;
    const id = (++count).toString(16).padStart(16, "0");
    const traceId = parent?.traceId ?? id.padStart(32, "0");
    const started = { name, id, traceId, parentId: parent?.spanId ?? null, startAt: epochMs(options.startTime) };
    return new RecordingSpan(
      { ...INVALID_SPAN_CONTEXT, traceId, spanId: id, traceFlags: TraceFlags.SAMPLED },
      options,
      {
        ended: (rest) => spans.push({ ...started, ...rest }),
      },
    );
  };
  const isSet = trace.setGlobalTracerProvider({
    getTracer: () => ({
      startSpan,
      startActiveSpan: () => {
        throw new Error("nothing is made active here");
      },
    }),
  });
  if (!isSet) throw new Error("there is a tracer provider already");
  return { spans, stop: () => trace.disable() };
}

type Rest = Pick<RecordedSpan, "endAt" | "attributes" | "events" | "status">;

class RecordingSpan implements Span {
  readonly #context: SpanContext;
  readonly #attributes: Attributes;
  readonly #events: { name: string; at: number }[] = [];
  readonly #ended: (rest: Rest) => void;
  #status: SpanStatus | null = null;

  constructor(context: SpanContext, options: SpanOptions, { ended }: { ended: (rest: Rest) => void }) {
    this.#context = context;
    this.#attributes = { ...options.attributes };
    this.#ended = ended;
  }

  spanContext(): SpanContext {
    return this.#context;
  }
  setAttribute(key: string, value: Attributes[string]): this {
    this.#attributes[key] = value;
    return this;
  }
  setAttributes(attributes: Attributes): this {
    Object.assign(this.#attributes, attributes);
    return this;
  }
  addEvent(name: string, at?: Attributes | TimeInput): this {
    this.#events.push({ name, at: at instanceof Date ? at.getTime() : Number.NaN });
    return this;
  }
  addLink(): this {
    return this;
  }
  addLinks(): this {
    return this;
  }
  setStatus(status: SpanStatus): this {
    this.#status = status;
    return this;
  }
  updateName(): this {
    return this;
  }
  end(at?: TimeInput): void {
    this.#ended({ endAt: epochMs(at), attributes: this.#attributes, events: this.#events, status: this.#status });
  }
  isRecording(): boolean {
    return true;
  }
  recordException(): void {
    throw new Error("nothing records exceptions: they could tell words");
  }
}

/** Only dates are unambiguous: a number may be read as a time since the process began. */
function epochMs(time: TimeInput | undefined): number {
  if (!(time instanceof Date)) throw new Error("times of spans are given as dates");
  return time.getTime();
}
