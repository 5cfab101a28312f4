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
  /** Whether the owner alone said it, at a door that nobody else reads. */
  readonly isOwners: boolean;
}

const FACTS = /^--- facts ([0-9a-f]{16,64})\r?$/;
/** Blocks that a prompt of ours can begin with; each of their lines begins with a bar. */
const OPENING = /^(?:This session so far|In this session since your last answer)[^|]{0,80}:$/;

/** Null for a text that is no prompt of ours: people may write of facts, and quote a frame in the middle of their words. */
export function wordsOfPrompt(text: string): PromptWords | null {
  const lines = text.split("\n");
  let at = 0;
  while (at < lines.length && isOpening(lines[at]!, at === 0 ? "" : lines[at - 1]!)) at++;
  const nonce = FACTS.exec(lines[at] ?? "")?.[1];
  if (nonce === undefined) return null;
  const end = lines.findIndex((line, index) => index > at && line.trimEnd() === `--- end ${nonce}`);
  const facts = lines.slice(at + 1, end < 0 ? undefined : end);
  const words =
    end < 0
      ? ""
      : lines
          .slice(end + 1)
          .join("\n")
          .trim();
  return { words: words === "" ? null : words, isOwners: isOfOwner(facts) };
}

function isOpening(line: string, before: string): boolean {
  if (line.trim() === "" || line.startsWith("| ")) return before !== "" || line.trim() === "";
  return OPENING.test(line.trimEnd());
}

/** As the facts say it: the least of the authors' rights, and the kind of the chat. */
function isOfOwner(facts: readonly string[]): boolean {
  const from = facts.find((line) => line.startsWith("From: ")) ?? "";
  const source = facts.find((line) => line.startsWith("Source: ")) ?? "";
  return /; rights: owner\s*$/.test(from) && (/^Source: CLI terminal\s*$/.test(source) || / \(DM with /.test(source));
}
