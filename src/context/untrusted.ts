import { cleanText } from "../message/source.ts";

const LONGEST = 240;

/** A value that a stranger can choose, as one quoted line of at most 240 characters without control or bidi characters (C4). */
export function quoteUntrusted(value: string): string {
  const flat = cleanText(value)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .replace(/\s+/gu, " ")
    .trim();
  const points = Array.from(flat);
  return JSON.stringify(points.length > LONGEST ? `${points.slice(0, LONGEST - 1).join("")}…` : flat);
}
