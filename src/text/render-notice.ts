import { type AgentFacts, describeAgentFacts } from "../conversation/agent-facts.ts";
import { doorOf } from "../conversation/door.ts";
import { isSessionKey } from "../conversation/session-key.ts";
import type { Notice } from "../message/notice.ts";
import type { Target } from "../message/target.ts";
import { describeSpan } from "../util/span.ts";
import { when } from "../util/when.ts";
import { partsFor } from "./assemble.ts";

/** A notice as a sentence for a person, with what to do next (E3, O6). */
export function renderNotice({ code, args }: Notice): string {
  switch (code) {
    case "text":
      return String(args.text);
    case "busy":
      return "I am busy with a message. Please send this again when it is answered, or stop it with /stop.";
    case "queue_full":
      return `Too many messages are waiting here (at most ${args.limit} turns of ${args.messages} messages). Please send this one again later.`;
    case "rate_limited":
      return hurried(args);
    case "interrupted":
      return interrupted(String(args.partial ?? ""), String(args.reason));
    case "stopped":
      return args.found ? "Stopped." : "There was nothing to stop.";
    case "withdrawn":
      return `${args.messages === 1 ? "A waiting message was" : `${args.messages} waiting messages were`} withdrawn, because the conversation ${args.reason === "resumed" ? "went on in another session" : "was reset"}. Send it again if it still matters.`;
    case "failed":
      return `${args.sentence} ${args.remedy}`;
    case "timeout":
      return `The agent ${args.limit === "idle" ? `was silent for ${args.span}` : `took longer than ${args.span}`}; its turn was ended. Ask again, or raise ${args.setting}.`;
    case "not_delivered":
      return `A part of a reply could not be delivered (${args.reason}).`;
    case "session_reset":
      return joined([
        `This is a new session (${args.session}), because ${resetReason(String(args.reason))}.`,
        `The one before is ${args.previous}; \`/resume ${args.previous}\` goes back to it.`,
        ...(args.jobs == null ? [] : [`A background job of it is still running: ${args.jobs}.`]),
        ...facts(args),
      ]);
    case "session_new":
      return joined([
        `New session ${args.session}.`,
        ...facts(args),
        ...(args.previous === null
          ? []
          : [`The one before was ${args.previous}; \`/resume ${args.previous}\` goes back to it.`]),
      ]);
    case "session_resumed":
      return joined([
        `Back in session ${args.session}${args.title === null ? "" : ` (${args.title})`}, ${args.entries} entries.`,
        ...(args.at === "home" ? [] : ["It stays at home at its own door; /undo leaves it again."]),
        ...(args.previous === null || args.at !== "home"
          ? []
          : [`The one left is ${args.previous}; \`/resume ${args.previous}\` goes back to it.`]),
      ]);
    case "undone":
      return undone(args);
    case "titled":
      return `Session ${args.session} is now called: ${args.title}`;
    case "policy_set":
      return String(args.text);
    case "home_set":
      return `This chat is now the home on ${args.platform} for this agent.`;
    case "not_done":
      return notDone(String(args.reason));
    case "welcome":
      return joined([
        "Welcome. You talk to an agent through Tertulia; it keeps this conversation for you.",
        ...facts(args),
        "/help lists the commands.",
      ]);
    case "runtime_set":
      return joined([
        `From the next message on ${args.to} runs this conversation; it is given what was said here. /runtime back returns to ${args.from}.`,
        ...facts(args),
      ]);
    case "permission":
      return permission(args);
    case "permission_answered":
      return answered(args);
    case "fell_back":
      return `The runtime ${args.from} failed its first turn here, so ${args.to} runs this conversation again. Say it once more, or try again with /runtime ${args.from}.`;
    case "handed_off":
      return args.until === null
        ? `This chat speaks in session ${args.session} until /handoff clear.`
        : `This chat speaks in session ${args.session} until ${when(Number(args.until), String(args.zone ?? "UTC"))}, or /handoff clear.`;
    case "handoff_cleared":
      return args.had ? "This chat speaks in its own session again." : "This chat was not bound: nothing was changed.";
    case "loop_guard":
      return "Agents have answered each other here often enough: I answer no more of them until a person says something.";
    case "binding_ended":
      return `The handoff between ${doorName(String(args.door))} and session ${args.session} has ended (${bindingFault(String(args.reason))}). That door speaks in its own session again.`;
    case "session_ended_here":
      return `Session ${args.session}, in which this door was speaking, has ended (${endOf(String(args.reason))}). This door speaks in its own session again.`;
  }
}

/** A10. */
function hurried({ of, most, spanMs, waitMs }: Notice["args"]): string {
  const span = Number(spanMs) > 60_000 ? "an hour" : "a minute";
  const whose = of === "guest" ? "from each guest" : of === "place" ? "here from guests" : "from all guests together";
  const wait = describeSpan(Math.max(1_000, Number(waitMs)));
  return `That is faster than I answer: up to ${most} messages ${span} ${whose}. Please say it again in ${wait}.`;
}

