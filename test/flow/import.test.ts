/** A Hermes user moves in with his history: through a running gateway, and into the file alone. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { HermesHistory } from "../../src/digest/hermes/history.ts";
import { HermesDb } from "../../src/digest/hermes/state-db.ts";
import { type RunningGateway, startGateway } from "../../src/gateway/start.ts";
import { encloseFacts } from "../../src/text/prompt-words.ts";
import { silentLog } from "../../src/util/log.ts";
import { HERMES_SCHEMAS, type HermesSchema, type HermesState, hermesState } from "../support/hermes-state.ts";
import { temporaryFolder } from "../support/store.ts";
import { type Called, tertulia } from "../support/tertulia.ts";

const DAY = 1_764_460_800;
const at = (hours: number, minutes = 0): number => DAY + hours * 3600 + minutes * 60;

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
let state: HermesState;
let gateway: RunningGateway | null;

beforeEach(() => {
  folder = temporaryFolder();
  home = join(folder.path, "home");
  mkdirSync(home, { mode: 0o700 });
  gateway = null;
});
afterEach(async () => {
  await gateway?.stop();
  state.close();
  folder.remove();
});

const path = (): string => join(folder.path, "state.db");

async function start(): Promise<void> {
  gateway = await startGateway({ config: loadConfig({ flags: { home, port: 0 } }), log: silentLog });
}

function call(...argv: string[]): Promise<Called> {
  return tertulia("--home", home, ...argv);
}

interface Done {
  readonly sessions: number;
  readonly messages: number;
  readonly wentOn: readonly string[];
  readonly skipped: { readonly sessions: Record<string, number>; readonly rows: Record<string, number> };
}

async function bringIn(...flags: string[]): Promise<Done> {
  const { code, out, err } = await call("import", "hermes", "--state", path(), "--json", ...flags);
  expect(err).toBe("");
  expect(code).toBe(0);
  return JSON.parse(out) as Done;
}

async function say(words: string): Promise<string> {
  const said = await gateway!.gateway.doors.say({
    person: { id: "owner", role: "owner" },
    agent: "main",
    door: { platform: "console", name: "main" },
    text: words,
  });
  if (said.kind === "command") return JSON.stringify(said.reply);
  return (await gateway!.gateway.turns.answerOf(said.turnId)).text;
}

/** Two talks and what hangs on them. */
function fill(schema: HermesSchema): void {
  state = hermesState(path(), schema);
  const first = state.session({
    id: "20260413_080000_aaaaaaaa",
    source: "telegram",
    user_id: "42",
    started_at: at(8),
    ended_at: at(9),
    end_reason: "compression",
    title: "Holiday",
  });
  state.message(first, "session_meta", "{}", at(8));
  state.message(first, "user", "where shall we go?", at(8, 1));
  state.message(first, "assistant", null, at(8, 2), { tool_calls: "[]" });
  state.message(first, "tool", "flights", at(8, 2));
  state.message(first, "assistant", "To Lisbon.", at(8, 3));
  const second = state.session({
    id: "child/x",
    source: "telegram",
    user_id: "42",
    started_at: at(9),
    parent_session_id: first,
    title: "Holiday #2",
  });
  state.message(second, "user", "and when?", at(9, 1));
  state.message(second, "assistant", "[SILENT]", at(9, 2));
  state.message(second, "user", "[System: ping]", at(9, 2));
  state.message(second, "assistant", "In May.", at(9, 3));
  state.message(state.session({ id: "helper", source: "subagent", started_at: at(9) }), "assistant", "helped", at(9));
  state.message(state.session({ id: "cron_1", source: "cron", started_at: at(9) }), "assistant", "job", at(9));
  state.session({ id: "nothing", source: "cli", started_at: at(7) });
}

