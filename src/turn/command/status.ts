import { describeAgentFacts } from "../../conversation/agent-facts.ts";
import { doorOf } from "../../conversation/door.ts";
import type { Fate } from "../../message/message.ts";
import { describeSpan } from "../../util/span.ts";
import { when } from "../../util/when.ts";
import { type CommandAnswer, type CommandContext, onlySays } from "./command.ts";
import { boundOf, sessionOf } from "./session-of.ts";

/** The number of last messages that are shown with their fates. */
const RECENT = 5;

/** T10: what runs, what waits, and in which session this conversation speaks. */
export async function status(context: CommandContext): Promise<CommandAnswer> {
  const { config, reader, about, conversation, key, now, handleState } = context;
  const lines = [describeAgentFacts(about), `Conversation: ${key}`];
  if (conversation === null) return onlySays([...lines, "Nothing was said here yet."].join("\n"));
  const bound = (await boundOf(context))?.binding;
  const session = await sessionOf(context);
  if (session !== null) {
    lines.push(
      `Session: ${session.id}, ${session.entries} entries, opened ${when(session.openedAt, config.timezone)} (${handleState(session.id)})`,
      ...(session.title === null ? [] : [`Title: ${session.title}`]),
      ...(await reader.jobs(session.id)).map(
        ({ title, openedAt }) => `Background job: ${title}, for ${describeSpan(now - openedAt)}`,
      ),
    );
  }
  if (session !== null && session.homeKey !== key) {
    const rest = bound?.expiresAt == null ? "" : `, for another ${describeSpan(bound.expiresAt - now)}`;
    lines.push(
      `Bound: ${bound?.kind ?? "by the configuration"}${rest}; home of the session: ${doorOf(session.homeKey)}`,
    );
  }
  const fates = await reader.recentFates({ conversationId: conversation.id, limit: RECENT });
  if (fates.length > 0) lines.push("Last messages:");
  for (const { messageId, text, fate } of [...fates].reverse())
    lines.push(`  ${messageId} ${excerpt(text)} ${fateText(fate)}`);
  return onlySays(lines.join("\n"));
}

function excerpt(text: string): string {
  const points = Array.from(text.replace(/\s+/gu, " "));
  return JSON.stringify(points.length > 40 ? `${points.slice(0, 39).join("")}…` : points.join(""));
}

function fateText(fate: Fate): string {
  switch (fate.fate) {
    case "waiting":
      return `waiting (${fate.position} in line)`;
    case "joined":
      return `joined a waiting message (${fate.position} in line)`;
    case "running":
      return "running";
    default:
      return fate.reason === undefined ? fate.fate : `${fate.fate} (${fate.reason})`;
  }
}
