import { describe, expect, test } from "vitest";
import { sessionToken } from "../../src/conversation/session-token.ts";
import { asTertuliaError } from "../../src/errors.ts";
import { type Story, type StoryOptions, story } from "../support/harness.ts";
import { doorKey, httpStory } from "../support/http-stage.ts";
import { agentsInRoom, CORE, RoomServer, roomKey } from "../support/room.ts";

const OWNER = { id: "owner", role: "owner" } as const;
const SIDE = "side@rooms.test";
const account = (name: string) => [{ platform: "xmpp", jid: `${name}@test`, password: "x", rooms: [CORE, SIDE] }];
const CONFIG = {
  agents: agentsInRoom(["mohe", "zhiwei"], {
    mohe: { home_room: "core", accounts: account("mohe") },
    zhiwei: { accounts: account("zhiwei") },
  }),
  default_agent: "mohe",
  people: {
    owner: { name: "Alice", accounts: [{ platform: "xmpp", id: "alice@test" }] },
    bob: { name: "Bob", accounts: [{ platform: "xmpp", id: "bob@test" }] },
  },
  rooms: {
    core: { platform: "xmpp", chat: CORE },
    side: { platform: "xmpp", chat: SIDE },
    bobby: { platform: "xmpp", chat: "bob@test" },
    desk: { conversation: "agent:mohe:console:dm:owner%2Fmain" },
  },
  access: { xmpp: { rooms: [CORE, SIDE], people: ["carol@test"] } },
};

function inRooms(
  tell: (stage: Story, room: RoomServer) => Promise<void>,
  config: StoryOptions["config"] = CONFIG,
): () => Promise<void> {
  return async () => {
    const room = new RoomServer();
    await story((stage) => tell(stage, room), config, { createChannel: room.createChannel })();
  };
}

/** What became of it: `ok`, or the code of the refusal. */
async function outcome(done: Promise<unknown>): Promise<string> {
  try {
    await done;
    return "ok";
  } catch (cause) {
    return asTertuliaError(cause).code;
  }
}

/** An agent speaks by the token of one of its sessions, bound or not. */
async function speaks(stage: Story, sessionId: string, room: string, bound = false): Promise<string> {
  const session = (await stage.gateway.reader.session(sessionId))!;
  const person =
    session.ownerPerson === null
      ? ({ id: `session:${session.id}`, role: "guest" } as const)
      : ({ id: session.ownerPerson, role: session.ownerPerson === "owner" ? "owner" : "member" } as const);
  const sessionOrNone = bound ? sessionId : null;
  return outcome(
    stage.gateway.bridge.send({ person, room, text: `to ${room}`, sessionId: sessionOrNone, as: session }),
  );
}

async function sessionAt(stage: Story, key: string): Promise<string> {
  return (await stage.gateway.reader.conversation(key))!.currentSession!;
}

