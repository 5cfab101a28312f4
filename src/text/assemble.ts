import type { Notice } from "../message/notice.ts";
import type { Target } from "../message/target.ts";
import { limitOf } from "./limits.ts";
import { isSilence } from "./silence.ts";
import { splitText } from "./split.ts";

/** How a turn with that text is settled. */
export type AssembledReply =
  | { readonly outcome: { readonly state: "answered"; readonly silent: true }; readonly parts?: never }
  | { readonly outcome: { readonly state: "answered"; readonly text: string }; readonly parts: readonly string[] }
  | {
      readonly outcome: {
        readonly state: "failed";
        readonly reason: "empty";
        readonly partial: "";
        readonly notice: Notice;
      };
      readonly parts?: never;
    };

/** A finished text is silent, empty, or a reply in the parts that its door takes (O3, O5). */
export function assembleReply(text: string, target: Target): AssembledReply {
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
