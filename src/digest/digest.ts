import { cutBefore, maskSecrets } from "../util/mask-secrets.ts";
import { normalized } from "../util/normalized.ts";

/**
 * The digest: what was said last at each door, without a model call (D1–D6). Data in, data out. Where the rows come from is the
 * affair of a source (own-talks.ts, hermes/), where the text goes that of files.ts.
 */

/** A row of a session, in the order it was said. */
export interface DigestRow {
  /** `other`: a tool's, or one that is not shown; it only says that something went on. */
  readonly role: "user" | "assistant" | "other";
  readonly text: string;
  /** Epoch ms; null where the row has no time that could be true. */
  readonly at: number | null;
}

/** The most recently active session of one platform, and of one agent there where several speak; with its last rows. */
export interface Talk {
  readonly platform: string;
  /** Only where the user talks to several agents. */
  readonly agent?: string;
  readonly sessionId: string;
  readonly rows: readonly DigestRow[];
}

/** Where rows come from. */
export interface DigestSource {
  /** One talk a platform, and an agent where there are several. `rows` is how many raw rows are looked at; at least one line of a user is looked for beyond them. */
  talks(query: TalksQuery): Promise<Talks>;
}
export interface TalksQuery {
  readonly now: number;
  readonly rows: number;
  readonly noise: readonly string[];
}
export interface Talks {
  readonly talks: readonly Talk[];
  /** What a person should know of how they were chosen: sentences. */
  readonly notes: readonly string[];
}

/** Something said and the first answer to it. `user` is null where the agent spoke first. */
export interface Pair {
  readonly user: string | null;
  readonly reply: string | null;
  readonly at: number | null;
}

export interface Section {
  readonly platform: string;
  readonly agent?: string;
  readonly sessionId: string;
  /** Of the last line said; null where no row has a time. */
  readonly lastAt: number | null;
  /** Masked, one line each, oldest first; never empty. */
  readonly pairs: readonly Pair[];
}

export interface Digest {
  /** By platform and agent. */
  readonly sections: readonly Section[];
  readonly notes: readonly string[];
}

export interface DigestSettings {
  readonly idleMinutes: number;
  /** Pairs of a section. */
  readonly limit: number;
  /** Beginnings of messages that nobody said. */
  readonly noise: readonly string[];
}

/** D3: beginnings of messages that are none. */
export const NOISE: readonly string[] = [
  "[OUT-OF-BAND USER MESSAGE",
  "Gateway message origin",
  "Your request was not processed",
  "[System:",
];
/** What the configuration says adds to the known beginnings. */
export function settingsFrom({ idleMinutes, limit, noise }: DigestSettings): DigestSettings {
  return { idleMinutes, limit, noise: [...NOISE, ...noise] };
}

export const DEFAULT_DIGEST: DigestSettings = { idleMinutes: 15, limit: 20, noise: NOISE };

/** Raw rows for one pair: calls of tools stand between what was said. */
const ROWS_PER_PAIR = 6;

export async function readDigest(source: DigestSource, settings: DigestSettings, now: number): Promise<Digest> {
  const { talks, notes } = await source.talks({ now, rows: settings.limit * ROWS_PER_PAIR, noise: settings.noise });
  const sections = talks.flatMap((talk) => {
    const section = sectionOf(talk, settings);
    return section === null ? [] : [section];
  });
  const nameOf = ({ platform, agent = "" }: Section): string => `${platform} ${agent}`;
  sections.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  return { sections, notes };
}

export function sectionOf({ rows, ...talk }: Talk, settings: DigestSettings): Section | null {
  const segment = lastSegment(withoutNoise(rows, settings.noise), settings.idleMinutes * 60_000);
  const pairs = pairsOf(segment, settings.limit);
  if (pairs.length === 0) return null;
  const said = segment.findLast((row) => row.role !== "other" && row.at !== null);
  return { ...talk, lastAt: said?.at ?? null, pairs };
}

export function withoutNoise<R extends DigestRow>(rows: readonly R[], noise: readonly string[]): readonly R[] {
  return rows.filter(
    ({ role, text }) => role === "other" || !(isNoise(text, noise) || (role === "assistant" && isSilent(text))),
  );
}

export function isNoise(text: string, noise: readonly string[]): boolean {
  const start = text.trimStart();
  return noise.some((beginning) => start.startsWith(beginning));
}

const SILENCES: readonly string[] = ["[SILENT]", "SILENT", "NO_REPLY", "NO REPLY"];

/** The whole reply, in either spelling of the two programs. */
export function isSilent(text: string): boolean {
  return text.length <= 200 && SILENCES.includes(text.trim().toUpperCase());
}

/**
 * D2: from the last row back to the first pause that is longer than `idleMs`. Rows stand in the order they were said; a clock that was
 * set back makes no pause, and a row without a time none either.
 */
export function lastSegment(rows: readonly DigestRow[], idleMs: number): readonly DigestRow[] {
  let later: number | null = null;
  for (let i = rows.length - 1; i >= 0; i--) {
    const at = rows[i]!.at;
    if (at === null) continue;
    if (later !== null && later - at > idleMs) return rows.slice(i + 1);
    later = at;
  }
  return rows;
}

/** D3: each user line with the first answer that has text, before the next user line; of them the last `most`. */
export function pairsOf(segment: readonly DigestRow[], most: number): readonly Pair[] {
  const pairs: { user: string | null; reply: string | null; at: number | null }[] = [];
  for (const { role, text, at } of segment) {
    if (role === "user") pairs.push({ user: text, reply: null, at });
    else if (role === "assistant" && text.trim() !== "") {
      const last = pairs.at(-1);
      if (last === undefined) pairs.push({ user: null, reply: text, at });
      else last.reply ??= text;
    }
  }
  // Masking takes longest: only what is shown is masked.
  return pairs.slice(-most).map(({ user, reply, at }) => ({
    user: user === null ? null : shown(user),
    reply: reply === null ? null : shown(reply),
    at,
  }));
}

