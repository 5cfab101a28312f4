import type { PlatformEvent } from "../message/platform-event.ts";
import type { Platform, Source } from "../message/source.ts";
import type { Target } from "../message/target.ts";
import type { AdmitOutcome, InboundEvent } from "../store/events.ts";

/**
 * Channel: the connector for one account on one platform. It hands in what it hears and acknowledges its platform only when
 * `commit` has resolved (T2). Pull doors (terminal, web, HTTP) have no `send`: their replies are fetched.
 */
export interface Channel {
  readonly name: string;
  readonly account: string;
  readonly platform: Platform;
  start(inbox: Inbox): Promise<void>;
  /** Ends every connection, timer and loop; what was not acknowledged comes again. */
  stop(): Promise<void>;
  status(): ChannelStatus;
  readonly sender?: MessageSender;
  readonly typing?: TypingShower;
  /** Whether the author of a source, as another account of ours heard it, is this account: by the best that the source says of him, the account or the occupant's id, and only where there is neither by the nick that the room has confirmed (G4). */
  isMe?(source: Source): boolean;
  /**
   * The account behind the occupant's id of a source, as the service shows it to this account now, from live presence and never from an
   * archive (G7). It is for rights only: no model and no room is told of it.
   */
  addressOf?(source: Source): string | undefined;
}

/** Shows the people of a chat that an answer is being written. Fire and forget: what does not arrive does not matter. */
export interface TypingShower {
  start(target: Target): void;
  stop(target: Target): void;
}

export type ChannelStatus =
  /** `problems`: what does not work while the account does, a sentence each (a room it is not in); `hidden`: what it is not shown. */
  | {
      readonly state: "connecting" | "online";
      readonly problems?: readonly string[];
      readonly hidden?: readonly string[];
    }
  | { readonly state: "offline"; readonly reason: string }
  /** It does not come back by itself: somebody has to do something. */
  | { readonly state: "fatal"; readonly reason: string };

export interface Inbox {
  /** Where the account stands, from before the last restart. */
  readonly cursor: string | null;
  /** Resolves when the events and the cursor are durable; only then may the platform be acknowledged. */
  commit(events: readonly InboundEvent[], cursor?: string): Promise<readonly AdmitOutcome[]>;
  /** The same for what a platform says, before the gate has judged it. */
  receive(events: readonly PlatformEvent[], cursor?: string): Promise<void>;
  /**
   * All that was said in the places of these targets is heard now, our own words too: what was under way when this process began, and
   * has not come back, did not arrive (O4). `isSure`: there is an archive, and it was read.
   */
  caughtUp?(covers: (target: Target) => boolean, isSure: boolean): Promise<void>;
}

export interface MessageSender {
  /** Platforms that recognise a repeated id: an unknown outcome may be sent again there (O4). */
  readonly recognisesRepeats: boolean;
  /** The channel reads its own words back after a start, and says so by `caughtUp`: until then an unknown outcome stays open. */
  readonly looksBack?: boolean;
  /** Resolves with the platform's id of it, or says how it failed. Never rejects for what the platform did. */
  send(
    target: Target,
    text: string,
    options: { readonly idempotencyKey: string; readonly signal: AbortSignal },
  ): Promise<SendResult>;
}

export type SendResult =
  | { readonly kind: "sent"; readonly externalId?: string }
  /** Surely not sent: worth another try, not before `retryAfterMs`. */
  | { readonly kind: "retry"; readonly reason: string; readonly retryAfterMs?: number }
  /** The connection is down: tried again when it is back, without counting. */
  | { readonly kind: "offline"; readonly reason: string }
  /** Cut after the words left: nobody knows. */
  | { readonly kind: "unknown"; readonly reason: string }
  /** It will never work (no such chat, not allowed). */
  | { readonly kind: "failed"; readonly reason: string };
