import { createHash } from "node:crypto";
import type { Element } from "@xmpp/client";
import type { PlatformEvent } from "../../message/platform-event.ts";
import { cleanSource } from "../../message/source.ts";
import type { Target } from "../../message/target.ts";
import type { Clock } from "../../util/clock.ts";
import type { Log } from "../../util/log.ts";
import { type Archive, MAM } from "./archive.ts";
import { type EchoMark, isOfAgent } from "./echo-mark.ts";
import type { InboundQueue } from "./inbound-queue.ts";
import { bareOf, localOf, resourceOf } from "./jid.ts";
import type { XmppPace } from "./options.ts";
import { PlaceFeed, type ReceivedStanza, type Speaker } from "./place-feed.ts";
import { addressOf } from "./private-address.ts";
import { idOf, readMessage, type Spoken } from "./read-stanza.ts";
import { Recent } from "./recent.ts";
import { encrypted, refusedOf } from "./unreadable.ts";
import type { XmppConnection } from "./xmpp-connection.ts";
import { conditionOf, type XmppRoom } from "./xmpp-room.ts";

export interface XmppDirectOptions {
  readonly connection: XmppConnection;
  readonly archive: Archive;
  readonly hearing: InboundQueue;
  readonly clock: Clock;
  readonly log: Log;
  readonly pace: XmppPace;
  readonly echoes: EchoMark;
  readonly roomOf: (jid: string) => XmppRoom | undefined;
  readonly onEcho: (id: string) => void;
  readonly onCaughtUp: (hasArchive: boolean) => void;
}

/** The direct chats of an account in one cursor: `""`, which is no address. */
const PLACE = "";
const CARBONS = "urn:xmpp:carbons:2";
const DISCO = "http://jabber.org/protocol/disco#info";
const MOST_TOLD = 1_000;
const NO_IDENTITY =
  "I cannot answer you here: this room does not show me who you are. Please write to me directly, or in the room.";

interface KnownMessage {
  readonly id: string;
  /** As its author gave it. */
  readonly wireId: string;
  readonly isOwn: boolean;
}

/** With whom: a person, or somebody of a room by what its service vouches for. */
interface Partner {
  readonly chatId: string;
  readonly scopeId?: string;
  /** What a reply is sent to. */
  readonly address: string;
  readonly user: string;
  readonly name: string;
  /** Our own account, in the room under another nick. */
  readonly isUs: boolean;
}

/**
 * XmppDirect: what is said to the account alone: direct chats, private messages of rooms, and its own words there from other
 * clients (carbons). All of it is in the account's own archive, which is one place.
 */
export class XmppDirect {
  readonly #options: XmppDirectOptions;
  readonly #feed: PlaceFeed;
  readonly #known = new Recent<KnownMessage>(4_000);
  /** Occupants who were told that they cannot be answered. */
  readonly #told = new Recent<true>(MOST_TOLD);

