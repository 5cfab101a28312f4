import { resolveSrv } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";
import type { Client, Element, Xml } from "@xmpp/client";
import type { Clock } from "../../util/clock.ts";
import type { Log } from "../../util/log.ts";
import { IqRequests } from "./iq-requests.ts";
import { bareOf, domainOf, localOf } from "./jid.ts";
import type { XmppAccount, XmppPace } from "./options.ts";
import { LONGEST_STANZA, useOwnSockets } from "./wire-socket.ts";

/**
 * XmppConnection: the stream of one account, with stream management and a reconnect of its own.
 *
 * A *session* is what a stream management id names: it outlives cuts that are resumed, and then nothing was lost and no room was
 * left. `onSession` tells of each new one, after it has settled: presence and joins belong there.
 */
export type ConnectionState =
  | { readonly is: "connecting" } //               → online, waiting, fatal, stopped
  | { readonly is: "online" } //                   → waiting, fatal, stopped
  | { readonly is: "waiting"; readonly reason: string } // → connecting, stopped
  | { readonly is: "fatal"; readonly reason: string } //   → stopped
  | { readonly is: "stopped" };

interface ConnectionEvents {
  onSession(): void;
  onResumed(): void;
  onDown(): void;
  onStanza(stanza: Element): void;
  /** The server has taken it. */
  onAck(stanza: Element): void;
}

export interface ConnectionOptions {
  readonly account: XmppAccount;
  readonly resource: string;
  readonly clock: Clock;
  readonly chance: () => number;
  readonly log: Log;
  readonly pace: XmppPace;
  readonly events: ConnectionEvents;
  readonly resolve?: ((domain: string) => Promise<readonly string[]>) | undefined;
}

/** No reconnect helps against these. */
const FATAL_LOGIN = new Set(["not-authorized", "account-disabled", "credentials-expired", "invalid-authzid"]);
const SETTLE_MS = 2_000;
/** A session that lived so long was a good one: the waits begin anew. */
const GOOD_SESSION_MS = 30_000;
const SM = "urn:xmpp:sm:3";

