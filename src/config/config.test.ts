import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { TertuliaError } from "../errors.ts";
import type { Source } from "../message/source.ts";
import {
  type Config,
  type ConfigFlags,
  configKeys,
  defaultRuntimeOf,
  inheritedEnvironment,
  loadConfig,
  originOf,
  rulesFor,
} from "./config.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "tertulia-config-"));
});
afterEach(() => {
  rmSync(home, { recursive: true, force: true });
});

interface Given {
  readonly flags?: ConfigFlags;
  readonly env?: Record<string, string>;
  readonly dotEnv?: string;
}

function load(yaml?: string, { flags = {}, env = {}, dotEnv }: Given = {}): Config {
  if (yaml !== undefined) writeFileSync(join(home, "config.yaml"), yaml);
  if (dotEnv !== undefined) writeFileSync(join(home, ".env"), dotEnv);
  return loadConfig({ flags, env: { TERTULIA_HOME: home, ...env } });
}

/** The lines of the refusal, with the folder left out. */
function refusal(yaml?: string, given: Given = {}): string {
  try {
    load(yaml, given);
  } catch (error) {
    expect(error).toBeInstanceOf(TertuliaError);
    expect((error as TertuliaError).code).toBe("config_invalid");
    return (error as TertuliaError).message.replaceAll(`${home}/`, "");
  }
  throw new Error("It was accepted.");
}

const dm: Source = { platform: "telegram", account: "bot", chatId: "99", chatType: "dm", isBot: false };

describe("E1: where settings come from", () => {
  test("E1: without a file everything is at its default", () => {
    const config = load();
    expect(config).toMatchObject({
      home,
      files: {
        config: null,
        state: join(home, "state.db"),
        lock: join(home, "gateway.lock"),
        token: join(home, "token"),
        out: join(home, "out"),
      },
      client: {},
      http: { host: "127.0.0.1", port: 8378, token: "auto", systemMessages: "give" },
      log: { level: "info" },
      agents: { main: { name: "main", displayName: "main", runtime: "demo", handoffTtlMs: 3_600_000 } },
      defaultAgent: "main",
      people: { owner: { id: "owner", role: "owner", tokens: [] } },
      turn: { busyMode: "collect", turnIdleTimeoutMs: 600_000, turnTimeoutMs: 7_200_000, stopGraceMs: 5000 },
      delivery: { ttlMs: 86_400_000 },
    });
    expect(config.client).toEqual({});
    expect(originOf(config, "http.port")).toBe("default");
  });

  test.each(["", "# nothing yet\n", "turn:\nhttp:\nagents:\n"])(
    "E1: a file that says nothing changes nothing: %j",
    (yaml) => {
      const { files: _, origins: __, ...nothing } = load();
      const { files, origins: ___, ...config } = load(yaml);
      expect(config).toEqual(nothing);
      expect(files.config).toBe(join(home, "config.yaml"));
    },
  );

  test("E1: flag over environment over file over default", () => {
    const yaml = "http: { port: 1001 }";
    const env = { TERTULIA_PORT: "1002" };
    const seen = [load(), load(yaml), load(yaml, { env }), load(yaml, { env, flags: { port: "1003" } })];
    expect(seen.map((config) => [config.http.port, originOf(config, "http.port")])).toEqual([
      [8378, "default"],
      [1001, "file"],
      [1002, "env"],
      [1003, "flag"],
    ]);
    expect(load(yaml, { flags: { host: "::1", port: 0 } }).http).toMatchObject({ host: "::1", port: 0, token: "auto" });
  });

  test("E1: the folder: flag over TERTULIA_HOME over ~/.tertulia", () => {
    expect(loadConfig({ env: { HOME: home } }).home).toBe(join(home, ".tertulia"));
    expect(loadConfig({ env: { HOME: home, TERTULIA_HOME: "~/x" } }).home).toBe(join(home, "x"));
    expect(loadConfig({ flags: { home: join(home, "y") }, env: { TERTULIA_HOME: "/x" } }).home).toBe(join(home, "y"));
    expect(refusal(undefined, { flags: { home: "" } })).toBe('--home: "" is not allowed; allowed: a path');
    expect(loadConfig({ flags: { home: "some/where" }, env: {} }).home).toBe(resolve("some/where"));
  });

  test("E1: another file by --config or TERTULIA_CONFIG, with the .env beside it", () => {
    const other = join(home, "other");
    mkdirSync(other);
    writeFileSync(join(other, "my.yaml"), `http:\n  port: \${MY_PORT}`);
    writeFileSync(join(other, ".env"), "MY_PORT=1004");
    const flags = { config: join(other, "my.yaml") };
    expect(load("http: { port: 1 }", { flags }).http.port).toBe(1004);
    expect(load("http: { port: 1 }", { env: { TERTULIA_CONFIG: flags.config } }).files).toMatchObject({
      config: flags.config,
      state: join(home, "state.db"),
    });
    expect(refusal("", { flags: { config: join(home, "absent.yaml") } })).toBe("absent.yaml: there is no such file");
  });

  test("E1: what a command brings along comes from the environment or .env", () => {
    const client = { token: "client-token-1", sessionId: "s-1" };
    const env = { TERTULIA_TOKEN: client.token, TERTULIA_SESSION_ID: client.sessionId };
    expect(load(undefined, { env }).client).toEqual(client);
    expect(
      load(undefined, { dotEnv: "TERTULIA_TOKEN=client-token-1", env: { TERTULIA_SESSION_ID: "" } }).client,
    ).toEqual({ token: "client-token-1" });
  });

  test(`E1: \${VAR} comes from the environment, then from .env`, () => {
    const dotEnv = [
      "\ufeff# secrets",
      "",
      "A=from-env-file   # said here",
      "export B = 'single # quoted $x'\r",
      'C="two\\nlines and \\"quotes\\"" # comment',
      "D=with#hash",
      "E=",
    ].join("\n");
    const yaml = `agents: { main: { runtime: { kind: demo }, prompt: "\${A}|\${B}|\${C}|\${D}|\${E}|$\${F}" } }`;
    expect(load(yaml, { dotEnv, env: { A: "from-environment" } }).agents.main?.prompt).toBe(
      `from-environment|single # quoted $x|two\nlines and "quotes"|with#hash||\${F}`,
    );
    expect(load(yaml, { dotEnv }).agents.main?.prompt).toMatch(/^from-env-file\|/);
  });

  test("E1: a value that is one variable takes the type of its key", () => {
    const yaml = `http:\n  port: \${P}\nreset: { default: { mode: "\${M}", notify: "\${N}" } }`;
    const config = load(yaml, { env: { P: "01005", M: "idle", N: "false" } });
    expect(config.http.port).toBe(1005);
    expect(config.reset.default).toMatchObject({ mode: "idle", notify: false });
    expect(
      load(`agents: { main: { runtime: { kind: demo }, prompt: "\${P}" } }`, { env: { P: "12" } }).agents.main?.prompt,
    ).toBe("12");
    expect(refusal(`http: { port: "1\${P}" }`, { env: { P: "005" } })).toMatch(/^config.yaml:1: http.port: 1\$\{P\} /);
    expect(
      refusal(
        `http:
  port: \${P}`,
        { env: { P: "x1" } },
      ),
    ).toMatch(/^config.yaml:2: http.port: \$\{P\} /);
  });

  test("E1: a variable that is not set is named, and nothing else is said about its key", () => {
    expect(refusal(`log:\n  level: \${LEVEL}\n`)).toBe(
      "config.yaml:2: log.level: the variable LEVEL is not set, neither in the environment nor in .env",
    );
    expect(refusal(`log: { level: '\${LE VEL}' }`)).toMatch(/the name of a variable/);
    expect(refusal(`log: { level: '\${LEVEL' }`, { env: { LEVEL: "info" } })).toMatch(/the name of a variable/);
  });

  test("E1: a line of .env that is not understood is named without its text", () => {
    const message = refusal(undefined, { dotEnv: 'A=1\nsk-secret-value\nB="open' });
    expect(message).toMatch(/^\.env:2: /m);
    expect(message).toMatch(/^\.env:3: /m);
    expect(message).not.toMatch(/sk-secret|open/);
    expect(refusal(undefined, { dotEnv: "TERTULIA_CONFIG=/x.yaml" })).toMatch(/\.env:1: TERTULIA_CONFIG decides/);
  });

  test("E1: aliases are followed, a file that contains itself is refused", () => {
    const yaml = "reset:\n  default: &p { mode: daily, at_hour: 5 }\n  types: { group: *p }\n";
    expect(load(yaml).reset.types.group).toEqual(load(yaml).reset.default);
    expect(refusal("turn: &t { busy_mode: *t }")).toMatch(/nested too deep/);
  });
});