describe.each(HERMES_SCHEMAS)("H13: schema %s", (schema) => {
  test("H13: sessions, messages and lineage come over; twice is once; Hermes' file is only read", async () => {
    fill(schema);
    const before = createHash("sha256").update(readFileSync(path())).digest("hex");
    expect(await bringIn("--dry-run")).toMatchObject({ sessions: 2, messages: 4 });
    const done = await bringIn();
    expect(done).toMatchObject({
      sessions: 2,
      messages: 4,
      skipped: {
        sessions: { "a helper's": 1, "a job's": 1, empty: 1 },
        rows: { system: 1, tool: 1, empty: 1, silence: 1, automatic: 1 },
      },
    });
    expect(await bringIn()).toMatchObject({ sessions: 0, messages: 0 });
    expect(createHash("sha256").update(readFileSync(path())).digest("hex")).toBe(before);

    const { sessions } = JSON.parse((await call("sessions", "list", "--json")).out) as {
      sessions: Record<string, unknown>[];
    };
    expect(sessions).toMatchObject([
      {
        homeKey: "agent:main:foreign:hermes:child%2Fx",
        title: "Holiday #2",
        parentId: "hermes_20260413_080000_aaaaaaaa",
        endReason: "imported",
      },
      {
        id: "hermes_20260413_080000_aaaaaaaa",
        homeKey: "agent:main:foreign:hermes:20260413_080000_aaaaaaaa",
        ownerPerson: "owner",
        title: "Holiday",
        entries: 2,
        openedAt: at(8) * 1000,
        endedAt: at(9) * 1000,
        endReason: "compression",
        lastHumanAt: at(8, 1) * 1000,
      },
    ]);
    const shown = await call("sessions", "show", "hermes_20260413_080000_aaaaaaaa");
    expect(shown.out).toContain("where shall we go?");
    expect(shown.out).toContain("To Lisbon.");
  });

  test("H13: what was said since is added, to the session it belongs to", async () => {
    fill(schema);
    await bringIn();
    state.message("child/x", "user", "with whom?", at(10));
    state.message(state.session({ id: "new", source: "cli", started_at: at(11) }), "user", "hello", at(11));
    expect(await bringIn()).toMatchObject({ sessions: 1, messages: 2, wentOn: [] });
    expect(await bringIn()).toMatchObject({ sessions: 0, messages: 0 });
  });

  test("H13: through a running gateway it is the same, and /resume goes on in it", async () => {
    fill(schema);
    await start();
    expect(await bringIn()).toMatchObject({ sessions: 2, messages: 4 });
    expect(await bringIn("--dry-run")).toMatchObject({ sessions: 0, messages: 0 });
    expect(await say("/resume")).toContain("Holiday");
    await say("/resume Holiday");
    // "Holiday" is a whole title, and goes before "Holiday #2".
    expect(await say("echo on we go")).toContain("on we go");
    const { gateway: running } = gateway!;
    const transcript = await running.reader.transcript({ sessionId: "hermes_20260413_080000_aaaaaaaa", limit: 10 });
    expect(transcript.map(({ text }) => text).slice(0, 3)).toEqual([
      "where shall we go?",
      "To Lisbon.",
      "echo on we go",
    ]);
    // It went on here: what Hermes adds now stays there, and that is said.
    state.message("20260413_080000_aaaaaaaa", "user", "meanwhile in Hermes", at(12));
    expect(await bringIn()).toMatchObject({ messages: 0, wentOn: ["20260413_080000_aaaaaaaa"] });
  });
});

test("H13: many rows come over in batches, in their order", async () => {
  state = hermesState(path());
  const s = state.session({ id: "long", source: "cli" });
  state.exec("BEGIN");
  for (let i = 0; i < 1_234; i++) state.message(s, i % 2 ? "assistant" : "user", `line ${i}`, at(8) + i);
  state.exec("COMMIT");
  expect(await bringIn()).toMatchObject({ sessions: 1, messages: 1_234 });
  const db = new DatabaseSync(join(home, "state.db"), { readOnly: true });
  const lines = db.prepare("SELECT m.body FROM entry e JOIN message m ON m.id = e.message_id ORDER BY e.seq").all();
  db.close();
  expect(lines.map(({ body }) => body)).toEqual(Array.from({ length: 1_234 }, (_, i) => `line ${i}`));
});

