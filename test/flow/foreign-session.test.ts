/** Speaking from a session that another program has (H13): it is asked for before anything is said. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
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
const BOB: Person = { id: "bob", role: "member", name: "Bob" };
const TERMINAL = "20260619_190821_7c0afe";
const doorOf = (agent: string, name: string): string =>
  `agent:${agent}:web:dm:${encodeURIComponent(localDoorChatId("owner", name))}`;

let home: ReturnType<typeof temporaryFolder>;
let clock: ManualClock;
let hermes: FakeHermes;
let other: FakeHermes;
let gateway: Gateway;
let faults: string[];

beforeEach(async () => {
  home = temporaryFolder();
  clock = createManualClock(Date.UTC(2026, 10, 30));
  hermes = await startFakeHermes();
  other = await startFakeHermes();
  faults = [];
  const runtimeAt = (url: string) => ({ kind: "hermes", base_url: url, key: HERMES_KEY });
  const settings = {
    welcome: false,
    default_agent: "mohe",
    runtimes: { shared: runtimeAt(hermes.url) },
    agents: {
      mohe: { runtime: "shared" },
      xxm: { runtime: "shared" },
      zhiwei: { runtime: runtimeAt(other.url) },
      old: { runtime: runtimeAt((await started({ generation: "any-id" })).url) },
      acp: { runtime: { kind: "acp", command: "nobody-starts-this" } },
    },
    turn: { debounce_ms: 0 },
  };
  writeFileSync(join(home.path, "config.yaml"), JSON.stringify(settings));
  gateway = new Gateway({
    config: loadConfig({ flags: { home: home.path }, env: {} }),
    store: openSqliteStore({ path: join(home.path, "state.db"), clock }),
    clock,
    log: { info: () => undefined, warn: () => undefined, error: (_, message) => faults.push(message) },
  });
  await gateway.start();
});

const more: FakeHermes[] = [];
async function started(options: Parameters<typeof startFakeHermes>[0]): Promise<FakeHermes> {
  const one = await startFakeHermes(options);
  more.push(one);
  return one;
}

afterEach(async () => {
  await gateway.stop();
  for (const one of [hermes, other, ...more.splice(0)]) await one.close();
  home.remove();
  expect({ timers: clock.pending, faults }).toEqual({ timers: 0, faults: [] });
});

const send = (sessionId: string, { agent = "mohe", person = ALICE, text = "dinner is ready" } = {}) =>
  gateway.bridge.send({ person, room: doorOf(agent, "kitchen"), text, sessionId });
const set = (sessionId: string, agent = "mohe") =>
  gateway.bridge.bind({
    person: ALICE,
    room: doorOf(agent, "kitchen"),
    change: { kind: "set", binding: "pinned", sessionId },
  });

async function asks(text: string, { agent = "mohe", name = "kitchen" } = {}): Promise<string> {
  const said = await gateway.doors.say({ person: ALICE, agent, door: { platform: "web", name }, text });
  const { turn, text: answer, notices } = await gateway.turns.answerOf(said.turnId!);
  return turn.state === "answered" ? answer : `${turn.state}: ${notices.map(renderNotice).join("\n")}`;
}

function count(): Record<string, unknown> {
  const db = new DatabaseSync(join(home.path, "state.db"), { readOnly: true });
  try {
    const [row] = db
      .prepare(
        `SELECT (SELECT count(*) FROM conversation) AS conversations, (SELECT count(*) FROM session) AS sessions,
           (SELECT count(*) FROM binding) AS bindings, (SELECT count(*) FROM message) AS messages`,
      )
      .all();
    return { ...row };
  } finally {
    db.close();
  }
}
const NOTHING = { conversations: 0, sessions: 0, bindings: 0, messages: 0 };

/** F-HER-01: an id that the agent's own program does not have, has ended, cannot be asked for, or that no id is; at a send, and when set by hand. */
describe("F-HER-01 a session of another program is asked for before anything is said", () => {
  describe.each([
    ["a send", (id: string, agent?: string) => send(id, agent === undefined ? {} : { agent })],
    ["handoff set", set],
  ])("F-HER-01 H10 H13: %s", (_, names) => {
    test.each([
      ["one that is not there", "does-not-exist"],
      ["one that was deleted there", "deleted"],
      ["one of another agent's Hermes", "zhiweis"],
      ["no id", ""],
      ["an id of blanks", "   "],
      ["an id with a line break", "20260619\nX-Evil: 1"],
      ["an id that leads elsewhere", ".."],
      ["an id longer than Hermes takes", "x".repeat(300)],
      ["an id that no header holds", "会话"],
    ])("F-HER-01 H13: %s is session_unknown, and nothing is left", async (_, id) => {
      other.hold("zhiweis", { source: "cli" });
      hermes.hold("deleted", { source: "cli" });
      hermes.lose("deleted");
      const refused = await names(`hermes:${id}`).catch((cause: unknown) => cause);
      expect(refused).toMatchObject({
        code: "session_unknown",
        message: expect.stringMatching(/^The Hermes of agent mohe has no session /),
        remedy: expect.stringContaining("hermes sessions list"),
      });
      expect(count()).toEqual(NOTHING);
    });

    test.each(["session_reset", "daily", "cron_complete", "ended by hand"])(
      "F-HER-01 H13: one that ended there by %s is session_ended; one whose program only went away goes on",
      async (endReason) => {
        hermes.hold("over", { source: "cli", endReason });
        hermes.hold("left", { source: "cli", endReason: "cli_close" });
        await expect(names("hermes:over")).rejects.toMatchObject({ code: "session_ended" });
        expect(count()).toEqual(NOTHING);
        expect((await names("hermes:left")).binding).not.toBeNull();
      },
    );

    test("F-HER-01 H13: a compressed one is as its newest part stands", async () => {
      hermes.hold("first", { source: "cli" });
      const tip = hermes.compress("first");
      expect((await names("hermes:first")).binding).not.toBeNull();
      hermes.lose(tip);
      hermes.hold(tip, { source: "cli", endReason: "idle" });
      await expect(names("hermes:first")).rejects.toMatchObject({ code: "session_ended" });
    });

    test("F-HER-01 H13: a Hermes that does not answer, refuses the key, or is too old to be asked, is said", async () => {
      const url = other.url;
      await other.close();
      await expect(names("hermes:any", "zhiwei")).rejects.toMatchObject({
        code: "runtime_failed",
        message: expect.stringContaining(new URL(url).host),
      });
      await expect(names("hermes:any", "old")).rejects.toMatchObject({
        code: "runtime_failed",
        message: expect.stringContaining("cannot be asked"),
        remedy: expect.stringContaining("--no-session"),
      });
      expect(count()).toEqual(NOTHING);
    });

    test("F-HER-01 H13: an agent on another kind of runtime has none", async () => {
      await expect(names("hermes:any", "acp")).rejects.toMatchObject({
        code: "session_unknown",
        message: "Agent acp runs on acp, not on hermes: it has no session any.",
        remedy: expect.stringContaining("kind: hermes"),
      });
      expect(count()).toEqual(NOTHING);
    });

    test("F-HER-01 H13 H4: one that is there binds the door, which speaks in it with all that was said there", async () => {
      hermes.hold(TERMINAL, { source: "cli", messages: [{ role: "user", content: "the parrot is called Kiwi" }] });
      expect((await names(`hermes:${TERMINAL}`)).binding).not.toBeNull();
      expect(await asks("history")).toContain("Kiwi");
      expect(hermes.turns[0]?.headers["x-hermes-session-id"]).toBe(TERMINAL);
    });
  });

  test("F-HER-01 H7: whoever is not the owner learns nothing of what is there", async () => {
    hermes.hold(TERMINAL, { source: "cli" });
    const room = `agent:mohe:web:dm:${encodeURIComponent(localDoorChatId("bob", "kitchen"))}`;
    const asked = (id: string) => gateway.bridge.send({ person: BOB, room, text: "x", sessionId: `hermes:${id}` });
    for (const id of [TERMINAL, "not-there"]) await expect(asked(id)).rejects.toMatchObject({ code: "forbidden" });
  });

  test("F-HER-01 H13: an id that stands for a session of ours is that session, and only its agent's", async () => {
    await asks("say hi", { name: "main" });
    const ref = String(hermes.turns[0]?.headers["x-hermes-session-id"]);
    const { binding } = await send(`hermes:${ref}`);
    const [session] = await gateway.reader.sessions({ personId: "owner", agent: "mohe", limit: 10 });
    expect(binding?.sessionId).toBe(session?.id);
    await expect(send(`hermes:${ref}`, { agent: "xxm" })).rejects.toMatchObject({ code: "agent_mismatch" });
  });

  test("F-HER-01 H13: two agents of one Hermes each have a home for its session", async () => {
    hermes.hold(TERMINAL, { source: "cli" });
    const [first, second] = [await send(`hermes:${TERMINAL}`), await send(`hermes:${TERMINAL}`, { agent: "xxm" })];
    expect(first.binding?.sessionId).not.toBe(second.binding?.sessionId);
  });

  test.each([
    ["lost", () => hermes.lose(TERMINAL)],
    ["ended", () => hermes.hold(TERMINAL, { source: "cli", endReason: "session_reset" })],
  ])(
    "F-HER-01 H10 H13: one that is %s later ends its binding: the door is answered in its own session, and told once",
    async (_, end) => {
      hermes.hold(TERMINAL, { source: "cli" });
      const { binding } = await send(`hermes:${TERMINAL}`);
      expect(await asks("say in it")).toBe("in it");
      end();
      expect(await asks("say on my own")).toBe("on my own");
      expect(await asks("say again")).toBe("again");
      // Not under its id, and no other was made in its place: the second is the door's own.
      const ids = hermes.turns.map(({ headers }) => headers["x-hermes-session-id"]);
      expect([ids[0], new Set(ids.slice(1)).size]).toEqual([TERMINAL, 1]);
      expect(ids[1]).not.toBe(TERMINAL);
      expect(count()).toMatchObject({ bindings: 0 });
      const db = new DatabaseSync(join(home.path, "state.db"), { readOnly: true });
      const told = db
        .prepare("SELECT json_extract(body, '$.code') AS code FROM delivery WHERE kind = 'notice' ORDER BY 1")
        .all();
      db.close();
      expect(told.map(({ code }) => code)).toEqual(["binding_ended", "session_ended_here"]);
      await expect(send(`hermes:${TERMINAL}`)).rejects.toMatchObject({ code: expect.stringMatching(/^session_/) });
      await expect(send(binding!.sessionId)).rejects.toMatchObject({ code: expect.stringMatching(/^session_/) });
      // It is there again: a send goes back to it.
      hermes.hold(TERMINAL, { source: "cli" });
      expect((await send(`hermes:${TERMINAL}`)).binding?.sessionId).toBe(binding!.sessionId);
      expect(await asks("say once more")).toBe("once more");
      expect(hermes.turns.at(-1)?.headers["x-hermes-session-id"]).toBe(TERMINAL);
    },
  );

  test("F-HER-01 H10: while Hermes does not answer a binding stays, and the turn says why it failed", async () => {
    hermes.hold(TERMINAL, { source: "cli" });
    await send(`hermes:${TERMINAL}`);
    await hermes.close();
    expect(await asks("say hi")).toMatch(/^failed: .*Hermes/s);
    expect(count()).toMatchObject({ bindings: 1 });
  });

  test("F-HER-01 H13: its id here is asked for as its id there is", async () => {
    hermes.hold(TERMINAL, { source: "cli" });
    const { binding } = await send(`hermes:${TERMINAL}`);
    hermes.lose(TERMINAL);
    for (const call of [send, set])
      await expect(call(binding!.sessionId)).rejects.toMatchObject({ code: "session_unknown" });
  });
});

