import type { Message } from "../message/message.ts";
import { describeSource, type Source } from "../message/source.ts";
import type { BoundBy, Note } from "../store/store.ts";
import { renderMessage } from "./render-history.ts";
import { quoteUntrusted } from "./untrusted.ts";

export interface TurnFactsRequest {
  readonly agent: string;
  readonly source: Source;
  readonly senders: readonly string[];
  readonly notes: readonly Note[];
  /** The session's home door, when the turn comes from another one. */
  readonly bound: { readonly by: BoundBy; readonly home: string } | null;
  readonly room: { readonly lines: readonly Message[]; readonly more: number };
  /** 128 random bits: what stands between the marks cannot close itself (C8). */
  readonly nonce: string;
}

/** The facts of one turn, in front of the user's message; the first line is the source (C6). */
export function renderTurnFacts(request: TurnFactsRequest): string {
  const { bound, room } = request;
  const lines = [
    `Source: ${quoteUntrusted(describeSource(request.source)).slice(1, -1)}`,
    `From: ${request.senders.map(quoteUntrusted).join(", ")}`,
    ...request.notes.map(renderNote),
    ...(bound === null
      ? []
      : [
          `Handoff: this message comes from another door than the session's own (${quoteUntrusted(bound.home)}); your reply goes to the door of this message.`,
        ]),
  ];
  if (room.lines.length > 0) {
    lines.push(`Said here before${room.more > 0 ? ` (+${room.more} more, not shown)` : ""}:`);
    for (const line of room.lines) {
      for (const row of renderMessage(line, request.agent).split("\n")) lines.push(`| ${row}`);
    }
  }
  return [`--- facts ${request.nonce}`, ...lines, `--- end ${request.nonce}`].join("\n");
}

function renderNote(note: Note): string {
  const { args } = note;
  switch (note.code) {
    case "session_reset":
      return `Note: this is a fresh conversation (${reasonText(String(args.reason))}). The one before is session ${args.previous}; it can be read back, but nothing of it is known here.`;
    case "handoff_ended":
      return `Note: this door spoke in session ${args.session} for a while; that has ended (${args.why}), and it speaks in its own session again.`;
    default:
      return `Note: ${note.code}`;
  }
}

function reasonText(reason: string): string {
  switch (reason) {
    case "new":
      return "the user asked for a new one";
    case "idle":
      return "the earlier one was idle for too long";
    case "daily":
      return "the daily reset came";
    case "suspended":
      return "the earlier one failed repeatedly and was set aside";
    default:
      return reason;
  }
}
