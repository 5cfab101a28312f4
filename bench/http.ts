/** Overhead per message over HTTP: the same load at the gateway and at the floor, in turn. */
import { type LoadClient, type LoadResult, startLoadClient } from "./load.ts";
import { build, type Server, startFloor, startGateway, temporaryHome } from "./processes.ts";
import { type Effort, FULL, inTurn, markdown, QUICK, type Row, row } from "./table.ts";

const MESSAGES: Readonly<Record<number, number>> = { 1: 300, 8: 800, 64: 1_600 };
/** Until both sides run compiled code. */
const WARM_UP = { atOnce: 8, messages: 2_000, conversations: 8, prefix: "warm-up " };

export async function measureHttp(effort: Effort): Promise<Row[]> {
  const client = startLoadClient();
  try {
    return [
      ...(await measure(client, effort, [1, 8, 64])),
      ...(await measure(client, effort, [64], { maxWarm: 128 })).map((line) => ({
        ...line,
        metric: `${line.metric}, all warm`,
        aim: null,
      })),
    ];
  } finally {
    await client.stop();
  }
}

async function measure(
  client: LoadClient,
  effort: Effort,
  widths: readonly number[],
  options: { maxWarm?: number } = {},
): Promise<Row[]> {
  const home = temporaryHome();
  const servers: Server[] = [];
  try {
    const ours = await startGateway(home.path, options);
    servers.push(ours);
    const floor = await startFloor(home.path, options);
    servers.push(floor);
    for (const { url } of servers) await client.run({ url, ...WARM_UP });
    const rows: Row[] = [];
    for (const atOnce of widths) rows.push(...(await measureAt(client, effort, atOnce, { ours, floor })));
    return rows;
  } finally {
    for (const server of servers) await server.stop();
    home.remove();
  }
}

async function measureAt(
  client: LoadClient,
  effort: Effort,
  atOnce: number,
  { ours, floor }: { ours: Server; floor: Server },
): Promise<Row[]> {
  const messages = Math.ceil((MESSAGES[atOnce] ?? 1_000) * effort.scale);
  const load = (url: string) =>
    client.run({ url, atOnce, messages, conversations: atOnce, prefix: `with ${atOnce} at once, ` });
  await load(ours.url);
  await load(floor.url);
  const rounds: { ours: LoadResult; beside: LoadResult }[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    rounds.push(
      await inTurn(
        round,
        () => load(ours.url),
        () => load(floor.url),
      ),
    );
  }
  const pairs = (field: keyof LoadResult) =>
    rounds.map((round) => ({ ours: round.ours[field], beside: round.beside[field] }));
  return [
    ...(["p50", "p95", "p99"] as const).map((field) =>
      row(`HTTP ${field}, ${atOnce} at once`, "ms", pairs(field), { atMost: 1.5 }),
    ),
    row(`HTTP messages/s, ${atOnce} at once`, "/s", pairs("perSecond"), { atLeast: 0.5 }),
  ];
}

if (import.meta.main) {
  build();
  process.stdout.write(`${markdown(await measureHttp(process.argv.includes("--quick") ? QUICK : FULL))}\n`);
}
