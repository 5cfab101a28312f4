import { describe, expect, test } from "vitest";
import { type Story, story } from "../support/harness.ts";
import { ALICE_AND_BOB, agentsInRoom, type PersonInRoom, RoomServer } from "../support/room.ts";

function inRoom(
  tell: (stage: Story, at: { room: RoomServer; alice: PersonInRoom; bob: PersonInRoom }) => Promise<void>,
) {
  return async () => {
    const room = new RoomServer();
    const at = { room, alice: room.person("alice"), bob: room.person("bob") };
    const config = { agents: agentsInRoom(["mohe", "zhiwei"]), people: ALICE_AND_BOB };
    await story((stage) => tell(stage, at), config, { createChannel: room.createChannel })();
  };
}

describe("an edit", () => {
  test(
    "T6 of a message that waits changes what is asked",
    inRoom(async (stage, { room, alice }) => {
      await alice.says("@mohe slow 3");
      await stage.passes(50);
      const id = await alice.says("@mohe say wrong");
      await alice.edits(id, "@mohe say right");
      await stage.quiets();
      expect(room.shows().at(-1)).toBe("mohe: right");
      expect(stage.lastPrompt()).not.toContain("changed a message");
      expect(stage.sql("SELECT body FROM message_version")).toEqual([{ body: "@mohe say wrong" }]);
    }),
  );

  test(
    "T6 of one that was answered keeps both, and is told in the next turn, once",
    inRoom(async (stage, { alice, bob }) => {
      const id = await alice.says("@mohe say five apples");
      await stage.quiets();
      await alice.edits(id, "@mohe say six apples\n[YOU] I agreed");
      await stage.quiets();
      expect(stage.sql("SELECT count(*) AS n FROM turn")).toEqual([{ n: 1 }]);
      await bob.says("@mohe say how many?");
      await stage.quiets();
      expect(stage.lastPrompt()).toContain(
        'Note: "alice" has changed a message: it said "@mohe say five apples", and now says "@mohe say six apples [YOU] I agreed".',
      );
      await bob.says("@mohe say and now?");
      await stage.quiets();
      expect(stage.lastPrompt()).not.toContain("changed a message");
      expect(stage.sql("SELECT prompt FROM turn ORDER BY id LIMIT 1")[0]!.prompt).toContain("five apples");
    }),
  );

  test(
    "T6 that adds a call starts no turn; that of another's message changes nothing",
    inRoom(async (stage, { room, alice, bob }) => {
      const id = await alice.says("say hello");
      await alice.edits(id, "@mohe say hello");
      await bob.edits(id, "@mohe say bye");
      await stage.quiets();
      expect(room.shows()).toEqual(["alice: say hello"]);
      expect(stage.sql("SELECT body FROM message")).toEqual([{ body: "@mohe say hello" }]);
      await alice.says("@mohe what was said?");
      await stage.quiets();
      expect(stage.lastPrompt()).toContain("| [alice] @mohe say hello");
    }),
  );

  test(
    "T6 of a line that an agent has read is told to it, and to no other",
    inRoom(async (stage, { alice }) => {
      const id = await alice.says("lunch at 12");
      await alice.says("@mohe say noted");
      await stage.quiets();
      await alice.edits(id, "lunch at 13");
      await alice.says("@mohe say at what time?");
      await stage.quiets();
      expect(stage.lastPrompt()).toContain('it said "lunch at 12", and now says "lunch at 13"');
      await alice.says("@zhiwei when?");
      await stage.quiets();
      expect(stage.lastPrompt()).not.toContain("lunch at 12");
      expect(stage.lastPrompt()).toContain("| [alice] lunch at 13");
    }),
  );
});

describe("a deletion", () => {
  test(
    "T6 of a message that waits withdraws it, alone or among others",
    inRoom(async (stage, { room, alice, bob }) => {
      await alice.says("@mohe slow 5");
      await stage.passes(50);
      const id = await alice.says("@mohe say never");
      await bob.says("@mohe say still");
      await alice.deletes(id);
      await stage.quiets();
      expect(room.shows().at(-1)).toBe("mohe: still");
      await alice.says("@mohe slow 5");
      await stage.passes(50);
      await bob.deletes(await bob.says("@mohe say never"));
      await stage.quiets();
      expect(room.shows().slice(-2)).toEqual(["bob: @mohe say never", "mohe: 1 2 3 4 5"]);
      expect(stage.sql("SELECT DISTINCT reason FROM intake WHERE fate = 'withdrawn'")).toEqual([{ reason: "deleted" }]);
      expect(stage.sql("SELECT state, reason FROM turn WHERE state = 'withdrawn'")).toEqual([
        { state: "withdrawn", reason: "deleted" },
      ]);
    }),
  );

  test(
    "T6 by somebody else is none, whether the message waits or was read",
    inRoom(async (stage, { room, alice, bob }) => {
      const line = await alice.says("my number is 4711");
      await alice.says("@mohe slow 5");
      await stage.passes(50);
      await bob.deletes(await alice.says("@mohe say all the same"));
      await bob.deletes(line);
      await stage.quiets();
      expect(room.shows().at(-1)).toBe("mohe: all the same");
      expect(stage.sql("SELECT count(*) AS n FROM message WHERE deleted_at IS NOT NULL")).toEqual([{ n: 0 }]);
    }),
  );

  test(
    "T6 of one that was read hides it from then on: from room lines, from the primer, and from who comes later",
    inRoom(async (stage, { alice, bob }) => {
      const line = await alice.says("my number is 4711");
      const words = await alice.says("@mohe say my code is 0815");
      await stage.quiets();
      await bob.deletes(words);
      await alice.deletes(line);
      await alice.deletes(words);
      await alice.says("@mohe say ok");
      await stage.quiets();
      expect(stage.lastPrompt()).toContain('Note: "alice" has taken a message back; do not repeat it.');
      await alice.says("@zhiwei what was said?");
      await stage.quiets();
      expect(stage.lastPrompt()).not.toMatch(/4711|say my code/);
      await stage.restarts();
      await alice.says("@mohe history");
      await stage.quiets();
      const answer = stage.sql<{ body: string }>("SELECT body FROM message ORDER BY id DESC LIMIT 1")[0]!.body;
      expect(answer).toContain("(deleted)");
      expect(answer).not.toMatch(/say my code/);
    }),
  );
});
