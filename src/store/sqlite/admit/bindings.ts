import { isAmongOwn } from "../../../conversation/binding.ts";
import type { Speaker } from "../../../conversation/person.ts";
import { buildSessionKey, parseSessionKey } from "../../../conversation/session-key.ts";
import type { Source } from "../../../message/source.ts";
import type { Target } from "../../../message/target.ts";
import type { BindEvent, ForeignRef, SendEvent } from "../../events.ts";
import type { BindingRow } from "../../rows.ts";
import type { Database } from "../database.ts";
import { bindingsOf, conversationRecord, conversationUnder, sessionRecord } from "../records.ts";
import { readersOf } from "../route.ts";
import { bindingOf, type ConversationRecord, type SessionRecord } from "../rows.ts";
import { type Admission, Rejection } from "./admission.ts";
import { placeFor } from "./conversations.ts";
import { dropBinding, endIfLeft, firstSession, reopenSession } from "./sessions.ts";

/** Bindings of conversations to sessions: which session may be bound (H5, H7, H9), and how a binding is set and cleared. */

const OTHERS_READ = "Others read along there, and would see what this session holds.";

/** The session that a send or a binding names, or null. Throws a `Rejection` if it may not be bound into the conversation. */
export function namedSession(
  admission: Admission,
  event: SendEvent | BindEvent,
  {
    conversation,
    sessionId,
    foreign,
  }: Pick<SendEvent, "sessionId" | "foreign"> & { readonly conversation: ConversationRecord },
): SessionRecord | null {
  const id = foreign === undefined ? sessionId : foreignSession(admission, event, { conversation, foreign });
  return id === null ? null : bindable(admission, event, { conversation, sessionId: id });
}

function bindable(
  { db }: Admission,
  event: SendEvent | BindEvent,
  { conversation, sessionId }: { readonly conversation: ConversationRecord; readonly sessionId: string },
): SessionRecord {
  const session = sessionRecord(db, sessionId);
  if (session === undefined || conversationRecord(db, session.home).kind === "once")
    throw new Rejection("session_unknown", `There is no session ${sessionId}.`);
  if (session.ended_at !== null || session.suspended !== null)
    throw new Rejection("session_ended", `Session ${sessionId} has ended.`);
  if (session.agent !== conversation.agent) {
    throw new Rejection(
      "agent_mismatch",
      `Session ${sessionId} belongs to agent ${session.agent}, the conversation to ${conversation.agent}.`,
    );
  }
  // A session speaks at home without a binding, whoever owns it.
  if (event.kind === "send" && session.home === conversation.id) return session;
  const { person } = event.by;
  const { owner_person: ownerPerson } = session;
  if (ownerPerson === null)
    throw new Rejection("forbidden", "A session that is nobody's is bound nowhere: send with --no-session.");
  if (ownerPerson !== person?.id) throw new Rejection("forbidden", "Only the owner of a session binds it.");
  if (event.kind === "send" && event.byAgent === true && event.rules.share !== true)
    throw new Rejection("not_shared", "An agent binds a room only where the configuration says `share: true`.");
  requireOwnReaders(db, event, { conversation, ownerPerson });
  return session;
}

/** Throws where others read along, unless the sender or the configuration lets them (H7). */
function requireOwnReaders(
  db: Database,
  event: SendEvent | BindEvent,
  { conversation, ownerPerson }: { readonly conversation: ConversationRecord; readonly ownerPerson: string },
): void {
  if (event.share === true) return;
  const readers = readersOf(db, conversation, { rules: event.rules, owner: ownerPerson });
  if (!isAmongOwn(readers, { ownerPerson })) throw new Rejection("not_shared", OTHERS_READ);
}

/** The session of another program, where it may be bound. */
function foreignSession(
  admission: Admission,
  event: SendEvent | BindEvent,
  { conversation, foreign }: { readonly conversation: ConversationRecord; readonly foreign: ForeignRef },
): string {
  const { db } = admission;
  const { agent } = conversation;
  const { id: ownerPerson } = requireOwner(event.by);
  if (sessionBehind(db, foreign, agent) === null) requireOwnReaders(db, event, { conversation, ownerPerson });
  return adoptSession(admission, event.by, { agent, foreign });
}

