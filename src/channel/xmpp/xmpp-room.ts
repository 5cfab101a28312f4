import { createHash } from "node:crypto";
import type { Element } from "@xmpp/client";
import type { Heard } from "../../message/heard.ts";
import type { Source } from "../../message/source.ts";
import type { Target } from "../../message/target.ts";
import type { Clock } from "../../util/clock.ts";
import type { Log } from "../../util/log.ts";
import { type Archive, MAM } from "./archive.ts";
import type { EchoMark } from "./echo-mark.ts";
import type { Hearing } from "./hearing.ts";
import { StanzaError } from "./iq-desk.ts";
import { bareOf, domainOf, localOf } from "./jid.ts";
import { OCCUPANT_ID, type Occupant, Occupants, type RoomPresence, readPresence } from "./occupants.ts";
import type { XmppPace } from "./options.ts";
import { type Overheard, PlaceFeed } from "./place-feed.ts";
import { addressOf, type PrivateIdentity } from "./private-address.ts";
import { idOf, readMessage, type Spoken } from "./read-stanza.ts";
import { Recent } from "./recent.ts";
import { refusedOf } from "./refused.ts";
import type { XmppConnection } from "./xmpp-connection.ts";

/**
 * XmppRoom: one room, and our being in it. History and live are told apart by position, never by a delay stamp (which anybody can
 * write): what comes between our own presence and the subject is history.
 */
export type RoomState =
  | { readonly is: "joining"; readonly nick: string } //      → joined, away, closed
  | { readonly is: "joined"; readonly nick: string } //       → joining, away, closed
  | { readonly is: "away"; readonly reason: string } //       → joining: it is tried again
  | { readonly is: "closed"; readonly reason: string }; //    nothing is tried again before the next start

export interface XmppRoomOptions {
  readonly jid: string;
  readonly nick: string;
  readonly password?: string | undefined;
  readonly connection: XmppConnection;
  readonly archive: Archive;
  readonly hearing: Hearing;
  readonly clock: Clock;
  readonly chance: () => number;
  readonly log: Log;
  readonly pace: XmppPace;
  readonly echoes: EchoMark;
  /** A message of ours has come back, with the room's id for it. */
  readonly onEcho: (id: string, stanzaId: string | undefined) => void;
  /** Joined again after a lost session, and all that was said meanwhile is read: what did not come back was not sent. */
  readonly onCaughtUp: (room: string, hasArchive: boolean) => void;
}

const MUC = "http://jabber.org/protocol/muc";
const MUC_OWNER = "http://jabber.org/protocol/muc#owner";
const STANZA_IDS = "urn:xmpp:sid:0";
const DISCO = "http://jabber.org/protocol/disco#info";
const MOST_NICKS = 4;
const SUBJECT_MS = 5_000;
const CATCH_UP_TRIES = 3;
/** Somebody has to let us in: it is asked seldom. */
const UNINVITED_MS = 600_000;

interface KnownMessage {
  readonly id: string;
  readonly isOwn: boolean;
  readonly author: string;
  readonly nick: string;
}

/** Their reason to refuse does not go away by asking again. */
const CLOSED_FOR: Readonly<Record<string, string>> = {
  forbidden: "the account is banned from it",
  "not-authorized": "it wants a password, or another one",
  gone: "the room is gone",
  "jid-malformed": "the room's service does not take this address or nick",
};

export class XmppRoom {
  readonly jid: string;
  readonly #options: XmppRoomOptions;
  readonly #service: string;
  readonly #occupants = new Occupants();
  readonly #feed: PlaceFeed;
  /** By the room's id, and by author and author's id: messages that edits, deletions and replies may name. */
  readonly #known = new Recent<KnownMessage>(4_000);
  readonly #readers = new Recent<true>(4_000);
  #state: RoomState = { is: "away", reason: "not joined yet" };
  #features = new Set<string>();
  #ownOccupantId: string | undefined;
  #isModerator = false;
  #name: string | undefined;
  #topic: string | undefined;
  #phase: "outside" | "entering" | "inside" = "outside";
  /** Goes up with every join: what an older one still waits for is nobody's business. */
  #round = 0;
  #unnumbered = 0;
  #failures = 0;
  #kicks = 0;
  #heardAt = 0;
  #cancelRetry = (): void => undefined;
  #onOwnPresence: ((presence: RoomPresence | StanzaError) => void) | null = null;
  #onSubject: (() => void) | null = null;

