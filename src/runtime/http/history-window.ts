/**
 * HistoryWindow: the messages that go to a model without a memory. It owns where the kept history begins; states its promises:
 *
 * - Whole exchanges only, in order, user and assistant alternating, the system message first and always the same bytes.
 * - What is sent has the exchanges within the budget. Over it the oldest go in a block of a quarter of the budget, so that from one drop to
 *   the next each request begins with the bytes of the one before: the prefix cache of the server holds.
 * - Opened anew with the same exchanges and with `ref`, it sends the same bytes as the one that stayed warm.
 *
 * An exchange without an answer keeps the user's words and gets a short line in brackets; half an answer gets one below it. Never is an
 * error's text put into the model's mouth (T9).
 */
import { z } from "zod";
import type { Exchange, HistoryLine } from "../runtime.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface HistoryWindowOptions {
  readonly stablePart: string;
  /** What was said before the first exchange. */
  readonly seeds: readonly HistoryLine[];
  readonly exchanges: readonly Exchange[];
  /** What `ref` said before; one that cannot be read counts as none. */
  readonly ref?: string | undefined;
  /** Tokens for all that is sent. */
  readonly budget: number;
}

export interface Fitted {
  readonly messages: readonly ChatMessage[];
  /** Tokens by bytes alone, unscaled: to be compared with what the server counts. */
  readonly estimate: number;
  /** How many exchanges are in it. */
  readonly exchanges: number;
}

interface Pair {
  /** The turn's; of a seed negative, counted from the last one. */
  readonly id: number;
  readonly isAnswered: boolean;
  readonly messages: readonly [ChatMessage, ChatMessage];
  readonly tokens: number;
}

const BYTES_PER_TOKEN = 3.5;
const WINDOW_SHARE = 0.7;
const BLOCK_SHARE = 0.25;
/** How much one report moves the ratio of tokens counted to tokens estimated. */
const LEARNING = 0.3;
/** A token has at least one byte; below the other end a server leaves cached tokens out of its count. */
const RATIO = { least: 0.5, most: BYTES_PER_TOKEN } as const;

/** The agent's way to say nothing (O5): an answered turn without text. */
const SILENCE = "NO_REPLY";
const NO_ANSWER = "[no answer was given]";
const CUT_OFF = "[the answer was cut off here]";
/** Servers refuse empty messages. */
const NO_WORDS = "[no words]";

export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}

/** Tokens for what is sent; what is left of the window is for the reply and for the error of the estimate. */
export function promptBudget(windowTokens: number, replyReserve: number): number {
  return Math.floor(windowTokens * WINDOW_SHARE) - replyReserve;
}

export class HistoryWindow {
  readonly #system: readonly ChatMessage[];
  readonly #budget: number;
  readonly #pairs: Pair[];
  /** The last exchange that was dropped; null while there is none. */
  #after: number | null;
  #ratio: number;

