/** E6: the one judge of a configuration. What it refuses, `start`, a reload, `config check` and `doctor` refuse, at its line. */

import { type Config, type ConfigRequest, readConfig, saidAt } from "../config/config.ts";
import { invalid } from "../config/file.ts";
import { idleSettings } from "../config/idle.ts";
import { requireHome } from "../digest/files.ts";
import { asTertuliaError } from "../errors.ts";
import { runtimeProblems } from "./runtimes.ts";

export interface Judgement {
  /** With problems: what is left without what is wrong; good for whoever asks where a gateway is, and for nothing else. */
  readonly config: Config;
  /** What a start refuses, a line for each. */
  readonly problems: readonly string[];
  /** What holds and does nothing, or not what is meant. */
  readonly warnings: readonly string[];
}

export function judge(request: ConfigRequest = {}): Judgement {
  const { config, problems, leftOut } = readConfig(request);
  // What stands below a value that was left out was said already, by its cause.
  const isKnown = (path: string): boolean => leftOut.some((out) => out.startsWith(runtimeOf(path)));
  const unmade = runtimeProblems(config).filter(({ path }) => !isKnown(path));
  return {
    config,
    problems: [...problems, ...unmade.map(({ path, sentence }) => saidAt(config, path, sentence))],
    warnings: problems.length > 0 ? [] : [...warningsIn(config)],
  };
}

/** For whoever is to run it. Throws `config_invalid`, with one line for every problem found. */
export function judged(request: ConfigRequest = {}): Omit<Judgement, "problems"> {
  const { config, problems, warnings } = judge(request);
  if (problems.length > 0) throw invalid(problems);
  return { config, warnings };
}

/** `runtimes.local` of `runtimes.local.base_url`, `agents.main.runtime` of what is below it. */
function runtimeOf(path: string): string {
  const depth = path.startsWith("agents.") ? 3 : 2;
  return path.split(".").slice(0, depth).join(".");
}

function* warningsIn(config: Config): Generator<string> {
  for (const { path, why } of idleSettings(config)) yield saidAt(config, path, `has no effect: ${why}`);
  const { home } = config.digest;
  if (home === null) return;
  try {
    requireHome(home);
  } catch (cause) {
    const { code, message } = asTertuliaError(cause);
    if (code !== "digest_home") throw cause;
    yield saidAt(config, "digest.home", `no files are kept there: ${message}`);
  }
}

/** Sessions that agents are to speak in by default, and that are not there. `find` resolves with null for one that is not. */
export async function* lostSessions(
  config: Config,
  find: (id: string) => Promise<unknown>,
): AsyncGenerator<string, void> {
  for (const { name, defaultSession } of Object.values(config.agents)) {
    // Another program's is not here before the gateway has asked for it, which then says how it stands (H13).
    if (defaultSession === undefined || defaultSession.startsWith("hermes:")) continue;
    if ((await find(defaultSession)) !== null) continue;
    const path = `agents.${name}.default_session`;
    yield saidAt(config, path, `has no effect: there is no session ${defaultSession}`);
  }
}
