import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { HandleStateName } from "../runtime/runtime.ts";

/** How turns end, as they are counted. */
const OUTCOMES = ["answered", "silent", "failed", "interrupted", "withdrawn"] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** What stands at the moment somebody asks. */
export interface Levels {
  readonly waitingTurns: number;
  readonly runningTurns: number;
  readonly openDeliveries: number;
  /** One for each handle. */
  readonly handles: readonly HandleStateName[];
}

/** Whose turns, by names of the configuration; `none` of a turn that was never given to one. */
const WHOSE = ["agent", "runtime", "door"] as const;
type Whose = (typeof WHOSE)[number];

export interface Metrics {
  readonly turns: Counter<"outcome">;
  readonly turnsOf: Counter<Whose | "outcome">;
  readonly tokens: Counter<Whose | "kind">;
  readonly queued: Histogram;
  readonly firstText: Histogram;
  readonly total: Histogram;
  readonly coldStarts: Counter<"how">;
  readonly deliveries: Counter<"platform" | "result">;
  readonly retries: Counter<"platform" | "cause">;
  readonly resets: Counter<"reason">;
  /** Prometheus' text format. */
  text(levels: Levels): Promise<string>;
  readonly contentType: string;
}

const WAIT_SECONDS = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const TURN_SECONDS = [0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 7_200];
const HANDLE_STATES = ["warming", "warm", "busy", "draining", "broken"] as const;

/**
 * The gateway's own metrics, in a registry of their own: nothing process-wide. Labels have few values, and none that a stranger
 * chose: no key, no name, no words.
 */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> =>
    new Counter({ name: `tertulia_${name}`, help, labelNames, registers });
  const seconds = (name: string, help: string, buckets: number[]): Histogram =>
    new Histogram({ name: `tertulia_${name}_seconds`, help, buckets, registers });
  const setLevels = createLevels(registry);
  const turns = counter("turns_total", "Turns that ended, by outcome.", ["outcome"]);
  for (const outcome of OUTCOMES) turns.inc({ outcome }, 0);
  return {
    turns,
    turnsOf: counter("agent_turns_total", "The same by agent, runtime and door.", [...WHOSE, "outcome"]),
    tokens: counter("tokens_total", "Tokens of turns that ended, as their runtimes count them.", [...WHOSE, "kind"]),
    queued: seconds("turn_queued", "From the admission of a turn to its beginning.", WAIT_SECONDS),
    firstText: seconds("turn_first_text", "From the beginning of a turn to the first text of its agent.", WAIT_SECONDS),
    total: seconds("turn", "From the admission of a turn to its end.", TURN_SECONDS),
    coldStarts: counter("cold_starts_total", "Agents opened for a turn, by how.", ["how"]),
    deliveries: counter("deliveries_total", "Deliveries to push doors that ended, by result.", ["platform", "result"]),
    retries: counter("delivery_retries_total", "Deliveries put off, by cause.", ["platform", "cause"]),
    resets: counter("session_resets_total", "Sessions that ended, by reason.", ["reason"]),
    text: (levels) => {
      setLevels(levels);
      return registry.metrics();
    },
    contentType: registry.contentType,
  };
}

function createLevels(registry: Registry): (levels: Levels) => void {
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []): Gauge<L> =>
    new Gauge({ name: `tertulia_${name}`, help, labelNames, registers: [registry] });
  const waiting = gauge("queue_depth", "Turns that wait.");
  const running = gauge("running_turns", "Turns that run.");
  const open = gauge("open_deliveries", "Deliveries that wait or are being sent.");
  const warm = gauge("warm_handles", "Agents that are kept open, in a turn or not.");
  const handles = gauge("handles", "Agents, by the state of their handle.", ["state"]);
  return (levels) => {
    const count = (state: HandleStateName): number => levels.handles.filter((other) => other === state).length;
    waiting.set(levels.waitingTurns);
    running.set(levels.runningTurns);
    open.set(levels.openDeliveries);
    warm.set(count("warm") + count("busy"));
    for (const state of HANDLE_STATES) handles.set({ state }, count(state));
  };
}
