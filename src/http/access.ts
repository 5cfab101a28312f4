import type { Person } from "../conversation/person.ts";
import { isSessionKey, parseLocalDoorChatId, parseSessionKey } from "../conversation/session-key.ts";
import { TertuliaError } from "../errors.ts";
import { isLocalDoor } from "../message/source.ts";
import type { ConversationReader } from "../store/readers.ts";
import type { ConversationRow, SessionRow } from "../store/rows.ts";

/** A token reaches its own person's conversations only; raw keys are for the owner (K19). What one may not see does not exist. */
export function maySee(person: Person, conversation: Pick<ConversationRow, "personId">): boolean {
  return person.role === "owner" || (conversation.personId !== null && conversation.personId === person.id);
}

export async function conversationFor(
  reader: ConversationReader,
  person: Person,
  key: string,
): Promise<ConversationRow> {
  const conversation = await reader.conversation(key);
  if (conversation === null || !maySee(person, conversation))
    throw new TertuliaError("conversation_unknown", `There is no conversation ${key}.`);
  return conversation;
}

export async function sessionFor(reader: ConversationReader, person: Person, id: string): Promise<SessionRow> {
  const session = await reader.session(id);
  const isOwn = session !== null && (person.role === "owner" || session.ownerPerson === person.id);
  if (!isOwn) throw new TertuliaError("session_unknown", `There is no session ${id}.`);
  return session;
}

/** Whether a key names a conversation of this person, seen or not yet: an own door (K19), or the one of all doors (K12). */
export function isOwnKey(person: Person, key: string): boolean {
  if (person.role === "owner") return true;
  const parts = parseSessionKey(key);
  if (parts.form === "person") return parts.personId === person.id;
  if (parts.form !== "chat" || parts.chatType !== "dm" || !isLocalDoor(parts.platform)) return false;
  return parseLocalDoorChatId(parts.chatId)?.personId === person.id;
}

/** Throws `conversation_unknown` for what is no key, or somebody else's. */
export function requireOwnKey(person: Person, key: string): void {
  if (isSessionKey(key) && isOwnKey(person, key)) return;
  throw new TertuliaError("conversation_unknown", `There is no conversation ${key}.`);
}
