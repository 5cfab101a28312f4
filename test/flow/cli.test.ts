/** The commands besides `start` and `chat`: called as `run(argv)` against a real gateway on a free port, and against the file alone. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { letIn } from "../../src/cli/access-summary.ts";
import { forwardersOf } from "../../src/cli/forwarders.ts";
import { loadConfig } from "../../src/config/config.ts";
import { type RunningGateway, startGateway } from "../../src/gateway/start.ts";
import { trustedUid } from "../../src/http/peer.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/util/clock.ts";
import { silentLog } from "../../src/util/log.ts";
import { temporaryFolder } from "../support/store.ts";
import { type Called, tertulia as call } from "../support/tertulia.ts";

const KITCHEN = "agent:main:web:dm:owner%2Fkitchen";
const ROOMS = `rooms:\n  kitchen:\n    conversation: "${KITCHEN}"\n`;

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
let gateway: RunningGateway | null = null;

beforeEach(() => {
  folder = temporaryFolder();
  home = join(folder.path, "home");
  mkdirSync(home, { mode: 0o700 });
});

afterEach(async () => {
  await stop();
  folder.remove();
});

async function start(): Promise<RunningGateway> {
  gateway = await startGateway({ config: loadConfig({ flags: { home, port: 0 } }), log: silentLog });
  return gateway;
}

async function stop(): Promise<void> {
  await gateway?.stop();
  gateway = null;
}

/** Alice of the terminal says something and waits for the answer; returns the session. */
async function say(words: string): Promise<string> {
  const said = await gateway!.gateway.doors.say({
    person: { id: "owner", role: "owner" },
    agent: "main",
    door: { platform: "console", name: "main" },
    text: words,
  });
  if (said.kind !== "turn") throw new Error("a command was said");
  await gateway!.gateway.turns.answerOf(said.turnId);
  return said.sessionId;
}

/** Each call as from a shell, in this home. */
function tertulia(...argv: string[]): Promise<Called> {
  return call("--home", home, ...argv);
}

async function json(...argv: string[]) {
  const { code, out } = await tertulia(...argv, "--json");
  expect(code).toBe(0);
  return JSON.parse(out);
}

function file(name: string, content: string | object): string {
  const path = join(home, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

describe("send", () => {
  test("H1 the words are said once in the room, and the room goes on in the session", async () => {
    file("config.yaml", ROOMS);
    await start();
    const session = await say("hello");
    const sent = await tertulia("send", "kitchen", "Dinner is ready.", "--session", session);
    expect(sent).toMatchObject({ code: 0, err: "" });
    expect(sent.out).toContain("Said in kitchen");
    expect(sent.out).toContain(`The room speaks in session ${session} until `);
    const shown = await tertulia("sessions", "show", session);
    expect(shown.out).toMatch(/#3 main .* web {2}\[sent\]\n {2}Dinner is ready\./);
  });

  test("H1 H4 without a room it is the agent's home_room, to send, to bind and to clear", async () => {
    file("config.yaml", `${ROOMS}agents: { main: { runtime: { kind: demo }, home_room: kitchen } }\n`);
    await start();
    const session = await say("hello");
    expect((await tertulia("send", "Dinner is ready.", "--session", session)).out).toContain("Said in kitchen");
    expect((await tertulia("handoff", "set", "--session", session, "--pin")).out).toContain(
      "kitchen speaks in session",
    );
    expect((await tertulia("handoff", "clear")).out).toContain("kitchen speaks in its own session again");
  });

  test("H13 a session of Hermes is named by Hermes' own variable, for an agent that runs on it", async () => {
    file("config.yaml", ROOMS);
    await start();
    await say("hello");
    const before = process.env.HERMES_SESSION_ID;
    process.env.HERMES_SESSION_ID = "20260619_190821_7c0afe";
    try {
      const refused = await tertulia("send", "kitchen", "Dinner is ready.");
      expect(refused).toMatchObject({ code: 1, out: "" });
      expect(refused.err).toContain(
        "Agent main runs on demo, not on hermes: it has no session 20260619_190821_7c0afe.",
      );
    } finally {
      if (before === undefined) delete process.env.HERMES_SESSION_ID;
      else process.env.HERMES_SESSION_ID = before;
    }
  });

  test("H5 without a session it is refused with a hint, and nothing is said", async () => {
    file("config.yaml", ROOMS);
    await start();
    const refused = await tertulia("send", "kitchen", "Dinner is ready.");
    expect(refused).toMatchObject({ code: 2, out: "" });
    expect(refused.err).toMatch(/^session_required: .*\n.*--session ID.*TERTULIA_SESSION_ID.*--no-session/);
    expect((await tertulia("send", "kitchen", "x", "--session", " ")).err).toMatch(/^session_required/);
    expect(await gateway!.gateway.reader.conversation(KITCHEN)).toBeNull();
  });

  test("H5 with --no-session nothing is bound", async () => {
    file("config.yaml", ROOMS);
    await start();
    expect((await tertulia("send", "kitchen", "Dinner.", "--no-session")).out).toContain("Nothing is bound.");
    expect((await json("handoff", "show")).bindings).toEqual([]);
  });

  test("H5 TERTULIA_SESSION_ID is the session where none is named", async () => {
    file("config.yaml", ROOMS);
    await start();
    const session = await say("hello");
    file(".env", `TERTULIA_SESSION_ID=${session}\n`);
    expect((await json("send", "kitchen", "Dinner.")).binding).toMatchObject({ kind: "live", sessionId: session });
    expect((await json("send", "kitchen", "Dinner.", "--no-session")).binding).toBeNull();
  });

  test("H1 the room may be left out while only one is configured", async () => {
    file("config.yaml", ROOMS);
    await start();
    expect((await json("send", "Dinner.", "--no-session")).key).toBe(KITCHEN);
    file("config.yaml", `${ROOMS}  hall:\n    conversation: "agent:main:web:dm:owner%2Fhall"\n`);
    const refused = await tertulia("send", "Dinner.", "--no-session");
    expect(refused).toMatchObject({ code: 2, out: "" });
    expect(refused.err).toContain("usage: The room is missing: the configuration names kitchen, hall.");
  });

  test("H4 another agent than the room's is refused", async () => {
    file("config.yaml", ROOMS);
    await start();
    const refused = await tertulia("send", "kitchen", "x", "--no-session", "--agent", "nova");
    expect(refused.code).toBe(1);
    expect(refused.err).toMatch(/^agent_mismatch: /);
  });
});

describe("handoff", () => {
  test("H4 a room is pinned to a session, listed and cleared", async () => {
    file("config.yaml", ROOMS);
    await start();
    const session = await say("hello");
    expect((await tertulia("handoff", "show")).out).toContain("No room is bound");
    const set = await tertulia("handoff", "set", "kitchen", "--session", session, "--pin");
    expect(set.out).toBe(`kitchen speaks in session ${session}, until cleared.\n`);
    expect((await tertulia("handoff", "show")).out).toMatch(new RegExp(`kitchen +pinned +${session} +until cleared`));
    expect((await tertulia("handoff", "clear", "kitchen")).out).toContain("speaks in its own session again");
    expect(await tertulia("handoff", "clear", "kitchen")).toMatchObject({
      code: 0,
      out: expect.stringContaining("was not bound"),
    });
  });

  test("H2 without --pin it holds for handoff.ttl", async () => {
    file("config.yaml", `${ROOMS}handoff: { ttl: 5m }\n`);
    await start();
    const session = await say("hello");
    const { binding } = await json("handoff", "set", "kitchen", "--session", session);
    expect(binding.expiresAt - binding.sentAt).toBe(300_000);
    expect((await tertulia("handoff", "show")).out).toMatch(/until .* \(5 min\)/);
  });

  test("H7 H10 a session that is not there is refused", async () => {
    file("config.yaml", ROOMS);
    await start();
    const refused = await tertulia("handoff", "set", "kitchen", "--session", "nope");
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^session_unknown: .*nope.*\n.*sessions list/),
    });
  });
});

