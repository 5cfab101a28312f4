import { xml } from "@xmpp/client";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { startProsody } from "../support/xmpp-servers.ts";
import { SERVERS, type XmppListener, XmppStage } from "../support/xmpp-stage.ts";

/** Nothing lost, nothing doubled, in order: over cuts, restarts of either side, and a store that fails. */
describe.each(SERVERS)("catching up, on %s", (_kind, start) => {
  let stage: XmppStage;
  let proxy: TcpProxy;
  beforeAll(async () => {
    stage = new XmppStage(await start());
    proxy = await startTcpProxy(stage.server.ports.starttls);
  });
  afterEach(() => stage.clear());
  afterAll(async () => {
    await proxy.stop();
    await stage.server.stop();
  });
  const service = (): string => `xmpp://127.0.0.1:${proxy.port}`;

  /** What a store keeps: each event id once. */
  function journal(bot: XmppListener): string[] {
    const seen = new Set<string>();
    return bot.messages().flatMap(({ eventId, text }) => {
      if (seen.has(eventId)) return [];
      seen.add(eventId);
      return [text];
    });
  }
  const numbers = (from: number, to: number): string[] =>
    Array.from({ length: to - from + 1 }, (_, n) => `m${from + n}`);

  it("G-XMP-03 a feed of 168 messages through cuts, a restart of the gateway and one of the server", async () => {
    const room = stage.room();
    let ann = await stage.person("ann");
    const user = ann.jid.split("@")[0]!;
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1" });
    const bot = await stage.bot({ service: service(), rooms: [room] });
    const say = async (from: number, to: number): Promise<void> => {
      for (const text of numbers(from, to)) await ann.saysInRoom(room, text);
    };
    await say(1, 20);
    await bot.hears("m10");
    proxy.cut();
    await say(21, 40);
    await bot.hears("m30");
    proxy.cut();
    await say(41, 60);
    await bot.channel.stop();
    await say(61, 100);
    await bot.restart();
    await say(101, 128);
    await bot.hears("m110");
    await stage.server.restart();
    ann = await stage.person("ann", { user });
    await ann.join(room, "Ann");
    await say(129, 168);
    await bot.hears("m168");
    expect(journal(bot)).toEqual(numbers(1, 168));
    expect(bot.messages().filter(({ isHistory }) => isHistory)).toEqual([]);
    // The driver itself repeats nothing: the store has nothing to drop.
    expect(bot.texts()).toEqual(numbers(1, 168));
  });

  it("reads more than a page of a room and of the direct chats", async () => {
    const room = stage.room();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1" });
    const bot = await stage.bot({ rooms: [room] });
    await ann.saysInRoom(room, "m0");
    await ann.says(bot.jid, "d0");
    await bot.hears("m0");
    await bot.hears("d0");
    await bot.channel.stop();
    for (const text of numbers(1, 230)) await ann.saysInRoom(room, text);
    for (const text of numbers(1, 120)) await ann.says(bot.jid, `d${text}`);
    await ann.hears("m230");
    await bot.restart();
    await bot.hears("m230");
    await bot.hears("dm120");
    const caughtUp = bot.messages().filter(({ isCaughtUp }) => isCaughtUp === true);
    expect(caughtUp.filter(({ source }) => source.chatType === "group").map(({ text }) => text)).toEqual(
      numbers(1, 230),
    );
    const direct = bot.messages().filter(({ source }) => source.chatType === "dm");
    expect(direct.map(({ text }) => text)).toEqual(["d0", ...numbers(1, 120).map((text) => `d${text}`)]);
  });

  it("T2 what cannot be stored is handed in again, and nothing after it overtakes it", async () => {
    const room = stage.room();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    const bot = await stage.bot({ rooms: [room] });
    await ann.saysInRoom(room, "m1");
    await bot.hears("m1");
    bot.isBroken = true;
    for (const text of numbers(2, 5)) await ann.saysInRoom(room, text);
    await until("it fails", () => bot.log.some((entry) => entry.includes("could not be stored")));
    const { cursor } = bot;
    await ann.saysInRoom(room, "m6");
    bot.isBroken = false;
    await bot.hears("m6");
    expect(bot.texts()).toEqual(numbers(1, 6));
    expect(bot.cursor).not.toBe(cursor);
  });

  it("T2 a gateway that ends while nothing can be stored has the messages again after it", async () => {
    const room = stage.room();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1" });
    const bot = await stage.bot({ rooms: [room] });
    await ann.saysInRoom(room, "m1");
    await bot.hears("m1");
    bot.isBroken = true;
    await ann.saysInRoom(room, "m2");
    await ann.says(bot.jid, "direct");
    await until("it fails", () => bot.log.some((entry) => entry.includes("could not be stored")));
    await bot.channel.stop();
    bot.isBroken = false;
    await bot.restart();
    expect(await bot.hears("m2")).toMatchObject({ isCaughtUp: true });
    await bot.hears("direct");
    expect(bot.texts().sort()).toEqual(["direct", "m1", "m2"]);
  });

  it("more than fits while nothing can be stored is read from the archive later", async () => {
    const room = stage.room();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    const bot = await stage.bot({ rooms: [room] }, { pace: { mostWaiting: 100 } });
    await ann.saysInRoom(room, "m0");
    await bot.hears("m0");
    bot.isBroken = true;
    for (const text of numbers(1, 300)) await ann.saysInRoom(room, text);
    await until(
      "it is too much",
      () => bot.log.some((entry) => entry.includes("more is said than can be stored")),
      30_000,
    );
    bot.isBroken = false;
    await until("all is heard", () => bot.texts().includes("m300"));
    expect(bot.texts()).toEqual(["m0", ...numbers(1, 300)]);
  });

  it("G-XMP-01 a room that was taken out of the configuration: what was said meanwhile is history when it comes back", async () => {
    const [room, other] = [stage.room(), stage.room()];
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1" });
    const bot = await stage.bot({ rooms: [room, other] });
    await ann.saysInRoom(room, "before");
    await bot.hears("before");
    await bot.restart({ rooms: [other] });
    await ann.saysInRoom(room, "@mohe restart");
    await bot.restart({ rooms: [room, other] });
    expect(await bot.hears("@mohe restart")).toMatchObject({ isHistory: true });
    await ann.saysInRoom(room, "after");
    expect(await bot.hears("after")).toMatchObject({ isHistory: false });
  });

  it("an archive that has forgotten the last message is read by time", async () => {
    const room = stage.room();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1" });
    const bot = await stage.bot({ rooms: [room] });
    await ann.saysInRoom(room, "m1");
    const { source } = await bot.hears("m1");
    await bot.channel.stop();
    bot.cursor = bot.cursor!.replaceAll(source.messageId!, "forgotten");
    await ann.saysInRoom(room, "m2");
    await bot.restart();
    expect(await bot.hears("m2")).toMatchObject({ isCaughtUp: true });
    expect(journal(bot)).toEqual(["m1", "m2"]);
  });

  it("T6 after a restart an edit and a reply still name the messages from before it", async () => {
    const room = stage.room();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1", "muc#roomconfig_whois": "anyone" });
    const bot = await stage.bot({ rooms: [room] });
    const inRoom = await ann.saysInRoom(room, "tea at five");
    const direct = await ann.says(bot.jid, "soup at one");
    const heard = [await bot.hears("tea at five"), await bot.hears("soup at one")];
    const own = (await bot.sends(room, "noted")) as { externalId: string };
    await bot.restart();
    const replaces = (id: string) => xml("replace", { xmlns: "urn:xmpp:message-correct:0", id });
    await ann.saysInRoom(room, "tea at six", replaces(inRoom));
    await ann.says(bot.jid, "soup at two", replaces(direct));
    const edits = await until("both edits", () => {
      const found = bot.events.filter((event) => event.kind === "edit");
      return found.length === 2 ? found : undefined;
    });
    const named = edits.map(({ messageId }) => messageId).sort();
    expect(named).toEqual(heard.map(({ source }) => source.messageId).sort());
    await ann.saysInRoom(room, "well noted", xml("reply", { xmlns: "urn:xmpp:reply:0", id: own.externalId }));
    expect(await bot.hears("well noted")).toMatchObject({ replyTo: { messageId: own.externalId, isOwn: true } });
  });

  it("A4 of old messages only what the archive vouches for counts: no nick, no forged address", async () => {
    const room = stage.room();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1", "muc#roomconfig_whois": "anyone" });
    const bot = await stage.bot({ rooms: [room] });
    await bot.sends(room, "mine");
    await bot.hears("mine");
    await bot.channel.stop();
    const eve = await stage.person("eve");
    await until("the nick is free", () =>
      eve.join(room, "mohe").then(
        () => true as const,
        () => false as const,
      ),
    );
    const item = xml("item", { jid: ann.jid, affiliation: "owner", role: "moderator" });
    const copied = (await ann.hears("mine")).getChild("origin-id")!.attrs.id!;
    await eve.saysInRoom(
      room,
      "I approve",
      xml("x", { xmlns: "http://jabber.org/protocol/muc#user" }, item),
      xml("occupant-id", { xmlns: "urn:xmpp:occupant-id:0", id: "forged" }),
      xml("origin-id", { xmlns: "urn:xmpp:sid:0", id: copied }),
    );
    await ann.saysInRoom(room, "who said that?");
    await bot.restart();
    const forged = await bot.hears("I approve");
    expect(forged).toMatchObject({ isOwn: false, isCaughtUp: true, verifiedUser: eve.jid });
    expect(forged.originId).toBeUndefined();
    expect(await bot.hears("who said that?")).toMatchObject({ verifiedUser: ann.jid });
  });

  it("G3 own words that came back only after a restart are known as own, whatever the room shows", async () => {
    for (const whois of ["anyone", "moderators"]) {
      const room = stage.room();
      const ann = await stage.person("ann");
      await ann.join(room, "Ann");
      await ann.configure(room, { "muc#roomconfig_persistentroom": "1", "muc#roomconfig_whois": whois });
      const bot = await stage.bot({ rooms: [room] });
      await ann.saysInRoom(room, "first");
      await bot.hears("first");
      const { cursor } = bot;
      await bot.sends(room, "mine", { key: "tertulia-9" });
      await bot.hears("mine");
      await bot.channel.stop();
      bot.events.length = 0;
      bot.cursor = cursor;
      await bot.restart();
      expect(await bot.hears("mine")).toMatchObject({ isOwn: true, originId: "tertulia-9", isCaughtUp: true });
      await bot.channel.stop();
    }
  });
});