// The kind: whatever `default_session` can name: a session there, one that is not, one of ours that is not, another agent's.
describe("F-HER-01 H4 H10 the configured session is asked for", () => {
  const warned: string[] = [];
  async function startsWith(named: string): Promise<void> {
    await gateway.stop();
    warned.length = 0;
    const path = join(home.path, "config.yaml");
    const settings = JSON.parse(readFileSync(path, "utf8")) as { agents: { mohe: object } };
    Object.assign(settings.agents.mohe, { default_session: named });
    writeFileSync(path, JSON.stringify(settings));
    gateway = new Gateway({
      config: loadConfig({ flags: { home: home.path }, env: {} }),
      store: openSqliteStore({ path: join(home.path, "state.db"), clock }),
      clock,
      log: {
        info: () => undefined,
        warn: (_, message) => warned.push(message),
        error: (_, message) => faults.push(message),
      },
    });
    await gateway.start();
  }

  test("F-HER-01 H4 H13: one of Hermes that is there is spoken in, until it is gone", async () => {
    hermes.hold(TERMINAL, { source: "cli" });
    await startsWith(`hermes:${TERMINAL}`);
    expect(warned).toEqual([]);
    expect(await asks("say in it")).toBe("in it");
    expect(hermes.turns.at(-1)?.headers["x-hermes-session-id"]).toBe(TERMINAL);
    hermes.lose(TERMINAL);
    expect(await asks("say on my own")).toBe("on my own");
    expect(hermes.turns.at(-1)?.headers["x-hermes-session-id"]).not.toBe(TERMINAL);
  });

  test.each(["hermes:not-there", "hermes:..", "not-there"])(
    "F-HER-01 H10: %s is said at the start, and stops no bot",
    async (named) => {
      await startsWith(named);
      expect(warned).toEqual([expect.stringContaining("agents.mohe.default_session is not spoken in: ")]);
      expect(await asks("say hi")).toBe("hi");
    },
  );

  test("F-HER-01 H4 H10: another agent's is said as well", async () => {
    await asks("say hi", { agent: "xxm", name: "main" });
    const [session] = await gateway.reader.sessions({ personId: "owner", agent: "xxm", limit: 10 });
    await startsWith(session!.id);
    expect(warned).toEqual([expect.stringContaining("belongs to agent xxm")]);
    expect(await asks("say hi")).toBe("hi");
  });
});
