/**
 * Agents kept warm. For each runtime: the first token of a session's first turn (cold) beside that of a later one (warm), from `say` to the
 * first text event. Of the demo over ACP also what we add: the same agent asked without us, by bare lines of JSON over its pipes. Then what
 * it takes to acquire a warm handle, and what one more warm session takes.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { loadConfig } from "../src/config/config.ts";
import { Gateway } from "../src/gateway/gateway.ts";
import { createDemoRuntime } from "../src/runtime/demo/demo-runtime.ts";
import { createRuntimePool } from "../src/runtime/runtime-pool.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../src/util/clock.ts";
import { silentLog } from "../src/util/log.ts";
import { FAKE_MODEL, says, startFakeModel } from "../test/support/fake-model.ts";
import { BUILD, build, temporaryHome } from "./processes.ts";
import { type Effort, FULL, markdown, median, type Pair, QUICK, quantile, type Row, row } from "./table.ts";

const ROOT = join(import.meta.dirname, "..");
const DEMO = join(BUILD, "src/cli/main.js");
const OWNER = { id: "owner", role: "owner" } as const;
/** The first ones of a new state folder are slower: its log still grows, and nothing was run before. */
const WARM_TURNS = 150;
const ACQUIRES = 20_000;
const SESSIONS = 6;

interface Stage {
  readonly gateway: Gateway;
  firstToken(name: string, text: string): Promise<number>;
  close(): Promise<void>;
}

export async function measureAgents(effort: Effort): Promise<Row[]> {
  const model = await startFakeModel(() => says("hello"));
  const cases: [string, object][] = [
    ["demo, in process", { kind: "demo" }],
    ["http, fake model", { kind: "http", base_url: model.url, model: FAKE_MODEL }],
    ["acp, demo as a process", { kind: "acp", command: process.execPath, args: [DEMO, "demo-agent"] }],
  ];
  const rows: Row[] = [];
  try {
    for (const [name, runtime] of cases) {
      const pairs: Pair[] = [];
      const warmed: number[] = [];
      for (let round = 0; round < effort.rounds; round++) {
        const stage = await open(runtime);
        const cold = await stage.firstToken("main", "say hello");
        const warm: number[] = [];
        for (let n = 0; n < WARM_TURNS; n++) warm.push(await stage.firstToken("main", "say hello"));
        warmed.push(median(warm));
        pairs.push({ ours: median(warm), beside: cold });
        await stage.close();
      }
      rows.push(row(`first token, ${name}: warm beside cold`, "ms", pairs));
      if (name.startsWith("acp")) rows.push(...(await overhead(effort, warmed)));
    }
    rows.push(await acquiring(effort), await weighing());
    return rows;
  } finally {
    await model.close();
  }
}

/** A warm turn through us beside the same agent's own first token; what is ours is the difference. */
async function overhead(effort: Effort, warmed: readonly number[]): Promise<Row[]> {
  const pairs: Pair[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    const agent = await bareAgent();
    const times: number[] = [];
    for (let n = 0; n < WARM_TURNS; n++) times.push(await agent.firstToken("say hello"));
    await agent.close();
    pairs.push({ ours: warmed[round]!, beside: median(times) });
  }
  const added = pairs.map(({ ours, beside }) => ({ ours: ours - beside, beside: 2 }));
  return [
    row("first token over ACP, warm, beside the bare agent", "ms", pairs),
    row("what we add to it, beside 2 ms", "ms", added, { atMost: 1 }),
  ];
}

async function acquiring(effort: Effort): Promise<Row> {
  const pairs: Pair[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    const pool = createRuntimePool({ clock: systemClock, idleMs: 3_600_000, maxWarm: 64, onEvent: () => undefined });
    const runtime = createDemoRuntime({ clock: systemClock });
    const acquire = async (n: number): Promise<void> => {
      const sessionId = `s${n % 32}`;
      const request = async () => ({
        sessionId,
        sessionKey: sessionId,
        stablePart: "",
        primer: { total: 0, lines: [] },
        signal: new AbortController().signal,
      });
      const lease = await pool.acquire({ sessionId, runtime, request, signal: new AbortController().signal });
      lease.release();
    };
    for (let n = 0; n < 64; n++) await acquire(n);
    const times: number[] = [];
    for (let n = 0; n < ACQUIRES; n++) {
      const from = performance.now();
      await acquire(n);
      times.push(performance.now() - from);
    }
    await pool.close();
    pairs.push({ ours: quantile(times, 0.99), beside: 1 });
  }
  return row("acquire p99, warm, beside 1 ms", "ms", pairs, { atMost: 1 });
}