  constructor(options: XmppRoomOptions) {
    this.#options = options;
    this.jid = bareOf(options.jid);
    this.#service = domainOf(this.jid);
    const { archive, hearing, clock, log, pace } = options;
    this.#feed = new PlaceFeed({
      place: this.jid,
      owner: this.jid,
      archive,
      hearing,
      clock,
      log,
      history: pace.history,
      read: (overheard) => this.#read(overheard),
    });
  }

  get state(): RoomState {
    return this.#state;
  }
  /** Our nick there, once the room has confirmed it. */
  get nick(): string | undefined {
    return this.#state.is === "joined" ? this.#state.nick : undefined;
  }
  get occupants(): number {
    return this.#occupants.size;
  }

  /** A new session: joins, and reads what was missed. */
  enter(): void {
    if (this.#state.is === "closed" || !this.#options.connection.isOnline) return;
    this.#cancelRetry();
    this.#round += 1;
    const round = this.#round;
    this.#enter(() => round !== this.#round).catch((cause) => {
      if (round === this.#round) this.#refused(cause);
    });
  }

  /** The session goes on after a cut: the room should still have us. */
  async check(): Promise<void> {
    if (this.#state.is !== "joined") return;
    const { connection } = this.#options;
    const { xml } = connection;
    const round = this.#round;
    const to = `${this.jid}/${this.#state.nick}`;
    try {
      await connection.ask(xml("iq", { type: "get", to }, xml("ping", { xmlns: "urn:xmpp:ping" })));
    } catch (cause) {
      // XEP-0410: this condition says that we are out; any other error, that somebody is there.
      if (conditionOf(cause) === "not-acceptable" && round === this.#round) this.enter();
    }
  }

  /** Asks, when nothing was heard from there for long. */
  checkIfSilent(silentMs: number): void {
    if (this.#options.clock.now() - this.#heardAt < silentMs) return;
    this.#heardAt = this.#options.clock.now();
    this.check().catch((err) => this.#options.log.warn({ err, room: this.jid }, "xmpp: the room could not be asked"));
    this.#takeNickBack();
  }

  /** The connection is down. */
  pause(): void {
    this.#cancelRetry();
  }

  stop(): void {
    this.#round += 1;
    this.#cancelRetry();
  }

  presence(stanza: Element): void {
    if (stanza.attrs.type === "error") {
      this.#onOwnPresence?.(StanzaError.of(stanza));
      return;
    }
    const presence = readPresence(stanza);
    if (presence.nick === "") {
      if (presence.isDestroyed) this.#close(`the room was destroyed${because(presence)}`);
      return;
    }
    const isOwn = presence.codes.has("110") || (presence.isGone && presence.nick === this.nick);
    this.#occupants.note(presence);
    if (!isOwn && !presence.isGone) this.#noteReader(presence.nick);
    if (isOwn) this.#ownPresence(presence);
    else if (presence.isGone && presence.nick === this.#options.nick) this.#takeNickBack();
  }

  /** Whoever is there reads along (H7). Each is told of once in this channel's life. */
  #noteReader(nick: string): void {
    const { connection, clock, hearing } = this.#options;
    const verified = this.identify(nick);
    const author = verified === null ? `${this.jid}/${nick}` : (verified.jid ?? addressOf(this.jid, verified));
    if (author === connection.address || this.#readers.get(author) === true) return;
    const at = { platform: "xmpp", account: connection.address, scopeId: this.#service, chatId: this.jid } as const;
    const isIn = hearing.put({
      place: this.jid,
      events: [
        {
          kind: "reader",
          eventId: `${this.jid}/reader/${author}`,
          source: { ...at, chatName: this.name, chatType: "group", userId: author, userName: nick, isBot: false },
          target: { door: "push", ...at },
          saidAt: clock.now(),
          isOwn: false,
          ...(verified === null ? {} : { verifiedUser: author }),
        },
      ],
    });
    if (isIn) this.#readers.set(author, true);
  }

  /** A groupchat message. */
  message(stanza: Element): void {
    this.#heardAt = this.#options.clock.now();
    const spoken = readMessage(stanza);
    if (spoken.subject !== undefined && spoken.body === undefined && spoken.thread === undefined) {
      this.#topic = spoken.subject || undefined;
      // At once: what comes in the same piece is live already.
      if (this.#phase === "entering") this.#phase = "inside";
      this.#onSubject?.();
      return;
    }
    if (
      stanza.getChild("x", "http://jabber.org/protocol/muc#user")?.getChildren("status").length &&
      spoken.nick === ""
    ) {
      this.#refresh();
      return;
    }
    const id = this.#stanzaId(spoken);
    if (this.#phase === "entering") {
      // The archive has it, and in its place.
      if (this.#hasArchive) return;
      const when = this.#feed.mark === undefined ? "history" : "caught-up";
      this.#feed.hear({ message: stanza, when, id, at: spoken.stamp?.at });
    } else if (this.#phase === "inside") this.#feed.hear({ message: stanza, when: "live", id });
  }

  /** Who speaks there under this nick now, by what the service vouches for; null where it does not. */
  identify(nick: string): PrivateIdentity | null {
    return this.#vouched(this.#occupants.called(nick));
  }
  /** The same of an old message, which carries no more than an occupant id. */
  identifyOld(occupantId: string | undefined): PrivateIdentity | null {
    if (occupantId === undefined || !this.#features.has(OCCUPANT_ID)) return null;
    return this.#vouched(this.#occupants.withId(occupantId)) ?? { occupantId };
  }
  /** The nick of somebody now. */
  nickOf({ jid, occupantId }: PrivateIdentity): string | undefined {
    const found = jid === undefined ? this.#occupants.withId(occupantId ?? "") : this.#occupants.withJid(jid);
    return found?.nick;
  }
  /** Whether an author, as another account in the room has heard him, is this account. */
  isMe(author: string): boolean {
    if (this.#state.is !== "joined") return false;
    const occupantId = this.#ownOccupantId;
    const asOccupant = occupantId === undefined ? undefined : addressOf(this.jid, { occupantId });
    return [this.#options.connection.address, asOccupant, `${this.jid}/${this.#state.nick}`].includes(author);
  }
  isOwnNick(nick: string): boolean {
    return nick === this.nick;
  }
  /** The author of a message there, as a reply in the room names him. */
  nickAddressOf(messageId: string): string | undefined {
    const known = this.#known.get(messageId);
    return known === undefined ? undefined : `${this.jid}/${known.nick}`;
  }
  get name(): string {
    return this.#name || localOf(this.jid);
  }
  get service(): string {
    return this.#service;
  }

  async #enter(isStale: () => boolean): Promise<void> {
    const { connection, pace, log, onCaughtUp } = this.#options;
    const signal = connection.session;
    const isOver = (): boolean => isStale() || signal.aborted;
    this.#phase = "outside";
    this.#state = { is: "joining", nick: this.#options.nick };
    this.#occupants.clear();
    this.#ownOccupantId = undefined;
    this.#feed.begin();
    await this.#look();
    if (isOver()) return;
    const subject = new Promise<void>((resolve) => {
      this.#onSubject = resolve;
    });
    const own = await this.#join(isOver);
    if (isOver()) return;
    if (own.codes.has("201")) await this.#configure();
    if (own.codes.has("201") || this.#features.size === 0) await this.#look();
    await this.#within(SUBJECT_MS, subject);
    if (isOver()) return;
    this.#phase = "inside";
    let isRead = this.#hasArchive;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#feed.catchUp({ hasArchive: this.#hasArchive, signal });
        break;
      } catch (err) {
        if (isOver()) return;
        log.error({ err, room: this.jid, attempt }, "xmpp: the room's archive does not answer");
        if (attempt === CATCH_UP_TRIES) {
          isRead = false;
          await this.#feed.giveUp();
          break;
        }
        await this.#within(pace.rejoinMs * attempt, new Promise<void>(() => undefined));
      }
    }
    if (isOver()) return;
    this.#failures = 0;
    onCaughtUp(this.jid, isRead);
  }

  /** Resolves with our own presence as the room confirms it; joining with another nick where ours is taken. */
  async #join(isOver: () => boolean): Promise<RoomPresence> {
    for (let n = 1; ; n++) {
      const nick = n === 1 ? this.#options.nick : `${this.#options.nick}-${n}`;
      this.#state = { is: "joining", nick };
      try {
        return await this.#joinAs(nick);
      } catch (cause) {
        if (isOver() || conditionOf(cause) !== "conflict" || n === MOST_NICKS) throw cause;
      }
    }
  }

  async #joinAs(nick: string): Promise<RoomPresence> {
    const { connection, password, pace } = this.#options;
    const { xml } = connection;
    const history = this.#historyWanted();
    const answered = new Promise<RoomPresence>((resolve, reject) => {
      this.#onOwnPresence = (presence) => {
        this.#onOwnPresence = null;
        if (presence instanceof StanzaError) reject(presence);
        else resolve(presence);
      };
    });
    answered.catch(() => undefined);
    const x = xml(
      "x",
      { xmlns: MUC },
      xml("history", history),
      password === undefined ? null : xml("password", {}, password),
    );
    this.#phase = "entering";
    await connection.send(xml("presence", { to: `${this.jid}/${nick}` }, x));
    const own = await this.#within(pace.answerMs, answered);
    if (own === undefined) throw new Error("the room does not answer");
    return own;
  }

  /** The archive is read where there is one: in its order, without gaps. */
  #historyWanted(): Record<string, string> {
    if (this.#hasArchive) return { maxstanzas: "0" };
    const { mark } = this.#feed;
    if (mark === undefined) return { maxstanzas: String(this.#options.pace.history) };
    return { since: new Date(mark.at - 10_000).toISOString() };
  }

  #ownPresence(presence: RoomPresence): void {
    if (!presence.isGone) {
      this.#ownOccupantId = presence.occupant.occupantId;
      this.#isModerator = presence.isModerator;
      this.#state = { is: "joined", nick: presence.nick };
      this.#onOwnPresence?.(presence);
      return;
    }
    if (presence.codes.has("303") && presence.newNick !== undefined) {
      if (this.#state.is === "joined") this.#state = { is: "joined", nick: presence.newNick };
      return;
    }
    this.#thrownOut(presence);
  }

  #thrownOut(presence: RoomPresence): void {
    const { codes } = presence;
    const { pace } = this.#options;
    const by = presence.actor === undefined ? "" : ` by ${presence.actor}`;
    this.#round += 1;
    this.#phase = "outside";
    if (presence.isDestroyed) this.#close(`the room was destroyed${because(presence)}`);
    else if (codes.has("301")) this.#close(`the account was banned${by}${because(presence)}`);
    else if (codes.has("321") || codes.has("322")) this.#close(`the room is for members only now${because(presence)}`);
    else if (codes.has("307") && !codes.has("333")) {
      const wait = pace.kickedMs * 2 ** Math.min(this.#kicks, 10);
      this.#kicks += 1;
      this.#goAway(
        `the account was kicked${by}${because(presence)}`,
        Math.min(wait, Math.max(pace.longestRejoinMs, pace.kickedMs)),
      );
    } else this.#goAway("the room's service put the account out", this.#nextWait());
  }

  #refused(cause: unknown): void {
    this.#phase = "outside";
    const condition = conditionOf(cause);
    const closed = cause instanceof StanzaError ? CLOSED_FOR[condition] : undefined;
    if (closed !== undefined) this.#close(`${closed} (${(cause as Error).message})`);
    else if (condition === "conflict")
      this.#goAway(`the nick ${this.#options.nick} and those like it are taken`, this.#nextWait());
    else if (condition === "registration-required")
      this.#goAway("the room is for members only, and the account is none", Math.max(UNINVITED_MS, this.#nextWait()));
    else this.#goAway(cause instanceof Error ? cause.message : condition, this.#nextWait());
  }

  #nextWait(): number {
    const { pace, chance } = this.#options;
    const wait = Math.min(pace.longestRejoinMs, pace.rejoinMs * 2 ** Math.min(this.#failures, 20));
    this.#failures += 1;
    return wait * (1 + chance() / 2);
  }

  #goAway(reason: string, waitMs: number): void {
    const { clock, log } = this.#options;
    this.#state = { is: "away", reason };
    log.warn({ room: this.jid, reason, waitMs }, "xmpp: not in the room; it is tried again");
    this.#cancelRetry();
    this.#cancelRetry = clock.after(waitMs, () => this.enter());
  }

  #close(reason: string): void {
    this.#round += 1;
    this.#phase = "outside";
    this.#cancelRetry();
    this.#state = { is: "closed", reason };
    this.#options.log.error({ room: this.jid, reason }, "xmpp: out of the room for good");
  }

  #takeNickBack(): void {
    const { connection, nick, log } = this.#options;
    if (this.#state.is !== "joined" || this.#state.nick === nick || this.#occupants.called(nick) !== undefined) return;
    connection
      .send(connection.xml("presence", { to: `${this.jid}/${nick}` }))
      .catch((err) => log.warn({ err, room: this.jid }, "xmpp: the nick could not be asked for"));
  }

  /** What the room is and can do. A room that does not exist yet can nothing. */
  async #look(): Promise<void> {
    const { connection, log } = this.#options;
    const { xml } = connection;
    try {
      const answer = await connection.ask(xml("iq", { type: "get", to: this.jid }, xml("query", { xmlns: DISCO })));
      const query = answer.getChild("query", DISCO);
      this.#features = new Set(query?.getChildren("feature").map(({ attrs }) => attrs.var ?? ""));
      this.#name = query?.getChild("identity")?.attrs.name;
    } catch (err) {
      this.#features = new Set();
      if (conditionOf(err) !== "item-not-found")
        log.info({ room: this.jid, err }, "xmpp: the room does not say what it is");
    }
  }

  #refresh(): void {
    this.#look().catch((err) => this.#options.log.warn({ err, room: this.jid }, "xmpp: the room could not be asked"));
  }

  /** A room that we made is open from now on, as its service makes rooms. */
  async #configure(): Promise<void> {
    const { connection, log } = this.#options;
    const { xml } = connection;
    const form = xml("x", { xmlns: "jabber:x:data", type: "submit" });
    try {
      await connection.ask(xml("iq", { type: "set", to: this.jid }, xml("query", { xmlns: MUC_OWNER }, form)));
    } catch (err) {
      log.warn({ room: this.jid, err }, "xmpp: the new room could not be opened");
    }
  }

  get #hasArchive(): boolean {
    return this.#features.has(MAM);
  }

  /** XEP-0359: only the room's own id counts, and only where it says that it gives one. */
  #stanzaId(spoken: Spoken): string | undefined {
    const isGiven = this.#features.has(STANZA_IDS) || this.#hasArchive;
    return isGiven ? spoken.stanzaIds.get(this.jid) : undefined;
  }

  #vouched(occupant: Occupant | undefined): PrivateIdentity | null {
    if (occupant?.jid !== undefined) return { jid: occupant.jid };
    if (occupant?.occupantId !== undefined && this.#features.has(OCCUPANT_ID))
      return { occupantId: occupant.occupantId };
    return null;
  }

  #authorOf(spoken: Spoken, when: Overheard["when"]): { verified: PrivateIdentity | null; isOwn: boolean } {
    if (when === "live") return { verified: this.identify(spoken.nick), isOwn: spoken.nick === this.nick };
    // Nicks change hands: of an old message only what the archive itself adds counts, and that where it is sure to add it.
    const { itemJid, occupantId } = spoken;
    const byJid =
      itemJid === undefined
        ? null
        : { verified: { jid: itemJid }, isOwn: itemJid === this.#options.connection.address };
    if (byJid !== null && this.#features.has("muc_nonanonymous")) return byJid;
    if (occupantId !== undefined && this.#features.has(OCCUPANT_ID))
      return { verified: this.identifyOld(occupantId), isOwn: occupantId === this.#ownOccupantId };
    if (byJid !== null && this.#isModerator) return byJid;
    return { verified: null, isOwn: this.#options.echoes.keyOf(idOf(spoken)) !== undefined };
  }

  #read({ message, when, id, at }: Overheard): Heard[] {
    const spoken = readMessage(message);
    const { connection, clock, echoes, onEcho } = this.#options;
    if (spoken.type === "error" || spoken.type === "headline") return [];
    const isFromRoom = spoken.nick === "";
    const hasWords = spoken.body !== undefined && spoken.body !== "";
    if (isFromRoom && spoken.retracts === undefined) return [];
    if (!hasWords && spoken.retracts === undefined) return [];
    const { verified, isOwn } = isFromRoom ? { verified: null, isOwn: false } : this.#authorOf(spoken, when);
    const author = verified === null ? `${this.jid}/${spoken.nick}` : (verified.jid ?? addressOf(this.jid, verified));
    const messageId = id ?? unnumbered(spoken, at, `${clock.now()}-${++this.#unnumbered}`);
    const said = Math.min(at ?? (spoken.stamp?.by === this.jid ? spoken.stamp.at : clock.now()), clock.now());
    const key = isOwn ? echoes.keyOf(idOf(spoken)) : undefined;
    if (key !== undefined) onEcho(idOf(spoken)!, id);
    if (spoken.isEncrypted)
      return [
        refusedOf(
          `${this.jid}/${messageId}`,
          "encrypted",
          "The message is encrypted for devices; the gateway has no key.",
          message,
        ),
      ];
    const source: Source = {
      platform: "xmpp",
      account: connection.address,
      scopeId: this.#service,
      chatId: this.jid,
      chatName: this.name,
      chatType: "group",
      ...(this.#topic === undefined ? {} : { chatTopic: this.#topic }),
      ...(spoken.thread === undefined ? {} : { threadId: spoken.thread }),
      ...(isFromRoom ? {} : { userId: author, userName: spoken.nick }),
      isBot: false,
      messageId,
    };
    const target: Target = {
      door: "push",
      platform: "xmpp",
      account: connection.address,
      scopeId: this.#service,
      chatId: this.jid,
      ...(spoken.thread === undefined ? {} : { threadId: spoken.thread }),
    };
    const base = {
      eventId: `${this.jid}/${messageId}`,
      source,
      target,
      saidAt: said,
      isOwn,
      ...(key === undefined ? {} : { originId: key }),
      ...(verified === null ? {} : { verifiedUser: author }),
      ...(this.nick === undefined ? {} : { ownName: this.nick }),
    };
    if (spoken.retracts !== undefined) {
      const isModeration = isFromRoom && spoken.retracts.isModeration;
      // An occupant cannot moderate by saying so.
      if (spoken.retracts.isModeration && !isFromRoom) return [];
      return [{ ...base, kind: "delete", messageId: this.#namedBy(author, spoken.retracts.id), isModeration }];
    }
    if (spoken.replaces !== undefined) {
      return [{ ...base, kind: "edit", messageId: this.#namedBy(author, spoken.replaces), text: spoken.body! }];
    }
    this.#note(spoken, { id: messageId, isOwn, author, nick: spoken.nick });
    const replyTo = spoken.repliesTo;
    const ownAddresses = [connection.address, `${this.jid}/${this.nick}`];
    return [
      {
        ...base,
        kind: "message",
        text: spoken.body!,
        isHistory: when === "history",
        ...(when === "caught-up" ? { isCaughtUp: true } : {}),
        ...(replyTo === undefined
          ? {}
          : { replyTo: { messageId: replyTo, isOwn: this.#known.get(replyTo)?.isOwn === true } }),
        ...(spoken.mentions.some((uri) => ownAddresses.includes(uri)) ? { isMentioned: true } : {}),
      },
    ];
  }

  #note(spoken: Spoken, known: KnownMessage): void {
    this.#known.set(known.id, known);
    for (const id of new Set([spoken.id, spoken.originId])) {
      if (id !== undefined) this.#known.set(`${known.author}\n${id}`, known);
    }
  }

  /** The room's id of the author's message; the name as it is where that is it already, or not known any more. */
  #namedBy(author: string, id: string): string {
    return this.#known.get(`${author}\n${id}`)?.id ?? id;
  }

  /** Undefined when the time is over first. */
  #within<Value>(ms: number, promise: Promise<Value>): Promise<Value | undefined> {
    const { promise: over, resolve } = Promise.withResolvers<undefined>();
    const cancel = this.#options.clock.after(ms, () => resolve(undefined));
    return Promise.race([promise, over]).finally(cancel);
  }
}

/** An id for what the room gives none: the same live and in a history, where the author gave one himself. */
function unnumbered(spoken: Spoken, at: number | undefined, uniquely: string): string {
  const own = idOf(spoken) ?? `${at ?? uniquely}`;
  return `~${createHash("sha256")
    .update(JSON.stringify([spoken.nick, own, spoken.body]))
    .digest("hex")
    .slice(0, 32)}`;
}

function because({ reason }: { reason?: string }): string {
  return reason === undefined ? "" : `: ${reason}`;
}

export function conditionOf(cause: unknown): string {
  return (cause as { condition?: string } | null)?.condition ?? "";
}