describe("sessions", () => {
  test("E4 with a gateway the list and the transcript come through it, without one from the file", async () => {
    await start();
    const session = await say("hello");
    const up = await tertulia("sessions", "list");
    expect(up.out).toMatch(new RegExp(`${session} +terminal main +main +2 +\\S+ \\S+ +warm`));
    const shownUp = await tertulia("sessions", "show", session);
    await stop();
    const down = await tertulia("sessions", "list");
    expect(down.out).toBe(up.out.replace("warm", "cold"));
    expect(await tertulia("sessions", "show", session)).toEqual(shownUp);
    expect(shownUp.out).toMatch(/#1 owner {2}\S+ \S+ {2}terminal\n {2}hello\n\n#2 main /);
  });

  test("T9 marks stand beside what they mark", async () => {
    await start();
    const session = await say("fail");
    const { messages } = await json("sessions", "show", session);
    const { mark } = messages.at(-1);
    expect(mark).toBe("failed");
    expect((await tertulia("sessions", "show", session)).out).toContain("[failed]");
  });

  test("E4 --limit shows the last entries and says how to see them all", async () => {
    await start();
    const session = await say("one");
    await say("two");
    const shown = await tertulia("sessions", "show", session, "--limit", "2");
    expect(shown.out).toContain("4, the last 2 shown (--limit 4 shows all)");
    expect(shown.out).not.toContain("#2 ");
    expect((await json("sessions", "list", "--limit", "1")).sessions).toHaveLength(1);
  });

  test("E4 words of others cannot forge a line or move the cursor", async () => {
    await start();
    const session = await say("hi\n#9 main\n\u001b[2Jgone");
    const { out } = await tertulia("sessions", "show", session);
    expect(out).not.toContain("\u001b");
    expect(out).toContain("\n  #9 main\n");
  });

  test("E3 a session that is not there, in the file, in the gateway and before there is either", async () => {
    const refused = { code: 1, out: "", err: expect.stringMatching(/^session_unknown: There is no session nope\.\n/) };
    expect(await tertulia("sessions", "show", "nope")).toMatchObject(refused);
    await start();
    expect(await tertulia("sessions", "show", "nope")).toMatchObject(refused);
    await stop();
    expect(await tertulia("sessions", "show", "nope")).toMatchObject(refused);
    expect((await tertulia("sessions", "list")).out).toContain("nobody has said anything");
  });
});

describe("explain", () => {
  const GROUP = {
    platform: "telegram",
    chat_id: "-100",
    chat_type: "group",
    user_id: "42",
    chat_name: "Fa\u001b[31mmily",
  };

  test("K18 key, rule, reset policy, binding, audience, and where each setting comes from", async () => {
    file(
      "config.yaml",
      "reset:\n  platforms:\n    telegram: { mode: daily, at_hour: 4, timezone: Asia/Shanghai }\nturn: { debounce_ms: 100 }\n",
    );
    const explained = await json("explain", "--source", file("source.json", GROUP));
    expect(explained).toMatchObject({
      agent: "main",
      key: "agent:main:telegram:group:-100:user:42",
      rule: "K6",
      conversation: null,
      speaksIn: { by: "own", sessionId: null },
      audience: { place: "telegram group -100" },
      settings: {
        reset: { value: { mode: "daily" }, from: "reset.platforms.telegram", origin: "file" },
        debounce_ms: { value: 100, from: "turn.debounce_ms", origin: "file" },
        busy_mode: { value: "collect", from: "turn.busy_mode", origin: "default" },
      },
    });
    const { out } = await tertulia("explain", "--source", join(home, "source.json"));
    expect(out).toMatch(/rule +K6: in a group or channel everybody has a conversation of their own\n/);
    expect(out).toMatch(/reset +reset\.platforms\.telegram \(file\) +daily: ends daily at 4:00 Asia\/Shanghai\n/);
    expect(out).not.toContain("\u001b");
  });

  test("K18 K12 --person explains what a linked person would get", async () => {
    file("config.yaml", "session: { dm_scope: person }\n");
    const source = file("source.json", { platform: "telegram", chat_id: "99", user_id: "42" });
    expect(await json("explain", "--source", source, "--person", "alice")).toMatchObject({
      key: "agent:main:person:alice",
      rule: "K12",
      audience: { person: "alice" },
    });
    expect((await json("explain", "--source", source)).rule).toBe("K1");
  });

  test("K18 E4 binding and conversation come from the gateway, and from the file without one", async () => {
    file("config.yaml", ROOMS);
    const source = file("source.json", { platform: "web", chat_id: "owner/kitchen" });
    await start();
    const session = await say("hello");
    await tertulia("send", "kitchen", "Dinner.", "--session", session);
    const up = await json("explain", "--source", source);
    expect(up).toMatchObject({
      key: KITCHEN,
      rule: "K19",
      audience: { person: "owner" },
      speaksIn: { by: "live", sessionId: session },
    });
    await stop();
    expect(await json("explain", "--source", source)).toEqual(up);
  });

  test("K18 R1 what /autoreset has set in the chat is the highest layer", async () => {
    const source = file("source.json", { platform: "web", chat_id: "owner/kitchen" });
    const { gateway: running } = await start();
    const door = { platform: "web" as const, name: "kitchen" };
    await running.doors.say({
      person: { id: "owner", role: "owner" },
      agent: "main",
      door,
      text: "/autoreset idle 2h",
    });
    const up = await json("explain", "--source", source);
    expect(up.settings.reset).toMatchObject({ value: { mode: "idle", idleMinutes: 120 }, from: "/autoreset" });
    expect((await tertulia("explain", "--source", source)).out).toMatch(/reset +\/autoreset +idle: ends after 2 h/);
    await stop();
    expect(await json("explain", "--source", source)).toEqual(up);
  });

  test("K18 H4 the configured session is the lowest layer", async () => {
    file("config.yaml", "agents: { main: { runtime: { kind: demo }, default_session: s-1 } }\n");
    const explained = await json("explain", "--source", file("source.json", GROUP));
    expect(explained.speaksIn).toEqual({ by: "default", sessionId: "s-1" });
    expect(explained.settings.default_session.from).toBe("agents.main.default_session");
  });

  test.each([
    ["nowhere.json", null, 2, "usage", /cannot be read \(ENOENT\)/],
    ["source.json", "{", 1, "source_invalid", /is not JSON/],
    ["source.json", [], 1, "source_invalid", /must be a JSON object/],
    ["source.json", { platform: "irc" }, 1, "source_invalid", /platform "irc" is none of/],
    ["source.json", { platform: "telegram" }, 1, "source_invalid", /chat_id is missing/],
  ])("K18 E3 what is no source is refused by its field: %s %j", async (name, content, code, error, sentence) => {
    if (content !== null) file(name, content);
    const refused = await tertulia("explain", "--source", join(home, name));
    expect(refused).toMatchObject({ code, out: "", err: expect.stringMatching(sentence) });
    expect(refused.err).toMatch(new RegExp(`^${error}: .*\\n.*"platform":"telegram"`));
  });

  test("K18 an agent that is not there is refused", async () => {
    const refused = await tertulia("explain", "--source", file("source.json", GROUP), "--agent", "nova");
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/^agent_unknown: /) });
  });
});

