/**
 * Latency with 5,000 messages of history against 10, in the gateway itself: with a warm agent, which reads no transcript, and with one
 * that is opened anew for every message and given the primer.
 */
import { cpSync } from "node:fs";
import { numbered, seed } from "./durable-turn.ts";
import { type LoadClient, type LoadResult, startLoadClient } from "./load.ts";
import { build, startGateway, temporaryHome } from "./processes.ts";
import { type Effort, FULL, inTurn, markdown, QUICK, type Row, row } from "./table.ts";

const CONVERSATIONS = 4;
const LONG_TURNS = 2_500;
const SHORT_TURNS = 5;

export async function measureHistory(effort: Effort): Promise<Row[]> {
  const warmHome = temporaryHome();
  const coldHome = temporaryHome();
  const client = startLoadClient();
  try {
    await seed(warmHome.path, numbered("long, ", CONVERSATIONS), LONG_TURNS);
    // Short histories do not stay short: every round has its own.
    const rounds = Array.from({ length: effort.rounds + 1 }, (_, round) => `short ${round}, `);
    await seed(
      warmHome.path,
      rounds.flatMap((prefix) => numbered(prefix, CONVERSATIONS)),
      SHORT_TURNS,
    );
    cpSync(warmHome.path, coldHome.path, { recursive: true });
    return [
      ...(await measure(client, effort, { home: warmHome.path, label: "warm", maxWarm: 32 })),
      ...(await measure(client, effort, { home: coldHome.path, label: "opened anew each time", maxWarm: 1 })),
    ];
  } finally {
    await client.stop();
    warmHome.remove();
    coldHome.remove();
  }
}

async function measure(
  client: LoadClient,
  effort: Effort,
  { home, label, maxWarm }: { home: string; label: string; maxWarm: number },
): Promise<Row[]> {
  const server = await startGateway(home, { maxWarm });
  try {
    const load = (prefix: string, messages: number) =>
      client.run({ url: server.url, atOnce: 1, messages, conversations: CONVERSATIONS, prefix });
    const rounds: { ours: LoadResult; beside: LoadResult }[] = [];
    for (let round = 0; round <= effort.rounds; round++) {
      const short = `short ${round}, `;
      // The first message of each opens its agent.
      await load("long, ", CONVERSATIONS);
      await load(short, CONVERSATIONS);
      rounds.push(
        await inTurn(
          round,
          () => load("long, ", 120),
          () => load(short, 120),
        ),
      );
    }
    const measured = rounds.slice(1);
    return (["p50", "p95"] as const).map((field) =>
      row(
        `latency ${field}, 5,000 messages beside 10, ${label}`,
        "ms",
        measured.map((round) => ({ ours: round.ours[field], beside: round.beside[field] })),
        { atMost: 1.2 },
      ),
    );
  } finally {
    await server.stop();
  }
}

if (import.meta.main) {
  build();
  process.stdout.write(`${markdown(await measureHistory(process.argv.includes("--quick") ? QUICK : FULL))}\n`);
}
