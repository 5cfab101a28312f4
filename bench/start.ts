/** From the start of the process until it is ready, with 10,000 conversations in the state beside none. */
import { numbered, seed } from "./durable-turn.ts";
import { build, startFloor, startGateway, temporaryHome } from "./processes.ts";
import { type Effort, FULL, inTurn, markdown, QUICK, type Row, row } from "./table.ts";

const CONVERSATIONS = 10_000;

export async function measureStart(effort: Effort): Promise<Row[]> {
  const full = temporaryHome();
  const empty = temporaryHome();
  try {
    await seed(full.path, numbered("c", CONVERSATIONS), 1);
    const start = async (home: string): Promise<number> => {
      const server = await startGateway(home);
      await server.stop();
      return server.readyMs;
    };
    const startOfFloor = async (): Promise<number> => {
      const server = await startFloor(empty.path, { libraries: true });
      await server.stop();
      return server.readyMs;
    };
    // The first start of all compiles, and creates the empty state.
    await start(full.path);
    await start(empty.path);
    await startOfFloor();
    const rounds: { withMany: number; withNone: number; floor: number }[] = [];
    for (let round = 0; round < effort.rounds; round++) {
      const { ours, beside } = await inTurn(
        round,
        () => start(full.path),
        () => start(empty.path),
      );
      rounds.push({ withMany: ours, withNone: beside, floor: await startOfFloor() });
    }
    return [
      row(
        "start, 10,000 conversations beside none",
        "ms",
        rounds.map(({ withMany, withNone }) => ({ ours: withMany, beside: withNone })),
        { atMost: 1.1 },
      ),
      row(
        "start, none, beside the floor with libraries",
        "ms",
        rounds.map(({ withNone, floor }) => ({ ours: withNone, beside: floor })),
      ),
    ];
  } finally {
    full.remove();
    empty.remove();
  }
}

if (import.meta.main) {
  build();
  process.stdout.write(`${markdown(await measureStart(process.argv.includes("--quick") ? QUICK : FULL))}\n`);
}
