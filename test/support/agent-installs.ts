/**
 * Agents of others, installed beside our lockfile in `.cache/agents`, once: exact versions, from their registries. Each install is bounded in
 * time, and only counts when it was finished.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const AGENT_CACHE = fileURLToPath(new URL("../../.cache/agents", import.meta.url));

export const OPENCODE = { package: "opencode-linux-x64", version: "1.18.33" } as const;
export const GEMINI = { package: "@google/gemini-cli", version: "0.61.0" } as const;

const INSTALL_MS = 5 * 60_000;
const run = promisify(execFile);

export interface NpmAgent {
  readonly package: string;
  readonly version: string;
}

const PREFIX = join(AGENT_CACHE, "npm");

/** Installs what is not there in its version. Rejects where that cannot be done. */
export async function installNpmAgents(agents: readonly NpmAgent[]): Promise<void> {
  if (agents.every(isInstalled)) return;
  mkdirSync(PREFIX, { recursive: true });
  writeFileSync(join(PREFIX, "package.json"), JSON.stringify({ private: true }));
  const wanted = agents.map((agent) => `${agent.package}@${agent.version}`);
  // Their install scripts fetch from elsewhere; the programs do without.
  await runBounded(
    "npm",
    ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", ...wanted],
    PREFIX,
  );
  const missing = agents.filter((agent) => !isInstalled(agent));
  if (missing.length > 0) throw new Error(`npm did not install ${missing.map((agent) => agent.package).join(", ")}.`);
}

/** The path of a file of an installed agent. Throws where it is not installed. */
export function npmAgentFile(agent: NpmAgent, file: string): string {
  if (!isInstalled(agent)) throw new Error(`${agent.package}@${agent.version} is not installed: npm run test:agents`);
  return join(PREFIX, "node_modules", agent.package, file);
}

function isInstalled(agent: NpmAgent): boolean {
  const file = join(PREFIX, "node_modules", agent.package, "package.json");
  return existsSync(file) && (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version === agent.version;
}

/** What a program wrote. Rejects with it where the program fails, or takes too long. */
export async function runBounded(command: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    const { stdout } = await run(command, [...args], { cwd, timeout: INSTALL_MS, maxBuffer: 64 * 1024 * 1024 });
    return stdout;
  } catch (cause) {
    const { stderr = "", stdout = "" } = cause as { stderr?: string; stdout?: string };
    throw new Error(`${command} ${args.join(" ")}: ${String(cause)}\n${stdout}\n${stderr}`, { cause });
  }
}

/** Whole, and where it was installed: the programs of a Python environment hold its path, and are lost with a move. */
export function isComplete(folder: string): boolean {
  const done = join(folder, ".complete");
  return existsSync(done) && readFileSync(done, "utf8") === folder;
}

/** Installs into a folder that counts only when it is whole. */
export async function installOnce(folder: string, install: () => Promise<void>): Promise<void> {
  if (isComplete(folder)) return;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await install();
  writeFileSync(join(folder, ".complete"), folder);
}
