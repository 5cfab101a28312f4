import type { Element } from "@xmpp/client";
import type { Clock } from "../../util/clock.ts";
import type { Log } from "../../util/log.ts";
import { type Archive, MAM } from "./archive.ts";
import type { EchoMark } from "./echo-mark.ts";
import type { InboundQueue } from "./inbound-queue.ts";
import { StanzaError } from "./iq-requests.ts";
import { bareOf, domainOf, localOf } from "./jid.ts";
import { NON_ANONYMOUS, OCCUPANT_ID, Occupants, type RoomPresence, readPresence } from "./occupants.ts";
import type { XmppPace } from "./options.ts";
import { pause, within } from "./pause.ts";
import { PlaceFeed } from "./place-feed.ts";
import { addressOf, type PrivateIdentity } from "./private-address.ts";
import { readMessage } from "./read-stanza.ts";
import { Recent } from "./recent.ts";
import { RoomArchive } from "./room-archive.ts";
import { RoomReader, type RoomView } from "./room-reader.ts";
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
  readonly hearing: InboundQueue;
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
const DISCO = "http://jabber.org/protocol/disco#info";
const MOST_NICKS = 4;
const SUBJECT_MS = 5_000;
const CATCH_UP_TRIES = 3;
const CLOSED_ARCHIVE = new Set(["forbidden", "not-allowed"]);
const GOOD_STAY_MS = 300_000;
/** Somebody has to let us in: it is asked seldom. */
const UNINVITED_MS = 600_000;

/** Their reason to refuse does not go away by asking again. */
const CLOSED_FOR: Readonly<Record<string, string>> = {
  forbidden: "the account is banned from it",
  "not-authorized": "it wants a password, or another one",
  gone: "the room is gone",
  "jid-malformed": "the room's service does not take this address or nick",
};

export class XmppRoom implements RoomView {
  readonly jid: string;
  readonly service: string;
  readonly occupants = new Occupants();
  readonly reader: RoomReader;
  readonly #options: XmppRoomOptions;
  readonly #feed: PlaceFeed;
  readonly #readers = new Recent<true>(4_000);
  #state: RoomState = { is: "away", reason: "not joined yet" };
  #features = new Set<string>();
  #ownOccupantId: string | undefined;
  #isArchiveClosed = false;
  #name: string | undefined;
  #topic: string | undefined;
  #phase: "outside" | "entering" | "inside" = "outside";
  /** Goes up with every join: what an older one still waits for is nobody's business. */
  #round = 0;
  #failures = 0;
  #joinedAt: number | null = null;
  #heardAt = 0;
  #cancelRetry = (): void => undefined;
  #onOwnPresence: ((presence: RoomPresence | StanzaError) => void) | null = null;
  #onSubject: (() => void) | null = null;

  constructor(options: XmppRoomOptions) {
    this.#options = options;
    this.jid = bareOf(options.jid);
    this.service = domainOf(this.jid);
    const { archive, hearing, clock, log, pace, connection, echoes, onEcho } = options;
    const reader = new RoomReader({ room: this, account: connection.address, clock, echoes, onEcho });
    this.reader = reader;
    this.#feed = new PlaceFeed({
      place: this.jid,
      owner: this.jid,
      archive: new RoomArchive(archive, { hasOccupantIds: () => this.#features.has(OCCUPANT_ID) }),
      hearing,
      clock,
      log,
      history: pace.history,
      read: (received) => reader.read(received),
      recall: (received) => reader.recall(received),
    });
  }

  get state(): RoomState {
    return this.#state;
  }
  /** Our nick there, once the room has confirmed it. */
  get nick(): string | undefined {
    return this.#state.is === "joined" ? this.#state.nick : undefined;
  }
  get name(): string {
    return this.#name || localOf(this.jid);
  }
  get topic(): string | undefined {
    return this.#topic;
  }
  get features(): ReadonlySet<string> {
    return this.#features;
  }
  get ownOccupantId(): string | undefined {
    return this.#ownOccupantId;
  }

