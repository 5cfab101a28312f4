import type { Config } from "../../config.ts";
import type { Notice } from "../../message/notice.ts";
import type { CommandEvent, ConversationRow, Speaker, StoreReader } from "../../store/store.ts";
import { help } from "./help.ts";
import { newSession } from "./new.ts";
import { status } from "./status.ts";
import { stop } from "./stop.ts";
import { whoami } from "./whoami.ts";

/** What a slash command may look at; what it changes is the effect it returns, carried out inside `admit`. */
export interface CommandContext {
  readonly config: Config;
  readonly reader: StoreReader;
  readonly agent: string;
  /** Null before the first message of a conversation. */
  readonly conversation: ConversationRow | null;
  readonly key: string;
  readonly speaker: Speaker;
  readonly args: string;
  readonly now: number;
  /** Where a session runs warm, as the pool sees it. */
  warmth(sessionId: string): string;
}

export interface Command {
  readonly name: string;
  readonly aliases: readonly string[];
  /** One line for /help. */
  readonly summary: string;
  run(context: CommandContext): Promise<{ effect: CommandEvent["effect"]; reply: Notice }>;
}

export const COMMANDS: readonly Command[] = [newSession, stop, status, whoami, help];

/** The command a text begins with; null for plain words. `/etc/hosts` is a path and not a command. */
export function commandOf(text: string): { command: Command; args: string } | { unknown: string } | null {
  const match = /^\/([a-z][a-z0-9_-]*)(?:@\S+)?(?:\s+([\s\S]*))?$/iu.exec(text.trim());
  if (match === null) return null;
  const name = match[1]!.toLowerCase();
  const command = COMMANDS.find((candidate) => candidate.name === name || candidate.aliases.includes(name));
  return command === undefined ? { unknown: name } : { command, args: (match[2] ?? "").trim() };
}

export function textNotice(text: string): Notice {
  return { code: "text", args: { text } };
}
