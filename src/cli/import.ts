import { homedir } from "node:os";
import { resolve } from "node:path";
import type { Command } from "commander";
import { type Config, loadConfig } from "../config/config.ts";
import { HermesHistory, type HistoryCount } from "../digest/hermes/history.ts";
import { HermesDb } from "../digest/hermes/state-db.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import type { ImportedSession, ImportResult } from "../store/keep.ts";
import type { ForeignSession } from "../store/rows.ts";
import { acquireLock } from "../store/sqlite/lock.ts";
import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import { systemClock } from "../util/clock.ts";
import { connect } from "./client.ts";
import { clientConfig } from "./client-config.ts";
import { output, printable } from "./output.ts";
import { ownersIn } from "./owner-flag.ts";
import { readState } from "./state.ts";
import { plural, table } from "./table.ts";

interface ImportFlags {
  readonly home?: string;
  readonly config?: string;
  readonly state: string;
  readonly agent?: string;
  readonly owner?: readonly string[];
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const RUNTIME = "hermes";

/** Where imported sessions go: a running gateway, else the file, whose lock is held meanwhile (E4). */
interface Destination {
  readonly known: readonly ForeignSession[];
  take(sessions: readonly ImportedSession[]): Promise<ImportResult>;
  close(): Promise<void>;
}

export function importCommand(bring: Command): void {
  bring
    .command("hermes")
    .description("the sessions of a Hermes state.db, with their messages; safe to repeat")
    .requiredOption("--state <path>", "the state.db of Hermes; it is only read")
    .option("--agent <name>", "the agent they become sessions of (default the configured one)")
    .option("--owner <platform:id...>", "whose direct chats are the owner's, as in telegram:42")
    .option("--dry-run", "say what would be done, and do nothing")
    .option("--json", "print what was done as JSON")
    .addHelpText("after", "\nExample: tertulia import hermes --state ~/.hermes/state.db --dry-run")
    .action((_options, command) => importHermes(command.optsWithGlobals()));
}

/** H13: `tertulia import hermes`: a Hermes user moves in with his history. Twice is once. */
async function importHermes(flags: ImportFlags): Promise<void> {
  const owners = ownersIn(flags);
  const at = { home: flags.home, config: flags.config };
  const config = await clientConfig(at);
  const agent = flags.agent ?? config.defaultAgent;
  if (!Object.hasOwn(config.agents, agent)) throw new TertuliaError("agent_unknown", `There is no agent ${agent}.`);
  const db = new HermesDb(resolve(flags.state.replace(/^~(?=\/|$)/, () => homedir())));
  const from = performance.now();
  try {
    const destination = await (flags.dryRun
      ? nowhere(config)
      : destinationOf(config, agent, () => loadConfig({ flags: at })));
    try {
      const { known } = destination;
      const history = new HermesHistory(db, { now: Date.now(), owners, known });
      const done = await moved(history, destination, isBarWanted(flags));
      const seconds = (performance.now() - from) / 1_000;
      report({ flags, count: history.count, done, seconds });
    } finally {
      await destination.close();
    }
  } finally {
    db.close();
  }
}

async function moved(history: HermesHistory, destination: Destination, isBarShown: boolean): Promise<ImportResult> {
  const done = { sessions: 0, messages: 0, wentOn: new Set<string>() };
  const bar = isBarShown ? createBar() : null;
  for (const batch of history.batches()) {
    const { sessions, messages, wentOn } = await destination.take(batch);
    done.sessions += sessions;
    done.messages += messages;
    for (const id of wentOn) done.wentOn.add(id);
    bar?.show(history.count);
  }
  bar?.clear();
  return { ...done, wentOn: [...done.wentOn] };
}

async function destinationOf(config: Config, agent: string, good: () => Config): Promise<Destination> {
  try {
    const client = await connect(config);
    const path = `/api/foreign/${RUNTIME}`;
    return {
      known: (await client.get<{ sessions: ForeignSession[] }>(path)).sessions,
      take: (sessions) => client.post<ImportResult>(path, { agent, sessions }),
      close: () => Promise.resolve(),
    };
  } catch (cause) {
    if (asTertuliaError(cause).code !== "gateway_down") throw cause;
    return fileOf(good(), agent);
  }
}

async function fileOf(config: Config, agent: string): Promise<Destination> {
  const lock = acquireLock({ path: config.files.lock, pid: process.pid, now: Date.now() });
  try {
    const store = openSqliteStore({ path: config.files.state, clock: systemClock, lock });
    const claim = await store.claim(`import ${process.pid}`);
    for (const { id, role, name } of Object.values(config.people)) {
      const person = { id, role, ...(name === undefined ? {} : { name }) };
      await store.keep({ kind: "person", person }, claim);
    }
    return {
      known: await store.foreignSessions(RUNTIME),
      async take(sessions) {
        const kept = await store.keep({ kind: "import", runtime: RUNTIME, agent, now: Date.now(), sessions }, claim);
        return kept.imported ?? { sessions: 0, messages: 0, wentOn: [] };
      },
      async close() {
        await store.close();
        lock.release();
      },
    };
  } catch (cause) {
    lock.release();
    throw cause;
  }
}

/** Reads what is here, and writes nothing. */
async function nowhere(config: Config): Promise<Destination> {
  return {
    known: await knownIn(config),
    take: (sessions) =>
      Promise.resolve({
        sessions: 0,
        messages: sessions.reduce((sum, session) => sum + session.messages.length, 0),
        wentOn: [],
      }),
    close: () => Promise.resolve(),
  };
}

async function knownIn(config: Config): Promise<readonly ForeignSession[]> {
  const known = await readState<readonly ForeignSession[]>(config, {
    gateway: async (client) => (await client.get<{ sessions: ForeignSession[] }>(`/api/foreign/${RUNTIME}`)).sessions,
    file: (reader) => reader.foreignSessions(RUNTIME),
  });
  return known ?? [];
}

interface Report {
  readonly flags: ImportFlags;
  readonly count: HistoryCount;
  readonly done: ImportResult;
  readonly seconds: number;
}

function report({ flags, count, done, seconds }: Report): void {
  const sessions = flags.dryRun ? count.sessions : done.sessions;
  const { messages, wentOn } = done;
  const rate = Math.round(count.rows / Math.max(seconds, 0.001));
  if (flags.json) {
    const skipped = {
      sessions: Object.fromEntries(count.skippedSessions),
      rows: Object.fromEntries(count.skippedRows),
    };
    output(
      JSON.stringify({ dryRun: flags.dryRun ?? false, sessions, messages, wentOn, skipped, read: count.rows, rate }),
    );
    return;
  }
  const verb = flags.dryRun ? "would be brought in" : "brought in";
  const skipped = [
    ...[...count.skippedSessions].map(([why, n]) => [String(n), plural(n, "session").replace(/^\d+ /, ""), why]),
    ...[...count.skippedRows].map(([why, n]) => [String(n), plural(n, "row").replace(/^\d+ /, ""), why]),
  ];
  const lines = [
    `${plural(sessions, "session")} and ${plural(messages, "message")} ${verb}; ${plural(count.rows, "row")} read in ${seconds.toFixed(1)} s (${rate} a second).`,
    ...(wentOn.length === 0
      ? []
      : [`Went on here as well, so that nothing more is added to them: ${wentOn.slice(0, 10).join(", ")}.`]),
    ...(skipped.length === 0 ? [] : ["", "Left out:", table(skipped)]),
    ...(sessions === 0 || flags.dryRun ? [] : ["", "`/resume` lists them in a chat, `tertulia sessions list` here."]),
  ];
  output(printable(lines.join("\n")));
}

function isBarWanted({ json }: ImportFlags): boolean {
  return process.stderr.isTTY === true && json !== true;
}

const BAR = 30;
const SHOWN_EVERY_MS = 100;

/** One line on the terminal, drawn over and over. */
function createBar(): { show(count: HistoryCount): void; clear(): void } {
  const from = performance.now();
  let shownAt = 0;
  return {
    show({ rows, total }) {
      const now = performance.now();
      if (now - shownAt < SHOWN_EVERY_MS) return;
      shownAt = now;
      const share = Math.min(1, rows / Math.max(1, total));
      const done = "#".repeat(Math.round(BAR * share)).padEnd(BAR);
      const rate = Math.round((rows * 1_000) / Math.max(1, now - from));
      process.stderr.write(
        `\r[${done}] ${Math.floor(100 * share)} %  ${rows} of ${total} rows, ${rate} a second\u001b[K`,
      );
    },
    clear: () => process.stderr.write("\r\u001b[K"),
  };
}
