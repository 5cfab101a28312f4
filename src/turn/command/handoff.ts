import { doorOf } from "../../conversation/door.ts";
import { when } from "../../util/when.ts";
import { type CommandAnswer, type CommandContext, onlySays } from "./command.ts";
import { chosen, SEARCHED } from "./resume.ts";
import { boundOf } from "./session-of.ts";

/** H4, H8: says in which session this chat speaks, hands it to another session of the speaker, or gives it back. */
export async function handoff(context: CommandContext): Promise<CommandAnswer> {
  const { args, config, agent } = context;
  const reply = { code: "handed_off", args: { zone: config.timezone } } as const;
  if (args === "") return onlySays(await standing(context));
  if (args === "clear") return { effect: { kind: "unbind" }, reply };
  const [, pin, asked = ""] = /^(pin\s+)?(.+)$/s.exec(args) ?? [];
  const session = await ownSession(context, asked.trim());
  if (session === null)
    return onlySays(
      `No session of yours with this agent, or more than one, is called ${JSON.stringify(asked)}. Say its whole title or its id.`,
    );
  const ttlMs = config.agents[agent]?.handoffTtlMs ?? config.handoff.ttlMs;
  const binding = pin === undefined ? "live" : "pinned";
  return { effect: { kind: "bind", binding, sessionId: session, ttlMs }, reply };
}

async function ownSession({ reader, speaker, agent }: CommandContext, asked: string): Promise<string | null> {
  if (speaker.person === undefined) return null;
  const sessions = await reader.sessions({ personId: speaker.person.id, agent, limit: SEARCHED });
  // Nobody's own sessions are listed where others read along, so there are no numbers to choose by.
  const found = /^\d{1,2}$/.test(asked) ? [] : chosen(sessions, asked);
  return found.length === 1 ? found[0]!.id : null;
}

async function standing(context: CommandContext): Promise<string> {
  const bound = await boundOf(context);
  if (bound === null) return "This chat speaks in its own session.";
  const { binding, session } = bound;
  const until =
    binding.expiresAt === null ? "until /handoff clear" : `until ${when(binding.expiresAt, context.config.timezone)}`;
  return `This chat speaks in session ${session.id}, at home in ${doorOf(session.homeKey)}, ${until}.`;
}
