import { EventEmitter } from "node:events";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import type { Client, Transport } from "@xmpp/client";
import type { WebSocket } from "ws";
import type { Clock } from "../../util/clock.ts";

/**
 * The sockets under @xmpp/client. Its own take no certificate authority, check the host instead of the account's domain on
 * direct TLS, go on in the clear when a middleman takes STARTTLS out of the features, and leave a dead socket open. These
 * negotiate TLS before the library sees the stream.
 */
interface WireTrust {
  readonly ca?: string;
  readonly insecure: boolean;
}

interface WireOptions {
  readonly domain: string;
  readonly trust: WireTrust;
  readonly clock: Clock;
  readonly WebSocket: typeof WebSocket;
}

const STREAM = "http://etherx.jabber.org/streams";
const STARTTLS = "urn:ietf:params:xml:ns:xmpp-tls";
const LONGEST_FEATURES = 65_536;
/** An ended socket whose peer does not answer is destroyed. */
const GRACE_MS = 1_000;
export const LONGEST_STANZA = 4 * 1024 * 1024;

/** Replaces the transports of the library by ours. */
export function useOwnSockets(client: Client, options: WireOptions): void {
  const transportOf = (service: string): Transport =>
    client.transports.find((transport) => isServed(transport, service))!;
  const stream = serving(
    transportOf("xmpps://localhost:5223"),
    streamAt,
    class extends StreamSocket {
      constructor() {
        super(options);
      }
    },
  );
  const frames = serving(
    transportOf("wss://localhost/"),
    socketAt,
    class extends FrameSocket {
      constructor() {
        super(options);
      }
    },
  );
  client.transports = [stream, frames];
}

function isServed(transport: Transport, service: string): boolean {
  try {
    return transport.prototype.socketParameters(service) !== undefined;
  } catch {
    return false;
  }
}

function serving(base: Transport, parametersOf: (service: string) => unknown, Socket: new () => object): Transport {
  const own = class extends (base as new () => object) {} as unknown as Transport;
  own.prototype.Socket = Socket;
  own.prototype.socketParameters = parametersOf;
  return own;
}

interface StreamParameters {
  readonly host: string;
  readonly port: number;
  readonly isDirectTls: boolean;
}

function streamAt(service: string): StreamParameters | undefined {
  const url = new URL(service);
  if (url.protocol !== "xmpp:" && url.protocol !== "xmpps:") return undefined;
  const isDirectTls = url.protocol === "xmpps:";
  const host = url.hostname.replace(/^\[|\]$/g, "");
  return { host, port: Number(url.port) || (isDirectTls ? 5223 : 5222), isDirectTls };
}

function socketAt(service: string): string | undefined {
  return /^wss?:\/\//.test(service) ? service : undefined;
}

class StreamSocket extends EventEmitter {
  secure = false;
  readonly #options: WireOptions;
  #socket: Socket | null = null;
  #cancelGrace = (): void => undefined;

  constructor(options: WireOptions) {
    super();
    this.#options = options;
  }

