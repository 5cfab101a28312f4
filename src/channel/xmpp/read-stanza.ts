import type { Element } from "@xmpp/client";
import { cleanText } from "../../message/source.ts";
import { bareOf, resourceOf } from "./jid.ts";
import { addressIn, MUC_USER } from "./occupants.ts";

/** What a message stanza says, before it is known who may be trusted with which part of it. */
export interface Spoken {
  readonly type: "chat" | "groupchat" | "error" | "headline";
  /** In lower case; `from` of our own server is often absent. */
  readonly from: string;
  readonly nick: string;
  readonly to: string;
  readonly id?: string;
  readonly originId?: string;
  readonly body?: string;
  readonly subject?: string;
  readonly thread?: string;
  /** XEP-0308: the id, as its author gave it, of the message this stands for. */
  readonly replaces?: string;
  /** XEP-0424, XEP-0425. */
  readonly retracts?: { readonly id: string; readonly isModeration: boolean };
  /** XEP-0461. */
  readonly repliesTo?: string;
  /** XEP-0372: addresses that are meant. */
  readonly mentions: readonly string[];
  /** XEP-0359, by whoever says that he gave it. */
  readonly stanzaIds: ReadonlyMap<string, string>;
  readonly occupantId?: string;
  /** XEP-0045: the author's address, in an archived message, as far as the message itself says: its author may have written it. */
  readonly claimedJid?: string;
  /** A private message of a room, or what wants to be one. */
  readonly isOfRoom: boolean;
  readonly isInvitation: boolean;
  readonly stamp?: { readonly at: number; readonly by: string };
  readonly isEncrypted: boolean;
}

const ENCRYPTIONS = ["eu.siacs.conversations.axolotl", "urn:xmpp:omemo:2", "urn:xmpp:openpgp:0", "jabber:x:encrypted"];

export function readMessage(stanza: Element): Spoken {
  const { from = "", to = "", id } = stanza.attrs;
  const retracts = retractionIn(stanza);
  const originId = stanza.getChild("origin-id", "urn:xmpp:sid:0")?.attrs.id;
  const subject = stanza.getChild("subject");
  const thread = stanza.getChildText("thread");
  const replaces = stanza.getChild("replace", "urn:xmpp:message-correct:0")?.attrs.id;
  const repliesTo = stanza.getChild("reply", "urn:xmpp:reply:0")?.attrs.id;
  const body = bodyOf(stanza);
  const occupantId = stanza.getChild("occupant-id", "urn:xmpp:occupant-id:0")?.attrs.id;
  const room = stanza.getChildren("x", MUC_USER);
  const claimedJid = addressIn(stanza);
  const stamp = stampIn(stanza);
  return {
    type: typeOf(stanza.attrs.type),
    from: bareOf(from),
    nick: resourceOf(from),
    to,
    mentions: mentionsIn(stanza),
    stanzaIds: stanzaIdsIn(stanza),
    isOfRoom: room.length > 0,
    isInvitation: stanza.getChild("x", "jabber:x:conference") !== undefined || room.some((x) => x.getChild("invite")),
    isEncrypted: ENCRYPTIONS.some((xmlns) => stanza.getChildElements().some((child) => child.getNS() === xmlns)),
    ...(id ? { id } : {}),
    ...(originId ? { originId } : {}),
    ...(body === undefined ? {} : { body }),
    ...(subject === undefined ? {} : { subject: cleanText(subject.getText()) }),
    ...(thread ? { thread: cleanText(thread) } : {}),
    ...(replaces ? { replaces } : {}),
    ...(retracts === undefined ? {} : { retracts }),
    ...(repliesTo ? { repliesTo } : {}),
    ...(occupantId ? { occupantId } : {}),
    ...(claimedJid === undefined ? {} : { claimedJid }),
    ...(stamp === undefined ? {} : { stamp }),
  };
}

/** Of a groupchat message that nobody can be asked about later: the same words give the same id, live and in a history. */
export function idOf(spoken: Spoken): string | undefined {
  return spoken.originId ?? spoken.id;
}

function typeOf(type: string | undefined): Spoken["type"] {
  return type === "groupchat" || type === "error" || type === "headline" ? type : "chat";
}

/** The body without the quotation that clients put before a reply for those that do not know replies (XEP-0461, XEP-0428). */
function bodyOf(stanza: Element): string | undefined {
  const body = stanza.getChild("body");
  if (body === undefined) return undefined;
  const text = body.getText();
  const fallback = stanza
    .getChildren("fallback", "urn:xmpp:fallback:0")
    .find(({ attrs }) => attrs.for === "urn:xmpp:reply:0");
  const part = fallback?.getChild("body");
  if (part === undefined) return cleanText(text);
  const points = [...text];
  const start = Number(part.attrs.start ?? 0);
  const end = Number(part.attrs.end ?? points.length);
  const isSound =
    Number.isInteger(start) && Number.isInteger(end) && start >= 0 && start <= end && end <= points.length;
  return cleanText(isSound ? points.slice(0, start).concat(points.slice(end)).join("") : text);
}

/** Both generations: the present one, and the one that was fastened to another message. */
function retractionIn(stanza: Element): Spoken["retracts"] {
  const direct = stanza
    .getChildElements()
    .find((child) => child.is("retract") && isOf(child, "urn:xmpp:message-retract:"));
  if (direct?.attrs.id) {
    const isModeration = direct.getChildElements().some((child) => child.is("moderated"));
    return { id: direct.attrs.id, isModeration };
  }
  const fastened = stanza.getChild("apply-to", "urn:xmpp:fasten:0");
  if (!fastened?.attrs.id) return undefined;
  const moderated = fastened
    .getChildElements()
    .find((child) => child.is("moderated") && isOf(child, "urn:xmpp:message-moderate:"));
  const holder = moderated ?? fastened;
  const isRetraction = holder
    .getChildElements()
    .some((child) => child.is("retract") && isOf(child, "urn:xmpp:message-retract:"));
  return isRetraction ? { id: fastened.attrs.id, isModeration: moderated !== undefined } : undefined;
}

function isOf(element: Element, xmlns: string): boolean {
  return element.getNS()?.startsWith(xmlns) === true;
}

function stanzaIdsIn(stanza: Element): Map<string, string> {
  const found = new Map<string, string>();
  for (const { attrs } of stanza.getChildren("stanza-id", "urn:xmpp:sid:0")) {
    if (attrs.id && attrs.by) found.set(bareOf(attrs.by), attrs.id);
  }
  return found;
}

function mentionsIn(stanza: Element): string[] {
  return stanza
    .getChildren("reference", "urn:xmpp:reference:0")
    .filter(({ attrs }) => attrs.type === "mention")
    .flatMap(({ attrs }) => (attrs.uri?.startsWith("xmpp:") ? [decodeUri(attrs.uri.slice(5))] : []));
}

function decodeUri(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function stampIn(stanza: Element): Spoken["stamp"] {
  const delay = stanza.getChild("delay", "urn:xmpp:delay");
  const at = Date.parse(delay?.attrs.stamp ?? "");
  return Number.isNaN(at) ? undefined : { at, by: bareOf(delay?.attrs.from ?? "") };
}