describe("catching up without archives, on prosody", () => {
  let stage: XmppStage;
  beforeAll(async () => {
    stage = new XmppStage(await startProsody({ hasRoomArchive: false }));
  });
  afterEach(() => stage.clear());
  afterAll(() => stage.server.stop());

  it("G-XMP-01, G-XMP-03 the room's own history does: as history at first, and for the gap later, without doubles", async () => {
    const room = stage.room();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1" });
    await ann.saysInRoom(room, "m1");
    await ann.saysInRoom(room, "m2");
    await ann.hears("m2");
    const bot = await stage.bot({ rooms: [room] });
    await ann.saysInRoom(room, "m3");
    expect(await bot.hears("m3")).toMatchObject({ isHistory: false });
    await bot.channel.stop();
    await ann.saysInRoom(room, "m4");
    await ann.hears("m4");
    await bot.restart();
    await ann.saysInRoom(room, "m5");
    await bot.hears("m5");
    expect(await bot.hears("m4")).toMatchObject({ isHistory: false, isCaughtUp: true });
    const ids = bot.messages().map(({ eventId }) => eventId);
    const first = bot.messages().filter(({ eventId }, at) => ids.indexOf(eventId) === at);
    expect(first.map(({ text, isHistory }) => [text, isHistory])).toEqual([
      ["m1", true],
      ["m2", true],
      ["m3", false],
      ["m4", false],
      ["m5", false],
    ]);
  });
});
