import { createHash } from "node:crypto";
import type { PlatformEvent } from "../../message/platform-event.ts";
import { cleanSource } from "../../message/source.ts";
import type { Target } from "../../message/target.ts";
import type { Clock } from "../../util/clock.ts";
import { MAM } from "./archive.ts";
import { type EchoMark, isOfAgent } from "./echo-mark.ts";
import { NON_ANONYMOUS, OCCUPANT_ID, type Occupant, type Occupants } from "./occupants.ts";
import type { ReceivedStanza, Speaker } from "./place-feed.ts";
import { addressOf, type PrivateIdentity } from "./private-address.ts";
import { idOf, readMessage, type Spoken } from "./read-stanza.ts";
import { Recent } from "./recent.ts";
import { encrypted } from "./unreadable.ts";

/** What a room is to us now. */
export interface RoomView {
  readonly jid: string;
  readonly service: string;
  readonly name: string;
  readonly topic: string | undefined;
  readonly features: ReadonlySet<string>;
  readonly occupants: Occupants;
  /** Our own, as the room confirmed it. */
  readonly nick: string | undefined;
  readonly ownOccupantId: string | undefined;
}

export interface RoomReaderOptions {
  readonly room: RoomView;
  /** Our bare address. */
  readonly account: string;
  readonly clock: Clock;
  readonly echoes: EchoMark;
  readonly onEcho: (id: string, stanzaId: string | undefined) => void;
}

interface KnownMessage {
  readonly id: string;
  readonly isOwn: boolean;
  readonly author: string;
  readonly nick: string;
}

const STANZA_IDS = "urn:xmpp:sid:0";

/** RoomReader: what a room's messages say, and who is vouched for as their author (A4). */
export class RoomReader {
  readonly #options: RoomReaderOptions;
  /** By the room's id, and by author and author's id: messages that edits, deletions and replies may name. */
  readonly #known = new Recent<KnownMessage>(4_000);
  #unnumbered = 0;

  constructor(options: RoomReaderOptions) {
    this.#options = options;
  }

  /** XEP-0359: only the room's own id counts, and only where it says that it gives one. */
  stanzaIdOf(spoken: Spoken): string | undefined {
    const { features, jid } = this.#options.room;
    return features.has(STANZA_IDS) || features.has(MAM) ? spoken.stanzaIds.get(jid) : undefined;
  }

  /** Who has this nick now; asked when the message comes, for nicks change hands. */
  speakerOf(nick: string): Speaker {
    const { occupants, nick: own } = this.#options.room;
    const verified = this.#vouched(occupants.called(nick));
    return { verified, isOwn: nick === own || this.isUs(verified) };
  }

  /**
   * Who an occupant is to all of us: an address that the room hides is for rights only (G7), even where this account is shown it. The
   * nick where nobody vouches for more.
   */
  nameOf(who: { nick: string; verified: PrivateIdentity | null; occupantId: string | undefined }): string {
    const { jid, features } = this.#options.room;
    const { nick, verified, occupantId } = who;
    if (verified === null) return `${jid}/${nick}`;
    const isHidden = features.has(OCCUPANT_ID) && !features.has(NON_ANONYMOUS);
    if (isHidden && occupantId !== undefined) return addressOf(jid, { occupantId });
    return verified.jid ?? addressOf(jid, verified);
  }

  /** Of an old message, which carries no more than an occupant id. */
  identify(occupantId: string | undefined): PrivateIdentity | null {
    const { features, occupants } = this.#options.room;
    if (occupantId === undefined || !features.has(OCCUPANT_ID)) return null;
    return this.#vouched(occupants.withId(occupantId)) ?? { occupantId };
  }

  /** The author of a message, as a reply in the room names him. */
  nickAddressOf(messageId: string): string | undefined {
    const known = this.#known.get(messageId);
    return known === undefined ? undefined : `${this.#options.room.jid}/${known.nick}`;
  }

  /** Learns a message that was heard before the last start: it may be edited, or replied to. */
  recall(received: ReceivedStanza): void {
    const spoken = readMessage(received.message);
    if (received.id === undefined || spoken.nick === "" || spoken.replaces !== undefined) return;
    const speaker = this.#oldSpeaker(spoken, received.author);
    const author = this.#authorOf(spoken, speaker);
    this.#note(spoken, { id: received.id, isOwn: speaker.isOwn, author, nick: spoken.nick });
  }

