/** Seeded chance, and the hostile values that every fuzz draws from: the same seed gives the same run. */

export interface Chance {
  /** 0 ≤ value < 1. */
  next(): number;
  /** 0 ≤ value < `below`. */
  whole(below: number): number;
  oneOf<T>(values: readonly T[]): T;
  isTrue(share: number): boolean;
}

/** Mulberry32: small, fast, and good enough to pick inputs. */
export function createChance(seed: number): Chance {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const whole = (below: number): number => Math.floor(next() * below);
  return {
    next,
    whole,
    oneOf: (values) => values[whole(values.length)]!,
    isTrue: (share) => next() < share,
  };
}

/** Pieces that make texts which readers and patterns stumble over. */
const PIECES: readonly string[] = [
  "a",
  "a.",
  "a-",
  "a:",
  "](",
  "[",
  "]",
  "(",
  ")",
  "*",
  "_",
  "`",
  "```\n",
  "~~~",
  "> ",
  "\n",
  "\r\n",
  "\t",
  " ",
  "@nova",
  "＠",
  "@",
  "/new ",
  "/stop@nova ",
  "[YOU] ",
  "<",
  ">",
  "&amp;",
  "\u0000",
  "\u0001",
  "\u001b[31m",
  "\u007f",
  "\u2028",
  "\u202e",
  "\u200d",
  "\ufeff",
  "\ufffd",
  "\ud83d",
  "\ude00",
  "😀",
  "👩‍👩‍👧‍👦",
  "e\u0301",
  "漢字",
  "ابج",
  "data:",
  "event:",
  "{",
  "}",
  '"',
  "\\",
  "\\u",
  "://",
  "http://a.b/c",
  "sk-",
  "%",
  "%00",
  "%zz",
  "0",
  "9007199254740993",
  "-1",
  "1e999",
  "null",
  "NaN",
  "__proto__",
  "constructor",
  "<!-- CROSS-PLATFORM:BEGIN -->",
  "NO_REPLY",
];

/** Mostly short; now and then long, of one piece repeated or of many. */
export function hostileText(chance: Chance): string {
  const length = chance.isTrue(0.02) ? chance.whole(3_000) : chance.whole(12);
  if (chance.isTrue(0.3)) return chance.oneOf(PIECES).repeat(length);
  let text = "";
  for (let i = 0; i < length; i++) text += chance.oneOf(PIECES);
  return text;
}

/** Any JSON value, to the given depth; strings are hostile texts. */
export function hostileValue(chance: Chance, depth = 3): unknown {
  switch (chance.whole(depth <= 0 ? 6 : 8)) {
    case 0:
      return null;
    case 1:
      return chance.isTrue(0.5);
    case 2:
      return chance.oneOf([0, -0, -1, 1.5, 1e21, Number.MAX_SAFE_INTEGER + 2, 4_294_967_296]);
    case 3:
    case 4:
    case 5:
      return hostileText(chance);
    case 6:
      return Array.from({ length: chance.whole(4) }, () => hostileValue(chance, depth - 1));
    default:
      return Object.fromEntries(
        Array.from({ length: chance.whole(4) }, () => [
          hostileText(chance).slice(0, 40),
          hostileValue(chance, depth - 1),
        ]),
      );
  }
}

/** The record with some fields dropped, some replaced by any value, and some of any name added. */
export function distorted(chance: Chance, record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(record)) {
    if (chance.isTrue(0.08)) continue;
    fields[name] = chance.isTrue(0.15) ? hostileValue(chance) : value;
  }
  if (chance.isTrue(0.1)) fields[hostileText(chance).slice(0, 40)] = hostileValue(chance);
  return fields;
}

/** The text's bytes; some of them are turned, cut off or doubled, so that they are no UTF-8 any more. */
export function hostileBytes(chance: Chance, text: string): Buffer {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length === 0 || !chance.isTrue(0.1)) return bytes;
  const at = chance.whole(bytes.length);
  if (chance.isTrue(0.4)) return bytes.subarray(0, at);
  if (chance.isTrue(0.5)) return Buffer.concat([bytes, bytes.subarray(at)]);
  bytes[at] = chance.whole(256);
  return bytes;
}