describe("config check", () => {
  test("E2 every problem is said, with its place", async () => {
    file("config.yaml", "turn:\n  busy_mode: colect\nfoo: 1\n");
    const { code, err, out } = await tertulia("config", "check");
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(/^config_invalid: The configuration has 2 problems\.\n/);
    expect(err).toMatch(/config\.yaml:2: turn\.busy_mode: "colect" is not allowed/);
    expect(err).toMatch(/config\.yaml:3: foo: unknown key/);
    expect(err).toMatch(/docs\/configuration\.md/);
  });

  test("E1 E2 what holds, and where each value comes from", async () => {
    file(
      "config.yaml",
      `${ROOMS}turn: { turn_timeout: 90m }\nagents: { main: { runtime: { kind: demo }, display_name: Ana } }\n`,
    );
    const { values } = await json("config", "check");
    expect(values).toMatchObject({
      "turn.turn_timeout": { value: "90m", from: "file" },
      "turn.turn_idle_timeout": { value: "10m", from: "default" },
      "agents.main.display_name": { value: "Ana", from: "file" },
      "rooms.kitchen.conversation": { value: KITCHEN, from: "file" },
      "http.port": { value: 8378, from: "default" },
    });
    const { out } = await tertulia("config", "check");
    expect(out).toMatch(/turn\.turn_timeout +file +90m\n/);
  });

  test("E2 no secret is shown", async () => {
    const secret = "a-secret-of-sixteen-and-more";
    file(".env", `TERTULIA_TOKEN=${secret}\nALICE=${secret}\n`);
    file("config.yaml", 'people:\n  alice: { tokens: ["$' + '{ALICE}"] }\n');
    const shown = [await tertulia("config", "check"), await tertulia("config", "check", "--json")];
    expect(shown.map(({ code }) => code)).toEqual([0, 0]);
    expect(JSON.stringify(shown)).not.toContain(secret);
    expect(shown[0]?.out).toMatch(/people\.alice\.tokens +file +1, not shown/);
  });

  test("E2 nor is one in a model's key, its headers or the query of its address", async () => {
    const headers = { Authorization: "hush" };
    const runtime = { kind: "http", model: "m", key: "hush", base_url: "https://host:8443/v1?k=hush", headers };
    file("config.yaml", JSON.stringify({ agents: { main: { runtime } } }));
    const shown = [await tertulia("config", "check"), await tertulia("config", "check", "--json")];
    expect(shown.map(({ code }) => code)).toEqual([0, 0]);
    expect(JSON.stringify(shown)).not.toContain("hush");
    expect(JSON.parse(shown[1]?.out ?? "").values).toMatchObject({
      "agents.main.runtime.base_url": { value: "https://host:8443/v1?…", from: "file" },
      "agents.main.runtime.key": { value: "not shown" },
      "agents.main.runtime.headers.Authorization": { value: "not shown" },
    });
  });
});

