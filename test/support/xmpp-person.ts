import { randomUUID } from "node:crypto";
import { type Client, client, type Element, xml } from "@xmpp/client";
import { WebSocket } from "ws";
import { IqRequests } from "../../src/channel/xmpp/iq-requests.ts";
import { useOwnSockets } from "../../src/channel/xmpp/wire-socket.ts";
import { systemClock } from "../../src/util/clock.ts";
import { until } from "./until.ts";
import type { XmppServer } from "./xmpp-servers.ts";

/** A plain person with an ordinary client: says what it is told, and keeps what it was sent. */
export class XmppPerson {
  readonly jid: string;
  readonly client: Client;
  /** Every message stanza that came, in its order. */
  readonly heard: Element[] = [];
  readonly presences: Element[] = [];
  readonly #server: XmppServer;

  constructor(server: XmppServer, user: string, password: string, resource: string) {
    this.#server = server;
    this.jid = `${user}@${server.domain}`;
    this.client = client({
      service: server.service("starttls"),
      domain: server.domain,
      resource,
      username: user,
      password,
    });
    useOwnSockets(this.client, {
      domain: server.domain,
      trust: { ca: server.ca, insecure: false },
      clock: systemClock,
      WebSocket,
    });
    this.client.reconnect.stop();
    this.client.timeout = 10_000;
    this.client.on("error", () => undefined);
    // COMPAT: the library's own leaves a rejection unhandled when an error is quicker than its write.
    const desk = new IqRequests(systemClock, this.jid);
    this.client.iqCaller.request = (stanza, withinMs = 10_000) =>
      desk.ask(stanza, { send: (iq) => this.client.send(iq), withinMs });
    this.client.on("stanza", (stanza: Element) => {
      if (stanza.is("message")) this.heard.push(stanza);
      if (stanza.is("presence")) this.presences.push(stanza);
      if (stanza.is("iq")) desk.take(stanza);
    });
  }

  async login(): Promise<this> {
    await this.client.connect(this.#server.service("starttls"));
    const online = new Promise((resolve) => this.client.once("online", resolve));
    await this.client.open({ domain: this.#server.domain });
    await online;
    await until("stream management", () => this.client.streamManagement.enabled);
    await this.client.send(xml("presence"));
    return this;
  }

  async logout(): Promise<void> {
    if (this.client.socket !== null) await this.client._closeStream(2_000).catch(() => undefined);
    const { socket } = this.client;
    if (socket === null) return;
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.end();
    await closed;
  }

  /** Resolves when the room has confirmed it; rejects with the room's error. */
  async join(room: string, nick: string): Promise<void> {
    const own = `${room}/${nick}`;
    const from = this.presences.length;
    const history = xml("history", { maxstanzas: "0" });
    await this.client.send(
      xml("presence", { to: own }, xml("x", { xmlns: "http://jabber.org/protocol/muc" }, history)),
    );
    const answer = await until(`${nick} in ${room}`, () =>
      this.presences
        .slice(from)
        .find((stanza) => stanza.attrs.from === own && (hasCode(stanza, "110") || isError(stanza))),
    );
    if (isError(answer)) throw new Error(answer.toString());
    if (hasCode(answer, "201")) await this.configure(room, {});
  }

  async leave(room: string, nick: string): Promise<void> {
    await this.client.send(xml("presence", { to: `${room}/${nick}`, type: "unavailable" }));
  }

  /** The id that it gave the message. */
  async says(to: string, body: string, ...more: Element[]): Promise<string> {
    const id = randomUUID();
    await this.client.send(xml("message", { type: "chat", to, id }, xml("body", {}, body), ...more));
    return id;
  }

  async saysInRoom(room: string, body: string, ...more: Element[]): Promise<string> {
    const id = randomUUID();
    await this.client.send(xml("message", { type: "groupchat", to: room, id }, xml("body", {}, body), ...more));
    return id;
  }

  async setsSubject(room: string, subject: string): Promise<void> {
    await this.client.send(xml("message", { type: "groupchat", to: room }, xml("subject", {}, subject)));
  }

  /** As the owner of a room. Values are strings; lists are not needed here. */
  async configure(room: string, fields: Readonly<Record<string, string>>): Promise<void> {
    const value = (name: string, text: string): Element => xml("field", { var: name }, xml("value", {}, text));
    const form = xml("x", { xmlns: "jabber:x:data", type: "submit" });
    form.append(value("FORM_TYPE", "http://jabber.org/protocol/muc#roomconfig"));
    for (const [name, text] of Object.entries(fields)) form.append(value(name, text));
    await this.ask({ type: "set", to: room }, xml("query", { xmlns: "http://jabber.org/protocol/muc#owner" }, form));
  }

  async ask(attributes: Record<string, string>, child: Element, withinMs = 10_000): Promise<Element> {
    return await this.client.iqCaller.request(xml("iq", attributes, child), withinMs);
  }

  /** As a moderator: role by nick, or affiliation by address. */
  async setsRole(room: string, item: Record<string, string>, reason?: string): Promise<void> {
    const child = xml("item", item, reason === undefined ? null : xml("reason", {}, reason));
    await this.ask({ type: "set", to: room }, xml("query", { xmlns: "http://jabber.org/protocol/muc#admin" }, child));
  }

  async destroys(room: string, reason: string): Promise<void> {
    const destroy = xml("destroy", {}, xml("reason", {}, reason));
    await this.ask({ type: "set", to: room }, xml("query", { xmlns: "http://jabber.org/protocol/muc#owner" }, destroy));
  }

  /** The first message that has come with these words. */
  async hears(words: string | RegExp): Promise<Element> {
    return await until(`${this.jid} hears ${words}`, () =>
      this.heard.find((stanza) => {
        const body = stanza.getChildText("body");
        return body !== null && (typeof words === "string" ? body === words : words.test(body));
      }),
    );
  }
}

function hasCode(stanza: Element, code: string): boolean {
  const x = stanza.getChild("x", "http://jabber.org/protocol/muc#user");
  return x?.getChildren("status").some(({ attrs }) => attrs.code === code) === true;
}

function isError(stanza: Element): boolean {
  return stanza.attrs.type === "error";
}