test("H13: stopped in the middle, the next call brings in the rest, and nothing twice", async () => {
  state = hermesState(path());
  const s = state.session({ id: "long", source: "cli" });
  state.exec("BEGIN");
  for (let i = 0; i < 2_000; i++) state.message(s, i % 2 ? "assistant" : "user", `line ${i}`, at(8) + i);
  state.exec("COMMIT");
  await start();
  const db = new HermesDb(path());
  const [first] = new HermesHistory(db, { now: Date.now(), owners: [], known: [] }).batches();
  db.close();
  const part = await gateway!.gateway.conversations.import({ runtime: "hermes", agent: "main", sessions: first! });
  expect(part).toEqual({ sessions: 1, messages: 500, wentOn: [] });
  expect(await gateway!.gateway.conversations.import({ runtime: "hermes", agent: "main", sessions: first! })).toEqual({
    sessions: 0,
    messages: 0,
    wentOn: [],
  });
  expect(await bringIn()).toMatchObject({ sessions: 0, messages: 1_500 });
  const entries = await gateway!.gateway.reader.transcript({ sessionId: "hermes_long", limit: 5_000 });
  expect(entries.map(({ text }) => text)).toEqual(Array.from({ length: 2_000 }, (_, i) => `line ${i}`));
});

/** What came over, in the order of each transcript. */
function cameOver(): string[] {
  const db = new DatabaseSync(join(home, "state.db"), { readOnly: true });
  try {
    const rows = db.prepare(
      "SELECT e.session_id AS session, m.body FROM entry e JOIN message m ON m.id = e.message_id ORDER BY e.session_id, e.seq",
    );
    return rows.all().map(({ session, body }) => `${session}: ${String(body).slice(0, 20)}`);
  } finally {
    db.close();
  }
}

test("H13: twice is once where Hermes displays rows in another order than that of their numbers", async () => {
  state = hermesState(path());
  const s = state.session({ id: "a", source: "cli" });
  state.message(s, "user", "first", at(8), { display_order: 1 });
  state.message(s, "assistant", "third", at(8, 3), { display_order: 3 });
  state.message(s, "user", "second", at(8, 2), { display_order: 2 });
  expect(await bringIn()).toMatchObject({ messages: 3 });
  expect(await bringIn()).toMatchObject({ messages: 0 });
  expect(cameOver()).toEqual(["hermes_a: first", "hermes_a: second", "hermes_a: third"]);
});

test("H13: what a compaction carried forward since is not added a second time", async () => {
  state = hermesState(path());
  const s = state.session({ id: "a", source: "cli" });
  state.message(s, "user", "q1", at(8));
  state.message(s, "user", "q2", at(8, 2));
  state.message(s, "assistant", "a2", at(8, 3));
  expect(await bringIn()).toMatchObject({ messages: 3 });
  state.exec("UPDATE messages SET active = 0, compacted = 1");
  state.message(s, "user", "[CONTEXT COMPACTION — REFERENCE ONLY] earlier", at(8, 4));
  state.message(s, "user", "q2", at(8, 2));
  state.message(s, "assistant", "a2", at(8, 3));
  state.message(s, "user", "q3", at(8, 5));
  expect(await bringIn()).toMatchObject({ messages: 1, skipped: { rows: { repeated: 2, summary: 1 } } });
  expect(cameOver()).toEqual(["hermes_a: q1", "hermes_a: q2", "hermes_a: a2", "hermes_a: q3"]);
});

test("H13: a session that Hermes wrote anew under other numbers takes nothing twice, and is named for what it is", async () => {
  state = hermesState(path());
  const s = state.session({ id: "a", source: "cli" });
  state.message(s, "user", "q1", at(8));
  state.message(s, "assistant", "a1", at(8, 1));
  await bringIn();
  state.exec("DELETE FROM messages");
  state.message(s, "user", "q1", at(9));
  expect(await bringIn()).toMatchObject({ messages: 0, skipped: { sessions: { "written anew there": 1 } } });
  expect(cameOver()).toEqual(["hermes_a: q1", "hermes_a: a1"]);
});

test("H13: a child whose clock was set back still comes after its parent; a circle of parents ends nothing", async () => {
  state = hermesState(path());
  state.message(
    state.session({ id: "parent", source: "cli", started_at: at(9), ended_at: at(10), end_reason: "compression" }),
    "user",
    "parent",
    at(9),
  );
  for (const [id, parent] of [
    ["child", "parent"],
    ["x", null],
    ["y", "x"],
  ] as const) {
    const mark = JSON.stringify({ _branched_from: parent ?? "y" });
    const row = { id, source: "cli", started_at: at(8), parent_session_id: parent, model_config: mark };
    state.message(state.session(row), "user", id, at(8));
  }
  state.exec("UPDATE sessions SET parent_session_id = 'y' WHERE id = 'x'");
  expect(await bringIn()).toMatchObject({ sessions: 4 });
  const { sessions } = JSON.parse((await call("sessions", "list", "--json")).out) as {
    sessions: { id: string; parentId: string | null }[];
  };
  expect(sessions.find(({ id }) => id === "hermes_child")?.parentId).toBe("hermes_parent");
});

