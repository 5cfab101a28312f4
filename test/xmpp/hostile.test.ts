import { once } from "node:events";
import { createServer } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { passing, until } from "../support/until.ts";
import { IMPOSTOR_DOMAIN, startImpostor, type XmppImpostor } from "../support/xmpp-impostor.ts";
import { XmppListener } from "../support/xmpp-stage.ts";

/** A server that means harm, or is broken: the process lives, its memory stays bounded, and it says what is wrong. */
describe("a bad server", () => {
  const open: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one.stop();
  });
  const ROOM = `big@rooms.${IMPOSTOR_DOMAIN}`;

  async function meet(
    options: { hasManagement?: boolean; rooms?: string[]; tls?: { insecure?: boolean }; pace?: object } = {},
  ): Promise<{ impostor: XmppImpostor; bot: XmppListener }> {
    const impostor = await startImpostor(options);
    open.push(impostor);
    const { rooms = [], tls = { insecure: true }, pace = {} } = options;
    const account = { user: "mohe", service: impostor.service, tls, rooms };
    const bot = new XmppListener({ domain: IMPOSTOR_DOMAIN, service: () => "", ca: "" }, account, pace);
    open.push(bot);
    await bot.start();
    return { impostor, bot };
  }
  const online = (bot: XmppListener) => until("it is online", () => bot.channel.status().state === "online");
  const message = (body: string, from = `ann@${IMPOSTOR_DOMAIN}`): string =>
    `<message type='chat' from='${from}' to='mohe@${IMPOSTOR_DOMAIN}' id='${Math.random()}'><body>${body}</body></message>`;

  it.each([
    ["tags that do not match", "<message><body>a</message>"],
    ["an entity that is none", "<message><body>&nope;</body></message>"],
    ["an end without a beginning", "</a></b></c>"],
    ["a character that XML does not have", "<message><body>&#0;</body></message>"],
  ])("%s: the stream is opened anew, and the account hears again", async (_name, text) => {
    const { impostor, bot } = await meet();
    await online(bot);
    impostor.says(text);
    await until("the stream is dropped", () => bot.log.some((entry) => entry.includes("is down")));
    await online(bot);
    impostor.says(message("still there?"));
    await bot.hears("still there?");
  });

  it("a stanza without end is not collected", async () => {
    const { impostor, bot } = await meet();
    await online(bot);
    impostor.says(`<message type='chat' from='ann@${IMPOSTOR_DOMAIN}'><body>`);
    for (let n = 0; n < 6; n++) impostor.says("a".repeat(1024 * 1024));
    await until("the stream is dropped", () => bot.log.some((entry) => entry.includes("without end")));
    await online(bot);
  });

  it("ten thousand levels of nesting end nothing", async () => {
    const { impostor, bot } = await meet();
    await online(bot);
    const deep = `${"<a>".repeat(10_000)}${"</a>".repeat(10_000)}`;
    impostor.says(`<message type='chat' from='ann@${IMPOSTOR_DOMAIN}'><body>deep</body>${deep}</message>`);
    impostor.says(message("after"));
    await bot.hears("after");
    expect(bot.texts()).toEqual(["deep", "after"]);
  });

  it("a server that takes STARTTLS out is refused, and no password is shown to it", async () => {
    const { impostor, bot } = await meet({ tls: {} });
    expect(await bot.complains(/encryption/)).toContain("tls.insecure");
    await passing(200);
    expect(impostor.heard.join("")).not.toContain("<auth");
  });

  it("a server with which TLS fails: the reason is a sentence, not the library's trace", async () => {
    // An alert: the handshake has failed.
    const server = createServer((socket) =>
      socket.on("error", () => undefined).end(Buffer.from("15030300020228", "hex")),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    open.push({ stop: async () => void server.close() });
    const service = `xmpps://127.0.0.1:${(server.address() as { port: number }).port}`;
    const bot = new XmppListener(
      { domain: IMPOSTOR_DOMAIN, service: () => "", ca: "" },
      { user: "mohe", service, tls: { insecure: true } },
      {},
    );
    open.push(bot);
    await bot.start();
    expect(await bot.complains(/TLS/)).toMatch(/^TLS fails: [\w/ ]+$/);
  });

  it("a server that never answers is given up, and tried again", async () => {
    const { impostor, bot } = await meet({ pace: { loginMs: 150 } });
    impostor.answer = () => "";
    await until("three attempts", () => impostor.heard.length >= 6, 20_000);
    expect(bot.log.join("\n")).toContain("the login took too long");
  });

  it("the settle rule: nothing is said before stream management is on", async () => {
    const impostor = await startImpostor({ hasManagement: true });
    open.push(impostor);
    let isEnabled = false;
    const early: string[] = [];
    impostor.answer = (part) => {
      if (part.startsWith("<enable")) {
        setTimeout(() => {
          isEnabled = true;
          impostor.says(`<enabled xmlns='urn:xmpp:sm:3' id='s1' resume='true'/>`);
        }, 300);
        return "";
      }
      if (!isEnabled && /^<(presence|message)|carbons/.test(part)) early.push(part);
      return null;
    };
    const account = { user: "mohe", service: impostor.service, tls: { insecure: true } };
    const bot = new XmppListener({ domain: IMPOSTOR_DOMAIN, service: () => "", ca: "" }, account);
    open.push(bot);
    await bot.start();
    await until("its presence", () => impostor.heard.join("").includes("<presence"));
    expect(early).toEqual([]);
    await until("all that it asks first is answered", () => bot.cursor !== null);
    impostor.says(`${message("one")}${message("two")}<r xmlns='urn:xmpp:sm:3'/>`);
    await bot.hears("two");
    // Two answers (carbons, the account's features) and two messages.
    await until("the count", () => impostor.heard.join("").includes('h="'));
    expect(impostor.heard.join("").match(/ h="\d+"/g)).toEqual([' h="4"']);
  });

  it("a server without stream management is taken as it is", async () => {
    const { impostor, bot } = await meet();
    await online(bot);
    impostor.says(message("hello"));
    await bot.hears("hello");
    expect((await bot.sends(`ann@${IMPOSTOR_DOMAIN}`, "hi")).kind).toBe("sent");
  });

  it("thirty thousand occupants and a flood of presence: the room is heard, and memory stays bounded", async () => {
    const { impostor, bot } = await meet({ rooms: [ROOM] });
    const muc = "http://jabber.org/protocol/muc#user";
    const presence = (nick: string, status = "", type = ""): string =>
      `<presence from='${ROOM}/${nick}' to='mohe@${IMPOSTOR_DOMAIN}/tertulia'${type}><x xmlns='${muc}'><item affiliation='none' role='participant' jid='${nick.toLowerCase()}@${IMPOSTOR_DOMAIN}/x'/>${status}</x></presence>`;
    await until("the join", () => impostor.heard.join("").includes(`to="${ROOM}/mohe"`));
    global.gc?.();
    const before = process.memoryUsage().heapUsed;
    for (let n = 0; n < 30_000; n++) impostor.says(presence(`Nick${n}`));
    impostor.says(presence("mohe", "<status code='110'/>"));
    impostor.says(`<message type='groupchat' from='${ROOM}'><subject>Big</subject></message>`);
    for (let round = 0; round < 5; round++) {
      for (let n = 0; n < 2_000; n++)
        impostor.says(presence(`Nick${n}`, "", round % 2 === 0 ? " type='unavailable'" : ""));
    }
    impostor.says(`<message type='groupchat' from='${ROOM}/Nick9000' id='x1'><body>hello all</body></message>`);
    const heard = await bot.hears("hello all");
    expect(heard).toMatchObject({
      verifiedUser: `nick9000@${IMPOSTOR_DOMAIN}`,
      source: { chatTopic: "Big", userName: "Nick9000" },
    });
    global.gc?.();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(64 * 1024 * 1024);
    expect(bot.events).toHaveLength(1);
  });

  it("one who speaks a thousand times a second is heard in order, as far as there is room", async () => {
    const { impostor, bot } = await meet({ pace: { mostWaiting: 200 } });
    await online(bot);
    await until("direct chats are live", () => bot.cursor !== null);
    bot.isBroken = true;
    for (let n = 0; n < 5_000; n++) impostor.says(message(`m${n}`));
    await until("it is too much", () => bot.log.some((entry) => entry.includes("a message is lost")));
    bot.isBroken = false;
    await bot.hears("m150");
    const numbers = bot.texts().map((text) => Number(text.slice(1)));
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    expect(numbers.slice(0, 200)).toEqual(Array.from({ length: 200 }, (_, n) => n));
  });
});