describe("E4 the file alone", () => {
  test.each([
    ["send", "kitchen", "x", "--no-session"],
    ["handoff", "set", "kitchen", "--session", "s-1"],
    ["handoff", "clear", "kitchen"],
  ])("E4 writing without a gateway is refused with the remedy: %s %s", async (...argv) => {
    file("config.yaml", ROOMS);
    const refused = await tertulia(...argv);
    expect(refused).toMatchObject({
      code: 3,
      out: "",
      err: expect.stringMatching(/^gateway_down: .*\n.*tertulia start/),
    });
    expect(JSON.parse((await tertulia(...argv, "--json")).out).error.code).toBe("gateway_down");
  });

  test.each([
    [99, "store_newer"],
    [0, "store_older"],
  ])("E4 a file of schema %i is refused and left as it is", async (version, code) => {
    await start();
    await stop();
    const path = join(home, "state.db");
    inFile(path, (db) => db.exec(`PRAGMA user_version = ${version}`));
    const source = file("source.json", { platform: "console", chat_id: "owner/main" });
    for (const argv of [
      ["sessions", "list"],
      ["sessions", "show", "x"],
      ["handoff", "show"],
      ["explain", "--source", source],
    ]) {
      const refused = await tertulia(...argv);
      expect(refused).toMatchObject({ code: 3, out: "", err: expect.stringMatching(`^${code}: `) });
    }
    expect(inFile(path, (db) => db.prepare("PRAGMA user_version").get())).toEqual({ user_version: version });
  });

  test("E4 reading makes no state where there is none", async () => {
    expect((await tertulia("sessions", "list")).out).toContain("There is no state");
    expect((await tertulia("handoff", "show")).out).toContain("No room is bound");
    expect((await tertulia("doctor")).out).toMatch(/ok +schema +no state yet/);
  });

  function inFile<T>(path: string, look: (db: DatabaseSync) => T): T {
    const db = new DatabaseSync(path);
    try {
      return look(db);
    } finally {
      db.close();
    }
  }
});

