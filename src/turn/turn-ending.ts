import { TertuliaError } from "../errors.ts";
import type { Notice } from "../message/notice.ts";
import { cleanText } from "../message/source.ts";
import type { RuntimeFailure, TurnResult } from "../runtime/runtime.ts";
import type { Settlement, Turn } from "../store/store.ts";
import { withAdvice, withoutLocalAddress } from "../text/advice.ts";
import { assembleReply } from "../text/assemble.ts";
import { describeSpan } from "../util/span.ts";
import type { LiveTurn } from "./live-turn.ts";

/** What a turn comes to; its settlement is written from it. */
export type TurnEnding = Omit<Settlement, "turnId" | "attempt" | "now">;

/** What the agent's result means for the turn: an answer, silence, a failure, or the end of a stop. */
export function endingOf(live: LiveTurn, result: TurnResult): TurnEnding {
  const usage = result.usage === undefined ? {} : { usage: result.usage };
  if (live.stopReason !== null) return { ...cancelledEnding(live), ...usage };
  if (result.outcome === "failed") return { ...failedEnding(live, result.failure), ...usage };
  if (result.outcome === "cancelled") {
    return {
      ...failedBy(new TertuliaError("runtime_failed", "The agent ended its turn without an answer."), live.text),
      ...usage,
    };
  }
  return { ...assembleReply(result.text, live.turn.target), ...usage };
}

/** The store ended the turn before us: this is not written. */
export function lostEnding(): TurnEnding {
  return {
    outcome: {
      state: "interrupted",
      reason: "lost",
      partial: "",
      notice: { code: "interrupted", args: { reason: "reset" } },
    },
  };
}

/** A turn that was stopped: what had been said is kept, and its author is told why. */
export function cancelledEnding(live: LiveTurn): TurnEnding {
  const partial = live.text;
  const reason = live.stopReason ?? { kind: "stopped" };
  if (reason.kind === "timeout") {
    const notice: Notice = {
      code: "timeout",
      args: {
        limit: reason.limit,
        span: describeSpan(reason.ms),
        setting: reason.limit === "idle" ? "turn.turn_idle_timeout" : "turn.turn_timeout",
      },
    };
    return { outcome: { state: "failed", reason: "timeout", partial, notice } };
  }
  return {
    outcome: {
      state: "interrupted",
      reason: reason.kind,
      partial,
      notice: { code: "interrupted", args: { partial, reason: reason.kind } },
    },
  };
}

const SESSION_FAULTS: readonly RuntimeFailure["kind"][] = ["session-gone", "protocol", "overflow"];

function failedEnding(live: LiveTurn, failure: RuntimeFailure | undefined): TurnEnding {
  const code = failure?.kind === "process-died" ? "runtime_died" : "runtime_failed";
  const said = failure?.message ?? "The agent failed without saying why.";
  const { sentence, advice } = withAdvice(isOwnersAlone(live.turn) ? said : withoutLocalAddress(said));
  const error = new TertuliaError(code, sentence, advice === undefined ? {} : { remedy: advice });
  return {
    ...failedBy(error, live.text),
    sessionFault: failure !== undefined && SESSION_FAULTS.includes(failure.kind),
  };
}

function isOwnersAlone({ authority, audience }: Turn): boolean {
  return authority.role === "owner" && audience.kind === "person" && audience.personId === authority.personId;
}

/** T9: the user's message and one marked entry; the author gets one sentence with the remedy. */
export function failedBy(error: TertuliaError, partial: string): TurnEnding {
  return {
    outcome: {
      state: "failed",
      reason: error.code,
      partial,
      notice: {
        code: "failed",
        // An agent that could not be opened speaks through its error.
        args: { code: error.code, sentence: cleanText(error.message), remedy: cleanText(error.remedy) },
      },
    },
  };
}