describe("E2: what is not understood stops the start", () => {
  test("E2: every problem is said at once, with line, key, value and what is allowed", () => {
    const yaml = [
      "http:",
      "  port: 99999",
      "turn:",
      "  debuonce_ms: 5",
      "  turn_timeout: 600",
      "session:",
      "  dm_scope: everyone",
      "  group_sessions_per_user: yes",
      "agents:",
      "  Main: { runtime: { kind: demo } }",
      "  nova: { runtime: { kind: demon } }",
    ].join("\n");
    expect(refusal(yaml).split("\n")).toEqual([
      "The configuration has 7 problems.",
      "config.yaml:2: http.port: 99999 is not allowed; allowed: a whole number from 0 to 65535",
      expect.stringMatching(/^config.yaml:10: agents.Main: "Main" is no name for it; allowed: a-z, 0-9/),
      'config.yaml:11: agents.nova.runtime.kind: "demon" is not allowed; allowed: demo, http, acp, hermes, as in `runtime: { kind: demo }`; did you mean demo?',
      'config.yaml:8: session.group_sessions_per_user: "yes" is not allowed; allowed: true, false',
      'config.yaml:7: session.dm_scope: "everyone" is not allowed; allowed: chat, person',
      "config.yaml:5: turn.turn_timeout: 600 is not allowed; allowed: a duration from 100ms to 7d, such as 90s (ms, s, m, h or d); the unit is missing",
      "config.yaml:4: turn.debuonce_ms: unknown key; did you mean turn.debounce_ms?",
    ]);
  });

  test.each([
    ["turns: { busy_mode: queue }", "turns: unknown key; did you mean turn?"],
    ["reset: { mode: daily }", "reset.mode: unknown key; did you mean reset.default.mode?"],
    ["platforms: { telegramm: {} }", "platforms.telegramm: unknown key; did you mean platforms.telegram?"],
    [
      "reset: { types: { room: { mode: daily } } }",
      "reset.types.room: unknown key; allowed: dm, group, channel, thread",
    ],
    [
      "log: { level: inof }",
      'log.level: "inof" is not allowed; allowed: info, debug, warn, error, silent; did you mean info?',
    ],
    ["log: loud", 'log: "loud" is not allowed; allowed: a map of level'],
    ["[]", "a list is not allowed; allowed: a map of timezone, http"],
    [
      "agents: { main: { runtime: demon } }",
      'agents.main.runtime: "demon" is not allowed; allowed: demo, or a runtime',
    ],
    [
      "platforms: { telegram: { runtime: local } }",
      'platforms.telegram.runtime: "local" is not allowed; allowed: demo',
    ],
    [
      "runtimes: { local: { kind: demon } }",
      'runtimes.local.kind: "demon" is not allowed; allowed: demo, http, acp, hermes',
    ],
    ["agents: { main: {} }", "agents.main.runtime: is missing; allowed: demo"],
    ["agents: {}", "agents: a map is not allowed; allowed: at least one agent"],
    ["agents: { job: { runtime: { kind: demo } } }", 'agents.job: "job" is no name for it'],
    ["agents: { __proto__: { runtime: { kind: demo } } }", "agents.__proto__: is no name for a key"],
    ["default_agent: nova", 'default_agent: "nova" is not allowed; allowed: main'],
    ["people: { owner: { role: guest } }", 'people.owner.role: "guest" is not allowed; allowed: owner'],
    [
      "rooms: { tea: { conversation: kitchen } }",
      'rooms.tea.conversation: "kitchen" is not allowed; allowed: a session key',
    ],
    ["rooms: { tea: { share: true } }", "rooms.tea.conversation: is missing; allowed: a session key"],
    ["rooms: { tea: { conversation: 'agent:nova:xmpp:group:r' } }", "allowed: a conversation of main"],
    ["chats: { 'agent:nova:telegram:dm:99': { busy_mode: queue } }", "allowed: a conversation of main"],
    [
      "chats: { telegram: { busy_mode: queue } }",
      'chats.telegram: "telegram" is no name for it; allowed: a session key',
    ],
    ["platforms: { http: { busy_mode: steer } }", 'platforms.http.busy_mode: "steer" is not allowed; allowed: queue'],
    ["http: { host: '127.0.0.1:80' }", 'http.host: "127.0.0.1:80" is not allowed'],
    ["http: { host: '[::1]' }", 'http.host: "[::1]" is not allowed'],
    ["turn: { debounce_ms: 1.5 }", "turn.debounce_ms: 1.5 is not allowed; allowed: a whole number from 0 to 60000"],
    ["turn: { debounce_ms: .inf }", "turn.debounce_ms: Infinity is not allowed"],
    ["turn: { stop_grace: 5 s }", 'turn.stop_grace: "5 s" is not allowed; allowed: a duration from 100ms to 10m'],
    ["turn: { stop_grace: '5000' }", "the unit is missing"],
    ["log: { level: info }\nlog: { level: debug }", "config.yaml:2: log: stands twice, first in line 1; keep one"],
    ["log: { level: info", "config.yaml:1: a { or a [ is not closed; close it"],
  ])("E2: %s", (yaml, expected) => {
    expect(refusal(yaml)).toContain(expected);
  });

  test("E2: an environment variable or a flag out of range is named", () => {
    expect(refusal(undefined, { env: { TERTULIA_PORT: "70000" } })).toBe(
      "TERTULIA_PORT: http.port: 70000 is not allowed; allowed: a whole number from 0 to 65535",
    );
    expect(refusal(undefined, { env: { TERTULIA_PORT: "http" } })).toMatch(/^TERTULIA_PORT: http.port: "http" /);
    expect(refusal(undefined, { flags: { port: "-1" } })).toMatch(/^--port: http.port: -1 /);
    expect(refusal(undefined, { flags: { host: "a b" } })).toMatch(/^--host: http.host: "a b" /);
  });

  test("E2: a default agent that is not there is named also where a model stands in the environment", () => {
    const env = { TERTULIA_MODEL_URL: "http://127.0.0.1:1/v1", TERTULIA_MODEL_NAME: "m" };
    expect(refusal("default_agent: ada", { env })).toBe(
      'config.yaml:1: default_agent: "ada" is not allowed; allowed: main',
    );
  });

  test("E2: a wrong value is refused also where a higher layer hides it", () => {
    const env = { TERTULIA_PORT: "70000" };
    const lines = refusal("http: { port: eighty }", { env, flags: { port: "80" } }).split("\n");
    expect(lines.slice(1)).toEqual([
      expect.stringMatching(/^config.yaml:1: http.port: "eighty" /),
      expect.stringMatching(/^TERTULIA_PORT: http.port: 70000 /),
    ]);
  });

  test("E2: what looks like a secret, or comes from a variable, is not shown", () => {
    const secrets = { A: "variable-secret" };
    const yaml = [
      "people:",
      "  alice: { tokens: [short-secret] }",
      "  bob: { tokens: same-secret-same }",
      "  carol: { token: single-secret-1 }",
      "http: { token: token-secret }",
      "api_key: key-secret",
      `log: { level: "\${A}" }`,
    ].join("\n");
    const message = refusal(yaml, { env: secrets });
    expect(message.split("\n")).toHaveLength(7);
    expect(message).not.toMatch(/secret/);
    expect(message).toContain(
      "config.yaml:2: people.alice.tokens.0: the value (not shown) is not allowed; allowed: at least 16",
    );
    expect(message).toContain(`config.yaml:7: log.level: \${A} (from the environment) is not allowed`);
    const twice = refusal(`people: { a: { tokens: [${"secret".repeat(4)}] }, b: { tokens: [${"secret".repeat(4)}] } }`);
    expect(twice).toBe(
      "config.yaml:1: people.b.tokens.0: the value (not shown) is not allowed; allowed: a token given only once",
    );
    expect(refusal('a: "b" sk-secret')).not.toMatch(/secret/);
  });

  test("E2: what an address or a header may hide is not shown, and an address names no user", () => {
    const runtime = (more: string): string => `agents: { main: { runtime: { kind: http, model: m, ${more} } } }`;
    const allowed = "an address without user and password; what signs in belongs in `key` or `headers`";
    expect(refusal(runtime("base_url: 'https://me:hush@host/v1?k=hush'"))).toBe(
      `config.yaml:1: agents.main.runtime.base_url: "https://host/v1?…" is not allowed; allowed: ${allowed}`,
    );
    expect(refusal(runtime("base_url: 'https://hush@host/v1'"))).not.toContain("hush");
    for (const base_url of [
      "ftp://me:hush@host/hush",
      "me:hush@host",
      "host/v1?k=hush",
      "http://me:hush@",
      "http:hush@@",
    ]) {
      expect(refusal(runtime(`base_url: '${base_url}'`))).not.toContain(":hush");
      expect(refusal(runtime(`base_url: '${base_url}'`))).not.toContain("k=hush");
    }
    for (const headers of ["{ X-A: 4711 }", "[4711]", "'X-A: 4711'", "4711", "{ X-A: [4711] }"]) {
      expect(refusal(runtime(`preset: ollama, headers: ${headers}`))).not.toContain("4711");
    }
    const env = { TERTULIA_MODEL_URL: "https://me:hush@host/v1", TERTULIA_MODEL_NAME: "m" };
    expect(refusal("", { env })).toBe(`TERTULIA_MODEL_URL: needs ${allowed}`);
  });

  test("E2: a Hermes has an address before /v1 and a key", () => {
    const runtime = (more: string): string => `agents: { main: { runtime: { kind: hermes, ${more} } } }`;
    expect(load(runtime("key: k")).runtimes["hermes:main"]).toEqual({
      kind: "hermes",
      baseUrl: "http://127.0.0.1:8642",
      key: "k",
      idleTimeoutMs: 300_000,
    });
    expect(refusal(runtime("model: fast"))).toContain("agents.main.runtime.key: is missing");
    expect(refusal(runtime("key: k, base_url: 'http://127.0.0.1:8642/v1'"))).toContain("an address before /v1");
    expect(refusal(runtime("key: k, base_url: 'http://me:hush@127.0.0.1:8642'"))).not.toContain("hush");
  });

  test("B8: an agent over ACP is a preset, a command, or both; the environment goes on without what is the gateway's", () => {
    const agent = (more: string) => load(`agents: { main: { runtime: { kind: acp, ${more} } } }`).runtimes["acp:main"];
    expect(agent("preset: opencode")).toEqual({ kind: "acp", preset: "opencode", env: {} });
    expect(agent("command: mine, args: [-v], env: { A: b }, context_file: none")).toEqual({
      kind: "acp",
      command: "mine",
      args: ["-v"],
      env: { A: "b" },
      contextFile: null,
    });
    const refused = (more: string) => refusal(`agents: { main: { runtime: { kind: acp, ${more} } } }`);
    expect(refused("args: []")).toContain("preset or command is needed");
    expect(refused("preset: emacs")).toContain("demo, opencode, gemini, claude, codex, hermes, qwen");
    expect(refused("command: x, context_file: ../AGENTS.md")).toContain("a file name such as AGENTS.md, or none");
    expect(refused("command: x, env: { 1A: b }")).toContain("the name of a variable");
    // F-ACP-01: 0 is said by 0ms, as every duration is.
    expect(agent("command: mine, quiet_time: 0ms")).toMatchObject({ quietTimeMs: 0 });
    expect(agent("preset: gemini, quiet_time: 250ms")).toMatchObject({ quietTimeMs: 250 });
    for (const odd of ["501ms", "1s", "0", "-1ms"])
      expect(refused(`command: x, quiet_time: ${odd}`)).toContain("a duration from 0ms to 500ms");
    expect(
      inheritedEnvironment({ PATH: "/bin", TERTULIA_MODEL_KEY: "k", TERTULIA_HOME: "/h", NOTHING: undefined }),
    ).toEqual({
      PATH: "/bin",
    });
  });

  test("E2: the configuration is frozen through and through", () => {
    const config = load("people: { alice: { tokens: [0123456789abcdef] } }\nreset: { types: { dm: { mode: daily } } }");
    const loose: string[] = [];
    const walk = (value: unknown, path: string) => {
      if (typeof value !== "object" || value === null) return;
      if (!Object.isFrozen(value)) loose.push(path);
      for (const [key, inner] of Object.entries(value)) walk(inner, `${path}.${key}`);
    };
    walk(config, "config");
    expect(loose).toEqual([]);
    expect(config.people.alice).toEqual({ id: "alice", role: "member", accounts: [], tokens: ["0123456789abcdef"] });
    expect(config.agents.constructor).toBeUndefined();
  });
});

