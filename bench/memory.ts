/** Resident memory: idle, and after one message in each of 1,000 conversations; beside the floor with the same libraries loaded. */
import { setTimeout as wait } from "node:timers/promises";
import { type LoadClient, startLoadClient } from "./load.ts";
import { build, type Server, startFloor, startGateway, temporaryHome } from "./processes.ts";
import { type Effort, FULL, inTurn, markdown, QUICK, type Row, row } from "./table.ts";

const TOUCHED = 1_000;
/** What is idle is a question of time; the collector and the pages of the start have had theirs by then. */
const IDLE_MS = 1_000;

interface Memory {
  readonly idle: number;
  readonly touched: number;
}

export async function measureMemory(effort: Effort): Promise<Row[]> {
  const client = startLoadClient();
  try {
    const rounds: { ours: Memory; beside: Memory }[] = [];
    for (let round = 0; round < Math.ceil(effort.rounds / 5); round++) {
      rounds.push(
        await inTurn(
          round,
          () => weigh(client, (home) => startGateway(home)),
          () => weigh(client, (home) => startFloor(home, { libraries: true })),
        ),
      );
    }
    const pairs = (field: keyof Memory) =>
      rounds.map(({ ours, beside }) => ({ ours: ours[field], beside: beside[field] }));
    return [
      row("RSS idle, same libraries", "MB", pairs("idle"), { atMost: 1.3 }),
      row("RSS, 1,000 conversations touched", "MB", pairs("touched")),
    ];
  } finally {
    await client.stop();
  }
}

async function weigh(client: LoadClient, start: (home: string) => Promise<Server>): Promise<Memory> {
  const home = temporaryHome();
  const server = await start(home.path);
  try {
    await wait(IDLE_MS);
    const idle = server.rssMb();
    await client.run({ url: server.url, atOnce: 8, messages: TOUCHED, conversations: TOUCHED, prefix: "c" });
    await wait(IDLE_MS);
    return { idle, touched: server.rssMb() };
  } finally {
    await server.stop();
    home.remove();
  }
}

if (import.meta.main) {
  build();
  process.stdout.write(`${markdown(await measureMemory(process.argv.includes("--quick") ? QUICK : FULL))}\n`);
}
