import type { HistoryLine, Primer } from "../runtime.ts";

const SPEAKERS = { user: "they", assistant: "you", mark: "note" } as const satisfies Record<
  HistoryLine["role"],
  string
>;

/** The transcript so far, in front of the first message of an agent that does not have it; each line begins with a bar (C8). */
export function primerBlock({ total, lines }: Primer): string {
  if (lines.length === 0) return "";
  const rows = lines.flatMap(({ role, text }) => `${SPEAKERS[role]}: ${text}`.split("\n"));
  const head =
    total > lines.length
      ? `This conversation so far, the last ${lines.length} of ${total} entries:`
      : "This conversation so far:";
  return [head, ...rows.map((row) => `| ${row}`)].join("\n");
}
