import type { AdmitOutcome, MessageEvent } from "../../events.ts";
import { addEntry } from "../messages.ts";
import { agentBegan, guardLoop, isLooping } from "../rooms.ts";
import type { ConversationRecord } from "../rows.ts";
import { type Admission, notify, outcomeOf, type Spoken } from "./admission.ts";
import { addIntake, placeOfEvent } from "./conversations.ts";
import { enqueue } from "./enqueue.ts";
import { firstSession } from "./sessions.ts";

/** Records a message that is not for the agent, or that the loop guard stops (G5); enqueues any other. */
export function admitMessage(admission: Admission, spoken: Spoken<MessageEvent>): AdmitOutcome {
  const { db, now } = admission;
  const { event, conversation, messageId } = spoken;
  const recorded = { conversationId: conversation.id, messageId, fate: "recorded" };
  if (!event.addressed) {
    addIntake(db, recorded);
    return { ...outcomeOf(admission, spoken), kind: "recorded" };
  }
  const guardedPlace = placeOfProgram(admission, spoken);
  if (guardedPlace !== null) {
    const { guarded, isFirst } = guardLoop(db, guardedPlace, now);
    if (guarded) {
      addIntake(db, { ...recorded, reason: "loop_guard" });
      if (isFirst) notify(admission, event.target, { code: "loop_guard", args: {} });
      return { ...outcomeOf(admission, spoken), kind: "recorded" };
    }
  }
  const isToSeed = event.once !== undefined && conversation.current_session === null;
  const enqueued = enqueue(admission, isToSeed ? { ...spoken, conversation: seeded(admission, spoken) } : spoken);
  if (guardedPlace !== null && enqueued.kind === "queued") agentBegan(db, guardedPlace, now);
  return { ...outcomeOf(admission, spoken), ...enqueued };
}

/** The place where the loop guard counts the message (G5); null for a message of a person. */
function placeOfProgram({ db }: Admission, { event, conversation, who }: Spoken<MessageEvent>): number | null {
  if (who.role !== "guest") return null;
  const { kind } = event.speaker.author;
  const placeId = placeOfEvent(db, conversation, event);
  return kind === "agent" || kind === "bot" || isLooping(db, placeId) ? placeId : null;
}

/** Begins a nameless conversation with the history that its request brought. */
function seeded(admission: Admission, { event, conversation }: Spoken<MessageEvent>): ConversationRecord {
  const sessionId = firstSession(admission, conversation);
  for (const { role, text } of event.once?.history ?? [])
    addEntry(admission.db, sessionId, { turnId: null, role, body: text });
  return { ...conversation, current_session: sessionId };
}
