import type { Notice } from "../message/notice.ts";

/** A notice as a sentence for a person, with what to do next (E3, O6). */
export function renderNotice({ code, args }: Notice): string {
  switch (code) {
    case "text":
      return String(args.text);
    case "busy":
      return "I am busy with a message. Please send this again when it is answered, or stop it with /stop.";
    case "queue_full":
      return `Too many messages are waiting here (at most ${args.limit} turns of ${args.messages} messages). Please send this one again later.`;
    case "interrupted":
      return interrupted(String(args.partial ?? ""), String(args.reason));
    case "stopped":
      return args.found ? "Stopped." : "There was nothing to stop.";
    case "withdrawn":
      return `${args.messages === 1 ? "A waiting message was" : `${args.messages} waiting messages were`} withdrawn, because the conversation was reset. Send it again if it still matters.`;
    case "failed":
      return `${args.sentence} ${args.remedy}`;
    case "timeout":
      return `The agent ${args.limit === "idle" ? `was silent for ${args.span}` : `took longer than ${args.span}`}; its turn was ended. Ask again, or raise ${args.setting}.`;
    case "not_delivered":
      return `A part of a reply could not be delivered (${args.reason}).`;
    case "session_reset":
      return `This is a new session (${args.session}), because ${resetReason(String(args.reason))}. The one before is ${args.previous}; 'tertulia sessions show' reads it back.`;
    case "session_new":
      return `New session ${args.session}. Agent ${args.agent}, runtime ${args.runtime}.${args.previous === null ? "" : ` The one before was ${args.previous}.`}`;
    case "binding_ended":
      return `The handoff between ${args.door} and session ${args.session} has ended (${bindingFault(String(args.reason))}). That door speaks in its own session again.`;
    case "session_ended_here":
      return `Session ${args.session}, in which this door was speaking, has ended (${args.reason}). This door speaks in its own session again.`;
  }
}

function interrupted(partial: string, reason: string): string {
  const why: Record<string, string> = {
    crash: "The gateway was restarted before the answer was complete",
    reset: "The conversation was reset before the answer was complete",
    stopped: "The turn was stopped",
    superseded: "A newer message interrupted the answer",
    shutdown: "The gateway was stopped before the answer was complete",
  };
  const sentence = `${why[reason] ?? "The answer was interrupted"}; ask again if you still need it.`;
  return partial === "" ? sentence : `${partial}\n\n(${sentence})`;
}

function resetReason(reason: string): string {
  switch (reason) {
    case "idle":
      return "the earlier one was idle for longer than you allow";
    case "daily":
      return "of the daily reset";
    case "suspended":
      return "the earlier one failed several times in a row";
    default:
      return reason;
  }
}

function bindingFault(reason: string): string {
  switch (reason) {
    case "gone":
      return "the session no longer exists";
    case "ended":
      return "the session has ended";
    case "owner_changed":
      return "the session has another owner";
    case "agent_changed":
      return "the session belongs to another agent";
    default:
      return reason;
  }
}

/** What a delivery says: a reply's words, or its notice as a sentence. */
export function deliveryText({ body }: { readonly body: string | Notice }): string {
  return typeof body === "string" ? body : renderNotice(body);
}
