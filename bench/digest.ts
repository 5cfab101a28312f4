/**
 * The digest beside a Hermes of 100,000 messages: how long a run that changes nothing takes as a process, beside `node -e 0`; how long
 * and how much memory reading takes in a process that has loaded everything; and how fast the same file is brought in.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { hermesState } from "../test/support/hermes-state.ts";
import { BUILD, build, temporaryHome } from "./processes.ts";
import { type Effort, FULL, inTurn, markdown, QUICK, type Row, row } from "./table.ts";

const MESSAGES = 100_000;
const SESSIONS = 1_000;
const SOURCES = ["telegram", "weixin", "cli", "discord", "slack", "whatsapp"];
/** What is asked for, each as its own floor. */
const START_MS = 150;
const READ_MS = 200;
const READ_MB = 60;

export async function measureDigest(effort: Effort): Promise<Row[]> {
  const large = temporaryHome();
  const small = temporaryHome();
  try {
    fill(large.path, { messages: MESSAGES, sessions: SESSIONS });
    fill(small.path, { messages: 50, sessions: 5 });
    const digestRun = (home: string): number =>
      timed(["digest", "run", "--home", home, "--state", join(home, "state.db")]);
    // The first run compiles, and writes.
    digestRun(large.path);
    digestRun(small.path);
    const starts: { ours: number; beside: number }[] = [];
    const reads: { ms: number; mb: number }[] = [];
    const wholes: number[] = [];
    for (let round = 0; round < effort.rounds; round++) {
      starts.push(await inTurn(round, () => digestRun(small.path), nothing));
      wholes.push(digestRun(large.path));
      reads.push(readOnce(large.path));
    }
    const imports = Array.from({ length: Math.ceil(effort.rounds / 5) }, () => importOnce(large.path));
    return [
      row("digest run, nothing changed, beside node -e 0", "ms", starts),
      row(
        `digest run, nothing changed, beside ${START_MS} ms`,
        "ms",
        starts.map(({ ours }) => ({ ours, beside: START_MS })),
        { atMost: 1 },
      ),
      row(
        "digest run, 100,000 messages, as a process, beside 50",
        "ms",
        wholes.map((ours, i) => ({ ours, beside: starts[i]!.ours })),
      ),
      row(
        `digest of 100,000 messages, beside ${READ_MS} ms`,
        "ms",
        reads.map(({ ms }) => ({ ours: ms, beside: READ_MS })),
        { atMost: 1 },
      ),
      row(
        `digest of 100,000 messages, more memory, beside ${READ_MB} MB`,
        "MB",
        reads.map(({ mb }) => ({ ours: mb, beside: READ_MB })),
        { atMost: 1 },
      ),
      row("import of 100,000 messages, rows/s, beside SQLite's own copy of them", "/s", imports),
    ];
  } finally {
    large.remove();
    small.remove();
  }
}

function fill(home: string, { messages, sessions }: { messages: number; sessions: number }): void {
  const state = hermesState(join(home, "state.db"));
  state.exec("BEGIN");
  const now = Math.floor(Date.now() / 1000);
  for (let i = 0; i < sessions; i++)
    state.session({
      id: `s${i}`,
      source: SOURCES[i % SOURCES.length]!,
      chat_type: "dm",
      user_id: "42",
      started_at: now - messages,
      system_prompt: "You are …".repeat(500),
    });
  for (let i = 0; i < messages; i++) {
    // A fifth of all is one long talk; of four rows two are a tool's.
    const session = i % 5 === 0 ? "s0" : `s${i % sessions}`;
    const at = now - (messages - i);
    if (i % 4 === 0) state.message(session, "user", `Question ${i}: ${"what about this and that? ".repeat(4)}`, at);
    else if (i % 4 === 3)
      state.message(session, "assistant", `Answer ${i}: ${"it depends on many things. ".repeat(12)}`, at);
    else state.message(session, i % 4 === 1 ? "assistant" : "tool", i % 4 === 1 ? null : "output ".repeat(300), at);
  }
  state.exec("COMMIT");
  state.close();
}

function timed(args: readonly string[]): number {
  const from = performance.now();
  execFileSync(process.execPath, [join(BUILD, "src/cli/main.js"), ...args], { stdio: ["ignore", "ignore", "inherit"] });
  return performance.now() - from;
}

function nothing(): number {
  const from = performance.now();
  execFileSync(process.execPath, ["-e", "0"]);
  return performance.now() - from;
}

function readOnce(home: string): { ms: number; mb: number } {
  return JSON.parse(
    execFileSync(process.execPath, [join(BUILD, "bench/digest-once.js"), join(home, "state.db")], { encoding: "utf8" }),
  );
}

/** Rows a second, of ours and of `INSERT … SELECT` of the same messages into an empty file. */
function importOnce(home: string): { ours: number; beside: number } {
  const target = temporaryHome();
  try {
    mkdirSync(join(target.path, "home"));
    const state = join(home, "state.db");
    const args = ["--home", join(target.path, "home"), "import", "hermes", "--state", state, "--json"];
    const said = execFileSync(process.execPath, [join(BUILD, "src/cli/main.js"), ...args], { encoding: "utf8" });
    const { read, rate } = JSON.parse(said) as { read: number; rate: number };
    const copy = execFileSync(process.execPath, ["-e", COPY, state, join(target.path, "copy.db")], {
      encoding: "utf8",
    });
    return { ours: rate, beside: read / (Number(copy) / 1_000) };
  } finally {
    target.remove();
  }
}

const COPY = `
  const { DatabaseSync } = require("node:sqlite");
  const [from, to] = process.argv.slice(1);
  const db = new DatabaseSync(to);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ATTACH '" + from + "' AS f");
  const start = performance.now();
  db.exec("CREATE TABLE messages AS SELECT * FROM f.messages");
  console.log(performance.now() - start);
`;

if (import.meta.main) {
  build();
  process.stdout.write(`${markdown(await measureDigest(process.argv.includes("--quick") ? QUICK : FULL))}\n`);
}
