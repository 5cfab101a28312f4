import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { EventFeed } from "../../src/http/event-feed.ts";
import { silentLog } from "../../src/util/log.ts";
import { openPushStage, type PushStage } from "../support/push-stage.ts";

/** The streams of events with the clock in hand: what is kept for whom, and for how long. */

const OWNER = { id: "owner", role: "owner" } as const;

describe("followers", () => {
  let stage: PushStage;
  let feed: EventFeed;
  let server: Server;
  let isLetIn: boolean;

  beforeEach(async () => {
    stage = await openPushStage();
    isLetIn = true;
    feed = new EventFeed({
      gateway: stage.gateway,
      clock: stage.clock,
      log: silentLog,
      ownerToken: { current: "the-owners-own-token" },
    });
    server = createServer((incoming, response) => {
      const lastEventId = incoming.headers["last-event-id"] as string | undefined;
      feed.open({ caller: OWNER, key: undefined, response, lastEventId, isStillLetIn: () => isLetIn });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  afterEach(async () => {
    feed.close();
    server.closeAllConnections();
    server.close();
    await stage.end();
  });

  async function connect(lastEventId?: string) {
    const { port } = server.address() as AddressInfo;
    const headers = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    const call = request({ port, host: "127.0.0.1", agent: false, headers });
    call.on("error", () => undefined);
    call.end();
    const [response] = (await once(call, "response")) as [IncomingMessage];
    let text = "";
    response.setEncoding("utf8");
    return {
      call,
      response,
      read: () => void response.on("data", (chunk: string) => (text += chunk)),
      get text() {
        return text;
      },
    };
  }

  test("F-SEC-03 A12: nothing is kept for somebody who left and does not come back", async () => {
    const reader = await connect();
    reader.read();
    await stage.until(() => reader.text.includes("event: hello"));
    reader.call.destroy();
    await stage.until(() => feed.streams === 0);
    expect(stage.gateway.events.isHeard).toBe(true);
    await stage.clock.advance(29_000);
    expect(stage.gateway.events.isHeard).toBe(true);
    await stage.clock.advance(1_000);
    expect(stage.gateway.events.isHeard).toBe(false);
  });

  test("F-SEC-03 A12: a connection that takes nothing is cut after a while, and one that does is kept alive", async () => {
    const [deaf, attentive] = [await connect(), await connect()];
    attentive.read();
    const text = `say ${"long words ".repeat(250_000)}`;
    const said = await stage.gateway.doors.say({
      person: OWNER,
      agent: "main",
      door: { platform: "http", name: "me" },
      text,
    });
    await stage.gateway.turns.answerOf(said.turnId!);
    await stage.until(() => attentive.text.includes("event: turn:settled"));
    await stage.clock.advance(15_000);
    expect(feed.streams).toBe(2);
    await stage.clock.advance(15_000);
    await stage.until(() => feed.streams === 1);
    await stage.until(() => attentive.text.includes("event: keepalive"));
    deaf.call.destroy();
    attentive.call.destroy();
  });

  test("F-OPS-01 A3: a stream whose token is not good any more is ended by the next look at it", async () => {
    const reader = await connect();
    reader.read();
    await stage.until(() => reader.text.includes("event: hello"));
    const ended = once(reader.response, "end");
    isLetIn = false;
    await stage.gateway.reload({ ...stage.gateway.config });
    await stage.clock.advance(15_000);
    await ended;
    expect([feed.streams, stage.gateway.events.isHeard]).toEqual([0, false]);
  });
});
