/**
 * The frame of a prompt: how the facts of a turn are set off from the words that people said, and how the words are found again where a
 * transcript of another program holds the whole prompt (D11). The frame is written and read here.
 */

/** C8: the nonce keeps what stands between the marks from closing them. */
export function encloseFacts(lines: readonly string[], nonce: string): string {
  return [`--- facts ${nonce}`, ...lines, `--- end ${nonce}`].join("\n");
}

export interface PromptWords {
  /** What people said; null where the prompt was cut before it. */
  readonly words: string | null;
  /** Whether the owner alone said it, at whatever door. */
  readonly isOwners: boolean;
  /** Whether nobody else read along. */
  readonly isPrivate: boolean;
}

const FACTS = /^--- facts ([0-9a-f]{16,64})\r?$/;
/** Blocks that a prompt of ours can begin with; each of their lines begins with a bar. */
const OPENING = /^(?:This session so far|In this session since your last answer)[^|]{0,80}:$/;

/**
 * All that a message of another program's transcript holds of prompts of ours, in order: Hermes joins messages that were not answered, also
 * with what was typed at its own door in front of them. None where nothing of it is ours.
 */
export function promptsIn(text: string): readonly PromptWords[] {
  if (!text.includes("--- facts ") && !OPENING.test(text.trimStart().split("\n", 1)[0]!.trimEnd())) return [];
  const lines = text.split("\n");
  const starts = lines.flatMap((_, at) => (at > 0 && isJoined(lines, at) ? [at] : []));
  const parts = [0, ...starts].map((from, n) => lines.slice(from, starts[n]).join("\n"));
  const prompts = parts.map((part) => wordsOfPrompt(part));
  if (prompts.every((prompt) => prompt === null)) return [];
  return prompts.map((prompt, n) => prompt ?? { words: parts[n]!.trim() || null, isOwners: true, isPrivate: true });
}

/** A frame behind an empty line, or the rows in front of one: quoted in somebody's words it follows a line of them. */
function isJoined(lines: readonly string[], at: number): boolean {
  if (lines[at - 1]!.trim() !== "" || isOpened(lines, at)) return false;
  let facts = at;
  if (OPENING.test(lines[at]!.trimEnd()))
    while (facts < lines.length && !FACTS.test(lines[facts]!) && isOpening(lines[facts]!, lines[facts - 1]!)) facts++;
  const nonce = FACTS.exec(lines[facts] ?? "")?.[1];
  return nonce !== undefined && lines[facts + 1]?.startsWith("Source: ") === true;
}

/** Whether rows in front of a frame end before the line: then the frame is theirs. */
function isOpened(lines: readonly string[], at: number): boolean {
  let before = at - 1;
  while (before >= 0 && (lines[before]!.trim() === "" || lines[before]!.startsWith("| "))) before--;
  return before >= 0 && before < at - 1 && OPENING.test(lines[before]!.trimEnd());
}

/** Null for a text that is no prompt of ours: people may write of facts, and quote a frame in the middle of their words. */
export function wordsOfPrompt(text: string): PromptWords | null {
  const lines = text.split("\n");
  let at = 0;
  while (at < lines.length && isOpening(lines[at]!, at === 0 ? "" : lines[at - 1]!)) at++;
  const nonce = FACTS.exec(lines[at] ?? "")?.[1];
  if (nonce === undefined) return isCutBefore(lines, at) ? { words: null, isOwners: false, isPrivate: false } : null;
  const end = lines.findIndex((line, index) => index > at && line.trimEnd() === `--- end ${nonce}`);
  const facts = lines.slice(at + 1, end < 0 ? undefined : end);
  const words =
    end < 0
      ? ""
      : lines
          .slice(end + 1)
          .join("\n")
          .trim();
  const isOwners = isOfOwner(facts);
  return { words: words === "" ? null : words, isOwners, isPrivate: isOwners && isDirect(facts) };
}

/** Whether the text ends in rows that only a prompt of ours begins with, or in the first line of its facts. */
function isCutBefore(lines: readonly string[], at: number): boolean {
  const isOpened = lines.slice(0, at).some((line) => line.startsWith("| "));
  if (at >= lines.length) return isOpened;
  const last = lines[at]!;
  const isBegun = isOpened && ["| ", "--- facts "].some((next) => next.startsWith(last));
  return at === lines.length - 1 && (isBegun || /^--- facts [0-9a-f]{0,64}…?\s*$/.test(last));
}

function isOpening(line: string, before: string): boolean {
  if (line.trim() === "" || line.startsWith("| ")) return before !== "" || line.trim() === "";
  return OPENING.test(line.trimEnd());
}

/** As the facts say it: the least of the authors' rights. Those of the first version say only the door. */
function isOfOwner(facts: readonly string[]): boolean {
  const from = facts.find((line) => line.startsWith("From: "));
  return from === undefined ? isDirect(facts) : /; rights: owner\s*$/.test(from);
}

function isDirect(facts: readonly string[]): boolean {
  const source = facts.find((line) => line.startsWith("Source: ")) ?? "";
  return /^Source: CLI terminal\s*$/.test(source) || / \(DM with /.test(source);
}
