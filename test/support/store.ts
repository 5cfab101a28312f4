import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Role } from "../../src/conversation/person.ts";
import { DEFAULT_RESET_POLICY } from "../../src/conversation/reset-policy.ts";
import { DEFAULT_KEY_RULES, localDoorChatId } from "../../src/conversation/session-key.ts";
import type { Platform, Source } from "../../src/message/source.ts";
import type { Target } from "../../src/message/target.ts";
import type { AdmitRules, MessageEvent } from "../../src/store/events.ts";

/** A fresh folder, and the way to remove it. */
export function temporaryFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "tertulia-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export const RULES: AdmitRules = {
  keys: DEFAULT_KEY_RULES,
  busyMode: "collect",
  debounceMs: 800,
  maxWaitingTurns: 20,
  maxMessagesPerTurn: 200,
  reset: DEFAULT_RESET_POLICY,
  jobHoldMs: 24 * 3_600_000,
};

export function ownDoor(platform: Platform, person: string, name: string): { source: Source; target: Target } {
  const chatId = localDoorChatId(person, name);
  return {
    source: { platform, account: platform, chatId, chatType: "dm", userId: person, isBot: false },
    target: { door: "pull", platform, account: platform, chatId },
  };
}

/** What a channel would hand in for a person's words. */
export function said(
  text: string,
  options: {
    door?: Platform;
    person?: string;
    role?: Role;
    name?: string;
    rules?: Partial<AdmitRules>;
    eventId?: string;
  } = {},
): MessageEvent {
  const person = options.person ?? "owner";
  const id = randomBytes(6).toString("hex");
  return {
    kind: "message",
    eventId: options.eventId ?? id,
    freshId: `s-${id}`,
    ...ownDoor(options.door ?? "console", person, options.name ?? "main"),
    speaker: { author: { kind: "person", id: person }, person: { id: person, role: options.role ?? "owner" } },
    text,
    saidAt: 0,
    addressed: true,
    rules: { ...RULES, ...options.rules },
  };
}
