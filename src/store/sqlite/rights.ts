import type { Authority, Role, Speaker } from "../../conversation/person.ts";
import { type Deed, isShared, rightFault } from "../../conversation/rights.ts";
import type { Author } from "../../message/message.ts";
import { accountId, type Source } from "../../message/source.ts";
import type { CommandEvent } from "../events.ts";
import type { Database } from "./database.ts";
import type { ConversationRecord } from "./rows.ts";

/** Rights as the store knows them: those of a speaker, and of the authors whose turns a command would end (A8). */

/** The speaker's authority: as the gateway says, else by their linked account, else a guest's (S3). */
export function authorityOf(db: Database, source: Source, speaker: Speaker): Authority {
  if (speaker.person !== undefined) return { role: speaker.person.role, personId: speaker.person.id };
  // In a room of XMPP occupants choose their id themselves: rights need an id that the service vouches for (A4).
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

/** The reason why a command is not carried out (of `not_done`), or null. Answers have their own rule (H12). */
export function commandFault(
  db: Database,
  conversation: ConversationRecord,
  { effect, who }: { readonly effect: CommandEvent["effect"]; readonly who: Authority },
): string | null {
  if (effect.kind === "none" || effect.kind === "answer") return null;
  const authors = rolesEndedBy(db, conversation, effect.kind);
  return rightFault(effect.kind, who.role, { isShared: isShared(conversation.key), authors });
}

/** A stop ends the conversation's running turn; other commands end all that is open there, or runs in its session. */
const STOPPED = "SELECT id FROM turn WHERE conversation_id = ?1 AND state = 'running'";
const ENDED = `${STOPPED} UNION SELECT id FROM turn WHERE conversation_id = ?1 AND state = 'queued'
  UNION SELECT id FROM turn WHERE session_id = ?2 AND state = 'running'`;

/** The present roles of the authors whose turns a deed would end. */
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

/** True if a message may interrupt the turn that runs (T5, A8). */
export function mayInterrupt(db: Database, conversation: ConversationRecord, who: Authority): boolean {
  return commandFault(db, conversation, { effect: { kind: "stop" }, who }) === null;
}
