/**
 * An agent that goes on with a session tells its history again, mostly before it answers the load, sometimes after that, and sometimes in
 * the middle of the next turn. A Replay hears that history and knows when all of it was told; a ReplayFilter takes out of a turn what is
 * no answer to its prompt (B10). Words are compared without their white space.
 */

import { cleanText } from "../../message/source.ts";
import { BRACKETS, isYou } from "../../text/untrusted.ts";
import type { HistoryLine } from "../runtime.ts";
import type { Said } from "./updates.ts";

/** So many of the last replies end a replay: an agent can have given one answer several times. */
const ENDING_REPLIES = 3;
/** A reply below it, in the middle of an answer, is more likely a word of the answer. */
const TELLING_LENGTH = 4;

export class Replay {
  /** Every reply that we know, the oldest first. */
  readonly known: readonly string[];
  readonly #ending: string;
  #heard = "";
  #isSeen = false;

  constructor(lines: readonly HistoryLine[]) {
    this.known = lines
      .filter(({ role }) => role === "assistant")
      .map(({ text, said = text }) => squeezed(said))
      .filter((reply) => reply !== "");
    this.#ending = this.known.slice(-ENDING_REPLIES).join("");
  }

  /** The agent has told something of its history. */
  get isSeen(): boolean {
    return this.#isSeen;
  }

  /** The last answer that we know was told. */
  get isWhole(): boolean {
    return this.#ending !== "" && this.#heard === this.#ending;
  }

  hear(said: Said): void {
    if (said.type !== "text" && said.type !== "echo") return;
    this.#isSeen = true;
    if (said.type === "text" && this.#ending !== "")
      this.#heard = (this.#heard + squeezed(said.text)).slice(-this.#ending.length);
  }
}

export interface ReplayFilterOptions {
  readonly known: readonly string[];
  /** What the agent is asked, in all ways it can be said again: an agent that repeats it replays nothing. */
  readonly prompts: readonly string[];
  /** Its replay did not reach the last answer that we know: the rest of it can still come. */
  readonly isExpected: boolean;
}

/** Of one turn. Each method returns what is certain to be of the answer. */
export class ReplayFilter {
  readonly #known: readonly string[];
  readonly #prompts: readonly string[];
  readonly #isExpected: boolean;
  /** answer: what comes is of the turn; open: it can be a reply told again; replay: it follows a message that somebody wrote earlier. */
  #state: "answer" | "open" | "replay";
  /** The message of a person's that is being told. */
  #echo = "";
  /** Words that are, so far, the beginning of a reply that we know. */
  #held = "";
  #hasDropped = false;

  constructor({ known, prompts, isExpected }: ReplayFilterOptions) {
    this.#known = known;
    this.#prompts = prompts.map(squeezed);
    this.#isExpected = isExpected && known.length > 0;
    this.#state = this.#isExpected ? "open" : "answer";
  }

  /** Something that came in this turn was a replay. */
  get hasDropped(): boolean {
    return this.#hasDropped;
  }

  echo(text: string): string {
    const rest = this.#echo === "" ? this.#release() : "";
    this.#echo += squeezed(text);
    return rest;
  }

  text(text: string): string {
    this.#judgeEcho();
    if (this.#state === "answer") {
      if (!this.#isToldAgain(text)) return text;
      this.#hasDropped = true;
      return "";
    }
    this.#held += text;
    for (;;) {
      const [whole, half] = wholeCharacters(this.#held);
      const clean = cleanText(whole);
      const mark = ownMark(clean);
      if (mark === null) return "";
      const start = squeezed(clean.slice(mark));
      if (start === "" || this.#known.some((reply) => reply.startsWith(start))) return "";
      const told = this.#known.filter((reply) => start.startsWith(reply)).sort((a, b) => b.length - a.length)[0];
      if (told === undefined) return this.#flush();
      this.#held = behind(clean.slice(mark), told.length) + half;
      this.#state = "open";
      this.#hasDropped = true;
    }
  }

  /** Whether what is no text, a tool or a thought, is of a replay too. */
  isReplaying(): boolean {
    this.#judgeEcho();
    return this.#state === "replay";
  }

  /** At the end of the turn. A reply that nothing else came before or after was given again. */
  end(): string {
    this.#judgeEcho();
    return this.#hasDropped ? this.#release() : this.#flush();
  }

  #judgeEcho(): void {
    if (this.#echo === "") return;
    const isOurs = this.#prompts.includes(this.#echo);
    this.#echo = "";
    this.#hasDropped ||= !isOurs;
    if (!isOurs) this.#state = "replay";
    else this.#state = this.#isExpected || this.#hasDropped ? "open" : "answer";
  }

  /** A whole reply in one piece, where the answer has begun already. */
  #isToldAgain(text: string): boolean {
    const reply = asKnown(text);
    return this.#isExpected && reply.length >= TELLING_LENGTH && this.#known.includes(reply);
  }

  /** What was held where something else begins: a reply that was told again, or the beginning of the answer. */
  #release(): string {
    if (!this.#known.includes(asKnown(this.#held))) return this.#flush();
    this.#held = "";
    this.#hasDropped = true;
    return "";
  }

  #flush(): string {
    const held = this.#held;
    this.#held = "";
    if (held.trim() === "") return "";
    if (this.#state === "replay") return "";
    this.#state = "answer";
    return held;
  }
}

/** As a reply is stored: cleaned, and without the mark that the agent wrote before it (S6, G2). */
function asKnown(text: string): string {
  const clean = cleanText(text);
  return squeezed(clean.slice(ownMark(clean) ?? 0));
}

/** The text up to the first half of a character whose other half may still come. */
function wholeCharacters(text: string): [whole: string, half: string] {
  const half = /[\uD800-\uDBFF]$/.exec(text)?.[0] ?? "";
  return [text.slice(0, text.length - half.length), half];
}

const MARK_BEGUN = new RegExp(`^\\s*[${BRACKETS.open}][^\\n\\${BRACKETS.close}]{0,40}$`, "u");
const MARK = new RegExp(`^\\s*[${BRACKETS.open}]([^\\n\\${BRACKETS.close}]{0,40})[\\${BRACKETS.close}]\\s*[:：]?`, "u");

/** How long the agent's own mark is that a text begins with, 0 without one; null while one can still come. */
function ownMark(text: string): number | null {
  if (MARK_BEGUN.test(text)) return null;
  const [mark = "", name = ""] = MARK.exec(text) ?? [];
  return isYou(name) ? mark.length : 0;
}

function squeezed(text: string): string {
  return text.replace(/\s+/g, "");
}

/** What stands behind so many of its characters that are no white space. */
function behind(text: string, characters: number): string {
  let at = 0;
  for (let left = characters; left > 0; at++) if (/\S/.test(text.charAt(at))) left--;
  return text.slice(at).trimStart();
}
