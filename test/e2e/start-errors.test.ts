import { execFileSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, type TestContext, test } from "vitest";
import { type ErrorCode, TertuliaError } from "../../src/errors.ts";
import { checkFile } from "../../src/store/sqlite/sqlite-store.ts";
import { type Ended, type GatewayProcess, runCommand, startGateway } from "../support/gateway-process.ts";
import { exchange, fetchJson } from "../support/http-client.ts";
import { audit, Ledger } from "../support/ledger.ts";
import { temporaryFolder } from "../support/store.ts";

/** What the built command says when it cannot start, or cannot go on: a code, a sentence, a remedy, its exit code, and nothing damaged. */

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
const opened: (() => unknown)[] = [];

beforeEach(() => {
  folder = temporaryFolder();
  home = join(folder.path, "home");
  mkdirSync(home);
});

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
  folder.remove();
});

async function start(options: { args?: readonly string[] } = {}): Promise<GatewayProcess & { readonly url: string }> {
  const gateway = await startGateway({ home, ...options });
  opened.push(() => gateway.kill9());
  return gateway;
}

function startCommand(options: { home?: string; args?: readonly string[]; node?: string } = {}): Promise<Ended> {
  const { args = [], ...rest } = options;
  return runCommand({ home, ...rest, args: ["start", "--port", "0", ...args] });
}

/** E3: the code and a sentence, then the remedy; nothing else, and no stack. */
function expectRefusal(
  ended: Ended,
  refusal: { code: ErrorCode; exit: 2 | 3; says: readonly (string | RegExp)[] },
): void {
  const lines = ended.errors.split("\n").filter((line) => line !== "" && !line.startsWith('{"level":'));
  expect(lines[0]).toMatch(new RegExp(`^${refusal.code}: \\S`));
  expect(lines.length).toBeGreaterThanOrEqual(2);
  expect(lines.at(-1)!.length).toBeGreaterThan(20);
  for (const words of refusal.says) expect(ended.errors).toMatch(words);
  expect(ended.errors).not.toMatch(/^\s+at /m);
  expect(ended.out).toBe("");
  expect({ code: ended.code, signal: ended.signal }).toEqual({ code: refusal.exit, signal: null });
}

function remedyOf(code: ErrorCode): string {
  return new TertuliaError(code, "").remedy;
}

/** A state file with a conversation in it, of a gateway that has ended in order. */
async function writtenState(): Promise<string> {
  const gateway = await startGateway({ home });
  const ledger = new Ledger();
  for (let n = 1; n <= 5; n++) await ledger.say(gateway.url, { text: `say ${n}`, name: "before" }).exchange.done;
  await gateway.stop();
  return join(home, "state.db");
}

async function talk(url: string, text: string): Promise<number | undefined> {
  const body = { user: "somebody", messages: [{ role: "user", content: `say ${text}` }] };
  return (await exchange(url, { path: "/v1/chat/completions", body }).done)?.status;
}

// ---- one home, one port

test("E4 a second gateway on one home is told who holds it, and the first goes on", async () => {
  const first = await start();
  const second = await startCommand();
  const says = [`process ${first.pid}`, first.url, home, remedyOf("gateway_running")];
  expectRefusal(second, { code: "gateway_running", exit: 3, says });
  expect(await talk(first.url, "still here")).toBe(200);

  await first.kill9();
  const third = await start();
  expect(await talk(third.url, "the lock went with its holder")).toBe(200);
});

test("E3 a port that is taken is named, and the state is free again at once", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => other.once("listening", resolve));
  opened.push(() => other.close());
  const { port } = other.address() as AddressInfo;
  const refused = await startCommand({ args: ["--port", String(port)] });
  expectRefusal(refused, { code: "port_taken", exit: 3, says: [`${port}`, "127.0.0.1", remedyOf("port_taken")] });
  const gateway = await start();
  expect(await talk(gateway.url, "hello")).toBe(200);
});

