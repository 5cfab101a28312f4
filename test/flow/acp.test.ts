/** A gateway whose agent is a process: the built-in demo over ACP, with real signals. */
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import type { Person } from "../../src/conversation/person.ts";
import { localDoorChatId } from "../../src/conversation/session-key.ts";
import { sessionOfToken } from "../../src/conversation/session-token.ts";
import type { GatewayEvent } from "../../src/events.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import type { Said } from "../../src/intake/local-doors.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { renderNotice } from "../../src/text/render-notice.ts";
import type { LiveEvent } from "../../src/turn/live-turn.ts";
import { eventually, processesWith } from "../support/agent-processes.ts";
import { createJumpClock, type JumpClock } from "../support/jump-clock.ts";
import { temporaryFolder } from "../support/store.ts";

const ALICE: Person = { id: "owner", role: "owner", name: "Alice" };
const KEY = `agent:main:console:dm:${encodeURIComponent(localDoorChatId("owner", "main"))}`;

let home: ReturnType<typeof temporaryFolder>;
let clock: JumpClock;
let gateway: Gateway;
let mark: string;
let events: GatewayEvent[];
let faults: string[];

beforeEach(async () => {
  home = temporaryFolder();
  clock = createJumpClock();
  mark = randomUUID();
  events = [];
  faults = [];
  await starts();
});

afterEach(async () => {
  await gateway.stop();
  const left = processesWith(`TERTULIA_TEST_RUN=${mark}`);
  for (const pid of left) process.kill(pid, "SIGKILL");
  home.remove();
  expect({ left, timers: clock.pending, faults }).toEqual({ left: [], timers: 0, faults: [] });
});

const SECRET = "the owner's token";

async function starts(agent: object = { preset: "demo" }): Promise<void> {
  const runtime = { kind: "acp", ...agent, env: { TERTULIA_TEST_RUN: mark } };
  const settings = {
    welcome: false,
    agents: { main: { runtime } },
    turn: { debounce_ms: 0, stop_grace: "300ms" },
  };
  writeFileSync(join(home.path, "config.yaml"), JSON.stringify(settings));
  gateway = new Gateway({
    config: loadConfig({ flags: { home: home.path }, env: {} }),
    store: openSqliteStore({ path: join(home.path, "state.db"), clock }),
    clock,
    secret: () => SECRET,
    log: { info: () => undefined, warn: () => undefined, error: (_, message) => faults.push(message) },
  });
  gateway.events.subscribe((event) => events.push(event));
  await gateway.start();
}

const processes = (): number[] => processesWith(`TERTULIA_TEST_RUN=${mark}`);
const says = (text: string): Promise<Said> =>
  gateway.doors.say({ person: ALICE, agent: "main", door: { platform: "console", name: "main" }, text });

async function hears(said: Said): Promise<string> {
  const { turn, text, notices } = await gateway.turns.answerOf(said.turnId!);
  return turn.state === "answered" ? text : `${turn.state}: ${notices.map(renderNotice).join("\n")}`;
}

const asks = async (text: string): Promise<string> => hears(await says(text));

/** Watches a turn, and waits until it has said something. */
async function watches(said: Said): Promise<LiveEvent[]> {
  const seen: LiveEvent[] = [];
  gateway.turns.watch(said.turnId!, { canAnswer: true, onEvent: (event) => seen.push(event) });
  await eventually(() => seen.length > 0);
  return seen;
}

/** How the agent was opened, each time. */
const openings = (): unknown[] =>
  events.flatMap((event) =>
    event.name === "runtime:state" && event.payload.how !== undefined ? [event.payload.how] : [],
  );

async function transcript(): Promise<string[]> {
  const conversation = await gateway.reader.conversation(KEY);
  const entries = await gateway.reader.transcript({ sessionId: conversation!.currentSession!, limit: 100 });
  return entries.map((entry) => `${entry.role}${entry.mark === null ? "" : ` (${entry.mark})`}: ${entry.text}`);
}