  /** Somebody is there whose address this account is not shown. */
  get hidesAddresses(): boolean {
    return this.occupants.hasUnknown(this.nick);
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
    if (this.#state.is === "away") this.enter();
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
    this.occupants.note(presence);
    if (isOwn) this.#ownPresence(presence);
    if (!presence.isGone) this.#noteReader(presence.nick);
    else if (presence.isGone && presence.nick === this.#options.nick) this.#takeNickBack();
  }

  /** Whoever is there reads along (H7). Each is told of once in this channel's life. */
  #noteReader(nick: string): void {
    const { connection, clock, hearing } = this.#options;
    const { verified, isOwn } = this.reader.speakerOf(nick);
    const author = this.reader.nameOf({ nick, verified, occupantId: this.occupants.called(nick)?.occupantId });
    const alias = this.#aliasOf(nick);
    const told = `${author} ${alias}`;
    if (this.#readers.get(told) === true || (isOwn && alias === undefined)) return;
    const at = { platform: "xmpp", account: connection.address, scopeId: this.service, chatId: this.jid } as const;
    const isIn = hearing.put({
      place: this.jid,
      events: [
        {
          kind: "reader",
          eventId: `${this.jid}/reader/${author}`,
          source: { ...at, chatName: this.name, chatType: "group", userId: author, userName: nick, isBot: false },
          target: { door: "push", ...at },
          saidAt: clock.now(),
          isOwn,
          ...(verified === null ? {} : { verifiedUser: verified.jid ?? author }),
          ...(alias === undefined ? {} : { alias }),
        },
      ],
    });
    if (isIn) this.#readers.set(told, true);
  }

  /** How he is known to accounts that are not shown his address; undefined where there is none to be told. */
  #aliasOf(nick: string): string | undefined {
    const occupant = this.occupants.called(nick);
    const isOpen = this.#features.has(NON_ANONYMOUS) || !this.#features.has(OCCUPANT_ID);
    if (occupant?.occupantId === undefined || isOpen) return undefined;
    const isKnown = occupant.jid !== undefined || nick === this.nick;
    return isKnown ? addressOf(this.jid, { occupantId: occupant.occupantId }) : undefined;
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
    const id = this.reader.stanzaIdOf(spoken);
    if (this.#phase === "entering") {
      // The archive has it, and in its place.
      if (this.#hasArchive) return;
      const when = this.#feed.mark === undefined ? "history" : "caught-up";
      this.#feed.hear({ message: stanza, when, id, at: spoken.stamp?.at });
    } else if (this.#phase === "inside") {
      this.#feed.hear({ message: stanza, when: "live", id, speaker: this.reader.speakerOf(spoken.nick) });
    }
  }

  /** The nick of somebody now. */
  nickOf({ jid, occupantId }: PrivateIdentity): string | undefined {
    const found = jid === undefined ? this.occupants.withId(occupantId ?? "") : this.occupants.withJid(jid);
    return found?.nick;
  }
  /** Whether an author, as another account in the room has heard him, is this account. */
  isMe(author: string): boolean {
    if (this.#state.is !== "joined") return false;
    const occupantId = this.#ownOccupantId;
    const asOccupant = occupantId === undefined ? undefined : addressOf(this.jid, { occupantId });
    return [this.#options.connection.address, asOccupant, `${this.jid}/${this.#state.nick}`].includes(author);
  }

  async #enter(isStale: () => boolean): Promise<void> {
    const { connection, clock, pace, log, onCaughtUp } = this.#options;
    const signal = connection.session;
    const isOver = (): boolean => isStale() || signal.aborted;
    this.#phase = "outside";
    this.#state = { is: "joining", nick: this.#options.nick };
    this.occupants.clear();
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
    await within(subject, { clock, ms: SUBJECT_MS, signal });
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
        if (CLOSED_ARCHIVE.has(conditionOf(err))) {
          // It is not for us: from now on the room's own history has to do.
          this.#isArchiveClosed = true;
          isRead = false;
        } else if (attempt === CATCH_UP_TRIES) {
          isRead = false;
          await this.#feed.giveUp();
          break;
        }
        await pause(clock, pace.rejoinMs * attempt, signal);
      }
    }
    if (isOver()) return;
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
    const { connection, clock, password, pace } = this.#options;
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
    const own = await within(answered, { clock, ms: pace.answerMs, signal: connection.session });
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
      if (this.#state.is === "closed") {
        // The nick was asked for just before we were thrown out: to the service that is somebody who comes in.
        this.#leave(presence.nick);
        return;
      }
      this.#ownOccupantId = presence.occupant.occupantId;
      this.#joinedAt ??= this.#options.clock.now();
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
    if (this.#state.is === "closed") return;
    const { codes } = presence;
    const by = presence.actor === undefined ? "" : ` by ${presence.actor}`;
    this.#round += 1;
    this.#phase = "outside";
    this.#endStay();
    if (presence.isDestroyed) this.#close(`the room was destroyed${because(presence)}`);
    else if (codes.has("301")) this.#close(`the account was banned${by}${because(presence)}`);
    else if (codes.has("321") || codes.has("322")) this.#close(`the room is for members only now${because(presence)}`);
    // Whoever threw it out has decided so: coming back by itself would be a quarrel (G-XMP-05). With 333 it was no person.
    else if (codes.has("307") && !codes.has("333")) this.#close(`the account was kicked${by}${because(presence)}`);
    else this.#goAway("the room's service put the account out", this.#nextWait());
  }

  /** After a good stay the waits begin anew. */
  #endStay(): void {
    const { clock } = this.#options;
    if (this.#joinedAt !== null && clock.now() - this.#joinedAt >= GOOD_STAY_MS) this.#failures = 0;
    this.#joinedAt = null;
  }

  #refused(cause: unknown): void {
    this.#phase = "outside";
    this.#endStay();
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

  #leave(nick: string): void {
    const { connection, log } = this.#options;
    connection
      .send(connection.xml("presence", { to: `${this.jid}/${nick}`, type: "unavailable" }))
      .catch((err) => log.warn({ err, room: this.jid }, "xmpp: the room could not be left"));
  }

  #takeNickBack(): void {
    const { connection, nick, log } = this.#options;
    if (this.#state.is !== "joined" || this.#state.nick === nick || this.occupants.called(nick) !== undefined) return;
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
    return this.#features.has(MAM) && !this.#isArchiveClosed;
  }
}

function because({ reason }: { reason?: string }): string {
  return reason === undefined ? "" : `: ${reason}`;
}

export function conditionOf(cause: unknown): string {
  return (cause as { condition?: string } | null)?.condition ?? "";
}
