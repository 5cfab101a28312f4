import type { Element } from "@xmpp/client";
import { bareOf } from "./jid.ts";
import type { XmppConnection } from "./xmpp-connection.ts";

/** XEP-0313: what an account or a room keeps of what was said. */

export interface Archived {
  /** The archive's id of it, which is its stanza-id too. */
  readonly id: string;
  /** Epoch ms, by the archive's clock. */
  readonly at: number;
  readonly message: Element;
  /** The author's bare address, where the archive itself vouches for it. */
  readonly author?: string;
}

export interface Page {
  readonly messages: readonly Archived[];
  readonly isLast: boolean;
}

/** From where on: after an archive's id, from a time on, only the newest; or what one address has said between two times. */
export type From =
  | { readonly after: string }
  | { readonly start: number }
  | { readonly newest: true }
  | { readonly with: string; readonly start: number; readonly end: number };

export const MAM = "urn:xmpp:mam:2";
const RSM = "http://jabber.org/protocol/rsm";

export class Archive {
  readonly #connection: XmppConnection;
  readonly #own: string;
  /** By query id: results that have come, of the archive that was asked. */
  readonly #open = new Map<string, { readonly of: string; readonly found: Archived[]; readonly max: number }>();
  #count = 0;

  constructor(connection: XmppConnection) {
    this.#connection = connection;
    this.#own = connection.address;
  }

  /** Rejects with the archive's error; `condition` is `item-not-found` where it does not know the id any more. */
  async page(of: string, from: From, max: number): Promise<Page> {
    const { xml } = this.#connection;
    this.#count += 1;
    const queryid = `mam-${this.#count}`;
    const query = xml("query", { xmlns: MAM, queryid });
    if ("start" in from) query.append(this.#form(from));
    const set = xml("set", { xmlns: RSM }, xml("max", {}, String(max)));
    if ("after" in from) set.append(xml("after", {}, from.after));
    if ("newest" in from) set.append(xml("before"));
    query.append(set);
    const found: Archived[] = [];
    this.#open.set(queryid, { of, found, max });
    try {
      const isOwn = of === this.#own;
      const answer = await this.#connection.ask(xml("iq", isOwn ? { type: "set" } : { type: "set", to: of }, query));
      const fin = answer.getChild("fin", MAM);
      return { messages: found, isLast: fin?.attrs.complete === "true" || found.length === 0 };
    } finally {
      this.#open.delete(queryid);
    }
  }

  /** Whether the stanza was a result of ours. Results of anybody else than the archive that was asked are dropped. */
  take(stanza: Element): boolean {
    const result = stanza.getChild("result", MAM);
    if (result === undefined) return false;
    const query = this.#open.get(result.attrs.queryid ?? "");
    const from = bareOf(stanza.attrs.from ?? this.#own);
    const forwarded = result.getChild("forwarded", "urn:xmpp:forward:0");
    const message = forwarded?.getChild("message");
    const at = Date.parse(forwarded?.getChild("delay", "urn:xmpp:delay")?.attrs.stamp ?? "");
    const { id } = result.attrs;
    if (query === undefined || from !== query.of || message === undefined || !id || Number.isNaN(at)) return true;
    // A page has as many as were asked for; an archive that sends without end is not listened to.
    if (query.found.length < query.max) query.found.push({ id, at, message });
    return true;
  }

  /** Whether it can be asked for what one address has said. Rejects with the archive's error. */
  async knowsAuthors(of: string): Promise<boolean> {
    const { xml } = this.#connection;
    const answer = await this.#connection.ask(xml("iq", { type: "get", to: of }, xml("query", { xmlns: MAM })));
    const fields = answer.getChild("query", MAM)?.getChild("x", "jabber:x:data")?.getChildren("field") ?? [];
    return fields.some(({ attrs }) => attrs.var === "with");
  }

  #form(from: Extract<From, { start: number }>): Element {
    const { xml } = this.#connection;
    const field = (name: string, value: string, type?: string): Element =>
      xml("field", { var: name, ...(type === undefined ? {} : { type }) }, xml("value", {}, value));
    return xml(
      "x",
      { xmlns: "jabber:x:data", type: "submit" },
      field("FORM_TYPE", MAM, "hidden"),
      field("start", new Date(from.start).toISOString()),
      ...("with" in from ? [field("end", new Date(from.end).toISOString()), field("with", from.with)] : []),
    );
  }
}