describe("doctor", () => {
  interface Finding {
    readonly check: string;
    readonly state: string;
    readonly text: string;
    readonly remedy?: string;
  }

  async function findings(): Promise<{ code: number; of: (check: string) => Finding | undefined }> {
    const { code, out } = await tertulia("doctor", "--json");
    const all = (JSON.parse(out) as { findings: Finding[] }).findings;
    return { code, of: (check) => all.find((finding) => finding.check === check) };
  }

  test("E4 a sound home is ok, with a gateway and without one", async () => {
    await start();
    await say("hello");
    const up = await findings();
    expect(up.code).toBe(0);
    expect(up.of("lock")?.text).toContain(`held by process ${process.pid}, which listens at ${gateway!.url}`);
    expect(up.of("gateway")).toMatchObject({ state: "ok", text: expect.stringContaining("1 warm agent") });
    expect(up.of("agent main")).toMatchObject({ state: "ok", text: expect.stringContaining("runtime demo") });
    await stop();
    const { code, out } = await tertulia("doctor");
    expect(code).toBe(0);
    expect(
      out
        .trimEnd()
        .split("\n")
        .every((line) => line.startsWith("ok ")),
    ).toBe(true);
    expect(out).toMatch(/lock +free: no gateway runs/);
    expect(out).toMatch(/schema +version \d+, the one this Tertulia reads/);
    expect(out).toMatch(/content +SQLite finds no damage/);
  });

  test("F-DIG-02 D7: an AGENTS.md beyond what its reader shows, without a block, or with a damaged one is said; a shorter one is ok", async () => {
    const files = join(folder.path, "files");
    file("config.yaml", `${ROOMS}digest: { home: ${files} }\n`);
    const block = "<!-- CROSS-PLATFORM:BEGIN -->\nx\n<!-- CROSS-PLATFORM:END -->\n";
    const of = async (agents: string | null): Promise<Finding | undefined> => {
      if (agents !== null) writeFileSync(join(files, "AGENTS.md"), agents);
      return (await findings()).of("digest");
    };
    expect(await of(null)).toMatchObject({ state: "fail", text: `There is no folder ${files}.` });
    mkdirSync(files);
    expect(await of(null)).toMatchObject({ state: "warn", remedy: expect.stringContaining("digest install") });
    expect(await of("by hand\n")).toMatchObject({ state: "warn", text: expect.stringContaining("no AGENTS.md with") });
    expect(await of(block)).toMatchObject({ state: "ok" });
    expect(await of(block + "字".repeat(20_000 - block.length))).toMatchObject({ state: "ok" });
    expect(await of(block + "字".repeat(20_001 - block.length))).toMatchObject({
      state: "warn",
      text: expect.stringContaining("more than 20,000 characters"),
    });
    expect(await of(block.replace("END", "BEGIN"))).toMatchObject({
      state: "fail",
      text: expect.stringContaining("is damaged"),
    });
  });

  test("F-ACP-04 E4 folders of sessions are counted, and those of sessions that are gone are named, however many", async () => {
    await start();
    const session = await say("hello");
    expect((await findings()).of("workspace")).toBeUndefined();
    const folder = (name: string): string => join(home, "workspace", name);
    mkdirSync(folder(session), { recursive: true });
    mkdirSync(folder(".agents"));
    expect((await findings()).of("workspace")).toMatchObject({ state: "ok", text: "1 folder of sessions" });
    for (const n of [1, 2, 3, 4]) mkdirSync(folder(`gone-${n}`));
    for (const isUp of [true, false]) {
      if (!isUp) await stop();
      const { of, code } = await findings();
      expect(code).toBe(0);
      expect(of("workspace")).toMatchObject({
        state: "warn",
        text: "5 folders of sessions; 4 of sessions that are gone.",
      });
      expect(of("workspace")?.remedy).toContain(folder("gone-"));
      expect(of("workspace")?.remedy).not.toContain(session);
    }
  });

  test("E4 rights that let others in are a warning with the command that mends them", async () => {
    await start();
    await stop();
    chmodSync(home, 0o755);
    chmodSync(join(home, "token"), 0o644);
    const { code, of } = await findings();
    expect(code).toBe(0);
    expect(of("state folder")).toMatchObject({ state: "warn", remedy: `Run chmod 0700 ${home}` });
    expect(of("files")).toMatchObject({ state: "warn", remedy: `Run chmod 0600 ${join(home, "token")}` });
  });

  test("E4 a damaged file makes the state unusable", async () => {
    file("state.db", "this is no database".repeat(500));
    const { code, of } = await findings();
    expect(code).toBe(3);
    expect(of("schema")).toMatchObject({ state: "unusable", text: expect.stringContaining("damaged") });
  });

  test("E2 a wrong configuration is a failed check", async () => {
    file("config.yaml", "foo: 1\n");
    const { code, of } = await findings();
    expect(code).toBe(1);
    expect(of("configuration")).toMatchObject({ state: "fail", remedy: expect.stringContaining("config check") });
    expect((await tertulia("doctor")).out).toMatch(/fail +configuration +.*foo: unknown key/);
  });

  test("A1 a door open to other machines is said", async () => {
    file("config.yaml", "http: { host: 0.0.0.0 }\n");
    expect((await findings()).of("access")).toMatchObject({ state: "warn", text: expect.stringContaining("0.0.0.0") });
  });

  const ROOM_ACCOUNT =
    "accounts: [{ platform: xmpp, jid: mohe@x.test, password: secret, rooms: [core@rooms.x.test], service: 'xmpp://127.0.0.1:1' }]";
  const warnings = async () => {
    const { out } = await tertulia("doctor", "--json");
    return (JSON.parse(out) as { findings: Finding[] }).findings.filter(({ state }) => state === "warn");
  };

  test.each([
    ["acp in a room", `{ runtime: { kind: acp, preset: demo }, ${ROOM_ACCOUNT} }`, "", /^mohe runs on acp.*core@rooms/],
    [
      "hermes by open access",
      "{ runtime: { kind: hermes, key: a-key }, accounts: [{ platform: xmpp, jid: mohe@x.test, password: secret }] }",
      "access: { xmpp: { open: true } }\n",
      /^mohe runs on hermes.*whoever writes to it/,
    ],
  ])("A6 an agent with a shell that others reach is said: %s", async (_, agent, more, words) => {
    file(
      "config.yaml",
      `agents: { mohe: ${agent} }\n${more}people: { bob: { accounts: [{ platform: xmpp, id: bob@x.test }] } }\n`,
    );
    const found = (await warnings()).filter(({ check }) => check === "shell");
    expect(found).toEqual([
      {
        check: "shell",
        state: "warn",
        text: expect.stringMatching(words),
        remedy: expect.stringContaining("docs/access.md"),
      },
    ]);
  });

  test("A6 without a shell, or where only people of the configuration write to it, there is nothing to say", async () => {
    const people = "people: { bob: { accounts: [{ platform: xmpp, id: bob@x.test }] } }\n";
    const direct = "accounts: [{ platform: xmpp, jid: lan@x.test, password: secret }]";
    const agents = `agents: { mohe: { runtime: { kind: demo }, ${ROOM_ACCOUNT} }, lan: { runtime: { kind: acp, preset: demo }, ${direct} } }\n`;
    file("config.yaml", `${agents}default_agent: mohe\n${people}`);
    expect(await warnings()).toEqual([]);
  });

  test.each([
    ["", "xmpp: nobody (docs/access.md)"],
    ["access: { xmpp: { open: true } }\n", "xmpp: everybody"],
    [
      "people: { bob: { accounts: [{ platform: xmpp, id: bob@x.test }] } }\naccess: { xmpp: { people: [bob@x.test, eve@x.test], rooms: [core@rooms.x.test] } }\n",
      "xmpp: 2 accounts, whoever is in core@rooms.x.test",
    ],
  ])("A1 the start says whom agents answer: %j", (more, words) => {
    file("config.yaml", `agents: { mohe: { runtime: { kind: demo }, ${ROOM_ACCOUNT} } }\n${more}`);
    expect(letIn(loadConfig({ flags: { home } }))).toEqual([words]);
  });

  test("A1 a platform where nobody is let in, and an account that is down, are said", async () => {
    file("config.yaml", `agents: { mohe: { runtime: { kind: demo }, ${ROOM_ACCOUNT} } }\n`);
    await start();
    const found = await warnings();
    expect(found.find(({ check }) => check === "access")?.text).toMatch(/^Nobody is let in on xmpp/);
    expect(found.find(({ check }) => check === "account mohe@x.test")?.text).toMatch(/^of mohe: offline \(.+\)\.$/);
  });

  test("T2 refused events are said, through the gateway and from the file", async () => {
    const store = openSqliteStore({ path: join(home, "state.db"), clock: systemClock });
    const event = {
      kind: "refused",
      eventId: "e-1",
      freshId: "s-1",
      code: "source_invalid",
      sentence: "No chat\u001b[2J.",
    } as const;
    const batch = { account: "bot", platform: "telegram", agent: "main", now: 0, events: [event] } as const;
    await store.admit(batch, await store.claim("test"));
    await store.close();
    const inFile = await tertulia("doctor");
    expect(inFile.out).toMatch(
      /warn +refused +1 event could not be admitted; the last from bot at 1970-\S+ \S+: No chat\\x1b/,
    );
    const { url, ownerToken } = await start();
    expect((await findings()).of("refused")).toMatchObject({ state: "warn" });
    const headers = { authorization: `Bearer ${ownerToken}` };
    const { refused } = (await (await fetch(`${url}/api/refused?limit=1`, { headers })).json()) as {
      refused: object[];
    };
    expect(refused).toMatchObject([{ account: "bot", code: "source_invalid" }]);
  });

  test("T2 A6 refused events are for the owner only", async () => {
    file("config.yaml", "people: { alice: { tokens: [alice-has-a-long-token] } }\n");
    const { url } = await start();
    const response = await fetch(`${url}/api/refused`, { headers: { authorization: "Bearer alice-has-a-long-token" } });
    expect(response.status).toBe(403);
  });
});

