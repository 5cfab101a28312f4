import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { temporaryFolder } from "./store.ts";

const ROOT = join(import.meta.dirname, "../..");
const STEP_MS = 50;
const PATIENCE_MS = 15_000;

export interface TerminalOptions {
  readonly home: string;
  readonly args: readonly string[];
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** A program that its output goes through, which then is no terminal. */
  readonly through?: string;
}

/** The built command in a real terminal (tmux): somebody types, and looks at the screen. */
export class Terminal {
  readonly #folder = temporaryFolder();
  readonly #env: Record<string, string>;
  readonly #ended: string;

  constructor({ home, args, columns = 80, rows = 40, env = {}, through }: TerminalOptions) {
    const path = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;
    this.#env = { PATH: path, HOME: home, TERTULIA_HOME: home, LANG: "C.UTF-8", ...env };
    const settings = join(this.#folder.path, "tmux.conf");
    writeFileSync(settings, "set -g remain-on-exit on\nset -g default-terminal screen-256color\n");
    this.#ended = join(this.#folder.path, "ended");
    const size = ["-x", String(columns), "-y", String(rows)];
    // The shell tells the exit code: tmux 3.3 loses it now and then.
    const pipe = through === undefined ? "" : ` | ${through}`;
    const command = ["sh", "-c", `ended=$1; shift; "$@"${pipe}; echo $? > "$ended"`, "sh", this.#ended];
    command.push(process.execPath, join(ROOT, "bin/tertulia.js"), ...args);
    this.#tmux("-f", settings, "new-session", "-d", "-s", "t", "-c", ROOT, ...size, ...command);
  }

  type(text: string): void {
    this.#tmux("send-keys", "-t", "t", "-l", "--", text);
  }

  /** As a terminal pastes: in brackets, unless it does not know them. Line ends come as the Enter key does. */
  paste(text: string, how: "bracketed" | "plain" = "bracketed"): void {
    this.#tmux("set-buffer", "--", text);
    this.#tmux("paste-buffer", ...(how === "bracketed" ? ["-p"] : []), "-t", "t");
  }

  /** By its name: `Enter`, `C-c`, `Up`. */
  press(...keys: string[]): void {
    this.#tmux("send-keys", "-t", "t", ...keys);
  }

  enter(text: string): void {
    this.type(text);
    this.press("Enter");
  }

  /** The screen as text, rows without trailing blanks. */
  get screen(): string {
    return this.#tmux("capture-pane", "-p", "-t", "t").trimEnd();
  }

  /** The screen with its colours. */
  get colours(): string {
    return this.#tmux("capture-pane", "-p", "-e", "-t", "t").trimEnd();
  }

  /** Resolves with the screen once it looks like that. */
  async shows(wanted: string | RegExp): Promise<string> {
    for (let waitedMs = 0; waitedMs < PATIENCE_MS; waitedMs += STEP_MS) {
      const { screen } = this;
      if (typeof wanted === "string" ? screen.includes(wanted) : wanted.test(screen)) return screen;
      await delay(STEP_MS);
    }
    throw new Error(`The screen never showed ${wanted}:\n${this.screen}`);
  }

  /** The exit code, once the command has ended. */
  async ends(): Promise<number> {
    for (let waitedMs = 0; waitedMs < PATIENCE_MS; waitedMs += STEP_MS) {
      const status = existsSync(this.#ended) ? readFileSync(this.#ended, "utf8").trim() : "";
      if (status !== "") return Number(status);
      await delay(STEP_MS);
    }
    throw new Error(`The command did not end:\n${this.screen}`);
  }

  close(): void {
    this.#tmux("kill-server");
    this.#folder.remove();
  }

  #tmux(...args: string[]): string {
    return execFileSync("tmux", ["-S", join(this.#folder.path, "socket"), ...args], {
      env: this.#env,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  }
}
