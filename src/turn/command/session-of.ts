import { bindingState } from "../../conversation/binding.ts";
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
  const id = bound?.sessionId ?? config.agents[agent]?.defaultSession ?? conversation.currentSession;
  return id === null ? null : reader.session(id);
}
