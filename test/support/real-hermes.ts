/** A Hermes of its makers, in a virtual environment of its own, and started with a home and a model of a test's choice. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { AGENT_CACHE, installOnce, isComplete, runBounded } from "./agent-installs.ts";
import { AGENT_MODEL } from "./agent-model.ts";
import { eventually, processesWith } from "./agent-processes.ts";

export const HERMES_VERSION = "0.19.0";
/** Its API server needs aiohttp, which its package does not ask for. */
const REQUIREMENTS: readonly string[] = [`hermes-agent[acp,mcp]==${HERMES_VERSION}`, "aiohttp==3.14.1"];

export type HermesInstall =
  | { readonly kind: "installed"; readonly command: string; readonly version: string }
  /** This machine has no fitting Python, or does not reach the package index. */
  | { readonly kind: "unavailable"; readonly why: string };

/** Finds Hermes, or installs it. Rejects where it could be had and is not. */
export async function hermesInstall(): Promise<HermesInstall> {
  const folder = join(AGENT_CACHE, `hermes-${HERMES_VERSION}`);
  const command = join(folder, "bin", "hermes");
  const installed = { kind: "installed", command, version: HERMES_VERSION } as const;
  if (isComplete(folder)) return installed;
  const python = await findPython();
  if (python === null) return { kind: "unavailable", why: "there is no Python from 3.11 to 3.13 with venv" };
  try {
    await installOnce(folder, async () => {
      await runBounded(python, ["-m", "venv", folder], AGENT_CACHE);
      const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
      await runBounded(join(folder, "bin", "python"), [...pip, ...REQUIREMENTS], folder);
    });
    return installed;
  } catch (cause) {
    const said = String(cause);
    const isUnreachable = /NewConnectionError|ConnectTimeout|Name or service not known|from versions: none/.test(said);
    if (isUnreachable) return { kind: "unavailable", why: "the Python package index is not reached" };
    throw cause;
  }
}

/** For whoever skips what needs it: never without a word. */
export function announceMissing({ why }: HermesInstall & { kind: "unavailable" }): void {
  process.stdout.write(`\n*** HERMES IS NOT TESTED: ${why}. ***\n\n`);
}

async function findPython(): Promise<string | null> {
  const shims = join(homedir(), ".pyenv", "shims");
  const names = ["python3.11", "python3.12", "python3.13", "python3"];
  for (const python of [...names, ...names.map((name) => join(shims, name))]) {
    const check = "import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))";
    const isFit = await runBounded(python, ["-c", check], "/").then(
      () => true,
      () => false,
    );
    if (isFit) return python;
  }
  return null;
}

export interface HermesStart {
  /** Its HERMES_HOME; made where it is not there, its config.yaml where it has none. */
  readonly home: string;
  /** Of the chat completions of a model, with `/v1`. */
  readonly modelUrl: string;
  /** Null: without a key, which it refuses. */
  readonly key?: string | null;
  readonly patienceMs?: number;
}

export interface RunningHermes {
  readonly url: string;
  readonly key: string;
  readonly pid: number;
  /** What it wrote so far. */
  output(): string;
  stop(): Promise<void>;
  /** Without letting it end in order. */
  kill(): Promise<void>;
}

const START_MS = 60_000;
const STOP_MS = 10_000;

/** Its gateway with the API server on, and no other platform. Resolves when it answers. */
export async function startHermes({
  home,
  modelUrl,
  key = randomBytes(16).toString("hex"),
  patienceMs = START_MS,
}: HermesStart): Promise<RunningHermes> {
  const install = await hermesInstall();
  if (install.kind === "unavailable") throw new Error(`Hermes is unavailable: ${install.why}.`);
  prepareHermesHome(home, modelUrl);
  const port = await freePort();
  const mark = randomUUID();
  const child = spawn(install.command, ["gateway", "run"], {
    cwd: home,
    env: {
      ...hermesEnvironment(home),
      API_SERVER_ENABLED: "true",
      API_SERVER_PORT: String(port),
      TERTULIA_TEST_RUN: mark,
      ...(key === null ? {} : { API_SERVER_KEY: key }),
    },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()));
  const pid = child.pid;
  if (pid === undefined) throw new Error("Hermes could not be started.");
  const url = `http://127.0.0.1:${port}`;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    signalGroup(pid, signal);
    const isOver = (): boolean => hasEnded(child) && processesWith(`TERTULIA_TEST_RUN=${mark}`).length === 0;
    await eventually(isOver, STOP_MS).catch(async () => {
      signalGroup(pid, "SIGKILL");
      await eventually(isOver, STOP_MS);
    });
  };
  try {
    await eventually(async () => {
      if (hasEnded(child)) throw new Error(`Hermes ended at once:\n${output}`);
      return (await fetch(`${url}/health`).catch(() => null))?.ok === true;
    }, patienceMs);
  } catch (cause) {
    await end("SIGKILL");
    throw new Error(`Hermes does not answer:\n${output}`, { cause });
  }
  return { url, key: key ?? "", pid, output: () => output, stop: () => end("SIGTERM"), kill: () => end("SIGKILL") };
}

/** What it is told of its model; a config.yaml that is there stays as it is. */
export function prepareHermesHome(home: string, modelUrl: string): void {
  mkdirSync(home, { recursive: true });
  const file = join(home, "config.yaml");
  if (existsSync(file)) return;
  const model = { default: AGENT_MODEL, provider: "custom", base_url: modelUrl, api_key: "fake-model-key-0123" };
  writeFileSync(file, `${JSON.stringify({ model }, null, 2)}\n`);
}

/** Nothing of this machine's own Hermes reaches it. */
export function hermesEnvironment(home: string): Record<string, string> {
  return { PATH: process.env.PATH ?? "", LANG: "C.UTF-8", HOME: home, HERMES_HOME: home };
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ESRCH") throw cause;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
