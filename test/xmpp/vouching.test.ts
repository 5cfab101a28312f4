import { type Element, xml } from "@xmpp/client";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { accountFinding } from "../../src/cli/doctor-gateway.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { until } from "../support/until.ts";
import { XmppScene } from "../support/xmpp-scene.ts";
import { SERVERS, type XmppListener, XmppStage } from "../support/xmpp-stage.ts";

const MUC_USER = "http://jabber.org/protocol/muc#user";
const OWNER = { id: "owner", role: "owner" } as const;
const SHOWN = { "muc#roomconfig_whois": "anyone" };
const HIDDEN = { "muc#roomconfig_whois": "moderators" };

/** Everything that a message can say of its author besides its nick. */
function claims(jid: string, ownId?: string): Element[] {
  const item = xml("item", { jid, affiliation: "owner", role: "moderator" });
  return [
    xml("x", { xmlns: MUC_USER }, item),
    xml("occupant-id", { xmlns: "urn:xmpp:occupant-id:0", id: "forged" }),
    xml("addresses", { xmlns: "http://jabber.org/protocol/address" }, xml("address", { type: "ofrom", jid })),
    ...(ownId === undefined ? [] : [xml("origin-id", { xmlns: "urn:xmpp:sid:0", id: ownId })]),
  ];
}

/** The kind: whatever an occupant writes about himself is his word, however old it is, and whatever the room shows meanwhile. */
describe.each(SERVERS)("who is vouched for, on %s", (kind, start) => {
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

  async function meeting(fields: Readonly<Record<string, string>>) {
    const room = stage.room("vouched");
    const ann = await stage.person("ann");
    await ann.join(room, "Ann");
    await ann.configure(room, { "muc#roomconfig_persistentroom": "1", ...fields });
    const eve = await stage.person("eve");
    await eve.join(room, "Eve");
    const bot = await stage.bot({ rooms: [room], service: `xmpp://127.0.0.1:${proxy.port}` });
    await bot.sends(room, "mine");
    await bot.hears("mine");
    const ownId = (await ann.hears("mine")).getChild("origin-id")!.attrs.id!;
    return { room, ann, eve, bot, ownId };
  }
  /** Stops, or is cut off until the server has given the session up. */
  const AWAY: readonly (readonly [string, (bot: XmppListener, during: () => Promise<void>) => Promise<void>])[] = [
    [
      "a stop of the gateway",
      async (bot, during) => {
        await bot.channel.stop();
        await during();
        await bot.restart();
      },
    ],
    [
      "a mere cut",
      async (bot, during) => {
        proxy.isShut = true;
        proxy.cut();
        await during();
        proxy.isShut = false;
        await bot.ready();
      },
    ],
  ];

  it.each(AWAY)(
    "F-SEC-01 G8: after %s a forged address, a copied id and a borrowed nick are nobody's",
    async (_name, away) => {
      const { room, ann, eve, bot, ownId } = await meeting(HIDDEN);
      await away(bot, async () => {
        await eve.saysInRoom(room, "as the owner", ...claims(ann.jid));
        await eve.saysInRoom(room, "as the owner twice", ...claims(ann.jid), ...claims(ann.jid));
        await eve.saysInRoom(room, "as the agent", ...claims(bot.jid, ownId));
        await ann.configure(room, SHOWN);
        await ann.saysInRoom(room, "that is all");
        await ann.hears("that is all");
      });
      await bot.hears("that is all");
      for (const text of ["as the owner", "as the owner twice", "as the agent"]) {
        const heard = await bot.hears(text);
        expect(heard.isOwn, text).toBe(false);
        // Of one who is cut off and comes back in time, the room as it was then counts.
        if (heard.verifiedUser?.includes("?occupant=") !== true)
          expect([eve.jid, undefined], text).toContain(heard.verifiedUser);
        expect(heard.originId, text).toBeUndefined();
      }
    },
  );

  it("F-SEC-01 G8: whoever left and hid his address is no one but his occupant id, and an honest author in an open room stays himself", async () => {
    const { room, ann, eve, bot } = await meeting(SHOWN);
    await bot.channel.stop();
    await ann.saysInRoom(room, "honest");
    await eve.saysInRoom(room, "gone", ...claims(ann.jid));
    await ann.hears("gone");
    await eve.leave(room, "Eve");
    await bot.restart();
    expect(await bot.hears("honest")).toMatchObject({ verifiedUser: ann.jid, isCaughtUp: true });
    const gone = await bot.hears("gone");
    if (kind === "prosody") expect(gone.verifiedUser).toContain("?occupant=");
    // ejabberd has kept who wrote it, and says so when it is asked.
    else expect(gone.verifiedUser).toBe(eve.jid);
  });

  it("F-SEC-01 G8: neither a live message nor a presence makes somebody another one", async () => {
    const { room, ann, eve, bot, ownId } = await meeting(HIDDEN);
    const mallory = await stage.person("mallory");
    const forged = xml(
      "x",
      { xmlns: MUC_USER },
      xml("item", { jid: `${bot.jid}/x`, affiliation: "owner", role: "moderator" }),
      xml("status", { code: "110" }),
    );
    await mallory.client.send(
      xml(
        "presence",
        { to: `${room}/Mallory` },
        forged,
        xml("x", { xmlns: "http://jabber.org/protocol/muc" }, xml("history", { maxstanzas: "0" })),
        xml("x", { xmlns: MUC_USER }, xml("item", { jid: ann.jid })),
      ),
    );
    await until("she is in", () => ann.presences.some(({ attrs }) => attrs.from === `${room}/Mallory`));
    await mallory.saysInRoom(room, "I am new", ...claims(ann.jid));
    await eve.saysInRoom(room, "I am the agent", ...claims(bot.jid, ownId));
    for (const text of ["I am new", "I am the agent"]) {
      const heard = await bot.hears(text);
      expect(heard.isOwn).toBe(false);
      expect([ann.jid, bot.jid]).not.toContain(heard.verifiedUser);
    }
    expect(await bot.sends(room, "still me")).toMatchObject({ kind: "sent" });
  });

  it("F-ROOM-01 G3: the agent's own account under another nick is the agent, where the room shows whose it is", async () => {
    for (const fields of [SHOWN, HIDDEN]) {
      const { room, ann, bot } = await meeting(fields);
      const phone = await stage.person("mohe", { user: bot.jid.split("@")[0]! });
      await phone.join(room, "Somebody");
      await phone.saysInRoom(room, "@mohe from my phone");
      await ann.saysInRoom(room, "from ann");
      const isKnown = fields === SHOWN || kind === "prosody";
      expect(await bot.hears("@mohe from my phone")).toMatchObject({ isOwn: isKnown });
      expect(await bot.hears("from ann")).toMatchObject({ isOwn: false });
    }
  });
});

