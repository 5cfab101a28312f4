/** Stanzas of a room and of its people, read, judged by the gate, and cut into parts as an answer would be. */
import { type Element, xml } from "@xmpp/client";
import { createEchoMark } from "../../../src/channel/xmpp/echo-mark.ts";
import { Occupants, readPresence } from "../../../src/channel/xmpp/occupants.ts";
import { readMessage } from "../../../src/channel/xmpp/read-stanza.ts";
import { RoomReader } from "../../../src/channel/xmpp/room-reader.ts";
import { type AccessPolicy, meaningOf, whoWrote } from "../../../src/conversation/gate.ts";
import { systemClock } from "../../../src/util/clock.ts";
import { type Chance, hostileText } from "./chance.ts";
import type { FuzzTarget } from "./fuzz.ts";

const ROOM = "core@rooms.example.org";
const ACCOUNT = "nova@example.org";
const HOUSE: AccessPolicy = {
  agent: { name: "nova", names: ["nova", "诺娃"], mentionFormat: "@{name}", answer: "addressed" },
  names: ["nova", "诺娃", "nova2", "mohe"],
  agents: new Map([[`xmpp ${ACCOUNT}`, "nova"]]),
  people: new Map(),
  access: { open: true, people: null, rooms: null, bots: null },
};

const NAMESPACES = [
  "urn:xmpp:sid:0",
  "urn:xmpp:message-correct:0",
  "urn:xmpp:reply:0",
  "urn:xmpp:fallback:0",
  "urn:xmpp:occupant-id:0",
  "urn:xmpp:delay",
  "urn:xmpp:fasten:0",
  "urn:xmpp:message-retract:1",
  "urn:xmpp:message-moderate:1",
  "urn:xmpp:reference:0",
  "jabber:x:conference",
  "http://jabber.org/protocol/muc#user",
  "eu.siacs.conversations.axolotl",
  "urn:xmpp:mam:2",
];
const NAMES = [
  "body",
  "subject",
  "thread",
  "origin-id",
  "stanza-id",
  "replace",
  "reply",
  "fallback",
  "occupant-id",
  "delay",
  "apply-to",
  "retract",
  "moderated",
  "reference",
  "x",
  "item",
  "invite",
  "status",
  "destroy",
  "reason",
  "actor",
  "encrypted",
  "result",
  "forwarded",
  "message",
];
const ATTRIBUTES = [
  "id",
  "by",
  "from",
  "to",
  "jid",
  "nick",
  "stamp",
  "type",
  "uri",
  "start",
  "end",
  "for",
  "code",
  "role",
  "affiliation",
  "begin",
];

export function xmppReader(): FuzzTarget {
  const occupants = new Occupants();
  const features = new Set(["urn:xmpp:sid:0", "urn:xmpp:mam:2", "urn:xmpp:occupant-id:0", "muc_nonanonymous"]);
  const room = { jid: ROOM, service: "rooms.example.org", name: "Core", topic: undefined, features, occupants };
  const reader = new RoomReader({
    room: { ...room, nick: "nova", ownOccupantId: "own" },
    account: ACCOUNT,
    clock: systemClock,
    echoes: createEchoMark("secret"),
    onEcho: () => undefined,
  });
  const take = (message: Element, at?: number): void => {
    const { nick } = readMessage(message);
    const when = at === undefined ? "live" : "history";
    const speaker = at === undefined ? reader.speakerOf(nick) : undefined;
    for (const heard of reader.read({ message, when, id: undefined, at, speaker } as Parameters<
      RoomReader["read"]
    >[0])) {
      if (heard.kind !== "message") continue;
      meaningOf(heard, whoWrote(heard, HOUSE, { siblingAgent: null, address: null }), HOUSE, false);
    }
  };
  return {
    name: "XMPP reader",
    take(chance, count) {
      for (let i = 0; i < count; i++) {
        const stanza = stanzaOf(chance);
        if (stanza.is("presence")) readPresence(stanza);
        else take(stanza, chance.isTrue(0.3) ? chance.whole(2_000_000_000_000) : undefined);
      }
      return Promise.resolve(count);
    },
    takeLong(piece, length) {
      const body = piece.repeat(Math.ceil(length / piece.length));
      const children = [
        xml("body", {}, body),
        xml("thread", {}, body),
        xml("reply", { xmlns: "urn:xmpp:reply:0", id: body }),
      ];
      take(xml("message", { type: "groupchat", from: `${ROOM}/${piece}`, id: "1" }, ...children));
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  };
}

function stanzaOf(chance: Chance): Element {
  const from = chance.isTrue(0.7) ? `${ROOM}/${hostileText(chance).slice(0, 40)}` : hostileText(chance);
  const type = chance.oneOf([
    "groupchat",
    "groupchat",
    "chat",
    "error",
    "headline",
    "unavailable",
    hostileText(chance),
  ]);
  const attributes = { from, type, ...(chance.isTrue(0.8) ? { id: hostileText(chance) } : {}) };
  const children = Array.from({ length: chance.whole(7) }, () => childOf(chance, 3));
  const body = chance.isTrue(0.8) ? [xml("body", {}, hostileText(chance))] : [];
  return xml(chance.isTrue(0.9) ? "message" : "presence", attributes, ...body, ...children);
}

function childOf(chance: Chance, depth: number): Element {
  const attributes: Record<string, string> = {};
  if (chance.isTrue(0.8)) attributes.xmlns = chance.oneOf(NAMESPACES);
  for (let i = chance.whole(4); i > 0; i--) attributes[chance.oneOf(ATTRIBUTES)] = attributeOf(chance);
  const inner = depth > 0 && chance.isTrue(0.5) ? [childOf(chance, depth - 1)] : [];
  return xml(chance.oneOf(NAMES), attributes, ...inner, chance.isTrue(0.5) ? hostileText(chance) : "");
}

function attributeOf(chance: Chance): string {
  const known = [
    ROOM,
    ACCOUNT,
    `${ROOM}/nova`,
    "urn:xmpp:reply:0",
    "mention",
    "xmpp:nova@example.org",
    "2026-12-01T00:00:00Z",
    "3",
    "-1",
    "moderator",
    "110",
  ];
  return chance.isTrue(0.5) ? chance.oneOf(known) : hostileText(chance);
}
