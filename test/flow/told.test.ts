import { describe, expect, test } from "vitest";
import type { TurnAnswer } from "../../src/store/readers.ts";
import { renderNotice } from "../../src/text/render-notice.ts";
import { turnProblem } from "../../src/turn/turn-problem.ts";
import { type Story, type StoryOptions, story } from "../support/harness.ts";
import { agentsInRoom, CORE, RoomServer } from "../support/room.ts";

/**
 * F-ROOM-10. The kind: what people are told. Newcomers once where they are; everybody doors and no keys or addresses of this machine;
 * an advice once; a time as the owner's clock shows it.
 */

const OWNER = { name: "Alice", accounts: [{ platform: "xmpp", id: "alice@test" }] };
const HIDDEN = { kind: "http", base_url: "http://127.0.0.1:9/v1", model: "m-1" };
const CONFIG = {
  agents: agentsInRoom(["mohe"]),
  people: { owner: OWNER, bob: { accounts: [{ platform: "xmpp", id: "bob@test" }] } },
  rooms: { core: { platform: "xmpp", chat: CORE, share: true } },
  access: { xmpp: { rooms: [CORE], people: ["carol@test", "dora@test"] } },
};

function inRoom(
  tell: (stage: Story, room: RoomServer) => Promise<void>,
  config: StoryOptions["config"] = CONFIG,
): () => Promise<void> {
  return async () => {
    const room = new RoomServer();
    await story((stage) => tell(stage, room), config, { createChannel: room.createChannel })();
  };
}

describe("newcomers", () => {
  test(
    "F-ROOM-10 R8 whoever is let in by a list is welcomed once, whatever agent he comes to, and a room is not",
    inRoom(
      async (stage, room) => {
        const people = ["carol", "dora", "bob"].map((nick) => room.person(nick));
        for (const person of people) {
          for (const agent of ["mohe", "zhiwei"]) {
            for (const text of ["say one", "say two", "/new", "say three"]) await person.tells(agent, text);
            await stage.quiets();
          }
          expect([person.nick, person.told.filter((text) => /^Welcome/.test(text))]).toEqual([
            person.nick,
            [expect.stringContaining("Agent mohe")],
          ]);
        }
        await stage.restarts();
        await people[0]!.tells("mohe", "say four");
        await room.person("eve").says("@mohe say hi");
        await stage.quiets();
        expect([...people[0]!.told, ...room.shows()].filter((text) => text.includes("Welcome"))).toHaveLength(1);
      },
      { ...CONFIG, agents: agentsInRoom(["mohe", "zhiwei"]), welcome: true },
    ),
  );
});

describe("doors, and not keys", () => {
  test(
    "F-ROOM-10 R5 the address of a server on this machine is shown to nobody but the owner, by no notice and no command",
    inRoom(
      async (stage, room) => {
        const [alice, bob, carol] = [room.person("alice"), room.person("bob"), room.person("carol")];
        for (const person of [bob, carol]) {
          for (const command of ["/new", "/status", "say hi", "/runtime other", "/help"])
            await person.tells("mohe", command);
          await stage.quiets();
          expect(person.told.length).toBeGreaterThan(3);
          expect(person.told.join("\n")).toContain("m-1");
          expect(person.told.join("\n")).not.toMatch(/127\.0\.0\.1|localhost/);
        }
        for (const command of ["/new", "/status", "/runtime other"]) await alice.says(`@mohe ${command}`);
        await stage.quiets();
        expect(room.shows().join("\n")).not.toMatch(/127\.0\.0\.1|localhost/);
        await alice.tells("mohe", "/status");
        await stage.quiets();
        expect(alice.told.at(-1)).toContain("http://127.0.0.1:9/v1");
      },
      {
        ...CONFIG,
        welcome: true,
        agents: agentsInRoom(["mohe"], { mohe: { runtime: HIDDEN } }),
        runtimes: { other: HIDDEN },
        turn: { busy_mode: "queue" },
      },
    ),
  );

  test(
    "F-ROOM-10 H10 H9 a handoff that ends is told by doors at both, and why in words",
    inRoom(async (stage, room) => {
      const terminal = stage.alice("console", { agent: "mohe" });
      await terminal.asks("say a secret");
      const send = async () =>
        stage.gateway.bridge.send({
          person: { id: "owner", role: "owner" },
          room: "core",
          text: "x",
          sessionId: await terminal.session(),
        });
      await send();
      await terminal.asks("/new");
      await terminal.asks("say hi");
      await send();
      await stage.quiets();
      stage.sql("UPDATE session SET owner_person = 'bob' WHERE ended_at IS NULL; SELECT 1");
      await room.person("alice").says("@mohe say hi");
      await stage.quiets();
      const told = [...room.shows(), ...terminal.shows()].filter((line) => /has ended/.test(line));
      expect(told.length).toBeGreaterThan(1);
      expect(told.join("\n")).not.toMatch(/agent:mohe|\(new\)|owner_changed/);
      expect(told.join("\n")).toContain("xmpp group core@rooms.test");
      expect(told.join("\n")).toContain("has ended (it was reset)");
    }),
  );

  test.each(["new", "idle", "daily", "suspended", "resumed", "undone", "left"])(
    "F-ROOM-10 H9 why a session ended is said in words: %s",
    (reason) => {
      const text = renderNotice({ code: "session_ended_here", args: { session: "s", reason } });
      expect(text).toMatch(/has ended \([a-z ]+ [a-z ]+\)/);
    },
  );
});