describe("context", () => {
  const context = async (...argv: string[]) => await json("context", ...argv);

  test("C7 it is the same from the gateway and from the file, by a room's name or by the key, and is what the next turn gets", async () => {
    file("config.yaml", `${ROOMS}agents: { main: { runtime: { kind: demo }, prompt: Be brief. } }\nredact_pii: true\n`);
    await start();
    await say("hello");
    const key = "agent:main:console:dm:owner%2Fmain";
    const running = await context(key);
    expect(running).toMatchObject({ conversation: key, turn: null });
    expect(running.stablePart).toMatch(/^# Where you are\n[\s\S]*\n# The owner's instructions\nBe brief\.\n/);
    expect(running.stablePart).toContain('User: "user_');
    expect(running.facts).toMatch(
      /^--- facts [0-9a-f]{32}\nSource: CLI terminal\nFrom: id "user_[0-9a-f]{12}"; rights: owner\nTime: /,
    );
    await tertulia("send", "kitchen", "Dinner.", "--session", running.session);
    const kitchen = await context("kitchen");
    expect(kitchen).toEqual({ ...(await context(KITCHEN)), facts: expect.any(String) });
    expect(kitchen.facts).toContain("(live until ");
    await stop();
    const timeless = ({ facts, ...rest }: { facts: string }) => ({
      ...rest,
      facts: facts.replace(/[0-9a-f]{32}/g, "").replace(/\nTime: .*/, ""),
    });
    expect(timeless(await context("kitchen"))).toEqual(timeless(kitchen));
    const shown = await tertulia("context", "kitchen");
    expect(shown.out).toContain(`STABLE PART (${kitchen.stablePart.length} characters)\n\n${kitchen.stablePart}\n`);
  });

  test("C7 E3 what is no conversation is unknown, with a gateway, without one, and without any state", async () => {
    expect((await tertulia("context", "kitchen")).err).toMatch(/^conversation_unknown: .*\n/);
    await start();
    expect((await tertulia("context", KITCHEN)).err).toMatch(/^conversation_unknown: /);
    await stop();
    expect(await tertulia("context", KITCHEN)).toMatchObject({ code: 1, out: "" });
  });

  test("C7 K19 only the owner reads it", async () => {
    file("config.yaml", "people: { alice: { tokens: [alice-has-a-long-token] } }\n");
    const { url } = await start();
    const said = await gateway!.gateway.doors.say({
      person: { id: "alice", role: "member" },
      agent: "main",
      door: { platform: "http", name: "a" },
      text: "hi",
    });
    const ask = (token: string) =>
      fetch(`${url}/api/conversations/${encodeURIComponent(said.key)}/context`, {
        headers: { authorization: `Bearer ${token}` },
      });
    expect((await ask("alice-has-a-long-token")).status).toBe(403);
    expect((await ask(gateway!.ownerToken)).status).toBe(200);
  });
});

describe("token", () => {
  test("F-SEC-05 A11: `tertulia token` prints it and nothing else, and makes it where there is none yet", async () => {
    const first = await tertulia("token");
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(first.out).toMatch(/^[0-9a-f]{32}\n$/);
    const path = join(home, "token");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const { ownerToken, url } = await start();
    expect([`${ownerToken}\n`, (await tertulia("token", "show")).out]).toEqual([first.out, first.out]);
    expect(await json("token")).toEqual({ token: ownerToken, file: path });
    const reply = await fetch(`${url}/api/whoami`, { headers: { authorization: "Bearer mistyped" } });
    const { error } = (await reply.json()) as { error: { remedy: string } };
    expect(error.remedy).toContain("`tertulia token`");
  });

  test("F-OPS-01 A11: `tertulia token rotate` stops the old one at a running gateway, and our own commands go on", async () => {
    const { ownerToken, url } = await start();
    const session = await say("hello");
    const status = async (token: string) =>
      (await fetch(`${url}/api/whoami`, { headers: { authorization: `Bearer ${token}` } })).status;
    const next = (await tertulia("token", "rotate")).out.trim();
    expect(next).not.toBe(ownerToken);
    expect([await status(ownerToken), await status(next)]).toEqual([401, 200]);
    expect((await tertulia("sessions", "show", session)).out).toContain("hello");
    expect(readdirSync(home).filter((name) => name.startsWith("token"))).toEqual(["token"]);
  });

  test("F-SEC-06 A11: the curl of the README works as it is written, and so does the one that the start prints", async () => {
    home = join(folder.path, ".tertulia");
    mkdirSync(home, { mode: 0o700 });
    const { url } = await start();
    const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
    const [command] = /^curl http:\/\/127\.0\.0\.1:8378\/v1[\s\S]*?\}'$/m.exec(readme) ?? [];
    expect(command).toContain("~/.tertulia/token");
    const shell = spawn("sh", ["-c", command!.replace("http://127.0.0.1:8378", url)], {
      env: { ...process.env, HOME: folder.path },
      stdio: ["ignore", "pipe", "ignore"],
    });
    expect(await text(shell.stdout)).toContain("You said: hello");
  });
});