/** F-ROOM-08, F-SEC-13. The kind: whose session an agent speaks from, by where it would be heard. */
describe("where an agent speaks by its session's own token", () => {
  test(
    "F-ROOM-08 A9 from a room's session into that room and its home, and nowhere else",
    inRooms(async (stage, room) => {
      await room.person("carol", { room: "side" }).says("@mohe say hi");
      await room.person("bob").tells("mohe", "say hi");
      await stage.quiets();
      const session = await sessionAt(stage, roomKey("mohe").replace(/core/, "side"));
      expect(await speaks(stage, session, "side", true)).toBe("ok");
      expect(await speaks(stage, session, SIDE)).toBe("ok");
      expect(await speaks(stage, session, "core")).toBe("ok");
      expect(await speaks(stage, session, "core", true)).toBe("forbidden");
      for (const elsewhere of ["desk", "bobby", "xmpp:bob@test", "xmpp:carol@test", "agent:mohe:web:dm:bob%2Fx"])
        expect([elsewhere, await speaks(stage, session, elsewhere)]).toEqual([elsewhere, "forbidden"]);
      await stage.quiets();
      expect(
        room
          .shows()
          .filter((line) => line.startsWith("mohe: to"))
          .sort(),
      ).toEqual(["mohe: to core", "mohe: to side", `mohe: to ${SIDE}`]);
      // Its own words there are words of the session (F-ROOM-08: and no binding).
      const said = await stage.gateway.reader.transcript({ sessionId: session, limit: 9 });
      expect(said.map(({ text }) => text)).toContain("to side");
      expect(stage.sql("SELECT 1 FROM binding")).toEqual([]);
    }),
  );

  test(
    "F-ROOM-08 A9 without a home it speaks in its own room alone, and never as another agent",
    inRooms(async (stage, room) => {
      await room.person("carol").says("@zhiwei say hi");
      await stage.quiets();
      const session = await sessionAt(stage, roomKey("zhiwei"));
      expect(await speaks(stage, session, "core")).toBe("ok");
      expect(await speaks(stage, session, "side")).toBe("forbidden");
      expect(await speaks(stage, session, roomKey("mohe"))).toBe("agent_mismatch");
      await room.person("alice", { room: "side" }).says("@zhiwei /sethome");
      await stage.quiets();
      expect(await speaks(stage, session, "side")).toBe("ok");
    }),
  );

  test(
    "F-SEC-13 F-ROOM-08 A9 an owner's session reaches her own doors and its home, and no other person's private chat",
    inRooms(async (stage, room) => {
      await stage.alice("console", { agent: "mohe" }).asks("say hi");
      await stage.bob("web", { agent: "mohe", name: "x" }).asks("say hi");
      for (const nick of ["alice", "bob", "carol"]) await room.person(nick).tells("mohe", "say hi");
      await stage.quiets();
      const session = await stage.alice("console", { agent: "mohe" }).session();
      const web = `agent:mohe:web:dm:owner%2Fother`;
      for (const [where, what] of [
        ["core", "ok"],
        ["desk", "ok"],
        [web, "ok"],
        ["xmpp:alice@test", "ok"],
        ["side", "forbidden"],
        ["bobby", "forbidden"],
        ["xmpp:bob@test", "forbidden"],
        ["xmpp:carol@test", "forbidden"],
        ["xmpp:somebody@test", "forbidden"],
        ["agent:mohe:xmpp:dm:bob%40test", "forbidden"],
        ["agent:mohe:web:dm:bob%2Fx", "forbidden"],
        ["agent:mohe:person:bob", "forbidden"],
      ])
        expect([where, await speaks(stage, session, where!)]).toEqual([where, what]);
      expect(room.person("bob").told).toEqual([]);
      expect(stage.sql("SELECT 1 FROM message WHERE body = 'to bobby'")).toEqual([]);
    }),
  );

  test(
    "F-ROOM-08 A9 a member's session reaches the member's own chats, also where the chat is on a platform",
    inRooms(async (stage, room) => {
      await room.person("bob").tells("mohe", "say hi");
      await room.person("alice").tells("mohe", "say hi");
      await stage.quiets();
      const session = await sessionAt(stage, "agent:mohe:xmpp:dm:bob%40test");
      for (const [where, what] of [
        ["bobby", "ok"],
        ["agent:mohe:web:dm:bob%2Fx", "ok"],
        ["core", "ok"],
        ["xmpp:alice@test", "forbidden"],
        ["desk", "forbidden"],
      ])
        expect([where, await speaks(stage, session, where!)]).toEqual([where, what]);
    }),
  );

  test(
    "F-SEC-13 A6 A9 over HTTP the token itself is held to it",
    httpStory(
      async (stage) => {
        const home = doorKey("console", "main");
        await stage.call({ path: `/api/conversations/${encodeURIComponent(home)}/messages`, body: { text: "say hi" } });
        const { currentSession } = (await stage.gateway.reader.conversation(home))!;
        const token = sessionToken(stage.ownerToken, currentSession!);
        const send = async (room: unknown, session: string | null = null) => {
          const reply = await stage.call({ path: "/api/send", body: { room, text: "x", session }, token });
          return reply.status < 400 ? "ok" : reply.json().error.code;
        };
        expect(await send(home, currentSession)).toBe("ok");
        expect(await send(doorKey("web", "mine"))).toBe("ok");
        expect(await send(doorKey("web", "his", "bob"))).toBe("forbidden");
        expect(await send(doorKey("console", "main", "bob"))).toBe("forbidden");
        expect((await stage.gateway.reader.conversation(doorKey("web", "his", "bob"))) === null).toBe(true);
      },
      { people: { bob: {} } },
    ),
  );
});