  read({ message, when, id, at, speaker, author: vouchedFor }: ReceivedStanza): PlatformEvent[] {
    const spoken = readMessage(message);
    const isFromRoom = spoken.nick === "";
    const isSaid = spoken.type === "groupchat" && (spoken.body ?? "") !== "" && !isFromRoom;
    // An occupant cannot moderate by saying so, and the room does nothing else here.
    if (!isSaid && spoken.retracts === undefined) return [];
    if (spoken.retracts !== undefined && spoken.retracts.isModeration !== isFromRoom) return [];
    const { clock, echoes, onEcho, room } = this.#options;
    const by = isFromRoom ? { verified: null, isOwn: false } : (speaker ?? this.#oldSpeaker(spoken, vouchedFor));
    const author = this.#authorOf(spoken, by);
    const messageId = id ?? this.#numberFor(spoken, at);
    const eventId = `${room.jid}/${messageId}`;
    const key = by.isOwn ? echoes.keyOf(idOf(spoken)) : undefined;
    if (key !== undefined) onEcho(idOf(spoken)!, id);
    if (spoken.isEncrypted) return [encrypted(eventId, message)];
    const base = {
      eventId,
      ...this.#where(spoken, { author: isFromRoom ? undefined : author, messageId }),
      saidAt: Math.min(at ?? (spoken.stamp?.by === room.jid ? spoken.stamp.at : clock.now()), clock.now()),
      isOwn: by.isOwn,
      ...(key === undefined ? {} : { originId: key }),
      ...(by.verified === null ? {} : { verifiedUser: by.verified.jid ?? author }),
      ...(room.nick === undefined ? {} : { ownName: room.nick }),
    };
    if (spoken.retracts !== undefined) {
      const { id: named, isModeration } = spoken.retracts;
      return [{ ...base, kind: "delete", messageId: this.#namedBy(author, named), isModeration }];
    }
    if (spoken.replaces !== undefined)
      return [{ ...base, kind: "edit", messageId: this.#namedBy(author, spoken.replaces), text: spoken.body! }];
    this.#note(spoken, { id: messageId, isOwn: by.isOwn, author, nick: spoken.nick });
    return [
      {
        ...base,
        kind: "message",
        text: spoken.body!,
        isHistory: when === "history",
        ...(when === "caught-up" ? { isCaughtUp: true } : {}),
        ...this.#repliedTo(spoken),
        ...(this.#isMeant(spoken) ? { isMentioned: true } : {}),
      },
    ];
  }

  #where(spoken: Spoken, { author, messageId }: { author: string | undefined; messageId: string }) {
    const { room, account } = this.#options;
    const chat = { platform: "xmpp", account, scopeId: room.service, chatId: room.jid } as const;
    const thread = spoken.thread === undefined ? {} : { threadId: spoken.thread };
    const target: Target = { door: "push", ...chat, ...thread };
    const source = cleanSource({
      ...chat,
      chatName: room.name,
      chatType: "group",
      ...(room.topic === undefined ? {} : { chatTopic: room.topic }),
      ...thread,
      ...(author === undefined ? {} : { userId: author, userName: spoken.nick }),
      isBot: isOfAgent(idOf(spoken)),
      messageId,
    });
    return { source, target };
  }

  #vouched(occupant: Occupant | undefined): PrivateIdentity | null {
    if (occupant?.jid !== undefined) return { jid: occupant.jid };
    const hasIds = this.#options.room.features.has(OCCUPANT_ID);
    return occupant?.occupantId !== undefined && hasIds ? { occupantId: occupant.occupantId } : null;
  }

  /**
   * G8: an address in an old message is its author's word, whatever the room shows today. What counts is the occupant's id, which the
   * service always sets anew, or `author`, for whom the archive itself vouches.
   */
  #oldSpeaker(spoken: Spoken, author: string | undefined): Speaker {
    const { occupantId } = spoken;
    const verified =
      occupantId !== undefined && this.#options.room.features.has(OCCUPANT_ID)
        ? this.identify(occupantId)
        : author === undefined
          ? null
          : { jid: author };
    const isOwn =
      verified === null ? this.#options.echoes.isSaid(idOf(spoken), spoken.body ?? "") : this.isUs(verified);
    return { verified, isOwn };
  }

  /** Under whatever nick: another client of our account is in the room too. */
  isUs(identity: PrivateIdentity | null): boolean {
    const { room, account } = this.#options;
    if (identity === null) return false;
    return identity.jid === undefined ? identity.occupantId === room.ownOccupantId : identity.jid === account;
  }

  #authorOf(spoken: Spoken, { verified }: Speaker): string {
    return this.nameOf({ nick: spoken.nick, verified, occupantId: spoken.occupantId });
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

  #repliedTo({ repliesTo }: Spoken): { replyTo?: { messageId: string; isOwn: boolean } } {
    if (repliesTo === undefined) return {};
    return { replyTo: { messageId: repliesTo, isOwn: this.#known.get(repliesTo)?.isOwn === true } };
  }

  #isMeant({ mentions }: Spoken): boolean {
    const { room, account } = this.#options;
    return mentions.some((uri) => uri === account || uri === `${room.jid}/${room.nick}`);
  }

  /** An id for what the room gives none: the same live and in a history, where the author gave one himself. */
  #numberFor(spoken: Spoken, at: number | undefined): string {
    const own = idOf(spoken) ?? `${at ?? `${this.#options.clock.now()}-${++this.#unnumbered}`}`;
    const hash = createHash("sha256").update(JSON.stringify([spoken.nick, own, spoken.body]));
    return `~${hash.digest("hex").slice(0, 32)}`;
  }
}