describe("forwarders", () => {
  // Of the kind: whatever program of this user passes on connections that come from elsewhere.
  test("F-SEC-07 A11: programs that forward are found by their names, those of another user only where everybody is trusted", () => {
    const running: Record<string, string> = {
      1: "/sbin/init\0",
      20: "/usr/bin/cloudflared\0tunnel\0run\0",
      21: "ssh\0-N\0-R\x008378:localhost:8378\0host\0",
      22: "ssh\0-NTR\x0080:localhost:8378\0serveo.net\0",
      23: "ssh\0host\0",
      24: "node\0/home/a/node_modules/.bin/vite\0--host\0",
      25: "nginx: master process\0",
      26: "/usr/bin/slirp4netns\0--mtu\0",
      27: "node\0server.js\0",
      28: "vim\0nginx.conf\0",
    };
    for (const [pid, cmdline] of Object.entries(running)) {
      mkdirSync(join(folder.path, "proc", pid), { recursive: true });
      writeFileSync(join(folder.path, "proc", pid, "cmdline"), cmdline);
    }
    const proc = join(folder.path, "proc");
    const found = ["cloudflared", "nginx", "slirp4netns", "ssh -R", "vite"];
    expect(forwardersOf(process.getuid!(), proc)).toEqual(found);
    expect(forwardersOf("any", proc)).toEqual(found);
    expect(forwardersOf(process.getuid!() + 1, proc)).toEqual([]);
    expect(forwardersOf("any", join(proc, "nowhere"))).toEqual([]);
  });

  test("F-SEC-07 A11: doctor and start say who needs no token", async () => {
    const access = async (setting: string) => {
      file("config.yaml", `http: { token: ${setting} }\n`);
      return (await json("doctor")).findings.find(({ check }: { check: string }) => check === "access").text as string;
    };
    expect(await access("always")).toContain("for bearers of a token");
    expect(await access("loopback")).toContain("for every user of this machine, as the owner");
    expect(await access("auto")).toContain(
      trustedUid() === null ? "for bearers of a token" : "this user's own programs",
    );
  });
});

