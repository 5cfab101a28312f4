/**
 * The rows of durable turns written by plain prepared statements, in transactions of the same grouping: what the store cannot be faster
 * than. Nothing is looked up and nothing is decided; the numbers come from memory.
 */
import { Database } from "../src/store/sqlite/database.ts";
import { ANSWER, FACTS, QUESTION, USAGE } from "./durable-turn.ts";

export interface PlainTurns {
  /** One turn in each conversation at once, in three transactions: as admitted and begun, as marked, as settled. */
  run(): void;
  close(): void;
}

interface Conversation {
  readonly id: number;
  readonly sessionId: string;
  readonly target: string;
  readonly audience: string;
  readonly source: string;
  readonly lane: string;
  seq: number;
}

const AUTHORITY = JSON.stringify({ role: "owner", personId: "owner" });

/** In a file that the store has migrated. */
export function openPlainTurns(path: string, atOnce: number): PlainTurns {
  const db = new Database(path, { readOnly: false });
  db.exec("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY");
  const prefix = `at-${atOnce}-`;
  let events = 0;
  const transaction = (write: () => void): void => {
    db.exec("BEGIN IMMEDIATE");
    write();
    db.exec("COMMIT");
  };
  const conversations: Conversation[] = [];
  transaction(() => {
    db.run("INSERT OR IGNORE INTO account(id, platform) VALUES('http', 'http')");
    for (let n = 0; n < atOnce; n++) conversations.push(openConversation(db, `${prefix}${n}`));
  });
  return {
    run() {
      const open: Open[] = [];
      transaction(() => {
        for (const conversation of conversations) open.push(admit(db, conversation, `${prefix}${events++}`));
      });
      transaction(() => {
        for (const turn of open) mark(db, turn);
      });
      transaction(() => {
        for (const turn of open) settle(db, turn);
      });
    },
    close: () => db.close(),
  };
}

interface Open {
  readonly conversation: Conversation;
  readonly turnId: number;
}

function openConversation(db: Database, name: string): Conversation {
  const chatId = `owner/${name}`;
  const target = JSON.stringify({ door: "pull", platform: "http", account: "http", chatId });
  const source = { platform: "http", account: "http", chatId, chatType: "dm", userId: "owner", isBot: false };
  const now = Date.now();
  const placeId = db.insert(
    "INSERT INTO place(platform, scope, chat_id, thread_id, chat_type) VALUES('http', 'main', ?, '', 'dm')",
    chatId,
  );
  const id = db.insert(
    "INSERT INTO conversation(key, agent, person_id, place_id, target, at) VALUES(?, 'main', 'owner', ?, ?, ?)",
    `agent:main:http:dm:${encodeURIComponent(chatId)}`,
    placeId,
    target,
    now,
  );
  if (id !== placeId) throw new Error("A place has the number of its conversation here.");
  const sessionId = `s-${name}`;
  db.run("INSERT INTO session(id, home, agent, owner_person) VALUES(?, ?, 'main', 'owner')", sessionId, id);
  db.run("INSERT INTO span(session_id, n, opened_at, opened_by) VALUES(?, 1, ?, 'message')", sessionId, now);
  db.run("UPDATE conversation SET current_session = ? WHERE id = ?", sessionId, id);
  const audience = JSON.stringify({ kind: "person", personId: "owner" });
  return { id, sessionId, target, audience, source: JSON.stringify(source), lane: `http ${chatId}`, seq: 0 };
}

