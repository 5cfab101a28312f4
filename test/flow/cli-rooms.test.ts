/** How rooms and chats are named on the command line: the same forms in every command that takes one. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { type RunningGateway, startGateway } from "../../src/gateway/start.ts";
import { silentLog } from "../../src/util/log.ts";
import { agentsInRoom, CORE } from "../support/room.ts";
import { temporaryFolder } from "../support/store.ts";
import { type Called, tertulia as call } from "../support/tertulia.ts";

const account = (name: string) => [
  { platform: "xmpp", jid: `${name}@test`, password: "x", rooms: [CORE], service: "xmpp://127.0.0.1:1" },
];
const CONFIG = {
  agents: agentsInRoom(["main", "zhiwei"], {
    main: { accounts: account("main") },
    zhiwei: { accounts: account("zhiwei") },
  }),
  people: { owner: {}, bob: { accounts: [{ platform: "xmpp", id: "bob@test" }] } },
  rooms: {
    core: { platform: "xmpp", chat: CORE },
    bobby: { platform: "xmpp", chat: "bob@test" },
    kitchen: { conversation: "agent:main:web:dm:owner%2Fkitchen" },
  },
  runtimes: { other: { kind: "demo" } },
};
const ROOM_KEY = "agent:main:xmpp@rooms.test:group:core%40rooms.test";
const BOB_KEY = "agent:main:xmpp:dm:bob%40test";

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
let gateway: RunningGateway | null = null;

beforeEach(() => {
  folder = temporaryFolder();
  home = join(folder.path, "home");
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, "config.yaml"), JSON.stringify(CONFIG));
});

afterEach(async () => {
  await stop();
  folder.remove();
});

async function start(): Promise<void> {
  gateway = await startGateway({ config: loadConfig({ flags: { home, port: 0 } }), log: silentLog });
}

async function stop(): Promise<void> {
  await gateway?.stop();
  gateway = null;
}

function tertulia(...argv: string[]): Promise<Called> {
  return call("--home", home, ...argv);
}

async function json(...argv: string[]) {
  const { code, out, err } = await tertulia(...argv, "--json");
  expect([argv.join(" "), code, err]).toEqual([argv.join(" "), 0, ""]);
  return JSON.parse(out);
}

async function hasSession(): Promise<string> {
  const person = { id: "owner", role: "owner" } as const;
  const door = { platform: "console", name: "main" } as const;
  const said = await gateway!.gateway.doors.say({ person, agent: "main", door, text: "say hi" });
  if (said.kind !== "turn") throw new Error("a command was said");
  await gateway!.gateway.turns.answerOf(said.turnId);
  return said.sessionId;
}

/** F-ROOM-07. The kind: a form of a name that one command knows and another does not; with a gateway and without. */
const FORMS = [
  ["core", ROOM_KEY],
  [CORE, ROOM_KEY],
  [`xmpp:${CORE}`, ROOM_KEY],
  [ROOM_KEY, ROOM_KEY],
  ["bobby", BOB_KEY],
  ["xmpp:bob@test", BOB_KEY],
  ["xmpp:BOB@test", BOB_KEY],
  [BOB_KEY, BOB_KEY],
  ["kitchen", "agent:main:web:dm:owner%2Fkitchen"],
] as const;

describe("every form in every command", () => {
  test.each(FORMS)("F-ROOM-07 F-ROOM-09 %s", async (room, key) => {
    await start();
    const session = await hasSession();
    // A key of somebody's chat stands for one that is there.
    if (room === BOB_KEY || room === ROOM_KEY)
      await json("send", room === BOB_KEY ? "bobby" : "core", "hi", "--no-session");
    expect((await json("send", room, "hi", "--no-session")).key).toBe(key);
    expect((await json("handoff", "set", room, "--session", session, "--share")).key).toBe(key);
    expect((await json("handoff", "clear", room)).key).toBe(key);
    expect((await json("context", room)).conversation).toBe(key);
    expect((await json("explain", room)).key).toBe(key);
    expect((await json("runtimes", "use", room, "other")).conversation).toBe(key);
    const reset = await json("sessions", "reset", room);
    expect(reset.conversation).toBe(key);
    const shown = await json("sessions", "show", room);
    expect([shown.session.homeKey, shown.session.id]).toEqual([key, reset.session]);
    await stop();
    expect((await json("context", room)).conversation).toBe(key);
    expect((await json("explain", room)).key).toBe(key);
    expect((await json("sessions", "show", room)).session.id).toBe(reset.session);
  });

  test("F-ROOM-07 of several agents in a chat the one named, everywhere", async () => {
    await start();
    const key = ROOM_KEY.replace("main", "zhiwei");
    for (const room of ["core", CORE, `xmpp:${CORE}`]) {
      expect((await json("send", room, "hi", "--no-session", "--agent", "zhiwei")).key).toBe(key);
      expect((await json("context", room, "--agent", "zhiwei")).conversation).toBe(key);
      expect((await json("explain", room, "--agent", "zhiwei")).key).toBe(key);
    }
  });

  test("F-ROOM-10 H4 handoff show says which agent's each handoff is", async () => {
    await start();
    const session = await hasSession();
    for (const room of ["core", "kitchen"]) await json("handoff", "set", room, "--session", session, "--share");
    const { out } = await tertulia("handoff", "show");
    expect(out.split("\n")[0]).toMatch(/^AGENT +ROOM +BINDING +SESSION +HOLDS +CONVERSATION$/);
    expect(out).toMatch(/^main +core +live/m);
    expect(out).toMatch(/^main +kitchen +live/m);
  });

  test("F-ROOM-07 E3 what is none is said so, with what would be", async () => {
    await start();
    for (const command of [["context"], ["explain"], ["sessions", "reset"], ["handoff", "clear"]]) {
      for (const room of ["nowhere", "xmpp:nowhere@rooms.test", "telegram:42"]) {
        const { code, err } = await tertulia(...command, room);
        expect([command, room, code]).toEqual([command, room, 1]);
        expect(err).toContain("conversation_unknown");
        expect(err).toContain("platform:address");
      }
    }
    expect((await tertulia("explain")).err).toContain("usage");
    expect((await tertulia("sessions", "show", "nowhere")).err).toContain("session_unknown");
  });
});
