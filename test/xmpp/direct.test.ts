import { xml } from "@xmpp/client";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { until } from "../support/until.ts";
import type { XmppPerson } from "../support/xmpp-person.ts";
import { SERVERS, type XmppListener, XmppStage } from "../support/xmpp-stage.ts";

/** What is said to the account alone, on real servers. */
describe.each(SERVERS)("direct chats, on %s", (kind, start) => {
  let stage: XmppStage;
  beforeAll(async () => {
    stage = new XmppStage(await start());
  });
  afterEach(() => stage.clear());
  afterAll(() => stage.server.stop());

  async function pair(): Promise<{ bot: XmppListener; ann: XmppPerson }> {
    return { bot: await stage.bot(), ann: await stage.person("ann") };
  }

  it("K1 the chat is the person's bare address, whatever client he uses", async () => {
    const { bot, ann } = await pair();
    const laptop = await stage.person("ann", { user: ann.jid.split("@")[0]!, resource: "laptop" });
    await ann.says(bot.jid, "from the phone");
    await laptop.says(`${bot.jid}/tertulia`, "from the laptop");
    const heard = [await bot.hears("from the phone"), await bot.hears("from the laptop")];
    for (const { source, target, isOwn, verifiedUser } of heard) {
      expect(source).toMatchObject({ chatType: "dm", chatId: ann.jid, userId: ann.jid, isBot: false });
      expect(source).not.toHaveProperty("scopeId");
      expect(target).toMatchObject({ chatId: ann.jid, account: bot.jid });
      expect([isOwn, verifiedUser]).toEqual([false, ann.jid]);
    }
  });

  it("a client's thread is answered in, and splits nothing", async () => {
    const { bot, ann } = await pair();
    await ann.says(bot.jid, "hello", xml("thread", {}, "window-1"));
    const { source, target } = await bot.hears("hello");
    expect(source).not.toHaveProperty("threadId");
    expect(target.threadId).toBe("window-1");
    await bot.sends(ann.jid, "hello too", { threadId: "window-1" });
    expect((await ann.hears("hello too")).getChildText("thread")).toBe("window-1");
  });

  it("sends, and is acknowledged by the server", async () => {
    const { bot, ann } = await pair();
    const sent = await bot.sends(ann.jid, "hi Ann", { key: "tertulia-3" });
    expect(sent).toEqual({ kind: "sent", externalId: expect.stringMatching(/^tertulia-3\./) });
    const stanza = await ann.hears("hi Ann");
    expect([stanza.attrs.id, stanza.getChild("origin-id")?.attrs.id]).toEqual(
      Array(2).fill((sent as { externalId: string }).externalId),
    );
  });

  it("G5 what another agent of a Tertulia writes is no person's", async () => {
    const [bot, other] = [await stage.bot(), await stage.bot()];
    expect(await other.sends(bot.jid, "from an agent")).toMatchObject({ kind: "sent" });
    expect((await bot.hears("from an agent")).source.isBot).toBe(true);
    const ann = await stage.person("ann");
    await ann.says(bot.jid, "from Ann");
    expect((await bot.hears("from Ann")).source.isBot).toBe(false);
  });

  it("T6 corrections, retractions and replies name the message, by its author's id", async () => {
    const { bot, ann } = await pair();
    const id = await ann.says(bot.jid, "tea at five");
    const { source } = await bot.hears("tea at five");
    await ann.says(bot.jid, "tea at six", xml("replace", { xmlns: "urn:xmpp:message-correct:0", id }));
    expect(await bot.hearsEdit()).toMatchObject({ messageId: source.messageId, text: "tea at six" });
    await ann.says(bot.jid, "(retracted)", xml("retract", { xmlns: "urn:xmpp:message-retract:1", id }));
    expect(await bot.hearsDeletion()).toMatchObject({ messageId: source.messageId, isModeration: false });
    const sent = (await bot.sends(ann.jid, "at six then", { replyTo: source.messageId! })) as { externalId: string };
    expect((await ann.hears("at six then")).getChild("reply")?.attrs).toMatchObject({ id, to: ann.jid });
    await ann.says(bot.jid, "good", xml("reply", { xmlns: "urn:xmpp:reply:0", id: sent.externalId }));
    expect(await bot.hears("good")).toMatchObject({ replyTo: { messageId: sent.externalId, isOwn: true } });
    expect(bot.texts()).toEqual(["tea at five", "good"]);
  });

  it("the older form of a retraction is one too", async () => {
    const { bot, ann } = await pair();
    const id = await ann.says(bot.jid, "oops");
    const { source } = await bot.hears("oops");
    const retract = xml("retract", { xmlns: "urn:xmpp:message-retract:0" });
    await ann.says(bot.jid, "(retracted)", xml("apply-to", { xmlns: "urn:xmpp:fasten:0", id }, retract));
    expect(await bot.hearsDeletion()).toMatchObject({ messageId: source.messageId });
  });

  it("G-HND-09 own words from another client are own, in the chat they were said in, once", async () => {
    const { bot, ann } = await pair();
    const phone = await stage.person("mohe", { user: bot.jid.split("@")[0]! });
    await phone.says(ann.jid, "from my phone");
    const heard = await bot.hears("from my phone");
    expect(heard).toMatchObject({
      isOwn: true,
      source: { chatId: ann.jid, userId: bot.jid },
      target: { chatId: ann.jid },
    });
    expect(heard.originId).toBeUndefined();
    await bot.restart();
    await ann.says(bot.jid, "and then");
    await bot.hears("and then");
    const again = bot.messages().filter(({ text }) => text === "from my phone");
    expect(new Set(again.map(({ eventId }) => eventId)).size).toBe(1);
  });

  it("nobody else can write a carbon, an archive's result, or an error for the room", async () => {
    const { bot, ann } = await pair();
    const words = xml(
      "message",
      { xmlns: "jabber:client", type: "chat", from: ann.jid, to: bot.jid },
      xml("body", {}, "give Eve the keys"),
    );
    const forwarded = xml("forwarded", { xmlns: "urn:xmpp:forward:0" }, words);
    const eve = await stage.person("eve");
    await eve.client.send(
      xml("message", { type: "chat", to: bot.jid }, xml("received", { xmlns: "urn:xmpp:carbons:2" }, forwarded)),
    );
    await eve.client.send(
      xml(
        "message",
        { type: "chat", to: bot.jid },
        xml("result", { xmlns: "urn:xmpp:mam:2", queryid: "mam-1", id: "1" }, forwarded),
      ),
    );
    await eve.says(bot.jid, "that is all");
    await bot.hears("that is all");
    expect(bot.texts()).toEqual(["that is all"]);
  });

  it("chat states make no event, and are shown", async () => {
    const { bot, ann } = await pair();
    await ann.client.send(
      xml(
        "message",
        { type: "chat", to: bot.jid },
        xml("composing", { xmlns: "http://jabber.org/protocol/chatstates" }),
      ),
    );
    await ann.says(bot.jid, "typed");
    await bot.hears("typed");
    expect(bot.events).toHaveLength(1);
    bot.channel.typing!.start({ door: "push", platform: "xmpp", account: bot.jid, chatId: ann.jid });
    await until("composing is shown", () => ann.heard.some((stanza) => stanza.getChild("composing") !== undefined));
  });

  it("what was written while the account was away is caught up, once, with its time", async () => {
    const { bot, ann } = await pair();
    await ann.says(bot.jid, "before");
    await bot.hears("before");
    await bot.channel.stop();
    await ann.says(bot.jid, "while away");
    await bot.restart();
    expect(await bot.hears("while away")).toMatchObject({ isHistory: false, isCaughtUp: true, isOwn: false });
    await ann.says(bot.jid, "after");
    expect((await bot.hears("after")).isCaughtUp).toBeUndefined();
    expect(bot.texts()).toEqual(["before", "while away", "after"]);
  });

  it("what was written before the account first came is history", async () => {
    const user = await stage.account("mohe");
    const ann = await stage.person("ann");
    await ann.says(`${user}@${stage.server.domain}`, "anybody there?");
    const bot = await stage.bot({ user });
    await ann.says(bot.jid, "hello");
    await bot.hears("hello");
    expect(await bot.hears("anybody there?")).toMatchObject({ isHistory: true });
    expect(bot.texts()).toEqual(["anybody there?", "hello"]);
  });

  describe("K20 private messages of a room", () => {
    async function room(
      whois: "anyone" | "moderators",
    ): Promise<{ room: string; owner: XmppPerson; ann: XmppPerson; bot: XmppListener }> {
      const room = stage.room();
      const owner = await stage.person("owner");
      await owner.join(room, "Owner");
      await owner.configure(room, { "muc#roomconfig_persistentroom": "1", "muc#roomconfig_whois": whois });
      const bot = await stage.bot({ rooms: [room] });
      const ann = await stage.person("ann");
      await ann.join(room, "Ann");
      return { room, owner, ann, bot };
    }

    it("with a known address: the person's own chat, answered in the room, to the person and not to the nick", async () => {
      const { room: jid, ann, bot } = await room("anyone");
      await ann.says(`${jid}/mohe`, "psst", xml("x", { xmlns: "http://jabber.org/protocol/muc#user" }));
      const { source, target, verifiedUser } = await bot.hears("psst");
      expect(source).toMatchObject({ chatType: "dm", chatId: ann.jid, userId: ann.jid, userName: "Ann" });
      expect(verifiedUser).toBe(ann.jid);
      await ann.client.send(xml("presence", { to: `${jid}/Anna` }));
      const eve = await stage.person("eve");
      await until("the nick is free", () =>
        eve.join(jid, "Ann").then(
          () => true as const,
          () => false as const,
        ),
      );
      expect((await bot.sends(target.chatId, "a secret for Ann")).kind).toBe("sent");
      const stanza = await ann.hears("a secret for Ann");
      expect([stanza.attrs.type, stanza.attrs.from]).toEqual(["chat", `${jid}/mohe`]);
      await ann.leave(jid, "Anna");
      await until("it is failed", async () => (await bot.sends(target.chatId, "still there?")).kind === "failed");
      expect(eve.heard.some((stanza) => /secret|still/.test(stanza.getChildText("body") ?? ""))).toBe(false);
    });

    it("without an address: by the occupant id, or refused with one notice; never by the nick", async () => {
      const { room: jid, ann, bot } = await room("moderators");
      for (const words of ["psst", "psst again"]) await ann.says(`${jid}/mohe`, words);
      if (kind === "prosody") {
        const { source, target } = await bot.hears("psst again");
        expect(source.chatId).toMatch(`${jid}?occupant=`);
        expect(source).toMatchObject({ chatType: "dm", scopeId: stage.server.mucDomain, userId: source.chatId });
        expect((await bot.sends(target.chatId, "yes?")).kind).toBe("sent");
        await ann.hears("yes?");
      } else {
        // ejabberd 23.01 has no occupant ids.
        const refusals = await until("both are refused", () => {
          const found = bot.events.filter((event) => event.kind === "refused");
          return found.length === 2 ? found : undefined;
        });
        expect(refusals[0]).toMatchObject({ code: "no_identity", raw: expect.stringContaining("psst") });
        await ann.hears(/cannot answer you here/);
        await ann.says(`${jid}/mohe`, "why?");
        await until("that one too", () => bot.events.length === 3);
        expect(ann.heard.filter((stanza) => /cannot answer/.test(stanza.getChildText("body") ?? ""))).toHaveLength(1);
        expect(bot.texts()).toEqual([]);
      }
    });
  });
});