describe("one clock", () => {
  test(
    "F-ROOM-10 a chat tells times in the gateway's zone, as the command line does",
    inRoom(
      async (stage, room) => {
        await stage.alice("console", { agent: "mohe" }).asks("say hi");
        await stage.alice("console", { agent: "mohe" }).asks("/title plan");
        await room.person("alice").says("@mohe /handoff plan");
        await room.person("alice").says("@mohe /handoff");
        await room.person("alice").says("@mohe /status");
        await stage.quiets();
        const said = room.shows().join("\n");
        // 2023-11-14T22:13Z, and an hour.
        expect(said.match(/until 2023-11-15 08:\d\d/g)).toHaveLength(2);
        expect(said).toMatch(/opened 2023-11-15 07:\d\d/);
        expect(said).not.toMatch(/\d\dZ|T\d\d:/);
      },
      { ...CONFIG, timezone: "Asia/Tokyo" },
    ),
  );
});

describe("an advice once", () => {
  /** How a turn that ended so is told: in a chat, and as an error with its remedy. */
  function told(answer: Pick<TurnAnswer, "notices"> & { state: string; reason: string }): string[] {
    const { notices, state, reason } = answer;
    const { message, remedy } = turnProblem({
      turn: { state, reason } as TurnAnswer["turn"],
      text: "",
      silent: false,
      notices,
    })!;
    return [notices.map(renderNotice).join(" "), `${message} ${remedy}`];
  }
  const ADVICE = /\b(?:ask again|try again|send it again)\b/gi;

  test.each(["crash", "stopped", "reset", "resumed", "switched", "superseded", "shutdown"])(
    "F-ROOM-10 E3 interrupted: %s",
    (reason) => {
      const notices = [{ code: "interrupted" as const, args: { partial: "", reason } }];
      for (const text of told({ state: "interrupted", reason, notices })) expect(text.match(ADVICE)).toHaveLength(1);
    },
  );

  test.each(["idle", "total"])("F-ROOM-10 E3 timeout: %s", (limit) => {
    const args = { limit, span: "10 min", setting: "turn.turn_idle_timeout" };
    const notices = [{ code: "timeout" as const, args }];
    for (const text of told({ state: "failed", reason: "timeout", notices }))
      expect(text.match(ADVICE)).toHaveLength(1);
  });

  test("F-ROOM-10 E3 withdrawn", () => {
    const notices = [{ code: "withdrawn" as const, args: { messages: 1, reason: "reset" } }];
    for (const text of told({ state: "withdrawn", reason: "reset", notices }))
      expect(text.match(ADVICE)).toHaveLength(1);
  });

  test(
    "F-ROOM-10 E3 an agent that crashes",
    story(async (stage) => {
      const alice = stage.alice();
      const words = await alice.says("die");
      const answer = await alice.answer(words);
      for (const text of [answer.notices.map(renderNotice).join(" "), String(turnProblem(answer)?.message)])
        expect((text.match(ADVICE) ?? []).length).toBeLessThanOrEqual(1);
      expect(answer.notices.map(renderNotice).join(" ").match(ADVICE)).toHaveLength(1);
    }),
  );
});
