import type { Message } from "../message/message.ts";
import type { HistoryLine } from "../runtime/runtime.ts";
import type { EntryRow } from "../store/rows.ts";
import { eachLine, escapeMark, escapeOwnMark, linesOf, shorten } from "../text/untrusted.ts";
import type { Speakers } from "./speakers.ts";

/** Words as an agent sees them: its own carry `[YOU]`, those of others `[name]` where needed, from who really wrote the row (G2). */

export interface Showing {
  readonly speakers: Speakers;
  /** Whether every message of a person carries its author. */
  readonly named: boolean;
}

/** One message of a person. No line of it can begin with a mark that is not ours. */
export function renderWords({ author, body }: Pick<Message, "author" | "body">, { speakers, named }: Showing): string {
  return named ? `${speakers.markOf(author)} ${eachLine(body, escapeMark)}` : eachLine(body, escapeOwnMark);
}

/** A message of the room as rows of the facts block: each prefixed, together at most `most` characters (C8, H11). */
export function roomRows(message: Pick<Message, "author" | "body">, speakers: Speakers, most: number): string[] {
  const mark = speakers.markOf(message.author);
  const lines = linesOf(shorten(message.body.trim(), most - mark.length - 3));
  const shown = lines.length > MOST_ROWS ? [...lines.slice(0, MOST_ROWS - 1), "…"] : lines;
  return shown.map((line, row) => {
    const text = escapeMark(line);
    return row === 0 ? `| ${mark} ${text}` : `|   ${text}`;
  });
}

const MOST_ROWS = 12;

/** An entry of the session as a line of the primer or of the missed lines. */
export function renderEntry(entry: EntryRow, showing: Showing): HistoryLine {
  const { role, mark } = entry;
  if (mark === "sent") {
    const door = entry.platform === null ? "" : `, ${entry.platform}`;
    const where = entry.atHome === true ? "" : `(said elsewhere${door}) `;
    return {
      role: "assistant",
      said: "",
      text: `[YOU] ${where}${undelivered(entry)}${eachLine(entry.text, escapeMark)}`,
    };
  }
  if (role === "mark") return { role, text: `(${mark}: ${entry.text})` };
  const shown =
    role === "user" && entry.author !== null
      ? renderWords({ author: entry.author, body: entry.text }, showing)
      : undelivered(entry) + eachLine(entry.text, escapeOwnMark);
  const text = mark === null ? shown : `${shown} (${mark})`;
  return { role, text, ...(role === "user" || text === entry.text ? {} : { said: entry.text }) };
}

/** O4: the agent's own words carry this until they are delivered. */
function undelivered({ delivery }: EntryRow): string {
  return delivery === null ? "" : "(not delivered) ";
}
