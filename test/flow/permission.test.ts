import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Door, story } from "../support/harness.ts";
import { openPushStage, type PushStage } from "../support/push-stage.ts";
import { ALICE_AND_BOB, agentsInRoom, CORE, RoomServer } from "../support/room.ts";

const MINUTE_MS = 60_000;

describe("an agent asks leave at a door that is written to", () => {
  let stage: PushStage;
  beforeEach(async () => {
    stage = await openPushStage();
  });
  afterEach(() => stage.end());

  const asks = async (): Promise<number> => {
    const { bot, until } = stage;
    const outcome = await bot.says("ask");
    if (outcome.kind !== "queued") throw new Error(outcome.kind);
    await until(() => bot.sent.length === 1);
    return outcome.turnId;
  };
  const texts = (): string[] => stage.bot.sent.map(({ text }) => text);

  test("B T7 the question is a delivery in words, and its author's answer lets the agent go on", async () => {
    const { bot, until } = stage;
    const turnId = await asks();
    expect(texts()[0]).toBe(
      [
        "The agent asks leave: The demo agent asks for nothing in particular.",
        "  1  Allow",
        "  2  Reject",
        "/allow or /allow with a number, /deny refuses. Without an answer within 5 min it is refused.",
      ].join("\n"),
    );
    await bot.answersQuestion({ turnId, id: `ask-${turnId}`, optionId: "allow" });
    await until(() => bot.sent.length === 3);
    expect(texts().slice(1)).toEqual(["Answered: allow.", expect.stringContaining("allow")]);
  });

  test("H12 somebody else's answer does not count, and the question stays open", async () => {
    const { bot, gateway, until } = stage;
    const turnId = await asks();
    const by = { author: { kind: "person" as const, id: "43", name: "Eve" } };
    await bot.answersQuestion({ turnId, id: `ask-${turnId}`, optionId: "allow" }, { by });
    await until(() => bot.sent.length === 2);
    expect(texts()[1]).toBe("Only the one who asked, or the owner, answers what the agent asks leave for.");
    expect((await gateway.reader.turn(turnId))?.state).toBe("running");
    await bot.answersQuestion({ turnId, id: `ask-${turnId}`, optionId: null });
    await until(() => bot.sent.length === 4);
  });

  test("T7 without an answer it is refused after its time, and the wait counts for no limit of the turn", async () => {
    const { bot, clock, gateway, until } = stage;
    const turnId = await asks();
    await clock.advance(4 * MINUTE_MS);
    expect((await gateway.reader.turn(turnId))?.state).toBe("running");
    await clock.advance(2 * MINUTE_MS);
    await until(() => bot.sent.length === 2);
    expect((await gateway.reader.turn(turnId))?.state).toBe("answered");
    await bot.answersQuestion({ turnId, id: `ask-${turnId}`, optionId: "allow" });
    await until(() => bot.sent.length === 3);
    expect(texts()[2]).toBe("That turn does not run any more.");
  });
});

describe("F-TRN-01 T11 whoever joins a turn in a room, with more rights or less, it runs with the least of them", () => {
  const CONFIG = {
    agents: agentsInRoom(["mohe"]),
    people: ALICE_AND_BOB,
    access: { xmpp: { rooms: [CORE] } },
  };
  const asked = "mohe: The agent asks leave";

  test.each([
    ["a guest's that the owner joins", ["gina", "alice"], false],
    ["the owner's that a guest joins", ["alice", "gina"], false],
    ["the owner's that a guest and then the owner joins", ["alice", "gina", "alice"], false],
    ["a member's that the owner joins", ["bob", "alice"], false],
    ["the owner's own", ["alice", "alice"], true],
  ])("F-TRN-01 T11 H12 a waiting turn: %s", async (_, nicks, isAsked) => {
    const room = new RoomServer();
    await story(
      async (stage) => {
        await room.person("alice").says("@mohe slow 5");
        const [first, ...others] = nicks.map((nick) => room.person(nick));
        await first!.says("@mohe ask");
        for (const person of others) await person.says("@mohe and more");
        await stage.passes(10_000);
        // Only the owner is asked where others read along: in a turn of less rights it is refused at once.
        expect(room.shows().some((line) => line.startsWith(asked))).toBe(isAsked);
        expect(room.shows().includes("mohe: no answer")).toBe(!isAsked);
        if (isAsked) await first!.says("@mohe /deny");
      },
      CONFIG,
      { createChannel: room.createChannel },
    )();
  });

  test(
    "F-TRN-01 T11 H12 at a door of one's own: nobody but the owner answers for a turn that another person's words were steered into",
    story(
      async (stage) => {
        const [alice, bob] = [stage.alice(), stage.bob()];
        const words = await bob.says("hang");
        await stage.passes(100);
        const answers = (door: Door) => () => door.allows(words, "any", "allow");
        expect(answers(bob)).toThrow("not open any more");
        await alice.speaksInto(bob, "hurry up");
        await stage.passes(100);
        expect(answers(bob)).toThrow("for somebody else");
        expect(answers(alice)).toThrow("not open any more");
        await bob.says("/stop");
        await stage.passes(100);
      },
      { turn: { busy_mode: "steer" } },
    ),
  );
});
