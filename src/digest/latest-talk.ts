import type { DigestRow, Talk } from "./digest.ts";

/** A session that may be the one of its platform. */
export interface Candidate {
  readonly id: string;
  /** As the source has it, noise and silence included: never earlier than what was really said last. */
  readonly lastAt: number;
}

/** Sessions of one platform that are looked into. */
const LOOKED_INTO = 40;

/** D2: by what was really said last. The candidates come latest first, so that few are looked into; equal times go by id. */
export function latestTalk(
  platform: string,
  candidates: readonly Candidate[],
  read: (id: string) => readonly DigestRow[],
): Talk | null {
  const latestFirst = candidates.toSorted((a, b) => b.lastAt - a.lastAt || (a.id < b.id ? -1 : 1));
  let best: { readonly talk: Talk; readonly at: number } | null = null;
  for (const { id, lastAt } of latestFirst.slice(0, LOOKED_INTO)) {
    if (best !== null && best.at >= lastAt) break;
    const rows = read(id);
    const said = rows.filter((row) => row.role !== "other" && row.text.trim() !== "");
    if (said.length === 0) continue;
    const at = Math.max(...said.map((row) => row.at ?? 0));
    if (best === null || at > best.at) best = { talk: { platform, sessionId: id, rows }, at };
  }
  return best?.talk ?? null;
}
