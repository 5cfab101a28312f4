import type { Element } from "@xmpp/client";
import { normalized } from "../../util/normalized.ts";
import { bareOf, resourceOf } from "./jid.ts";

/** Who is in a room, by nick, as its service says. */
export interface Occupant {
  readonly nick: string;
  /** The bare address, where the room shows it to us. */
  readonly jid?: string;
  readonly occupantId?: string;
}

/** More than any room we know of has; those beyond it are heard, but nobody vouches for them. */
const MOST_OCCUPANTS = 20_000;
export const MUC_USER = "http://jabber.org/protocol/muc#user";
/** The room shows addresses to everybody. */
export const NON_ANONYMOUS = "muc_nonanonymous";
export const OCCUPANT_ID = "urn:xmpp:occupant-id:0";

/**
 * The bare address that a room's stanza says somebody has (XEP-0045). An occupant can put one in himself: where there are two that
 * differ, one of them is a lie, and neither counts.
 */
export function addressIn(stanza: Element): string | undefined {
  const items = stanza.getChildren("x", MUC_USER).flatMap((x) => x.getChildren("item"));
  const [address, ...others] = new Set(items.flatMap(({ attrs }) => (attrs.jid ? [bareOf(attrs.jid)] : [])));
  return others.length === 0 ? address : undefined;
}

export interface RoomPresence {
  readonly nick: string;
  readonly isGone: boolean;
  readonly codes: ReadonlySet<string>;
  readonly occupant: Occupant;
  /** The new nick of one who changes it. */
  readonly newNick?: string;
  readonly reason?: string;
  readonly actor?: string;
  readonly isDestroyed: boolean;
}

export function readPresence(stanza: Element): RoomPresence {
  const nick = resourceOf(stanza.attrs.from ?? "");
  const x = stanza.getChild("x", MUC_USER);
  const item = x?.getChild("item");
  const jid = addressIn(stanza);
  const occupantId = stanza.getChild("occupant-id", OCCUPANT_ID)?.attrs.id;
  const destroyed = x?.getChild("destroy");
  const reason = (destroyed ?? item)?.getChildText("reason");
  const actor = item?.getChild("actor")?.attrs.nick;
  return {
    nick,
    isGone: stanza.attrs.type === "unavailable",
    codes: new Set(x?.getChildren("status").map(({ attrs }) => attrs.code ?? "")),
    occupant: { nick, ...(jid === undefined ? {} : { jid }), ...(occupantId ? { occupantId } : {}) },
    isDestroyed: destroyed !== undefined,
    ...(item?.attrs.nick ? { newNick: normalized(item.attrs.nick, "NFC") } : {}),
    ...(reason ? { reason } : {}),
    ...(actor ? { actor } : {}),
  };
}

export class Occupants {
  #byNick = new Map<string, Occupant>();
  #byId = new Map<string, Occupant>();

  clear(): void {
    this.#byNick = new Map();
    this.#byId = new Map();
  }

  note({ isGone, nick, occupant }: RoomPresence): void {
    const known = this.#byNick.get(nick);
    if (isGone) {
      this.#byNick.delete(nick);
      if (known?.occupantId !== undefined && this.#byId.get(known.occupantId) === known)
        this.#byId.delete(known.occupantId);
      return;
    }
    if (known === undefined && this.#byNick.size >= MOST_OCCUPANTS) return;
    this.#byNick.set(nick, occupant);
    if (occupant.occupantId !== undefined) this.#byId.set(occupant.occupantId, occupant);
  }

  called(nick: string): Occupant | undefined {
    return this.#byNick.get(nick);
  }
  withId(occupantId: string): Occupant | undefined {
    return this.#byId.get(occupantId);
  }
  withJid(jid: string): Occupant | undefined {
    return this.#byNick.values().find((occupant) => occupant.jid === jid);
  }
  /** Whether somebody besides that nick is there, and the room does not show who it is. */
  hasUnknown(own: string | undefined): boolean {
    return this.#byNick.values().some(({ nick, jid }) => nick !== own && jid === undefined);
  }
}