  constructor({ stablePart, seeds, exchanges, ref, budget }: HistoryWindowOptions) {
    this.#system = stablePart === "" ? [] : [{ role: "system", content: stablePart.toWellFormed() }];
    this.#budget = budget;
    const known = readRef(ref);
    this.#after = known.after;
    this.#ratio = known.ratio;
    const pairs = [...seedPairs(seeds), ...exchanges.map(pairOf)].filter((pair) => this.#isWorthKeeping(pair));
    this.#pairs = keptAfter(pairs, known.after);
  }

  /** Opaque: where the kept history begins, and how the server counts. Changes with every drop and with what is learned. */
  get ref(): string {
    return JSON.stringify({ after: this.#after, ratio: this.#ratio });
  }

  /**
   * What to send, within the budget; drops blocks first where it must. A prompt that is over the budget by itself goes alone, once: for it
   * nothing is dropped.
   */
  fit(prompt: string): Fitted {
    const user: ChatMessage = { role: "user", content: wordsOr(prompt, NO_WORDS) };
    const alone = tokensOf([...this.#system, user]);
    if (this.#scaled(alone) > this.#budget) {
      return { messages: [...this.#system, user], estimate: alone, exchanges: 0 };
    }
    while (this.#scaled(alone + this.#tokens()) > this.#budget) this.dropBlock();
    const history = this.#pairs.flatMap(({ messages }) => messages);
    return {
      messages: [...this.#system, ...history, user],
      estimate: alone + this.#tokens(),
      exchanges: this.#pairs.length,
    };
  }

  /** Drops the oldest exchanges, a quarter of the budget or all there is. False when there was none. */
  dropBlock(): boolean {
    let freed = 0;
    while (this.#scaled(freed) < this.#budget * BLOCK_SHARE) {
      const oldest = this.#pairs.shift();
      if (oldest === undefined) break;
      freed += oldest.tokens;
      this.#after = oldest.id;
    }
    return freed > 0;
  }

  /** A turn that is run again takes the place of its own try without an answer. */
  add(exchange: Exchange): void {
    const last = this.#pairs.at(-1);
    if (last?.id === exchange.turnId && !last.isAnswered) this.#pairs.pop();
    const pair = pairOf(exchange);
    if (this.#isWorthKeeping(pair)) this.#pairs.push(pair);
  }

  /** The server counted `counted` tokens where `estimate` were expected. */
  learn(estimate: number, counted: number): void {
    if (!(estimate > 0 && counted > 0)) return;
    const seen = Math.min(RATIO.most, Math.max(RATIO.least, counted / estimate));
    this.#ratio = Math.round((this.#ratio + LEARNING * (seen - this.#ratio)) * 100) / 100;
  }

  #tokens(): number {
    return this.#pairs.reduce((sum, pair) => sum + pair.tokens, 0);
  }

  #scaled(tokens: number): number {
    return tokens * this.#ratio;
  }

  /** A prompt of more than a block that got no answer would push out what was said before, for nothing. */
  #isWorthKeeping({ isAnswered, tokens }: Pair): boolean {
    return isAnswered || tokens <= this.#budget * BLOCK_SHARE;
  }
}

function pairOf({ turnId, prompt, reply, mark }: Exchange): Pair {
  const said = (reply ?? "").trim();
  const whole = said === "" ? SILENCE : said;
  const part = said === "" ? NO_ANSWER : `${said}\n${CUT_OFF}`;
  const messages = [
    { role: "user", content: wordsOr(prompt, NO_WORDS) },
    { role: "assistant", content: (mark === null ? whole : part).toWellFormed() },
  ] as const;
  return { id: turnId, isAnswered: mark === null || said !== "", messages, tokens: tokensOf(messages) };
}

/** Lines in any order as exchanges: neighbours of one side are joined, marks are the agent's side. */
function seedPairs(lines: readonly HistoryLine[]): Pair[] {
  const sides: { user: string[]; assistant: string[] }[] = [];
  for (const { role, text } of lines) {
    const last = sides.at(-1);
    const isNext = last === undefined || (role === "user" && last.assistant.length > 0);
    const side = isNext ? { user: [], assistant: [] } : last;
    if (isNext) sides.push(side);
    side[role === "user" ? "user" : "assistant"].push(text);
  }
  return sides.map(({ user, assistant }, at) =>
    pairOf({
      turnId: at - sides.length,
      prompt: user.join("\n"),
      reply: assistant.join("\n"),
      mark: assistant.length === 0 ? "unanswered" : null,
    }),
  );
}

/** Turn ids grow; where the dropped one itself is gone (undone, pruned), they tell what was younger. */
function keptAfter(pairs: readonly Pair[], after: number | null): Pair[] {
  if (after === null) return [...pairs];
  const at = pairs.findIndex(({ id }) => id === after);
  return at >= 0 ? pairs.slice(at + 1) : pairs.filter(({ id }) => id > after);
}

function tokensOf(messages: readonly ChatMessage[]): number {
  return messages.reduce((sum, { content }) => sum + estimateTokens(content), 0);
}

function wordsOr(text: string, placeholder: string): string {
  return text.trim() === "" ? placeholder : text.toWellFormed();
}

const NO_REF = { after: null, ratio: 1 } as const;
const refShape = z.object({
  after: z.number().int().nullable(),
  ratio: z.number().min(RATIO.least).max(RATIO.most),
});

function readRef(ref: string | undefined): z.infer<typeof refShape> {
  if (ref === undefined) return NO_REF;
  try {
    return refShape.parse(JSON.parse(ref));
  } catch {
    // Another runtime's, or an older form: the whole history is offered, and dropped to fit again.
    return NO_REF;
  }
}
