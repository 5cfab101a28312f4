import { rulesFor } from "../../config.ts";
import { bindingState, isAmongOwn } from "../../conversation/binding.ts";
import type { SessionRow } from "../../store/store.ts";
import type { CommandContext } from "./command.ts";

/** The session that a conversation speaks in, as far as can be seen without speaking: bound, configured, its own (H4). */
export async function sessionOf({
  config,
  reader,
  agent,
  conversation,
  source,
  now,
}: CommandContext): Promise<SessionRow | null> {
  if (conversation === null) return null;
  const bindings = await reader.bindings({ conversationId: conversation.id });
  const bound = bindings.find((binding) => bindingState(binding, now) === "valid");
  if (bound !== undefined) return reader.session(bound.sessionId);
  const configured = config.agents[agent]?.defaultSession;
  const fallback = configured === undefined ? null : await reader.session(configured);
  const { share: isShared = false } = rulesFor(config, { agent, source, key: conversation.key }).rules;
  const { personId, placeId } = conversation;
  const othersRead =
    personId === null &&
    fallback !== null &&
    (await reader.hasOtherReaders({ placeId, personId: fallback.ownerPerson }));
  if (
    fallback?.endedAt === null &&
    fallback.suspended === null &&
    isAmongOwn({ personId, isShared, othersRead }, fallback)
  )
    return fallback;
  return conversation.currentSession === null ? null : reader.session(conversation.currentSession);
}
