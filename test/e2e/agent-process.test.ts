/** The built command with an agent that is a process of its own, killed in the middle of a turn, and started again. */
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { eventually, processesWith } from "../support/agent-processes.ts";
import { type GatewayProcess, startGateway } from "../support/gateway-process.ts";
import { exchange, fetchJson } from "../support/http-client.ts";
import { fateOf, Ledger, type Line, quiet, transcripts } from "../support/ledger.ts";
import { temporaryFolder } from "../support/store.ts";

const HOSTILE = fileURLToPath(new URL("../support/hostile-agent.ts", import.meta.url));

let home: ReturnType<typeof temporaryFolder>;
let ledger: Ledger;
let mark: string;
let running: GatewayProcess | null;

beforeEach(() => {
  home = temporaryFolder();
  ledger = new Ledger();
  mark = randomUUID();
  running = null;
});

afterEach(async () => {
  await running?.stop();
  const left = agents();
  for (const pid of left) process.kill(pid, "SIGKILL");
  home.remove();
  expect(left).toEqual([]);
});

const agents = (): number[] => processesWith(`TERTULIA_TEST_RUN=${mark}`);

async function start(agent?: object): Promise<GatewayProcess & { readonly url: string }> {
  const runtime = { kind: "acp", env: { TERTULIA_TEST_RUN: mark }, ...agent };
  if (agent !== undefined)
    writeFileSync(join(home.path, "config.yaml"), JSON.stringify({ welcome: false, agents: { main: { runtime } } }));
  const gateway = await startGateway({ home: home.path });
  running = gateway;
  return gateway;
}

/** Says it, and kills the gateway as soon as so many pieces of the answer have come. */
async function saysAndKills(gateway: GatewayProcess & { url: string }, text: string, chunks: number): Promise<Line> {
  const line = ledger.say(gateway.url, {
    text,
    name: "main",
    way: "streamed",
    onWords: (count) => count === chunks && gateway.kill9(),
  });
  await gateway.ended;
  await line.exchange.done;
  return line;
}

async function asks(url: string, text: string, key: string, name = "main") {
  const reply = await exchange(url, {
    path: "/v1/chat/completions",
    headers: { "idempotency-key": key, "x-tertulia-conversation": name },
    body: { messages: [{ role: "user", content: text }] },
  }).done;
  const body = JSON.parse(reply!.body) as { choices?: { message: { content: string } }[] };
  return { status: reply!.status, body, text: body.choices?.[0]?.message.content ?? "" };
}

async function entriesOf(url: string) {
  return (await transcripts(url, ["main"])).flatMap(({ entries }) => entries);
}

test("B8 G-RUN-03: killed in mid-turn, the next start ends the deaf agent it left, before anybody speaks; the turn is interrupted, told once, and not run again", async () => {
  const first = await start({ command: process.execPath, args: [HOSTILE, "deaf"] });
  const line = await saysAndKills(first, "deafen", 1);
  expect(agents()).toHaveLength(1);

  const { url } = await start();
  await eventually(() => agents().length === 0);
  await quiet(url);
  const entries = await entriesOf(url);
  expect(entries.map(({ role, text, mark: how }) => [role, text, how])).toEqual([
    ["user", "deafen", null],
    ["assistant", "wait", "interrupted"],
  ]);
  const { answer } = (await fateOf(url, entries[0]!.messageId!))!;
  expect(answer).toMatchObject({ state: "interrupted", reason: "crash", text: "wait" });
  expect(answer!.notices).toHaveLength(1);
  expect(await asks(url, line.text, line.key!)).toMatchObject({
    status: 424,
    body: { error: { code: "turn_interrupted" }, partial: "wait" },
  });
  // Its next one gets an agent that heard nothing of that turn a second time.
  expect((await asks(url, "say hello", "2")).text).toBe("hello");
  expect((await asks(url, "prompts", "3")).text).toBe("2");
});

test("B4 B5 T8 G-RUN-02: killed in mid-turn, the session goes on with its context, and nothing of the turn is done twice", async () => {
  const first = await start({ preset: "demo" });
  expect((await asks(first.url, "say my parrot is called Kiwi", "1")).text).toBe("my parrot is called Kiwi");
  await saysAndKills(first, "slow 40 of it", 12);

  // Again and again: a turn that was begun by an agent out of our sight is never begun a second time.
  for (let n = 0; n < 2; n++) {
    const { kill9 } = await start();
    await kill9();
  }
  const { url } = await start();
  await quiet(url);
  const before = await entriesOf(url);
  expect(before.map(({ role, mark: how }) => [role, how])).toEqual([
    ["user", null],
    ["assistant", null],
    ["user", null],
    ["assistant", "interrupted"],
  ]);
  expect(before.at(-1)!.text).toMatch(/^1 2/);
  const { text } = await asks(url, "history", "2");
  expect(text).toContain("my parrot is called Kiwi");
  expect(text.match(/you: slow 40 of it/g)).toHaveLength(1);
});

test("B1 T4 G-RUN-01: after a start what waited and what comes in at once share one agent, in order, and another conversation is not held up", async () => {
  const first = await start({ preset: "demo" });
  const line = ledger.say(first.url, { text: "slow 200 long", name: "main", way: "streamed" });
  await eventually(() => line.shown !== "");
  for (const text of ["say waited", "say and waited"])
    await ledger.say(first.url, { text, name: "main", way: "posted" }).exchange.done;
  await first.kill9();
  await line.exchange.done;
  await eventually(() => agents().length === 0);

  const { url } = await start();
  const answers = await Promise.all([asks(url, "say new", "a"), asks(url, "say other", "b", "other")]);
  expect(answers.map(({ text }) => text)).toEqual(["new", "other"]);
  const entries = await entriesOf(url);
  expect(entries.filter(({ role }) => role === "user").map(({ text }) => text)).toEqual([
    "slow 200 long",
    "say waited",
    "say and waited",
    "say new",
  ]);
  const { body } = await fetchJson<{ counters: { opened: number } }>(url, { path: "/api/pool" });
  expect(body.counters.opened).toBe(2);
  expect(agents()).toHaveLength(2);
});
