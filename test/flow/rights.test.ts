import { describe, expect, test } from "vitest";
import { type Story, type StoryOptions, story } from "../support/harness.ts";
import { doorKey, httpStory } from "../support/http-stage.ts";
import { ALICE_AND_BOB, agentsInRoom, CORE, RoomServer, roomKey } from "../support/room.ts";

/**
 * F-ROOM-04, F-SEC-10. The kind: in a place that several share, whatever ends, takes back, renames or moves what is not one's own. So
 * each command by each role, what a command does on the way (turns that run, words that wait, bindings), and the same by other doors.
 */

const OPEN = {
  agents: agentsInRoom(["mohe"], { mohe: { home_room: "core" } }),
  people: ALICE_AND_BOB,
  rooms: { core: { platform: "xmpp", chat: CORE, share: true } },
  runtimes: { other: { kind: "demo" } },
  access: { xmpp: { rooms: [CORE], people: ["carol@test"] } },
};

function inRoom(
  tell: (stage: Story, room: RoomServer) => Promise<void>,
  config: StoryOptions["config"] = OPEN,
): () => Promise<void> {
  return async () => {
    const room = new RoomServer();
    await story((stage) => tell(stage, room), config, { createChannel: room.createChannel })();
  };
}

/** The session of the room, as it stands. */
function sessionOf(stage: Story): unknown {
  return stage.sql("SELECT current_session FROM conversation WHERE key = ?", roomKey("mohe"))[0]?.current_session;
}

function fates(stage: Story): string[] {
  return stage
    .sql("SELECT m.body, i.fate, i.reason FROM intake i JOIN message m ON m.id = i.message_id ORDER BY m.id")
    .map(({ body, fate, reason }) => `${body}: ${fate}${reason === null ? "" : ` (${reason})`}`);
}

const last = (room: RoomServer) => room.shows().at(-1);

