import type { Element } from "@xmpp/client";
import type { Source } from "../../message/source.ts";
import type { Target } from "../../message/target.ts";
import type { Channel, ChannelStatus, Inbox } from "../channel.ts";
import { Archive } from "./archive.ts";
import { createEchoMark } from "./echo-mark.ts";
import { InboundQueue } from "./inbound-queue.ts";
import { bareOf, localOf } from "./jid.ts";
import { OCCUPANT_ID } from "./occupants.ts";
import { PACE, type XmppRoom as RoomOptions, type XmppChannelOptions, type XmppPace } from "./options.ts";
import { pause } from "./pause.ts";
import { readAddress } from "./private-address.ts";
import { XmppConnection } from "./xmpp-connection.ts";
import { XmppDirect } from "./xmpp-direct.ts";
import { XmppRoom } from "./xmpp-room.ts";
import { XmppSender } from "./xmpp-sender.ts";

export type { XmppAccount, XmppChannelOptions, XmppPace, XmppTls } from "./options.ts";
export { STANZA_LIMIT } from "./options.ts";

/** One account on an XMPP server: its rooms, its direct chats. The platform is acknowledged by the cursor: what is behind it is read again. */
export function createXmppChannel(options: XmppChannelOptions): Channel {
  return new XmppChannel(options);
}

const ROOMS_MS = 10_000;

class XmppChannel implements Channel {
  readonly name = "xmpp";
  readonly platform = "xmpp";
  readonly account: string;
  readonly #options: XmppChannelOptions;
  readonly #pace: XmppPace;
  #parts: Parts | null = null;
  #cancelRound = (): void => undefined;

  constructor(options: XmppChannelOptions) {
    this.#options = options;
    this.#pace = { ...PACE, ...options.pace };
    this.account = bareOf(options.account.jid);
  }

