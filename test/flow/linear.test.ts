import { describe, expect, test } from "vitest";
import { READERS } from "../support/foreign-text.ts";
import { story } from "../support/harness.ts";
import { cpuMs, GROWERS, slowness } from "../support/linear.ts";
import { ALICE_AND_BOB, agentsInRoom, RoomServer } from "../support/room.ts";

const LENGTH = 8_000;
const MOST_RATIO = 3;

/** The kind: nothing that somebody writes makes the gateway work longer than its length is worth. */
describe("F-SEC-02: text of others is read in linear time", () => {
  test.each(READERS)(
    "F-SEC-02: %s takes no more than three times as long for twice the text",
    (_name, read) => {
      const slow = GROWERS.flatMap(([name, grow]) => {
        const ratio = slowness(read, grow, LENGTH);
        return ratio === null || ratio <= MOST_RATIO ? [] : [`${name}: ${ratio.toFixed(1)} times as long`];
      });
      expect(slow).toEqual([]);
    },
    120_000,
  );

  test.each(["a.", "a-", "](", "a:", "`a``", "[YOU", "\u0316\u0301"])(
    "F-SEC-02: a quarter of a million letters of %j in a room are recorded at once, and the agent is still there",
    async (seed) => {
      const room = new RoomServer();
      await story(
        async (stage) => {
          const bob = room.person("bob");
          const text = seed.repeat(Math.ceil(256_000 / seed.length));
          let done: Promise<unknown> = Promise.resolve();
          const spent = cpuMs(() => {
            done = bob.says(text);
          });
          const before = process.cpuUsage();
          await done;
          await bob.says("@mohe say still here");
          await stage.quiets();
          const { user, system } = process.cpuUsage(before);
          expect(room.shows().at(-1)).toBe("mohe: still here");
          expect(spent + (user + system) / 1_000).toBeLessThan(3_000);
        },
        { agents: agentsInRoom(["mohe", "zhiwei"]), people: ALICE_AND_BOB },
        { createChannel: room.createChannel },
      )();
    },
  );
});
