import type { Element } from "@xmpp/client";
import type { Target } from "../../message/target.ts";
import type { Clock } from "../../util/clock.ts";
import type { MessageSender, SendResult, TypingShower } from "../channel.ts";
import type { EchoMark } from "./echo-mark.ts";
import { StanzaError } from "./iq-requests.ts";
import { bareOf, resourceOf } from "./jid.ts";
import { STANZA_LIMIT, type XmppPace } from "./options.ts";
import { readAddress } from "./private-address.ts";
import type { XmppConnection } from "./xmpp-connection.ts";
import type { XmppDirect } from "./xmpp-direct.ts";
import type { XmppRoom } from "./xmpp-room.ts";

/** What left, and is not yet known to have arrived. */
interface Pending {
  readonly to: string;
  /** The room, or "" for what went to one person. */
  readonly place: string;
  readonly isRoom: boolean;
  /** The session it left in is lost: only the archive can say now. */
  isOrphan: boolean;
  settle(result: SendResult): void;
}

export interface XmppSenderOptions {
  readonly connection: XmppConnection;
  readonly clock: Clock;
  readonly pace: XmppPace;
  readonly echoes: EchoMark;
  readonly direct: XmppDirect;
  readonly roomOf: (jid: string) => XmppRoom | undefined;
  readonly whyDown: () => string;
}

const CHAT_STATES = "http://jabber.org/protocol/chatstates";
/** Try again later; nobody has got it. */
const PASSING = new Set(["resource-constraint", "policy-violation", "remote-server-timeout", "internal-server-error"]);

/**
 * XmppSender: sends, and says what became of it. In a room the room's copy to its author is the proof; to one person it is the
 * server's acknowledgement. After a lost session the archive says whether it arrived.
 */
export class XmppSender implements MessageSender, TypingShower {
  /** No server drops a repeated id, and after a restart of ours nobody knows what was under way. */
  readonly recognisesRepeats = false;
  readonly looksBack = true;
  readonly #options: XmppSenderOptions;
  readonly #pending = new Map<string, Pending>();

  constructor(options: XmppSenderOptions) {
    this.#options = options;
  }

