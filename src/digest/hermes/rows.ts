import { createHash } from "node:crypto";
import { promptsIn, wordsOfPrompt } from "../../text/prompt-words.ts";
import type { HermesDb } from "./state-db.ts";
import { asTime, timeIn } from "./times.ts";

/** A row of `messages` that was said, or that only says that something went on. */
export interface HermesRow {
  readonly id: number;
  readonly role: "user" | "assistant" | "other";
  readonly text: string;
  readonly at: number | null;
  /** A prompt of ours (D11): whether the owner alone said it. Absent for what was said at a door of Hermes' own. */
  readonly isOwners?: boolean;
}

/** Why a row is not shown. */
export type Skipped =
  | "tool"
  | "system"
  | "undone"
  | "hidden"
  | "event"
  | "received"
  | "summary"
  | "repeated"
  | "facts"
  | "damaged";

export interface ReadRow {
  readonly row: HermesRow | null;
  readonly id: number;
  /** Null for what is shown. */
  readonly skipped: Skipped | null;
  readonly at: number | null;
}

interface MessageRecord {
  id: number;
  role: unknown;
  timestamp: unknown;
  content: Uint8Array | null;
  observed: unknown;
  active: unknown;
  compacted: unknown;
  _compressed_summary: unknown;
  display_kind: unknown;
  display_identity: unknown;
  display_order: unknown;
}

/** One message with its pictures; a longer one is a picture without words. */
const LARGEST = 32_000_000;
const JUST_A_PICTURE = Buffer.from('\u0000json:[{"type":"image"}]').toString("hex");

/** How much the next rows may be. */
export interface PageSize {
  readonly rows: number;
  /** Of their texts together; one row is given however long it is. */
  readonly bytes: number;
  /** The last row that may be among them. */
  readonly through?: number;
}

/** Reads the rows of sessions of one file. */
export class HermesRows {
  readonly #now: number;
  readonly #last: (session: string, before: number, count: number) => MessageRecord[];
  readonly #sizes: (session: string, after: number, count: number) => { id: number; bytes: number }[];
  readonly #between: (session: string, after: number, through: number) => MessageRecord[];
  readonly #one: (session: string, id: number) => object[];
  readonly #prompts: (session: string) => { content: Uint8Array; isFirst: number }[];

  constructor(db: HermesDb, now: number) {
    this.#now = now;
    const column = (name: string, otherwise = "NULL"): string => db.column("messages", name, otherwise);
    const columns = [
      "messages.id",
      "messages.role",
      `${asTime("messages.timestamp")} AS timestamp`,
      // As bytes: a message with pictures begins with NUL, which ends a text for SQLite's functions. Tools' rows are not read.
      `CASE WHEN role NOT IN('user','assistant') OR content IS NULL THEN NULL
            WHEN octet_length(content) <= ${LARGEST} THEN CAST(content AS BLOB) ELSE X'${JUST_A_PICTURE}' END AS content`,
      column("observed", "0"),
      column("active", "1"),
      column("compacted", "0"),
      column("_compressed_summary", "0"),
      column("display_kind"),
      column("display_identity"),
      column("display_order"),
    ].join(", ");
    // The ids first: an index has them all, and the rows behind them are long.
    this.#last = db.prepare<MessageRecord>(
      `SELECT ${columns} FROM messages WHERE messages.id IN
         (SELECT id FROM messages WHERE session_id = ? AND id < ? ORDER BY id DESC LIMIT ?) ORDER BY messages.id`,
    );
    this.#sizes = db.prepare(
      `SELECT id, CASE WHEN role IN('user','assistant') THEN coalesce(octet_length(content), 0) ELSE 0 END AS bytes
       FROM messages WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?`,
    );
    this.#between = db.prepare<MessageRecord>(
      `SELECT ${columns} FROM messages WHERE session_id = ? AND messages.id > ? AND messages.id <= ? ORDER BY messages.id`,
    );
    this.#prompts = db.prepare(
      `SELECT CAST(content AS BLOB) AS content,
         id = (SELECT min(id) FROM messages WHERE session_id = ?1 AND role = 'user') AS isFirst
       FROM messages WHERE session_id = ?1 AND role = 'user' AND octet_length(content) <= ${LARGEST}
         AND instr(CAST(content AS BLOB), CAST('--- facts ' AS BLOB)) > 0`,
    );
    this.#one = db.prepare("SELECT 1 FROM messages WHERE session_id = ? AND id = ?");
  }

  /** The last `count` raw rows before an id, oldest first. */
  last(session: string, count: number, before = Number.MAX_SAFE_INTEGER): readonly ReadRow[] {
    return this.#read(this.#last(session, before, count));
  }

  /** The next raw rows after an id, oldest first; none where there are no more. `seen` is what earlier calls gave of this session. */
  next(session: string, size: PageSize, after: number, seen: Set<string>): readonly ReadRow[] {
    let through: number | null = null;
    let bytes = 0;
    for (const row of this.#sizes(session, after, size.rows)) {
      if (row.id > (size.through ?? row.id)) break;
      bytes += Math.min(row.bytes, LARGEST);
      if (through !== null && bytes > size.bytes) break;
      through = row.id;
    }
    return through === null ? [] : this.#read(this.#between(session, after, through), seen);
  }

  /** What prompts of ours say of a session: whether its first was one, and whether nobody but the owner spoke or read in any. */
  prompts(session: string): { readonly isFirstOurs: boolean; readonly isPrivate: boolean } {
    const found = this.#prompts(session).map(({ content, isFirst }) => ({
      isFirst: isFirst === 1,
      text: textOf(content) ?? "",
    }));
    return {
      isFirstOurs: found.some(({ isFirst, text }) => isFirst && wordsOfPrompt(text) !== null),
      isPrivate: found.every(({ text }) => promptsIn(text).every(({ isPrivate }) => isPrivate)),
    };
  }

  has(session: string, id: number): boolean {
    return this.#one(session, id).length > 0;
  }

  #read(records: readonly MessageRecord[], seen = new Set<string>()): readonly ReadRow[] {
    return inDisplayOrder(records).map((record) => {
      const at = timeIn(record.timestamp, this.#now);
      const read = rowOf(record, at);
      if (read.skipped !== null || read.row === null || read.row.role === "other") return read;
      const identity = identityOf(record, read.row);
      if (seen.has(identity)) return { ...read, row: null, skipped: "repeated" };
      seen.add(identity);
      return read;
    });
  }
}

