import type { Author, Message } from "../message/message.ts";
import type { HistoryLine } from "../runtime/runtime.ts";
import type { EntryRow } from "../store/store.ts";

/** Lines as an agent sees them: its own carry `[YOU]`, others `[name]`, from who really wrote the row (G2). */

/** A text that begins like a mark of ours is escaped: `[YOU]` cannot be forged. */
export function escapeMark(text: string): string {
  return /^\s*[[［]/u.test(text) ? `\\${text.trimStart()}` : text;
}

export function authorMark(author: Author, agent: string): string {
  if (author.kind === "agent" && author.id === agent) return "[YOU]";
  return `[${(author.name ?? author.id).replace(/[[\]\s]+/gu, " ").trim() || "somebody"}]`;
}

export function renderMessage(message: Pick<Message, "author" | "body">, agent: string): string {
  return `${authorMark(message.author, agent)} ${escapeMark(message.body)}`;
}

/** An entry of the session for the primer or for what was missed. Names are needed only where several people speak. */
export function renderEntry(entry: EntryRow, options: { agent: string; shared: boolean }): HistoryLine {
  const undelivered = entry.delivery === null ? "" : "(not delivered) ";
  switch (entry.mark) {
    case null:
      return {
        role: entry.role,
        text:
          options.shared && entry.author !== null && entry.role === "user"
            ? renderMessage({ author: entry.author, body: entry.text }, options.agent)
            : undelivered + entry.text,
      };
    case "sent":
      return {
        role: "assistant",
        text: `[YOU] (said elsewhere${entry.platform === null ? "" : `, ${entry.platform}`}) ${undelivered}${escapeMark(entry.text)}`,
      };
    default:
      return {
        role: entry.role,
        text: entry.role === "mark" ? `(${entry.mark}: ${entry.text})` : `${entry.text} (${entry.mark})`,
      };
  }
}
