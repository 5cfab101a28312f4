import type { Target } from "../message/target.ts";
import type { Settlement } from "../store/store.ts";
import { limitOf } from "./limits.ts";
import { isSilence } from "./silence.ts";
import { splitText } from "./split.ts";

/** A finished text as the settlement of its turn: silent, empty, or a reply in the parts its door takes. */
export function assembleReply(text: string, target: Target): Pick<Settlement, "outcome" | "parts"> {
  if (isSilence(text)) return { outcome: { state: "answered", silent: true } };
  if (text.trim() === "") {
    const sentence = "The agent gave an empty answer.";
    const remedy = "Ask again, or in other words.";
    return {
      outcome: {
        state: "failed",
        reason: "empty",
        partial: "",
        notice: { code: "failed", args: { code: "runtime_failed", sentence, remedy } },
      },
    };
  }
  return { outcome: { state: "answered", text }, parts: partsFor(text, target) };
}

/** Pull doors take a text whole. A part of nothing but white space is left out: platforms refuse it, and with it the rest of the reply. */
export function partsFor(text: string, target: Target): readonly string[] {
  const limit = limitOf(target);
  return limit === null ? [text] : splitText(text, limit).filter((part) => part.trim() !== "");
}