export class XmppConnection {
  readonly #options: ConnectionOptions;
  readonly address: string;
  readonly domain: string;
  #state: ConnectionState = { is: "connecting" };
  #client: Client | null = null;
  #xml: Xml | null = null;
  #services: readonly string[] = [];
  #failures = 0;
  #onlineAt = 0;
  #reason = "";
  #session = new AbortController();
  readonly #desk: IqRequests;
  #cancelTimer = (): void => undefined;
  #cancelLogin = (): void => undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.address = bareOf(options.account.jid);
    this.domain = domainOf(options.account.jid);
    this.#desk = new IqRequests(options.clock, this.address);
  }

  get state(): ConnectionState {
    return this.#state;
  }
  get isOnline(): boolean {
    return this.#state.is === "online";
  }
  /** Aborted when the session is lost: what it was asked will not be answered. */
  get session(): AbortSignal {
    return this.#session.signal;
  }
  get xml(): Xml {
    if (this.#xml === null) throw new Error("The connection was not started.");
    return this.#xml;
  }
  get hasAcks(): boolean {
    return this.#client?.streamManagement.enabled === true;
  }

  /** Begins to connect; what becomes of it is in `state`. Throws when a package or the certificate file is missing. */
  async start(): Promise<void> {
    const { account, clock, resource } = this.#options;
    const library = await load();
    this.#xml = library.xml;
    this.#services = account.service === undefined ? await this.#servicesOfDomain() : [account.service];
    const client = library.client({
      service: this.#services[0]!,
      domain: this.domain,
      resource,
      username: localOf(account.jid),
      password: account.password,
    });
    this.#client = client;
    useOwnSockets(client, {
      domain: this.domain,
      trust: await trustOf(account),
      clock,
      WebSocket: library.WebSocket,
    });
    this.#bend(client);
    this.#listen(client);
    this.#attempt();
  }

  /** Takes leave, so that the server frees the nick at once. */
  async stop(): Promise<void> {
    const client = this.#client;
    const wasOnline = this.isOnline;
    this.#state = { is: "stopped" };
    this.#cancelTimer();
    this.#cancelLogin();
    this.#session.abort();
    if (client === null) return;
    if (wasOnline) await client._closeStream(1_000).catch(() => undefined);
    // Whatever of a login still waits ends with this, and its timer.
    else client.emit("error", new Error("the channel was stopped"));
    await client.stop();
    client.removeAllListeners();
    client.on("error", () => undefined);
  }

  /** Rejects when the bytes could not be written; nothing is queued then. */
  async send(stanza: Element): Promise<void> {
    if (this.#client === null || !this.isOnline) throw new Error("The connection is down.");
    await this.#client.send(stanza);
  }

  /** The answer to an IQ. Rejects with the stanza error, or when the session ends before it comes. */
  async ask(stanza: Element): Promise<Element> {
    if (this.#client === null || !this.isOnline) throw new Error("The connection is down.");
    const client = this.#client;
    return await this.#desk.ask(stanza, {
      send: (iq) => client.send(iq),
      withinMs: this.#options.pace.answerMs,
      signal: this.session,
    });
  }

  /** Ends the stream; it is opened again like after any cut. */
  drop(reason: string): void {
    this.#reason = reason;
    if (this.#client?.socket === null) this.#down();
    else this.#client?.disconnect().catch(() => undefined);
  }

  #attempt(): void {
    const client = this.#client!;
    this.#state = { is: "connecting" };
    this.#cancelLogin = this.#options.clock.after(this.#options.pace.loginMs, () =>
      this.drop("the login took too long"),
    );
    const service = this.#services[this.#failures % this.#services.length]!;
    client
      .connect(service)
      .then(() => client.open({ domain: this.domain }))
      .catch((cause) => this.drop(describe(cause)));
  }

  #listen(client: Client): void {
    const { events } = this.#options;
    let hasManagement = false;
    const settle = (): void => {
      this.#cancelTimer();
      setImmediate(() => this.#opened());
    };
    client.on("nonza", (element: Element) => {
      if (element.is("features")) hasManagement = element.getChild("sm", SM) !== undefined;
      // COMPAT: the library resets its counter of stanzas only after it has been told of <enabled/>: whatever came with it in one
      // piece would be counted wrongly, and the server would end the stream for it.
      else if (element.is("enabled", SM) || element.is("failed", SM)) {
        if (client.status === "online") settle();
      }
    });
    client.on("online", () => {
      this.#cancelTimer();
      if (hasManagement) this.#cancelTimer = this.#options.clock.after(SETTLE_MS, settle);
      else settle();
    });
    client.streamManagement.on("resumed", () => setImmediate(() => this.#resumed()));
    client.streamManagement.on("ack", (stanza: Element) => events.onAck(stanza));
    client.on("stanza", (stanza: Element) => {
      if (stanza.is("iq")) this.#desk.take(stanza);
      else events.onStanza(stanza);
    });
    client.on("disconnect", () => this.#down());
    client.on("error", (error: unknown) => this.#failed(error));
  }

  #opened(): void {
    if (this.#state.is !== "connecting" || this.#client?.status !== "online") return;
    this.#session.abort();
    this.#session = new AbortController();
    this.#up();
    this.#options.events.onSession();
  }

  #resumed(): void {
    if (this.#state.is !== "connecting" || this.#client?.status !== "online") return;
    this.#up();
    this.#options.events.onResumed();
  }

  #up(): void {
    this.#cancelLogin();
    this.#state = { is: "online" };
    this.#onlineAt = this.#options.clock.now();
  }

  #down(): void {
    const { clock, chance, pace, log, events } = this.#options;
    this.#cancelTimer();
    this.#cancelLogin();
    if (this.#state.is !== "connecting" && this.#state.is !== "online") return;
    const wasOnline = this.#state.is === "online";
    if (wasOnline && clock.now() - this.#onlineAt >= GOOD_SESSION_MS) this.#failures = 0;
    const wait = Math.min(pace.longestReconnectMs, pace.reconnectMs * 2 ** Math.min(this.#failures, 20));
    this.#failures += 1;
    const reason = this.#reason || "the connection was cut";
    this.#reason = "";
    this.#state = { is: "waiting", reason };
    log.warn({ account: this.address, reason, waitMs: wait }, "xmpp: the connection is down");
    if (wasOnline) events.onDown();
    this.#cancelTimer = clock.after(wait * (1 + chance() / 2), () => this.#attempt());
  }

  #failed(error: unknown): void {
    const { name, condition } = error as { name?: string; condition?: string };
    if (this.#state.is === "fatal" || this.#state.is === "stopped") return;
    this.#reason = describe(error);
    if (name === "StreamError" && condition === "conflict") {
      this.#end(
        "another client has logged in with the same resource: stop one of the two, or give them different ones",
      );
    } else if (name === "SASLError" && FATAL_LOGIN.has(condition ?? "")) {
      this.#end(`the server refuses the login (${condition}): correct the account's address or password`);
    } else if (this.#state.is === "connecting") {
      this.drop(this.#reason);
    }
  }

  #end(reason: string): void {
    this.#state = { is: "fatal", reason };
    this.#options.log.error({ account: this.address, reason }, "xmpp: the account is out of service");
    this.#session.abort();
    this.#options.events.onDown();
    this.#client?.disconnect().catch(() => undefined);
  }

  /** COMPAT: what the library does wrong with a bad peer, in 0.14.0. */
  #bend(client: Client): void {
    const { pace } = this.#options;
    client.reconnect.stop();
    client.timeout = 10_000;
    // An error that answers before the write has called back would be a rejection that nobody handles, and end the process.
    client.iqCaller.request = (stanza, withinMs = pace.answerMs) =>
      this.#desk.ask(stanza, { send: (iq) => client.send(iq), withinMs });
    client.streamManagement.requestAckInterval = pace.aliveMs;
    client.streamManagement.timeout = pace.aliveWithinMs;
    // It decodes each chunk for itself, which breaks a character that is cut in two; its parser throws out of the socket's
    // event for a bad entity, and collects an endless stanza without end.
    let decoder = new StringDecoder("utf8");
    let size = 0;
    client.on("connecting", () => {
      decoder = new StringDecoder("utf8");
      size = 0;
    });
    client.on("element", () => {
      size = 0;
    });
    client._onData = (data) => {
      if (client.parser === null) return;
      const text = typeof data === "string" ? data : decoder.write(data);
      size += text.length;
      try {
        client.parser.write(text);
        if (size > LONGEST_STANZA) throw new Error("the server sends a stanza without end");
      } catch (cause) {
        size = 0;
        this.drop(describe(cause));
      }
    };
    // Its own waits for the peer before it closes the socket, and has then often closed the next one.
    client.disconnect = async () => {
      const { socket } = client;
      if (socket === null) return;
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.end();
      await closed;
    };
  }

  async #servicesOfDomain(): Promise<readonly string[]> {
    return await (this.#options.resolve ?? servicesOf)(this.domain);
  }
}

/** By the domain's records (RFC 6120, XEP-0368), TLS from the first byte first; the domain itself where it has none. */
async function servicesOf(domain: string): Promise<readonly string[]> {
  const [direct, starttls] = await Promise.all(
    [`_xmpps-client._tcp.${domain}`, `_xmpp-client._tcp.${domain}`].map((name) => resolveSrv(name).catch(() => [])),
  );
  const found = [
    ...direct!.map((record) => ({ ...record, scheme: "xmpps" })),
    ...starttls!.map((record) => ({ ...record, scheme: "xmpp" })),
  ]
    .filter(({ name }) => name !== "" && name !== ".")
    .sort((a, b) => a.priority - b.priority)
    .map(({ scheme, name, port }) => `${scheme}://${name}:${port}`);
  return found.length > 0 ? found : [`xmpp://${domain}:5222`];
}

async function load() {
  try {
    const [library, { WebSocket }] = await Promise.all([import("@xmpp/client"), import("ws")]);
    return { ...library, WebSocket };
  } catch (cause) {
    throw new Error("The XMPP channel needs the packages @xmpp/client and ws: npm install @xmpp/client ws", { cause });
  }
}

async function trustOf({ tls = {} }: XmppAccount): Promise<{ ca?: string; insecure: boolean }> {
  const insecure = tls.insecure === true;
  if (tls.ca === undefined) return { insecure };
  return { insecure, ca: tls.ca.includes("-----BEGIN") ? tls.ca : await readFile(tls.ca, "utf8") };
}

function describe(cause: unknown): string {
  const { condition, message, library, reason } = cause as {
    condition?: string;
    message?: string;
    /** Where TLS fails the message is a trace of the library's. */
    library?: string;
    reason?: string;
  };
  if (library !== undefined && reason !== undefined) return `TLS fails: ${reason}`;
  return condition ?? (message || String(cause));
}
