import type { Limit } from "../../text/unit.ts";
import type { Clock } from "../../util/clock.ts";
import type { Log } from "../../util/log.ts";

/** One account of one agent, as plain data: what the configuration says. */
export interface XmppAccount {
  /** The bare address: `mohe@example.org`. */
  readonly jid: string;
  readonly password: string;
  /** In rooms; the address's local part where absent. */
  readonly nick?: string;
  readonly rooms: readonly (string | XmppRoom)[];
  /** `xmpp://host:5222` (STARTTLS), `xmpps://host:5223` (TLS from the first byte), `wss://host/path`. By the domain's DNS where absent. */
  readonly service?: string;
  readonly tls?: XmppTls;
  /** One per gateway: a second one of the same name throws the first one out. */
  readonly resource?: string;
}

export interface XmppRoom {
  readonly jid: string;
  readonly nick?: string;
  readonly password?: string;
}

export interface XmppTls {
  /** PEM, or the path of a PEM file: trusted instead of the authorities that Node knows. */
  readonly ca?: string;
  /** Takes any certificate, and a server without encryption. */
  readonly insecure?: boolean;
}

export interface XmppChannelOptions {
  readonly account: XmppAccount;
  readonly clock: Clock;
  /** 0 ≤ chance < 1: jitter. */
  readonly chance: () => number;
  readonly log: Log;
  readonly pace?: Partial<XmppPace>;
  readonly resolve?: (domain: string) => Promise<readonly string[]>;
}

/** Waits, in ms; and two amounts. */
export interface XmppPace {
  /** Before the first new connection; each further one waits twice as long, up to the longest. */
  readonly reconnectMs: number;
  readonly longestReconnectMs: number;
  /** The same for joining a room again. */
  readonly rejoinMs: number;
  readonly longestRejoinMs: number;
  /** From the socket to the session. */
  readonly loginMs: number;
  /** A room shows a message to its author too: how long that may take on a connection that works. */
  readonly echoMs: number;
  /** A room that was silent so long is asked whether we are still in it. */
  readonly silentMs: number;
  /** A connection is asked for a sign of life that often, and has so long to give one. */
  readonly aliveMs: number;
  readonly aliveWithinMs: number;
  /** For an answer of the server. */
  readonly answerMs: number;
  /** Messages from before the first join that are recorded. */
  readonly history: number;
  /** Messages that wait to be stored; those beyond it are read from the archive later. */
  readonly mostWaiting: number;
}

export const PACE: XmppPace = {
  reconnectMs: 1_000,
  longestReconnectMs: 60_000,
  rejoinMs: 1_000,
  longestRejoinMs: 600_000,
  loginMs: 30_000,
  echoMs: 30_000,
  silentMs: 300_000,
  aliveMs: 15_000,
  aliveWithinMs: 10_000,
  answerMs: 30_000,
  history: 30,
  mostWaiting: 2_000,
};

/** What both servers close the stream for when a stanza is larger: the whole of it, markup and escapes included. */
export const STANZA_LIMIT: Limit = { limit: 262_144, unit: "bytes" };
