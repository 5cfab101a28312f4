import { DatabaseSync } from "node:sqlite";

/** What each schema of Hermes added to the one before, as far as it has columns that a reader could meet. */
interface Step {
  readonly version: number;
  readonly sessions?: readonly string[];
  readonly messages?: readonly string[];
}

const STEPS = [
  {
    version: 6,
    sessions: [
      "id TEXT PRIMARY KEY",
      "source TEXT NOT NULL",
      "user_id TEXT",
      "model TEXT",
      "model_config TEXT",
      "system_prompt TEXT",
      "parent_session_id TEXT REFERENCES sessions(id)",
      "started_at REAL NOT NULL",
      "ended_at REAL",
      "end_reason TEXT",
      "message_count INTEGER DEFAULT 0",
      "title TEXT",
    ],
    messages: [
      "id INTEGER PRIMARY KEY AUTOINCREMENT",
      "session_id TEXT NOT NULL REFERENCES sessions(id)",
      "role TEXT NOT NULL",
      "content TEXT",
      "tool_call_id TEXT",
      "tool_calls TEXT",
      "tool_name TEXT",
      "timestamp REAL NOT NULL",
      "token_count INTEGER",
      "finish_reason TEXT",
      "reasoning TEXT",
    ],
  },
  { version: 7, messages: ["reasoning_content TEXT"] },
  { version: 8, sessions: ["api_call_count INTEGER DEFAULT 0"] },
  { version: 9, messages: ["codex_message_items TEXT"] },
  { version: 12, messages: ["platform_message_id TEXT"], sessions: ["handoff_state TEXT", "handoff_platform TEXT"] },
  { version: 13, messages: ["observed INTEGER DEFAULT 0"] },
  {
    version: 17,
    sessions: [
      "session_key TEXT",
      "chat_id TEXT",
      "chat_type TEXT",
      "thread_id TEXT",
      "cwd TEXT",
      "rewind_count INTEGER NOT NULL DEFAULT 0",
      "archived INTEGER NOT NULL DEFAULT 0",
    ],
    messages: ["active INTEGER NOT NULL DEFAULT 1", "compacted INTEGER NOT NULL DEFAULT 0"],
  },
  {
    version: 22,
    sessions: ["display_name TEXT", "origin_json TEXT", "expiry_finalized INTEGER DEFAULT 0"],
    messages: ["effect_disposition TEXT", "api_content TEXT"],
  },
  {
    version: 30,
    sessions: [
      "created_source TEXT",
      "last_activity_at REAL",
      "title_source TEXT",
      "pinned INTEGER NOT NULL DEFAULT 0",
      "hidden INTEGER NOT NULL DEFAULT 0",
    ],
    messages: [
      "_compressed_summary INTEGER NOT NULL DEFAULT 0",
      "display_kind TEXT",
      "display_metadata TEXT",
      "display_identity BLOB",
      "display_order INTEGER",
    ],
  },
] as const satisfies readonly Step[];

export type HermesSchema = `v${(typeof STEPS)[number]["version"]}`;
export const HERMES_SCHEMAS: readonly HermesSchema[] = STEPS.map(({ version }): HermesSchema => `v${version}`);

/** From the version that the first of them has. */
export function hasChatTypes(schema: HermesSchema): boolean {
  return Number(schema.slice(1)) >= 17;
}

type Value = string | number | null | Uint8Array;
type HermesSessionRow = Readonly<Record<string, Value>> & { readonly id: string; readonly source?: string };
type HermesMessageRow = Readonly<Record<string, Value>>;

export interface HermesState {
  readonly schema: HermesSchema;
  session(row: HermesSessionRow): string;
  /** `at`: epoch seconds. */
  message(session: string, role: string, content: Value, at: Value, more?: HermesMessageRow): number;
  exec(sql: string): void;
  close(): void;
}

/** A state.db as Hermes writes it, by our own SQL. It stays open for writing, as a running Hermes has it, until `close`. */
export function hermesState(path: string, schema: HermesSchema = "v30"): HermesState {
  const db = new DatabaseSync(path);
  const version = Number(schema.slice(1));
  const of = (table: "sessions" | "messages"): string =>
    (STEPS as readonly Step[])
      .filter((step) => step.version <= version)
      .flatMap((step) => step[table] ?? [])
      .join(", ");
  db.exec("PRAGMA journal_mode = WAL");
  db.exec(`CREATE TABLE schema_version(version INTEGER NOT NULL); INSERT INTO schema_version VALUES(${version});
    CREATE TABLE sessions(${of("sessions")});
    CREATE TABLE messages(${of("messages")});
    CREATE INDEX idx_sessions_source ON sessions(source); CREATE INDEX idx_messages_session ON messages(session_id, timestamp)`);
  if (version >= 22)
    db.exec(
      "CREATE TABLE gateway_routing(scope TEXT NOT NULL DEFAULT '', session_key TEXT NOT NULL, entry_json TEXT NOT NULL, updated_at REAL NOT NULL, PRIMARY KEY(scope, session_key))",
    );
  const columns = (table: string): Set<string> =>
    new Set(
      db
        .prepare(`PRAGMA table_info(${table})`)
        .all()
        .map(({ name }) => String(name)),
    );
  const known = { sessions: columns("sessions"), messages: columns("messages") };
  // What a schema has no column for is not there.
  const insert = (table: "sessions" | "messages", row: Readonly<Record<string, Value>>): number => {
    const entries = Object.entries(row).filter(([name]) => known[table].has(name));
    const names = entries.map(([name]) => name).join(", ");
    const marks = entries.map(() => "?").join(", ");
    const statement = db.prepare(`INSERT INTO ${table}(${names}) VALUES(${marks})`);
    return Number(statement.run(...entries.map(([, value]) => value)).lastInsertRowid);
  };
  return {
    schema,
    session(row) {
      insert("sessions", { source: "telegram", started_at: 1_700_000_000, ...row });
      return row.id;
    },
    message: (session, role, content, at, more = {}) =>
      insert("messages", { session_id: session, role, content, timestamp: at, ...more }),
    exec: (sql) => db.exec(sql),
    close: () => {
      if (db.isOpen) db.close();
    },
  };
}

/** A message with parts, as Hermes stores it: NUL, `json:`, JSON. */
export function withParts(...parts: readonly object[]): string {
  return `\u0000json:${JSON.stringify(parts)}`;
}
