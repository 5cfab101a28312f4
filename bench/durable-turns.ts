/** Durable turns per second with an agent that does nothing, beside the same rows written by plain statements at the same grouping. */

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { isDeepStrictEqual } from "node:util";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../src/util/clock.ts";
import { durableTurn, numbered } from "./durable-turn.ts";
import { openPlainTurns } from "./plain-turns.ts";
import { temporaryHome } from "./processes.ts";
import { type Effort, FULL, inTurn, markdown, type Pair, QUICK, type Row, row } from "./table.ts";

const TURNS: Readonly<Record<number, number>> = { 1: 300, 8: 1_200, 64: 3_200 };

export async function measureDurableTurns(effort: Effort): Promise<Row[]> {
  const rows: Row[] = [];
  for (const atOnce of [1, 8, 64]) rows.push(await measureAt(atOnce, effort));
  return rows;
}

async function measureAt(atOnce: number, effort: Effort): Promise<Row> {
  const home = temporaryHome();
  const paths = { store: join(home.path, "state.db"), plain: join(home.path, "plain.db") };
  await openSqliteStore({ path: paths.plain, clock: systemClock }).close();
  const store = openSqliteStore({ path: paths.store, clock: systemClock });
  const plain = openPlainTurns(paths.plain, atOnce);
  try {
    const claim = await store.claim("bench");
    const names = numbered(`at-${atOnce}-`, atOnce);
    const turnsEach = Math.ceil(((TURNS[atOnce] ?? 1_000) * effort.scale) / atOnce);
    const ours = async (): Promise<void> => {
      const talk = async (name: string): Promise<void> => {
        for (let turn = 0; turn < turnsEach; turn++) await durableTurn(store, claim, name);
      };
      await Promise.all(names.map(talk));
    };
    const beside = (): void => {
      for (let turn = 0; turn < turnsEach; turn++) plain.run();
    };
    await ours();
    beside();
    const before = { ...store.counters };
    const pairs: Pair[] = [];
    for (let round = 0; round < effort.rounds; round++) {
      pairs.push(
        await inTurn(
          round,
          () => perSecond(turnsEach * atOnce, ours),
          () => perSecond(turnsEach * atOnce, beside),
        ),
      );
    }
    const verbs = (store.counters.verbs - before.verbs) / (store.counters.commits - before.commits);
    requireSameRows(paths);
    const metric = `durable turns/s, ${atOnce} at once (${verbs.toFixed(1)} verbs per commit)`;
    return row(metric, "/s", pairs, atOnce === 64 ? { atLeast: 0.5 } : null);
  } finally {
    plain.close();
    await store.close();
    home.remove();
  }
}

async function perSecond(count: number, work: () => void | Promise<void>): Promise<number> {
  const from = performance.now();
  await work();
  return (count / (performance.now() - from)) * 1_000;
}

/** The comparison is one only if both files hold as many rows of everything. */
function requireSameRows(paths: { store: string; plain: string }): void {
  const [ours, plain] = [countRows(paths.store), countRows(paths.plain)];
  if (!isDeepStrictEqual(ours, plain))
    throw new Error(`The two sides wrote different rows: ${JSON.stringify({ ours, plain })}`);
}

function countRows(path: string): Record<string, number> {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all();
    return Object.fromEntries(
      tables.map(({ name }) => [String(name), Number(db.prepare(`SELECT count(*) AS n FROM "${name}"`).get()!.n)]),
    );
  } finally {
    db.close();
  }
}

if (import.meta.main) {
  process.stdout.write(`${markdown(await measureDurableTurns(process.argv.includes("--quick") ? QUICK : FULL))}\n`);
}
