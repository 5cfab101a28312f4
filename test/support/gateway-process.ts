import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { OWNER_TOKEN } from "./http-client.ts";

/** The built command as a process of its own, with a state folder of its own and nothing of our environment. */

const ROOT = join(import.meta.dirname, "../..");
const COMMAND = join(ROOT, "bin/tertulia.js");
const LONGEST_COMMAND_MS = 20_000;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly errors: string;
}

export interface GatewayProcess {
  readonly pid: number;
  /** Where it listens, once it says that it is ready. Rejects when it ends before that. */
  readonly ready: Promise<string>;
  readonly ended: Promise<Ended>;
  output(): { readonly out: string; readonly errors: string };
  /** Resolves with the first line of its log that has these words; rejects when it ends before that. */
  logs(words: string): Promise<string>;
  /** SIGKILL, sent before this returns; resolves when the process is gone. */
  kill9(): Promise<Ended>;
  /** SIGTERM; resolves when the process has ended by itself. */
  stop(): Promise<Ended>;
}

export interface CommandOptions {
  readonly home: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Another Node than the one that runs this. */
  readonly node?: string;
}

/** A gateway that is ready. */
export async function startGateway(options: CommandOptions): Promise<GatewayProcess & { readonly url: string }> {
  const gateway = spawnGateway(options);
  return Object.assign(gateway, { url: await gateway.ready });
}

/** A gateway that begins to start. */
export function spawnGateway({ args = [], ...options }: CommandOptions): GatewayProcess {
  knowOwner(options.home);
  const child = spawnCommand({ ...options, args: ["start", "--port", "0", ...args] });
  const said = { out: "", errors: "" };
  const ended = endOf(child, said);
  const ready = whenSaid(child.stdout!, () => /ready at (http:\S+)/.exec(said.out)?.[1], ended);
  // Whoever does not ask whether it became ready asks how it ended.
  ready.catch(() => undefined);
  const send = (signal: NodeJS.Signals): Promise<Ended> => {
    child.kill(signal);
    return ended;
  };
  return {
    pid: child.pid!,
    ready,
    ended,
    output: () => ({ ...said }),
    logs: (words) => whenSaid(child.stderr!, () => said.errors.split("\n").find((line) => line.includes(words)), ended),
    kill9: () => send("SIGKILL"),
    stop: () => send("SIGTERM"),
  };
}

/** Makes our client known there. */
function knowOwner(home: string): void {
  if (existsSync(home)) writeFileSync(join(home, "token"), OWNER_TOKEN, { mode: 0o600 });
}

/** A command to its end. One that goes on, for it should have refused and did not, is killed. */
export function runCommand(options: CommandOptions): Promise<Ended> {
  const child = spawnCommand(options);
  const overdue = setTimeout(() => child.kill("SIGKILL"), LONGEST_COMMAND_MS);
  return endOf(child, { out: "", errors: "" }).finally(() => clearTimeout(overdue));
}

let isChecked = false;

function spawnCommand({ home, args = [], env = {}, node = process.execPath }: CommandOptions): ChildProcess {
  if (!isChecked) mustBeBuilt();
  isChecked = true;
  return spawn(node, [COMMAND, ...args], {
    cwd: ROOT,
    env: { TERTULIA_HOME: home, HOME: home, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

async function endOf(child: ChildProcess, said: { out: string; errors: string }): Promise<Ended> {
  child.stdout!.setEncoding("utf8").on("data", (text: string) => {
    said.out += text;
  });
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
    said.errors += text;
  });
  const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  return { code, signal, ...said };
}

function whenSaid(stream: Readable, find: () => string | undefined, ended: Promise<Ended>): Promise<string> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      const found = find();
      if (found === undefined) return;
      stream.off("data", look);
      resolve(found);
    };
    stream.on("data", look);
    look();
    ended.then(({ code, signal, errors }) => {
      reject(new Error(`The gateway ended (${code ?? signal}) before it said that.\n${errors}`));
    }, reject);
  });
}

/** What is tested is the build: an old one would prove nothing. */
function mustBeBuilt(): void {
  const built = statSync(join(ROOT, "dist/cli/main.js"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const newer = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" }).find(
    (name) => /(?<!\.test)\.ts$/.test(name) && statSync(join(ROOT, "src", name)).mtimeMs > built,
  );
  if (newer !== undefined) throw new Error(`dist is older than src/${newer}: run \`npm run build\` first.`);
}