// ---- the folder and the disk

test("E3 a home below a file cannot be made, and the file stays", async () => {
  const file = join(folder.path, "file");
  writeFileSync(file, "mine");
  const refused = await startCommand({ home: join(file, "home") });
  expectRefusal(refused, { code: "home_unwritable", exit: 3, says: [file, remedyOf("home_unwritable")] });
  expect(readFileSync(file, "utf8")).toBe("mine");
});

test("E3 a folder on a read-only disk is refused, and its state stays as it is", async (context) => {
  if (!mountTmpfs(context, home, "size=4m")) return;
  const state = await writtenState();
  const before = readFileSync(state);
  mount(["-o", "remount,ro", home]);
  expectRefusal(await startCommand(), { code: "home_unwritable", exit: 3, says: [home, remedyOf("home_unwritable")] });
  expect(readFileSync(state).equals(before)).toBe(true);
});

test("E3 on a full disk the start is refused, and the state that is there stays as it is", async (context) => {
  if (!mountTmpfs(context, home, "size=2m")) return;
  fillDisk(home);
  expectRefusal(await startCommand(), { code: "disk_full", exit: 3, says: [home, remedyOf("disk_full")] });
  rmSync(join(home, "filler"));

  const state = await writtenState();
  const before = readFileSync(state);
  fillDisk(home);
  expectRefusal(await startCommand(), { code: "disk_full", exit: 3, says: [home, remedyOf("disk_full")] });
  expect(readFileSync(state).equals(before)).toBe(true);
  rmSync(join(home, "filler"));
  const gateway = await start();
  expect(await talk(gateway.url, "hello")).toBe(200);
});

test("E3 a disk that fills up refuses messages with 503 while the loop lives, and the next message after space is freed works", async (context) => {
  if (!mountTmpfs(context, home, "size=2m")) return;
  const gateway = await start();
  const ledger = new Ledger();
  const running = ledger.say(gateway.url, { text: "slow 8 running", name: "running" });
  await ledger.say(gateway.url, { text: "say first", name: "full" }).exchange.done;
  fillDisk(home);

  // The journal may have a little room left in what it has already.
  const refused = [];
  for (let n = 0; refused.length < 3 && n < 500; n++) {
    const line = ledger.say(gateway.url, { text: `say ${"x".repeat(500)} ${n}`, name: "full" });
    const reply = await line.exchange.done;
    if (reply?.status !== 200) refused.push(reply);
  }
  for (const reply of refused) {
    // 424: there was room for the message, but not for its answer.
    expect([503, 424]).toContain(reply?.status);
    expect(JSON.parse(reply!.body)).toMatchObject({
      error: { code: "store_unavailable", message: expect.stringContaining("full"), remedy: expect.any(String) },
    });
  }
  expect(refused).toHaveLength(3);
  expect(await fetchJson(gateway.url, { path: "/health" })).toMatchObject({ status: 200, body: { ok: true } });
  expect(await fetchJson(gateway.url, { path: "/api/status" })).toMatchObject({ status: 200 });
  await gateway.logs("store_unavailable");

  rmSync(join(home, "filler"));
  expect(await talk(gateway.url, "after")).toBe(200);
  // Who waited was answered, or told that it cannot be stored now; the audit sees that its retry gets the answer.
  expect([200, 424]).toContain((await running.exchange.done)?.status);
  expect(await audit(gateway.url, ledger.lines)).toEqual([]);
  expect(await gateway.stop()).toMatchObject({ code: 0 });
  expect(checkFile(join(home, "state.db"))).toBe("ok");
});

// ---- the state file