test("H13: a session with a number that is none costs itself, and the others come over", async () => {
  state = hermesState(path());
  state.message(state.session({ id: "a", source: "cli" }), "user", "broken", at(8));
  state.exec("UPDATE messages SET display_order = 9223372036854775807");
  state.message(state.session({ id: "b", source: "cli" }), "user", "whole", at(8));
  expect(await bringIn()).toMatchObject({ sessions: 1, messages: 1, skipped: { sessions: { damaged: 1 } } });
  expect(cameOver()).toEqual(["hermes_b: whole"]);
});

test("H13: messages of many megabytes come over through a gateway, in batches it takes", async () => {
  state = hermesState(path());
  const s = state.session({ id: "long", source: "cli" });
  for (let i = 0; i < 9; i++) state.message(s, "user", `${i} ${"long ".repeat(1_600_000)}`, at(8) + i);
  await start();
  expect(await bringIn()).toMatchObject({ sessions: 1, messages: 9 });
  expect(await bringIn()).toMatchObject({ sessions: 0, messages: 0 });
  expect(cameOver().map((line) => line.slice(0, 14))).toEqual(Array.from({ length: 9 }, (_, i) => `hermes_long: ${i}`));
});

test("H13: a bar is drawn on a terminal, and cleared again; elsewhere there is none", async () => {
  fill("v30");
  const isTTY = Object.getOwnPropertyDescriptor(process.stderr, "isTTY");
  Object.defineProperty(process.stderr, "isTTY", { value: true, configurable: true });
  try {
    const { err } = await call("import", "hermes", "--state", path());
    expect(err).toMatch(/^\r\[#+ *\] \d+ % {2}\d+ of 11 rows, \d+ a second/);
    expect(err.endsWith("\r\u001b[K")).toBe(true);
  } finally {
    if (isTTY === undefined) Reflect.deleteProperty(process.stderr, "isTTY");
    else Object.defineProperty(process.stderr, "isTTY", isTTY);
  }
  expect((await call("import", "hermes", "--state", path())).err).toBe("");
});

test("A4: over HTTP only the owner brings anything in", async () => {
  fill("v30");
  const token = await tokenOf("bob");
  for (const init of [{}, { method: "POST", body: JSON.stringify({ agent: "main", sessions: [] }) }]) {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    expect((await fetch(`${gateway!.url}/api/foreign/hermes`, { ...init, headers })).status).toBe(403);
  }
});

test("E2: over HTTP what is no session of another program is refused, and nothing of it comes in", async () => {
  state = hermesState(path());
  await start();
  const session = { ...SENT, messages: [{ id: 1, role: "user", text: "hi", at: at(8) * 1000 }] };
  const answers = [];
  for (const [runtime, sent] of [
    ["hermes", { ...session, freshId: "../../etc/passwd" }],
    ["hermes", { ...session, openedAt: 9_000_000_000_000_000 }],
    ["He%20r%2F..", session],
    ["hermes", session],
  ] as const) {
    const { status } = await fetch(`${gateway!.url}/api/foreign/${runtime}`, {
      method: "POST",
      body: JSON.stringify({ agent: "main", sessions: [sent] }),
      headers: { authorization: `Bearer ${gateway!.ownerToken}`, "content-type": "application/json" },
    });
    answers.push(status);
  }
  expect(answers).toEqual([400, 400, 400, 200]);
  expect(cameOver()).toEqual(["hermes_a: hi"]);
});

const SENT = {
  id: "a",
  freshId: "hermes_a",
  parentId: null,
  ownerPerson: "owner",
  platform: "cli",
  title: null,
  openedAt: 1,
  endedAt: 2,
  endReason: "imported",
};

/** A gateway that knows this person, and the token he sends. */
async function tokenOf(person: string): Promise<string> {
  const token = "0123456789abcdef";
  writeFileSync(join(home, "config.yaml"), `people: { ${person}: { tokens: [${token}] } }\n`);
  await start();
  return token;
}

test("H13, D9: what a group said, and other people's direct chats, are nobody's in particular", async () => {
  state = hermesState(path());
  state.message(
    state.session({ id: "g", source: "discord", chat_type: "group", user_id: "7" }),
    "user",
    "among others",
    at(8),
  );
  state.message(state.session({ id: "a", chat_type: "dm", user_id: "1" }), "user", "Alice", at(8));
  state.message(state.session({ id: "b", chat_type: "dm", user_id: "2" }), "user", "Bob", at(8));
  expect(await bringIn("--owner", "telegram:1")).toMatchObject({ sessions: 3 });
  await start();
  const sessions = await gateway!.gateway.reader.sessions({ limit: 10 });
  expect(Object.fromEntries(sessions.map(({ id, ownerPerson }) => [id, ownerPerson]))).toEqual({
    hermes_g: null,
    hermes_a: "owner",
    hermes_b: null,
  });
  // Nobody reads along where they were: they are no reason to refuse a digest here.
  expect(await gateway!.gateway.reader.sessionsOfOthers("owner")).toEqual({ groups: 0, direct: 0 });
  // /resume lists the caller's own.
  const listed = await say("/resume");
  expect(listed).toContain("Alice");
  expect(listed).not.toContain("Bob");
});

test("D9: what was brought in is no part of our own digest: its other writer keeps one", async () => {
  fill("v30");
  await bringIn();
  await start();
  expect(await gateway!.gateway.digest.read()).toEqual({ sections: [], notes: [] });
});

test("D2, H13: what was brought in and went on here is told, under the door where it went on", async () => {
  fill("v30");
  await bringIn();
  await start();
  await say("/resume Holiday");
  await say("echo on we go");
  const { sections } = await gateway!.gateway.digest.read();
  expect(
    sections.map(({ platform, sessionId, pairs }) => [platform, sessionId, pairs.map(({ user }) => user)]),
  ).toEqual([["terminal", "hermes_20260413_080000_aaaaaaaa", ["echo on we go"]]]);
});

test("E3: what cannot be brought in is said", async () => {
  state = hermesState(path());
  expect(await call("import", "hermes", "--state", join(folder.path, "none.db"))).toMatchObject({
    code: 3,
    err: expect.stringContaining("foreign_state"),
  });
  expect(await call("import", "hermes", "--state", path(), "--agent", "nobody")).toMatchObject({
    code: 1,
    err: expect.stringContaining("agent_unknown"),
  });
  expect(await call("import", "hermes")).toMatchObject({ code: 2 });
  expect(await call("import", "hermes", "--state", path(), "--owner", "alice")).toMatchObject({
    code: 2,
    err: expect.stringContaining("telegram:42"),
  });
});

test("H13: the report says what was left out, and why", async () => {
  fill("v30");
  const { out } = await call("import", "hermes", "--state", path());
  expect(out).toMatch(/^2 sessions and 4 messages brought in; 9 rows read in [\d.]+ s/);
  expect(out).toMatch(/1 {2}session {2}a helper's/);
  expect(out).toMatch(/1 {2}row {6}silence/);
});

/** A prompt as Hermes keeps it of a turn that we ran. */
function prompt(words: string, { source = "CLI terminal", rights = "owner" } = {}): string {
  const nonce = "0123456789abcdef0123456789abcdef";
  return `${encloseFacts([`Source: ${source}`, `From: "Ann", id "a"; rights: ${rights}`], nonce)}\n\n${words}`;
}

// The kind: sessions that this gateway, or another, ran in that Hermes, wholly or for a while.
describe("F-HER-03 H13 what we ran in Hermes ourselves is not brought in again", () => {
  beforeEach(() => {
    state = hermesState(path(), "v30");
  });

  test("F-HER-03 a session that began with a prompt of ours is left out, and that is counted", async () => {
    for (const n of [1, 2, 3]) {
      const ours = state.session({ id: `ours${n}`, source: "api_server", started_at: at(n) });
      state.message(ours, "user", prompt(`words ${n}`), at(n));
      state.message(ours, "assistant", "answer", at(n, 1));
    }
    const theirs = state.session({ id: "theirs", source: "cli", started_at: at(9) });
    state.message(theirs, "user", "my own words", at(9));
    const done = await bringIn();
    expect(done).toMatchObject({ sessions: 1, messages: 1, skipped: { sessions: { "run here": 3 } } });
  });

  test("F-HER-03 what it goes on as behind a compaction is left out as well, and so is what a runtime of ours calls its own", async () => {
    const part = (id: string, more: Record<string, string | number>): string =>
      state.session({ id, source: "api_server", started_at: at(8), ...more });
    state.message(part("one", { ended_at: at(9), end_reason: "compression" }), "user", prompt("hello"), at(8));
    const two = part("two", {
      parent_session_id: "one",
      started_at: at(9),
      ended_at: at(10),
      end_reason: "compression",
    });
    state.message(two, "user", "[CONTEXT SUMMARY]: they talked", at(9));
    state.message(two, "user", "joined later", at(9, 1));
    state.message(part("three", { parent_session_id: "two", started_at: at(10) }), "user", "later still", at(10));
    for (const id of ["plain", "in-record", "theirs"])
      state.message(state.session({ id, source: "cli" }), "user", id, at(8));
    await start();
    await say("say hi");
    await gateway!.stop();
    const db = new DatabaseSync(join(home, "state.db"));
    const refs = "UPDATE runtime_state SET ref = ? WHERE runtime = ?";
    db.exec("INSERT INTO runtime_state(session_id, runtime) SELECT session_id, 'acp' FROM runtime_state");
    db.prepare(refs).run('{"id":"in-record"}', "acp");
    db.prepare("UPDATE runtime_state SET ref = 'plain' WHERE runtime <> 'acp'").run();
    db.close();
    await start();
    expect(await bringIn()).toMatchObject({
      sessions: 1,
      skipped: { sessions: { "run here": 3 } },
      wentOn: expect.arrayContaining(["plain", "in-record"]),
    });
    expect(cameOver().filter((line) => line.startsWith("hermes_"))).toEqual(["hermes_theirs: theirs"]);
  });

  test("F-HER-03 a session of Hermes' own that others spoke in for a while stays a place of several people", async () => {
    const id = state.session({ id: "s", source: "cli", started_at: at(8), title: null });
    state.message(id, "user", "my own words", at(8));
    state.message(id, "assistant", "yes", at(8, 1));
    state.message(id, "user", prompt("[Bob] hi", { source: 'XMPP (group: "core")', rights: "guest" }), at(9));
    state.message(id, "assistant", "hello Bob", at(9, 1));
    await start();
    await bringIn();
    const session = await gateway!.gateway.reader.session("hermes_s");
    expect(session?.ownerPerson).toBeNull();
    const said = await gateway!.gateway.reader.transcript({ sessionId: "hermes_s", limit: 10 });
    expect(said.map(({ author, text }) => [author?.id, text])).toEqual([
      ["owner", "my own words"],
      ["main", "yes"],
      ["unknown", "[Bob] hi"],
      ["main", "hello Bob"],
    ]);
  });

  test("F-HER-03 a session that was handed to us is not brought in beside itself", async () => {
    state.message(state.session({ id: "s", source: "cli", started_at: at(8) }), "user", "my own words", at(8));
    await start();
    await gateway!.stop();
    const db = new DatabaseSync(join(home, "state.db"));
    db.exec(
      "INSERT INTO place(platform, scope, chat_id, thread_id, chat_type) VALUES('console', 'main', 'hermes:s', '', 'dm')",
    );
    db.exec(
      "INSERT INTO conversation(key, agent, person_id, place_id, target, at) SELECT 'agent:main:foreign:hermes:s', 'main', 'owner', max(id), '{}', 0 FROM place",
    );
    db.close();
    await start();
    expect(await bringIn()).toMatchObject({ sessions: 0, messages: 0, wentOn: ["s"] });
    expect(cameOver()).toEqual([]);
  });
});

test.each([[], ["--dry-run"]])("F-STO-01 E5 nothing is brought into a state that was lost %j", async (...flags) => {
  fill(HERMES_SCHEMAS[0]!);
  await bringIn();
  rmSync(join(home, "state.db"));
  const refused = await call("import", "hermes", "--state", path(), ...flags);
  expect(refused).toMatchObject({ code: 3, err: expect.stringMatching(/^store_corrupt: /) });
  expect(existsSync(join(home, "state.db"))).toBe(false);
});
