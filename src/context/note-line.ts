import type { Source } from "../message/source.ts";
import type { Note } from "../store/rows.ts";
import { nameInMark, oneLine, quoteUntrusted } from "../text/untrusted.ts";
import type { IdMask } from "./id-mask.ts";
import { localMinute } from "./local-time.ts";

interface NoteContext {
  /** When somebody last wrote in the session before this one; null if that is not known. */
  readonly previousAt: number | null;
  readonly source: Source;
  readonly timezone: string;
  readonly mask: IdMask;
}

/** A note of the store as a sentence for the agent: a reset, a change of runtime, the end of a handoff, an edit. */
export function noteText({ code, args }: Note, { previousAt, source, timezone, mask }: NoteContext): string {
  const author = (): string =>
    quoteUntrusted(nameInMark(mask.name(source.platform, String(args.author), String(args.authorId ?? args.author))));
  switch (code) {
    case "session_reset": {
      const used = previousAt === null ? "" : `, last used ${localMinute(previousAt, timezone)}`;
      const ended = typeof args.endedAt === "number" ? `, ended ${localMinute(args.endedAt, timezone)}` : "";
      return (
        `this is a fresh conversation (${phraseFor(String(args.reason), RESETS)}). The one before is session ${args.previous}${used}${ended}. ` +
        `You know nothing of it; "tertulia sessions show ${args.previous}" reads it back.`
      );
    }
    case "runtime_changed":
      return `this conversation was run by ${args.from} until now, and is run by ${args.to} from here on; what was said before is yours to go on from.`;
    case "handoff_ended":
      return `this door spoke in session ${args.session} for a while; ${phraseFor(String(args.why), HANDOFF_ENDS)}, and it is in its own session again.`;
    case "message_edited":
      return `${author()} has changed a message: it said ${quoteUntrusted(String(args.before))}, and now says ${quoteUntrusted(String(args.after))}.`;
    case "message_deleted":
      return args.moderated
        ? `a message of ${author()} was removed by a moderator; do not repeat it.`
        : `${author()} has taken a message back; do not repeat it.`;
    default:
      return code;
  }
}

const RESETS: ReadonlyMap<string, string> = new Map([
  ["new", "the user asked for a new one"],
  ["idle", "the earlier one was idle for too long"],
  ["daily", "the daily reset came"],
  ["suspended", "the earlier one failed repeatedly and was set aside"],
]);

const HANDOFF_ENDS: ReadonlyMap<string, string> = new Map([
  ["expired", "its time was over"],
  ["cleared", "that was ended by hand"],
  ["clock", "the clock was set back, which ended that"],
  ["ended", "that session is over"],
  ["gone", "that session is over"],
  ["not_shared", "others read along here"],
  ["owner_changed", "that session has another owner now"],
  ["agent_changed", "that session has another agent now"],
]);

function phraseFor(reason: string, phrases: ReadonlyMap<string, string>): string {
  return phrases.get(reason) ?? oneLine(reason);
}
