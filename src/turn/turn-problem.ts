import { type ErrorCode, isErrorCode, TertuliaError } from "../errors.ts";
import type { TurnAnswer } from "../store/store.ts";
import { withAdvice } from "../text/advice.ts";
import { renderNotice } from "../text/render-notice.ts";

/** A turn that did not end in an answer, as the error its author gets (T3); null for one that did. */
export function turnProblem({ turn, notices }: TurnAnswer): TertuliaError | null {
  if (turn.state === "answered") return null;
  const code = problemCode(turn.state, turn.reason);
  const failed = notices.find((notice) => notice.code === "failed");
  if (failed !== undefined) {
    const fellBack = notices.filter((notice) => notice.code === "fell_back").map(renderNotice);
    const sentences = [String(failed.args.sentence), ...fellBack];
    return new TertuliaError(code, sentences.join(" "), { remedy: String(failed.args.remedy) });
  }
  // What had been said is beside the error, and not in it.
  const sentence = notices
    .map(({ code: kind, args }) => renderNotice({ code: kind, args: { ...args, partial: "" } }))
    .join(" ");
  if (sentence === "") return new TertuliaError(code, `The message was not answered (${turn.reason ?? turn.state}).`);
  const { sentence: why, advice } = withAdvice(sentence);
  // Of a turn that was interrupted an API has to know more than a chat: the same key would not run it again (T3).
  const remedy = advice === undefined || code === "turn_interrupted" ? {} : { remedy: advice };
  return new TertuliaError(code, why, remedy);
}

/** The code of a final state that is no answer; of a failure it is the stored reason. */
export function problemCode(state: string, reason: string | null): ErrorCode {
  if (state === "withdrawn") return "turn_withdrawn";
  if (state === "interrupted") return "turn_interrupted";
  if (reason === "timeout") return "turn_timeout";
  return reason !== null && isErrorCode(reason) ? reason : "turn_failed";
}