  connect({ host, port, isDirectTls }: StreamParameters): void {
    if (isDirectTls) {
      this.#useTls({ host, port, ALPNProtocols: ["xmpp-client"] });
      return;
    }
    const socket = connectTcp({ host, port });
    this.#use(socket);
    socket.once("connect", () => this.#negotiate(socket, { host, port }));
  }

  write(data: string, done?: (error?: Error | null) => void): void {
    if (this.#socket === null) done?.(new Error("The connection is closed."));
    else this.#socket.write(data, done);
  }

  end(): void {
    const socket = this.#socket;
    if (socket === null) return;
    if (socket.connecting) socket.destroy();
    else socket.end();
    this.#cancelGrace();
    this.#cancelGrace = this.#options.clock.after(GRACE_MS, () => socket.destroy());
  }

  /** Asks for TLS before anything else is said. */
  #negotiate(socket: Socket, at: { host: string; port: number }): void {
    const { domain, trust } = this.#options;
    let heard = "";
    let isAsked = false;
    const onData = (data: Buffer): void => {
      heard += data.toString("latin1");
      if (heard.length > LONGEST_FEATURES) fail("The server does not come to the point.");
      else if (/<stream:error|<failure/.test(heard)) fail(`The server refuses the stream: ${heard.slice(-200)}`);
      else if (isAsked) {
        if (!heard.includes("<proceed")) return;
        socket.off("data", onData);
        this.#release(socket);
        this.#useTls({ socket });
      } else if (heard.includes("</stream:features>") || heard.includes("<stream:features/>")) {
        if (heard.includes("<starttls")) {
          isAsked = true;
          heard = "";
          socket.write(`<starttls xmlns='${STARTTLS}'/>`);
        } else if (trust.insecure) {
          this.#release(socket);
          socket.on("error", ignore).destroy();
          const plain = connectTcp(at);
          this.#use(plain);
          plain.once("connect", () => this.#open(plain, isLoopback(at.host)));
        } else fail("The server offers no encryption (tls.insecure would allow that).");
      }
    };
    const fail = (reason: string): void => {
      socket.destroy(new Error(reason));
    };
    socket.on("data", onData);
    socket.write(
      `<?xml version='1.0'?><stream:stream to='${domain}' version='1.0' xmlns='jabber:client' xmlns:stream='${STREAM}'>`,
    );
  }

  #useTls(options: ConnectionOptions): void {
    const { domain, trust } = this.#options;
    const socket = connectTls({
      ...options,
      ...(isIP(domain) === 0 ? { servername: domain } : {}),
      ...(trust.ca === undefined ? {} : { ca: trust.ca }),
      rejectUnauthorized: !trust.insecure,
    });
    this.#use(socket);
    socket.once("secureConnect", () => this.#open(socket, true));
  }

  #use(socket: Socket): void {
    this.#socket = socket;
    socket.setKeepAlive(true, 60_000);
    // Stanzas are small and answer each other: gathering them costs 40 ms a time.
    socket.setNoDelay(true);
    socket.on("error", (error) => {
      if (this.#socket === socket) this.emit("error", error);
    });
    socket.once("close", () => {
      if (this.#socket !== socket) return;
      this.#cancelGrace();
      this.#socket = null;
      this.emit("close");
    });
  }

  /** The socket lives on inside another one. */
  #release(socket: Socket): void {
    if (this.#socket === socket) this.#socket = null;
  }

  #open(socket: Socket, isSecure: boolean): void {
    this.secure = isSecure;
    socket.on("data", (data) => this.emit("data", data));
    this.emit("connect");
  }
}

class FrameSocket extends EventEmitter {
  secure = false;
  readonly #options: WireOptions;
  #socket: WebSocket | null = null;
  #cancelGrace = (): void => undefined;

  constructor(options: WireOptions) {
    super();
    this.#options = options;
  }

  connect(service: string): void {
    const { trust, WebSocket } = this.#options;
    const url = new URL(service);
    const isSecure = url.protocol === "wss:" || isLoopback(url.hostname);
    const socket = new WebSocket(url, ["xmpp"], {
      maxPayload: LONGEST_STANZA,
      rejectUnauthorized: !trust.insecure,
      ...(trust.ca === undefined ? {} : { ca: trust.ca }),
    });
    this.#socket = socket;
    socket.once("open", () => {
      this.secure = isSecure;
      if (isSecure || trust.insecure) this.emit("connect");
      else socket.emit("error", new Error("ws:// is not encrypted: use wss:// (tls.insecure would allow it)."));
    });
    socket.on("message", (data: Buffer) => this.emit("data", data.toString("utf8")));
    socket.on("error", (error) => this.emit("error", error));
    socket.once("close", () => {
      this.#cancelGrace();
      this.#socket = null;
      this.emit("close");
    });
  }

  write(data: string, done?: (error?: Error | null) => void): void {
    if (this.#socket === null) done?.(new Error("The connection is closed."));
    else this.#socket.send(data, done);
  }

  end(): void {
    const socket = this.#socket;
    if (socket === null) return;
    socket.close();
    this.#cancelGrace();
    this.#cancelGrace = this.#options.clock.after(GRACE_MS, () => socket.terminate());
  }
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || host === "::1" || host.startsWith("127.");
}

function ignore(): void {
  // A socket we let go of: what becomes of it is nobody's concern.
}