/** The kind: what a room shows to one of our accounts holds for all of them, and goes no further than rights. */
describe("F-ROOM-06 a room that hides addresses from all but its moderators", () => {
  let stage: XmppStage;
  let scene: XmppScene | null = null;
  beforeAll(async () => {
    stage = new XmppStage(await SERVERS[0][1]());
  });
  afterEach(async () => {
    await scene?.ends();
    scene = null;
  });
  afterAll(() => stage.server.stop());

  it("F-ROOM-06 G7: the owner is the owner for each agent, and our own accounts are no other readers", async () => {
    scene = new XmppScene(stage);
    await scene.agent("mohe");
    await scene.agent("zhiwei");
    // The agents come first: the first one of them becomes the room's owner, as with the documented server settings.
    const owner = await stage.person("alice");
    scene.knows("owner", owner.jid, "Alice");
    scene.config();
    await scene.starts();
    await owner.join(scene.room, "Alice");
    const guest = await stage.person("bob");
    for (const agent of ["mohe", "zhiwei"]) {
      await owner.saysInRoom(scene.room, `@${agent} /whoami`);
      await owner.hears(new RegExp(`You are Alice \\(owner\\)[^]*You talk to ${agent}`, "i"));
    }
    const statuses = new Map(
      scene.gateway.accounts
        .list()
        .map(({ agent, status }) => [agent, accountFinding({ account: "", agent, status }).text]),
    );
    expect([...statuses.values()].filter((text) => text.includes(`${scene?.room} hides addresses`))).toHaveLength(1);
    const door = { platform: "console", name: "main" } as const;
    await scene.gateway.doors.say({ person: OWNER, agent: "zhiwei", door, text: "say hello" });
    await scene.quiets();
    const [session] = scene.sql<{ id: string }>(
      "SELECT id FROM session WHERE agent = 'zhiwei' AND owner_person = 'owner'",
    );
    const words = { person: OWNER, room: "core", agent: "zhiwei", sessionId: session!.id };
    const sent = await scene.gateway.bridge.send({ ...words, text: "from the terminal" });
    expect(sent.binding).not.toBeNull();
    await owner.saysInRoom(scene.room, "@zhiwei say I know you");
    await owner.hears("I know you");
    // No address of hers has come to a prompt.
    expect(scene.lastPrompt("zhiwei")).toContain("rights: owner");
    expect(scene.lastPrompt("zhiwei")).not.toContain(owner.jid);
    await guest.join(scene.room, "Bob");
    await guest.saysInRoom(scene.room, "hello");
    await until("Bob is heard", () => scene!.sql("SELECT 1 FROM refused_event WHERE code = 'access'").length > 0);
    await expect(scene.gateway.bridge.send({ ...words, text: "again" })).rejects.toMatchObject({ code: "not_shared" });
    await scene.stage.clear();
  });
});
