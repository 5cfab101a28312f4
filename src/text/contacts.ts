import { normalized } from "../util/normalized.ts";
import { oneLine } from "./untrusted.ts";

/** Telephone numbers and addresses in names and titles that strangers choose. */

/** Seven digits or more, of any script, with marks between them; `,` and `:` stand in lists and times. */
const NUMBER = /[+\(]{0,2}\p{Nd}(?:[[\s\p{P}\p{S}\p{M}]--[,:@]]{0,3}\p{Nd}){6,}/gv;
/** An account that is a number. */
const NUMBER_ID = /^\+?(\p{Nd}+)(?:@|$)/u;
const DATE = /^(?:\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{4})$/;
/** What an address is made of on both sides of its sign. */
const EDGE = /[\s<>()[\]{}"',;:!?]/u;
/** A shorter id is in too many names by chance. */
const SHORTEST_ID = 4;

/** Whether a name says who it is as the id does. */
export function tellsId(name: string, id: string): boolean {
  const [plain, plainId] = [folded(name), folded(id)];
  if (plain === "") return false;
  if (plain === plainId || (plainId.length >= SHORTEST_ID && plain.includes(plainId))) return true;
  const number = NUMBER_ID.exec(plainId)?.[1] ?? "";
  if (number.length >= SHORTEST_ID && plain.replace(/[^\p{L}\p{N}]/gu, "").includes(number)) return true;
  return withoutContacts(name, () => "") !== shown(name);
}

export function withoutContacts(text: string, standIn: (contact: string) => string): string {
  return withoutAddresses(shown(text), standIn).replace(NUMBER, (number) =>
    DATE.test(number) ? number : standIn(number),
  );
}

/** `ann@example.org`, and what else stands on both sides of the sign without a space. */
function withoutAddresses(text: string, standIn: (contact: string) => string): string {
  let result = "";
  let from = 0;
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", at + 1)) {
    let [start, end] = [at, at + 1];
    while (start > from && !EDGE.test(text[start - 1]!)) start--;
    while (end < text.length && !EDGE.test(text[end]!)) end++;
    if (start === at || end === at + 1) continue;
    result += text.slice(from, start) + standIn(text.slice(start, end));
    from = end;
    at = end - 1;
  }
  return result + text.slice(from);
}

function shown(text: string): string {
  return normalized(oneLine(text), "NFKC");
}

function folded(text: string): string {
  return shown(text).toLowerCase();
}
