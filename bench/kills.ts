/**
 * The crash proof: the built command, killed with SIGKILL again and again by the client it talks with, and after each restart asked for
 * everything it had taken in. Nothing that was acknowledged may be lost, nothing may run or answer twice. `--kills N` (500), `--seed N`
 * (the choices are repeatable, the moments are the machine's), `--keep` leaves the state of a round that went wrong.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { BindingRow } from "../src/store/rows.ts";
import { contradictions, WINDOWS, type Window, windowsOf } from "../test/support/autopsy.ts";
import { type GatewayProcess, spawnGateway, startGateway } from "../test/support/gateway-process.ts";
import { type Call, exchange, fetchJson, listen } from "../test/support/http-client.ts";
import {
  audit,
  keyOf,
  Ledger,
  type Line,
  type Problem,
  quiet,
  transcripts,
  type Words,
} from "../test/support/ledger.ts";
import { temporaryFolder } from "../test/support/store.ts";

const LIMIT_MS = 270_000;
/** Rounds on one home: then the whole of it is audited, and a fresh one begins. */
const ROUNDS_PER_HOME = 25;

const { values: flags } = parseArgs({
  options: {
    kills: { type: "string", default: "500" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    keep: { type: "boolean", default: false },
  },
});

/** What pulls the trigger. */
const TRIGGERS = [
  "request flushed",
  "n-th write of the journal",
  "message:admitted seen",
  "n-th token",
  "turn:settled seen",
  "first byte of the answer",
  "k-th answer of 64 at once",
  "any moment of mixed load",
  "during a reset",
  "during a send with binding",
] as const;
type Trigger = (typeof TRIGGERS)[number];

/** Where the gateway was; the last ones are no window of a message. */
const MOMENTS = [
  ...WINDOWS,
  "reset: nothing of it stored",
  "reset: stored, not told",
  "send: nothing of it stored",
  "send: stored, not told",
  "starting, not listening",
  "recovering, not ready",
] as const;
type Moment = (typeof MOMENTS)[number];

interface Tally {
  kills: number;
  messages: number;
}

interface Round {
  readonly name: string;
  readonly lines: Line[];
  /** The line that the trigger hung on; of a batch all. */
  readonly aimed: Line[];
  readonly gateway: GatewayProcess & { readonly url: string };
  /** Asked after the restart, before and after the audit. */
  isReset?: (url: string) => Promise<boolean>;
  after?: (url: string) => Promise<Problem[]>;
}

const counts = {
  triggers: new Map<Trigger, number>(TRIGGERS.map((name) => [name, 0])),
  moments: new Map<Moment, Tally>(MOMENTS.map((name) => [name, { kills: 0, messages: 0 }])),
  kills: 0,
  said: 0,
  acknowledged: 0,
};
const problems: Problem[] = [];
const chance = mulberry32(Number(flags.seed));

// ---- chance, and moments

function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function whole(from: number, to: number): number {
  return from + Math.floor(chance() * (to - from + 1));
}

function pick<T>(from: readonly T[]): T {
  return from[Math.floor(chance() * from.length)]!;
}

/** Busy on purpose: a timer is too coarse for the moments between two commits. */
function spin(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** Returns in the moment in which the journal was written for the n-th time, or after 20 ms. */
function watchJournal(home: string, writes: number): void {
  const path = join(home, "state.db-wal");
  const until = performance.now() + 20;
  let seen = 0;
  let last = statSync(path, { bigint: true });
  while (seen < writes && performance.now() < until) {
    const now = statSync(path, { bigint: true });
    if (now.size !== last.size || now.mtimeNs !== last.mtimeNs) seen += 1;
    last = now;
  }
}

// ---- the rounds

let serial = 0;
function plainWords(): string {
  serial += 1;
  const word = pick(["say", "say", "count 40", "slow 3"]);
  return `${word} number ${serial}`;
}

function say(round: Round, ledger: Ledger, words: Partial<Words> = {}): Line {
  const way = words.way ?? pick(["whole", "whole", "streamed"] as const);
  const key = chance() < 0.25 ? { key: null } : {};
  const line = ledger.say(round.gateway.url, { text: plainWords(), name: round.name, way, ...key, ...words });
  round.lines.push(line);
  return line;
}

/** Says something and dies of it; resolves when the gateway is dead. */
async function strike(trigger: Trigger, round: Round, ledger: Ledger, home: string): Promise<void> {
  const { gateway } = round;
  const die = (afterMs = 0): void => {
    spin(afterMs);
    gateway.kill9();
  };
  const dieAtWrite = (nth: number): void => {
    watchJournal(home, nth);
    gateway.kill9();
  };
  const later = pick([0, 0, chance(), chance() * 4]);
  const writes = whole(1, 8);
  switch (trigger) {
    case "request flushed":
      round.aimed.push(say(round, ledger, { onFlushed: () => die(later * 1.5) }));
      break;
    case "n-th write of the journal":
      round.aimed.push(say(round, ledger, { onFlushed: () => dieAtWrite(writes) }));
      break;
    case "message:admitted seen":
    case "turn:settled seen": {
      const event = trigger === "turn:settled seen" ? "turn:settled" : "message:admitted";
      await listen(gateway.url, { onEvent: ({ name }) => name === event && die(later / 2) });
      round.aimed.push(say(round, ledger, { isWatched: true }));
      break;
    }
    case "n-th token": {
      const [text, most] = pick([
        ["count 40", 40],
        ["slow 20", 4],
      ] as const);
      const token = whole(1, most);
      const onWords = (chunks: number): void => void (chunks === token && die());
      round.aimed.push(say(round, ledger, { text: `${text} number ${++serial}`, way: "streamed", onWords }));
      break;
    }
    case "first byte of the answer":
      round.aimed.push(say(round, ledger, { way: "whole", onHead: () => die() }));
      break;
    case "k-th answer of 64 at once": {
      const most = whole(1, 60);
      let answers = 0;
      const onHead = (): void => void (++answers === most && die());
      for (let n = 0; n < 64; n++) {
        const name = `${round.name}-${n % 16}`;
        round.aimed.push(say(round, ledger, { name, way: "whole", text: `say number ${++serial}`, onHead }));
      }
      break;
    }
    case "any moment of mixed load": {
      for (let n = 0; n < 8; n++) round.aimed.push(say(round, ledger, { name: `${round.name}-${n % 3}` }));
      setTimeout(() => die(), chance() * 60);
      break;
    }
    case "during a reset":
      await strikeReset(round, ledger, pick([() => die(later), () => dieAtWrite(writes)]));
      break;
    case "during a send with binding":
      await strikeSend(round, ledger, pick([() => die(later), () => dieAtWrite(writes)]));
      break;
  }
  await gateway.ended;
  await Promise.all(round.lines.map((line) => line.exchange.done));
}

/** `/new` while one turn runs and three wait (R4). */
async function strikeReset(round: Round, ledger: Ledger, onFlushed: () => void): Promise<void> {
  const { name, gateway } = round;
  await say(round, ledger, { text: `slow 12 number ${++serial}`, way: "streamed" }).exchange.head;
  for (let n = 0; n < 3; n++) await say(round, ledger, { way: "posted", text: `say number ${++serial}` }).exchange.done;
  const call: Call = {
    path: "/v1/chat/completions",
    headers: { "idempotency-key": `reset ${name}`, "x-tertulia-conversation": name },
    body: { messages: [{ role: "user", content: "/new" }] },
  };
  const told = exchange(gateway.url, { ...call, onFlushed });
  const wrong = (sentence: string): Problem[] => [{ kind: "wrong", sentence: `the reset of ${name} ${sentence}` }];
  round.isReset = async (url) => {
    const sessions = await transcripts(url, [name]);
    count(sessions.length === 2 ? "reset: stored, not told" : "reset: nothing of it stored", 1);
    if ((await told.done) !== null && sessions.length !== 2) problems.push(...wrong("was told and is not there"));
    return sessions.length === 2;
  };
  round.after = async (url) => {
    const retry = await exchange(url, call).done;
    await quiet(url);
    const sessions = await transcripts(url, [name]);
    if (retry?.status !== 200 || sessions.length !== 2) return wrong(`made ${sessions.length} sessions`);
    const [old, fresh] = sessions;
    const isWhole = old!.session.endReason === "new" && fresh!.session.parentId === old!.session.id;
    return isWhole && fresh!.entries.length === 0 ? [] : wrong("is not whole");
  };
}

/** Words sent into a room with a session: the words and the binding are one (H1). */
async function strikeSend(round: Round, ledger: Ledger, onFlushed: () => void): Promise<void> {
  const { name, gateway } = round;
  const room = `${name}-room`;
  await say(round, ledger, { way: "whole", text: `say number ${++serial}` }).exchange.done;
  const session = (await transcripts(gateway.url, [name]))[0]!.session.id;
  const call: Call = {
    path: "/api/send",
    headers: { "idempotency-key": `send ${name}` },
    body: { room: keyOf(room), text: `words for ${room}`, session },
  };
  const told = exchange(gateway.url, { ...call, onFlushed });
  const look = async (url: string): Promise<{ words: number; bindings: number }> => {
    const [desk] = await transcripts(url, [name]);
    const { body } = await fetchJson<{ bindings: BindingRow[] }>(url, { path: "/api/handoff" });
    return {
      words: desk!.entries.filter((entry) => entry.text === `words for ${room}`).length,
      bindings: body.bindings.filter((binding) => binding.sessionId === session).length,
    };
  };
  round.after = async (url) => {
    const before = await look(url);
    count(before.words === 1 ? "send: stored, not told" : "send: nothing of it stored", 1);
    const isTold = (await told.done) !== null;
    const sentence = `the send of ${name}: ${JSON.stringify(before)} before its retry`;
    if (before.words !== before.bindings || before.words > 1) return [{ kind: "wrong", sentence }];
    if (isTold && before.words === 0) return [{ kind: "lost", sentence }];
    const retry = await exchange(url, call).done;
    const after = await look(url);
    const isOnce = retry?.status === 200 && after.words === 1 && after.bindings === 1;
    return isOnce
      ? []
      : [{ kind: "doubled", sentence: `the send of ${name}: ${JSON.stringify(after)} after its retry` }];
  };
}

function count(moment: Moment, messages: number): void {
  const tally = counts.moments.get(moment)!;
  tally.kills += 1;
  tally.messages += messages;
}

function countWindows(windows: readonly Window[]): void {
  for (const window of new Set(windows)) count(window, windows.filter((one) => one === window).length);
}

/** Kills a gateway that starts; returns the kills. */
async function killStarts(home: string): Promise<number> {
  const times = whole(1, 3);
  for (let n = 0; n < times; n++) {
    const starting = spawnGateway({ home });
    let isReady = false;
    starting.ready.then(
      () => (isReady = true),
      () => undefined,
    );
    if (chance() < 0.5) {
      await starting.logs("http listens");
      spin(chance() * 8);
    } else {
      await new Promise((resolve) => setTimeout(resolve, chance() * 200));
    }
    const { errors } = await starting.kill9();
    const listens = errors.includes("http listens");
    if (!isReady) count(listens ? "recovering, not ready" : "starting, not listening", 1);
    counts.kills += 1;
  }
  return times;
}

/** One home: rounds of talk, kill, restart and audit; at its end everything that was ever said there is audited again. */
async function useHome(mayGoOn: () => boolean): Promise<void> {
  const folder = temporaryFolder();
  const ledger = new Ledger();
  let gateway = await startGateway({ home: folder.path });
  const found = problems.length;
  for (let n = 0; n < ROUNDS_PER_HOME && mayGoOn(); n++) {
    const trigger = pick(TRIGGERS);
    const round: Round = { name: `talk-${n}`, lines: [], aimed: [], gateway };
    await strike(trigger, round, ledger, folder.path);
    counts.kills += 1;
    counts.triggers.set(trigger, counts.triggers.get(trigger)! + 1);
    const windows = await windowsOf(folder.path, round.lines);
    const dead = round.lines.map((line, index) => [line, windows[index]!] as const);
    const aimed = dead.filter(([line]) => round.aimed.length === 0 || round.aimed.includes(line));
    countWindows(aimed.map(([, window]) => window));
    const kills = 1 + (chance() < 0.15 ? await killStarts(folder.path) : 0);

    gateway = await startGateway({ home: folder.path });
    await quiet(gateway.url);
    const isReset = (await round.isReset?.(gateway.url)) ?? false;
    const ofRound = await contradictions(gateway.url, dead, { kills, isReset });
    ofRound.push(...(await audit(gateway.url, round.lines, { kills, isReset })));
    ofRound.push(...((await round.after?.(gateway.url)) ?? []));
    for (const problem of ofRound) problems.push({ ...problem, sentence: `${trigger}: ${problem.sentence}` });
  }
  counts.said += ledger.lines.length;
  counts.acknowledged += ledger.lines.filter((line) => line.isAcknowledged).length;
  problems.push(...(await audit(gateway.url, ledger.lines, { kills: 99, isReset: true })));
  await gateway.stop();
  if (problems.length > found && flags.keep) process.stdout.write(`kept: ${folder.path}\n`);
  else folder.remove();
}

function report(wanted: number, seconds: number): number {
  const of = (kind: Problem["kind"]): number => problems.filter((problem) => problem.kind === kind).length;
  const lines = [
    "| window hit | kills | messages in it |",
    "|---|---|---|",
    ...[...counts.moments].map(([name, tally]) => `| ${name} | ${tally.kills} | ${tally.messages} |`),
    "",
    "| trigger | kills |",
    "|---|---|",
    ...[...counts.triggers].map(([name, kills]) => `| ${name} | ${kills} |`),
    "",
    `${counts.kills} kills in ${seconds.toFixed(0)} s (seed ${flags.seed}); ${counts.said} messages said, ${counts.acknowledged} acknowledged before a kill.`,
    `${of("lost")} lost, ${of("doubled")} doubled, ${of("wrong")} otherwise wrong.`,
    ...problems.slice(0, 20).map((problem) => `${problem.kind}: ${problem.sentence}`),
  ];
  if (counts.kills < wanted) lines.push(`Only ${counts.kills} of ${wanted} kills in the time there was.`);
  process.stdout.write(`${lines.join("\n")}\n`);
  return problems.length === 0 && counts.kills >= wanted ? 0 : 1;
}

const wanted = Number(flags.kills);
const startedAt = performance.now();
const mayGoOn = (): boolean => counts.kills < wanted && performance.now() - startedAt < LIMIT_MS;
while (mayGoOn()) await useHome(mayGoOn);
process.exitCode = report(wanted, (performance.now() - startedAt) / 1_000);