/** F-ROOM-09. The kind: somebody to whom nothing was ever said, known or not, a room of whose nobody spoke. */
describe("a first word", () => {
  test(
    "F-ROOM-09 H1 the owner sends to a person's address, and the answer comes into the same conversation",
    inRooms(async (stage, room) => {
      for (const [nick, to] of [
        ["carol", "xmpp:carol@test"],
        ["bob", "bobby"],
        ["bob", "xmpp:Bob@test/phone"],
      ] as const) {
        const person = room.person(nick);
        const { key } = await stage.gateway.bridge.send({ person: OWNER, room: to, text: "hello", sessionId: null });
        expect(key).toBe(`agent:mohe:xmpp:dm:${nick}%40test`);
        await stage.quiets();
        expect(person.told).toEqual(["hello"]);
        await person.tells("mohe", "say yes");
        await stage.quiets();
        expect(person.told).toEqual(["hello", "yes"]);
        expect(stage.lastPrompt("mohe")).toContain("[YOU] hello");
      }
      const people = stage.sql("SELECT key, person_id FROM conversation ORDER BY key");
      expect(people).toEqual([
        { key: "agent:mohe:xmpp:dm:bob%40test", person_id: "bob" },
        { key: "agent:mohe:xmpp:dm:carol%40test", person_id: null },
      ]);
    }),
  );

  test(
    "F-ROOM-09 also into a room where nobody has spoken, and by another agent",
    inRooms(async (stage, room) => {
      await stage.gateway.bridge.send({
        person: OWNER,
        room: `xmpp:${SIDE}`,
        agent: "zhiwei",
        text: "hello",
        sessionId: null,
      });
      await stage.quiets();
      expect(room.shows()).toEqual(["zhiwei: hello"]);
      const person = room.person("dora");
      await stage.gateway.bridge.send({
        person: OWNER,
        room: "xmpp:dora@test",
        agent: "zhiwei",
        text: "hi",
        sessionId: null,
      });
      await stage.quiets();
      expect(person.told).toEqual(["hi"]);
    }),
  );

  test(
    "F-ROOM-09 H7 a session is not bound into the chat of somebody else unless that is said, whether he is known or not",
    inRooms(async (stage) => {
      await stage.alice("console", { agent: "mohe" }).asks("say a secret");
      const sessionId = await stage.alice("console", { agent: "mohe" }).session();
      for (const room of ["xmpp:dora@test", "xmpp:bob@test"]) {
        const send = { person: OWNER, room, text: "hi", sessionId };
        expect(await outcome(stage.gateway.bridge.send(send))).toBe("not_shared");
        expect(await outcome(stage.gateway.bridge.send({ ...send, sessionId: null }))).toBe("ok");
        expect(await outcome(stage.gateway.bridge.send(send))).toBe("not_shared");
        expect(await outcome(stage.gateway.bridge.send({ ...send, share: true }))).toBe("ok");
      }
    }),
  );

  test(
    "F-ROOM-09 E3 nobody but the owner, and not where no account is",
    inRooms(async (stage) => {
      const send = (room: string, role: "owner" | "member" = "owner", agent?: string) => {
        const person = role === "owner" ? OWNER : ({ id: "bob", role } as const);
        return outcome(
          stage.gateway.bridge.send({
            person,
            room,
            text: "x",
            sessionId: null,
            ...(agent === undefined ? {} : { agent }),
          }),
        );
      };
      expect(await send("xmpp:carol@test", "member")).toBe("forbidden");
      expect(await send("xmpp:bob@test", "member")).toBe("forbidden");
      expect(await send("telegram:42")).toBe("conversation_unknown");
      expect(await send("console:x")).toBe("conversation_unknown");
      expect(await send("xmpp: ")).toBe("source_invalid");
      // A room at a service whose rooms are known, where no account is, is no person.
      expect(await send("xmpp:nowhere@rooms.test")).toBe("conversation_unknown");
      expect(await send("carol@test")).toBe("conversation_unknown");
      expect(stage.sql("SELECT 1 FROM conversation")).toEqual([]);
    }),
  );
});
