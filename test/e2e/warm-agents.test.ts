/**
 * 200 conversations on eight places for agents that are real processes, in random order, with agents killed in mid-turn. The trigger is
 * pulled by whoever hears the first word of the answer.
 */
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { renderNotice } from "../../src/text/render-notice.ts";
import { systemClock } from "../../src/util/clock.ts";
import { silentLog } from "../../src/util/log.ts";
import { processesWith } from "../support/agent-processes.ts";
import { temporaryFolder } from "../support/store.ts";

const CONVERSATIONS = 200;
const PLACES = 8;
const KILLS = 40;
const OWNER = { id: "owner", role: "owner" } as const;

test("B3 B4 B5 B8 T8: 200 conversations, eight places, random kills: answered rightly or interrupted and said so, and the next answer knows it", async () => {
  const seed = Number(process.env.WARM_AGENTS_SEED ?? Math.floor(Math.random() * 2 ** 31));
  console.log(`seed ${seed}`);
  const random = mulberry(seed);
  const home = temporaryFolder();
  const mark = randomUUID();
  const agents = { main: { runtime: { kind: "acp", preset: "demo", env: { TERTULIA_TEST_RUN: mark } } } };
  writeFileSync(join(home.path, "config.yaml"), JSON.stringify({ agents, pool: { max_warm: PLACES }, welcome: false }));
  const gateway = new Gateway({
    config: loadConfig({ flags: { home: home.path }, env: {} }),
    store: openSqliteStore({ path: join(home.path, "state.db"), clock: systemClock }),
    log: silentLog,
  });
  await gateway.start();
  const processes = (): number[] => processesWith(`TERTULIA_TEST_RUN=${mark}`);
  let most = 0;
  const counting = setInterval(() => {
    most = Math.max(most, processes().length);
  }, 25);

  const says = async (n: number, text: string) => {
    const door = { platform: "console", name: `c${n}` } as const;
    const said = await gateway.doors.say({ person: OWNER, agent: "main", door, text });
    if (said.kind !== "turn") throw new Error(said.kind);
    return said;
  };
  const hears = async (turnId: number): Promise<string> => {
    const { turn, text, notices } = await gateway.turns.answerOf(turnId);
    return turn.state === "answered" ? text : `${turn.state}: ${text} ${notices.map(renderNotice).join(" ")}`;
  };
  /** Kills the agent of a session as soon as its answer begins. */
  const killInMidTurn = (turnId: number, sessionId: string): void => {
    gateway.turns.watch(turnId, {
      canAnswer: false,
      onEvent(event) {
        if (event.type !== "text") return;
        const owner = new Set(processesWith(`TERTULIA_SESSION_ID=${sessionId}`));
        for (const pid of processes().filter((pid) => owner.has(pid))) process.kill(pid, "SIGKILL");
      },
    });
  };

  try {
    const everyone = Array.from({ length: CONVERSATIONS }, (_, n) => n);
    const doomed = new Set(shuffled(everyone, random).slice(0, KILLS));
    const first = shuffled(everyone, random).map(async (n) => {
      const said = await says(n, doomed.has(n) ? `slow 30 word-${n}` : `say word-${n}`);
      if (doomed.has(n)) killInMidTurn(said.turnId, said.sessionId);
      return [n, await hears(said.turnId)] as const;
    });
    for (const [n, answer] of await Promise.all(first)) {
      if (doomed.has(n)) expect(answer).toMatch(/^failed: 1.*ended|^failed: 1.*died|^interrupted: 1/s);
      else expect(answer).toBe(`word-${n}`);
    }
    const second = shuffled(everyone, random).map(async (n) => {
      const { turnId } = await says(n, "history");
      return [n, await hears(turnId)] as const;
    });
    for (const [n, answer] of await Promise.all(second)) {
      expect(answer).toContain(`you: ${doomed.has(n) ? `slow 30 word-${n}` : `say word-${n}`}`);
      if (!doomed.has(n)) expect(answer).toContain(`me: word-${n}`);
    }
    expect(most).toBeLessThanOrEqual(PLACES);
    expect(gateway.pool.counters.restarted).toBe(KILLS);
  } finally {
    clearInterval(counting);
    await gateway.stop();
    const left = processes();
    for (const pid of left) process.kill(pid, "SIGKILL");
    home.remove();
    expect(left).toEqual([]);
  }
}, 600_000);

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const keyed = items.map((item) => ({ item, at: random() }));
  return keyed.sort((a, b) => a.at - b.at).map(({ item }) => item);
}

/** A generator of numbers from 0 to 1 that can be repeated. */
function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
