import type { Config } from "../../config/config.ts";
import type { AgentFacts } from "../../conversation/agent-facts.ts";
import type { Speaker } from "../../conversation/person.ts";
import type { Notice } from "../../message/notice.ts";
import type { Source } from "../../message/source.ts";
import type { PermissionOption } from "../../runtime/runtime.ts";
import type { CommandEvent } from "../../store/events.ts";
import type { ConversationReader, TurnReader } from "../../store/readers.ts";
import type { ConversationRow } from "../../store/rows.ts";

/** The facts that a slash command reads. It changes nothing itself: `admit` carries out the effect that it returns. */
export interface CommandContext {
  readonly config: Config;
  readonly reader: TurnReader & ConversationReader;
  readonly agent: string;
  /** The agent as it is described to the speaker (R5). */
  readonly about: AgentFacts;
  /** The same description, as if another runtime ran the agent. */
  aboutOn(runtime: string): AgentFacts;
  /** The conversation's runtime, and the one that would run it if nobody had switched it (B7). */
  readonly runtimeHere: { readonly name: string; readonly configured: string };
  readonly source: Source;
  /** Null before the first message of a conversation. */
  readonly conversation: ConversationRow | null;
  readonly key: string;
  readonly speaker: Speaker;
  readonly args: string;
  readonly now: number;
  /** The agent's open permission questions that the speaker may answer, the oldest first. */
  readonly questions: readonly OpenQuestion[];
  /** The state of the session's warm handle. */
  handleState(sessionId: string): string;
}

export interface OpenQuestion {
  readonly turnId: number;
  readonly id: string;
  readonly title: string;
  readonly options: readonly PermissionOption[];
  /** Whether the question is shown at the turn's door; elsewhere it is for the owner, at any door where they watch (H12). */
  readonly isAskedThere: boolean;
}

export interface Command {
  readonly name: string;
  readonly aliases?: readonly string[];
  /** Its line in /help. */
  readonly help: string;
  act(context: CommandContext): CommandAnswer | Promise<CommandAnswer>;
}

export interface CommandAnswer {
  readonly effect: CommandEvent["effect"];
  readonly reply: Notice;
}

/** The answer of a command that changes nothing. */
export function onlySays(text: string): CommandAnswer {
  return { effect: { kind: "none" }, reply: { code: "text", args: { text } } };
}
