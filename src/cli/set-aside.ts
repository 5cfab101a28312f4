import { existsSync } from "node:fs";
import type { Command } from "commander";
import { readConfig } from "../config/config.ts";
import { TertuliaError } from "../errors.ts";
import { acquireLock } from "../store/sqlite/lock.ts";
import { STATE_SUFFIXES, setAside } from "../store/sqlite/state-file.ts";
import { output, printable } from "./output.ts";

interface SetAsideFlags {
  readonly home?: string;
  readonly config?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}

export function stateCommand(state: Command): void {
  state
    .command("set-aside")
    .description("move the state away, under a name that says when, so that a backup or a new one can take its place")
    .option("--yes", "do it; without it only what would be moved is said")
    .option("--json", "print what was moved as JSON")
    .action((_options, command) => setStateAside(command.optsWithGlobals()));
}

/** E5: the one way in which a state leaves its place. Nothing is deleted, and the next start begins anew or with what was put there. */
async function setStateAside(flags: SetAsideFlags): Promise<void> {
  const { files } = readConfig({ flags }).config;
  const there = STATE_SUFFIXES.map((suffix) => files.state + suffix).filter((path) => existsSync(path));
  if (flags.yes !== true) {
    throw new TertuliaError(
      "usage",
      there.length === 0 ? `There is no ${files.state}.` : `This moves ${there.join(", ")} to names with the time.`,
      {
        remedy: "Say --yes: `tertulia state set-aside --yes`. Nothing is deleted.",
      },
    );
  }
  const lock = acquireLock({ path: files.lock, pid: process.pid, now: Date.now() });
  try {
    const moved = setAside(files.state, new Date());
    lock.forget();
    if (flags.json) output(JSON.stringify({ moved: moved.map(([from, to]) => ({ from, to })) }));
    else output(printable(describe(files.state, moved)));
  } finally {
    lock.release();
  }
}

function describe(state: string, moved: readonly (readonly [from: string, to: string])[]): string {
  const lines = moved.map(([from, to]) => `${from} is now ${to}`);
  if (lines.length === 0) lines.push(`There was no ${state} to move.`);
  return [...lines, `The next start makes a new state; to go on with a backup, copy it to ${state} first.`].join("\n");
}
