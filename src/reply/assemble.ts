import type { Target } from "../message/target.ts";
import type { Settlement } from "../store/store.ts";
import { limitOf } from "./limits.ts";
import { splitText } from "./split.ts";

/** The agent says it alone when there is nothing to say (O5). */
const SILENCE = "NO_REPLY";

/** A finished text as the settlement of its turn: silent, empty, or a reply in the parts its door takes. */
export function assembleReply(text: string, target: Target): Pick<Settlement, "outcome" | "parts"> {
  const trimmed = text.trim();
  if (trimmed === SILENCE) return { outcome: { state: "answered", silent: true } };
  if (trimmed === "") {
    const sentence = "The agent gave an empty answer, twice. Ask again, or in other words.";
    return {
      outcome: {
        state: "failed",
        reason: "empty",
        partial: "",
        notice: { code: "failed", args: { code: "runtime_failed", sentence } },
      },
    };
  }
  return { outcome: { state: "answered", text }, parts: partsFor(text, target) };
}

/** Pull doors take a text whole. A part of nothing but white space is left out: platforms refuse it, and with it the rest of the reply. */
function partsFor(text: string, target: Target): readonly string[] {
  const limit = limitOf(target);
  return limit === null ? [text] : splitText(text, limit).filter((part) => part.trim() !== "");
}