function requireOwner({ person }: Speaker): NonNullable<Speaker["person"]> {
  if (person?.role !== "owner") throw new Rejection("forbidden", "Only the owner brings a session of another program.");
  return person;
}

/** The session for one that a runtime keeps itself (H13). Its home is at no door of ours and belongs to the person who brings it. */
export function adoptSession(
  admission: Admission,
  by: Speaker,
  { agent, foreign }: { readonly agent: string; readonly foreign: ForeignRef },
): string {
  const { db, now } = admission;
  const { runtime, id, name } = foreign;
  const person = requireOwner(by);
  const key = buildSessionKey({ form: "foreign", agent, runtime, id });
  const behind = sessionBehind(db, foreign, agent) ?? conversationUnder(db, key)?.current_session ?? null;
  if (behind !== null) {
    const session = sessionRecord(db, behind)!;
    // Its own program has it, and was asked: only this gateway took it for ended.
    const isLost = session.ended_at !== null && conversationRecord(db, session.home).key === key;
    if (isLost && session.owner_person === person.id) reopenSession(admission, session);
    return behind;
  }
  const chatId = `${runtime}:${id}`;
  const source: Source = { platform: "console", account: "console", chatId, chatType: "dm", isBot: false };
  const target: Target = { door: "pull", platform: "console", account: "console", scopeId: agent, chatId };
  const home = db.insert(
    "INSERT INTO conversation(key, agent, person_id, place_id, kind, target, at) VALUES(?, ?, ?, ?, 'kept', ?, ?)",
    key,
    agent,
    person.id,
    placeFor(db, agent, source),
    JSON.stringify(target),
    now,
  );
  const sessionId = firstSession(admission, conversationRecord(db, home));
  db.run("INSERT INTO runtime_state(session_id, runtime, ref) VALUES(?, ?, ?)", sessionId, name, id);
  return sessionId;
}

/** The session that the runtime keeps under that id already: one of this gateway's own, or one that the agent has brought in. */
function sessionBehind(db: Database, { name, id }: ForeignRef, agent: string): string | null {
  const behind = db.all<{ id: string; agent: string; key: string }>(
    `SELECT s.id, s.agent, c.key FROM runtime_state r JOIN session s ON s.id = r.session_id JOIN conversation c ON c.id = s.home
     WHERE r.runtime = ? AND r.ref = ? ORDER BY s.ended_at IS NOT NULL, r.last_used_at DESC`,
    name,
    id,
  );
  const isIt = (row: { agent: string; key: string }) =>
    row.agent === agent || parseSessionKey(row.key).form !== "foreign";
  return behind.find(isIt)?.id ?? null;
}

/** Sets a binding in place of one of its kind. The caller has checked that it may (H7, H9). */
export function setBinding(
  admission: Admission,
  conversation: ConversationRecord,
  binding: { kind: "live" | "pinned"; sessionId: string; ttlMs: number; by: string; shared: boolean },
): BindingRow {
  const { db, now } = admission;
  const ofKind = () => bindingsOf(db, conversation.id).find((row) => row.kind === binding.kind);
  const replaced = ofKind();
  db.run(
    `INSERT INTO binding(conversation_id, kind, session_id, sent_at, ttl_ms, set_by, shared) VALUES(?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT(conversation_id, kind) DO UPDATE SET session_id = excluded.session_id, sent_at = excluded.sent_at, ttl_ms = excluded.ttl_ms, set_by = excluded.set_by, shared = excluded.shared`,
    conversation.id,
    binding.kind,
    binding.sessionId,
    now,
    binding.kind === "pinned" ? null : binding.ttlMs,
    binding.by,
    binding.shared ? 1 : 0,
  );
  if (replaced !== undefined) endIfLeft(admission, replaced.session_id);
  return bindingOf(ofKind()!);
}

/** Clears all bindings of a conversation; true if it had any. */
export function clearBindings(admission: Admission, conversation: ConversationRecord): boolean {
  const bindings = bindingsOf(admission.db, conversation.id);
  for (const binding of bindings) dropBinding(admission, binding, "cleared");
  return bindings.length > 0;
}
