import { bindingState, isAmongOwn } from "../../conversation/binding.ts";
import type { SessionRow } from "../../store/store.ts";
import type { CommandContext } from "./command.ts";

/** The session that a conversation speaks in, as far as can be seen without speaking: bound, configured, its own (H4). */
export async function sessionOf({
  config,
  reader,
  agent,
  conversation,
  now,
}: CommandContext): Promise<SessionRow | null> {
  if (conversation === null) return null;
  const bindings = await reader.bindings({ conversationId: conversation.id });
  const bound = bindings.find((binding) => bindingState(binding, now) === "valid");
  if (bound !== undefined) return reader.session(bound.sessionId);
  const configured = config.agents[agent]?.defaultSession;
  const fallback = configured === undefined ? null : await reader.session(configured);
  const isShared = Object.values(config.rooms).some((room) => room.conversation === conversation.key && room.share);
  if (
    fallback?.endedAt === null &&
    fallback.suspended === null &&
    isAmongOwn({ personId: conversation.personId, isShared }, fallback)
  )
    return fallback;
  return conversation.currentSession === null ? null : reader.session(conversation.currentSession);
}
