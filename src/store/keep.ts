import type { Role } from "../conversation/person.ts";
import type { Platform } from "../message/source.ts";
import type { RuntimeStatus } from "./rows.ts";

export type KeepChange =
  /** Replaces all linked accounts of people; an account that is not named is nobody's (A4). */
  | {
      readonly kind: "identities";
      readonly now: number;
      readonly identities: readonly {
        readonly platform: Platform;
        readonly userId: string;
        readonly personId: string;
      }[];
    }
  | { readonly kind: "person"; readonly person: { readonly id: string; readonly name?: string; readonly role: Role } }
  /** Removes what is past its time: rate counts (1 h), event ids and idempotency keys (48 h), `once` conversations (48 h), refused events beyond 1,000 an account. */
  | { readonly kind: "prune"; readonly now: number }
  | { readonly kind: "title"; readonly sessionId: string; readonly title: string }
  /** Merges the patch into the state that programs keep with a conversation (B6); arrays and plain values are replaced. */
  | {
      readonly kind: "agent_state";
      readonly conversationId: number;
      readonly patch: Readonly<Record<string, unknown>>;
    }
  /** Counts restarts of a session's agent (B1, B6). */
  | {
      readonly kind: "restarts";
      readonly sessionId: string;
      readonly runtime: string;
      readonly restarts: number;
      readonly status?: RuntimeStatus;
    }
  /** Imports sessions of another program, or a part of one (H13). Safe to repeat. */
  | {
      readonly kind: "import";
      /** The other program, as session keys name it. */
      readonly runtime: string;
      readonly agent: string;
      readonly now: number;
      readonly sessions: readonly ImportedSession[];
    };

export interface KeepResult {
  /** Rows that a prune removed. */
  readonly removed: number;
  /** The references by which runtimes know the removed sessions. */
  readonly forgotten?: readonly { readonly sessionId: string; readonly runtime: string; readonly ref: string }[];
  readonly imported?: ImportResult;
}

export interface ImportResult {
  /** Sessions that were new. */
  readonly sessions: number;
  readonly messages: number;
  /** Sessions that continued here and so are not imported further, by their id in the other program. */
  readonly wentOn: readonly string[];
}

export interface ImportedSession {
  /** The id in the other program. */
  readonly id: string;
  /** The session id to use here, if it is new. */
  readonly freshId: string;
  readonly parentId: string | null;
  /** Null for a group's session. */
  readonly ownerPerson: string | null;
  /** The other program's name for it; may be none of ours. */
  readonly platform: string;
  readonly title: string | null;
  readonly openedAt: number;
  readonly endedAt: number;
  readonly endReason: string;
  readonly messages: readonly ImportedMessage[];
}

export interface ImportedMessage {
  /** Grows within a session. */
  readonly id: number;
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly at: number;
  /** The author, where it is not the owner. */
  readonly author?: string;
}
