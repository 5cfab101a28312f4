/**
 * Context assembly for one turn: the turn's material from the store, for a cold agent its opening (stable part and primer), and the
 * prompt, at 5,000 messages of history against 10. p99 in ms; the aim is an absolute one (1 ms), shown as the ratio to it.
 */
import { join } from "node:path";
import { loadConfig } from "../src/config/config.ts";
import { openRequestFor, turnInputFor } from "../src/context/turn-context.ts";
import { createDemoRuntime } from "../src/runtime/demo/demo-runtime.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../src/util/clock.ts";
import { beginTurn, numbered, seed } from "./durable-turn.ts";
import { temporaryHome } from "./processes.ts";
import { type Effort, inTurn, type Pair, quantile, type Row, row } from "./table.ts";

const AIM_MS = 1;
const TURNS_LONG = 2_500;
const TURNS_SHORT = 5;
const WARM_UP = 200;
const ASSEMBLIES = 1_000;

export async function measureContext(effort: Effort): Promise<Row[]> {
  return [...(await measure(effort, "warm")), ...(await measure(effort, "cold"))];
}

/** Warm: the prompt of a turn, as for every message. Cold: with the opening of its agent, stable part and primer. */
async function measure(effort: Effort, kind: "warm" | "cold"): Promise<Row[]> {
  const p50s: Pair[] = [];
  const p99s: Pair[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    const { ours, beside } = await inTurn(
      round,
      () => assemble(TURNS_LONG, kind),
      () => assemble(TURNS_SHORT, kind),
    );
    p50s.push({ ours: quantile(ours, 0.5), beside: quantile(beside, 0.5) });
    p99s.push({ ours: quantile(ours, 0.99), beside: AIM_MS });
  }
  return [
    row(`context assembly ${kind} p50, 5,000 messages beside 10`, "ms", p50s),
    row(`context assembly ${kind} p99, 5,000 messages, beside 1 ms`, "ms", p99s, { atMost: 1 }),
  ];
}

async function assemble(turns: number, kind: "warm" | "cold"): Promise<number[]> {
  const home = temporaryHome();
  try {
    const [name] = numbered("talk ", 1);
    await seed(home.path, [name!], turns);
    const store = openSqliteStore({ path: join(home.path, "state.db"), clock: systemClock });
    const turn = await beginTurn(store, await store.claim("bench"), name!);
    const config = loadConfig({ flags: { home: home.path }, env: {} });
    const facts = { platforms: ["console" as const, "http" as const], secret: "bench" };
    const runtime = createDemoRuntime({ clock: systemClock });
    const { signal } = new AbortController();
    const times: number[] = [];
    for (let round = 0; round < ASSEMBLIES + WARM_UP; round++) {
      const from = performance.now();
      const material = (await store.turnMaterial(turn.id))!;
      if (kind === "cold") await openRequestFor(material, { config, facts, reader: store, runtime, signal });
      turnInputFor(
        material,
        { cold: kind === "cold", how: "primed", history: "own" },
        { config, facts, now: Date.now(), nonce: "n" },
      );
      if (round >= WARM_UP) times.push(performance.now() - from);
    }
    await store.close();
    return times;
  } finally {
    home.remove();
  }
}