/** Newer versions number what is displayed; where a row has no number, ids say the order. */
function inDisplayOrder(records: readonly MessageRecord[]): readonly MessageRecord[] {
  const isNumbered = records.length > 0 && records.every(({ display_order }) => typeof display_order === "number");
  return isNumbered
    ? records.toSorted((a, b) => (a.display_order as number) - (b.display_order as number) || a.id - b.id)
    : records;
}

/** A compaction carries the end of a session forward: the same row twice. */
function identityOf({ display_identity, timestamp }: MessageRecord, { role, text }: HermesRow): string {
  if (display_identity instanceof Uint8Array) return `identity ${Buffer.from(display_identity).toString("hex")}`;
  return `${role} ${String(timestamp)} ${text.length < 100 ? text : createHash("sha256").update(text).digest("hex")}`;
}

/** The table of docs/digest.md, row by row. */
function rowOf(record: MessageRecord, at: number | null): ReadRow {
  const { id, role } = record;
  const not = (skipped: Skipped, shows = false): ReadRow => ({
    id,
    at,
    skipped,
    row: shows ? { id, role: "other", text: "", at } : null,
  });
  if (record.active === 0 && record.compacted !== 1) return not("undone");
  if (role === "tool") return not("tool", true);
  if (role !== "user" && role !== "assistant") return not(typeof role === "string" ? "system" : "damaged");
  if (record.display_kind === "hidden") return not("hidden");
  if (typeof record.display_kind === "string" && record.display_kind !== "") return not("event", true);
  if (record.observed === 1) return not("received");
  const content = textOf(record.content);
  if (content === null) return not("damaged");
  const text = withoutSummary(content, record._compressed_summary === 1);
  if (text === null) return not("summary");
  const prompts = role === "user" ? promptsIn(text) : [];
  if (prompts.length === 0) return { id, at, skipped: null, row: { id, role, text, at } };
  const said = prompts.filter(({ words }) => words !== null);
  // Of a row in which others spoke as well, the owner's words are the owner's.
  const isOwners = said.some((prompt) => prompt.isOwners);
  const words = said.flatMap((prompt) => (prompt.isOwners === isOwners ? [prompt.words] : [])).join("\n\n");
  if (words === "") return not("facts", true);
  return { id, at, skipped: null, row: { id, role, text: words, at, isOwners } };
}

const JSON_MARK = Buffer.from("\u0000json:");
const PICTURE = "[picture]";

/** The words of a message; of one with pictures its text parts. Null where it cannot be read. */
function textOf(content: Uint8Array | null): string | null {
  if (content === null) return "";
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  if (!bytes.subarray(0, JSON_MARK.length).equals(JSON_MARK)) return bytes.toString("utf8");
  try {
    return textOfParts(JSON.parse(bytes.toString("utf8", JSON_MARK.length)));
  } catch (cause) {
    if (cause instanceof SyntaxError) return null;
    throw cause;
  }
}

function textOfParts(content: unknown): string {
  const parts = Array.isArray(content) ? content : [content];
  const texts = parts.flatMap((part: unknown) => {
    if (typeof part === "string") return [part];
    const { text } = (part ?? {}) as { text?: unknown };
    return typeof text === "string" ? [text] : [];
  });
  const isPicture = parts.some((part: unknown) =>
    /image/.test(String((part as { type?: unknown } | null)?.type ?? "")),
  );
  return texts.join("\n").trim() || (isPicture ? PICTURE : "");
}

const SUMMARIES: readonly string[] = ["[CONTEXT COMPACTION — REFERENCE ONLY]", "[CONTEXT SUMMARY]:"];
const SUMMARY_END = /^--- END OF CONTEXT SUMMARY\b[^\n]*$/m;
const PRIOR = /^\[PRIOR CONTEXT —[^\n]*\n/;
const SUMMARY_FOLLOWS =
  /\n\s*(?:\[END OF PRIOR CONTEXT\b[^\n]*|---[^\n]*)?\s*\[CONTEXT (?:COMPACTION — REFERENCE ONLY\]|SUMMARY\]:)/;

/** What the person wrote beside a summary of ours in one row: behind its end, or, in newer versions, in front of it. Null: only the summary. */
function withoutSummary(text: string, isMarked: boolean): string | null {
  const prior = PRIOR.exec(text)?.[0];
  if (prior !== undefined) {
    const end = SUMMARY_FOLLOWS.exec(text)?.index ?? text.length;
    return text.slice(prior.length, end).trim() || null;
  }
  if (!isMarked && !SUMMARIES.some((beginning) => text.startsWith(beginning))) return text;
  const end = SUMMARY_END.exec(text);
  return end === null ? null : text.slice(end.index + end[0].length).trim() || null;
}
