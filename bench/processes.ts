/**
 * The programs that are measured, as processes of their own, from one build of the sources as they are now (`.cache/bench`): nothing is
 * compiled while it is measured, on either side.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OWNER_TOKEN } from "../test/support/http-client.ts";

const ROOT = join(import.meta.dirname, "..");
export const BUILD = join(ROOT, ".cache/bench");

export interface Server {
  readonly url: string;
  /** From the start of the process until it said that it is ready. */
  readonly readyMs: number;
  rssMb(): number;
  /** Ends it in order and waits for its end. */
  stop(): Promise<void>;
}

export function build(): void {
  execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", join(ROOT, "bench")]);
  const sql = join(BUILD, "sql");
  if (!existsSync(sql)) symlinkSync(join(ROOT, "sql"), sql);
}

/** A folder for the state of one measurement. */
export function temporaryHome(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "tertulia-bench-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export function startGateway(home: string, options: { maxWarm?: number; nodeFlags?: string[] } = {}): Promise<Server> {
  if (options.maxWarm !== undefined)
    writeFileSync(join(home, "config.yaml"), `pool:\n  max_warm: ${options.maxWarm}\n`);
  writeFileSync(join(home, "token"), OWNER_TOKEN, { mode: 0o600 });
  const main = join(BUILD, "src/cli/main.js");
  return start([...(options.nodeFlags ?? []), main, "--home", home, "start", "--port", "0"]);
}

export function startFloor(home: string, options: { maxWarm?: number; libraries?: boolean } = {}): Promise<Server> {
  const warm = options.maxWarm === undefined ? [] : ["--warm", String(options.maxWarm)];
  const libraries = options.libraries === true ? ["--libraries"] : [];
  return start([join(BUILD, "bench/floor.js"), "--db", join(home, "floor.db"), ...warm, ...libraries]);
}

async function start(args: readonly string[]): Promise<Server> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const url = await readyUrl(child);
  const readyMs = performance.now() - startedAt;
  return {
    url,
    readyMs,
    rssMb: () => rssMb(child.pid!),
    async stop() {
      if (child.exitCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    },
  };
}

function readyUrl(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let out = "";
    let errors = "";
    child.stdout!.on("data", (chunk: Buffer) => {
      out += chunk;
      const url = /ready at (http:\S+)/.exec(out)?.[1];
      if (url !== undefined) resolve(url);
    });
    child.stderr!.on("data", (chunk: Buffer) => {
      errors = (errors + chunk).slice(-4_000);
    });
    child.once("exit", (code) => reject(new Error(`It ended with ${code} before it was ready.\n${errors}`)));
  });
}

function rssMb(pid: number): number {
  return Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) / 1_024;
}
