import { describeSpan } from "../../util/span.ts";
import { type Command, textNotice } from "./command.ts";

/** What runs, what waits, and in which session this conversation speaks (T10). */
export const status: Command = {
  name: "status",
  aliases: [],
  summary: "/status       session, runtime, what runs and what waits",
  async run({ config, reader, agent, conversation, key, now, warmth }) {
    const lines = [
      `Agent: ${config.agents[agent]?.displayName ?? agent}, runtime ${config.agents[agent]?.runtime.kind ?? "none"}`,
      `Conversation: ${key}`,
    ];
    if (conversation === null)
      return { effect: { kind: "none" }, reply: textNotice([...lines, "Nothing was said here yet."].join("\n")) };
    const bindings = await reader.bindings({ conversationId: conversation.id });
    const live = bindings.find((binding) => binding.expiresAt === null || binding.expiresAt > now);
    const sessionId = live?.sessionId ?? conversation.currentSession;
    const session = sessionId === null ? null : await reader.session(sessionId);
    if (session !== null) {
      lines.push(
        `Session: ${session.id}, ${session.entries} entries, opened ${new Date(session.openedAt).toISOString()} (${warmth(session.id)})`,
      );
    }
    if (live !== undefined) {
      lines.push(
        `Bound: ${live.kind}${live.expiresAt === null ? "" : `, for another ${describeSpan(live.expiresAt - now)}`}; home of the session: ${session?.homeKey ?? "unknown"}`,
      );
    }
    lines.push(
      conversation.openTurns === 0
        ? "Nothing runs or waits."
        : `${conversation.openTurns} turn${conversation.openTurns === 1 ? "" : "s"} running or waiting.`,
    );
    return { effect: { kind: "none" }, reply: textNotice(lines.join("\n")) };
  },
};
