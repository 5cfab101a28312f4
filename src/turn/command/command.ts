import type { Config } from "../../config/config.ts";
import type { AgentFacts } from "../../conversation/agent-facts.ts";
import type { Speaker } from "../../conversation/person.ts";
import type { Notice } from "../../message/notice.ts";
import type { Source } from "../../message/source.ts";
import type { PermissionOption } from "../../runtime/runtime.ts";
import type { CommandEvent, ConversationRow, StoreReader } from "../../store/store.ts";

/** What a slash command may look at; what it changes is the effect it returns, carried out inside `admit`. */
export interface CommandContext {
  readonly config: Config;
  readonly reader: StoreReader;
  readonly agent: string;
  /** What a person is told of it (R5). */
  readonly about: AgentFacts;
  /** The same, as if another runtime ran it. */
  aboutOn(runtime: string): AgentFacts;
  /** What runs this conversation, and what would if nobody had switched it (B7). */
  readonly runtimeHere: { readonly name: string; readonly configured: string };
  readonly source: Source;
  /** Null before the first message of a conversation. */
  readonly conversation: ConversationRow | null;
  readonly key: string;
  readonly speaker: Speaker;
  readonly args: string;
  readonly now: number;
  /** What the agent asks leave for in this conversation's running turn, the oldest first. */
  readonly questions: readonly OpenQuestion[];
  /** Where a session runs warm, as the pool sees it. */
  handleState(sessionId: string): string;
}

export interface OpenQuestion {
  readonly turnId: number;
  readonly id: string;
  readonly title: string;
  readonly options: readonly PermissionOption[];
  /** Whether who asked sees it at that door; otherwise it is for the owner, wherever she watches (H12). */
  readonly isAskedThere: boolean;
}

export interface Command {
  readonly name: string;
  readonly aliases: readonly string[];
  /** One line for /help. */
  readonly summary: string;
  run(context: CommandContext): Promise<CommandAnswer>;
}

export interface CommandAnswer {
  readonly effect: CommandEvent["effect"];
  readonly reply: Notice;
}

/** Changes nothing. */
export function onlySays(text: string): CommandAnswer {
  return { effect: { kind: "none" }, reply: { code: "text", args: { text } } };
}