  async send(
    target: Target,
    text: string,
    { idempotencyKey, signal }: { readonly idempotencyKey: string; readonly signal: AbortSignal },
  ): Promise<SendResult> {
    const { connection, echoes } = this.#options;
    if (!connection.isOnline) return { kind: "offline", reason: this.#options.whyDown() };
    const way = this.#wayTo(target);
    if ("kind" in way) return way;
    const words = cleanXml(text);
    const id = echoes.idOf(idempotencyKey, words);
    const stanza = this.#stanza(target, way, words, id);
    const bytes = Buffer.byteLength(stanza.toString());
    if (bytes > STANZA_LIMIT.limit) {
      const reason = `The message takes ${bytes} bytes on the wire; XMPP servers take ${STANZA_LIMIT.limit} at most.`;
      return { kind: "failed", reason };
    }
    return await this.#deliver(stanza, { id, way, signal });
  }

  start(target: Target): void {
    this.#show(target, "composing");
  }

  stop(target: Target): void {
    this.#show(target, "paused");
  }

  /** A message of ours has come back from the room, or stands in an archive. */
  echoed(id: string, externalId: string): void {
    this.#pending.get(id)?.settle({ kind: "sent", externalId });
  }

  /** The server has it: for a message to one person there is no better proof. */
  acknowledged(stanza: Element): void {
    const { id = "" } = stanza.attrs;
    const pending = this.#pending.get(id);
    if (pending?.isRoom === false) pending.settle({ kind: "sent", externalId: id });
  }

  /** An error that came back for a message of ours. */
  refused(stanza: Element): void {
    const { id = "", from = "" } = stanza.attrs;
    const { condition, type, message } = StanzaError.of(stanza);
    const pending = this.#pending.get(id);
    // Only from where it was sent to: an occupant's word is not the room's.
    const isTheirs =
      pending !== undefined && (from === pending.to || (!pending.isRoom && bareOf(from) === pending.to.toLowerCase()));
    const room = resourceOf(from) === "" ? this.#options.roomOf(from) : undefined;
    const isOutside = condition === "not-acceptable" && room !== undefined;
    if (isOutside) room.enter();
    if (!isTheirs) return;
    const reason = `${pending.isRoom ? "The room" : "The server"} refuses the message: ${message}.`;
    if (isOutside) pending.settle({ kind: "offline", reason: "The account was not in the room any more." });
    else if (PASSING.has(condition) || type === "wait") pending.settle({ kind: "retry", reason });
    else pending.settle({ kind: "failed", reason });
  }

  /** The session is lost; another one has begun. */
  orphan(): void {
    for (const pending of this.#pending.values()) pending.isOrphan = true;
  }

  /** A place is read up to now: of a lost session, what is not in it has not arrived. */
  caughtUp(place: string, hasArchive: boolean): void {
    for (const pending of this.#pending.values()) {
      if (pending.place !== place || !pending.isOrphan) continue;
      pending.settle(
        hasArchive
          ? { kind: "retry", reason: "the connection was cut before the message arrived" }
          : { kind: "unknown", reason: "the connection was cut, and there is no archive to look in" },
      );
    }
  }

  /** Nothing more is learnt. */
  close(): void {
    for (const pending of this.#pending.values())
      pending.settle({ kind: "unknown", reason: "the channel was stopped" });
  }

  async #deliver(
    stanza: Element,
    { id, way, signal }: { id: string; way: Way; signal: AbortSignal },
  ): Promise<SendResult> {
    const { connection, clock, pace } = this.#options;
    const { promise, resolve } = Promise.withResolvers<SendResult>();
    this.#pending.set(id, { to: way.to, place: way.place, isRoom: way.isRoom, isOrphan: false, settle: resolve });
    const onAbort = (): void => resolve({ kind: "unknown", reason: "the gateway was stopped before it was known" });
    signal.addEventListener("abort", onAbort, { once: true });
    let cancel = (): void => undefined;
    const watch = (): void => {
      cancel = clock.after(pace.echoMs, () => {
        // While the connection is down there can be no answer; it comes with the next one.
        const isAsked = connection.isOnline && this.#pending.get(id)?.isOrphan === false;
        const isClosed = this.#options.roomOf(way.place)?.state.is === "closed";
        if (isClosed) resolve({ kind: "unknown", reason: "the account is out of the room before it was known" });
        else if (isAsked) resolve({ kind: "unknown", reason: `no sign of it within ${pace.echoMs / 1_000} s` });
        else watch();
      });
    };
    watch();
    try {
      await connection.send(stanza).then(
        () => {
          if (!way.isRoom && !connection.hasAcks && connection.isOnline) resolve({ kind: "sent", externalId: id });
        },
        () => undefined, // The cut shows as such, and then the archive says what arrived.
      );
      return await promise;
    } finally {
      cancel();
      signal.removeEventListener("abort", onAbort);
      this.#pending.delete(id);
    }
  }

  #wayTo({ chatId, scopeId }: Target): Way | SendResult {
    const private_ = readAddress(chatId);
    const jid = private_?.room ?? chatId;
    const room = this.#options.roomOf(jid);
    if (room === undefined && private_ === null && scopeId === undefined)
      return { type: "chat", to: chatId, place: "", isRoom: false };
    if (room === undefined) return { kind: "failed", reason: `The account is not in the room ${jid}.` };
    if (room.state.is === "closed") return { kind: "failed", reason: `Not in ${room.jid}: ${room.state.reason}.` };
    if (room.state.is !== "joined") {
      const why = room.state.is === "away" ? room.state.reason : "joining it";
      return { kind: "offline", reason: `Not in ${room.jid}: ${why}.` };
    }
    if (private_ === null) return { type: "groupchat", to: room.jid, place: room.jid, isRoom: true };
    const nick = room.nickOf(private_.identity);
    if (nick === undefined) return { kind: "failed", reason: `The person has left ${room.jid}.` };
    return { type: "chat", to: `${room.jid}/${nick}`, place: "", isRoom: false, isPrivate: true };
  }

  #stanza(target: Target, way: Way, text: string, id: string): Element {
    const { xml } = this.#options.connection;
    const stanza = xml(
      "message",
      { type: way.type, to: way.to, id },
      xml("body", {}, text),
      xml("origin-id", { xmlns: "urn:xmpp:sid:0", id }),
    );
    if (target.threadId !== undefined) stanza.append(xml("thread", {}, cleanXml(target.threadId)));
    if (target.replyTo !== undefined) stanza.append(this.#reply(target.replyTo, way));
    if (way.isPrivate === true) stanza.append(xml("x", { xmlns: "http://jabber.org/protocol/muc#user" }));
    if (!way.isRoom) stanza.append(xml("active", { xmlns: CHAT_STATES }));
    return stanza;
  }

  #reply(messageId: string, way: Way): Element {
    const { connection, direct, roomOf } = this.#options;
    const id = way.isRoom ? messageId : direct.wireIdOf(messageId);
    const to = way.isRoom ? roomOf(way.to)?.reader.nickAddressOf(messageId) : way.to;
    return connection.xml("reply", {
      xmlns: "urn:xmpp:reply:0",
      id: cleanXml(id),
      ...(to === undefined ? {} : { to }),
    });
  }

  /** A sign that nobody has to get. */
  #show(target: Target, state: "composing" | "paused"): void {
    const { connection } = this.#options;
    if (!connection.isOnline) return;
    const way = this.#wayTo(target);
    if ("kind" in way) return;
    const { xml } = connection;
    const stanza = xml(
      "message",
      { type: way.type, to: way.to },
      xml(state, { xmlns: CHAT_STATES }),
      xml("no-store", { xmlns: "urn:xmpp:hints" }),
    );
    if (way.isPrivate === true) stanza.append(xml("x", { xmlns: "http://jabber.org/protocol/muc#user" }));
    connection.send(stanza).catch(() => undefined);
  }
}

interface Way {
  readonly type: "chat" | "groupchat";
  readonly to: string;
  readonly place: string;
  readonly isRoom: boolean;
  readonly isPrivate?: boolean;
}

/** One character that XML does not have ends the stream, and the account's being in every room with it. */
export function cleanXml(text: string): string {
  return text.toWellFormed().replace(/[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "");
}
