import type { HistoryLine, Primer, TurnInput } from "./runtime.ts";

const SPEAKERS = { user: "they", assistant: "you", mark: "note" } as const satisfies Record<
  HistoryLine["role"],
  string
>;

/**
 * The user message of a turn: what was missed, the facts, and the words themselves. What is sent live and what a history is rebuilt from
 * are both made here. Missed lines stand before the facts, where no author's text can be, and each begins with a bar (C8).
 */
export function promptOf({ facts, missed, text }: Pick<TurnInput, "facts" | "missed" | "text">): string {
  return [missedBlock(missed), facts, text].filter((part) => part !== "").join("\n\n");
}

/** The session so far, for an agent that keeps a history of its own and does not have it: stands before its first prompt. */
export function primerBlock({ total, lines }: Primer): string {
  if (lines.length === 0) return "";
  const which = lines.length < total ? `, the last ${lines.length} of ${total} messages` : "";
  return [`This session so far${which}:`, ...rowsOf(lines)].join("\n");
}

function missedBlock(lines: readonly HistoryLine[]): string {
  if (lines.length === 0) return "";
  return ["In this session since your last answer:", ...rowsOf(lines)].join("\n");
}

function rowsOf(lines: readonly HistoryLine[]): string[] {
  return lines.flatMap(({ role, text }) => `${SPEAKERS[role]}: ${text}`.split("\n")).map((row) => `| ${row}`);
}

/** The lines of such blocks back again, for an agent of ours that is told them over a wire; `rest` is what else stood there. */
export function readRows(text: string): { readonly lines: readonly HistoryLine[]; readonly rest: string } {
  const lines: HistoryLine[] = [];
  const rest: string[] = [];
  let isInBlock = false;
  for (const row of text.split("\n")) {
    const [, speaker, words] = /^\| (they|you|note): (.*)$/.exec(row) ?? [];
    if (/^(?:This session so far|In this session since your last answer).*:$/.test(row)) {
      isInBlock = true;
    } else if (!isInBlock || !row.startsWith("| ")) {
      isInBlock = false;
      rest.push(row);
    } else if (speaker !== undefined && words !== undefined) {
      lines.push({ role: ROLES[speaker as keyof typeof ROLES], text: words });
    } else {
      const last = lines.at(-1);
      if (last !== undefined) lines[lines.length - 1] = { role: last.role, text: `${last.text}\n${row.slice(2)}` };
    }
  }
  return { lines, rest: rest.join("\n").trim() };
}

const ROLES = { they: "user", you: "assistant", note: "mark" } as const;