describe("G-CFG-01: bad values do not pass the start", () => {
  const policy = (key: string, value: string) => `reset:\n  default:\n    mode: both\n    ${key}: ${value}\n`;

  test.each(["-5", "0", '"abc"', '"30"', "null", "1e12"])("E2: G-CFG-01: idle_minutes: %s", (value) => {
    const shown = value === "1e12" ? "1000000000000" : value;
    expect(refusal(policy("idle_minutes", value))).toBe(
      `config.yaml:4: reset.default.idle_minutes: ${shown} is not allowed; allowed: a whole number from 1 to 525600`,
    );
  });

  test.each(["24", "-1", '"4"'])("E2: G-CFG-01: at_hour: %s", (value) => {
    expect(refusal(policy("at_hour", value))).toBe(
      `config.yaml:4: reset.default.at_hour: ${value} is not allowed; allowed: a whole number from 0 to 23`,
    );
  });

  test("E2: G-CFG-01: a misspelt time zone", () => {
    const said =
      '"Asia/Shangai" is not allowed; allowed: an IANA time zone such as Europe/Berlin; did you mean Asia/Shanghai?';
    expect(refusal(policy("timezone", "Asia/Shangai"))).toBe(`config.yaml:4: reset.default.timezone: ${said}`);
    expect(refusal("timezone: Asia/Shangai")).toBe(`config.yaml:1: timezone: ${said}`);
  });

  test.each([
    ["Daily", "; did you mean daily?"],
    ["idel", "; did you mean idle?"],
    ["", ""],
  ])("E2: G-CFG-01: mode: %j", (mode, hint) => {
    expect(refusal(`reset: { default: { mode: "${mode}" } }`)).toBe(
      `config.yaml:1: reset.default.mode: "${mode}" is not allowed; allowed: none, idle, daily, both${hint}`,
    );
  });

  test("E2: G-CFG-01: a limit above its cap is refused, and the cap itself holds", () => {
    expect(load("turn: { max_waiting_turns: 1000 }").turn.maxWaitingTurns).toBe(1000);
    expect(refusal("turn: { max_waiting_turns: 1001 }")).toContain("allowed: a whole number from 1 to 1000");
    expect(refusal("turn: { max_messages_per_turn: 10001 }")).toContain("allowed: a whole number from 1 to 10000");
  });

  test("E2: G-CFG-01: a pool of size 0", () => {
    expect(refusal("pool: { max_warm: 0 }")).toBe(
      "config.yaml:1: pool.max_warm: 0 is not allowed; allowed: a whole number from 1 to 10000",
    );
  });

  test("E2: G-CFG-01: no duration is longer than a timer can hold", () => {
    const durations = configKeys().filter(({ allowed }) => allowed.startsWith("a duration"));
    expect(durations).toHaveLength(11);
    for (const { path } of durations.filter((key) => !key.path.includes("*"))) {
      const [section, key] = path.split(".");
      expect(refusal(`${section}: { ${key}: 25d }`)).toContain(`${path}: "25d" is not allowed`);
      expect(refusal(`${section}: { ${key}: 2147483648ms }`)).toContain(`${path}: "2147483648ms" is not allowed`);
      expect(refusal(`${section}: { ${key}: 0s }`)).toContain(`${path}: "0s" is not allowed`);
    }
    expect(load("turn: { turn_timeout: 7d, stop_grace: 100ms }").turn).toMatchObject({
      turnTimeoutMs: 604_800_000,
      stopGraceMs: 100,
    });
  });

  test("E2: G-CFG-01: limits without a mode, which would have no effect, are refused", () => {
    for (const layer of ["default", "platforms: { weixin", "types: { group", "chats: { 'agent:main:telegram:dm:99'"]) {
      const yaml = `reset: { ${layer}: { idle_minutes: 30 } ${layer.includes("{") ? "}" : ""} }`;
      expect(refusal(yaml)).toMatch(/mode: is missing; allowed: none, idle, daily, both/);
    }
  });
});