test("B3: a second message in a live session starts no process", async () => {
  expect(await asks("say my parrot is called Kiwi")).toBe("my parrot is called Kiwi");
  const before = processes();
  expect(before).toHaveLength(1);
  expect(await asks("history")).toContain("me: my parrot is called Kiwi");
  expect(processes()).toEqual(before);
  expect(gateway.pool.counters.opened).toBe(1);
});

test("B5 T8 T9: killed in mid-turn: what was said is kept, it is not run again, and the next turn knows the context", async () => {
  await asks("say my parrot is called Kiwi");
  const said = await says("slow 1000");
  await watches(said);
  const [pid] = processes();
  process.kill(pid!, "SIGKILL");
  expect(await hears(said)).toMatch(/^failed: .*ended unexpectedly \(SIGKILL\)/s);
  expect((await transcript()).slice(-2)).toEqual(["user: slow 1000", expect.stringMatching(/^assistant \(.+\): 1/)]);
  expect(gateway.pool.counters.opened).toBe(1);

  expect(await asks("history")).toContain("me: my parrot is called Kiwi");
  expect(openings()).toEqual(["created", "resumed"]);
});

test("B5 T8: killed before it has said a word to anybody, a turn is not run again either", async () => {
  const prompted = Promise.withResolvers<void>();
  gateway.events.onStep((step) => step.kind === "prompted" && prompted.resolve());
  const said = await says("slow 50");
  await prompted.promise;
  for (const pid of processes()) process.kill(pid, "SIGKILL");
  expect(await hears(said)).toContain("ended unexpectedly");
  expect(openings()).toEqual(["created"]);
  expect(await transcript()).toEqual(["user: slow 50", expect.stringContaining("(failed)")]);
});

test("B1 B6: restarts are counted in agent_state: of one that died idle, of one that was restarted by hand, and over a restart of the gateway", async () => {
  const state = async () => {
    const conversation = (await gateway.reader.conversation(KEY))!;
    const { runtime, runtime_state } = await gateway.conversations.agentState(conversation);
    const { restart_count, status } = runtime_state[runtime]!;
    return [restart_count, status];
  };
  expect(await asks("say one")).toBe("one");
  const sessionId = (await gateway.reader.conversation(KEY))!.currentSession!;
  await eventually(() => gateway.pool.list()[0]?.state === "warm");
  for (const pid of processes()) process.kill(pid, "SIGKILL");
  await eventually(() => processes().length === 0);
  await eventually(async () => (await state())[0] === 1);
  expect(await state()).toEqual([1, "degraded"]);
  clock.jump(2 * 3_600_000);
  expect(gateway.pool.list()).toEqual([]);
  expect(await asks("say two")).toBe("two");
  expect(await state()).toEqual([1, "healthy"]);
  await gateway.turns.restart(sessionId);
  await gateway.turns.restart(sessionId);
  expect(await state()).toEqual([3, "healthy"]);
  await gateway.stop();
  await starts();
  expect(await asks("say three")).toBe("three");
  expect(await state()).toEqual([3, "healthy"]);
});

test("B5: with its own memory lost as well, it is primed with the transcript", async () => {
  await asks("say my parrot is called Kiwi");
  const conversation = await gateway.reader.conversation(KEY);
  await gateway.pool.drop(conversation!.currentSession!);
  rmSync(join(home.path, "workspace"), { recursive: true });
  expect(await asks("history")).toContain("me: my parrot is called Kiwi");
  expect(openings()).toEqual(["created", "primed"]);
});

test("B4: unused for an hour it is parked, and resumed by the next message, with its context", async () => {
  await asks("say my parrot is called Kiwi");
  clock.jump(61 * 60_000);
  await eventually(() => processes().length === 0);
  await eventually(() => gateway.pool.counters.parked === 1);
  expect(await asks("history")).toContain("me: my parrot is called Kiwi");
  expect(openings()).toEqual(["created", "resumed"]);
});

