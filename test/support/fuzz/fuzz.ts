/**
 * Fuzz: random structured events at the edges where foreign bytes come in. A target takes events of one edge; a run counts them and fails by
 * throwing: where the target throws, where a rejection is handled by nobody, and where memory grows.
 */
import { type Chance, createChance } from "./chance.ts";

export interface FuzzTarget {
  readonly name: string;
  /** Takes about `count` random events; resolves with how many it took. Rejects where an answer is not one that the edge promises. */
  take(chance: Chance, count: number): Promise<number>;
  /** One hostile event of about `length` characters: its cost may at most grow with the length. */
  takeLong(piece: string, length: number): Promise<void>;
  close(): Promise<void>;
}

export interface FuzzReport {
  readonly taken: number;
  /** What the heap has grown by, after a collection, in MB. */
  readonly grownMb: number;
}

const BATCH = 500;

export async function fuzz(target: FuzzTarget, { seed, count }: { seed: number; count: number }): Promise<FuzzReport> {
  const faults: unknown[] = [];
  const onFault = (cause: unknown): void => void faults.push(cause);
  process.on("unhandledRejection", onFault);
  process.on("uncaughtException", onFault);
  const chance = createChance(seed);
  let taken = 0;
  try {
    // What is loaded and compiled on first use is no growth.
    taken += await target.take(chance, BATCH);
    const before = heapMb();
    while (taken < count) {
      taken += await target.take(chance, Math.min(BATCH, count - taken));
      if (faults.length > 0)
        throw new Error(`${target.name}, seed ${seed}: after ${taken} events`, { cause: faults[0] });
    }
    return { taken, grownMb: heapMb() - before };
  } finally {
    process.off("unhandledRejection", onFault);
    process.off("uncaughtException", onFault);
  }
}

function heapMb(): number {
  global.gc?.();
  return process.memoryUsage().heapUsed / 1_048_576;
}

/**
 * How many times the CPU time of an input its double takes: best of five each, in turn. A busy machine only ever adds: where the double seems
 * too dear, both are measured again, up to twenty times.
 */
export async function costOfDoubling(take: (length: number) => Promise<void>, length: number): Promise<number> {
  await take(length);
  let single = Number.POSITIVE_INFINITY;
  let double = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < TRIES || (tries < MOST_TRIES && double > 3 * single); tries++) {
    single = Math.min(single, await cpuMs(() => take(length)));
    double = Math.min(double, await cpuMs(() => take(2 * length)));
  }
  return double / single;
}

const TRIES = 5;
const MOST_TRIES = 20;
/** Short runs are repeated until they can be measured. */
const LEAST_MS = 20;

async function cpuMs(run: () => Promise<void>): Promise<number> {
  const from = process.cpuUsage();
  let runs = 0;
  let spent = 0;
  while (spent < LEAST_MS && runs < 1_000) {
    await run();
    runs++;
    const { user, system } = process.cpuUsage(from);
    spent = (user + system) / 1_000;
  }
  return spent / runs;
}
