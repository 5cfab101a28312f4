import type { Authority, Role, Speaker } from "../../conversation/person.ts";
import { type Deed, isShared, rightFault } from "../../conversation/rights.ts";
import type { Author } from "../../message/message.ts";
import { accountId, type Source } from "../../message/source.ts";
import type { CommandEvent } from "../store.ts";
import type { Database } from "./database.ts";
import type { ConversationRecord } from "./rows.ts";

/** Rights as the store knows them: of a speaker, and of those whose turns a command would end (A8). */

/** As the gateway says, else by the linked identity, else a guest's (S3). */
export function authorityOf(db: Database, source: Source, speaker: Speaker): Authority {
  if (speaker.person !== undefined) return { role: speaker.person.role, personId: speaker.person.id };
  // In a room of XMPP the id of an occupant is what he calls himself: rights hang on what the service vouches for (A4).
  const isVouchedFor = source.platform !== "xmpp" || (source.chatType === "dm" && source.scopeId === undefined);
  const linked =
    source.userId === undefined || !isVouchedFor
      ? undefined
      : db.get<{ id: string; role: Role }>(
          "SELECT p.id, p.role FROM identity i JOIN person p ON p.id = i.person_id WHERE i.platform = ? AND i.scope = ? AND i.user_id = ?",
          source.platform,
          source.scopeId ?? "",
          accountId(source.platform, source.userId),
        );
  return linked === undefined ? { role: "guest" } : { role: linked.role, personId: linked.id };
}

/** Why a command is not carried out there (a reason of `not_done`), or null. A question has its own rule (H12). */
export function commandFault(
  db: Database,
  conversation: ConversationRecord,
  effect: CommandEvent["effect"],
  { role }: Authority,
): string | null {
  if (effect.kind === "none" || effect.kind === "answer") return null;
  const authors = rolesEndedBy(db, conversation, effect.kind);
  return rightFault(effect.kind, role, { isShared: isShared(conversation.key), authors });
}

/** Of a stop it is the conversation's running turn; of the others all that is open there, or runs in its session. */
const STOPPED = "SELECT id FROM turn WHERE conversation_id = ?1 AND state = 'running'";
const ENDED = `${STOPPED} UNION SELECT id FROM turn WHERE conversation_id = ?1 AND state = 'queued'
  UNION SELECT id FROM turn WHERE session_id = ?2 AND state = 'running'`;

/** The roles, as they are now, of those whose turns a deed would end. */
function rolesEndedBy(db: Database, { id: here, current_session }: ConversationRecord, deed: Deed): Role[] {
  const authors = db.all<{ kind: Author["kind"]; id: string; source: string | null }>(
    `SELECT DISTINCT m.author_kind AS kind, m.author_id AS id, m.source FROM intake i JOIN message m ON m.id = i.message_id
     WHERE i.turn_id IN(${deed === "stop" ? STOPPED : ENDED})`,
    ...(deed === "stop" ? [here] : [here, current_session]),
  );
  return authors.map(({ kind, id, source }) => {
    if (kind !== "person") return "guest";
    const person = db.get<{ role: Role }>("SELECT role FROM person WHERE id = ?", id);
    if (person !== undefined || source === null) return person?.role ?? "guest";
    return authorityOf(db, JSON.parse(source) as Source, { author: { kind, id } }).role;
  });
}

/** T5 interrupt, A8: whether words may end the turn that runs before them. */
export function mayInterrupt(db: Database, conversation: ConversationRecord, { role }: Authority): boolean {
  return commandFault(db, conversation, { kind: "stop" }, { role }) === null;
}