test("T7: G-RUN-06: /stop ends a turn whose agent is deaf; its process is ended, and the next message is answered", async () => {
  await asks("say hello");
  const before = processes();
  const said = await says("stubborn");
  await eventually(() => gateway.turns.running === 1 && gateway.turns.begun.length === 1);
  await says("/stop");
  expect(await hears(said)).toMatch(/^interrupted: /);
  expect(await asks("say still here")).toBe("still here");
  expect(processes()).not.toEqual(before);
});

test("T7: /stop ends a turn that can be cancelled, and keeps the process", async () => {
  const said = await says("slow 1000");
  await watches(said);
  const before = processes();
  await says("/stop");
  expect(await hears(said)).toMatch(/^interrupted: /);
  expect(await asks("say still here")).toBe("still here");
  expect(processes()).toEqual(before);
});

test("H12: a question for permission goes to who watches, and the answer to the agent", async () => {
  for (const [optionId, answer] of [
    ["allow", "You answered: allow"],
    ["reject", "You answered: reject"],
    [null, "You answered: reject"],
  ] as const) {
    const said = await says("ask");
    const seen = await watches(said);
    const question = seen.find((event) => event.type === "permission");
    gateway.turns.answerPermission({ person: ALICE, turnId: said.turnId!, id: question!.id, optionId });
    expect(await hears(said)).toBe(answer);
  }
  expect(await asks("ask"), "nobody watches").toBe("You answered: reject");
});

test("B8: G-RUN-03: the end of the gateway is the end of its agents, of those in a turn too", async () => {
  const said = await says("stubborn");
  await eventually(() => gateway.turns.begun.length === 1);
  expect(said.turnId).not.toBeNull();
  await gateway.stop();
  expect(processes()).toEqual([]);
});

// The kind: the folder of every session that is pruned, parked or warm, alone or among others; kept are those of sessions that can be resumed.
test("F-ACP-04 B8: a session that is pruned is forgotten by its agent, and its folder goes; that of an ended one stays", async () => {
  const once = await Promise.all(
    ["one", "two"].map(async (name) => {
      const door = { platform: "http", name } as const;
      const said = await gateway.doors.say({
        person: ALICE,
        agent: "main",
        door,
        text: `say ${name}`,
        once: { history: [] },
      });
      await hears(said);
      return said.sessionId!;
    }),
  );
  await gateway.pool.drop(once[0]!);
  const kept = await says("say hello");
  await hears(kept);
  await says("/new");
  const folders = () => readdirSync(join(home.path, "workspace")).filter((name) => !name.startsWith("."));
  expect(folders().sort()).toEqual([...once, kept.sessionId!].sort());
  clock.jump(49 * 3_600_000);
  await eventually(() => folders().length === 1);
  expect(folders()).toEqual([kept.sessionId]);
});

test("E3: an agent that is not installed is said with what to do", async () => {
  await gateway.stop();
  await starts({ preset: "opencode", command: "no-such-opencode" });
  const sentence = await asks("hello");
  expect(sentence).toContain("OpenCode is not installed");
  expect(sentence).toContain("npm install -g opencode-ai");
  const { runtime, runtime_state } = await gateway.conversations.agentState((await gateway.reader.conversation(KEY))!);
  expect(runtime_state[runtime]).toMatchObject({ status: "broken", session_id: null, restart_count: 0 });
});

test("B9 A6: an agent is told its session and its home, and gets a token for that session and nothing else", async () => {
  const said = await says("hello");
  await hears(said);
  const [pid] = processes();
  const env = new Map(
    readFileSync(`/proc/${pid}/environ`, "utf8")
      .split("\0")
      .map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
  expect(env.get("TERTULIA_SESSION_ID")).toBe(said.sessionId);
  expect(env.get("TERTULIA_SESSION_KEY")).toBe(KEY);
  expect(env.get("TERTULIA_HOME")).toBe(home.path);
  expect(sessionOfToken(SECRET, env.get("TERTULIA_TOKEN")!)).toBe(said.sessionId);
  expect([...env.values()].some((value) => value === SECRET)).toBe(false);
});
