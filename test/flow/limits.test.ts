import { describe, expect, test } from "vitest";
import { type Story, type StoryOptions, story } from "../support/harness.ts";
import { httpStory } from "../support/http-stage.ts";
import { agentsInRoom, type PersonInRoom, RoomServer } from "../support/room.ts";

/**
 * F-SEC-08. The kind: whoever is only let in makes the gateway work or speak without end, alone, with many names, in one place or in
 * many, by words, commands or answers of a machine, before and after a restart. F-SEC-13: so do the notices that refuse it.
 */

const MINUTE = 60_000;
const OWNER = { owner: { name: "Alice", accounts: [{ platform: "xmpp", id: "alice@test" }] } };
const PEOPLE = { ...OWNER, bob: { accounts: [{ platform: "xmpp", id: "bob@test" }] } };
const OPEN = { agents: agentsInRoom(["mohe"]), people: PEOPLE, access: { xmpp: { open: true } } };

function inRoom(
  tell: (stage: Story, room: RoomServer) => Promise<void>,
  config: StoryOptions["config"] = OPEN,
): () => Promise<void> {
  return async () => {
    const room = new RoomServer();
    await story((stage) => tell(stage, room), config, { createChannel: room.createChannel })();
  };
}

function turns(stage: Story): number {
  return (stage.sql("SELECT count(*) AS n FROM turn")[0] as { n: number }).n;
}

function refused(stage: Story, reason = "rate_limited"): number {
  const row = stage.sql("SELECT count(*) AS n FROM intake WHERE fate = 'refused' AND reason = ?", reason)[0];
  return (row as { n: number }).n;
}

/** So many words, each answered before the next. */
async function says(stage: Story, count: number, say: (text: string) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < count; n++) {
    await say(`say ${n}`);
    await stage.quiets();
    await stage.passes(1_100);
  }
}

/** A program that sends back whatever it is told, so long after. */
async function echoes(stage: Story, bot: PersonInRoom, { delayMs, forMs }: { delayMs: number; forMs: number }) {
  let heard = 0;
  await bot.tells("mohe", "say hello");
  for (let waited = 0; waited < forMs; waited += delayMs) {
    await stage.passes(delayMs);
    for (const text of bot.told.slice(heard)) await bot.tells("mohe", text);
    heard = bot.told.length;
  }
  await stage.quiets();
}