describe("E3 nonsense", () => {
  test.each<[argv: string[], message: RegExp, exit?: number]>([
    [["nonsense"], /^usage: Unknown command 'nonsense'\.\n`tertulia --help`/],
    [["sned"], /Did you mean send\?/],
    [["handoff", "nonsense"], /^usage: Unknown command 'nonsense'\.\n`tertulia handoff --help`/],
    [
      ["handoff", "clear"],
      /^usage: The room is missing, and agent main has no home_room\.\n.*agents\.<name>\.home_room/,
    ],
    [
      ["handoff", "clear", "--agent", "nobody"],
      /^agent_unknown: There is no agent "nobody"\.\nChoose one of main\.$/m,
      1,
    ],
    [["send", "hi", "--no-session", "--agent", "nobody"], /^agent_unknown: There is no agent "nobody"\.\n/, 1],
    [["send"], /^usage: Missing required argument 'text'\.\n/],
    [["send", "a", "b", "c"], /^usage: There are 3 words/],
    [["send", "hi", "--no-session"], /^usage: The room is missing: the configuration names none/],
    [["sessions", "show"], /^usage: Missing required argument 'id'\.\n/],
    [
      ["sessions", "list", "--limit", "many"],
      /^usage: --limit many is not allowed; allowed: a whole number from 1 to 1000\.\n/,
    ],
    [["explain"], /^usage: Required option '--source <file>' not specified\.\n/],
    [["doctor", "--bogus"], /^usage: Unknown option '--bogus'\.\n/],
    [["doctor", "now"], /^usage: Too many arguments for 'doctor'/],
  ])("E3 a wrong call has a code, a sentence and a remedy, and never a stack: %j", async (argv, message, exit = 2) => {
    const { code, out, err } = await tertulia(...argv);
    expect({ code, out }).toEqual({ code: exit, out: "" });
    expect(err).toMatch(message);
    expect(err.trimEnd().split("\n")).toHaveLength(2);
    expect(err).not.toMatch(/^\s+at /m);
  });

  test("E3 with --json the error is JSON on standard output", async () => {
    const { code, out, err } = await tertulia("sessions", "show", "--json");
    expect({ code, err }).toEqual({ code: 2, err: "" });
    expect(JSON.parse(out).error).toMatchObject({
      code: "usage",
      message: expect.any(String),
      remedy: expect.any(String),
    });
  });

  test("E3 every command has its help", async () => {
    const commands = ["send", "explain", "doctor", "demo-agent", "sessions list", "sessions show", "config check"];
    const ofAgents = ["sessions park", "sessions restart", "runtimes list", "runtimes use"];
    for (const command of [...commands, ...ofAgents, "handoff show", "handoff set", "handoff clear"]) {
      const { code, out, err } = await tertulia(...command.split(" "), "--help");
      expect({ code, err }).toEqual({ code: 0, err: "" });
      expect(out).toContain(`Usage: tertulia ${command} `);
    }
    expect((await tertulia("sessions", "list", "--help")).out).toContain("--warm");
    const { code, out } = await tertulia("help");
    expect(code).toBe(0);
    expect(out).toContain("Exit codes");
  });
});

test("E1 demo-agent speaks the Agent Client Protocol over stdio and ends with its input", async () => {
  const child = spawn(process.execPath, ["src/cli/main.ts", "demo-agent"], { stdio: ["pipe", "pipe", "inherit"] });
  const request = {
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: { protocolVersion: 1, clientCapabilities: {} },
  };
  const answered = text(child.stdout);
  child.stdout.once("data", () => child.stdin.end());
  child.stdin.write(`${JSON.stringify(request)}\n`);
  const [code] = await once(child, "exit");
  expect(code).toBe(0);
  expect(JSON.parse(await answered)).toMatchObject({ id: 1, result: { agentInfo: { name: "tertulia-demo" } } });
});
