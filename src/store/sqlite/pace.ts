import { heldUntil, LONGEST_SPAN_MS, type Pace, TOLD_EVERY_MS } from "../../conversation/rate-limit.ts";
import type { Notice } from "../../message/notice.ts";
import type { Database } from "./database.ts";

/** Counts how often guests begin turns (A10), and limits how often a refusal is said. */

/** The notice that refuses a turn or command, or null, which counts it. `isNews`: the refusal was not said in this span yet. */
export function hurry(
  db: Database,
  paces: readonly Pace[],
  now: number,
): { readonly notice: Notice; readonly isNews: boolean } | null {
  const known = paces.map((pace) => ({ pace, begun: begunOf(db, pace.id) }));
  for (const { pace, begun } of known) {
    for (const allowance of pace.allowances) {
      const until = heldUntil(begun, allowance, now);
      if (until === null) continue;
      const { most, spanMs } = allowance;
      const notice: Notice = { code: "rate_limited", args: { of: pace.of, most, spanMs, waitMs: until - now } };
      return { notice, isNews: isNews(db, { id: `${pace.id} in ${spanMs}`, now, everyMs: spanMs }) };
    }
  }
  for (const { pace, begun } of known) {
    const most = Math.max(...pace.allowances.map((allowance) => allowance.most));
    const recent = begun.filter((at) => at > now - LONGEST_SPAN_MS);
    keep(db, pace.id, { begun: [...recent, now].slice(-most), now });
  }
  return null;
}

/** True once in a span: the notice under that id is to be said now. */
export function isNews(
  db: Database,
  { id, now, everyMs = TOLD_EVERY_MS }: { readonly id: string; readonly now: number; readonly everyMs?: number },
): boolean {
  const told = db.get<{ told_at: number | null }>("SELECT told_at FROM pace WHERE id = ?", id)?.told_at ?? null;
  if (told !== null && told > now - everyMs && told <= now) return false;
  db.run(
    "INSERT INTO pace(id, begun, told_at, at) VALUES(?1, '[]', ?2, ?2) ON CONFLICT(id) DO UPDATE SET told_at = ?2, at = ?2",
    id,
    now,
  );
  return true;
}

function begunOf(db: Database, id: string): readonly number[] {
  return JSON.parse(db.get<{ begun: string }>("SELECT begun FROM pace WHERE id = ?", id)?.begun ?? "[]") as number[];
}

function keep(db: Database, id: string, { begun, now }: { begun: readonly number[]; now: number }): void {
  db.run(
    "INSERT INTO pace(id, begun, at) VALUES(?1, ?2, ?3) ON CONFLICT(id) DO UPDATE SET begun = ?2, at = ?3",
    id,
    JSON.stringify(begun),
    now,
  );
}

/** Returns how many rows it removed. */
export function prunePaces(db: Database, now: number): number {
  return db.run("DELETE FROM pace WHERE at < ?", now - LONGEST_SPAN_MS);
}
