/** A notice is stored as a code and its arguments and rendered by reply/ at the attempt (O6). */
export interface Notice {
  readonly code: NoticeCode;
  readonly args: Readonly<Record<string, string | number | boolean | null>>;
}

type NoticeCode =
  | "text" //              args.text: already a sentence (a command's reply)
  | "busy" //              the door refuses while a turn runs (T5 reject)
  | "queue_full" //        a cap of T5 was hit; args.limit
  | "rate_limited" //      A10; args.of (guest, place, account), args.most, args.spanMs, args.waitMs
  | "interrupted" //       the turn was cut by a crash; args.partial (T8)
  | "stopped" //           /stop; args.found
  | "withdrawn" //         a waiting message was withdrawn by a reset (R4)
  | "failed" //            the turn failed; args.code, args.sentence, args.remedy (E3)
  | "timeout" //           T7; args.minutes, args.limit
  | "not_delivered" //     a part of the reply failed or is unknown (O4)
  | "session_reset" //     R5; args.reason, args.session, args.previous, args.jobs, and what the agent is (AgentFacts)
  | "session_new" //       /new; args.session, args.previous, and what the agent is
  | "session_resumed" //   /resume; args.session, args.title, args.entries, args.at (home, elsewhere), args.previous
  | "undone" //            /undo; args.what (turn, waiting, reset, binding), args.text, args.session
  | "titled" //            /title; args.session, args.title
  | "policy_set" //        /autoreset; args.text: the policy as a sentence
  | "runtime_set" //       /runtime; args.from, args.to, and what the agent is now
  | "permission" //        the agent asks leave; args.title, args.options (a label a line), args.span
  | "permission_answered" // /allow, /deny; args.label; with args.title of which, and args.next, where more is asked
  | "fell_back" //         B7; a runtime failed its first turn; args.from, args.to
  | "home_set" //          /sethome; args.platform
  | "not_done" //          a command changed nothing; args.reason
  | "welcome" //           R8; what the agent is
  | "handed_off" //        /handoff; args.session, args.until (epoch ms or null), args.zone
  | "handoff_cleared" //   /handoff clear; args.had
  | "loop_guard" //        G5: agents are not answered here until a person speaks
  | "binding_ended" //     H10; args.reason, args.door (a key)
  | "session_ended_here"; // H9: the session this door was bound to has ended; args.reason
