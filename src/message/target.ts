import type { Platform } from "./source.ts";

/**
 * Target: where a reply goes, fixed at admit (O2). A reply is routed by the stored target, never by the key (K15).
 * `pull` doors (terminal, web, HTTP) fetch their reply: it is delivered at the commit that writes it (O6).
 */
export interface Target {
  readonly door: "push" | "pull";
  readonly platform: Platform;
  readonly account: string;
  readonly scopeId?: string;
  readonly chatId: string;
  readonly threadId?: string;
  /** The external id of the message this answers, where the platform shows replies. */
  readonly replyTo?: string;
}

/** The lane of a target: deliveries of one lane go out first in, first out (O1). */
export function laneOf(target: Target): string {
  return [target.platform, target.account, target.scopeId ?? "", target.chatId, target.threadId ?? ""]
    .map(encodeURIComponent)
    .join("/");
}

export function isSameTarget(a: Target, b: Target): boolean {
  return laneOf(a) === laneOf(b);
}
