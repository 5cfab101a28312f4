import { existsSync } from "node:fs";
import { join } from "node:path";

interface Recipe {
  readonly home: string;
  readonly state: string;
  readonly lang: string;
  readonly owners: readonly string[];
  /** How this program is called: Hermes' clock may have another PATH. */
  readonly command: readonly string[];
}

const SCRIPT = "tertulia-digest.sh";

/**
 * How Hermes' own clock runs the digest: a script in its folder of scripts, no agent, nothing sent to anybody. `every 5m`: a plain `5m`
 * is once, in five minutes.
 */
export function cronRecipe({ home, state, lang, owners, command }: Recipe): string {
  const flags = [
    `--home ${quoted(home)}`,
    `--state ${quoted(state)}`,
    ...(lang === "en" ? [] : [`--lang ${lang}`]),
    ...owners.map((owner) => `--owner ${quoted(owner)}`),
  ].join(" ");
  const script = join(home, "scripts", SCRIPT);
  return [
    "Let Hermes' clock run it every five minutes, without a model call:",
    "",
    `  mkdir -p ${quoted(join(home, "scripts"))}`,
    `  printf '%s\\n' '#!/bin/sh' ${quoted(`exec ${command.map(quoted).join(" ")} digest run ${flags}`)} > ${quoted(script)}`,
    `  hermes cron create "every 5m" --name "digest of the other doors" --script ${SCRIPT} --no-agent --deliver local`,
    "",
    "Its clock runs in its gateway. `hermes cron list` shows the job's id, `hermes cron run ID` runs it now, `hermes cron runs ID` lists its runs.",
    "",
    `The block in AGENTS.md is read by sessions whose working folder is ${home}; for the gateway, set terminal.cwd in`,
    `${join(home, "config.yaml")} to it. The guide in SOUL.md is read by every session. Both are read when a session begins.`,
  ].join("\n");
}

/** What was made by the recipe and is not ours to take away; null where nothing of it is seen. The job would write the files again. */
export function cronLeft(home: string): string | null {
  const script = join(home, "scripts", SCRIPT);
  if (!existsSync(script)) return null;
  return [
    "Hermes' clock may still run it; the job's id is in `hermes cron list`:",
    "",
    "  hermes cron remove ID",
    `  rm ${quoted(script)}`,
  ].join("\n");
}

/** A home without Hermes: our own gateway, or a clock of the owner's, keeps the files. */
export function withoutHermes(home: string): string {
  return [
    "No state.db of Hermes was found there. Tertulia's own gateway keeps the files where config.yaml says",
    "",
    "  digest:",
    `    home: ${home}`,
    "",
    `and \`tertulia digest run --home ${quoted(home)}\` writes them once.`,
  ].join("\n");
}

function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
