import { cleanText } from "../message/source.ts";
import type { TurnEvent, TurnResult } from "../runtime/runtime.ts";
import { MarkStream, type ShownMarks, withoutMark } from "./leading-mark.ts";

/** Everything that a runtime says comes into a turn through here: what is told at any door is what is stored (O7, S6). */

const HIGH_HALF = /[\uD800-\uDBFF]$/;
const NOTHING_SHOWN: ShownMarks = new Set();

/** One turn's words as they come: cleaned, and without the mark that was shown (G2). The chunks and the rest are together `toldWords` of the whole. */
export class WordStream {
  /** The first half of a character whose second half may still come. */
  #half = "";
  readonly #mark: MarkStream;

  constructor(shown: ShownMarks = NOTHING_SHOWN) {
    this.#mark = new MarkStream(shown);
  }

  take(chunk: string): string {
    const text = this.#half + chunk;
    this.#half = HIGH_HALF.exec(text)?.[0] ?? "";
    return this.#mark.take(cleanText(this.#half === "" ? text : text.slice(0, -1)));
  }

  /** Nothing more comes: a half that waits stays one. */
  rest(): string {
    const rest = this.#mark.take(cleanText(this.#half));
    this.#half = "";
    return rest + this.#mark.rest();
  }
}

export function toldWords(text: string, shown: ShownMarks): string {
  return withoutMark(cleanText(text), shown);
}

export function cleanResult(result: TurnResult, shown: ShownMarks = NOTHING_SHOWN): TurnResult {
  const { text, failure } = result;
  const cleaned = { ...result, text: toldWords(text, shown) };
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
