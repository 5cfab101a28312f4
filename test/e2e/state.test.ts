import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Ended, type GatewayProcess, runCommand, startGateway } from "../support/gateway-process.ts";
import { fetchJson } from "../support/http-client.ts";
import { temporaryFolder } from "../support/store.ts";

/** E5 with the built command: whatever becomes of state.db while no gateway runs, or under a running one. */

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
let state: string;
let running: GatewayProcess | null;

beforeEach(() => {
  folder = temporaryFolder();
  home = folder.path;
  state = join(home, "state.db");
  running = null;
});
afterEach(async () => {
  await running?.kill9();
  folder.remove();
});

async function start(): Promise<GatewayProcess & { readonly url: string }> {
  const gateway = await startGateway({ home });
  running = gateway;
  return gateway;
}
const command = (...args: string[]): Promise<Ended> => runCommand({ home, args });
const say = (url: string, text: string) =>
  fetchJson<{ choices?: { message: { content: string } }[]; error?: { code: string; message: string } }>(url, {
    path: "/v1/chat/completions",
    body: { user: "me", messages: [{ role: "user", content: text }] },
  });
const history = async (url: string) => (await say(url, "history")).body.choices![0]!.message.content;

/** Words in a file and in its log, as a kill leaves them; a backup from before. */
async function killed(): Promise<void> {
  const first = await start();
  await say(first.url, "say one");
  await first.stop();
  copyFileSync(state, join(home, "backup"));
  const second = await start();
  await say(second.url, "say two");
  await second.kill9();
  expect(existsSync(`${state}-wal`)).toBe(true);
}

test.each<[string, () => void]>([
  ["emptied", () => truncateSync(state, 0)],
  ["removed", () => rmSync(state)],
  ["removed with its log", () => [rmSync(state), rmSync(`${state}-wal`)]],
  ["cut", () => truncateSync(state, 8192)],
  ["a letter", () => writeFileSync(state, "My dear aunt, ".repeat(1000))],
  ["a folder", () => [rmSync(state), mkdirSync(state)]],
  ["a backup beside the log of what came after it", () => copyFileSync(join(home, "backup"), state)],
])(
  "F-STO-01 E5 killed, and then %s: refused by the start, by commands and by doctor; set aside by hand, all of it is kept",
  async (_, change) => {
    await killed();
    change();
    const log = existsSync(`${state}-wal`) ? readFileSync(`${state}-wal`) : null;
    for (const args of [
      ["start", "--port", "0"],
      ["sessions", "list"],
      ["doctor"],
      ["start", "--port", "0"],
      ["chat", "-q", "hello"],
    ]) {
      const { code, errors, out } = await command(...args);
      expect([args[0], code]).toEqual([args[0], 3]);
      expect(errors + out).toContain("tertulia state set-aside --yes");
      if (args[0] !== "doctor") expect(errors).toMatch(/^store_corrupt: /m);
    }
    if (log !== null) expect(readFileSync(`${state}-wal`).equals(log)).toBe(true);

    const before = readdirSync(home).filter((name) => name.startsWith("state.db"));
    expect(await command("state", "set-aside")).toMatchObject({ code: 2 });
    expect(readdirSync(home).filter((name) => name.startsWith("state.db"))).toEqual(before);
    expect(await command("state", "set-aside", "--yes")).toMatchObject({ code: 0 });
    const after = readdirSync(home).filter((name) => name.startsWith("state.db"));
    expect(after.map((name) => name.replace(/\.\d{4}-\d\d-\d\d-\d{6}/, ""))).toEqual(before);
    if (log !== null)
      expect(readFileSync(join(home, after.find((name) => name.endsWith("-wal"))!)).equals(log)).toBe(true);
    copyFileSync(join(home, "backup"), state);
    const again = await start();
    expect(await history(again.url)).toMatch(/me: one/);
    expect(await history(again.url)).not.toMatch(/me: two/);
  },
);

test("F-STO-01 E5 what is running is not set aside, and what a kill left is simply gone on with", async () => {
  await killed();
  const again = await start();
  expect(await history(again.url)).toMatch(/me: two/);
  expect(await command("state", "set-aside", "--yes")).toMatchObject({
    code: 3,
    errors: expect.stringMatching(/^gateway_running: /),
  });
  expect(await command("doctor")).toMatchObject({ code: 0 });
});

test.each<[string, () => void, () => void]>([
  ["moved away", () => renameSync(state, join(home, "away")), () => renameSync(join(home, "away"), state)],
  [
    "replaced",
    () => [renameSync(state, join(home, "away")), copyFileSync(join(home, "away"), state)],
    () => renameSync(join(home, "away"), state),
  ],
  [
    "bereft of its log",
    () => renameSync(`${state}-wal`, join(home, "away")),
    () => renameSync(join(home, "away"), `${state}-wal`),
  ],
])(
  "F-SEC-11 E5 %s under a running gateway: refused and said, nothing of it is acknowledged; put back, it goes on",
  async (_, away, back) => {
    const gateway = await start();
    await say(gateway.url, "say one");
    away();
    const { status, body } = await say(gateway.url, "say two");
    expect([status, body.error?.code]).toEqual([503, "store_unavailable"]);
    expect(body.error?.message).toMatch(/state\.db(-wal)? was moved away or replaced/);
    await gateway.logs("was moved away or replaced");
    back();
    expect((await say(gateway.url, "say three")).status).toBe(200);
    await gateway.kill9();
    const again = await start();
    expect(await history(again.url)).toMatch(/me: one.*me: three/s);
  },
);
