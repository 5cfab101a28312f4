/** Whether a message in a group is meant for an agent (G1). Pure: each agent judges the same message by the same rule. */

import { normalized } from "../util/normalized.ts";
import { openText } from "./open-text.ts";

export interface Called {
  readonly name: string;
  /** What it is mentioned by, as configured. */
  readonly names: readonly string[];
  /** With `{name}` where the name stands; besides `@name`, which always counts. */
  readonly mentionFormat: string;
  readonly answer: "addressed" | "always";
}

export interface Words {
  readonly text: string;
  /** A reply to a message of this agent's own. */
  readonly isReplyToOwn: boolean;
  /** The platform itself says so. */
  readonly isMentioned: boolean;
}

export interface Address {
  readonly isAddressed: boolean;
  /** The text without the address it begins with: where a command may stand. */
  readonly rest: string;
}

/** `others`: the names of all agents; the longest one that fits at a spot is the one meant there. */
export function addressOf(words: Words, agent: Called, others: readonly string[] = []): Address {
  const open = openText(folded(words.text));
  const calls = callsOf(agent, others);
  const head = calls.headOf(open);
  const isAddressed =
    agent.answer === "always" ||
    words.isReplyToOwn ||
    words.isMentioned ||
    head !== null ||
    open.split("\n").some((line) => calls.mentions(line));
  return { isAddressed, rest: isAddressed ? restOf(words.text, head) : words.text };
}

/** The name behind `/command@`, if it is one of the agent's. */
export function isCommandFor(text: string, agent: Called): boolean {
  const named = /^\s*\/[a-z][a-z0-9_-]*@(\S+)/iu.exec(folded(text))?.[1];
  return named !== undefined && agent.names.some((name) => folded(name) === named);
}

/** Also what stands in full width: `＠`, `，`, `：` and letters. */
function folded(text: string): string {
  return normalized(text, "NFKC").toLowerCase();
}

interface Calls {
  /** What the text begins with where that calls the agent: `@nova`, `nova:`. */
  headOf(open: string): string | null;
  mentions(line: string): boolean;
}

function callsOf(agent: Called, others: readonly string[]): Calls {
  const own = agent.names.map(folded).filter((name) => name !== "");
  const longer = others.map(folded).filter((other) => !own.includes(other));
  /** Whether the name at that spot is this one, and not the beginning of a longer one. */
  const endsAt = (line: string, at: number, name: string): boolean => {
    if (!line.startsWith(name, at)) return false;
    if (longer.some((other) => other.length > name.length && other.startsWith(name) && line.startsWith(other, at)))
      return false;
    return !goesOn(name, line.slice(at + name.length));
  };
  const [before = "@", after = ""] = folded(agent.mentionFormat).split("{name}");
  const forms = [{ before: "@", after: "" }, ...(before === "" ? [] : [{ before, after }])];
  const mentionAt = (line: string, at: number): string | null => {
    for (const form of forms) {
      if (!line.startsWith(form.before, at) || isInside(line, at, form.before)) continue;
      for (const name of own) {
        const start = at + form.before.length;
        const isIt = form.after === "" ? endsAt(line, start, name) : line.startsWith(`${name}${form.after}`, start);
        if (isIt) return line.slice(at, start + name.length + form.after.length);
      }
    }
    return null;
  };
  return {
    headOf(open) {
      const start = /^\s*/.exec(open)![0].length;
      const mention = mentionAt(open, start);
      if (mention !== null) return mention;
      const bare = own.find(
        (name) => open.startsWith(name, start) && /^[\s,:、]/.test(open.slice(start + name.length)),
      );
      return bare ?? null;
    },
    mentions(line) {
      for (let at = 0; at < line.length; at++) if (mentionAt(line, at) !== null) return true;
      return false;
    },
  };
}

/** Scripts that write words without a boundary between them. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]$/u;
const SCRIPTS = ["Latin", "Cyrillic", "Greek", "Armenian", "Georgian", "Hebrew", "Arabic", "Devanagari"] as const;

/** Whether the word goes on behind the name: by a letter of the name's own script, a digit, an underscore or a hyphenated part. */
function goesOn(name: string, behind: string): boolean {
  if (/^\p{M}/u.test(behind)) return true;
  if (UNSPACED.test(name)) return false;
  return wordCharacter(name).test(behind) || /^-[\p{L}\p{N}]/u.test(behind);
}

/** An `@` in the middle of an address is no mention. */
function isInside(line: string, at: number, mark: string): boolean {
  return mark.startsWith("@") && /[a-z0-9_@/+-]/.test(line[at - 1] ?? "");
}

function wordCharacter(name: string): RegExp {
  const script = SCRIPTS.find((known) => new RegExp(`\\p{Script=${known}}`, "u").test(name));
  const letters = script === undefined ? "\\p{L}" : `\\p{Script=${script}}`;
  return new RegExp(`^(?:${letters}|\\p{N}|_)`, "u");
}

/** Without the address, as it was written: folding can change its length, so it is taken off letter by letter. */
function restOf(text: string, head: string | null): string {
  const trimmed = text.trimStart();
  if (head === null) return trimmed;
  let taken = "";
  let at = 0;
  for (const letter of trimmed) {
    if (taken.length >= head.length) break;
    taken += folded(letter);
    at += letter.length;
  }
  return trimmed.slice(at).replace(/^[\s,:、，：]+/u, "");
}
