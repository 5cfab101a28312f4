import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import type { StoreReader } from "../../src/store/readers.ts";
import { openSqliteReader } from "../../src/store/sqlite/sqlite-store.ts";
import { fateIn, keyOf, type Line, type Problem, transcripts } from "./ledger.ts";
import { temporaryFolder } from "./store.ts";

/** Where a message was in its life when the gateway died. */
export const WINDOWS = [
  "before admit",
  "waiting in line",
  "begun, prompt not written",
  "running, nothing shown",
  "running, words shown",
  "settled, answer not received",
  "answer received",
] as const;
export type Window = (typeof WINDOWS)[number];

/** Looks at a copy of the dead gateway's state: the file itself is left as it was for the next start. */
export async function windowsOf(home: string, lines: readonly Line[]): Promise<Window[]> {
  const copy = temporaryFolder();
  try {
    for (const name of ["state.db", "state.db-wal"]) {
      if (existsSync(join(home, name))) copyFileSync(join(home, name), join(copy.path, name));
    }
    const { reader, close } = openSqliteReader(join(copy.path, "state.db"));
    try {
      const windows: Window[] = [];
      for (const line of lines) windows.push(await windowOf(reader, line));
      return windows;
    } finally {
      close();
    }
  } finally {
    copy.remove();
  }
}

async function windowOf(reader: StoreReader, line: Line): Promise<Window> {
  const conversation = await reader.conversation(keyOf(line.name));
  const messages =
    conversation === null ? [] : await reader.placeMessages({ placeId: conversation.placeId, after: 0, limit: 1_000 });
  const message = messages.find(({ body }) => body === line.text);
  if (message === undefined) return "before admit";
  const [fate] = await reader.fates(message.id);
  const turn = fate?.turnId == null ? null : await reader.turn(fate.turnId);
  switch (turn?.state) {
    case "queued":
      return "waiting in line";
    case "running":
      if (turn.effects !== "none") return "running, words shown";
      return turn.prompt === null ? "begun, prompt not written" : "running, nothing shown";
    default:
      return line.told === null || line.way === "posted" ? "settled, answer not received" : "answer received";
  }
}

/** What must have become of a message, by where it was when the gateway died; nothing where it may have gone on meanwhile. */
export async function contradictions(
  url: string,
  dead: readonly (readonly [Line, Window])[],
  { kills, isReset }: { readonly kills: number; readonly isReset: boolean },
): Promise<Problem[]> {
  const journal = await transcripts(url, new Set(dead.map(([line]) => line.name)));
  const problems: Problem[] = [];
  for (const [line, window] of dead) {
    const fate = await fateIn(url, line, journal);
    const allowed = fatesAfter(window, kills === 1, isReset);
    if (allowed === null || allowed.includes(fate)) continue;
    const kind = fate === "absent" ? "lost" : "wrong";
    problems.push({ kind, sentence: `"${line.text}" was found "${window}", and is ${fate ?? "without a fate"}` });
  }
  return problems;
}

function fatesAfter(window: Window, isOnlyKill: boolean, isReset: boolean): readonly (string | null)[] | null {
  // A reset found in the journal has settled or withdrawn what was open, before the gateway died.
  if (isReset) return null;
  switch (window) {
    case "before admit":
      return ["absent"];
    case "waiting in line":
    case "begun, prompt not written":
    case "running, nothing shown":
      return isOnlyKill ? ["answered"] : ["answered", "interrupted"];
    case "running, words shown":
      return ["interrupted"];
    case "settled, answer not received":
    case "answer received":
      return ["answered", "interrupted"];
  }
}
