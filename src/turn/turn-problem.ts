import { type ErrorCode, isErrorCode, TertuliaError } from "../errors.ts";
import type { TurnAnswer } from "../store/readers.ts";
import { withAdvice } from "../text/advice.ts";
import { renderNotice } from "../text/render-notice.ts";

/** The error that the author of a turn without an answer gets (T3); null for an answered turn. */
export function turnProblem({ turn, notices }: TurnAnswer): TertuliaError | null {
  if (turn.state === "answered") return null;
  const code = problemCode(turn.state, turn.reason);
  const failed = notices.find((notice) => notice.code === "failed");
  if (failed !== undefined) {
    const fellBack = notices.filter((notice) => notice.code === "fell_back").map(renderNotice);
    const sentences = [String(failed.args.sentence), ...fellBack];
    return new TertuliaError(code, sentences.join(" "), { remedy: String(failed.args.remedy) });
  }
  // The partial text stands beside the error, not in it.
  const sentence = notices
    .map(({ code: kind, args }) => renderNotice({ code: kind, args: { ...args, partial: "" } }))
    .join(" ");
  if (sentence === "") return new TertuliaError(code, `The message was not answered (${turn.reason ?? turn.state}).`);
  const { sentence: why, advice } = withAdvice(sentence);
  // An API client needs other advice than a chat: the same key would not run an interrupted turn again (T3).
  const remedy = advice === undefined || code === "turn_interrupted" ? {} : { remedy: advice };
  return new TertuliaError(code, why, remedy);
}

/** The error code of a final state other than `answered`; for a failure it is the stored reason. */
function problemCode(state: string, reason: string | null): ErrorCode {
  if (state === "withdrawn") return "turn_withdrawn";
  if (state === "interrupted") return "turn_interrupted";
  if (reason === "timeout") return "turn_timeout";
  return reason !== null && isErrorCode(reason) ? reason : "turn_failed";
}