describe("how often a guest is answered", () => {
  test(
    "F-SEC-08 A10 T10 ten turns a minute, then words are refused, and it is said once a minute",
    inRoom(async (stage, room) => {
      const carol = room.person("carol");
      await says(stage, 15, (text) => carol.tells("mohe", text));
      expect([turns(stage), refused(stage)]).toEqual([10, 5]);
      expect(carol.told).toHaveLength(11);
      expect(carol.told.at(-1)).toMatch(/up to 10 messages a minute .* again in \d+ s/);
      await stage.passes(MINUTE);
      await carol.tells("mohe", "say again");
      await stage.quiets();
      expect(carol.told.at(-1)).toBe("again");
    }),
  );

  test(
    "F-SEC-08 A10 a hundred turns an hour",
    inRoom(async (stage, room) => {
      const carol = room.person("carol");
      for (let n = 0; n < 110; n++) {
        await carol.tells("mohe", `say ${n}`);
        await stage.passes(10_000);
      }
      expect([turns(stage), refused(stage)]).toEqual([100, 10]);
      expect(carol.told.slice(100)).toEqual([expect.stringContaining("up to 100 messages an hour")]);
      await stage.passes(50 * MINUTE);
      await carol.tells("mohe", "say again");
      await stage.quiets();
      expect(carol.told.at(-1)).toBe("again");
    }),
  );

  test(
    "F-SEC-08 A10 whoever was told of the minute is told of the hour too",
    inRoom(
      async (stage, room) => {
        const carol = room.person("carol");
        for (let n = 0; n < 6; n++) {
          for (let line = 0; line < 4; line++) await says(stage, 1, (text) => carol.tells("mohe", text));
          await stage.passes(MINUTE);
        }
        expect(turns(stage)).toBe(5);
        const told = carol.told.filter((text) => text.includes("up to"));
        expect(told.filter((text) => text.includes("a minute"))).toHaveLength(2);
        expect(told.filter((text) => text.includes("an hour"))).toHaveLength(1);
      },
      { ...OPEN, limits: { guest_per_minute: 2, guest_per_hour: 5 } },
    ),
  );

  test(
    "F-SEC-08 A10 over all doors, rooms and agents, and a restart forgets nothing",
    inRoom(
      async (stage, room) => {
        const carol = room.person("carol");
        await says(stage, 4, (text) => carol.tells("mohe", text));
        await says(stage, 4, (text) => carol.says(`@mohe ${text}`));
        await stage.restarts();
        await says(stage, 4, (text) => carol.says(`@zhiwei ${text}`));
        expect([turns(stage), refused(stage)]).toEqual([10, 2]);
        expect(room.shows().filter((line) => line.includes("up to 10 messages a minute"))).toHaveLength(1);
      },
      { ...OPEN, agents: agentsInRoom(["mohe", "zhiwei"]) },
    ),
  );

  test(
    "F-SEC-08 A10 words that join a turn that waits begin none",
    inRoom(async (stage, room) => {
      const carol = room.person("carol");
      await carol.tells("mohe", "slow 5");
      for (let n = 0; n < 30; n++) await carol.tells("mohe", `say ${n}`);
      await stage.quiets();
      expect([turns(stage), refused(stage)]).toEqual([2, 0]);
    }),
  );

  test(
    "F-SEC-08 A10 commands have the same number of their own, and answers to them are not endless either",
    inRoom(async (stage, room) => {
      const carol = room.person("carol");
      await says(stage, 10, (text) => carol.tells("mohe", text));
      for (let n = 0; n < 30; n++) await carol.tells("mohe", n % 2 === 0 ? "/status" : "/new say more");
      await stage.rests();
      expect(turns(stage)).toBe(10);
      expect(carol.told.length).toBeLessThan(25);
      expect(carol.told).toContainEqual(expect.stringContaining("Conversation:"));
    }),
  );

  test(
    "F-SEC-08 A10 the owner and members are never held",
    inRoom(async (stage, room) => {
      for (const nick of ["alice", "bob"]) await says(stage, 40, (text) => room.person(nick).tells("mohe", text));
      await says(stage, 40, (text) => room.person("bob").says(`@mohe ${text}`));
      expect([turns(stage), refused(stage)]).toEqual([120, 0]);
    }),
  );
});

describe("many guests", () => {
  test(
    "F-SEC-08 A10 in one place thirty turns a minute, however many they are; the owner is answered all the same",
    inRoom(async (stage, room) => {
      for (let n = 0; n < 40; n++) {
        await room.person(`guest-${n % 20}`).says(`@mohe say ${n}`);
        await stage.quiets();
        await stage.passes(1_100);
      }
      expect([turns(stage), refused(stage)]).toEqual([30, 10]);
      expect(room.shows().filter((line) => line.includes("up to 30 messages a minute here"))).toHaveLength(1);
      await room.person("alice").says("@mohe say to me");
      await stage.quiets();
      expect(room.shows().at(-1)).toBe("mohe: to me");
    }),
  );

  test(
    "F-SEC-08 A10 an account of ours answers sixty a minute, in however many chats",
    inRoom(async (stage, room) => {
      for (let n = 0; n < 80; n++) {
        await room.person(`guest-${n}`).tells("mohe", `say ${n}`);
        await stage.passes(500);
      }
      await stage.quiets();
      expect([turns(stage), refused(stage)]).toEqual([60, 20]);
    }),
  );

  test(
    "F-SEC-08 A10 E2 the numbers are settings",
    inRoom(
      async (stage, room) => {
        await says(stage, 3, (text) => room.person("carol").tells("mohe", text));
        expect([turns(stage), refused(stage)]).toEqual([2, 1]);
        for (const nick of ["dora", "eve"]) await says(stage, 2, (text) => room.person(nick).says(`@mohe ${text}`));
        expect([turns(stage), refused(stage)]).toEqual([5, 2]);
      },
      { ...OPEN, limits: { guest_per_minute: 2, place_per_minute: 3 } },
    ),
  );
});

