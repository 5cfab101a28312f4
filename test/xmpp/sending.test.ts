import { xml } from "@xmpp/client";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { STANZA_LIMIT } from "../../src/channel/xmpp/xmpp-channel.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import type { XmppPerson } from "../support/xmpp-person.ts";
import { SERVERS, type XmppListener, XmppStage } from "../support/xmpp-stage.ts";

/** What becomes of what is sent, on real servers (O1, O4). */
describe.each(SERVERS)("sending, on %s", (_kind, start) => {
  let stage: XmppStage;
  let proxy: TcpProxy;
  beforeAll(async () => {
    stage = new XmppStage(await start());
  });
  afterEach(async () => {
    await stage.clear();
    await proxy?.stop();
  });
  afterAll(() => stage.server.stop());

  async function kitchen(
    options: Parameters<XmppStage["bot"]>[1] = {},
  ): Promise<{ room: string; ann: XmppPerson; bot: XmppListener }> {
    const room = stage.room("kitchen");
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1" });
    proxy = await startTcpProxy(stage.server.ports.starttls);
    const bot = await stage.bot({ rooms: [room], service: `xmpp://127.0.0.1:${proxy.port}` }, options);
    return { room, ann, bot };
  }
  const bodiesOf = (person: XmppPerson): string[] =>
    person.heard.map((stanza) => stanza.getChildText("body")).filter((body) => body !== null);

  it("characters that XML does not have are left out; the account stays in its room", async () => {
    const { room, ann, bot } = await kitchen();
    const sent = await bot.sends(room, "a\u0007b\u001b[31mc\uFFFEd\uD800e\tf\ng <&>\"' 🙂");
    expect(sent.kind).toBe("sent");
    await ann.hears("ab[31mcd\uFFFDe\tf\ng <&>\"' 🙂");
    expect(bot.log.join("\n")).not.toContain("is down");
  });

  it("a stanza beyond the limit fails with a sentence; one below it arrives", async () => {
    const { room, ann, bot } = await kitchen();
    expect(STANZA_LIMIT).toEqual({ limit: 262_144, unit: "bytes" });
    for (const text of ["x".repeat(300_000), "&".repeat(60_000), "字".repeat(90_000)]) {
      expect(await bot.sends(room, text)).toMatchObject({ kind: "failed", reason: expect.stringMatching(/262144/) });
    }
    expect((await bot.sends(room, "y".repeat(200_000))).kind).toBe("sent");
    await ann.hears(/^y{200000}$/);
    expect(bot.log.join("\n")).not.toContain("is down");
  });

  it("who may not speak fails, with the room's reason", async () => {
    const { room, ann, bot } = await kitchen();
    await ann.configure(room, { "muc#roomconfig_moderatedroom": "1" });
    await ann.setsRole(room, { nick: "mohe", role: "visitor" });
    await until("the voice is gone", async () => {
      const result = await bot.sends(room, "may I?");
      return result.kind === "failed" && /forbidden/.test(result.reason);
    });
  });

  it("a room that is not configured is no room: it fails", async () => {
    const { bot } = await kitchen();
    const target = { scopeId: stage.server.mucDomain };
    expect(await bot.sends(`elsewhere@${stage.server.mucDomain}`, "hi", target)).toMatchObject({
      kind: "failed",
      reason: expect.stringMatching(/not in the room/),
    });
  });

  it("to an account that does not exist: what the server says of it", async () => {
    const { bot } = await kitchen();
    const result = await bot.sends(`nobody@${stage.server.domain}`, "hi");
    expect(result).toMatchObject({ kind: "failed", reason: expect.stringMatching(/service-unavailable/) });
  });

  it("replies and threads go with the words", async () => {
    const { room, ann, bot } = await kitchen();
    await ann.saysInRoom(room, "question", xml("thread", {}, "t1"));
    const { source, target } = await bot.hears("question");
    await bot.sends(room, "answer", { ...target, replyTo: source.messageId! });
    const stanza = await ann.hears("answer");
    expect(stanza.getChildText("thread")).toBe("t1");
    expect(stanza.getChild("reply")?.attrs).toMatchObject({ id: source.messageId, to: `${room}/Ann` });
  });

  it("O4 no echo on a line that seems to work: unknown, after its time", async () => {
    const { room, ann, bot } = await kitchen({ pace: { echoMs: 300 } });
    proxy.silence("down");
    expect(await bot.sends(room, "anybody?")).toMatchObject({ kind: "unknown" });
    await ann.hears("anybody?");
  });

  it("O4 a stop while words are under way: unknown", async () => {
    const { room, ann, bot } = await kitchen();
    proxy.silence("down");
    const sending = bot.sends(room, "and");
    await ann.hears("and");
    await bot.channel.stop();
    expect(await sending).toMatchObject({ kind: "unknown" });
  });

  it("G-XMP-06 arrived, but the echo was lost with the session: the archive says so", async () => {
    const { room, ann, bot } = await kitchen();
    await bot.sends(room, "m0");
    proxy.silence("down");
    const sending = [bot.sends(room, "m1"), bot.sends(ann.jid, "d1")];
    await ann.hears("m1");
    await ann.hears("d1");
    proxy.isShut = true;
    proxy.cut();
    await stage.server.restart();
    proxy.isShut = false;
    expect((await Promise.all(sending)).map(({ kind }) => kind)).toEqual(["sent", "sent"]);
    expect(bodiesOf(ann)).toEqual(["m0", "m1", "d1"]);
  });

  it("G-XMP-06 not arrived, and the session is lost: it may be sent again", async () => {
    const { room, ann, bot } = await kitchen();
    await bot.sends(room, "m0");
    proxy.silence();
    const sending = [bot.sends(room, "m1"), bot.sends(ann.jid, "d1")];
    proxy.isShut = true;
    await stage.server.halt();
    proxy.cut();
    await stage.server.resume();
    proxy.isShut = false;
    expect((await Promise.all(sending)).map(({ kind }) => kind)).toEqual(["retry", "retry"]);
    expect((await bot.sends(room, "m1")).kind).toBe("sent");
  });

  it("offline it says why, and takes nothing", async () => {
    const { room, bot } = await kitchen();
    proxy.isShut = true;
    proxy.cut();
    await bot.complains(/./);
    expect(await bot.sends(room, "hello?")).toMatchObject({ kind: "offline", reason: expect.stringMatching(/./) });
  });
});
