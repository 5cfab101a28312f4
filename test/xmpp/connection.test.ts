import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { passing, until } from "../support/until.ts";
import { SERVERS, XmppListener, XmppStage } from "../support/xmpp-stage.ts";

/** The stream of an account on real servers: ways to connect, what ends it, and how it comes back. */
describe.each(SERVERS)("the connection, on %s", (_kind, start) => {
  let stage: XmppStage;
  const proxies: TcpProxy[] = [];
  beforeAll(async () => {
    stage = new XmppStage(await start());
  });
  afterEach(async () => {
    await stage.clear();
    await Promise.all(proxies.splice(0).map((proxy) => proxy.stop()));
  });
  afterAll(() => stage.server.stop());

  /** A line to the server that a test can cut, as the account's service. */
  async function line(): Promise<{ proxy: TcpProxy; service: string }> {
    const proxy = await startTcpProxy(stage.server.ports.starttls);
    proxies.push(proxy);
    return { proxy, service: `xmpp://127.0.0.1:${proxy.port}` };
  }

  it.each(["starttls", "tls", "websocket", "wss"] as const)("comes online by %s and hears", async (way) => {
    const bot = await stage.bot({ service: stage.server.service(way) });
    const ann = await stage.person("ann");
    await ann.says(bot.jid, `by ${way}`);
    expect(await bot.hears(`by ${way}`)).toMatchObject({ isHistory: false, isOwn: false, verifiedUser: ann.jid });
    expect(bot.channel.status()).toEqual({ state: "online" });
  });

  it.each(["starttls", "tls", "wss"] as const)("refuses a certificate that nobody vouches for, by %s", async (way) => {
    const bot = await stage.bot({ service: stage.server.service(way), tls: {} }, { isReady: false });
    expect(await bot.complains(/self-signed/)).toMatch(/certificate/);
    expect(bot.channel.status().state).not.toBe("online");
  });

  it("without a configured service it goes where the domain's records say, one after another", async () => {
    const dead = await startTcpProxy(1);
    proxies.push(dead);
    dead.isShut = true;
    const user = await stage.account("mohe");
    const asked: string[] = [];
    const bot = new XmppListener(stage.server, { user, service: undefined as never }, {}, async (domain) => {
      asked.push(domain);
      return [`xmpp://127.0.0.1:${dead.port}`, stage.server.service("tls")];
    });
    try {
      await bot.start();
      await bot.ready();
      expect(asked).toEqual([stage.server.domain]);
    } finally {
      await bot.channel.stop();
    }
  });

  it("takes any certificate where the configuration says so", async () => {
    const bot = await stage.bot({ service: stage.server.service("tls"), tls: { insecure: true } });
    expect(bot.channel.status().state).toBe("online");
  });

  it("a wrong password is fatal, said once, and not tried again", async () => {
    const { proxy, service } = await line();
    const bot = await stage.bot({ service, password: "wrong" }, { isReady: false, pace: { reconnectMs: 10 } });
    expect(await bot.complains(/refuses the login/)).toContain("not-authorized");
    expect(bot.channel.status().state).toBe("fatal");
    const { connections } = proxy;
    await passing(300);
    expect(proxy.connections).toBe(connections);
  });

  it("G-XMP-06 a second instance ends the first, which reports it and does not fight", async () => {
    const user = await stage.account("mohe");
    const first = await stage.bot({ user });
    const second = await stage.bot({ user });
    expect(await first.complains(/another client/)).toContain("same resource");
    expect(first.channel.status().state).toBe("fatal");
    await passing(500);
    expect(second.channel.status()).toEqual({ state: "online" });
    expect(second.log.join("\n")).not.toContain("the connection is down");
  });

  it("several accounts live in one process", async () => {
    const [a, b] = await Promise.all([stage.bot(), stage.bot()]);
    const ann = await stage.person("ann");
    await ann.says(a.jid, "to a");
    await ann.says(b.jid, "to b");
    await Promise.all([a.hears("to a"), b.hears("to b")]);
    expect([a.texts(), b.texts()]).toEqual([["to a"], ["to b"]]);
  });

  it("is seen by its contacts: its presence goes out, and ends with it", async () => {
    const user = await stage.account("mohe");
    const own = await stage.person("mohe", { user, resource: "phone" });
    const bot = await stage.bot({ user });
    const seen = (type: string | undefined) =>
      own.presences.find(({ attrs }) => attrs.from === `${bot.jid}/tertulia` && attrs.type === type);
    await until("it is there", () => seen(undefined));
    await bot.channel.stop();
    await until("it is gone", () => seen("unavailable"));
  });

  it("a cut is resumed: nothing is lost, nothing doubled, no room left", async () => {
    const room = stage.room();
    const { proxy, service } = await line();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    const bot = await stage.bot({ service, rooms: [room] });
    for (let n = 1; n <= 3; n++) {
      await ann.saysInRoom(room, `before ${n}`);
      await bot.hears(`before ${n}`);
      proxy.cut();
      await ann.saysInRoom(room, `cut ${n}`);
      await bot.hears(`cut ${n}`);
    }
    await bot.ready();
    expect(bot.texts()).toEqual([1, 2, 3].flatMap((n) => [`before ${n}`, `cut ${n}`]));
    const joins = ann.presences.filter(({ attrs }) => attrs.from === `${room}/mohe`);
    expect(joins.map(({ attrs }) => attrs.type)).toEqual([undefined]);
  });

  it("G-XMP-04 a room that it waits for is not forgotten over a cut that is resumed", async () => {
    const room = stage.room();
    const { proxy, service } = await line();
    const eve = await stage.person("eve");
    await eve.join(room, "Eve");
    await eve.configure(room, { "muc#roomconfig_persistentroom": "1", "muc#roomconfig_membersonly": "1" });
    const bot = await stage.bot({ service, rooms: [room] }, { isReady: false });
    await bot.complains(/members only/);
    await eve.setsRole(room, { jid: bot.jid, affiliation: "member" });
    proxy.cut();
    await bot.ready();
    expect(bot.log.join("\n")).toContain("is down");
  });

  it("G-XMP-06 a line gone silent is noticed; what was sent into it arrives once", async () => {
    const room = stage.room();
    const { proxy, service } = await line();
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    const bot = await stage.bot({ service, rooms: [room] }, { pace: { aliveMs: 500, aliveWithinMs: 500 } });
    proxy.silence();
    const sent = Promise.all(["one", "two", "three"].map((text) => bot.sends(room, text)));
    const results = await sent;
    expect(results.map(({ kind }) => kind)).toEqual(["sent", "sent", "sent"]);
    await ann.hears("three");
    const bodies = ann.heard.map((stanza) => stanza.getChildText("body")).filter((body) => body !== null);
    expect(bodies).toEqual(["one", "two", "three"]);
  });

  it("waits longer with each attempt while the server is away, and says so", async () => {
    const { proxy, service } = await line();
    const bot = await stage.bot({ service }, { pace: { reconnectMs: 20, longestReconnectMs: 80 } });
    proxy.isShut = true;
    proxy.cut();
    await until("five attempts", () => bot.log.filter((entry) => entry.includes("is down")).length >= 5);
    const waits = bot.log.flatMap((entry) => /"waitMs":(\d+)/.exec(entry)?.slice(1) ?? []).map(Number);
    expect(waits.slice(0, 5)).toEqual([20, 40, 80, 80, 80]);
    expect(await bot.sends("ann@tertulia.test", "hi")).toMatchObject({ kind: "offline" });
    proxy.isShut = false;
    await bot.ready();
  });

  it("a character cut in two by the network stays whole", async () => {
    const bot = await stage.bot();
    const ann = await stage.person("ann");
    const text = "会话上下文🙂".repeat(10_000);
    await ann.says(bot.jid, text);
    const [heard] = await until("it is heard", () => (bot.messages().length > 0 ? bot.messages() : undefined));
    expect(heard!.text === text).toBe(true);
  });

  it("survives an orderly restart of the server", async () => {
    const bot = await stage.bot();
    await stage.server.restart();
    const ann = await stage.person("ann");
    await bot.ready();
    await ann.says(bot.jid, "after the restart");
    await bot.hears("after the restart");
  });
});