/** What a further warm session of the demo takes: as a process, beside in the gateway. */
async function weighing(): Promise<Row> {
  const runtime = { kind: "acp", command: process.execPath, args: [DEMO, "demo-agent"] };
  const stage = await open(runtime);
  for (let n = 0; n < SESSIONS; n++) await stage.firstToken(`c${n}`, "say hello");
  await new Promise((resolve) => setTimeout(resolve, 500));
  const perSession = median(stage.gateway.pool.list().map(({ memoryMb }) => memoryMb ?? Number.NaN));
  await stage.close();
  const inProcess = await open({ kind: "demo" });
  await inProcess.firstToken("c", "say hello");
  const before = rssMb();
  const many = 500;
  for (let n = 0; n < many; n++) await inProcess.firstToken(`c${n}`, "say hello");
  const each = Math.max(0.01, (rssMb() - before) / many);
  await inProcess.close();
  return row("memory of one warm session: demo as a process, beside in the gateway", "MB", [
    { ours: perSession, beside: each },
  ]);
}

function rssMb(): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1024;
}

async function open(runtime: object): Promise<Stage> {
  const home = temporaryHome();
  writeFileSync(
    join(home.path, "config.yaml"),
    JSON.stringify({ agents: { main: { runtime } }, welcome: false, pool: { max_warm: 1_000 } }),
  );
  const gateway = new Gateway({
    config: loadConfig({ flags: { home: home.path }, env: {} }),
    store: openSqliteStore({ path: join(home.path, "state.db"), clock: systemClock }),
    log: silentLog,
  });
  await gateway.start();
  const spoke = new Map<number, number>();
  gateway.events.onStep((step) => step.kind === "spoke" && void spoke.set(step.turnId, performance.now()));
  return {
    gateway,
    async firstToken(name, text) {
      const from = performance.now();
      const door = { platform: "console", name } as const;
      const said = await gateway.doors.say({ person: OWNER, agent: "main", door, text });
      if (said.kind !== "turn") throw new Error(said.kind);
      const { turn } = await gateway.turns.answerOf(said.turnId);
      if (turn.state !== "answered") throw new Error(`${turn.state}: ${turn.reason}`);
      const at = spoke.get(said.turnId);
      spoke.clear();
      if (at === undefined) throw new Error("It was answered without a word.");
      return at - from;
    },
    async close() {
      await gateway.stop();
      home.remove();
    },
  };
}

/** The agent without us: one request a line. */
async function bareAgent(): Promise<{ firstToken(text: string): Promise<number>; close(): Promise<void> }> {
  const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [DEMO, "demo-agent"]);
  const waiting = new Map<number, (result: Record<string, unknown>) => void>();
  let onChunk = (): void => undefined;
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line) as { id?: number; method?: string; result?: Record<string, unknown> };
    if (message.method === "session/update") onChunk();
    else if (message.id !== undefined) waiting.get(message.id)?.(message.result ?? {});
  });
  let id = 0;
  const request = (method: string, params: object): Promise<Record<string, unknown>> => {
    id += 1;
    const answer = new Promise<Record<string, unknown>>((resolve) => waiting.set(id, resolve));
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return answer;
  };
  await request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const { sessionId } = await request("session/new", { cwd: ROOT, mcpServers: [] });
  return {
    async firstToken(text) {
      const from = performance.now();
      const first = new Promise<number>((resolve) => {
        onChunk = () => resolve(performance.now() - from);
      });
      await request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
      return first;
    },
    close() {
      const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
      child.stdin.end();
      return ended;
    },
  };
}

if (import.meta.main) {
  build();
  process.stdout.write(`${markdown(await measureAgents(process.argv.includes("--quick") ? QUICK : FULL))}\n`);
}
