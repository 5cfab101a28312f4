/**
 * Agents in XMPP rooms, on a Prosody of its own: from a person's message that names an agent to the first stanza of its answer, by the
 * person's own client. Beside it the room's own way there and back: the same client's message until its echo. 1,000 messages in 20 rooms
 * with 5 agents, one at a time, the rooms and agents in turn. Then what an idle room takes: the same gateway with one room and with twenty.
 *
 *     node bench/rooms.ts [--quick]        needs Prosody (scripts/xmpp-setup.sh)
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { until } from "../test/support/until.ts";
import { XmppPerson } from "../test/support/xmpp-person.ts";
import { startProsody, type XmppServer } from "../test/support/xmpp-servers.ts";
import { BUILD, build, temporaryHome } from "./processes.ts";
import { type Effort, FULL, markdown, median, QUICK, quantile, type Row, row } from "./table.ts";

const ROOMS = 20;
const AGENTS = ["mohe", "zhiwei", "lanqi", "suyin", "boyan"];
const MESSAGES = 1_000;
const COMMAND = join(BUILD, "src/cli/main.js");

export async function measureRooms(effort: Effort): Promise<Row[]> {
  const server = await startProsody();
  try {
    for (const name of [...AGENTS, "alice"]) await server.addAccount(name, "secret");
    const rooms = Array.from({ length: ROOMS }, (_, n) => `room${n}@${server.mucDomain}`);
    const messages = Math.round(MESSAGES * effort.scale);
    const { answers, echoes } = await withGateway(server, rooms, ({ alice }) => talk(alice, rooms, messages));
    const one = await withGateway(server, rooms.slice(0, 1), ({ rssMb }) => settled(rssMb));
    const twenty = await withGateway(server, rooms, ({ rssMb }) => settled(rssMb));
    const perRoom = (twenty - one) / (ROOMS - 1);
    const pair = (share: number) => [{ ours: quantile(answers, share), beside: quantile(echoes, share) }];
    return [
      row(`room message to reply p50, ${messages} messages, beside the room's echo`, "ms", pair(0.5)),
      row(`room message to reply p99, ${messages} messages, beside the room's echo`, "ms", pair(0.99)),
      row(`memory, ${ROOMS} idle rooms beside 1 (${perRoom.toFixed(2)} MB a room, 5 agents in each)`, "MB", [
        { ours: twenty, beside: one },
      ]),
    ];
  } finally {
    await server.stop();
  }
}

interface Running {
  readonly alice: XmppPerson;
  rssMb(): number;
}

async function withGateway<T>(
  server: XmppServer,
  rooms: readonly string[],
  work: (running: Running) => Promise<T>,
): Promise<T> {
  const home = temporaryHome();
  writeFileSync(join(home.path, "ca.pem"), server.ca);
  const alice = new XmppPerson(server, "alice", "secret", "bench");
  alice.client.setMaxListeners(50);
  const account = (name: string) => ({
    platform: "xmpp",
    jid: `${name}@${server.domain}`,
    password: "secret",
    nick: name,
    rooms,
    service: server.service("starttls"),
    tls: { ca: "ca.pem" },
  });
  const config = {
    welcome: false,
    log: { level: "warn" },
    turn: { debounce_ms: 0 },
    pool: { max_warm: 200 },
    agents: Object.fromEntries(AGENTS.map((name) => [name, { runtime: { kind: "demo" }, accounts: [account(name)] }])),
    access: { xmpp: { open: true } },
  };
  writeFileSync(join(home.path, "config.yaml"), JSON.stringify(config));
  let child: ChildProcess | null = null;
  try {
    await alice.login();
    for (const room of rooms) await alice.join(room, "alice");
    child = spawn(process.execPath, [COMMAND, "--home", home.path, "start", "--port", "0"], { stdio: "ignore" });
    const { pid } = child;
    const isThere = (room: string, name: string): boolean =>
      alice.presences.some(({ attrs }) => attrs.from === `${room}/${name}` && attrs.type === undefined);
    await until(
      "every agent is in every room",
      () => rooms.every((room) => AGENTS.every((name) => isThere(room, name))),
      60_000,
    );
    return await work({ alice, rssMb: () => rssMbOf(pid!) });
  } finally {
    if (child !== null) {
      child.kill("SIGTERM");
      if (child.exitCode === null) await once(child, "exit");
    }
    await alice.logout();
    home.remove();
  }
}

async function talk(alice: XmppPerson, rooms: readonly string[], messages: number) {
  const answers: number[] = [];
  const echoes: number[] = [];
  // What was said before the agents were ready is history to them: the first answers are waited for, and not counted.
  for (const [n, room] of rooms.entries())
    await ask(alice, { room, agent: AGENTS[n % AGENTS.length]!, word: `warm${n}` });
  for (let n = 0; n < messages; n++) {
    const room = rooms[n % rooms.length]!;
    const agent = AGENTS[Math.floor(n / rooms.length) % AGENTS.length]!;
    const { echoMs, answerMs } = await ask(alice, { room, agent, word: `w${n}` });
    echoes.push(echoMs);
    answers.push(answerMs);
    alice.heard.length = 0;
  }
  return { answers, echoes };
}

async function ask(
  alice: XmppPerson,
  { room, agent, word }: { room: string; agent: string; word: string },
): Promise<{ echoMs: number; answerMs: number }> {
  const echo = Promise.withResolvers<number>();
  const answer = Promise.withResolvers<number>();
  const from = performance.now();
  const hear = (stanza: {
    attrs: Record<string, string | undefined>;
    getChildText(name: string): string | null;
  }): void => {
    const body = stanza.getChildText("body");
    if (stanza.attrs.from === `${room}/alice` && body?.endsWith(word)) echo.resolve(performance.now() - from);
    if (stanza.attrs.from === `${room}/${agent}` && body === word) answer.resolve(performance.now() - from);
  };
  alice.client.on("stanza", hear);
  const late = setTimeout(() => answer.reject(new Error(`${agent} did not answer ${word} in ${room}`)), 20_000);
  try {
    await alice.saysInRoom(room, `@${agent} say ${word}`);
    return { echoMs: await echo.promise, answerMs: await answer.promise };
  } finally {
    clearTimeout(late);
    alice.client.removeListener("stanza", hear);
  }
}

/** After the start and its garbage have had their time: the median of some looks. */
async function settled(rssMb: () => number): Promise<number> {
  await wait(3_000);
  const looks: number[] = [];
  for (let n = 0; n < 5; n++) {
    looks.push(rssMb());
    await wait(200);
  }
  return median(looks);
}

function rssMbOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

if (import.meta.main) {
  build();
  process.stdout.write(`${markdown(await measureRooms(process.argv.includes("--quick") ? QUICK : FULL))}\n`);
}
