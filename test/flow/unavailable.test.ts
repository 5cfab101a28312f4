import { describe, expect, test } from "vitest";
import type { Inbox } from "../../src/channel/channel.ts";
import { type ErrorCode, TertuliaError } from "../../src/errors.ts";
import type { PlatformEvent } from "../../src/message/platform-event.ts";
import { type Story, story } from "../support/harness.ts";
import { ALICE_AND_BOB, agentsInRoom, RoomServer } from "../support/room.ts";

/** A channel whose platform brings again what was not acknowledged. */
function roomThatRepeats() {
  const room = new RoomServer();
  let inbox: Inbox | null = null;
  let last: readonly PlatformEvent[] = [];
  const createChannel: RoomServer["createChannel"] = (config) => {
    const channel = room.createChannel(config);
    return {
      ...channel,
      start: async (given) => {
        inbox = given;
        await channel.start({
          ...given,
          receive: (heard, cursor) => {
            last = heard;
            return given.receive(heard, cursor);
          },
        });
      },
    };
  };
  return { room, createChannel, again: (): Promise<void> => inbox!.receive(last) };
}

const CONFIG = { agents: agentsInRoom(["mohe"]), people: ALICE_AND_BOB };
const known = (stage: Story) =>
  stage.sql("SELECT event_id FROM event_seen UNION ALL SELECT event_id FROM refused_event");

/** The kind: whatever a platform brings while the store cannot be read or written, and whichever part of the way finds that out. */
describe("F-TRN-04 T2 an event that comes while the store is not there is brought again, and is then what it was", () => {
  const words: [string, string, string][] = [
    ["a message", "@mohe say hello", "mohe: hello"],
    ["a command", "@mohe /whoami", "You are"],
    ["a reply", "say you", "mohe: you"],
  ];
  const codes: ErrorCode[] = ["store_unavailable", "store_corrupt", "stale_claim", "gateway_stopping"];
  test.each(codes.flatMap((code) => words.map((word) => [code, ...word] as const)))(
    "F-TRN-04 T2 %s, while %s is judged",
    async (code, _, text, shown) => {
      const { room, createChannel, again } = roomThatRepeats();
      await story(
        async (stage) => {
          const alice = room.person("alice");
          await alice.says("@mohe say before");
          await stage.quiets();
          const replyTo = room.lines.at(-1)!.id;
          const before = known(stage);
          const away = async () => {
            throw new TertuliaError(code, "Not there.");
          };
          // Whichever it asks first.
          const { store } = stage.process;
          const { conversation, authorOf } = store;
          Object.assign(store, { conversation: away, authorOf: away });
          await expect(alice.says(text, { replyTo })).rejects.toMatchObject({ code });
          expect(known(stage)).toEqual(before);
          Object.assign(store, { conversation, authorOf });
          await again();
          await stage.quiets();
          expect(room.shows().at(-1)).toContain(shown);
          await again();
          await stage.quiets();
          expect(room.lines).toHaveLength(4);
        },
        CONFIG,
        { createChannel },
      )();
    },
  );

  test.each(codes)("F-TRN-04 T2 %s, while a message is stored", async (code) => {
    const { room, createChannel, again } = roomThatRepeats();
    await story(
      async (stage) => {
        const { store } = stage.process;
        const { admit } = store;
        Object.assign(store, {
          admit: async () => {
            throw new TertuliaError(code, "Not there.");
          },
        });
        await expect(room.person("alice").says("@mohe say hello")).rejects.toMatchObject({ code });
        Object.assign(store, { admit });
        expect(known(stage)).toEqual([]);
        await again();
        await stage.quiets();
        expect(room.shows()).toEqual(["alice: @mohe say hello", "mohe: hello"]);
      },
      CONFIG,
      { createChannel },
    )();
  });

  test("F-TRN-04 T2 what cannot be judged for its own sake is refused once, and the stream goes on", async () => {
    const { room, createChannel, again } = roomThatRepeats();
    await story(
      async (stage) => {
        const alice = room.person("alice");
        const { store } = stage.process;
        const { conversation } = store;
        Object.assign(store, {
          conversation: async () => {
            throw new TertuliaError("request_invalid", "Not to be read.");
          },
        });
        await alice.says("@mohe say hello");
        Object.assign(store, { conversation });
        await again();
        await stage.quiets();
        expect(room.shows()).toEqual(["alice: @mohe say hello"]);
        expect(stage.sql("SELECT code FROM refused_event")).toEqual([{ code: "request_invalid" }]);
      },
      CONFIG,
      { createChannel },
    )();
  });
});