function interrupted(partial: string, reason: string): string {
  const why: Record<string, string> = {
    crash: "The gateway was restarted before the answer was complete",
    reset: "The conversation was reset before the answer was complete",
    stopped: "The turn was stopped",
    resumed: "The conversation went on in another session before the answer was complete",
    switched: "The conversation went on with another runtime before the answer was complete",
    superseded: "A newer message interrupted the answer",
    shutdown: "The gateway was stopped before the answer was complete",
  };
  const sentence =
    reason === "removed"
      ? "You have no access here any more; ask the owner for it."
      : `${why[reason] ?? "The answer was interrupted"}; ask again if you still need it.`;
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

function joined(sentences: readonly string[]): string {
  return sentences.join(" ");
}

/** R5: what answers here. Older notices know less. */
function facts(args: Notice["args"]): string[] {
  const { agent, runtime, model, window, windowFrom, endpoint } = args;
  if (typeof agent !== "string" || typeof runtime !== "string") return [];
  const known: AgentFacts = {
    agent,
    runtime,
    ...(typeof model === "string" ? { model } : {}),
    ...(typeof window === "number" ? { window, windowFrom: windowFrom as NonNullable<AgentFacts["windowFrom"]> } : {}),
    ...(typeof endpoint === "string" ? { endpoint } : {}),
  };
  return [`${describeAgentFacts(known)}.`];
}

function undone(args: Notice["args"]): string {
  switch (args.what) {
    case "turn":
      return `Taken back: "${args.text}" and what was answered. The agent does not know it any more; what was delivered stays.`;
    case "waiting":
      return `Taken back: "${args.text}", which waited.`;
    case "reset":
      return `The reset is taken back: this is session ${args.session} again.`;
    default:
      return `This door has left session ${args.session} and speaks in its own session again. /undo once more steps back there.`;
  }
}

const SHARED = "Several people speak in this session: the owner or a member";

function notDone(reason: string): string {
  const sentences: Record<string, string> = {
    resume_unknown: "There is no such session of yours. /resume lists them.",
    resume_here: "This conversation speaks in that session already.",
    resume_in_room: "A session of your own cannot be resumed where others read along. Resume it in a direct chat.",
    undo_busy: "A turn runs or waits here. Stop it first with /stop, then /undo.",
    undo_nothing: "There is nothing to take back here.",
    title_nothing: "Nothing was said here yet: there is no session to name.",
    outranked:
      "Somebody with more rights than yours is being answered here, or waits for it. Try again when that is done.",
    reset_forbidden: `${SHARED} begins a new one. Say your words without the command, and they are answered here.`,
    resume_forbidden: `${SHARED} goes back to an earlier one.`,
    undo_forbidden: `${SHARED} takes back what was answered. Your own words can be taken back while they wait.`,
    title_forbidden: `${SHARED} names it.`,
    bind_forbidden: `${SHARED} hands this chat over.`,
    unbind_forbidden: `${SHARED} takes a handoff back.`,
    title_elsewhere: "Only the owner of the session that this door speaks in names it.",
    policy_forbidden: "Only the owner sets the reset policy of a session that several people speak in.",
    answer_late: "That turn does not run any more.",
    answer_forbidden: "Only the one who asked, or the owner, answers what the agent asks leave for.",
    runtime_forbidden: "Only the owner decides what runs a conversation.",
    handoff_ended: "That session has ended. /resume it first at its own door.",
    handoff_home: "That session is at home in this chat: it needs no handoff.",
    handoff_shared:
      "Others read along here, and would see what that session holds. The owner can allow it with share: true for this room in the configuration.",
    home_forbidden: "Only the owner sets a home.",
  };
  return sentences[reason] ?? `Nothing was changed (${reason}).`;
}

function answered({ label, title, next }: Notice["args"]): string {
  const which = title === undefined ? "" : `: ${title}`;
  const what =
    label === "denied"
      ? `Refused${which}.`
      : title === undefined
        ? `Answered: ${label}.`
        : `Answered${which} – ${label}.`;
  return next === undefined ? what : `${what} The agent also asks leave: ${next}`;
}

function permission({ title, options, span }: Notice["args"]): string {
  const answers = String(options)
    .split("\n")
    .map((label, n) => `  ${n + 1}  ${label}`);
  return [
    `The agent asks leave: ${title}`,
    ...answers,
    `/allow or /allow with a number, /deny refuses. Without an answer within ${span} it is refused.`,
  ].join("\n");
}

/** Older notices hold the conversation's key. */
function doorName(door: string): string {
  return isSessionKey(door) ? doorOf(door) : door;
}

/** Why a session ended, for those who were guests in it. */
function endOf(reason: string): string {
  const why: Record<string, string> = {
    new: "it was reset",
    idle: "it was idle for too long",
    daily: "it was reset for the day",
    suspended: "it failed too often",
    resumed: "its door went on in another one",
    undone: "its reset was taken back",
    left: "no door speaks in it any more",
  };
  return why[reason] ?? reason;
}

function bindingFault(reason: string): string {
  switch (reason) {
    case "gone":
      return "the session no longer exists";
    case "ended":
      return "the session has ended";
    case "owner_changed":
      return "the session has another owner";
    case "not_shared":
      return "others read along at that door";
    case "agent_changed":
      return "the session belongs to another agent";
    default:
      return reason;
  }
}

/** What a delivery says: a reply's words, or its part of a notice as a sentence (O3). */
export function deliveryText({
  body,
  part = 0,
  target,
}: {
  readonly body: string | Notice;
  readonly part?: number;
  readonly target?: Target;
}): string {
  if (typeof body === "string") return body;
  const text = renderNotice(body);
  return target === undefined ? text : (partsFor(text, target)[part] ?? "");
}