describe("a program that answers", () => {
  test(
    "F-SEC-08 A10 G5 six answers in a row, each within a second, are those of an agent: the loop ends, and is said once",
    inRoom(async (stage, room) => {
      const bot = room.person("echo");
      await echoes(stage, bot, { delayMs: 100, forMs: 20_000 });
      expect(turns(stage)).toBe(7);
      expect(bot.told.filter((text) => text.includes("answered each other"))).toHaveLength(1);
      await stage.restarts();
      await bot.tells("mohe", "say I am a person after all");
      await stage.quiets();
      expect(bot.told.at(-1)).toBe("I am a person after all");
    }),
  );

  test(
    "F-SEC-08 G5 in a room with several agents too, whichever of them is answered",
    inRoom(
      async (stage, room) => {
        const bot = room.person("echo");
        for (const agent of ["mohe", "zhiwei"]) {
          await bot.says(`@${agent} say hello`);
          for (let n = 0; n < 30; n++) {
            await stage.passes(100);
            const line = room.lines.at(-1)!;
            if (line.nick === agent) await bot.says(`@${agent} say ${line.text}`);
          }
          await stage.passes(61_000);
        }
        expect(turns(stage)).toBe(14);
        expect(room.shows().filter((line) => line.includes(": Agents have answered each other"))).toHaveLength(2);
      },
      { ...OPEN, agents: agentsInRoom(["mohe", "zhiwei"]) },
    ),
  );

  test(
    "F-SEC-08 A10 one that takes its time is held by the numbers, and so is the sentence that says so",
    inRoom(async (stage, room) => {
      const bot = room.person("echo");
      await echoes(stage, bot, { delayMs: 2_000, forMs: 5 * MINUTE });
      expect(turns(stage)).toBeLessThanOrEqual(60);
      expect(bot.told.filter((text) => text.includes("a minute")).length).toBeLessThanOrEqual(6);
    }),
  );

  test(
    "F-SEC-08 G5 a person who writes several lines at once, or answers fast now and then, is a person",
    inRoom(async (stage, room) => {
      const carol = room.person("carol");
      for (let n = 0; n < 3; n++) {
        for (let line = 0; line < 8; line++) await carol.tells("mohe", `say ${n} ${line}`);
        await stage.quiets();
        await stage.passes(20_000);
      }
      expect(carol.told.filter((text) => text.includes("answered each other"))).toEqual([]);
      expect(refused(stage)).toBe(0);
    }),
  );

  test(
    "F-SEC-08 G5 fast answers of a member are no loop",
    inRoom(async (stage, room) => {
      const bob = room.person("bob");
      for (let n = 0; n < 12; n++) {
        await bob.tells("mohe", `say ${n}`);
        await stage.passes(100);
      }
      await stage.quiets();
      expect(bob.told).toHaveLength(12);
    }),
  );
});

describe("a flood", () => {
  test(
    "F-SEC-13 T5 too many words in a room are refused each, and it is said there once a minute",
    inRoom(
      async (stage, room) => {
        for (let n = 0; n < 100; n++) await room.person(n % 2 === 0 ? "alice" : "bob").says(`@mohe slow ${40 + n}`);
        await stage.rests();
        expect(refused(stage, "queue_full")).toBe(97);
        expect(room.shows().filter((line) => line.includes("Too many messages"))).toHaveLength(1);
        await stage.passes(61_000);
        await stage.quiets();
      },
      { ...OPEN, turn: { busy_mode: "queue", max_waiting_turns: 2 } },
    ),
  );
});

describe("over HTTP", () => {
  const TOKEN = "a-guest-has-this-token";
  test(
    "F-SEC-08 A10 E3 a guest's token gets 429 with the code, a sentence and a remedy",
    httpStory(
      async (stage) => {
        const ask = (token?: string) =>
          stage.call({
            path: "/v1/chat/completions",
            body: { user: "me", messages: [{ role: "user", content: "say hi" }] },
            ...(token === undefined ? {} : { token }),
          });
        for (let n = 0; n < 3; n++) expect((await ask(TOKEN)).status).toBe(200);
        for (let n = 0; n < 2; n++) {
          const reply = await ask(TOKEN);
          expect([reply.status, reply.json().error.code]).toEqual([429, "rate_limited"]);
          expect(reply.json().error.message).toContain("up to 3 messages a minute");
          expect(reply.json().error.remedy).toContain("limits:");
        }
        for (let n = 0; n < 5; n++) expect((await ask()).status).toBe(200);
      },
      { people: { carol: { role: "guest", tokens: [TOKEN] } }, limits: { guest_per_minute: 3 } },
    ),
  );
});
