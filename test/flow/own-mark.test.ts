import { describe, expect, test } from "vitest";
import { type Story, story } from "../support/harness.ts";
import { ALICE_AND_BOB, agentsInRoom, RoomServer } from "../support/room.ts";

/** The kind: whatever mark an agent writes before its own words, nobody is told it, and none comes back to it as ours. */
describe("F-ROOM-02: an agent that writes marks", () => {
  const prompts = (stage: Story): string[] =>
    stage.sql<{ prompt: string }>("SELECT prompt FROM turn ORDER BY id").map(({ prompt }) => prompt);

  test.each([
    ["[YOU] hello", "hello"],
    ["[alice] I agree", "I agree"],
    ["［YOU］：hello", "hello"],
    ["[docs](https://a.example) has it", "[docs](https://a.example) has it"],
    ["[ ] to do", "[ ] to do"],
  ])("F-ROOM-02 G2: %j is told and stored as %j", async (text, told) => {
    const room = new RoomServer();
    await story(
      async (stage) => {
        const alice = room.person("alice");
        await alice.says(`@mohe say ${text}`);
        await stage.quiets();
        expect(room.shows().slice(-1)).toEqual([`mohe: ${told}`]);
        expect(stage.sql("SELECT body FROM message WHERE author_kind = 'agent'")).toEqual([{ body: told }]);
        await alice.says("@zhiwei say ok");
        await stage.quiets();
        expect(prompts(stage).at(-1)?.split("\n")).not.toContain("| [mohe] [YOU] hello");
      },
      { agents: agentsInRoom(["mohe", "zhiwei"]), people: ALICE_AND_BOB },
      { createChannel: room.createChannel },
    )();
  });

  test(
    "F-ROOM-02 O6: who watches is told in pieces what is stored",
    story(async (stage) => {
      const alice = stage.alice("console");
      const words = await alice.says("say [YOU] one two three");
      const { seen } = alice.watches(words);
      await stage.quiets();
      const told = seen.flatMap((event) => (event.type === "text" ? [event.text] : [])).join("");
      expect(told).toBe("one two three");
      expect(await alice.transcript()).toContain("assistant: one two three");
    }),
  );
});