test("E4 a file that is no database is refused and left as it is", async () => {
  const state = await writtenState();
  overwrite(state, 0, Buffer.from("This is a letter to my aunt, and no database at all.".repeat(4)));
  const before = readFileSync(state);
  const says = [state, remedyOf("store_corrupt")];
  expectRefusal(await startCommand(), { code: "store_corrupt", exit: 3, says });
  expect(readFileSync(state).equals(before)).toBe(true);
  expect(readdirSync(home).filter((name) => name.startsWith("state.db-"))).toEqual([]);
});

test.each(["message", "turn", "delivery_open", "sqlite_autoindex_session_1"])(
  "E4 a state file whose page of %s was overwritten is refused and left as it is",
  async (name) => {
    const state = await writtenState();
    const db = new DatabaseSync(state, { readOnly: true });
    const { rootpage } = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = ?").get(name) as {
      rootpage: number;
    };
    db.close();
    overwrite(state, (rootpage - 1) * 4096, Buffer.alloc(4096, 0xa5));
    const before = readFileSync(state);
    expectRefusal(await startCommand(), { code: "store_corrupt", exit: 3, says: [state] });
    expect(readFileSync(state).equals(before)).toBe(true);
  },
);

test("E4 a state file that was cut in the middle is refused and left as it is", async () => {
  const state = await writtenState();
  truncateSync(state, Math.floor(statSync(state).size / 8192) * 4096);
  const before = readFileSync(state);
  expectRefusal(await startCommand(), { code: "store_corrupt", exit: 3, says: [state] });
  expect(readFileSync(state).equals(before)).toBe(true);
});

test("E4, G-PER-04 an empty file is a new one", async () => {
  writeFileSync(join(home, "state.db"), "");
  const gateway = await start();
  expect(await talk(gateway.url, "hello")).toBe(200);
  expect(statSync(join(home, "state.db")).mode & 0o777).toBe(0o600);
});

test("E4 a file of a newer schema is refused with both numbers and left as it is", async () => {
  const state = await writtenState();
  const db = new DatabaseSync(state);
  db.exec("PRAGMA user_version = 999; PRAGMA wal_checkpoint(TRUNCATE)");
  db.close();
  const before = readFileSync(state);
  expectRefusal(await startCommand(), { code: "store_newer", exit: 3, says: [state, "999", remedyOf("store_newer")] });
  expect(readFileSync(state).equals(before)).toBe(true);
});

// ---- the configuration

test.each([
  { what: "an unknown key", yaml: "pool:\n  max_warn: 3\n", says: ["config.yaml:2", "pool", "max_warn", "max_warm"] },
  { what: "an unknown zone", yaml: "timezone: Europe/Atlantis\n", says: ["config.yaml:1", "timezone", "Atlantis"] },
  { what: "a wrong type", yaml: "http:\n  port: soon\n", says: ["config.yaml:2", "http.port", "soon", "65535"] },
  { what: "a number out of range", yaml: "http:\n  port: 70000\n", says: ["config.yaml:2", "http.port", "65535"] },
  {
    what: "a mode that is none",
    yaml: "reset:\n  default:\n    mode: weekly\n",
    says: ["config.yaml:3", "weekly", "daily"],
  },
  { what: "broken YAML", yaml: "http: {port: 1\n", says: ["config.yaml"] },
  { what: "a variable that is not set", yaml: `timezone: \${NOWHERE_SET}\n`, says: ["timezone", "NOWHERE_SET"] },
])(
  "E2 $what stops the start with file, key, value and what is allowed, before any state is made",
  async ({ yaml, says }) => {
    writeFileSync(join(home, "config.yaml"), yaml);
    // A port by flag would hide the one in the file.
    const refused = await runCommand({ home, args: ["start"] });
    expectRefusal(refused, { code: "config_invalid", exit: 2, says });
    expect(readdirSync(home)).toEqual(["config.yaml"]);
  },
);

// ---- the end, and an old Node

