/** CPU time of a text function, and the texts that break patterns: what is slow for a text twice as long must not be four times as slow. */

/** A text of about so many characters. */
export type Grower = readonly [name: string, grow: (length: number) => string];

const repeated = (seed: string): Grower => [
  JSON.stringify(seed),
  (length) => seed.repeat(Math.ceil(length / seed.length)),
];
/** A beginning that no end follows. */
const begun = (start: string, seed: string): Grower => [
  `${JSON.stringify(start)} and then ${JSON.stringify(seed)}`,
  (length) => start + seed.repeat(Math.ceil(length / seed.length)),
];
const ended = (seed: string, end: string): Grower => [
  `${JSON.stringify(seed)} up to ${JSON.stringify(end)}`,
  (length) => seed.repeat(Math.ceil(length / seed.length)) + end,
];

/** Runs of a mark, each one longer than the last. */
const growing = (mark: string, between: string): Grower => [
  `ever longer runs of ${JSON.stringify(mark)}`,
  (length) => {
    let text = "";
    for (let run = 1; text.length < length; run++) text += mark.repeat(run) + between;
    return text;
  },
];

const SEEDS = [
  ..."a. a- ]( a: a:a @a @ a@ [ ] [a] [[ (( ) * ** _ ` `` ``` ```\n ~~~\n > >\n < <a </ : :// / // a/ a./ . .. - -- --- = # | || 0 0. ".split(
    " ",
  ),
  "> ",
  "\n",
  "\n\n",
  " ",
  "\t",
  "\r",
  "\r\n",
  "\u2028",
  "\u3000",
  "a ",
  " a",
  "A1",
  "aA",
  "\\",
  '"',
  "'",
  "{",
  '{"a":',
  "[YOU] ",
  "[YOU",
  "［YOU",
  "[a\n",
  "`a",
  "``a`",
  "a`b``c```",
  "```\na\n",
  "- ",
  "1. ",
  "\n- ",
  "\n> ",
  "\n   ",
  "\n\t",
  "/a",
  "/a@",
  "@mohe",
  "@mohe ",
  "@moheo",
  "mohe:",
  "xmpp:a@",
  "http://a",
  "<http://a ",
  "a.co/",
  "a-b.",
  "x@y.z ",
  "\u200b",
  "\u200d",
  "👩\u200d",
  "👍🏽",
  "🇩",
  "e\u0301",
  "\u0301",
  "\u0316\u0301",
  "a\u0316\u0301\u0327",
  "\u1100\u1161",
  "ﷺ",
  "Ǆ",
  "中",
  "你好，",
  "กำ",
  "\ud800",
  "\udc00",
  "\0",
  "\u001b[",
  "\u202e",
  "sk-",
  "key=",
  "Bearer ",
  "password: ",
  "<!--",
  "-->",
  "data:image/png;base64,",
  "retry ",
  "translate into and ",
  "do not tell ",
  "ignore ",
  "curl ",
  "cat ",
  "unset a",
  "you are now ",
  "---\n",
  "| you: a\n",
  "data: {}\n",
  "data:",
  "event: ",
];

export const GROWERS: readonly Grower[] = [
  ...[...new Set(SEEDS)].filter((seed) => seed !== "").map(repeated),
  begun("`", "a"),
  begun("[", "a"),
  begun("](", "a"),
  begun("```", "\n"),
  begun("<", "a:"),
  begun("@mohe ", "a."),
  begun("/status", " a"),
  begun("a:", "a"),
  begun("[YOU", " "),
  ended("a", "@"),
  ended(" ", "x"),
  ended("\n", "@mohe"),
  ended("a.", "/"),
  ended("(", ")"),
  ended("`", "a"),
  growing("`", "a"),
  growing("~", "\n"),
  growing("-", " "),
];

/** Below that many ms nothing is slow, and no clock tells a ratio. */
const FLOOR_MS = 8;
const MOST_RATIO = 3;
const TRIES = 25;

export function cpuMs(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** How much longer the double length takes; null where it takes no time worth the name. The best of five, for a machine with other work. */
export function slowness(
  read: (text: string) => unknown,
  grow: (length: number) => string,
  length: number,
): number | null {
  const [single, double] = [grow(length), grow(2 * length)];
  let [once, twice] = [cpuMs(() => read(single)), cpuMs(() => read(double))];
  for (let attempt = 1; attempt < TRIES && twice > FLOOR_MS && twice > MOST_RATIO * once; attempt++) {
    once = Math.min(
      once,
      cpuMs(() => read(single)),
    );
    twice = Math.min(
      twice,
      cpuMs(() => read(double)),
    );
  }
  return twice <= FLOOR_MS ? null : twice / Math.max(once, 0.01);
}
