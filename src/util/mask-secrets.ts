import { nameRules } from "./secrets/names.ts";
import { placeRules } from "./secrets/places.ts";
import { providerRules } from "./secrets/provider-forms.ts";
import { wordSeeds } from "./secrets/word-seeds.ts";

export { maskOf } from "./secrets/mask.ts";

/**
 * Secrets in a text, made unreadable: `sk-p…abcd` for a long one, `…` for one so short that its ends would tell too much. Knows shapes
 * of text and nothing else, so that whatever leaves a session can use it. Pure, and safe to repeat: a mask is no secret.
 *
 * Three kinds of rule, in this order: what a provider's own form gives away (prefixes, JWT, PEM), what a place gives away (the
 * user part of an address, a header, a cookie), and what a name gives away (`password=…`, `密码是…`). A name alone is no secret: behind
 * it must stand something that looks like a value, not a word of the sentence, a placeholder or a piece of code.
 *
 * Where a rule needs context, the secret is its group `secret`; where it has none, the whole match is the secret.
 */

const DATA_URL =
  /data:(?:image|audio|video|font)\/[\w.+-]{1,40}(?:;[\w=.-]{1,40}){0,4};base64,[A-Za-z0-9+/=\s]*[A-Za-z0-9+/=]/g;

const RULES = [...providerRules, ...placeRules, wordSeeds, ...nameRules];

export function maskSecrets(text: string): string {
  // Nothing shorter than four characters is a secret.
  if (text.length < 4) return text;
  const kept: string[] = [];
  // A picture is long, holds any letters, and is no secret: it is laid aside.
  let masked = text.includes("base64,") ? text.replace(DATA_URL, (url) => `\u0000${kept.push(url) - 1}\u0000`) : text;
  for (const rule of RULES) masked = rule(masked);
  return kept.length === 0 ? masked : masked.replace(/\u0000(\d+)\u0000/g, (_, n: string) => kept[Number(n)] ?? "");
}

/**
 * Where a text may be cut, at `at` code points or before: never inside a mask, whose two ends belong together.
 * `points` are the code points of a masked text.
 */
export function cutBefore(points: readonly string[], at: number): number {
  if (at >= points.length) return points.length;
  const from = Math.max(0, at - 5);
  // A mask is four characters, the ellipsis, four characters.
  for (let i = from; i < Math.min(points.length, at + 4); i++) {
    if (points[i] !== "…") continue;
    let start = i;
    while (start > 0 && i - start < 4 && isInMask(points[start - 1])) start--;
    let end = i + 1;
    while (end < points.length && end - i <= 4 && isInMask(points[end])) end++;
    if (start < at && at < end) return start;
  }
  return at;
}

function isInMask(point: string | undefined): boolean {
  return point !== undefined && /^[\x21-\x7e]$/.test(point);
}
