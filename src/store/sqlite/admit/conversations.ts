import type { Authority } from "../../../conversation/person.ts";
import { placeOf } from "../../../conversation/place.ts";
import { parseLocalDoorChatId, sessionKeyFor } from "../../../conversation/session-key.ts";
import { isLocalDoor, requireAddress, type Source } from "../../../message/source.ts";
import type { Target } from "../../../message/target.ts";
import type { AdmitRules, ConversationRef } from "../../events.ts";
import type { Database } from "../database.ts";
import { conversationRecord, conversationUnder } from "../records.ts";
import { authorityOf } from "../rights.ts";
import { addReader } from "../rooms.ts";
import type { ConversationRecord, MessageRecord } from "../rows.ts";
import { type Admission, Rejection } from "./admission.ts";

/** Finds or opens the place and the conversation that an event belongs to (S2, K). */

/** The parts of an event that lead to its conversation. */
interface Origin {
  readonly source: Source;
  readonly into?: string;
  readonly target: Target;
  readonly rules: AdmitRules;
  readonly once?: object;
}

export function conversationFor(admission: Admission, event: Origin, who: Authority): ConversationRecord {
  const { db, batch } = admission;
  if (event.into !== undefined) {
    const named = conversationUnder(db, event.into);
    if (named === undefined) throw new Rejection("conversation_unknown", `There is no conversation ${event.into}.`);
    return named;
  }
  const personId = ownerOf(event.source, who);
  const { key } = sessionKeyFor({
    agent: batch.agent,
    source: event.source,
    rules: event.rules.keys,
    personId: personId ?? undefined,
  });
  return conversationUnder(db, key) ?? openConversation(admission, event, { key, personId });
}

function openConversation(
  { db, batch, now }: Admission,
  { source, target, once }: Origin,
  { key, personId }: { key: string; personId: string | null },
): ConversationRecord {
  const placeId = placeFor(db, batch.agent, source);
  const id = db.insert(
    "INSERT INTO conversation(key, agent, person_id, place_id, kind, target, at) VALUES(?, ?, ?, ?, ?, ?, ?)",
    key,
    batch.agent,
    personId,
    placeId,
    once === undefined ? "kept" : "once",
    JSON.stringify(target),
    now,
  );
  return conversationRecord(db, id);
}

/** The person whose direct chat it is; at a built-in door the one that its chat id names (K19). A room belongs to nobody alone. */
function ownerOf(source: Source, who: Authority): string | null {
  if (source.chatType !== "dm") return null;
  const named = isLocalDoor(source.platform) ? parseLocalDoorChatId(source.chatId ?? "") : undefined;
  return named?.personId ?? who.personId ?? null;
}

/** The conversation of a send or a binding. */
export function conversationOfRef(admission: Admission, ref: ConversationRef, rules: AdmitRules): ConversationRecord {
  const { db } = admission;
  if (ref.kind === "source") {
    const { source, target } = ref;
    // The chat is its addressee's, not the sender's.
    const addressee = authorityOf(db, source, { author: { kind: "person", id: source.userId ?? "" } });
    const conversation = conversationFor(admission, { source, target, rules }, addressee);
    if (source.chatType === "dm" && !isLocalDoor(source.platform)) {
      const id = addressee.personId ?? source.userId ?? "";
      addReader(admission, conversation.place_id, { kind: "person", id });
    }
    return conversation;
  }
  const known = conversationUnder(db, ref.key);
  // A nameless conversation is pruned in two days: nothing may depend on it.
  if (known === undefined || known.kind === "once")
    throw new Rejection("conversation_unknown", `There is no conversation ${ref.key}.`);
  return known;
}

export function knownPlace(db: Database, agent: string, source: Source): number | undefined {
  const place = placeOf({ agent, source });
  return db.get<{ id: number }>(
    "SELECT id FROM place WHERE platform = ? AND scope = ? AND chat_id = ? AND thread_id = ?",
    place.platform,
    place.scope,
    place.chatId,
    place.threadId,
  )?.id;
}

/** The place of a source; stores a new one. Throws `source_invalid` without an address. */
export function placeFor(db: Database, agent: string, source: Source): number {
  requireAddress(source);
  const known = knownPlace(db, agent, source);
  if (known !== undefined) return known;
  const place = placeOf({ agent, source });
  return db.insert(
    "INSERT INTO place(platform, scope, chat_id, thread_id, chat_type, name) VALUES(?, ?, ?, ?, ?, ?)",
    place.platform,
    place.scope,
    place.chatId,
    place.threadId,
    source.chatType,
    source.chatName ?? null,
  );
}

/** The place that a message is said in: a conversation over several doors (K12) has one for each. */
export function placeOfEvent(
  db: Database,
  conversation: ConversationRecord,
  event: Pick<Origin, "into" | "source">,
): number {
  return event.into === undefined ? placeFor(db, conversation.agent, event.source) : conversation.place_id;
}

/** A message by the platform's id: it is stored once per place, whichever account brings it (T3). */
export function messageIn(
  db: Database,
  placeId: number | undefined,
  externalId: string | undefined,
): MessageRecord | undefined {
  if (placeId === undefined || externalId === undefined) return undefined;
  return db.get<MessageRecord>("SELECT * FROM message WHERE place_id = ? AND ext_id = ?", placeId, externalId);
}

export function addIntake(
  db: Database,
  intake: { conversationId: number; messageId: number; turnId?: number; fate?: string; reason?: string },
): void {
  db.run(
    "INSERT INTO intake(conversation_id, message_id, turn_id, fate, reason) VALUES(?, ?, ?, ?, ?)",
    intake.conversationId,
    intake.messageId,
    intake.turnId ?? null,
    intake.fate ?? null,
    intake.reason ?? null,
  );
}
