import type { Config } from "../config/config.ts";
import { TertuliaError } from "../errors.ts";
import type { Notice } from "../message/notice.ts";
import { cleanText } from "../message/source.ts";
import type { Runtime, RuntimeFailure, TurnResult } from "../runtime/runtime.ts";
import type { Lease } from "../runtime/runtime-pool.ts";
import type { TurnMaterial } from "../store/readers.ts";
import type { Settlement, Turn } from "../store/turns.ts";
import { withAdvice, withoutLocalAddress } from "../text/advice.ts";
import { assembleReply } from "../text/assemble.ts";
import { describeSpan } from "../util/span.ts";
import type { LiveTurn } from "./live-turn.ts";

/** How a turn ends: its settlement without the turn's own fields. */
export type TurnEnding = Omit<Settlement, "turnId" | "attempt" | "now">;

interface EndingContext {
  readonly material: TurnMaterial;
  readonly runtime: Runtime;
  readonly config: Config;
}

/** The agent gave a result: the ending that follows from it, and the runtime's health after it (B6, B7). */
export function answeredEnding(
  live: LiveTurn,
  { result, lease }: { readonly result: TurnResult; readonly lease: Lease },
  context: EndingContext,
): TurnEnding {
  const ending = endingOf(live, result);
  const { state } = ending.outcome;
  const status = state === "failed" || isGone(result) ? "degraded" : "healthy";
  return {
    ...ending,
    ...(state === "interrupted" ? {} : trialOf(context, state === "answered" ? "passed" : "failed")),
    runtime: { name: context.runtime.name, ref: lease.session.ref, status, restarts: lease.restarts },
  };
}

/** The agent could not be opened. If it died while it was opened, that is the session's fault (R7); if it was not tried, it is not. */
export function unopenedEnding(error: TertuliaError, context: EndingContext): TurnEnding {
  const isBroken = error.code === "runtime_failed";
  const restarts = context.material.runtimeState?.restarts ?? 0;
  return {
    ...failedBy(error, ""),
    sessionFault: isBroken,
    ...trialOf(context, "failed"),
    ...(isBroken ? { runtime: { name: context.runtime.name, status: "broken", restarts } } : {}),
  };
}

/** A trial fails only where the runtime before it is still configured: otherwise there is no way back. */
function trialOf(
  { material, runtime, config }: EndingContext,
  outcome: "passed" | "failed",
): Pick<TurnEnding, "trial"> {
  const { name: chosen, before, isOnTrial } = material.home.runtime;
  const isPossible = outcome === "passed" || (before !== null && config.runtimes[before] !== undefined);
  return isOnTrial && isPossible ? { trial: { chosen, runtime: runtime.name, outcome } } : {};
}

/** Whether the agent, or its session, is lost. */
export function isGone({ failure }: TurnResult): boolean {
  return failure?.kind === "process-died" || failure?.kind === "session-gone";
}

function endingOf(live: LiveTurn, result: TurnResult): TurnEnding {
  const usage = result.usage === undefined ? {} : { usage: result.usage };
  if (live.stopReason !== null) return { ...cancelledEnding(live), ...usage };
  if (result.outcome === "failed") return { ...failedEnding(live, result.failure), ...usage };
  if (result.outcome === "cancelled") {
    const error = new TertuliaError("runtime_failed", "The agent ended its turn without an answer.");
    return { ...failedBy(error, live.text), ...usage };
  }
  return { ...assembleReply(result.text, live.turn.target), ...usage };
}

/** The store has ended the turn already: this ending is never written. */
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

/** The turn was stopped: its text so far is kept, and its author gets the reason. */
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

/** T9: the turn failed: the transcript gets one marked entry, and the author one sentence with the remedy. */
export function failedBy(error: TertuliaError, partial: string): TurnEnding {
  return {
    outcome: {
      state: "failed",
      reason: error.code,
      partial,
      notice: {
        code: "failed",
        // The message of an agent that could not be opened is its own text.
        args: { code: error.code, sentence: cleanText(error.message), remedy: cleanText(error.remedy) },
      },
    },
  };
}
