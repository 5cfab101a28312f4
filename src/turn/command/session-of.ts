import { rulesFor } from "../../config/config.ts";
import { bindingFault, bindingState, isAmongOwn, type Readers } from "../../conversation/binding.ts";
import type { BindingRow, ConversationRow, SessionRow } from "../../store/rows.ts";
import type { CommandContext } from "./command.ts";

/** The session that a conversation speaks in now: the bound one, the configured one, or its own (H4). */
export async function sessionOf(context: CommandContext): Promise<SessionRow | null> {
  const { config, reader, agent, conversation } = context;
  if (conversation === null) return null;
  const bound = await boundOf(context);
  if (bound !== null) return bound.session;
  const configured = config.agents[agent]?.defaultSession;
  const fallback = configured === undefined ? null : await reader.session(configured);
  if (
    fallback?.endedAt === null &&
    fallback.suspended === null &&
    isAmongOwn(await readersOf(context, conversation, fallback), fallback)
  )
    return fallback;
  return conversation.currentSession === null ? null : reader.session(conversation.currentSession);
}

/** The conversation's valid binding. One that the next message will end is not shown to those who read along (H7, H10). */
export async function boundOf(context: CommandContext): Promise<{ binding: BindingRow; session: SessionRow } | null> {
  const { reader, agent, conversation, now } = context;
  if (conversation === null) return null;
  for (const binding of await reader.bindings({ conversationId: conversation.id })) {
    const session = await reader.session(binding.sessionId);
    if (session === null || bindingState(binding, now) !== "valid") continue;
    const readers = await readersOf(context, conversation, session);
    if (bindingFault(binding, { agent, ...readers }, session) === null) return { binding, session };
  }
  return null;
}

/** The conversation's readers. The speaker counts, although their words are not stored yet. */
async function readersOf(
  { config, reader, agent, source, speaker }: CommandContext,
  { key, personId, placeId }: ConversationRow,
  { ownerPerson }: SessionRow,
): Promise<Readers> {
  const { share: isShared = false } = rulesFor(config, { agent, source, key }).rules;
  const othersRead =
    personId === null &&
    (speaker.person?.id !== ownerPerson || (await reader.hasOtherReaders({ placeId, personId: ownerPerson })));
  return { personId, isShared, othersRead };
}
