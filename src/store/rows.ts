import type { ResetPolicy } from "../conversation/reset-policy.ts";
import type { Author } from "../message/message.ts";
import type { Notice } from "../message/notice.ts";
import type { Platform } from "../message/source.ts";
import type { Target } from "../message/target.ts";

export type RuntimeStatus = "healthy" | "degraded" | "broken";

/** Token totals of a session, and the size of its last prompt. */
interface SessionTokens {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly lastPrompt: number;
}

export type DeliveryState = "queued" | "sending" | "streaming" | "delivered" | "unknown" | "failed";

export interface DeliveryRow {
  readonly id: number;
  readonly lane: string;
  readonly turnId: number | null;
  readonly messageId: number | null;
  readonly part: number;
  readonly kind: "reply" | "notice" | "send";
  readonly target: Target;
  readonly body: string | Notice;
  readonly state: DeliveryState;
  readonly attempt: number;
  readonly dueAt: number;
  readonly createdAt: number;
  readonly externalId: string | null;
  readonly reason: string | null;
}

export interface ConversationRow {
  readonly id: number;
  readonly key: string;
  readonly agent: string;
  readonly personId: string | null;
  readonly placeId: number;
  readonly kind: "kept" | "once";
  readonly currentSession: string | null;
  readonly target: Target;
  /** The policy that /autoreset set; null: the configured one holds. */
  readonly resetOverride: ResetPolicy | null;
  readonly runtime: RuntimeChoice;
  readonly at: number;
  readonly openTurns: number;
}

/** The runtime of a conversation, as /runtime chose it (B7). */
interface RuntimeChoice {
  /** Null: the configured one. */
  readonly name: string | null;
  /** The runtime before the last switch; null before the first. */
  readonly before: string | null;
  /** True until its first answer after the switch. */
  readonly isOnTrial: boolean;
}

export interface JobRow {
  readonly id: string;
  readonly title: string;
  readonly openedAt: number;
}

export interface HomeRow {
  readonly platform: Platform;
  readonly conversationKey: string;
  readonly target: Target;
  /** The name of the place, where it has one. */
  readonly name: string | null;
  readonly at: number;
}

export interface SessionRow {
  readonly id: string;
  readonly home: number;
  readonly homeKey: string;
  readonly agent: string;
  readonly ownerPerson: string | null;
  readonly parentId: string | null;
  readonly title: string | null;
  readonly entries: number;
  readonly openedAt: number;
  readonly openedBy: string;
  readonly endedAt: number | null;
  readonly endReason: string | null;
  readonly lastHumanAt: number | null;
  readonly suspended: string | null;
  readonly tokens: SessionTokens;
}

export interface EntryRow {
  readonly seq: number;
  readonly turnId: number | null;
  readonly messageId: number | null;
  readonly role: "user" | "assistant" | "mark";
  /** `failed`, `interrupted`, `undone` or `sent`; null for an ordinary entry. */
  readonly mark: string | null;
  readonly author: Author | null;
  readonly text: string;
  readonly at: number | null;
  readonly platform: Platform | null;
  /** Set on a `sent` entry that went into the session's home. */
  readonly atHome?: true;
  /** True once it was part of a prompt. */
  readonly prompted: boolean;
  /** The state of a reply that is not delivered (O4); else null. */
  readonly delivery: DeliveryState | null;
}

export interface ExchangeRow {
  readonly turnId: number;
  /** The runtime that ran it. */
  readonly runtime: string;
  /** The prompt as it was sent. */
  readonly prompt: string;
  readonly reply: string | null;
  /** Null for an answered exchange. */
  readonly mark: string | null;
}

export interface Note {
  readonly n: number;
  readonly code: string;
  readonly args: Readonly<Record<string, string | number | null>>;
}

export interface ForeignSession {
  /** The id in the other program. */
  readonly id: string;
  readonly sessionId: string;
  readonly throughId: number;
}

export interface SessionsOfOthers {
  readonly groups: number;
  readonly direct: number;
}

export interface DirectSession {
  readonly sessionId: string;
  readonly agent: string;
  readonly platform: Platform;
  readonly lastAt: number;
}

export interface DirectRow {
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly at: number | null;
}

export interface BindingRow {
  readonly conversationId: number;
  readonly conversationKey: string;
  readonly kind: "live" | "pinned";
  readonly sessionId: string;
  readonly sentAt: number;
  readonly expiresAt: number | null;
  readonly setBy: string;
  /** Set explicitly although others read along (H7). */
  readonly shared: boolean;
}

export interface RuntimeStateRow {
  readonly runtime: string;
  readonly ref: string | null;
  readonly seenThrough: number;
  readonly status: RuntimeStatus;
  readonly restarts: number;
  readonly lastUsedAt: number | null;
}

export interface RefusedRow {
  readonly account: string;
  readonly eventId: string;
  readonly at: number;
  readonly code: string;
  readonly sentence: string;
  readonly raw: string | null;
}