describe("what a guest may in a shared room", () => {
  test(
    "F-ROOM-04 F-SEC-10 A8 R6 neither /new nor /reset ends the session: it is said why, and the words are not answered",
    inRoom(async (stage, room) => {
      await room.person("alice").says("@mohe say one");
      await stage.quiets();
      const session = sessionOf(stage);
      for (const words of ["/new", "/reset", "/new say two"]) {
        await room.person("carol").says(`@mohe ${words}`);
        await stage.quiets();
        expect(last(room)).toContain(
          "mohe: Several people speak in this session: the owner or a member begins a new one",
        );
        expect(sessionOf(stage)).toBe(session);
      }
      expect(stage.sql("SELECT count(*) AS n FROM turn")).toEqual([{ n: 1 }]);
      for (const nick of ["bob", "alice"]) {
        const before = sessionOf(stage);
        await room.person(nick).says("@mohe /new say hello");
        await stage.quiets();
        expect([last(room), sessionOf(stage) === before]).toEqual(["mohe: hello", false]);
      }
    }),
  );

  test(
    "F-SEC-10 A8 neither the owner's running turn nor her waiting words end by a guest's or a member's command",
    inRoom(async (stage, room) => {
      const [alice, bob, carol] = [room.person("alice"), room.person("bob"), room.person("carol")];
      await alice.says("@mohe slow 20");
      await stage.passes(100);
      await alice.says("@mohe say waits");
      for (const command of ["/stop", "/new", "/reset", "/undo"]) {
        await carol.says(`@mohe ${command}`);
        await stage.rests();
        await bob.says(`@mohe ${command}`);
        await stage.rests();
      }
      expect(stage.sql("SELECT state FROM turn ORDER BY id")).toEqual([{ state: "running" }, { state: "queued" }]);
      expect(stage.sql("SELECT reason FROM turn WHERE reason IS NOT NULL")).toEqual([]);
      await alice.says("@mohe /stop");
      await stage.quiets();
      expect(fates(stage).slice(0, 2)).toEqual(["@mohe slow 20: interrupted (stopped)", "@mohe say waits: answered"]);
    }),
  );

  test(
    "F-ROOM-04 A8 a turn is stopped by whoever ranks no lower than each of its authors",
    inRoom(async (stage, room) => {
      const [bob, carol, dora] = [room.person("bob"), room.person("carol"), room.person("dora")];
      for (const [author, stopper, isStopped] of [
        [carol, dora, true],
        [carol, bob, true],
        [bob, carol, false],
        [bob, bob, true],
      ] as const) {
        await author.says("@mohe slow 20");
        await stage.passes(100);
        await stopper.says("@mohe /stop");
        await stage.passes(500);
        expect(stage.sql("SELECT 1 FROM turn WHERE state = 'running'").length).toBe(isStopped ? 0 : 1);
        if (!isStopped) expect(last(room)).toContain("Somebody with more rights than yours");
        await stage.quiets();
      }
    }),
  );

  test.each(["@mohe /stop@mohe", "mohe: /stop@MOHE", "＠ｍｏｈｅ，/stop@ｍｏｈｅ", "/stop@mohe", "@mohe /stop"])(
    "F-ROOM-04 G1 A8 a command is one however often it names the agent: %j",
    (command) =>
      inRoom(async (stage, room) => {
        await room.person("alice").says("@mohe slow 20");
        await stage.passes(100);
        await room.person("carol").says(command);
        await stage.passes(300);
        expect(last(room)).toContain("Somebody with more rights than yours");
        await room.person("alice").says(command);
        await stage.quiets();
        expect(fates(stage)[0]).toBe("@mohe slow 20: interrupted (stopped)");
      })(),
  );

  test(
    "F-ROOM-04 A8 a turn that a guest has joined is still the owner's, and one that she has joined is hers",
    inRoom(async (stage, room) => {
      const [alice, carol] = [room.person("alice"), room.person("carol")];
      for (const [first, second] of [
        [alice, carol],
        [carol, alice],
      ] as const) {
        await carol.says("@mohe slow 5");
        await stage.passes(100);
        await first.says("@mohe slow 50");
        await second.says("@mohe and this");
        await stage.passes(2_000);
        expect(stage.sql("SELECT messages FROM turn WHERE state = 'running'")).toEqual([{ messages: 2 }]);
        await carol.says("@mohe /stop");
        await stage.passes(300);
        expect(stage.sql("SELECT 1 FROM turn WHERE state = 'running'")).toHaveLength(1);
        await alice.says("@mohe /stop");
        await stage.quiets();
      }
    }),
  );

  test(
    "F-ROOM-04 F-SEC-10 A8 R6 /undo takes back one's own words that wait, and of a guest nothing else",
    inRoom(async (stage, room) => {
      const [alice, carol] = [room.person("alice"), room.person("carol")];
      await alice.says("@mohe slow 5");
      await stage.passes(100);
      await carol.says("@mohe say one");
      await alice.says("@mohe say hers");
      await carol.says("@mohe say two");
      await carol.says("@mohe /undo");
      await stage.rests();
      expect(last(room)).toBe('mohe: Taken back: "@mohe say two", which waited.');
      await carol.says("@mohe /undo");
      await stage.rests();
      expect(last(room)).toBe('mohe: Taken back: "@mohe say one", which waited.');
      await carol.says("@mohe /undo");
      await stage.quiets();
      expect(fates(stage).filter((line) => !line.includes("/undo"))).toEqual([
        "@mohe slow 5: answered",
        "@mohe say one: withdrawn (undone)",
        "@mohe say hers: answered",
        "@mohe say two: withdrawn (undone)",
      ]);
      const before = stage.sql("SELECT * FROM entry");
      await carol.says("@mohe /undo");
      await stage.quiets();
      expect(last(room)).toContain("the owner or a member takes back");
      expect(stage.sql("SELECT * FROM entry")).toEqual(before);
      await room.person("bob").says("@mohe /undo");
      await stage.quiets();
      expect(last(room)).toContain("Taken back");
    }),
  );

  test(
    "F-SEC-10 A8 H9 the owner's binding stays whatever a guest types; a member takes it back",
    inRoom(async (stage, room) => {
      await stage.alice("console", { agent: "mohe" }).asks("say hi");
      const sessionId = await stage.alice("console", { agent: "mohe" }).session();
      const send = () =>
        stage.gateway.bridge.send({ person: { id: "owner", role: "owner" }, room: "core", text: "hello", sessionId });
      await send();
      const bindings = () => stage.sql("SELECT 1 FROM binding").length;
      for (const command of ["/undo", "/new", "/reset", "/new hi", "/handoff clear", "/runtime other", "/resume 1"]) {
        await room.person("carol").says(`@mohe ${command}`);
        await stage.quiets();
        expect([command, bindings()]).toEqual([command, 1]);
      }
      for (const command of ["/undo", "/new", "/handoff clear"]) {
        await send();
        await room.person("bob").says(`@mohe ${command}`);
        await stage.quiets();
        expect([command, bindings()]).toEqual([command, 0]);
      }
    }),
  );

  test(
    "F-ROOM-04 A8 nor does a guest rename, resume, switch, set homes or policies there",
    inRoom(async (stage, room) => {
      await room.person("alice").says("@mohe say one");
      await room.person("alice").says("@mohe /new say two");
      await stage.quiets();
      const state = () => stage.sql("SELECT current_session, reset_override, runtime FROM conversation");
      const before = [state(), stage.sql("SELECT id, title, ended_at FROM session")];
      for (const command of ["/title mine", "/resume 2", "/runtime other", "/sethome", "/autoreset idle 1m"]) {
        await room.person("carol").says(`@mohe ${command}`);
        await stage.quiets();
        expect([command, state(), stage.sql("SELECT id, title, ended_at FROM session")]).toEqual([command, ...before]);
      }
      expect(stage.sql("SELECT 1 FROM home")).toEqual([]);
      for (const command of ["/status", "/whoami", "/help", "/title", "/resume", "/handoff"]) {
        await room.person("carol").says(`@mohe ${command}`);
        await stage.quiets();
        expect(last(room)).not.toContain("the owner or a member");
      }
      await room.person("bob").says("@mohe /title ours");
      await stage.quiets();
      expect(last(room)).toContain("is now called: ours");
    }),
  );

  test(
    "F-SEC-10 A8 T5 words interrupt no turn of somebody higher: they wait for it",
    inRoom(
      async (stage, room) => {
        await room.person("alice").says("@mohe slow 30");
        await stage.passes(100);
        await room.person("carol").says("@mohe say now");
        await stage.passes(300);
        expect(stage.sql("SELECT state, reason FROM turn ORDER BY id")).toEqual([
          { state: "running", reason: null },
          { state: "queued", reason: null },
        ]);
        await room.person("alice").says("@mohe say mine");
        await stage.quiets();
        expect(fates(stage)[0]).toBe("@mohe slow 30: interrupted (superseded)");
      },
      { ...OPEN, turn: { busy_mode: "interrupt" } },
    ),
  );
});

