/// <reference types="node" preserve="true" />
/**
 * AgentProcess: one agent as a process group of its own. Owns the process from spawn to the end of its last child: running → stopping → gone.
 * Whatever ends it (us, a crash, the end of the gateway's process), the whole group goes (B8).
 *
 * The group is signalled only while we know it to be ours: until its leader is collected, and after that as long as it was seen alive
 * without a gap, for a number is not given anew while its group lives.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { Clock } from "../../util/clock.ts";
import { isGroupAlive, residentBytes, signalGroup } from "./process-group.ts";

export interface StopLimits {
  /** From the closed input until SIGTERM. */
  readonly stdinGraceMs: number;
  /** From SIGTERM until SIGKILL. */
  readonly termGraceMs: number;
}

export interface AgentProcessOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly limits: StopLimits;
  /** Its leader has ended, or could not be started. */
  readonly onExit: (exit: ProcessExit) => void;
  /** Nothing of it is left. */
  readonly onGone: () => void;
}

export type ProcessExit =
  | { readonly kind: "ended"; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  | { readonly kind: "unstartable"; readonly code: string };

const LOOK_MS = 50;
/** After SIGKILL; a process that the kernel holds for longer is nothing we can end. */
const KILLED_MS = 2_000;
const STDERR_CHARACTERS = 16_384;

/** Groups that must not outlive this process. */
const groups = new Set<number>();
const killAll = (): void => {
  for (const group of groups) signalGroup(group, "SIGKILL");
};

export class AgentProcess {
  readonly #child: ChildProcessWithoutNullStreams | null;
  readonly #options: AgentProcessOptions;
  readonly #exited = Promise.withResolvers<void>();
  #exit: ProcessExit | null = null;
  #stderr = "";
  #stop: Promise<void> | null = null;
  /** Ends the wait for an agent to go by itself. */
  readonly #hurry = Promise.withResolvers<void>();

  constructor(options: AgentProcessOptions) {
    this.#options = options;
    this.#child = this.#spawn();
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }
  /** Settles when its leader has ended or could not be started. */
  get exited(): Promise<void> {
    return this.#exited.promise;
  }
  get exit(): ProcessExit | null {
    return this.#exit;
  }
  /** The last it has said on its error output, bounded. */
  get stderr(): string {
    return this.#stderr;
  }
  /** Null for one that could not be started. */
  get stdio(): { readonly input: Writable; readonly output: Readable } | null {
    return this.#child === null ? null : { input: this.#child.stdin, output: this.#child.stdout };
  }

  async memory(): Promise<number | undefined> {
    const pid = this.#child?.pid;
    return pid === undefined || this.#exit !== null ? undefined : residentBytes(pid);
  }

  /** Input closed, a while, SIGTERM, a while, SIGKILL; `hasty` leaves the first while out. Settles when nothing is left. Safe to repeat. */
  stop({ hasty = false }: { hasty?: boolean } = {}): Promise<void> {
    if (hasty) this.#hurry.resolve();
    this.#stop ??= this.#end();
    return this.#stop;
  }

  #spawn(): ChildProcessWithoutNullStreams | null {
    const { command, args, cwd, env } = this.#options;
    let child: ChildProcessWithoutNullStreams;
    try {
      child = spawn(command, args, { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    } catch (cause) {
      queueMicrotask(() => this.#onExit({ kind: "unstartable", code: codeOf(cause) }));
      return null;
    }
    const { pid } = child;
    if (pid !== undefined) {
      if (groups.size === 0) process.on("exit", killAll);
      groups.add(pid);
    }
    child.once("error", (cause) => {
      if (pid === undefined) this.#onExit({ kind: "unstartable", code: codeOf(cause) });
    });
    child.once("exit", (code, signal) => this.#onExit({ kind: "ended", code, signal }));
    // A pipe that breaks tells what the exit tells.
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on("error", () => undefined);
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_CHARACTERS);
    });
    return child;
  }

  #onExit(exit: ProcessExit): void {
    if (this.#exit !== null) return;
    this.#exit = exit;
    this.#exited.resolve();
    this.#options.onExit(exit);
    // One that died by itself may have left children.
    void this.stop({ hasty: true });
  }

  async #end(): Promise<void> {
    const { limits, onGone } = this.#options;
    const child = this.#child;
    const group = child?.pid;
    if (child === null || group === undefined) {
      await this.#exited.promise;
    } else {
      child.stdin.end();
      await this.#within(limits.stdinGraceMs, Promise.race([this.#exited.promise, this.#hurry.promise]));
      if (this.#exit === null || isGroupAlive(group)) {
        signalGroup(group, "SIGTERM");
        if (!(await this.#emptied(group, limits.termGraceMs))) {
          signalGroup(group, "SIGKILL");
          await this.#emptied(group, KILLED_MS);
        }
      }
      groups.delete(group);
      if (groups.size === 0) process.off("exit", killAll);
      // A pipe that somebody outside of the group still holds would keep this process from ending.
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    }
    onGone();
  }

  /** Whether the leader is collected and nobody of its group runs any more, within so many ms. */
  async #emptied(group: number, ms: number): Promise<boolean> {
    const never = new Promise<void>(() => undefined);
    for (let left = ms; this.#exit === null || isGroupAlive(group); left -= LOOK_MS) {
      if (left <= 0) return false;
      await this.#within(Math.min(LOOK_MS, left), this.#exit === null ? this.#exited.promise : never);
    }
    return true;
  }

  async #within(ms: number, promise: Promise<void>): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(ms, resolve);
    await Promise.race([promise, late]);
    cancel();
  }
}

function codeOf(cause: unknown): string {
  return cause instanceof Error && "code" in cause ? String(cause.code) : "UNKNOWN";
}
