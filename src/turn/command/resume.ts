import { doorOf } from "../../conversation/door.ts";
import type { SessionRow } from "../../store/rows.ts";
import { when } from "../../util/when.ts";
import { type CommandAnswer, type CommandContext, onlySays } from "./command.ts";

const LISTED = 10;
/** The number of last sessions among which a title is looked for. */
export const SEARCHED = 500;

/** R6: lists the speaker's own sessions with this agent, or goes back to one. */
export async function resume(context: CommandContext): Promise<CommandAnswer> {
  const sessions = await sessionsFor(context);
  if (context.args === "") return onlySays(listed(context, sessions.slice(0, LISTED)));
  const found = chosen(sessions, context.args);
  if (found.length === 1)
    return {
      effect: { kind: "resume", sessionId: found[0]!.id },
      reply: { code: "session_resumed", args: {} },
    };
  const asked = JSON.stringify(context.args);
  if (found.length === 0) return onlySays(`No session of yours is number ${asked}, or begins so. /resume lists them.`);
  return onlySays(
    `Several sessions begin with ${asked}:\n${lines(context, found.slice(0, LISTED))}\nSay more of the title, or the session's id.`,
  );
}

/** The speaker's sessions; in a room the room's, for nobody's own sessions are shown where others read along. */
async function sessionsFor({ reader, agent, speaker, conversation }: CommandContext): Promise<readonly SessionRow[]> {
  if (conversation !== null && conversation.personId === null) {
    return reader.sessions({ conversationId: conversation.id, limit: SEARCHED });
  }
  if (speaker.person === undefined) return [];
  return reader.sessions({ personId: speaker.person.id, agent, limit: SEARCHED });
}

/** The sessions that `asked` may mean: by id, number in the list, or beginning of the title. A whole title goes before a longer one. */
export function chosen(sessions: readonly SessionRow[], asked: string): readonly SessionRow[] {
  const named = sessions.find((session) => session.id === asked);
  if (named !== undefined) return [named];
  if (/^\d{1,2}$/.test(asked)) {
    const numbered = sessions.slice(0, LISTED)[Number(asked) - 1];
    return numbered === undefined ? [] : [numbered];
  }
  const wanted = asked.toLocaleLowerCase();
  const titleIn = (session: SessionRow) => session.title?.toLocaleLowerCase() ?? "";
  const whole = sessions.filter((session) => titleIn(session) === wanted);
  return whole.length === 1 ? whole : sessions.filter((session) => titleIn(session).startsWith(wanted));
}

function listed(context: CommandContext, sessions: readonly SessionRow[]): string {
  if (sessions.length === 0) return "There is no session of yours with this agent yet.";
  return [
    `Your sessions with ${context.about.agent}, the last used first:`,
    lines(context, sessions),
    "/resume with a number, or the beginning of a title, goes back to it.",
  ].join("\n");
}

function lines({ config, conversation }: CommandContext, sessions: readonly SessionRow[]): string {
  return sessions
    .map((session, index) => {
      const title = session.title === null ? "(no title)" : JSON.stringify(session.title);
      const used = when(session.lastHumanAt ?? session.openedAt, config.timezone);
      const here = session.id === conversation?.currentSession ? " (here)" : "";
      return `  ${index + 1}  ${title}  ${doorOf(session.homeKey)}, ${session.entries} entries, last used ${used}${here}`;
    })
    .join("\n");
}
