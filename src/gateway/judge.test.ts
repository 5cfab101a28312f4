import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { temporaryFolder } from "../../test/support/store.ts";
import { judge, judged, lostSessions } from "./judge.ts";

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder.remove());

function judgementOf(yaml: string, env: Record<string, string> = {}) {
  writeFileSync(join(folder.path, "config.yaml"), yaml);
  const { config, problems, warnings } = judge({ env: { HOME: folder.path, TERTULIA_HOME: folder.path, ...env } });
  const shown = (lines: readonly string[]): string[] => lines.map((line) => line.replaceAll(`${folder.path}/`, ""));
  return { config, problems: shown(problems), warnings: shown(warnings) };
}

const agent = (runtime: string): string => `agents:\n  main:\n    runtime:\n${runtime.replace(/^/gm, "      ")}\n`;

// Every throw of a runtime that is made at the start, in place and by name, from the file and from the environment; files that are named
// and cannot be read; with others that the schema finds.
describe("F-CFG-04 E6: what a start would refuse is refused at its line", () => {
  test.each([
    [
      "kind: http\nbase_url: http://127.0.0.1:1/v1/chat/completions\nmodel: x",
      "config.yaml:5: agents.main.runtime.base_url: ",
    ],
    ["kind: http\npreset: ollama\nmodel: ' '", "config.yaml:6: agents.main.runtime.model: "],
    ["kind: http\npreset: ollama\nmodel: x\nkey: ключ", "config.yaml:7: agents.main.runtime.key: "],
    ["kind: http\npreset: ollama\nmodel: x\nheaders:\n  x-a: 'a '", "config.yaml:8: agents.main.runtime.headers.x-a: "],
    ["kind: http\npreset: ollama\nmodel: x\nmax_output: 4000", "config.yaml:7: agents.main.runtime.max_output: "],
    [
      "kind: http\npreset: ollama\nmodel: x\nwindow: 1024\nmax_output: 900",
      "config.yaml:8: agents.main.runtime.max_output: ",
    ],
    ["kind: hermes\nkey: ключ", "config.yaml:5: agents.main.runtime.key: "],
  ])("F-CFG-04 %j", (runtime, expected) => {
    expect(judgementOf(agent(runtime)).problems).toEqual([expect.stringContaining(expected)]);
  });

  test.each([
    ["http://127.0.0.1:1/V1/Chat/Completions/", "http://127.0.0.1:1/V1"],
    ["http://127.0.0.1:1/v1/responses?api-version=2", "http://127.0.0.1:1/v1"],
    ["https://api.example.org/v1/messages", "https://api.example.org/v1"],
    ["http://127.0.0.1:1/v1/models", "http://127.0.0.1:1/v1"],
    ["http://127.0.0.1:11434/api/chat", "http://127.0.0.1:11434"],
  ])("F-CFG-04 an endpoint is no base: %s", (address, base) => {
    const { problems } = judgementOf(agent(`kind: http\nbase_url: ${address}\nmodel: x`));
    expect(problems).toEqual([
      expect.stringMatching(/^config.yaml:5: agents.main.runtime.base_url: .* ends before \//),
    ]);
    expect(problems[0]).toMatch(new RegExp(`: ${base}$`));
  });

  test("F-CFG-04 an endpoint of a Hermes, a port that is none", () => {
    const hermes = agent("kind: hermes\nbase_url: http://x/chat/completions\nkey: k");
    expect(judgementOf(hermes).problems).toEqual([
      expect.stringContaining("config.yaml:5: agents.main.runtime.base_url: "),
    ]);
    const xmpp = `${agent("kind: demo")}    accounts:\n      - platform: xmpp\n        jid: a@e.org\n        password: p\n        service: xmpp://e.org:99999\n`;
    expect(judgementOf(xmpp).problems).toEqual([
      expect.stringContaining("config.yaml:9: agents.main.accounts.0.service: "),
    ]);
  });

  test.each(["hello\n", "42\n", "- http\n", "true"])("F-CFG-04 a file that is no map, %j, is refused", (text) => {
    expect(judgementOf(text).problems).toEqual([
      expect.stringMatching(/^config.yaml: .* is not allowed; allowed: a map of /),
    ]);
  });

  test.each(["~\n", "null", "# nothing\n", "---\n", "\ufeff"])(
    "F-CFG-04 a file that says nothing, %j, is good",
    (text) => {
      expect(judgementOf(text).problems).toEqual([]);
    },
  );

  test("F-CFG-04 a variable called as what every object has is not set", () => {
    expect(judgementOf(`http: { host: '\${constructor}' }\n`).problems).toEqual([
      expect.stringContaining("the variable constructor is not set"),
    ]);
  });

  test("F-CFG-04 of a runtime with a name, and of a model in the environment, where they are said", () => {
    const named =
      "agents: { main: { runtime: far } }\nruntimes:\n  far: { kind: http, model: x,\n    base_url: 'http://x/chat/completions' }";
    expect(judgementOf(named).problems).toEqual([expect.stringMatching(/^config.yaml:4: runtimes.far.base_url: /)]);
    const model = { TERTULIA_MODEL_URL: "http://x/v1/chat/completions", TERTULIA_MODEL_NAME: "x" };
    expect(judgementOf("", model).problems).toEqual([
      expect.stringMatching(/^TERTULIA_MODEL_URL: agents.main.runtime.base_url: /),
    ]);
  });

  test("F-CFG-04 a variable that is not set hides nothing of the same runtime", () => {
    const { problems } = judgementOf(
      agent(`kind: http\nbase_url: http://x/chat/completions\nmodel: x\nkey: \${NOT_SET}`),
    );
    expect(problems).toEqual([
      expect.stringMatching(/^config.yaml:7: agents.main.runtime.key: the variable NOT_SET is not set/),
      expect.stringMatching(/^config.yaml:5: agents.main.runtime.base_url: /),
    ]);
    expect(() => judged({ env: { HOME: folder.path, TERTULIA_HOME: folder.path } })).toThrow(
      expect.objectContaining({ code: "config_invalid", message: expect.stringContaining("2 problems") }),
    );
  });

  test("F-CFG-04 files that are named: a folder as persona, no certificate, a service that is none", () => {
    mkdirSync(join(folder.path, "folder"));
    writeFileSync(join(folder.path, "text"), "hello");
    const account = (more: string): string => `{ platform: xmpp, jid: a@x.org, password: p, ${more} }`;
    const yaml = (more: string): string => `agents: { main: { runtime: { kind: demo }, ${more} } }`;
    for (const [more, path] of [
      ["persona: folder", "persona"],
      [`accounts: [${account("tls: { ca: absent.pem }")}]`, "accounts.0.tls.ca"],
      [`accounts: [${account("tls: { ca: text }")}]`, "accounts.0.tls.ca"],
      [`accounts: [${account("service: 'http://x.org'")}]`, "accounts.0.service"],
      [`accounts: [${account("service: x.org:5222")}]`, "accounts.0.service"],
    ] as const)
      expect(judgementOf(yaml(more)).problems).toEqual([
        expect.stringContaining(`config.yaml:1: agents.main.${path}: `),
      ]);
  });
});

const XMPP =
  "agents: { main: { runtime: { kind: demo }, accounts: [{ platform: xmpp, jid: a@x.org, password: p, rooms: [core@muc.x.org] }] } }\n";

// Whatever is right and does nothing: beside another setting, for a door, a room or a session that is not there, behind a variable.
describe("F-CFG-02 E6: a setting without effect is said, with why", () => {
  test.each([
    ["reset: { default: { mode: none, idle_minutes: 5 } }", "reset.default.idle_minutes", "mode none"],
    ["reset: { types: { dm: { mode: idle, at_hour: 5 } } }", "reset.types.dm.at_hour", "mode idle"],
    ["reset: { types: { dm: { mode: daily, idle_minutes: 5 } } }", "reset.types.dm.idle_minutes", "mode daily"],
    ["reset: { platforms: { weixin: { mode: daily } } }", "reset.platforms.weixin", "no channel for weixin"],
    ["access: { telegram: { open: true } }", "access.telegram", "no channel for telegram"],
    ["access: { xmpp: { open: true } }", "access.xmpp", "no agent has an account on xmpp"],
    ["platforms: { slack: { prompt: x } }", "platforms.slack", "no channel for slack"],
    [
      "chats: { 'agent:main:telegram:dm:9': { prompt: x } }",
      "chats.agent:main:telegram:dm:9",
      "no channel for telegram",
    ],
    [
      "people: { bob: { accounts: [{ platform: xmpp, id: b@x.org }] } }",
      "people.bob.accounts.0",
      "no agent has an account",
    ],
    ["rooms: { tea: { platform: discord, chat: '4' } }", "rooms.tea", "no channel for discord"],
    ["session: { group_sessions_per_user: true }", "session.group_sessions_per_user", "K14"],
    ["session: { thread_scope: chat }", "session.thread_scope", "with rooms"],
    ["reset: { types: { group: { mode: daily } } }", "reset.types.group", "with rooms"],
    ["digest: { interval: 5m }", "digest.interval", "digest.home"],
    ["agents: { main: { runtime: { kind: demo }, answer: always } }", "agents.main.answer", "no account"],
    [`${XMPP}access: { xmpp: { rooms: [tea@muc.x.org] } }`, "access.xmpp.rooms.0", "in that room"],
    [`${XMPP}rooms: { tea: { platform: xmpp, chat: tea@muc.x.org } }`, "rooms.tea", "in that room"],
    [`${XMPP}access: { xmpp: { open: true, people: [b@x.org] } }`, "access.xmpp.people", "lets everybody in"],
  ])("F-CFG-02 %s", (yaml, path, why) => {
    const { problems, warnings } = judgementOf(yaml);
    expect(problems).toEqual([]);
    expect(warnings).toEqual([
      expect.stringMatching(new RegExp(`^config.yaml:\\d: ${path.replaceAll(".", "\\.")}: has no effect: .*${why}`)),
    ]);
  });

  test("F-CFG-02 a runtime that the environment goes before; a home of the digest that is no home", () => {
    const model = { TERTULIA_MODEL_URL: "http://x/v1", TERTULIA_MODEL_NAME: "x" };
    expect(judgementOf("agents: { main: { runtime: { kind: demo } } }", model).warnings).toEqual([
      expect.stringMatching(/^config.yaml:1: agents.main.runtime: has no effect: TERTULIA_MODEL_URL/),
    ]);
    expect(judgementOf(`digest: { home: ${folder.path}/absent }`).warnings).toEqual([
      expect.stringMatching(/^config.yaml:1: digest.home: no files are kept there: There is no folder/),
    ]);
  });

  test("F-CFG-02 a session that is not there", async () => {
    const { config } = judgementOf("agents: { main: { runtime: { kind: demo }, default_session: s-1 } }");
    expect(await Array.fromAsync(lostSessions(config, async () => null))).toEqual([
      expect.stringMatching(/config.yaml:1: agents.main.default_session: has no effect: there is no session s-1$/),
    ]);
    expect(await Array.fromAsync(lostSessions(config, async () => ({})))).toEqual([]);
  });

  test("F-HER-01 H13: of a session of Hermes' own the gateway says how it stands, and nobody else", async () => {
    const { config } = judgementOf("agents: { main: { runtime: { kind: demo }, default_session: 'hermes:s-1' } }");
    expect(await Array.fromAsync(lostSessions(config, async () => null))).toEqual([]);
  });

  test.each([
    "",
    "reset: { default: { mode: idle, idle_minutes: 5 } }",
    "reset: { default: { mode: both, idle_minutes: 5, at_hour: 3, notify: false } }",
    "reset: { types: { dm: { mode: daily, at_hour: 3, timezone: UTC } } }",
    "platforms: { http: { prompt: x }, console: { debounce_ms: 5 } }",
    `${XMPP}access: { xmpp: { people: [b@x.org], rooms: [core@muc.x.org] } }\nsession: { thread_scope: chat }`,
  ])("F-CFG-02 what has an effect is not warned of: %j", (yaml) => {
    expect(judgementOf(yaml)).toMatchObject({ problems: [], warnings: [] });
  });
});
