/** A gateway whose agent is in a Hermes, over its HTTP API. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import type { Person } from "../../src/conversation/person.ts";
import { localDoorChatId } from "../../src/conversation/session-key.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { renderNotice } from "../../src/text/render-notice.ts";
import { type FakeHermes, HERMES_KEY, startFakeHermes } from "../support/fake-hermes.ts";
import { createManualClock, type ManualClock } from "../support/manual-clock.ts";
import { temporaryFolder } from "../support/store.ts";

const ALICE: Person = { id: "owner", role: "owner", name: "Alice" };
const KEY = `agent:main:console:dm:${encodeURIComponent(localDoorChatId("owner", "main"))}`;

let home: ReturnType<typeof temporaryFolder>;
let clock: ManualClock;
let hermes: FakeHermes;
let gateway: Gateway;
let faults: string[];

beforeEach(async () => {
  home = temporaryFolder();
  clock = createManualClock(Date.UTC(2026, 10, 30));
  hermes = await startFakeHermes();
  faults = [];
  await starts();
});

afterEach(async () => {
  await gateway.stop();
  await hermes.close();
  home.remove();
  expect({ timers: clock.pending, faults }).toEqual({ timers: 0, faults: [] });
});

async function starts(): Promise<void> {
  const runtime = { kind: "hermes", base_url: hermes.url, key: HERMES_KEY };
  const settings = { welcome: false, agents: { main: { runtime } }, turn: { debounce_ms: 0 } };
  writeFileSync(join(home.path, "config.yaml"), JSON.stringify(settings));
  gateway = new Gateway({
    config: loadConfig({ flags: { home: home.path }, env: {} }),
    store: openSqliteStore({ path: join(home.path, "state.db"), clock }),
    clock,
    log: { info: () => undefined, warn: () => undefined, error: (_, message) => faults.push(message) },
  });
  await gateway.start();
}

async function asks(text: string): Promise<string> {
  const said = await gateway.doors.say({
    person: ALICE,
    agent: "main",
    door: { platform: "console", name: "main" },
    text,
  });
  const { turn, text: answer, notices } = await gateway.turns.answerOf(said.turnId!);
  return turn.state === "answered" ? answer : `${turn.state}: ${notices.map(renderNotice).join("\n")}`;
}

const sentIds = (): unknown[] => hermes.turns.map(({ headers }) => headers["x-hermes-session-id"]);

test("B5 H13: the id Hermes goes on with is the one the gateway keeps, also over a restart", async () => {
  await asks("say the parrot is called Kiwi");
  const [first] = sentIds();
  const next = hermes.compress(String(first));
  expect(await asks("history")).toContain("Kiwi");
  // What is older than the newest id can be gone by then.
  hermes.lose(String(first));
  await gateway.stop();
  await starts();
  expect(await asks("history")).toContain("Kiwi");
  expect(sentIds()).toEqual([first, next, next]);
  expect(new Set(hermes.turns.map(({ headers }) => headers["x-hermes-session-key"]))).toEqual(new Set([KEY]));
});

test("B5 T9: a session Hermes lost ends one turn with a sentence; the next knows what was said", async () => {
  await asks("say the parrot is called Kiwi");
  hermes.lose(String(sentIds()[0]));
  expect(await asks("say again")).toContain("begun anew");
  const history = await asks("history");
  expect(history).toContain("the parrot is called Kiwi");
  expect(hermes.turns).toHaveLength(2);
});

test("T8 T9: what Hermes could not finish is said once, and is not tried again", async () => {
  expect(await asks("fail")).toContain("told to fail");
  expect(hermes.turns).toHaveLength(1);
  expect(await asks("say better")).toBe("better");
});
