/** One judge of the configuration, asked by every command; and what the commands of a running gateway do with a broken file. */
import { mkdirSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { judged } from "../../src/gateway/judge.ts";
import { type RunningGateway, startGateway } from "../../src/gateway/start.ts";
import { silentLog } from "../../src/util/log.ts";
import { temporaryFolder } from "../support/store.ts";
import { tertulia as call } from "../support/tertulia.ts";

const KITCHEN = "agent:mohe:web:dm:owner%2Fkitchen";
const GOOD = `http: { port: 0 }\nwelcome: false\nagents: { mohe: { runtime: { kind: demo }, home_room: kitchen } }\nrooms: { kitchen: { conversation: "${KITCHEN}" } }\n`;

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
let closers: (() => unknown)[];

beforeEach(() => {
  folder = temporaryFolder();
  home = join(folder.path, "home");
  mkdirSync(home, { mode: 0o700 });
  closers = [];
});

afterEach(async () => {
  for (const close of closers.reverse()) await close();
  folder.remove();
});

function config(yaml: string): void {
  writeFileSync(join(home, "config.yaml"), yaml);
}

function tertulia(...argv: string[]) {
  return call("--home", home, ...argv);
}

async function start(env: Record<string, string> = {}): Promise<RunningGateway> {
  const request = { flags: { home }, env: { HOME: home, ...env } };
  const gateway = await startGateway({ config: judged(request).config, log: silentLog });
  closers.push(() => gateway.stop());
  return gateway;
}

interface Finding {
  readonly check: string;
  readonly state: string;
  readonly text: string;
}

async function findings(): Promise<Finding[]> {
  return JSON.parse((await tertulia("doctor", "--json")).out).findings;
}

async function takenPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  closers.push(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  return (server.address() as AddressInfo).port;
}

// By the schema, by a runtime, by the machine: each command says the same line and none says that all is well.
describe("F-CFG-04 E6: start, check and doctor refuse the same, at its line", () => {
  test.each([
    ["http: { port: 0 }\npool: { max_warm: 0 }\n", /config\.yaml:2: pool\.max_warm: /, 2],
    [
      "http: { port: 0 }\nagents:\n  main:\n    runtime: { kind: http, model: x,\n      base_url: 'http://127.0.0.1:1/v1/chat/completions' }\n",
      /config\.yaml:5: agents\.main\.runtime\.base_url: /,
      2,
    ],
    [
      "http: { port: 0 }\naccess: { xmpp: { people: [Alice] } }\n",
      /config\.yaml:2: access\.xmpp\.people\.0: "Alice"/,
      2,
    ],
    [
      "http: { port: 0 }\npeople: { bob: { accounts: [{ platform: xmpp, id: bob@x.org/phone }] } }\n",
      /config\.yaml:2: people\.bob/,
      2,
    ],
    [
      "http:\n  port: 0\n  host: 192.0.2.1\n",
      /config\.yaml:3: http\.host: 192\.0\.2\.1 is not an address of this machine/,
      3,
    ],
    ["http:\n  port: 0\n  host: no-such-host.invalid\n", /config\.yaml:3: http\.host: /, 3],
    ["timezone: *x\n", /config\.yaml:1: timezone: /, 2],
    ["a: {\n", /config\.yaml:\d: a \{ or a \[ is not closed/, 2],
  ])("F-CFG-04 F-CFG-01 %j", async (yaml, line, exit) => {
    config(yaml);
    const refused = await tertulia("start");
    const checked = await tertulia("config", "check");
    const looked = await tertulia("doctor");
    expect([refused.code, checked.code]).toEqual([exit, exit]);
    expect(looked.code).not.toBe(0);
    for (const said of [refused.err, checked.err, looked.out]) expect(said).toMatch(line);
    expect(checked.out).not.toContain("good");
  });

  test("F-CFG-04 a port that another program has; one of this home's gateway is its own", async () => {
    config(`http:\n  port: ${await takenPort()}\n`);
    for (const command of [["start"], ["config", "check"]])
      expect(await tertulia(...command)).toMatchObject({
        code: 3,
        err: expect.stringMatching(/^port_taken: \S+config\.yaml:2: http\.port: Port \d+ on 127\.0\.0\.1 is used/),
      });
    expect((await findings()).find(({ check }) => check === "address")).toMatchObject({ state: "unusable" });
    config("http: { port: 0 }\n");
    const { url } = await start();
    config(`http: { port: ${new URL(url).port} }\n`);
    expect((await tertulia("config", "check")).code).toBe(0);
  });

  test("F-CFG-04 a home that is a file, a token that is none", async () => {
    writeFileSync(join(folder.path, "file"), "mine");
    for (const command of [["start", "--port", "0"], ["config", "check"], ["doctor"]]) {
      const { code, out, err } = await call("--home", join(folder.path, "file"), ...command);
      expect(code).not.toBe(0);
      expect(out + err).toContain(join(folder.path, "file"));
    }
    config("http: { port: 0 }\n");
    writeFileSync(join(home, "token"), "short\n", { mode: 0o600 });
    for (const command of [["start"], ["config", "check"], ["doctor"]]) {
      const { code, out, err } = await tertulia(...command);
      expect(code).toBe(3);
      expect(out + err).toContain("holds no usable token");
    }
  });

  test("F-CFG-02 what has no effect is said by check and doctor, and is no failure", async () => {
    config(
      "http: { port: 0 }\nreset: { default: { mode: none, idle_minutes: 5 } }\nagents: { main: { runtime: { kind: demo }, default_session: s-1 } }\n",
    );
    const { code, out } = await tertulia("config", "check");
    expect(code).toBe(0);
    expect(out).toMatch(/Warning: \S+config\.yaml:2: reset\.default\.idle_minutes: has no effect: mode none/);
    expect(out).toMatch(
      /Warning: \S+config\.yaml:3: agents\.main\.default_session: has no effect: there is no session s-1/,
    );
    expect(JSON.parse((await tertulia("config", "check", "--json")).out).warnings).toHaveLength(2);
    const warned = (await findings()).filter(({ check, state }) => check === "configuration" && state === "warn");
    expect(warned).toHaveLength(2);
  });
});

// Every command that only talks to the gateway, with each way in which the file can be broken.
describe("F-CFG-05: commands of a running gateway work with a broken file", () => {
  test.each([
    "agents: {\n",
    "foo: 1\n",
    "agents: { mohe: { runtime: { kind: nothing } } }\n",
    `timezone: \${NOT_SET}\n`,
    "- a\n",
  ])("F-CFG-05 %j", async (broken) => {
    config(GOOD);
    await start();
    const first = await tertulia("chat", "-q", "say hello");
    expect(first).toMatchObject({ code: 0, out: "hello\n" });
    const [session] = JSON.parse((await tertulia("sessions", "list", "--json")).out).sessions;
    config(broken);
    for (const command of [
      ["chat", "-q", "say still here"],
      ["sessions"],
      ["sessions", "--warm"],
      ["sessions", "show", session.id],
      ["sessions", "park", session.id],
      ["send", "Dinner.", "--session", session.id],
      ["send", "kitchen", "Dinner.", "--no-session"],
      ["handoff", "show"],
      ["handoff", "clear"],
      ["context", "kitchen"],
      ["runtimes"],
      ["runtimes", "use", "kitchen", "demo"],
    ]) {
      const { code, err } = await tertulia(...command);
      expect({ command, code }).toEqual({ command, code: 0 });
      expect(err).toMatch(/^\[The configuration has 1 problem: the running gateway is asked\. `tertulia config check`/);
    }
    expect((await tertulia("handoff", "show")).out).toContain("No room is bound");
    const looked = await findings();
    expect(looked).toContainEqual(expect.objectContaining({ check: "configuration", state: "fail" }));
    expect(looked).toContainEqual(expect.objectContaining({ check: "agent mohe", state: "ok" }));
    expect(await tertulia("start")).toMatchObject({ code: 2, err: expect.stringContaining("config_invalid") });
  });

  test("F-CFG-05 without a gateway the state is read all the same, and what needs a configuration says what is wrong", async () => {
    config(GOOD);
    await start();
    await tertulia("chat", "-q", "say hello");
    for (const close of closers.splice(0)) await close();
    config("foo: 1\n");
    expect(await tertulia("sessions")).toMatchObject({ code: 0, out: expect.stringContaining("mohe"), err: "" });
    expect(await tertulia("handoff", "show")).toMatchObject({ code: 0, err: "" });
    for (const command of [["chat", "-q", "hello"], ["context", KITCHEN], ["runtimes"], ["config", "check"]])
      expect(await tertulia(...command)).toMatchObject({ code: 2, err: expect.stringContaining("foo: unknown key") });
    expect(await tertulia("send", "kitchen", "x", "--no-session")).toMatchObject({
      code: 3,
      err: expect.stringMatching(/^gateway_down/),
    });
  });
});

// The gateway's environment and this shell's: a model by variables, an address by a flag; asked, and told apart.
describe("F-CFG-06: doctor asks the running gateway", () => {
  const MODEL = { TERTULIA_MODEL_URL: "http://127.0.0.1:1/v1", TERTULIA_MODEL_NAME: "qwen" };

  test("F-CFG-06 a model by the gateway's environment is what doctor looks at, and the difference is said", async () => {
    config("http: { port: 0 }\n");
    await start(MODEL);
    const [agent, difference] = (await findings()).filter(({ check }) => check === "agent main");
    expect(agent).toMatchObject({
      state: "fail",
      text: expect.stringContaining("runtime http:main, as the gateway runs it: "),
    });
    expect(difference).toMatchObject({
      state: "warn",
      text: "The gateway runs it on http:main (model qwen); by the configuration of this shell it would be demo.",
    });
    expect((await tertulia("runtimes")).out).toMatch(/http:main +http +fail/);
  });

  test("F-CFG-06 a variable of this shell alone changes nothing", async () => {
    config("http: { port: 0 }\n");
    await start();
    writeFileSync(join(home, ".env"), "TERTULIA_MODEL_URL=http://127.0.0.1:1/v1\nTERTULIA_MODEL_NAME=qwen\n");
    const [agent, difference] = (await findings()).filter(({ check }) => check === "agent main");
    expect(agent).toMatchObject({
      state: "ok",
      text: expect.stringMatching(/^runtime demo.*, as the gateway runs it: /),
    });
    expect(difference?.text).toBe(
      "The gateway runs it on demo; by the configuration of this shell it would be http:main (model qwen).",
    );
  });

  test("F-CFG-06 where nothing differs nothing is said, and without a gateway this shell's is looked at", async () => {
    config("http: { port: 0 }\n");
    await start();
    expect((await findings()).filter(({ check }) => check === "agent main")).toHaveLength(1);
    for (const close of closers.splice(0)) await close();
    expect((await findings()).find(({ check }) => check === "agent main")?.text).not.toContain("as the gateway");
  });
});
