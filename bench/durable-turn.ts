/** A turn as the store sees it, with an agent that does nothing: admit and begin, mark, settle with its delivery. Also seeds histories. */
import { join } from "node:path";
import type { Claim, Store } from "../src/store/port.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import type { Turn } from "../src/store/turns.ts";
import { systemClock } from "../src/util/clock.ts";
import { said } from "../test/support/store.ts";

/** How many turns are under way while a history is seeded. */
const SEEDED_AT_ONCE = 256;

export const QUESTION = "A question of the usual length, as people type them.";
export const ANSWER =
  "An answer that is somewhat longer than its question, for it has to say more than was asked. ".repeat(3);
export const FACTS = "--- facts 0123456789abcdef\nSource: HTTP\nFrom: owner\n--- end 0123456789abcdef";
const SEEN = 1_000_000;
export const USAGE = { input: 20, output: 50 };

export async function durableTurn(store: Store, claim: Claim, name: string): Promise<void> {
  await finish(store, claim, await beginTurn(store, claim, name));
}

/** Admits a question into an idle conversation, which begins its turn at once. */
export async function beginTurn(store: Store, claim: Claim, name: string): Promise<Turn> {
  const now = Date.now();
  const account = { account: "http", platform: "http", agent: "main" } as const;
  const { outcomes } = await store.admit({ ...account, now, events: [said(QUESTION, { door: "http", name })] }, claim);
  const [outcome] = outcomes;
  if (outcome?.kind !== "queued" || outcome.begun === null) throw new Error(`Admitted as ${outcome?.kind}.`);
  return outcome.begun;
}

async function finish(store: Store, claim: Claim, turn: Turn): Promise<void> {
  const report = { turnId: turn.id, attempt: turn.attempt, now: Date.now() };
  // As after real turns: everything before has been seen.
  const seen = { placeId: turn.conversationId, throughSeq: SEEN };
  await store.mark(
    {
      ...report,
      prompt: { text: FACTS, seen, notesThrough: 0, entriesThrough: SEEN, runtime: "none" },
      runtime: { name: "none", ref: turn.sessionId, restarts: 0 },
    },
    claim,
  );
  const settled = await store.settle(
    {
      ...report,
      runtime: { name: "none", ref: "r", status: "healthy", restarts: 0 },
      outcome: { state: "answered", text: ANSWER },
      parts: [ANSWER],
      usage: USAGE,
    },
    claim,
  );
  if (settled.kind !== "settled") throw new Error("The turn did not run any more.");
}

/** Gives each of `names` a history of `turns` turns, through the store's own verbs. */
export async function seed(home: string, names: readonly string[], turns: number): Promise<void> {
  const store = openSqliteStore({ path: join(home, "state.db"), clock: systemClock });
  const claim = await store.claim("bench");
  for (let from = 0; from < names.length; from += SEEDED_AT_ONCE) {
    const group = names.slice(from, from + SEEDED_AT_ONCE);
    for (let turn = 0; turn < turns; turn++) await Promise.all(group.map((name) => durableTurn(store, claim, name)));
  }
  await store.close();
}

export function numbered(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${n}`);
}
