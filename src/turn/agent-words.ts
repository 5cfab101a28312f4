import { cleanText } from "../message/source.ts";
import type { TurnEvent, TurnResult } from "../runtime/runtime.ts";

/** Everything that a runtime says comes into a turn through here: what is told at any door is what is stored (O7, S6). */

const HIGH_HALF = /[\uD800-\uDBFF]$/;

/** One turn's words as they come. The chunks that were taken, and the rest, are together what `cleanText` makes of the whole. */
export class WordStream {
  /** The first half of a character whose second half may still come. */
  #half = "";

  take(chunk: string): string {
    const text = this.#half + chunk;
    this.#half = HIGH_HALF.exec(text)?.[0] ?? "";
    return cleanText(this.#half === "" ? text : text.slice(0, -1));
  }

  /** Nothing more comes: a half that waits stays one. */
  rest(): string {
    const rest = cleanText(this.#half);
    this.#half = "";
    return rest;
  }
}

export function cleanResult(result: TurnResult): TurnResult {
  const { text, failure } = result;
  const cleaned = { ...result, text: cleanText(text) };
  return failure === undefined ? cleaned : { ...cleaned, failure: { ...failure, message: cleanText(failure.message) } };
}

type Question = Extract<TurnEvent, { type: "permission" }>;
type Aside = Extract<TurnEvent, { type: "tool" | "permission" | "job" }>;

/** What is told beside the words; the agent is answered with the ids that it gave. */
export function cleanAside<Event extends Aside>(event: Event): Event;
export function cleanAside(event: Aside): Aside {
  const told = { ...event, id: cleanText(event.id), title: cleanText(event.title) };
  return told.type === "permission" ? withPlainOptions(told) : told;
}

function withPlainOptions(question: Question): Question {
  const { options } = question;
  const plain = options.map((option) => ({ ...option, id: cleanText(option.id), label: cleanText(option.label) }));
  return {
    ...question,
    options: plain,
    answer: (optionId) => question.answer(options[plain.findIndex(({ id }) => id === optionId)]?.id ?? null),
  };
}
