import { buildSessionKey } from "../../conversation/session-key.ts";
import type { Target } from "../../message/target.ts";
import type { ImportedSession, ImportResult, KeepChange } from "../keep.ts";
import type { Database } from "./database.ts";
import { addEntry, addMessage } from "./messages.ts";
import type { SessionRecord } from "./rows.ts";

type Import = Extract<KeepChange, { kind: "import" }>;

interface ForeignRecord {
  session_id: string;
  through_id: number;
  entries: number;
}

/** H13: sessions of another program, each with a home of its own. What is here already is not written again. */
export function importSessions(db: Database, change: Import): ImportResult {
  const result = { sessions: 0, messages: 0, wentOn: [] as string[] };
  for (const session of change.sessions) {
    const known = foreignRecord(db, change.runtime, session.id);
    // It was brought here by a handoff, or run from here, and its turns are here (H13).
    if (known === undefined && isHere(db, change, session)) {
      result.wentOn.push(session.id);
      continue;
    }
    const record = known ?? openForeign(db, change, session);
    if (known === undefined) result.sessions++;
    const news = session.messages.filter(({ id }) => id > record.through_id);
    if (news.length === 0) continue;
    const here = db.get<SessionRecord>("SELECT * FROM session WHERE id = ?", record.session_id)!;
    // It went on in both programs: two writers make no transcript.
    if (here.seq > record.entries) {
      result.wentOn.push(session.id);
      continue;
    }
    append(db, change, { session, news, here });
    result.messages += news.length;
  }
  return result;
}

function foreignRecord(db: Database, runtime: string, id: string): ForeignRecord | undefined {
  return db.get<ForeignRecord>("SELECT * FROM foreign_session WHERE runtime = ? AND id = ?", runtime, id);
}

function homeKey({ agent, runtime }: Import, { id }: ImportedSession): string {
  return buildSessionKey({ form: "foreign", agent, runtime, id });
}

/** True if it has a home here, or a runtime's reference names it: an id, or a record that holds one. */
function isHere(db: Database, change: Import, session: ImportedSession): boolean {
  const found = db.get(
    `SELECT 1 FROM conversation WHERE key = ?1 UNION ALL SELECT 1 FROM runtime_state WHERE ref = ?2
       OR (json_valid(ref) AND EXISTS(SELECT 1 FROM json_tree(ref) t WHERE t.atom = ?2))`,
    homeKey(change, session),
    session.id,
  );
  return found !== undefined;
}

function openForeign(db: Database, change: Import, session: ImportedSession): ForeignRecord {
  const { runtime, agent, now } = change;
  const key = homeKey(change, session);
  const placeId = db.insert(
    "INSERT INTO place(platform, scope, chat_id, thread_id, chat_type, name) VALUES(?, ?, ?, '', ?, ?)",
    session.platform,
    `foreign:${agent}:${runtime}`,
    session.id,
    session.ownerPerson === null ? "group" : "dm",
    session.title,
  );
  // Nobody listens there: what is told to that door is delivered with its commit, and seen by whoever reads it back.
  const target: Target = { door: "pull", platform: "console", account: `foreign:${runtime}`, chatId: session.id };
  const home = db.insert(
    "INSERT INTO conversation(key, agent, person_id, place_id, kind, target, at) VALUES(?, ?, ?, ?, 'kept', ?, ?)",
    key,
    agent,
    session.ownerPerson,
    placeId,
    JSON.stringify(target),
    now,
  );
  const parent = session.parentId === null ? undefined : foreignRecord(db, runtime, session.parentId);
  db.run(
    "INSERT INTO session(id, home, agent, owner_person, parent_id, ended_at, title) VALUES(?, ?, ?, ?, ?, ?, ?)",
    session.freshId,
    home,
    agent,
    session.ownerPerson,
    parent?.session_id ?? null,
    session.endedAt,
    session.title,
  );
  db.run(
    "INSERT INTO span(session_id, n, opened_at, opened_by, ended_at, end_reason) VALUES(?, 1, ?, 'import', ?, ?)",
    session.freshId,
    session.openedAt,
    session.endedAt,
    session.endReason,
  );
  db.run("UPDATE conversation SET current_session = ? WHERE id = ?", session.freshId, home);
  db.run(
    "INSERT INTO foreign_session(runtime, id, session_id, through_id, entries, at) VALUES(?, ?, ?, 0, 0, ?)",
    runtime,
    session.id,
    session.freshId,
    now,
  );
  return { session_id: session.freshId, through_id: 0, entries: 0 };
}

function append(
  db: Database,
  { runtime, agent }: Import,
  { session, news, here }: { session: ImportedSession; news: ImportedSession["messages"]; here: SessionRecord },
): void {
  const { place_id } = db.get<{ place_id: number }>("SELECT place_id FROM conversation WHERE id = ?", here.home)!;
  let lastHumanAt = here.last_human_at ?? 0;
  for (const { role, text, at, author } of news) {
    const person = { kind: "person", id: author ?? session.ownerPerson ?? "unknown" };
    const messageId = addMessage(db, place_id, {
      author: role === "user" ? person : { kind: "agent", id: agent },
      body: text,
      now: at,
    });
    addEntry(db, here.id, { turnId: null, messageId, role });
    if (role === "user") lastHumanAt = Math.max(lastHumanAt, at);
  }
  db.run("UPDATE session SET last_human_at = ? WHERE id = ?", lastHumanAt || null, here.id);
  db.run(
    "UPDATE foreign_session SET through_id = ?, entries = entries + ? WHERE runtime = ? AND id = ?",
    // Rows stand in the order they are displayed in, which is not always that of their numbers.
    Math.max(...news.map(({ id }) => id)),
    news.length,
    runtime,
    session.id,
  );
}
