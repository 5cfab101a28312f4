import { describe, expect, test } from "vitest";
import { type Story, type StoryOptions, story } from "../support/harness.ts";
import { ALICE_AND_BOB, agentsInRoom, CORE, RoomServer, type RoomServerOptions } from "../support/room.ts";

const TWO = {
  agents: agentsInRoom(["mohe", "zhiwei"], { mohe: { home_room: "core" }, zhiwei: { home_room: "core" } }),
  people: { owner: ALICE_AND_BOB.owner },
  rooms: { core: { platform: "xmpp", chat: CORE } },
};
const OPEN = { ...TWO, access: { xmpp: { open: true } } };
const OWNER = { id: "owner", role: "owner" } as const;

function inRoom(
  tell: (stage: Story, room: RoomServer) => Promise<void>,
  { config = TWO, ...server }: RoomServerOptions & { config?: StoryOptions["config"] } = {},
): () => Promise<void> {
  return async () => {
    const room = new RoomServer(server);
    await story((stage) => tell(stage, room), config, { createChannel: room.createChannel })();
  };
}

const turns = (stage: Story): number => stage.sql<{ n: number }>("SELECT count(*) AS n FROM turn")[0]!.n;
const authorities = (stage: Story): string[] =>
  stage.sql<{ authority: string }>("SELECT authority FROM turn ORDER BY id").map(({ authority }) => authority);

/** The kind: what one of our accounts is shown of an occupant holds for the others, and goes no further than his rights. */
describe("F-ROOM-06 G7: a room that hides addresses from all accounts but one", () => {
  const shownTo = ["mohe@test"];

  test(
    "F-ROOM-06 G7: the owner is the owner for each agent, while she is there",
    inRoom(
      async (stage, room) => {
        const alice = room.person("alice");
        await alice.says("@zhiwei say first");
        await stage.quiets();
        await alice.says("@zhiwei /whoami");
        await stage.quiets();
        expect(room.shows().at(-1)).toContain("You are Alice (owner)");
        expect(authorities(stage)).toEqual([expect.stringContaining('"owner"')]);
      },
      { shownTo },
    ),
  );

  test(
    "F-ROOM-06 G7: her address is in nothing that is stored of her, nor in any prompt",
    inRoom(
      async (stage, room) => {
        const alice = room.person("alice");
        const guest = room.person("guest");
        for (const person of [alice, guest]) {
          await person.says("@mohe say one");
          await stage.quiets();
          await person.says("@zhiwei say two");
          await stage.quiets();
        }
        expect(turns(stage)).toBe(4);
        const rows = [
          ...stage.sql("SELECT * FROM message"),
          ...stage.sql("SELECT prompt FROM turn"),
          ...stage.sql("SELECT * FROM place_reader"),
        ];
        const text = JSON.stringify(rows);
        expect(text).not.toContain("alice@test");
        expect(text).not.toContain("guest@test");
      },
      { shownTo, config: OPEN },
    ),
  );

  test(
    "F-ROOM-06 G7: whoever is let in by his address is let in by each agent, as a guest without a person",
    inRoom(
      async (stage, room) => {
        await room.person("bob").says("@zhiwei say hello");
        await room.person("eve").says("@zhiwei say hello too");
        await stage.quiets();
        expect(room.shows().slice(-1)).toEqual(["zhiwei: hello"]);
        expect(turns(stage)).toBe(1);
      },
      { shownTo, config: { ...TWO, access: { xmpp: { people: ["bob@test"] } } } },
    ),
  );

  test(
    "F-ROOM-06 H7: our own accounts are no other readers, nor is the owner, whoever saw them first",
    inRoom(
      async (stage, room) => {
        const alice = room.person("alice");
        const zhiwei = stage.alice("console", { agent: "zhiwei" });
        await zhiwei.asks("say hello");
        await room.person("mohe", { jid: "mohe@test" }).comes();
        await alice.comes();
        const send = { person: OWNER, room: "core", agent: "zhiwei", sessionId: await zhiwei.session() };
        expect((await stage.gateway.bridge.send({ ...send, text: "here I am" })).binding).not.toBeNull();
        await room.person("eve").comes();
        await expect(stage.gateway.bridge.send({ ...send, text: "more" })).rejects.toMatchObject({
          code: "not_shared",
        });
      },
      { shownTo },
    ),
  );

  test(
    "F-ROOM-06: where nobody is shown, /whoami says what the room hides",
    inRoom(
      async (stage, room) => {
        await room.person("alice").says("@mohe /whoami");
        await stage.quiets();
        expect(room.shows().at(-1)).toMatch(/nobody the gateway knows\.\nThis room does not show me your address/);
      },
      { anonymous: true, config: OPEN },
    ),
  );

  test(
    "F-ROOM-06: where the room shows addresses, /whoami complains of nothing",
    inRoom(
      async (stage, room) => {
        await room.person("stranger").says("@mohe /whoami");
        await stage.quiets();
        expect(room.shows().at(-1)).not.toContain("does not show me");
      },
      { config: OPEN },
    ),
  );
});

