import { cleanText } from "../message/source.ts";
import { normalized } from "../util/normalized.ts";

/** Texts that strangers choose, made harmless for a place between lines of ours (C4, G2). All of it is pure, and safe to repeat. */

const LONGEST = 240;

const LINE_END = /(\r\n|[\n\r\v\f\u0085\u2028\u2029])/u;
/** Takes room and shows nothing: fillers and the empty Braille pattern. */
const BLANK = /[\p{Cc}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/gu;
/** Takes no room: zero-width and bidirectional controls, tags, variation selectors. */
const UNSEEN = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Such as a mark stands in, in every width. */
export const BRACKETS = { open: "[［【〔⟦❲〚〖﹝﹇", close: "]］】〕⟧❳〛〗﹞﹈" } as const;
const OPEN = BRACKETS.open;
const CLOSE = `\\${BRACKETS.close}`;
/** A line that begins as a mark of an author does, or a filled-in form of it. */
const MARK = new RegExp(`^[${OPEN}][^${CLOSE}]*[${CLOSE}]`, "u");
const AT_START = /^[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]+/u;
/** With the Greek, Cyrillic and Armenian letters that look the same. */
const YOU = /^[yγυуү][oοоօ0][uυսц∪]$/u;

/** One line without control, invisible or bidirectional characters. */
export function oneLine(value: string): string {
  return cleanText(value).replace(BLANK, " ").replace(UNSEEN, "").replace(/\s+/gu, " ").trim();
}

/** A value that a stranger can choose, as one JSON string of at most `most` characters (C4). */
export function quoteUntrusted(value: string, most = LONGEST): string {
  return JSON.stringify(shorten(oneLine(value), most));
}

/** At most `most` code points; what is left out is shown by an ellipsis. */
export function shorten(text: string, most: number): string {
  const points = Array.from(text);
  return points.length > most ? `${points.slice(0, Math.max(0, most - 1)).join("")}…` : text;
}

/** The lines of a text, without what would turn one around. */
export function linesOf(text: string): string[] {
  return text
    .replace(BIDI, "")
    .split(LINE_END)
    .filter((_, i) => i % 2 === 0);
}

/** Changes every line of a text, and leaves what separates them. */
export function eachLine(text: string, change: (line: string) => string): string {
  return text
    .split(LINE_END)
    .map((part, i) => (i % 2 === 0 ? change(part) : part))
    .join("");
}

/** A line of somebody's words: what begins like a mark of ours is escaped (G2). */
export function escapeMark(line: string): string {
  const start = AT_START.exec(line)?.[0] ?? "";
  return MARK.test(line.slice(start.length)) ? `\\${line.slice(start.length)}` : line;
}

/** Of words whose author is not named: only `[YOU]` would be a mark there; every other bracket is left alone. */
export function escapeOwnMark(line: string): string {
  const start = AT_START.exec(line)?.[0] ?? "";
  const mark = MARK.exec(line.slice(start.length))?.[0];
  return mark !== undefined && isYou(mark.slice(1, -1)) ? `\\${line.slice(start.length)}` : line;
}

/** Whether a name would read as the agent's own mark. */
export function isYou(name: string): boolean {
  const letters = normalized(oneLine(name), "NFKC")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}∪]/gu, "");
  return YOU.test(letters);
}

/** Letters that look like Latin ones in some of the fonts, small or capital. */
const LOOKS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    a: "аαɑ",
    b: "вβ",
    c: "сϲ",
    d: "ԁ",
    e: "еε",
    g: "ɡ",
    h: "нһηհ",
    j: "јϳ",
    k: "кκ",
    l: "iіιı1",
    m: "мμ",
    n: "ոν",
    o: "оοօ0",
    p: "рρ",
    q: "ԛ",
    s: "ѕ",
    t: "тτ",
    u: "սυ",
    w: "ԝ",
    x: "хχ",
    y: "уү",
  }).flatMap(([latin, others]) => [...others].map((other) => [other, latin])),
);

/** The same for names that look the same: other scripts' letters, other widths and cases. It is no name, and for comparing only. */
export function lookOf(name: string): string {
  const letters = [...normalized(oneLine(name), "NFKC").toLowerCase()].map((letter) => LOOKS[letter] ?? letter);
  return letters.join("").replaceAll("rn", "m");
}

/** A title without the form of the agent's own mark; every other bracket is left alone. */
export function plainLabel(title: string): string {
  const line = oneLine(title);
  return escapeOwnMark(line) === line
    ? title
    : nameInMark(line) || line.replace(new RegExp(`[${OPEN}${CLOSE}]`, "gu"), "");
}

/** A name as it stands in a mark: nothing that could close the mark, or pass for the tag of another. Empty where nothing is left. */
export function nameInMark(name: string): string {
  const plain = oneLine(name).replace(new RegExp(`[${OPEN}${CLOSE}#＃﹟|｜]+`, "gu"), " ");
  return isYou(plain) ? "" : shorten(plain.replace(/\s+/gu, " ").trim(), 60);
}
