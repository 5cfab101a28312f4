import type { HistoryLine, TurnInput } from "../runtime/runtime.ts";

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

function missedBlock(lines: readonly HistoryLine[]): string {
  if (lines.length === 0) return "";
  const rows = lines.flatMap(({ role, text }) => `${SPEAKERS[role]}: ${text}`.split("\n"));
  return ["In this session since your last answer:", ...rows.map((row) => `| ${row}`)].join("\n");
}