/** The kind: words whose author nobody vouches for any more carry no rights, whatever they ask for. */
describe("F-SEC-01 G8: late words of nobody", () => {
  test.each(["/sethome", "/new", "/stop", "/status", "/undo"])(
    "F-SEC-01 G8: %s that was caught up and is vouched for by nobody is recorded, and no command",
    (command) =>
      inRoom(
        async (stage, room) => {
          await room.person("alice").says(`@mohe ${command}`, { isCaughtUp: true });
          await stage.quiets();
          expect(turns(stage)).toBe(0);
          expect(room.shows()).toHaveLength(1);
          expect(stage.sql("SELECT body FROM message")).toEqual([{ body: `@mohe ${command}` }]);
        },
        { anonymous: true, config: OPEN },
      )(),
  );

  test(
    "F-SEC-01 G8: words of one who is known are commands, however late",
    inRoom(async (stage, room) => {
      await room.person("alice").says("@mohe /whoami", { isCaughtUp: true });
      await stage.quiets();
      expect(room.shows().at(-1)).toContain("You are Alice (owner)");
    }),
  );
});

/** The kind: an agent is itself under whatever account, nick or client of its own. */
describe("F-ROOM-01 G3: an agent's own words", () => {
  const mohe = {
    runtime: { kind: "demo" },
    accounts: ["mohe@test", "nova@test"].map((jid) => ({ platform: "xmpp", jid, password: "x", rooms: [CORE] })),
  };

  test(
    "F-ROOM-01 G3: what another account of the same agent says to it is recorded, and no turn",
    inRoom(
      async (stage, room) => {
        await room.speaksAs("nova@test", "@mohe say hello");
        await stage.quiets();
        expect(turns(stage)).toBe(0);
        expect(stage.sql("SELECT author_kind, author_id FROM message")).toEqual([
          { author_kind: "agent", author_id: "mohe" },
        ]);
      },
      { config: { ...OPEN, agents: { mohe } } },
    ),
  );
});

/** The kind: whatever sign a platform gives that the words are shown, the next ones need not wait. */
test(
  "F-ROOM-03 O1: a room that gives every message another id shows the words, and the next answer follows at once",
  inRoom(
    async (stage, room) => {
      const alice = room.person("alice");
      for (const word of ["one", "two", "three"]) {
        await alice.says(`@mohe say ${word}`);
        await stage.quiets();
      }
      expect(room.shows().filter((line) => line.startsWith("mohe"))).toEqual(["mohe: one", "mohe: two", "mohe: three"]);
      expect(stage.sql("SELECT DISTINCT state FROM delivery")).toEqual([{ state: "delivered" }]);
      expect(stage.sql("SELECT body FROM message WHERE author_kind = 'agent'")).toHaveLength(3);
    },
    { rewritesIds: true },
  ),
);

/** The kind: whatever cannot be seen asks nothing: blanks of every width, line ends, zero-width and filler characters. */
describe("F-ROOM-05: a body of blanks", () => {
  const BLANKS = [
    " ",
    "\n\n",
    "\t",
    "\u3000",
    "\u00a0\u2003",
    "\u200b",
    "\u2060\ufeff",
    "\u2800",
    "\u3164",
    "\u2028",
    "\u00ad",
  ];
  test.each(BLANKS.map((blank) => [JSON.stringify(blank), blank]))(
    "F-ROOM-05 G1: %s is recorded, and no turn, in a room and alone",
    (_name, blank) =>
      inRoom(
        async (stage, room) => {
          const alice = room.person("alice");
          await alice.says(blank);
          await alice.tells("mohe", blank);
          await stage.quiets();
          expect(turns(stage)).toBe(0);
          expect(stage.sql("SELECT count(*) AS n FROM message")).toEqual([{ n: 2 }]);
          await alice.says("x");
          await stage.quiets();
          expect(turns(stage)).toBe(1);
        },
        { config: { ...TWO, agents: agentsInRoom(["mohe"], { mohe: { answer: "always" } }) } },
      )(),
  );

  test.each(BLANKS.map((blank) => [JSON.stringify(blank), blank]))(
    "F-ROOM-05 E3: %s is no message at a door of one's own, and nothing that an agent sends",
    (_name, blank) =>
      story(async (stage) => {
        const alice = stage.alice();
        await expect(alice.says(blank)).rejects.toMatchObject({ code: "request_invalid" });
        const send = { person: OWNER, room: alice.key, text: blank, sessionId: null };
        await expect(stage.gateway.bridge.send(send)).rejects.toMatchObject({ code: "request_invalid" });
        expect(stage.sql("SELECT count(*) AS n FROM message")).toEqual([{ n: 0 }]);
      })(),
  );
});