/** What is looked at of one message; far more than is shown. */
const LOOKED_AT = 16_000;
/** A longer word than this is no key, and is cut anywhere. */
const LONGEST_KEY = 4_000;
/** Of a line in the file, in code points. */
const LINE = 1_000;

const UNSEEN = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
const BLANK = /[\s\p{Cc}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]+/gu;

/** One line, masked before anything is cut away (D6), with nothing in it that could be a marker of a block, or move the cursor. */
function shown(text: string): string {
  const seen = beginningOf(text).toWellFormed().replace(UNSEEN, "");
  const line = maskSecrets(seen).replace(BLANK, " ").trim().replaceAll("<!--", "‹!--").replaceAll("-->", "--›");
  if (line === "") return NO_TEXT;
  const short = shortened(line, LINE);
  return isLoaded(short) ? LEFT_OUT : short;
}

/** Without the word that the end would cut in two: half a key does not show that it is one. */
function beginningOf(text: string): string {
  if (text.length <= LOOKED_AT) return text;
  let end = LOOKED_AT;
  while (end > LOOKED_AT - LONGEST_KEY && /\S/.test(text.charAt(end - 1))) end--;
  return text.slice(0, end > LOOKED_AT - LONGEST_KEY ? end : LOOKED_AT);
}

export const NO_TEXT = "[no text]";
export const LEFT_OUT = "[left out: it reads like an order to the agent]";

export function shortened(line: string, most: number): string {
  // A code point is at most two units: what is short enough in units is short enough.
  if (line.length <= most) return line;
  const points = Array.from(line);
  if (points.length <= most) return line;
  return `${points
    .slice(0, cutBefore(points, betweenCharacters(points, cutBefore(points, most - 2))))
    .join("")
    .trimEnd()} …`;
}

/** What belongs to the point before it: an accent, a vowel's sign, the colour of a skin. */
const JOINED = /^(?:\p{M}|\p{Emoji_Modifier})$/u;
/** Half of a flag. */
const HALF = /^[\u{1F1E6}-\u{1F1FF}]$/u;
/** More accents than that on one letter are no letter. */
const MOST_JOINED = 32;

/** `at` or before, so that no character is cut in two. By a few rules: what the language knows of it takes longer to load than a run. */
function betweenCharacters(points: readonly string[], at: number): number {
  let cut = at;
  while (cut > 0 && at - cut < MOST_JOINED && JOINED.test(points[cut] ?? "")) cut--;
  if (!HALF.test(points[cut] ?? "")) return cut;
  let halves = 0;
  while (HALF.test(points[cut - halves - 1] ?? "")) halves++;
  return cut - (halves % 2);
}

/**
 * Lines that would cost the whole file: programs that read context files look for orders to the agent in them, and show nothing of a file
 * in which they find one. One sentence somebody quoted in a chat must not do that to the digest.
 */
const LOADED: readonly RegExp[] = [
  /\b(?:ignore|disregard|forget|override)\b.{0,120}\b(?:instructions?|rules|guidelines|prompts?)\b/iu,
  /\bsystem\s+prompt\b.{0,60}\b(?:override|output|reveal|print|show|repeat)|\b(?:output|reveal|print|show|repeat|leak)\b.{0,80}\b(?:system|initial)\s+prompt\b/iu,
  /\bact\s+as\s+(?:if|though)\b.{0,200}\b(?:restrictions?|limits?|rules)\b/iu,
  /\b(?:respond|answer|reply)\s+without\b.{0,100}\b(?:restrictions?|limitations?|filters?|safety)\b/iu,
  /\byou\s+are\b.{0,80}\bnow\s+(?:an?|the)\b|\bpretend\b.{0,80}\b(?:you\s+are|to\s+be)\b|\bname\s+yourself\b|\byou\s+have\s+been\b.{0,80}\b(?:updated|upgraded|patched)\s+to\b/iu,
  /\bdo\s+not\b.{0,80}\btell\b.{0,80}\bthe\s+user\b/iu,
  /\btranslate\b.*\binto\b.*\band\s+(?:execute|run|eval)/iu,
  /<\s*div\s+style\b/iu,
  /\bregister\s+(?:as\s+)?(?:a\s*)?node|\b(?:heartbeat|beacon|check[\s-]?in)\s+(?:to|with)\b|\bpull\s+(?:down\s+)?(?:new\s+)?task|\bconnect\s+to\s+the\s+network\b|\byou\s+must\b.{0,60}\b(?:register|connect|report|beacon)\b/iu,
  /\bonly\s+use\s+one[\s-]?liners?\b|\bnever\b.{0,120}\b(?:create|write)\b.{0,160}\bdisk\b|\bunset\s+\w*(?:claude|codex|hermes|agent|openai|anthropic)/iu,
  /\b(?:cobalt\s*strike|sliver|havoc|mythic|metasploit|brainworm)\b|\bc2\s+(?:server|channel|infrastructure|beacon)\b|\bcommand\s+and\s+control\b/iu,
  /\b(?:curl|wget)\b.*\$\{?\w*(?:key|token|secret|password|credential|api)/iu,
  /\bcat\s.*(?:\.env|credentials|\.netrc|\.pgpass|\.npmrc|\.pypirc)/iu,
];

/** `line`: as it is shown. The patterns are not made for long ones. */
function isLoaded(line: string): boolean {
  const plain = normalized(line, "NFKC");
  return LOADED.some((pattern) => pattern.test(plain));
}
