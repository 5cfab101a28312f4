import { readAgentState } from "../../../conversation/agent-state.ts";
import type { Platform } from "../../../message/source.ts";
import type { Target } from "../../../message/target.ts";
import type { ConversationReader } from "../../readers.ts";
import type { BindingRow, HomeRow } from "../../rows.ts";
import type { Database } from "../database.ts";
import { conversationRow, sessionRow } from "../records.ts";
import { hasOtherReaders } from "../rooms.ts";
import {
  authorOf,
  type BindingRecord,
  bindingOf,
  CONVERSATION_COLUMNS,
  type ConversationRecord,
  conversationOf,
  type MessageRecord,
  messageOf,
  type RuntimeStateRecord,
  runtimeStateOf,
  SESSION_QUERY,
  type SessionJoined,
  sessionOf,
} from "../rows.ts";
import type { ReadsOf } from "./reads.ts";

export const conversationReads: ReadsOf<ConversationReader> = {
  conversation(db, key) {
    return conversationRow(db, "key = ?", key) ?? null;
  },

  conversationById(db, id) {
    return conversationRow(db, "id = ?", id) ?? null;
  },

  conversations(db, query) {
    const { sql, values } = whereOf({ "c.kind": "kept", "c.person_id": query.personId });
    return db
      .all<ConversationRecord & { open_turns: number }>(
        `SELECT ${CONVERSATION_COLUMNS} FROM conversation c ${sql} ORDER BY c.at DESC, c.id DESC LIMIT ?`,
        ...values,
        query.limit ?? 100,
      )
      .map(conversationOf);
  },

  session(db, sessionId) {
    return sessionRow(db, sessionId) ?? null;
  },

  sessions(db, query) {
    const { sql, values } = whereOf({
      "c.kind": "kept",
      "s.home": query.conversationId,
      "s.owner_person": query.personId,
      "s.agent": query.agent,
    });
    return db
      .all<SessionJoined>(
        `${SESSION_QUERY} ${sql} ORDER BY coalesce(s.last_human_at, p.opened_at) DESC, s.id DESC LIMIT ?`,
        ...values,
        query.limit ?? 100,
      )
      .map(sessionOf);
  },

  runtimeStates(db, sessionId) {
    return db
      .all<RuntimeStateRecord>("SELECT * FROM runtime_state WHERE session_id = ? ORDER BY last_used_at DESC", sessionId)
      .map(runtimeStateOf);
  },

  agentState(db, conversationId) {
    const row = db.get<{ agent_state: string | null }>(
      "SELECT agent_state FROM conversation WHERE id = ?",
      conversationId,
    );
    return readAgentState(row?.agent_state ?? null);
  },

  jobs(db, sessionId) {
    return db.all<{ id: string; title: string; openedAt: number }>(
      "SELECT id, title, opened_at AS openedAt FROM job WHERE session_id = ? AND closed_at IS NULL ORDER BY opened_at, id",
      sessionId,
    );
  },

  homes: homesOf,

  foreignSessions(db, runtime) {
    return db.all<{ id: string; sessionId: string; throughId: number }>(
      "SELECT id, session_id AS sessionId, through_id AS throughId FROM foreign_session WHERE runtime = ? ORDER BY id",
      runtime,
    );
  },

  bindings: bindingRows,

  placeMessages(db, query) {
    return db
      .all<MessageRecord>(
        "SELECT * FROM message WHERE place_id = ? AND place_seq > ? ORDER BY place_seq LIMIT ?",
        query.placeId,
        query.after,
        query.limit,
      )
      .map(messageOf);
  },

  authorOf(db, { place, externalId }) {
    const message = db.get<MessageRecord>(
      `SELECT m.* FROM message m JOIN place p ON p.id = m.place_id
       WHERE p.platform = ? AND p.scope = ? AND p.chat_id = ? AND p.thread_id = ? AND m.ext_id = ?`,
      place.platform,
      place.scope,
      place.chatId,
      place.threadId,
      externalId,
    );
    if (message !== undefined) return authorOf(message.author_kind, message.author_id, message.author_name);
    const sent = db
      .all<{ target: string }>("SELECT target FROM delivery WHERE ext_id = ?", externalId)
      .map(({ target }) => JSON.parse(target) as Target)
      .find(({ platform, chatId }) => platform === place.platform && chatId === place.chatId);
    return sent === undefined ? null : { kind: "account", id: sent.account };
  },

  hasOtherReaders(db, query) {
    return hasOtherReaders(db, query.placeId, query.personId);
  },
};

export function homesOf(db: Database, agent: string): HomeRow[] {
  return db
    .all<{ platform: Platform; key: string; target: string; name: string | null; at: number }>(
      `SELECT h.platform, c.key, c.target, p.name, h.at FROM home h JOIN conversation c ON c.id = h.conversation_id
       JOIN place p ON p.id = c.place_id WHERE h.agent = ? ORDER BY h.platform`,
      agent,
    )
    .map(({ key, target, ...row }) => ({ ...row, conversationKey: key, target: JSON.parse(target) as Target }));
}

export function bindingRows(
  db: Database,
  query: { agent?: string; conversationId?: number; sessionId?: string },
): BindingRow[] {
  const { sql, values } = whereOf({
    "c.agent": query.agent,
    "b.conversation_id": query.conversationId,
    "b.session_id": query.sessionId,
  });
  return db
    .all<BindingRecord>(
      `SELECT b.*, c.key FROM binding b CROSS JOIN conversation c ON c.id = b.conversation_id ${sql} ORDER BY c.key, b.kind`,
      ...values,
    )
    .map(bindingOf);
}

/** A WHERE clause of the given conditions only: an absent one must not keep SQLite from an index. */
function whereOf(conditions: Readonly<Record<string, string | number | undefined>>): {
  sql: string;
  values: (string | number)[];
} {
  const given = Object.entries(conditions).filter(
    (entry): entry is [string, string | number] => entry[1] !== undefined,
  );
  const sql = given.length === 0 ? "" : `WHERE ${given.map(([column]) => `${column} = ?`).join(" AND ")}`;
  return { sql, values: given.map(([, value]) => value) };
}