test("O6 SIGTERM in mid-turn tells both authors, ends with 0, and leaves no process and no open turn", async () => {
  const gateway = await start();
  const ledger = new Ledger();
  const streamed = ledger.say(gateway.url, {
    text: "slow 100 streamed",
    name: "streamed",
    way: "streamed",
    onWords: (chunks) => chunks === 3 && gateway.stop(),
  });
  const whole = ledger.say(gateway.url, { text: "slow 100 whole", name: "whole" });
  const ended = await gateway.ended;
  expect({ code: ended.code, signal: ended.signal }).toEqual({ code: 0, signal: null });
  expect(() => process.kill(gateway.pid, 0)).toThrow("ESRCH");
  expect(processesOf(home)).toEqual([]);
  await Promise.all([streamed.exchange.done, whole.exchange.done]);
  expect(whole.told?.status).toBe(424);
  expect(JSON.parse(whole.told!.body)).toMatchObject({ error: { code: "turn_interrupted" } });
  expect(streamed.told?.body).toContain('"code":"turn_interrupted"');
  expect(checkFile(join(home, "state.db"))).toBe("ok");

  const again = await start();
  for (const line of [streamed, whole]) {
    const retry = await exchange(again.url, {
      path: "/v1/chat/completions",
      headers: { "idempotency-key": line.key!, "x-tertulia-conversation": line.name },
      body: { messages: [{ role: "user", content: line.text }] },
    }).done;
    expect(retry?.status).toBe(424);
    const { body } = await fetchJson<{ answer: object }>(again.url, { path: `/api/messages/${line.messageId}` });
    expect(body.answer).toMatchObject({ state: "interrupted", reason: "shutdown" });
  }
});

test("E3 an old Node is told in one line which one is needed", async (context) => {
  const old = ["/usr/bin/node", "/usr/local/bin/node"].find((path) => existsSync(path) && majorOf(path) < 24);
  if (old === undefined) {
    await context.annotate("There is no Node older than 24 on this machine: what it is told was not tried.", "warning");
    return;
  }
  const refused = await startCommand({ node: old });
  expect(refused).toMatchObject({ code: 3, out: "" });
  expect(refused.errors).toMatch(/^tertulia needs Node 24 or newer, and this is \d+\.\d+\.\d+: .+\n$/);
});

function majorOf(node: string): number {
  return Number.parseInt(execFileSync(node, ["-p", "process.versions.node"], { encoding: "utf8" }), 10);
}

/** Processes that have this home in their environment. */
function processesOf(folderOfHome: string): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => environmentOf(pid).includes(`TERTULIA_HOME=${folderOfHome}`));
}

function environmentOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  } catch {
    return []; // It has just ended, or is somebody else's.
  }
}

// ---- disks

/** False, and a warning in the report, where this user may not mount. */
function mountTmpfs(context: TestContext, path: string, options: string): boolean {
  try {
    mount(["-t", "tmpfs", "-o", options, "tmpfs", path]);
  } catch (cause) {
    void context.annotate(
      `No tmpfs can be mounted here, so this was not tried: ${(cause as Error).message}`,
      "warning",
    );
    return false;
  }
  opened.unshift(() => asRoot("umount", [path]));
  return true;
}

function mount(args: readonly string[]): void {
  asRoot("mount", args);
}

function asRoot(command: string, args: readonly string[]): void {
  const isRoot = process.getuid?.() === 0;
  execFileSync(isRoot ? command : "sudo", isRoot ? args : ["-n", command, ...args], { stdio: "pipe" });
}

function fillDisk(path: string): void {
  const file = openSync(join(path, "filler"), "w");
  const block = Buffer.alloc(4096, 1);
  try {
    for (;;) writeSync(file, block);
  } catch (cause) {
    expect((cause as NodeJS.ErrnoException).code).toBe("ENOSPC");
  } finally {
    closeSync(file);
  }
}

function overwrite(path: string, at: number, bytes: Buffer): void {
  const file = openSync(path, "r+");
  writeSync(file, bytes, 0, bytes.length, at);
  closeSync(file);
}
