import { describeSpan } from "../util/span.ts";
import { type Digest, type Section, shortened } from "./digest.ts";
import { type Language, WORDS, type Words } from "./words.ts";

/** D5, in code points. */
export const COMPACT_MOST = 3_500;
export const FULL_MOST = 9_000;

/** Of one line: so that several exchanges have room. */
const COMPACT_LINE = 240;
const FULL_LINE = 800;
const NAME = 40;

export interface Rendering {
  readonly lang: Language;
  /** Whose hours are shown; without it the machine's. */
  readonly timezone?: string;
}

/** The whole of DIGEST.md. Says when something was said, never how long ago: it does not change by itself (D4). */
export function renderFull(digest: Digest, rendering: Rendering): string {
  const words = WORDS[rendering.lang];
  const head = `# ${words.title}\n\n${words.intro}\n`;
  return fitted(
    digest,
    FULL_MOST,
    (sections) => `${[head, ...sectionTexts(sections, rendering, "##", FULL_LINE)].join("\n")}`,
  );
}

/** What stands between the markers of AGENTS.md, without a line end at its end. */
export function renderCompact(digest: Digest, rendering: Rendering): string {
  const words = WORDS[rendering.lang];
  const head = `**${words.title}**: ${words.intro}\n`;
  return fitted(digest, COMPACT_MOST, (sections) =>
    [head, ...sectionTexts(sections, rendering, "###", COMPACT_LINE)].join("\n").trimEnd(),
  );
}

/** For a person at a terminal, with the age of each section (D4). */
export function renderShown(
  digest: Digest,
  { now, idleMinutes, ...rendering }: Rendering & { now: number; idleMinutes: number },
): string {
  const words = WORDS[rendering.lang];
  if (digest.sections.length === 0) return words.nothing;
  const state = ({ lastAt }: Section): string => {
    if (lastAt === null) return words.timeless;
    const ageMs = Math.max(0, now - lastAt);
    const name = ageMs <= idleMinutes * 60_000 ? words.inProgress : words.ended;
    return `${name}, ${words.ago(describeSpan(ageMs))} (${timeOf(lastAt, rendering.timezone)})`;
  };
  return fitted(digest, FULL_MOST, (sections) =>
    sections
      .map((section) => [`${nameOf(section)}: ${state(section)}`, ...pairLines(section, words, FULL_LINE)].join("\n"))
      .join("\n\n"),
  );
}

function sectionTexts(
  sections: readonly Section[],
  { lang, timezone }: Rendering,
  mark: string,
  line: number,
): string[] {
  const words = WORDS[lang];
  if (sections.length === 0) return [`${words.nothing}\n`];
  return sections.map((section) => {
    const time = section.lastAt === null ? words.timeless : words.lastSaid(timeOf(section.lastAt, timezone));
    return `${[`${mark} ${nameOf(section)} · ${time}`, "", ...pairLines(section, words, line)].join("\n")}\n`;
  });
}

function pairLines({ pairs, agent }: Section, words: Words, most: number): string[] {
  const speaker = agent === undefined ? words.agent : plain(agent);
  return pairs.flatMap(({ user, reply }) => [
    ...(user === null ? [] : [`- ${words.user}: ${shortened(user, most)}`]),
    ...(reply === null ? [] : [`${user === null ? "- " : "  "}${speaker}: ${shortened(reply, most)}`]),
  ]);
}

function nameOf({ platform, agent }: Section): string {
  return agent === undefined ? plain(platform) : `${plain(platform)} · ${plain(agent)}`;
}

/** A name is what somebody configured: one line, short, and no mark of ours. */
function plain(name: string): string {
  return shortened(name.replace(/[^\p{L}\p{N}_. -]+/gu, " ").trim() || "?", NAME);
}

/** D5: the oldest pair of all goes first, until the rest has room. */
function fitted(digest: Digest, most: number, render: (sections: readonly Section[]) => string): string {
  let sections = digest.sections;
  for (;;) {
    const text = render(sections);
    if (lengthOf(text) <= most || sections.length === 0) return text;
    sections = withoutOldest(sections);
  }
}

function withoutOldest(sections: readonly Section[]): readonly Section[] {
  const ageOf = (section: Section): number => section.pairs[0]?.at ?? section.lastAt ?? 0;
  const oldest = sections.reduce((a, b) => (ageOf(b) < ageOf(a) ? b : a));
  const rest = { ...oldest, pairs: oldest.pairs.slice(1) };
  return sections.flatMap((section) => (section !== oldest ? [section] : rest.pairs.length === 0 ? [] : [rest]));
}

export function lengthOf(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** `2026-05-10 14:05 +02:00`: absolute, so that it is true whenever it is read. */
export function timeOf(at: number, timezone?: string): string {
  if (timezone !== undefined) return zoned(at, timezone);
  const date = new Date(at);
  const offset = -date.getTimezoneOffset();
  return `${new Date(at + offset * 60_000).toISOString().slice(0, 16).replace("T", " ")} ${offsetText(offset)}`;
}

/** Only where a zone is configured: loading the zones takes longer than the rest of a run. */
function zoned(at: number, timezone: string): string {
  const local = new Date(at).toLocaleString("sv-SE", { timeZone: timezone });
  const minutes = Math.round((Date.parse(`${local.replace(" ", "T")}Z`) - Math.floor(at / 1000) * 1000) / 60_000);
  return `${local.slice(0, 16)} ${offsetText(minutes)}`;
}

function offsetText(minutes: number): string {
  const two = (count: number): string => String(count).padStart(2, "0");
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}