  async start(inbox: Inbox): Promise<void> {
    const { clock, log } = this.#options;
    const hearing = new InboundQueue({ inbox, clock, log, mostWaiting: this.#pace.mostWaiting });
    hearing.keepOnly(["", ...this.#options.account.rooms.map((room) => bareOf(roomFrom(room).jid))]);
    this.#parts = this.#assemble(hearing, inbox);
    await this.#parts.connection.start();
    this.#goRound();
  }

  async stop(): Promise<void> {
    const parts = this.#parts;
    if (parts === null) return;
    this.#parts = null;
    this.#cancelRound();
    for (const room of parts.rooms.values()) room.stop();
    parts.sender.close();
    await parts.connection.stop();
    await parts.hearing.stop();
  }

  status(): ChannelStatus {
    if (this.#parts === null) return { state: "offline", reason: "the channel is not running" };
    const { connection, rooms } = this.#parts;
    const { state } = connection;
    switch (state.is) {
      case "online": {
        const problems = [...rooms.values()].flatMap((room) => problemOf(room));
        const hidden = [...rooms.values()].flatMap((room) => hiddenIn(room));
        return {
          state: "online",
          ...(problems.length === 0 ? {} : { problems }),
          ...(hidden.length === 0 ? {} : { hidden }),
        };
      }
      case "connecting":
        return { state: "connecting" };
      case "waiting":
        return { state: "offline", reason: state.reason };
      case "fatal":
        return { state: "fatal", reason: state.reason };
      case "stopped":
        return { state: "offline", reason: "the channel is not running" };
    }
  }

  readonly sender: NonNullable<Channel["sender"]> = {
    recognisesRepeats: false,
    looksBack: true,
    send: async (target, text, options) =>
      this.#parts === null
        ? { kind: "offline", reason: "The channel is not running." }
        : await this.#parts.sender.send(target, text, options),
  };

  readonly typing: NonNullable<Channel["typing"]> = {
    start: (target) => this.#parts?.sender.start(target),
    stop: (target) => this.#parts?.sender.stop(target),
  };

  isMe({ chatId, userId }: Source): boolean {
    const room = this.#parts?.rooms.get(bareOf(chatId ?? ""));
    return room !== undefined && userId !== undefined && room.isMe(userId);
  }

  addressOf({ userId, userIdAlt }: Source): string | undefined {
    const at = readAddress(userIdAlt ?? userId ?? "");
    const room = at === null ? undefined : this.#parts?.rooms.get(at.room);
    return room?.reader.identify(at?.identity.occupantId)?.jid;
  }

  #assemble(hearing: InboundQueue, inbox: Inbox): Parts {
    const { account, clock, chance, log, resolve } = this.#options;
    const pace = this.#pace;
    const echoes = createEchoMark(`${this.account} ${account.password}`);
    const rooms = new Map<string, XmppRoom>();
    const roomOf = (jid: string): XmppRoom | undefined => rooms.get(bareOf(jid));
    const connection = new XmppConnection({
      account,
      resource: account.resource ?? "tertulia",
      clock,
      chance,
      log,
      pace,
      resolve,
      events: {
        onSession: () => this.#begin(parts),
        onResumed: () => {
          for (const room of rooms.values()) this.#fireAndLog(room.check());
        },
        onDown: () => {
          for (const room of rooms.values()) room.pause();
        },
        onStanza: (stanza) => this.#take(stanza, parts),
        onAck: (stanza) => parts.sender.acknowledged(stanza),
      },
    });
    const archive = new Archive(connection);
    /** `""`: the direct chats. */
    const caughtUp = (place: string, hasArchive: boolean): void => {
      parts.sender.caughtUp(place, hasArchive);
      const covers = ({ chatId }: Target): boolean => (place === "" ? !rooms.has(chatId) : bareOf(chatId) === place);
      // A channel that stops in the middle has not read it all.
      this.#fireAndLog(
        hearing.settled().then(() => (hearing.stopped.aborted ? undefined : inbox.caughtUp?.(covers, hasArchive))),
      );
    };
    const onEcho = (id: string, externalId = id): void => parts.sender.echoed(id, externalId);
    for (const given of account.rooms) {
      const room = roomFrom(given);
      const options = { connection, archive, hearing, clock, chance, log, pace, echoes, onEcho };
      const made = new XmppRoom({
        ...options,
        jid: room.jid,
        nick: (room.nick ?? account.nick ?? localOf(account.jid)).normalize("NFC"),
        password: room.password,
        onCaughtUp: (place, hasArchive) => caughtUp(place, hasArchive),
      });
      rooms.set(made.jid, made);
    }
    const onCaughtUp = (hasArchive: boolean): void => caughtUp("", hasArchive);
    const shared = { connection, clock, pace, echoes, roomOf };
    const direct = new XmppDirect({ ...shared, archive, hearing, log, onEcho, onCaughtUp });
    const sender = new XmppSender({ ...shared, direct, whyDown: () => describeStatus(this.status()) });
    const parts: Parts = { connection, archive, hearing, rooms, direct, sender };
    return parts;
  }

  #begin(parts: Parts): void {
    parts.sender.orphan();
    this.#fireAndLog(this.#enterAll(parts));
  }

  async #enterAll({ connection, rooms, direct }: Parts): Promise<void> {
    const { session, xml } = connection;
    await direct.begin();
    if (session.aborted) return;
    await connection.send(xml("presence"));
    for (const room of rooms.values()) room.enter();
    const until = this.#options.clock.now() + ROOMS_MS;
    while ([...rooms.values()].some(({ state }) => state.is === "joining") && this.#options.clock.now() < until) {
      await pause(this.#options.clock, 50, session);
      if (session.aborted) return;
    }
    await direct.catchUp();
  }

  #take(stanza: Element, { archive, connection, rooms, direct, sender }: Parts): void {
    try {
      const from = bareOf(stanza.attrs.from ?? connection.address);
      const room = rooms.get(from);
      if (stanza.is("presence")) room?.presence(stanza);
      if (!stanza.is("message") || archive.take(stanza)) return;
      if (stanza.attrs.type === "error") sender.refused(stanza);
      else if (stanza.attrs.type === "groupchat") room?.message(stanza);
      else direct.message(stanza);
    } catch (err) {
      // One bad stanza ends nothing: the next one is heard.
      this.#options.log.error({ err, from: stanza.attrs.from }, "xmpp: a stanza could not be read");
    }
  }

  #goRound(): void {
    const { silentMs } = this.#pace;
    this.#cancelRound = this.#options.clock.after(silentMs / 5, () => {
      if (this.#parts?.connection.isOnline) {
        for (const room of this.#parts.rooms.values()) room.checkIfSilent(silentMs);
      }
      this.#goRound();
    });
  }

  #fireAndLog(work: Promise<unknown>): void {
    work.catch((err) => this.#options.log.warn({ err, account: this.account }, "xmpp: a session could not be set up"));
  }
}

interface Parts {
  readonly connection: XmppConnection;
  readonly archive: Archive;
  readonly hearing: InboundQueue;
  readonly rooms: ReadonlyMap<string, XmppRoom>;
  readonly direct: XmppDirect;
  readonly sender: XmppSender;
}

function roomFrom(room: string | RoomOptions): RoomOptions {
  return typeof room === "string" ? { jid: room } : room;
}

function problemOf({ jid, state }: XmppRoom): string[] {
  switch (state.is) {
    case "joined":
      return [];
    case "joining":
      return [`Not in ${jid} yet: joining it.`];
    case "away":
    case "closed":
      return [`Not in ${jid}: ${state.reason}.`];
  }
}

function hiddenIn({ jid, state, hidesAddresses, features }: XmppRoom): string[] {
  if (state.is !== "joined" || !hidesAddresses) return [];
  const rest = features.has(OCCUPANT_ID)
    ? "it goes by what another account of this gateway is shown there."
    : "whoever writes there is a guest.";
  return [`${jid} hides addresses from this account: ${rest}`];
}

function describeStatus(status: ChannelStatus): string {
  return "reason" in status ? status.reason : `The channel is ${status.state}.`;
}