describe("G-CFG-02: one default, and overrides that hold", () => {
  const template = readFileSync(new URL("../../config.example.yaml", import.meta.url), "utf8");
  const documentation = readFileSync(new URL("../../docs/configuration.md", import.meta.url), "utf8");

  test("E2: G-CFG-02: the shipped template, unchanged, says what no file says", () => {
    const { files: _, origins: __, ...without } = load();
    const { files: ___, origins: ____, ...withTemplate } = load(template);
    expect(withTemplate).toEqual(without);
    expect(withTemplate.reset.default.mode).toBe("none");
  });

  test("E2: G-CFG-02: the template holds every key with its default", () => {
    const uncommented = template.replace(/^#(?!#)/gm, "");
    writeFileSync(join(home, "persona.md"), "You are Main.");
    load(uncommented, {
      env: {
        ALICE_TOKEN: "0123456789abcdef",
        METRICS_TOKEN: "fedcba9876543210",
        MODEL_KEY: "k",
        MAIN_PASSWORD: "p",
        API_SERVER_KEY: "k",
      },
    });
    const tree: unknown = parse(uncommented);
    for (const { path, fallback } of configKeys()) {
      if (isOverride(path)) continue;
      const values = valuesAt(tree, path.split("."));
      expect(values, path).not.toEqual([]);
      if (fallback !== undefined && !path.includes("*")) expect(values, path).toEqual([fallback]);
    }
  });

  test("E2: G-CFG-02: the documentation has every key, its default and its range, and no other", () => {
    const rows = documentation
      .split("\n")
      .filter((line) => line.startsWith("| `"))
      .map((line) => line.split("|").map((cell) => cell.trim()));
    const documented = rows.map(([, key, fallback, range]) => ({
      key: key?.replaceAll("`", "").replace(/<\w+>/, "*"),
      fallback,
      range,
    }));
    const expected = configKeys().flatMap(({ path, fallback, allowed }) => {
      if (isOverride(path)) {
        const isFirst = path.endsWith(".mode");
        return isFirst ? [{ key: path.replace(".mode", ""), fallback: "–", range: "the keys of `reset.default`" }] : [];
      }
      const shown = fallback === undefined ? "–" : `\`${Array.isArray(fallback) ? "[]" : String(fallback)}\``;
      return [{ key: path, fallback: shown, range: allowed }];
    });
    expect(documented).toEqual(expected);
  });

  test("B7: a runtime has a name of its own, or that of its agent; chat goes over platform over agent", () => {
    const config = load(
      `runtimes: { local: { kind: http, preset: ollama, model: m } }
agents: { main: { runtime: local }, nova: { runtime: { kind: http, preset: vllm, model: n } } }
platforms: { telegram: { runtime: demo } }
chats: { "agent:main:telegram:dm:99": { runtime: local } }`,
    );
    expect(Object.keys(config.runtimes).sort()).toEqual(["demo", "http:nova", "local"]);
    const at = (agent: string, key: string, platform: "telegram" | "console") =>
      defaultRuntimeOf(config, { agent, key, platform }).name;
    expect(at("main", "agent:main:console:dm:x", "console")).toBe("local");
    expect(at("main", "agent:main:telegram:dm:1", "telegram")).toBe("demo");
    expect(at("main", "agent:main:telegram:dm:99", "telegram")).toBe("local");
    expect(at("nova", "agent:nova:console:dm:x", "console")).toBe("http:nova");
  });

  const isOverride = (path: string) => /^reset\.(platforms|types|chats)\./.test(path);

  const forWeixin = "platforms: { weixin: { mode: idle, idle_minutes: 30 } }";
  const forGroups = "types: { group: { mode: daily, at_hour: 5 } }";
  const source: Source = {
    platform: "weixin",
    account: "me",
    chatId: "r",
    chatType: "group",
    userId: "u",
    isBot: false,
  };

  test.each([
    ["", "none", "reset.default"],
    [forWeixin, "idle", "reset.platforms.weixin"],
    [forGroups, "daily", "reset.types.group"],
    [`${forWeixin}, ${forGroups}`, "idle", "reset.platforms.weixin"],
    [
      `${forWeixin}, ${forGroups}, chats: { "agent:main:weixin:group:r:user:u": { mode: both } }`,
      "both",
      "reset.chats.agent:main:weixin:group:r:user:u",
    ],
  ])("R1: G-CFG-02: reset: { %s } gives %s for a group of Weixin", (layers, mode, from) => {
    const config = load(`timezone: Asia/Tokyo\nreset: { ${layers} }`);
    const effective = rulesFor(config, { agent: "main", source });
    expect(effective.rules.reset.mode).toBe(mode);
    expect(effective.from.reset).toBe(from);
    expect(effective.rules.reset.timezone).toBe("Asia/Tokyo");
  });

  test("R1: G-CFG-02: policies are whole: nothing is taken from the default one", () => {
    const yaml = `reset: { default: { mode: both, idle_minutes: 5, at_hour: 9, notify: false }, types: { dm: { mode: idle } } }`;
    expect(load(yaml).reset.types.dm).toMatchObject({ mode: "idle", idleMinutes: 1440, atHour: 4, notify: true });
  });
});

describe("C1, C5: what agents are told", () => {
  test("C1 C5 homes, the owner's words and redaction are as written", () => {
    const config = load(
      `platforms: { telegram: { home: "-100", prompt: No tables. } }\nchats: { "agent:main:telegram:dm:99": { prompt: Hi. } }\nredact_pii: true`,
    );
    expect(config.platforms.telegram).toEqual({ home: "-100", prompt: "No tables." });
    expect(config.chats["agent:main:telegram:dm:99"]).toEqual({ prompt: "Hi." });
    expect(config.redactPii).toBe(true);
    expect(load("").redactPii).toBe(false);
  });

  test("C1 S1 E2 a home is a chat id in quotes, on a platform that can be written to", () => {
    expect(refusal("platforms: { telegram: { home: -100 } }")).toContain("allowed: a chat id in quotes");
    expect(refusal('platforms: { console: { home: "owner/main" } }')).toContain("platforms.console.home");
  });
});

describe("T5: the rules of one message", () => {
  const key = "agent:main:telegram:dm:99";
  const layers = [
    `turn: { busy_mode: queue, debounce_ms: 5 }`,
    `agents: { main: { runtime: { kind: demo }, busy_mode: steer, default_session: s-1, handoff_ttl: 5m } }`,
    `platforms: { telegram: { busy_mode: interrupt, debounce_ms: 0 } }`,
    `chats: { "${key}": { busy_mode: reject } }`,
  ];

  test.each([
    [0, "collect", "turn.busy_mode"],
    [1, "queue", "turn.busy_mode"],
    [2, "steer", "agents.main.busy_mode"],
    [3, "interrupt", "platforms.telegram.busy_mode"],
    [4, "reject", `chats.${key}.busy_mode`],
  ])("T5: busy mode with %i layers set is %s", (count, mode, from) => {
    const config = load(layers.slice(0, count).join("\n"));
    const found = rulesFor(config, { agent: "main", source: dm, key });
    expect([found.rules.busyMode, found.from.busyMode]).toEqual([mode, from]);
    expect(rulesFor(config, { agent: "main", source: dm })).toEqual(found);
  });

  test("T5: over HTTP it is always queue", () => {
    const source: Source = { platform: "http", account: "http", chatId: "owner/a", chatType: "dm", isBot: false };
    const found = rulesFor(load(layers.join("\n")), { agent: "main", source });
    expect([found.rules.busyMode, found.from.busyMode]).toEqual(["queue", "T5"]);
  });

  test("T5: everything an admit needs, and where it comes from", () => {
    const found = rulesFor(load(layers.join("\n")), { agent: "main", source: dm });
    expect(found.rules).toMatchObject({
      keys: { groupSessionsPerUser: true, threadSessionsPerUser: false, threadScope: "thread", dmScope: "chat" },
      debounceMs: 0,
      maxWaitingTurns: 20,
      maxMessagesPerTurn: 200,
      defaultSession: "s-1",
    });
    expect(found.from).toMatchObject({
      debounceMs: "platforms.telegram.debounce_ms",
      defaultSession: "agents.main.default_session",
    });
  });

  test("K5: without a key a source needs an address; an agent must exist", () => {
    const { chatId: _, ...nowhere } = dm;
    expect(() => rulesFor(load(), { agent: "main", source: nowhere })).toThrow(/chat_id/);
    expect(() => rulesFor(load(), { agent: "constructor", source: dm })).toThrow('There is no agent "constructor".');
  });

  test("K12: with dm_scope person the key is the person's", () => {
    const config = load(`session: { dm_scope: person }\nchats: { "agent:main:person:alice": { busy_mode: reject } }`);
    expect(rulesFor(config, { agent: "main", source: dm, personId: "alice" }).rules.busyMode).toBe("reject");
    expect(rulesFor(config, { agent: "main", source: dm }).rules.busyMode).toBe("collect");
  });
});

function valuesAt(tree: unknown, [key, ...rest]: readonly string[]): unknown[] {
  if (key === undefined) return [tree];
  if (typeof tree !== "object" || tree === null) return [];
  const inner = tree as Record<string, unknown>;
  if (key === "*") return Object.values(inner).flatMap((value) => valuesAt(value, rest));
  return Object.hasOwn(inner, key) ? valuesAt(inner[key], rest) : [];
}

// Keys that mean the same elsewhere or in everyday words, keys in another section, and keys of another kind of runtime.
describe("F-CFG-03: a key that is none is told what was meant", () => {
  test.each([
    ["turn: { idle_timeout: 5m }", "turn.idle_timeout: unknown key; did you mean turn.turn_idle_timeout?"],
    ["turn: { timeout: 5m }", "did you mean turn.turn_timeout?"],
    ["turn: { busyMode: queue }", "did you mean turn.busy_mode?"],
    ["session_resets: { mode: daily }", "session_resets: unknown key; did you mean reset?"],
    ["session-reset: {}", "did you mean reset?"],
    ["pool: { max_idle_minutes: 5 }", "did you mean pool.idle_minutes?"],
    ["loglevel: info", "did you mean log.level?"],
    ["tz: UTC", "did you mean timezone?"],
    ["users: {}", "did you mean people?"],
    ["allow_from: []", "did you mean access?"],
    ["access: { xmpp: { allow_from: [] } }", "did you mean access.xmpp.people?"],
    ["agents: { main: { runtime: { kind: demo }, system_prompt: x } }", "did you mean agents.main.prompt?"],
    ["agents: { main: { runtime: { kind: demo }, model: x } }", "did you mean agents.main.runtime.model?"],
    ["runtimes: { x: { kind: http, preset: ollama, model: y, max_tokens: 9 } }", "did you mean runtimes.x.max_output?"],
    ["runtimes: { x: { kind: http, model: y, url: 'http://x' } }", "did you mean runtimes.x.base_url?"],
    [
      "agents: { main: { runtime: { kind: demo, model: x } } }",
      "agents.main.runtime.model: unknown key; it belongs to kind http and hermes, and this is kind demo",
    ],
    [
      "runtimes: { x: { kind: acp, preset: demo, base_url: y } }",
      "it belongs to kind http and hermes, and this is kind acp",
    ],
    ["runtimes: { x: { kind: hermes, key: k, command: y } }", "it belongs to kind acp, and this is kind hermes"],
    ["agents: { main: { runtime: { kind: ollama } } }", "did you mean { kind: http, preset: ollama }?"],
    ["agents: { main: { runtime: { kind: opencode } } }", "did you mean { kind: acp, preset: opencode }?"],
    ["zzz: 1", "zzz: unknown key; allowed: timezone, http"],
    ["constructor: 1", "constructor: unknown key; allowed: timezone"],
    ["pool: { toString: 1, valueOf: 2 }", "pool.toString: unknown key; allowed: idle_minutes"],
  ])("F-CFG-03 %s", (yaml, expected) => {
    expect(refusal(yaml)).toContain(expected);
  });
});

// What people write in YAML by mistake: each with its line, our words and what to write; never the library's, never a value.
describe("F-CFG-07: what is no YAML", () => {
  test.each([
    [`a: { key: \${X} }`, `1: \${X} inside { } or [ ] wants quotes around it: "\${X}"`],
    [`a: 1\nb: [ \${X}, 2 ]\nc: 3`, `2: \${X} inside { } or [ ] wants quotes around it: "\${X}"`],
    [`a: { key: x,\n  other:\n    \${X} }`, `3: \${X} inside { } or [ ] wants quotes around it: "\${X}"`],
    [`a: [\n  one,\n  \${X},\n  two ]`, `3: \${X} inside { } or [ ] wants quotes`],
    [`a: { key: "{", b: 'it''s', c: \${X:-y} }`, `1: \${X:-y} inside { } or [ ] wants quotes`],
    [`a: { key: http://\${X}/v1 }`, `1: a value with \${X} in it, inside { } or [ ], wants quotes around it`],
    [`a: { key:\${X} }`, `1: a value with \${X} in it, inside { } or [ ], wants quotes around it`],
    [`a: say { and \${X}\nb: "x`, "2: a quote is not closed"],
    ["pool:\n\tmax_warm: 3", "2: a tab stands at the beginning of the line; indent it with spaces"],
    ["pool:\n  max_warm: 3\n\tidle_minutes: 2", "3: a tab stands at the beginning of the line"],
    ["pool:\n  max_warm: 3\n  max_warm: 4", "3: pool.max_warm: stands twice, first in line 2; keep one"],
    ["pool: { max_warm: 3, max_warm: 4 }", "1: pool.max_warm: stands twice, first in line 1"],
    ["welcome: true\nwelcome: true", "2: welcome: stands twice, first in line 1"],
    ["pool:\n   max_warm: 3\n  idle_minutes: 2", "3: this line begins in another column than its neighbours"],
    ["pool: { max_warm: 3\n", "a { or a [ is not closed"],
    ["timezone: a: b", "1: there are two `: ` in one line"],
    ['timezone: "Europe/Berlin\n', "a quote is not closed"],
    ["timezone: 'it's'", "1: something follows the value that does not belong to it; put the whole value in quotes"],
    ["timezone: @secret", "1: a value that begins with @ wants quotes around it"],
    ["timezone: *secret", "1: timezone: names nothing that stands before it; a value that begins with * wants quotes"],
    ['timezone: "C:\\Users"', "1: a \\ between double quotes begins an escape"],
    ["welcome:true\npool: {}", "1: this is no `key: value`"],
    ["welcome: true\n---\npool: {}", "2: --- begins a second document"],
  ])("F-CFG-07 %j", (yaml, expected) => {
    const said = refusal(yaml);
    expect(said).toContain(`config.yaml:${/^\d/.test(expected) ? expected : ""}`);
    expect(said).toContain(expected);
    expect(said).not.toMatch(/secret|implicit|flow|scalar|token|collection|stream/i);
  });

  test("F-CFG-07 of a file with several variables without quotes each line is named, once", () => {
    const said = refusal(`a: { key: \${X}, b: 1 }\nb: 2\nc: { d: \${Y} }\ne: ["\${Z}"]`);
    expect(said.split("\n").slice(1)).toEqual([
      expect.stringMatching(/^config.yaml:1: \$\{X\}/),
      expect.stringMatching(/^config.yaml:3: \$\{Y\}/),
    ]);
  });
});

// Ids that no message can have, wherever an account, a bot, a room or a conversation is named: by a person's or a room's name, with a
// resource, by a handle, by a key of another form.
describe("F-CFG-01: an id that can never be met is refused, with the form that would be", () => {
  const ALICE = "people: { alice: { accounts: [{ platform: xmpp, id: ";
  test.each([
    ["access: { xmpp: { people: [Alice] } }", 'access.xmpp.people.0: "Alice" is not allowed', "alice@example.org"],
    ["access: { xmpp: { people: [a@x.org, alice@x.org/phone] } }", "access.xmpp.people.1", "as in alice@x.org"],
    ["access: { xmpp: { people: ['xmpp:alice@x.org'] } }", "access.xmpp.people.0", "alone, as in alice@x.org"],
    ["access: { xmpp: { people: ['<mailto:Alice@X.org>'] } }", "access.xmpp.people.0", "alone, as in alice@x.org"],
    ["access: { xmpp: { rooms: ['xmpp:core@muc.x.org?join'] } }", "access.xmpp.rooms.0", "alone, as in core@muc.x.org"],
    ["access: { xmpp: { people: ['*@x.org'] } }", "access.xmpp.people.0", "alice@example.org"],
    [`${ALICE}Alice }] } }`, 'people.alice.accounts.0.id: "Alice" is not allowed', "alice@example.org"],
    [`${ALICE}Alice@X.org/phone }] } }`, "people.alice.accounts.0.id", "as in alice@x.org"],
    ["access: { xmpp: { bots: [weather@x.org/bot] } }", "access.xmpp.bots.0", "as in weather@x.org"],
    ["access: { xmpp: { rooms: [core] } }", "access.xmpp.rooms.0", "as in core@conference.example.org"],
    ["access: { xmpp: { rooms: [core@muc.x.org/nick] } }", "access.xmpp.rooms.0", "as in core@muc.x.org"],
    ["rooms: { core: { platform: xmpp, chat: core } }", "rooms.core.chat", "as in core@conference.example.org"],
    ["platforms: { xmpp: { home: core } }", "platforms.xmpp.home", "as in core@conference.example.org"],
    ["access: { telegram: { people: ['@alice'] } }", "access.telegram.people.0", 'as in "42"'],
    ["chats: { 'agent:main:xmpp:dm:Alice%40x.org': { prompt: x } }", "chats.", "agent:main:xmpp:dm:alice%40x.org"],
    [
      "reset: { chats: { 'agent:main:xmpp:group:core%40muc.x.org': { mode: none } } }",
      "reset.chats.",
      "agent:main:xmpp@muc.x.org:group:core%40muc.x.org",
    ],
    ["rooms: { tea: { conversation: 'agent:main:xmpp:dm:alice' } }", "rooms.tea.conversation", "alice@example.org"],
  ])("F-CFG-01 %s", (yaml, at, form) => {
    const said = refusal(yaml);
    expect(said).toContain(at);
    expect(said).toContain(form);
  });

  test("F-CFG-01 what can be met is taken, in any case of letters", () => {
    const yaml = `${ALICE}Alice@X.org }] } }
access: { xmpp: { people: [bob@x.org], bots: [bridge.x.org], rooms: [core@muc.x.org] }, telegram: { people: ["42"] } }
chats: { 'agent:main:xmpp@muc.x.org:group:core%40muc.x.org': { prompt: x } }`;
    expect(load(yaml).people.alice?.accounts).toEqual([{ platform: "xmpp", id: "alice@x.org" }]);
  });
});

describe("F-CFG-04: one fault hides no other", () => {
  test("F-CFG-04 variables that are not set, a wrong value, an unknown key and what refers to nothing are said together", () => {
    const lines = refusal(`
default_agent: nobody
people: { bob: { tokens: ["\${ONE}"], accounts: [{ platform: xmpp, id: Bob }] } }
agents:
  main: { runtime: { kind: http, preset: ollama, model: x, key: "\${TWO}" }, home_room: nowhere, persona: none.md }
  ada: { runtime: { kind: http, windo: 3 }, accounts: [{ platform: xmpp, jid: wrong }], home_room: core@x.org }
pool: { max_warm: 0 }
turn: { busy_mode: quue }
`).split("\n");
    for (const path of [
      "people.bob.tokens.0",
      "agents.main.runtime.key",
      "agents.ada.runtime.windo",
      "pool.max_warm",
      "turn.busy_mode",
      "default_agent",
      "people.bob.accounts.0.id",
      "agents.main.home_room",
      "agents.main.persona",
      "agents.ada.accounts.0.jid",
    ])
      expect(
        lines.filter((line) => line.includes(`: ${path}: `)),
        path,
      ).toHaveLength(1);
    // Its accounts are wrong: whether one is in that room cannot be said.
    expect(lines.join()).not.toContain("agents.ada.home_room");
  });

  test.each([
    "agents: 5\ndefault_agent: ada",
    "rooms: [1]\nagents: { main: { runtime: { kind: demo }, home_room: x } }",
  ])("F-CFG-04 what follows from a fault is not said: %j", (yaml) => {
    expect(refusal(yaml).split("\n")).toHaveLength(1);
  });
});
