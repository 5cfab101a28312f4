import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { rotateOwnerToken } from "../../src/gateway/owner-token.ts";
import { MOST_STREAMS } from "../../src/http/event-feed.ts";
import { bytesOf, doorKey, type HttpStage, httpStory, until, untilStreams, type Wire } from "../support/http-stage.ts";

/** `GET /api/events`: what happens, as it happens, to those who watch. */

interface Line {
  readonly event: string;
  readonly id?: string;
  readonly data: {
    readonly conversationKey?: string;
    readonly homeKey?: string;
    readonly text?: string;
    readonly turnId?: number;
    readonly [field: string]: unknown;
  };
}

/** A reader of the stream, who is heard already. */
class Listener {
  readonly #wire: Wire;

  private constructor(wire: Wire) {
    this.#wire = wire;
  }

  static async at(
    stage: HttpStage,
    conversation?: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Listener> {
    const wire = stage.connect();
    const query = conversation === undefined ? "" : `?conversation=${encodeURIComponent(conversation)}`;
    wire.send(bytesOf("GET", `/api/events${query}`, { Host: "localhost", ...headers }));
    await wire.received("event: hello");
    return new Listener(wire);
  }

  /** Everything up to the first line that has these words. */
  async until(words: string): Promise<Line[]> {
    const blocks = (await this.#wire.received(words, "\n\n")).split("\n\n");
    return blocks.slice(0, -1).flatMap((block) => {
      const event = /^event: (.*)$/m.exec(block)?.[1];
      const data = /^data: (.*)$/m.exec(block)?.[1];
      const id = /^id: (.*)$/m.exec(block)?.[1];
      if (event === undefined || data === undefined) return [];
      return [{ event, data: JSON.parse(data) as Line["data"], ...(id === undefined ? {} : { id }) }];
    });
  }

  vanish(): void {
    this.#wire.vanish();
  }

  closed(): Promise<string> {
    return this.#wire.closed();
  }
}

async function say(stage: HttpStage, key: string, text: string) {
  const reply = await stage.call({ path: `/api/conversations/${encodeURIComponent(key)}/messages`, body: { text } });
  return reply.json<{ message: number; turn: number; session: string }>();
}

const settled = (text: string): string => `"text":${JSON.stringify(text)},"silent":false`;
const shape = ({ event, data }: Line) =>
  event === "delivery:written" || event === "turn:text" || event === "message:admitted"
    ? `${event} ${data.text}`
    : event;

describe("what is told", () => {
  test(
    "a message is admitted, its turn begins, speaks and is settled, and notices and replies are delivered",
    httpStory(async (stage) => {
      const listener = await Listener.at(stage);
      const key = doorKey("http", "me");
      const { message, turn, session } = await say(stage, key, "count 3");
      await stage.gateway.turns.answerOf(turn);
      await say(stage, key, "/stop");
      const lines = (await listener.until("There was nothing to stop.")).filter(
        ({ event }) => event !== "runtime:state",
      );
      expect(lines.map(shape)).toEqual([
        "hello",
        "message:admitted count 3",
        "turn:begun",
        "turn:text 1",
        "turn:text  2",
        "turn:text  3",
        "turn:settled",
        "delivery:written 1 2 3",
        "message:admitted /stop",
        "delivery:written There was nothing to stop.",
      ]);
      const [, admitted, begun, , , , ended] = lines;
      expect(admitted?.data).toMatchObject({
        conversationKey: key,
        messageId: message,
        turnId: turn,
        author: { id: "owner" },
      });
      expect(begun?.data).toMatchObject({ conversationKey: key, homeKey: key, sessionId: session, turn: { id: turn } });
      expect(ended?.data).toMatchObject({
        text: "1 2 3",
        silent: false,
        messageIds: [message],
        turn: { state: "answered" },
      });
      listener.vanish();
    }),
  );

  test(
    "a tool is told with its state, and a turn that fails with its reason and notice",
    httpStory(async (stage) => {
      const listener = await Listener.at(stage);
      await say(stage, doorKey("http", "a"), "tool");
      await say(stage, doorKey("http", "b"), "fail");
      await listener.until(settled("I counted one up: 1"));
      const lines = await listener.until('"state":"failed"');
      const tools = lines.filter(({ event }) => event === "turn:tool").map(({ data }) => data.state);
      expect(tools).toEqual(["pending", "running", "done"]);
      const notices = await listener.until("The demo agent was told to fail.");
      expect(notices.some(({ event }) => event === "delivery:written")).toBe(true);
      listener.vanish();
    }),
  );

  test(
    "O5 silence is told as silence, and not as the word for it",
    httpStory(async (stage) => {
      const listener = await Listener.at(stage);
      await say(stage, doorKey("http", "me"), "say NO_REPLY");
      const lines = await listener.until('"silent":true');
      expect(lines.map(({ event }) => event)).not.toContain("turn:text");
      listener.vanish();
    }),
  );

  test(
    "one conversation can be listened to: the others are not heard there",
    httpStory(async (stage) => {
      const key = doorKey("http", "mine");
      const listener = await Listener.at(stage, key);
      await say(stage, doorKey("http", "other"), "say elsewhere");
      await stage.gateway.turns.answerOf((await say(stage, key, "say here")).turn);
      const lines = await listener.until("event: delivery:written");
      expect(lines.map(shape)).toEqual([
        "hello",
        "message:admitted say here",
        "turn:begun",
        "turn:text here",
        "turn:settled",
        "delivery:written here",
      ]);
      expect(lines[0]?.data).toEqual({ conversation: key });
      listener.vanish();
    }),
  );

  test(
    "a name that is no conversation's key is refused",
    httpStory(async (stage) => {
      for (const key of ["nonsense", "agent:main", "agent:main:http:dm:%", "agent:main:http:dm:a:b:c", "%F0%9F"]) {
        const reply = await stage.call({ path: `/api/events?conversation=${encodeURIComponent(key)}` });
        expect([reply.status, reply.json().error.code]).toEqual([404, "conversation_unknown"]);
      }
    }),
  );
});

describe("handoff", () => {
  test(
    "H6 an attached door sees the turn of a bound room live, and its transcript has it",
    httpStory(async (stage) => {
      const home = doorKey("console", "main");
      const room = doorKey("web", "room");
      const { session, turn } = await say(stage, home, "say at home");
      await stage.gateway.turns.answerOf(turn);
      const attached = await Listener.at(stage, home);
      const inRoom = await Listener.at(stage, room);
      const sent = await stage.call({ path: "/api/send", body: { room, text: "I am here now", session } });
      expect(sent.json()).toMatchObject({ key: room, binding: { kind: "live", sessionId: session } });
      const asked = await say(stage, room, "slow 2");
      expect(asked.session).toBe(session);
      const seen = await attached.until(settled("1 2"));
      expect(seen.map(shape)).toEqual(["hello", "turn:begun", "turn:text 1", "turn:text  2", "turn:settled"]);
      expect(seen[1]?.data).toMatchObject({ conversationKey: room, homeKey: home, sessionId: session });
      expect(JSON.stringify(seen[1]?.data.messages)).toContain("slow 2");
      const there = (await inRoom.until("delivery:written")).map(shape);
      expect(there).toContain("binding:changed");
      const entries = await stage.gateway.reader.transcript({ sessionId: session, limit: 9 });
      expect(entries.map(({ role, text }) => `${role}: ${text}`).slice(-2)).toEqual(["user: slow 2", "assistant: 1 2"]);
      attached.vanish();
      inRoom.vanish();
    }),
  );
});

describe("readers that go away or do not read", () => {
  test(
    "a vanished reader leaves nothing that listens, and a turn goes on without it",
    httpStory(async (stage) => {
      const readers = await Promise.all(Array.from({ length: 20 }, () => Listener.at(stage)));
      const key = doorKey("http", "me");
      const { turn } = await say(stage, key, "slow 2");
      await readers[0]?.until("event: turn:text");
      for (const reader of readers) reader.vanish();
      await untilStreams(stage, 0);
      expect((await stage.gateway.turns.answerOf(turn)).text).toBe("1 2");
    }),
  );

  test(
    "HEAD is answered, and leaves nothing that listens",
    httpStory(async (stage) => {
      const reply = await stage.call({ method: "HEAD", path: "/api/events" });
      expect([reply.status, reply.headers["content-type"], reply.text]).toEqual([200, "text/event-stream", ""]);
      expect(stage.gateway.events.isHeard).toBe(false);
    }),
  );

  test(
    "F-SEC-03 A12: a reader that does not read is cut before much piles up for it, and the others hear everything",
    httpStory(async (stage) => {
      const slow = stage.connect();
      slow.socket.pause();
      slow.send(bytesOf("GET", "/api/events", { Host: "localhost" }));
      await until(() => stage.gateway.events.isHeard);
      const attentive = await Listener.at(stage, doorKey("http", "last"));
      const long = `say ${"long words ".repeat(80_000)}`;
      for (let i = 0; i < 10; i++) {
        const { turn } = await say(stage, doorKey("http", `long-${i}`), long);
        await stage.gateway.turns.answerOf(turn);
      }
      await say(stage, doorKey("http", "last"), "say still there");
      await attentive.until(settled("still there"));
      attentive.vanish();
      // The slow one does not read to this moment, and is not connected any more.
      await untilStreams(stage, 0);
      expect(stage.log.filter(({ line }) => line.includes("an event stream was cut"))).toHaveLength(1);
      slow.socket.resume();
      await slow.closed();
    }),
  );

  test(
    "the end of the gateway is the end of every stream",
    httpStory(async (stage) => {
      const readers = await Promise.all(Array.from({ length: 5 }, () => Listener.at(stage)));
      const from = performance.now();
      await stage.restart();
      expect(performance.now() - from).toBeLessThan(500);
      for (const reader of readers) await reader.closed();
      expect(stage.gateway.events.isHeard).toBe(false);
    }),
  );
});

describe("many readers, and those who come back", () => {
  // Of the kind: whoever reads, how slowly, how many of them, and whether they come back; what it costs is one copy of what is held.
  test(
    "F-SEC-03 A12: sixty streams that read nothing hold one copy of a long message, and nobody waits for them",
    httpStory(async (stage) => {
      const deaf = Array.from({ length: 60 }, () => stage.connect());
      for (const { socket, send } of deaf) {
        socket.pause();
        send(bytesOf("GET", "/api/events", { Host: "localhost" }));
      }
      await untilStreams(stage, 60);
      const before = process.memoryUsage().arrayBuffers;
      const key = doorKey("http", "me");
      const { turn } = await say(stage, key, `say ${"long words ".repeat(80_000)}`);
      await stage.gateway.turns.answerOf(turn);
      const from = performance.now();
      expect((await stage.call({ path: "/health" })).status).toBe(200);
      expect(performance.now() - from).toBeLessThan(1_000);
      // About five events of a megabyte each, for sixty readers.
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(40_000_000);
      const listener = await Listener.at(stage, key);
      await say(stage, key, "say short");
      await listener.until(settled("short"));
      listener.vanish();
      for (const wire of deaf) wire.vanish();
    }),
  );

  test(
    "F-SEC-03 A12: a person has so many streams, and no more; another person has his own",
    httpStory(
      async (stage) => {
        const readers = await Promise.all(Array.from({ length: MOST_STREAMS.ofPerson }, () => Listener.at(stage)));
        const refused = await stage.call({ path: "/api/events" });
        expect([refused.status, refused.json().error.code]).toEqual([429, "too_many"]);
        const bob = await Listener.at(stage, undefined, { Authorization: "Bearer a-token-of-bob-0123456789" });
        readers[0]!.vanish();
        await untilStreams(stage, MOST_STREAMS.ofPerson);
        readers[0] = await Listener.at(stage);
        for (const reader of [...readers, bob]) reader.vanish();
      },
      { people: { bob: { tokens: ["a-token-of-bob-0123456789"] } } },
    ),
  );

  test(
    "F-SEC-03 A12: whoever comes back with the id of his last event misses none, and gets none twice",
    httpStory(async (stage) => {
      const key = doorKey("http", "me");
      const first = await Listener.at(stage, key);
      const heard = await first.until("event: hello");
      first.vanish();
      await untilStreams(stage, 0);
      await stage.gateway.turns.answerOf((await say(stage, key, "say one")).turn);
      const second = await Listener.at(stage, key, { "Last-Event-ID": heard[0]!.id! });
      const lines = await second.until("event: delivery:written");
      expect(lines.map(shape)).toEqual([
        "hello",
        "message:admitted say one",
        "turn:begun",
        "turn:text one",
        "turn:settled",
        "delivery:written one",
      ]);
      expect(lines[0]!.data).toEqual({ conversation: key, resumed: true });
      // In the middle of a turn too, and while the first connection still stands.
      const { turn } = await say(stage, key, "count 3");
      const middle = (await second.until('"text":" 2"')).findLast(({ data }) => data.text === " 2");
      await stage.gateway.turns.answerOf(turn);
      const third = await Listener.at(stage, key, { "Last-Event-ID": middle!.id! });
      expect((await third.until("delivery:written")).map(shape)).toEqual([
        "hello",
        "turn:text  3",
        "turn:settled",
        "delivery:written 1 2 3",
      ]);
      for (const listener of [second, third]) listener.vanish();
    }),
  );

  test(
    "F-SEC-03 A12: an id of another run, another conversation or nobody is told as a gap",
    httpStory(async (stage) => {
      const key = doorKey("http", "me");
      const mine = await Listener.at(stage, key);
      const id = (await mine.until("event: hello"))[0]!.id!;
      for (const [at, other] of [
        [key, "0-0"],
        [key, "abcdef12-3"],
        [key, `${id}7`],
        [key, "nonsense"],
        [key, "-1"],
        [doorKey("http", "other"), id],
      ] as const) {
        const back = await Listener.at(stage, at, { "Last-Event-ID": other });
        expect((await back.until("event: hello"))[0]!.data).toEqual({ conversation: at, resumed: false });
        back.vanish();
      }
      mine.vanish();
    }),
  );

  test(
    "F-OPS-01 A3 A11: streams end as soon as their token is not good any more, and hear nothing of what follows",
    httpStory(async (stage) => {
      const token = { Authorization: `Bearer ${stage.ownerToken}` };
      const key = doorKey("http", "me");
      const mine = await Listener.at(stage, undefined, token);
      const trusted = await Listener.at(stage, key);
      rotateOwnerToken(join(stage.home, "token"));
      await stage.gateway.turns.answerOf((await say(stage, key, "say after that")).turn);
      expect(await mine.closed()).not.toContain("after that");
      await trusted.until(settled("after that"));
      trusted.vanish();
    }),
  );
});

describe("what is not told", () => {
  test(
    "C3 what the model was told is not in the events of a turn",
    httpStory(async (stage) => {
      const listener = await Listener.at(stage);
      const key = doorKey("http", "me");
      await say(stage, key, "say one");
      await say(stage, key, "say two");
      const turns = (await listener.until(settled("two"))).filter(({ event }) => event.startsWith("turn:"));
      const told = turns.flatMap(({ data }) => (data.turn === undefined ? [] : [data.turn]));
      expect(told).toHaveLength(4);
      for (const turn of told) expect(turn).not.toHaveProperty("prompt");
    }),
  );
});
