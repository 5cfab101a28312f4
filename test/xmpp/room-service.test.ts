import { afterEach, describe, expect, it } from "vitest";
import { until } from "../support/until.ts";
import { IMPOSTOR_DOMAIN, startImpostor, type XmppImpostor } from "../support/xmpp-impostor.ts";
import { XmppListener } from "../support/xmpp-stage.ts";

/** What a room's service may do, and neither of the real servers here does to order. */
describe("a room service", () => {
  const open: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one.stop();
  });
  const ROOM = `kitchen@rooms.${IMPOSTOR_DOMAIN}`;
  const MUC = "http://jabber.org/protocol/muc#user";
  const to = `to='mohe@${IMPOSTOR_DOMAIN}/tertulia'`;
  const presence = (nick: string, inner = "", type = ""): string =>
    `<presence from='${ROOM}/${nick}' ${to}${type}><x xmlns='${MUC}'>${inner}</x></presence>`;
  const own = (nick: string, inner = ""): string =>
    presence(nick, `<item affiliation='none' role='participant'/><status code='110'/>${inner}`);
  const gone = (codes: string[], inner = "", nick = "mohe"): string =>
    presence(
      nick,
      `<item affiliation='none' role='none'/>${codes.map((code) => `<status code='${code}'/>`).join("")}${inner}`,
      " type='unavailable'",
    );
  const subject = `<message type='groupchat' from='${ROOM}' ${to}><subject>Soup</subject></message>`;
  const says = (nick: string, body: string, id: string, more = ""): string =>
    `<message type='groupchat' from='${ROOM}/${nick}' ${to} id='${id}'><body>${body}</body>${more}<stanza-id xmlns='urn:xmpp:sid:0' by='${ROOM}' id='s-${id}'/></message>`;
  const delay = `<delay xmlns='urn:xmpp:delay' stamp='2026-05-01T09:00:00Z' from='${ROOM}'/><x xmlns='jabber:x:delay' stamp='20260501T09:00:00'/><delay xmlns='urn:xmpp:delay' stamp='2026-05-01T09:00:01Z'/>`;

  /** A service that answers joins with `entry`, given the nick that is asked for. */
  async function meet(
    entry: (nick: string, join: number) => string,
    pace: object = {},
  ): Promise<{ impostor: XmppImpostor; bot: XmppListener; joins: () => number }> {
    const impostor = await startImpostor();
    open.push(impostor);
    let joins = 0;
    impostor.answer = (part) => {
      const nick = new RegExp(`^<presence to="${ROOM}/([^"]+)"><x`).exec(part)?.[1];
      if (nick !== undefined) {
        joins += 1;
        return entry(nick, joins);
      }
      const [, id] = /^<iq[^>]* id="([^"]+)"[\s\S]*disco#info/.exec(part) ?? [];
      if (id === undefined || !part.includes(`to="${ROOM}"`)) return null;
      const features = ["http://jabber.org/protocol/muc", "urn:xmpp:sid:0"].map((name) => `<feature var='${name}'/>`);
      return `<iq type='result' id='${id}' from='${ROOM}'><query xmlns='http://jabber.org/protocol/disco#info'><identity category='conference' type='text' name='The kitchen'/>${features.join("")}</query></iq>`;
    };
    const account = { user: "mohe", service: impostor.service, tls: { insecure: true }, rooms: [ROOM] };
    const bot = new XmppListener({ domain: IMPOSTOR_DOMAIN, service: () => "", ca: "" }, account, pace);
    open.push(bot);
    await bot.start();
    return { impostor, bot, joins: () => joins };
  }
  const usual = (nick: string): string => own(nick) + subject;

  it("G-XMP-01 history that nobody asked for, with every sort of stamp, is history; the first live words behind it are not", async () => {
    const entry =
      own("mohe") +
      says("Ann", "@mohe restart", "h1", delay) +
      says("Ann", "@mohe again", "h2") +
      subject +
      says("Ann", "@mohe hi", "l1", delay);
    const { bot } = await meet(() => entry);
    await bot.ready();
    expect(await bot.hears("@mohe hi")).toMatchObject({
      isHistory: false,
      source: { chatName: "The kitchen", chatTopic: "Soup" },
    });
    expect(bot.messages().map(({ text, isHistory }) => [text, isHistory])).toEqual([
      ["@mohe restart", true],
      ["@mohe again", true],
      ["@mohe hi", false],
    ]);
  });

  it("G-XMP-03 a rejoin that repeats the history repeats nothing, and keeps what was missed", async () => {
    const entry = (_nick: string, join: number): string =>
      own("mohe") + says("Ann", "m10", "10", delay) + (join === 1 ? "" : says("Ann", "m11", "11", delay)) + subject;
    const { impostor, bot, joins } = await meet(entry);
    await bot.hears("m10");
    impostor.says(gone(["110", "333"]));
    await until("it is back", () => joins() === 2);
    expect(await bot.hears("m11")).toMatchObject({ isHistory: false, isCaughtUp: true });
    expect(bot.texts()).toEqual(["m10", "m11"]);
  });

  it("G-XMP-02 the nick is the one that the service gave (210), at the join and later (303)", async () => {
    const { impostor, bot } = await meet(() => own("Nova_1", "<status code='210'/>") + subject);
    await bot.ready();
    impostor.says(says("mohe", "I am another", "1") + says("Nova_1", "I am it", "2"));
    expect(await bot.hears("I am another")).toMatchObject({ isOwn: false, ownName: "Nova_1" });
    expect(await bot.hears("I am it")).toMatchObject({ isOwn: true });
    const change =
      "<item affiliation='none' role='participant' nick='Nova_2'/><status code='303'/><status code='110'/>";
    impostor.says(presence("Nova_1", change, " type='unavailable'") + own("Nova_2"));
    impostor.says(says("Nova_1", "the old name", "3") + says("Nova_2", "the new name", "4"));
    expect(await bot.hears("the new name")).toMatchObject({ isOwn: true, ownName: "Nova_2" });
    expect(await bot.hears("the old name")).toMatchObject({ isOwn: false });
    expect(bot.channel.status()).toEqual({ state: "online" });
  });

  it.each([
    ["333: a technical fault", gone(["110", "307", "333"])],
    ["332: the service shuts down", gone(["110", "332"])],
    ["no code at all", gone(["110"])],
  ])("G-XMP-05 put out by %s: back by itself", async (_name, stanza) => {
    const { impostor, bot, joins } = await meet(usual);
    await bot.ready();
    impostor.says(stanza);
    await until("it is back", () => joins() === 2);
    await bot.ready();
  });

  it.each([
    ["321", /members only/],
    ["322", /members only/],
    ["301", /banned/],
    ["307", /kicked/],
  ])("G-XMP-05 put out by a decision (%s): out, and it says why", async (code, words) => {
    const { impostor, bot, joins } = await meet(usual);
    await bot.ready();
    impostor.says(gone(["110", code]));
    await bot.complains(words);
    expect(joins()).toBe(1);
  });

  it("G-XMP-05 a nick that was asked for just before a kick brings nobody back", async () => {
    const { impostor, bot } = await meet(usual);
    await bot.ready();
    const left = new Promise<string>((resolve) => {
      const { answer } = impostor;
      impostor.answer = (part) => {
        if (part.includes('type="unavailable"')) resolve(part);
        return answer?.(part) ?? null;
      };
    });
    impostor.says(gone(["110", "307"]) + own("mohe-2"));
    expect(await left).toContain(`${ROOM}/mohe-2`);
    await bot.complains(/kicked/);
  });

  it("G-XMP-04 conflict, and conflict again: the waits grow, and then it is in", async () => {
    const conflict = `<presence type='error' from='${ROOM}/mohe' ${to}><error type='cancel'><conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>`;
    const { bot, joins } = await meet((nick, join) => (join <= 8 ? conflict : usual(nick)), { rejoinMs: 50 });
    await bot.ready();
    expect(joins()).toBe(9);
    expect(bot.log.flatMap((entry) => /"waitMs":(\d+)/.exec(entry)?.slice(1) ?? [])).toEqual(["50", "100"]);
  });

  it("a service that does not answer the join is asked again", async () => {
    const { bot, joins } = await meet((nick, join) => (join === 1 ? "" : usual(nick)), { answerMs: 200 });
    await bot.complains(/does not answer/);
    await bot.ready();
    expect(joins()).toBe(2);
  });

  it.each([
    [
      "as it is now",
      "<retract xmlns='urn:xmpp:message-retract:1' id='s-1'><moderated xmlns='urn:xmpp:message-moderate:1' by='BY'/></retract>",
    ],
    [
      "as it was",
      "<apply-to xmlns='urn:xmpp:fasten:0' id='s-1'><moderated xmlns='urn:xmpp:message-moderate:0' by='BY'><retract xmlns='urn:xmpp:message-retract:0'/></moderated></apply-to>",
    ],
  ])("T6 a moderator's retraction comes from the room itself, %s", async (_name, retraction) => {
    const { impostor, bot } = await meet(usual);
    await bot.ready();
    impostor.says(says("Ann", "rude", "1"));
    await bot.hears("rude");
    const words = retraction.replace("BY", `${ROOM}/Owner`);
    impostor.says(`<message type='groupchat' from='${ROOM}' ${to} id='r1'>${words}</message>`);
    expect(await bot.hearsDeletion()).toMatchObject({ messageId: "s-1", isModeration: true, source: { chatId: ROOM } });
  });

  it("an archive that is closed to us: the room's own history has to do", async () => {
    const entry = (nick: string, join: number): string =>
      own(nick) + (join === 1 ? "" : says("Ann", "m1", "1", delay) + says("Ann", "m2", "2", delay)) + subject;
    const { impostor, bot, joins } = await meet(entry, { rejoinMs: 10 });
    const usually = impostor.answer;
    impostor.answer = (part) => {
      const id = / id="([^"]+)"/.exec(part)?.[1];
      if (/^<iq[\s\S]*urn:xmpp:mam:2/.test(part) && part.includes(`to="${ROOM}"`))
        return `<iq type='error' id='${id}' from='${ROOM}'><error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>`;
      return usually(part)?.replace("<feature", "<feature var='urn:xmpp:mam:2'/><feature") ?? null;
    };
    await bot.ready();
    impostor.says(says("Ann", "m1", "1"));
    expect(await bot.hears("m1")).toMatchObject({ isHistory: false });
    impostor.says(gone(["110", "333"]));
    await until("it is back", () => joins() === 2);
    expect(await bot.hears("m2")).toMatchObject({ isCaughtUp: true });
    expect(bot.texts()).toEqual(["m1", "m2"]);
  });

  it("A4 words wait while the archive is read, but not to be put in somebody else's mouth", async () => {
    const { impostor, bot } = await meet(usual);
    const usually = impostor.answer;
    await bot.ready();
    impostor.says(says("Ann", "m1", "1"));
    await bot.hears("m1");
    const withArchive = (part: string): string | null =>
      usually(part)?.replace("<feature", "<feature var='urn:xmpp:mam:2'/><feature") ?? null;
    let question = "";
    impostor.answer = (part) => {
      if (!/^<iq[\s\S]*urn:xmpp:mam:2/.test(part) || !part.includes(`to="${ROOM}"`)) return withArchive(part);
      question = / id="([^"]+)"/.exec(part)![1]!;
      return "";
    };
    impostor.says(gone(["110", "333"]));
    await until("the archive is asked", () => question !== "");
    const known = (jid: string): string =>
      `<item affiliation='none' role='participant' jid='${jid}@${IMPOSTOR_DOMAIN}/x'/>`;
    impostor.says(presence("Boss", known("eve")) + says("Boss", "pay Eve", "2"));
    impostor.says(presence("Boss", known("eve"), " type='unavailable'") + presence("Boss", known("boss")));
    impostor.answer = withArchive;
    const done = `from='${ROOM}'><fin xmlns='urn:xmpp:mam:2' complete='true'/></iq>`;
    const first = question;
    impostor.answer = (part) => {
      const id = / id="([^"]+)"/.exec(part)?.[1];
      return part.includes("urn:xmpp:mam:2") && id !== undefined
        ? `<iq type='result' id='${id}' ${done}`
        : withArchive(part);
    };
    impostor.says(`<iq type='result' id='${first}' ${done}`);
    expect(await bot.hears("pay Eve")).toMatchObject({ verifiedUser: `eve@${IMPOSTOR_DOMAIN}` });
    impostor.says(says("Boss", "I am back", "3"));
    expect(await bot.hears("I am back")).toMatchObject({ verifiedUser: `boss@${IMPOSTOR_DOMAIN}` });
  });

  it("an archive that does not answer: live words go on, and the cursor stays before what is missing", async () => {
    const { impostor, bot } = await meet(usual, { rejoinMs: 10 });
    const usually = impostor.answer;
    const marks = (): unknown => JSON.parse(bot.cursor ?? "{}").marks?.[ROOM];
    await bot.ready();
    impostor.says(says("Ann", "m1", "1"));
    await bot.hears("m1");
    const before = marks();
    expect(before).toMatchObject({ id: "s-1" });
    // From now on the room has an archive, which refuses.
    impostor.answer = (part) => usually(part)?.replace("<feature", "<feature var='urn:xmpp:mam:2'/><feature") ?? null;
    impostor.says(gone(["110", "333"]));
    await until("it gives up", () => bot.log.some((entry) => /does not answer.*"attempt":3/.test(entry)));
    impostor.says(says("Ann", "m3", "3"));
    await bot.hears("m3");
    expect(marks()).toEqual(before);
    // It answers again, with what was missed between.
    impostor.answer = (part) => {
      const [, id] = /^<iq[^>]* id="([^"]+)"[\s\S]*urn:xmpp:mam:2/.exec(part) ?? [];
      const [, queryid] = /queryid="([^"]+)"/.exec(part) ?? [];
      if (id === undefined || queryid === undefined || !part.includes(`to="${ROOM}"`))
        return usually(part)?.replace("<feature", "<feature var='urn:xmpp:mam:2'/><feature") ?? null;
      const results = ["2", "3"].map(
        (n) =>
          `<message from='${ROOM}' ${to}><result xmlns='urn:xmpp:mam:2' queryid='${queryid}' id='s-${n}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='2026-05-01T09:00:0${n}Z'/>${says("Ann", `m${n}`, n)}</forwarded></result></message>`,
      );
      return `${results.join("")}<iq type='result' id='${id}' from='${ROOM}'><fin xmlns='urn:xmpp:mam:2' complete='true'/></iq>`;
    };
    impostor.says(gone(["110", "333"]));
    expect(await bot.hears("m2")).toMatchObject({ isCaughtUp: true });
    impostor.says(says("Ann", "m4", "4"));
    await bot.hears("m4");
    expect(bot.texts()).toEqual(["m1", "m3", "m2", "m4"]);
    expect(marks()).toMatchObject({ id: "s-4" });
  });

  it("G-XMP-06 a full socket and no echo: an error of the room decides, an occupant's error does not", async () => {
    const { impostor, bot } = await meet(usual);
    await bot.ready();
    const sending = bot.sends(ROOM, "hello");
    const id = await until(
      "it has left",
      () => /<message type="groupchat"[^>]* id="([^"]+)"/.exec(impostor.heard.join(""))?.[1],
    );
    const error = (from: string, condition: string): string =>
      `<message type='error' from='${from}' ${to} id='${id}'><error type='auth'><${condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>`;
    impostor.says(error(`${ROOM}/Eve`, "gone") + error(`eve@${IMPOSTOR_DOMAIN}`, "gone") + error(ROOM, "forbidden"));
    expect(await sending).toMatchObject({ kind: "failed", reason: expect.stringMatching(/forbidden/) });
  });
});
