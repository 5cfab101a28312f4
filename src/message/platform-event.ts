import type { Source } from "./source.ts";
import type { Target } from "./target.ts";

/**
 * What a channel heard, as its platform says it: no judgement about who may speak, for whom it is, or what it means.
 * Texts are clean (S6); ids are the platform's own.
 */
export type PlatformEvent = PlatformMessage | PlatformEdit | PlatformDeletion | PlatformReader | UnreadableEvent;

interface HeardBase {
  /** The platform's id of this event, unique per account (T3): an edit has another than its message. */
  readonly eventId: string;
  readonly source: Source;
  /** Where an answer goes. */
  readonly target: Target;
  /** Epoch ms, the platform's time. */
  readonly saidAt: number;
  /** Written by our own account, here or from another client: by the confirmed nick or the bare address, never by a look-alike (G4). */
  readonly isOwn: boolean;
  /** Our own id of the delivery that this is the echo of, where the platform repeats it; it counts only when `isOwn` (G3). */
  readonly originId?: string;
  /** Of a room's occupant: the address the service vouches for. Rights hang on it alone, never on a nick (A4). Where the room hides it from others, the source has the occupant's id instead (G7). */
  readonly verifiedUser?: string;
  /** What our account is called in that place, as the platform confirmed it: the name by which people call it there. */
  readonly ownName?: string;
}

export interface PlatformMessage extends HeardBase {
  readonly kind: "message";
  readonly text: string;
  /** Was said before this account was there to hear it live: recorded, never answered. */
  readonly isHistory: boolean;
  /** Caught up after a cut of our own: a live message that comes late, answered like one. */
  readonly isCaughtUp?: boolean;
  /** The message it is a reply to, by the platform's id. */
  readonly replyTo?: { readonly messageId: string; readonly isOwn: boolean };
  /** The platform itself says that our account is meant (a structured mention). */
  readonly isMentioned?: boolean;
}

export interface PlatformEdit extends HeardBase {
  readonly kind: "edit";
  /** Of the message that is changed. */
  readonly messageId: string;
  readonly text: string;
}

export interface PlatformDeletion extends HeardBase {
  readonly kind: "delete";
  readonly messageId: string;
  /** A moderator of the place did it, not the author. */
  readonly isModeration: boolean;
}

/** Somebody is in the place and reads along, without a word; told as often as it is seen (H7). */
interface PlatformReader extends HeardBase {
  readonly kind: "reader";
  /** The occupant's address by which other accounts of ours may have told of him before it was known who he is. */
  readonly alias?: string;
}

/** Could not be read: kept with its raw form (16 KiB at most), and the cursor passes it (T2). */
export interface UnreadableEvent {
  readonly kind: "refused";
  readonly eventId: string;
  readonly code: string;
  readonly sentence: string;
  readonly raw?: string;
}