function admit(db: Database, conversation: Conversation, eventId: string): Open {
  const { id, sessionId } = conversation;
  const now = Date.now();
  const seq = ++conversation.seq;
  db.run("UPDATE place SET seq = ? WHERE id = ?", seq, id);
  const messageId = db.insert(
    `INSERT INTO message(place_id, place_seq, author_kind, author_id, author_name, ext_id, said_at, admitted_at, body, source)
     VALUES(?, ?, 'person', 'owner', NULL, NULL, ?, ?, ?, ?)`,
    id,
    seq,
    now,
    now,
    QUESTION,
    conversation.source,
  );
  db.run(
    "INSERT INTO event_seen(account_id, event_id, message_id, at) VALUES('http', ?, ?, ?)",
    eventId,
    messageId,
    now,
  );
  db.run("UPDATE conversation SET target = ?, at = ? WHERE id = ?", conversation.target, now, id);
  const turnId = db.insert(
    `INSERT INTO turn(session_id, conversation_id, state, epoch, attempt, ready_at, target, audience, authority, admitted_at, begun_at)
     VALUES(?, ?, 'running', 1, 1, ?, ?, ?, ?, ?, ?)`,
    sessionId,
    id,
    now,
    conversation.target,
    conversation.audience,
    AUTHORITY,
    now,
    now,
  );
  db.run("INSERT INTO intake(conversation_id, message_id, turn_id) VALUES(?, ?, ?)", id, messageId, turnId);
  db.run("UPDATE session SET seq = ?, last_human_at = ? WHERE id = ?", seq, now, sessionId);
  db.run(
    "INSERT INTO entry(session_id, seq, turn_id, message_id, role) VALUES(?, ?, ?, ?, 'user')",
    sessionId,
    seq,
    turnId,
    messageId,
  );
  return { conversation, turnId };
}

function mark(db: Database, { conversation, turnId }: Open): void {
  const seen = { placeId: conversation.id, throughSeq: 1_000_000 };
  db.run(
    "UPDATE turn SET prompt = ?, seen_bound = ?, prompted = 1 WHERE id = ?",
    FACTS,
    JSON.stringify({ seen, notesThrough: 0, entriesThrough: 1_000_000, runtime: "none" }),
    turnId,
  );
  db.run(
    `INSERT INTO runtime_state(session_id, runtime, ref, restarts, last_used_at) VALUES(?, 'none', ?, 0, ?)
     ON CONFLICT(session_id, runtime) DO UPDATE SET ref = excluded.ref, restarts = excluded.restarts, last_used_at = excluded.last_used_at`,
    conversation.sessionId,
    conversation.sessionId,
    Date.now(),
  );
}

function settle(db: Database, { conversation, turnId }: Open): void {
  const { id, sessionId, target } = conversation;
  const now = Date.now();
  const seq = ++conversation.seq;
  db.run("UPDATE place SET seq = ? WHERE id = ?", seq, id);
  const messageId = db.insert(
    `INSERT INTO message(place_id, place_seq, author_kind, author_id, said_at, admitted_at, body)
     VALUES(?, ?, 'agent', 'main', ?, ?, ?)`,
    id,
    seq,
    now,
    now,
    ANSWER,
  );
  db.run(
    "INSERT INTO entry(session_id, seq, turn_id, message_id, role) VALUES(?, ?, ?, ?, 'assistant')",
    sessionId,
    seq,
    turnId,
    messageId,
  );
  db.run(
    `INSERT INTO delivery(lane, turn_id, message_id, part, kind, target, body, state, due_at, created_at)
     VALUES(?, ?, ?, 0, 'reply', ?, ?, 'delivered', ?, ?)`,
    conversation.lane,
    turnId,
    messageId,
    target,
    ANSWER,
    now,
    now,
  );
  db.run(
    "UPDATE turn SET state = 'answered', usage = ?, reply_entry = ?, settled_at = ? WHERE id = ?",
    JSON.stringify(USAGE),
    seq,
    now,
    turnId,
  );
  db.run("UPDATE intake SET fate = 'answered' WHERE turn_id = ? AND fate IS NULL", turnId);
  db.run(
    `INSERT INTO seen(session_id, place_id, through_seq) VALUES(?, ?, 1)
     ON CONFLICT(session_id, place_id) DO UPDATE SET through_seq = max(through_seq, excluded.through_seq)`,
    sessionId,
    id,
  );
  db.run(
    `INSERT INTO runtime_state(session_id, runtime, seen_through) VALUES(?, 'none', 1)
     ON CONFLICT(session_id, runtime) DO UPDATE SET seen_through = max(seen_through, excluded.seen_through)`,
    sessionId,
  );
  db.run(
    "UPDATE session SET seq = ?, tokens_input = tokens_input + ?, tokens_output = tokens_output + ? WHERE id = ?",
    seq,
    USAGE.input,
    USAGE.output,
    sessionId,
  );
}
