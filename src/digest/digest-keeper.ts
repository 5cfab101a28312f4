import type { Clock } from "../util/clock.ts";
import { type Digest, type DigestSettings, type DigestSource, readDigest } from "./digest.ts";
import { blockProblem, type FileChange, isChange, writeDigest } from "./files.ts";
import type { Rendering } from "./render.ts";

export interface DigestKeeperOptions {
  readonly home: string;
  readonly intervalMs: number;
  readonly source: DigestSource;
  readonly settings: DigestSettings;
  readonly rendering: Rendering;
  readonly clock: Clock;
  /** 12 hex digits, another for each call. */
  readonly nonce: () => string;
  readonly onWritten: (files: readonly FileChange[]) => void;
  /** What a person should know of the files; each sentence is told once until it has gone. */
  readonly onWarning: (warning: string) => void;
  /** What went wrong; the next run tries again. The same fault is told once until it has gone. */
  readonly onFault: (cause: unknown) => void;
}

/** DigestKeeper: keeps the files of one home as long as the gateway runs (D1): at its start, and then every interval. */
export class DigestKeeper {
  readonly #options: DigestKeeperOptions;
  #cancel = (): void => undefined;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;
  #told = "";
  #warned: readonly string[] = [];

  constructor(options: DigestKeeperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Resolves when no run is under way any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#running;
  }

  read(): Promise<Digest> {
    const { source, settings, clock } = this.#options;
    return readDigest(source, settings, clock.now());
  }

  async #run(): Promise<void> {
    const { home, rendering, clock, nonce, intervalMs } = this.#options;
    try {
      const { files, warnings } = writeDigest(await this.read(), rendering, { home, nonce, now: clock.now() });
      if (files.some(isChange)) this.#options.onWritten(files);
      for (const warning of warnings) if (!this.#warned.includes(warning)) this.#options.onWarning(warning);
      this.#warned = warnings;
      const problem = blockProblem(home, files);
      if (problem !== null) throw problem;
      this.#told = "";
    } catch (cause) {
      this.#tell(cause);
    }
    if (this.#isStopped) return;
    this.#cancel = clock.after(intervalMs, () => {
      this.#running = this.#run();
    });
  }

  #tell(cause: unknown): void {
    const fault = String(cause);
    if (fault !== this.#told) this.#options.onFault(cause);
    this.#told = fault;
  }
}
