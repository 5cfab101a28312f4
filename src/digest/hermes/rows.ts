import { type HermesDb, timeIn } from "./state-db.ts";

/** A row of `messages` that was said, or that only says that something went on. */
export interface HermesRow {
  readonly id: number;
  readonly role: "user" | "assistant" | "other";
  readonly text: string;
  readonly at: number | null;
}

/** Why a row is not shown. */
export type Skipped =
  | "tool"
  | "system"
  | "undone"
  | "hidden"
  | "event"
  | "overheard"
  | "summary"
  | "repeated"
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

/** Reads the rows of sessions of one file. */
export class HermesRows {
  readonly #now: number;
  readonly #last: (session: string, before: number, count: number) => MessageRecord[];
  readonly #next: (session: string, after: number, count: number) => MessageRecord[];

  constructor(db: HermesDb, now: number) {
    this.#now = now;
    const column = (name: string, otherwise = "NULL"): string => db.column("messages", name, otherwise);
    const columns = [
      "messages.id",
      "messages.role",
      "messages.timestamp",
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
    const query = (sign: "<" | ">", order: "DESC" | "ASC"): string =>
      `SELECT ${columns} FROM messages WHERE messages.id IN
         (SELECT id FROM messages WHERE session_id = ? AND id ${sign} ? ORDER BY id ${order} LIMIT ?) ORDER BY messages.id`;
    this.#last = db.prepare<MessageRecord>(query("<", "DESC"));
    this.#next = db.prepare<MessageRecord>(query(">", "ASC"));
  }

  /** The last `count` raw rows before an id, oldest first. */
  last(session: string, count: number, before = Number.MAX_SAFE_INTEGER): readonly ReadRow[] {
    return this.#read(this.#last(session, before, count));
  }

  /** The next `count` raw rows after an id, oldest first; `seen` is what earlier calls gave of this session. */
  next(session: string, count: number, after: number, seen: Set<string>): readonly ReadRow[] {
    return this.#read(this.#next(session, after, count), seen);
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
  return `${role} ${String(timestamp)} ${text.length} ${text.slice(0, 80)}`;
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
  if (record.observed === 1) return not("overheard");
  const content = textOf(record.content);
  if (content === null) return not("damaged");
  const text = withoutSummary(content, record._compressed_summary === 1);
  if (text === null) return not("summary");
  return { id, at, skipped: null, row: { id, role, text, at } };
}

const JSON_MARK = Buffer.from("\u0000json:");
export const PICTURE = "[picture]";

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