describe("where nobody but guests is", () => {
  test(
    "F-ROOM-04 A8 the room's session is reset from the owner's doors",
    inRoom(
      async (stage, room) => {
        await room.person("carol").says("@mohe say one");
        await stage.quiets();
        await room.person("carol").says("@mohe /new");
        await stage.quiets();
        const session = sessionOf(stage);
        expect(last(room)).toContain("Several people speak in this session");
        const key = roomKey("mohe");
        const owner = { id: "owner", role: "owner" } as const;
        const say = (text: string) => stage.gateway.doors.say({ person: owner, agent: "mohe", door: { key }, text });
        await say("/new");
        expect(sessionOf(stage)).not.toBe(session);
        await say("/undo");
        expect(sessionOf(stage)).toBe(session);
      },
      { ...OPEN, people: { owner: { name: "Alice" } } },
    ),
  );

  test(
    "A8 in a direct chat of his own a guest does what he likes",
    inRoom(async (stage, room) => {
      const carol = room.person("carol");
      await carol.tells("mohe", "slow 20");
      await stage.passes(100);
      await carol.tells("mohe", "/stop");
      await stage.quiets();
      await carol.tells("mohe", "/new say fresh");
      await stage.quiets();
      await carol.tells("mohe", "/title mine");
      await carol.tells("mohe", "/undo");
      await carol.tells("mohe", "/undo");
      await stage.quiets();
      expect(carol.told.filter((text) => /Stopped|^fresh|called: mine|Taken back|taken back/.test(text))).toHaveLength(
        5,
      );
      await carol.tells("mohe", "/runtime other");
      await carol.tells("mohe", "/sethome");
      await stage.quiets();
      expect(carol.told.slice(-2)).toEqual([
        "Only the owner decides what runs a conversation.",
        "Only the owner sets a home.",
      ]);
    }),
  );
});

describe("by other doors", () => {
  const GUEST = "a-guest-has-this-token";
  const config = {
    people: { owner: { name: "Alice" }, carol: { role: "guest", tokens: [GUEST] } },
  };

  test(
    "F-ROOM-04 A8 over HTTP a guest resets what is his own, and nothing of others",
    httpStory(async (stage) => {
      const say = async (key: string, text: string, token?: string) => {
        const path = `/api/conversations/${encodeURIComponent(key)}/messages`;
        const reply = await stage.call({ path, body: { text }, ...(token === undefined ? {} : { token }) });
        return [reply.status, reply.text] as const;
      };
      const [hers, his] = [doorKey("console", "main"), doorKey("web", "x", "carol")];
      await say(hers, "say hi");
      await say(his, "say hi", GUEST);
      for (const text of ["/new", "/undo", "/stop", "/handoff clear", "/new say hi"])
        expect((await say(hers, text, GUEST))[0]).toBe(403);
      expect((await say(his, "/new", GUEST))[1]).toContain("New session");
      for (const path of ["/api/handoff", "/api/handoff/clear"])
        expect(
          (await stage.call({ path, token: GUEST, body: { room: hers, session: "s" } })).status,
        ).toBeGreaterThanOrEqual(400);
    }, config),
  );
});
