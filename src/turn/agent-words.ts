import { cleanText } from "../message/source.ts";
import type { TurnEvent, TurnResult } from "../runtime/runtime.ts";
import { MarkStream, type ShownMarks, withoutMark } from "./leading-mark.ts";

/** Everything that a runtime says is cleaned here on its way into a turn: every door shows what is stored (O7, S6). */

const HIGH_HALF = /[\uD800-\uDBFF]$/;
const NOTHING_SHOWN: ShownMarks = new Set();

/** A turn's text as it comes in: cleaned, and without a leading mark (G2). All chunks and the rest together equal `plainWords` of the whole. */
export class WordStream {
  /** The first half of a surrogate pair whose second half may still come. */
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

  /** The text that was still held back, when nothing more comes. */
  rest(): string {
    const rest = this.#mark.take(cleanText(this.#half));
    this.#half = "";
    return rest + this.#mark.rest();
  }
}

function plainWords(text: string, shown: ShownMarks): string {
  return withoutMark(cleanText(text), shown);
}

export function cleanResult(result: TurnResult, shown: ShownMarks = NOTHING_SHOWN): TurnResult {
  const { text, failure } = result;
  const cleaned = { ...result, text: plainWords(text, shown) };
  return failure === undefined ? cleaned : { ...cleaned, failure: { ...failure, message: cleanText(failure.message) } };
}

type Question = Extract<TurnEvent, { type: "permission" }>;
type Aside = Extract<TurnEvent, { type: "tool" | "permission" | "job" }>;

/** Cleans a tool, permission or job event. Answers to a permission question go to the agent with its own option ids. */
export function cleanAside<Event extends Aside>(event: Event): Event;
export function cleanAside(event: Aside): Aside {
  const cleaned = { ...event, id: cleanText(event.id), title: cleanText(event.title) };
  return cleaned.type === "permission" ? withPlainOptions(cleaned) : cleaned;
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