  constructor(options: XmppDirectOptions) {
    this.#options = options;
    const { connection, archive, hearing, clock, log, pace } = options;
    this.#feed = new PlaceFeed({
      place: PLACE,
      owner: connection.address,
      archive,
      hearing,
      clock,
      log,
      history: pace.history,
      read: (received) => this.#read(received),
      // Reading it takes note of it; what it would say is known.
      recall: (received) => void this.#read(received),
    });
  }

  /** A new session, before its presence goes out. */
  async begin(): Promise<void> {
    const { connection, log } = this.#options;
    const { xml } = connection;
    this.#feed.begin();
    await connection.ask(xml("iq", { type: "set" }, xml("enable", { xmlns: CARBONS }))).catch((cause) => {
      log.info(
        { condition: conditionOf(cause) },
        "xmpp: the server has no carbons: own words from other clients are not heard",
      );
    });
  }

  /** After the rooms are joined: only then is it known who writes from there. */
  async catchUp(): Promise<void> {
    const { connection, log, onCaughtUp } = this.#options;
    const { xml, session } = connection;
    try {
      const to = connection.address;
      const answer = await connection.ask(xml("iq", { type: "get", to }, xml("query", { xmlns: DISCO })));
      const features = answer.getChild("query", DISCO)?.getChildren("feature") ?? [];
      const hasArchive = features.some(({ attrs }) => attrs.var === MAM);
      await this.#feed.catchUp({ hasArchive, signal: session });
      if (!session.aborted) onCaughtUp(hasArchive);
    } catch (err) {
      if (session.aborted) return;
      log.error({ err }, "xmpp: the account's archive does not answer");
      await this.#feed.giveUp();
      onCaughtUp(false);
    }
  }

  message(stanza: Element): void {
    const own = this.#options.connection.address;
    const carbon = stanza.getChildElements().find((child) => child.getNS() === CARBONS);
    if (carbon !== undefined) {
      const copied = carbon.getChild("forwarded", "urn:xmpp:forward:0")?.getChild("message");
      // Anybody can write a carbon; only our own account may.
      if (bareOf(stanza.attrs.from ?? own) === own && copied !== undefined) this.#hear(copied);
      return;
    }
    this.#hear(stanza);
  }

  /** The id by which the author of a message knows it. */
  wireIdOf(messageId: string): string {
    return this.#known.get(messageId)?.wireId ?? messageId;
  }

  #hear(stanza: Element): void {
    const { stanzaIds, type, stamp, from, to, nick } = readMessage(stanza);
    const { address, domain } = this.#options.connection;
    if (type !== "chat") return;
    const id = stanzaIds.get(address);
    const isOwn = from === address || from === "";
    const room = this.#options.roomOf(isOwn ? to : from);
    const speaker = room?.reader.speakerOf(isOwn ? resourceOf(to) : nick);
    // Kept by the server while nobody was online.
    const isLate = stamp !== undefined && (stamp.by === address || stamp.by === domain);
    if (!isLate) this.#feed.hear({ message: stanza, when: "live", id, speaker });
    else
      this.#feed.hear({
        message: stanza,
        when: this.#feed.mark === undefined ? "history" : "caught-up",
        id,
        at: stamp.at,
      });
  }

  #read({ message, when, id, at, speaker }: ReceivedStanza): PlatformEvent[] {
    const spoken = readMessage(message);
    const { connection, clock, echoes, onEcho } = this.#options;
    if (spoken.type !== "chat") return [];
    const from = spoken.from || connection.address;
    const isOwn = from === connection.address;
    const hasWords = spoken.body !== undefined && spoken.body !== "";
    if (!hasWords && spoken.retracts === undefined) return [];
    const other = isOwn ? { bare: bareOf(spoken.to), nick: resourceOf(spoken.to) } : { bare: from, nick: spoken.nick };
    // Another client of the account may be in rooms that are none of ours.
    const isElsewhere = spoken.isOfRoom && this.#options.roomOf(other.bare) === undefined;
    // The room itself says nothing in private: such words are invitations.
    const isFromRoom = other.nick === "" && this.#options.roomOf(other.bare) !== undefined;
    if (other.bare === "" || isElsewhere || isFromRoom || spoken.isInvitation) return [];
    const wireId = idOf(spoken) ?? id ?? unnumbered(spoken, at ?? clock.now());
    // Its own words have no archive's id when they come as a carbon, and one when they are read again: they keep their own.
    const messageId = isOwn ? wireId : (id ?? `~${from}/${wireId}`);
    const eventId = isOwn ? `own/${other.bare}/${wireId}` : `direct/${messageId}`;
    const partner = this.#partner(other, spoken, speaker);
    if (partner === null) {
      if (isOwn) return [];
      if (when === "live") this.#tell(other);
      return [refusedOf(eventId, "no_identity", "The room does not show who wrote this private message.", message)];
    }
    const key = isOwn ? echoes.keyOf(idOf(spoken)) : undefined;
    if (key !== undefined) onEcho(idOf(spoken)!);
    if (spoken.isEncrypted) return [encrypted(eventId, message)];
    const scope = partner.scopeId === undefined ? {} : { scopeId: partner.scopeId };
    const author = isOwn
      ? { userId: connection.address, userName: localOf(connection.address) }
      : { userId: partner.user, userName: partner.name };
    const source = cleanSource({
      platform: "xmpp",
      account: connection.address,
      ...scope,
      chatId: partner.chatId,
      chatType: "dm",
      ...author,
      isBot: isOfAgent(wireId),
      messageId,
    });
    const target: Target = {
      door: "push",
      platform: "xmpp",
      account: connection.address,
      ...scope,
      chatId: partner.address,
      // Clients start a thread with every window: it is answered in, but it is no conversation of its own.
      ...(spoken.thread === undefined ? {} : { threadId: spoken.thread }),
    };
    const base = {
      eventId,
      source,
      target,
      saidAt: Math.min(at ?? clock.now(), clock.now()),
      isOwn: isOwn || partner.isUs,
      ...(key === undefined ? {} : { originId: key }),
      verifiedUser: author.userId,
    };
    const authored = `${author.userId}\n${partner.chatId}`;
    const namedBy = (name: string): string => this.#known.get(`${authored}\n${name}`)?.id ?? name;
    if (spoken.retracts !== undefined) {
      if (spoken.retracts.isModeration) return [];
      return [{ ...base, kind: "delete", messageId: namedBy(spoken.retracts.id), isModeration: false }];
    }
    if (spoken.replaces !== undefined)
      return [{ ...base, kind: "edit", messageId: namedBy(spoken.replaces), text: spoken.body! }];
    this.#note(spoken, { authored, known: { id: messageId, wireId, isOwn } });
    return [
      {
        ...base,
        kind: "message",
        text: spoken.body!,
        isHistory: when === "history",
        ...(when === "caught-up" ? { isCaughtUp: true } : {}),
        ...(spoken.repliesTo === undefined ? {} : { replyTo: this.#repliedTo(spoken.repliesTo, partner) }),
      },
    ];
  }

  #note(spoken: Spoken, { authored, known }: { authored: string; known: KnownMessage }): void {
    for (const name of new Set([spoken.id, spoken.originId, known.id])) {
      if (name !== undefined) this.#known.set(`${authored}\n${name}`, known);
    }
    this.#known.set(known.id, known);
  }

  /** A direct reply names the id that the author gave. */
  #repliedTo(name: string, { user, chatId }: Partner): { messageId: string; isOwn: boolean } {
    const { address } = this.#options.connection;
    const own = this.#known.get(`${address}\n${chatId}\n${name}`);
    if (own !== undefined || this.#options.echoes.keyOf(name) !== undefined)
      return { messageId: own?.id ?? name, isOwn: true };
    return { messageId: this.#known.get(`${user}\n${chatId}\n${name}`)?.id ?? name, isOwn: false };
  }

  /** K20: of a room, by the real address, else by the occupant id, never by the nick. */
  #partner(
    { bare, nick }: { bare: string; nick: string },
    spoken: Spoken,
    speaker: Speaker | undefined,
  ): Partner | null {
    const room = this.#options.roomOf(bare);
    if (room === undefined)
      return { chatId: bare, address: bare, user: bare, name: localOf(bare) || bare, isUs: false };
    // An old private message says no more than a nick, which may be another one's by now.
    const identity = speaker === undefined ? room.reader.identify(spoken.occupantId) : speaker.verified;
    if (identity === null) return null;
    const address = addressOf(room.jid, identity);
    const isUs = room.reader.isUs(identity);
    return identity.jid === undefined
      ? { chatId: address, scopeId: room.service, address, user: address, name: nick, isUs }
      : { chatId: identity.jid, address, user: identity.jid, name: nick, isUs };
  }

  #tell({ bare, nick }: { bare: string; nick: string }): void {
    const to = `${bare}/${nick}`;
    if (nick === "" || this.#told.has(to)) return;
    this.#told.set(to, true);
    const { connection, log } = this.#options;
    const { xml } = connection;
    connection
      .send(
        xml(
          "message",
          { type: "chat", to },
          xml("body", {}, NO_IDENTITY),
          xml("x", { xmlns: "http://jabber.org/protocol/muc#user" }),
        ),
      )
      .catch((err) => log.warn({ err, to }, "xmpp: a notice could not be sent"));
  }
}

function unnumbered(spoken: Spoken, at: number): string {
  return createHash("sha256")
    .update(JSON.stringify([spoken.from, at, spoken.body]))
    .digest("hex")
    .slice(0, 32);
}
