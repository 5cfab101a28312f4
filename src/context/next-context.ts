import { rulesFor, runtimeOf } from "../config/config.ts";
import type { ContextReader } from "../store/readers.ts";
import type { ConversationRow } from "../store/rows.ts";
import { sourceOfConversation } from "./door-line.ts";
import { asSeenBy, type ContextOptions, factsOf, stablePartOf } from "./turn-context.ts";

/** C7: the context that a conversation's next turn would get. */
export interface NextContext {
  readonly conversation: string;
  /** Null if the next message opens a new one. */
  readonly session: string | null;
  /** The turn that waits already; null for one that would come now. */
  readonly turn: number | null;
  readonly stablePart: string;
  readonly facts: string;
}

/** Writes nothing. `nonce` is the code in the block's delimiters; each turn has its own. */
export async function nextContextOf(
  conversation: ConversationRow,
  options: ContextOptions & { reader: ContextReader; now: number; nonce: string },
): Promise<NextContext> {
  const { config, reader, now } = options;
  const { agent, key, id } = conversation;
  const { rules } = rulesFor(config, { agent, key, source: sourceOfConversation(conversation) });
  const found = await reader.nextTurnMaterial({ conversationId: id, now, rules });
  if (found === null) throw new Error(`conversation ${id} is gone`);
  const material = await asSeenBy(runtimeOf(config, found.home), found, reader);
  return {
    conversation: key,
    session: material.session.id === "" ? null : material.session.id,
    turn: material.turn.id === 0 ? null : material.turn.id,
    stablePart: stablePartOf(material, options),
    facts: factsOf(material, options),
  };
}
