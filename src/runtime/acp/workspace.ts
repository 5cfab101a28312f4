/** The folder an agent works in, one for each session of the gateway: what it reads there and writes there is no other session's. */
import { createHash } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { TertuliaError } from "../../errors.ts";

const PLAIN = /^[A-Za-z0-9_-][\w.-]{0,127}$/;

/** The session's id where it can be a name of a folder, else a name made from it. */
export function folderOf(sessionId: string): string {
  if (PLAIN.test(sessionId)) return sessionId;
  return `x-${createHash("sha256").update(sessionId).digest("hex").slice(0, 32)}`;
}

export class Workspaces {
  readonly #root: string;

  constructor(home: string) {
    this.#root = resolve(home, "workspace");
  }

  /** Throws `disk_full` and `home_unwritable`. The path is absolute. Made when it is not there, for its owner alone; the context file is written when it says something else. */
  async prepare(folder: string, context: { readonly file: string; readonly text: string } | null): Promise<string> {
    const path = join(this.#root, folder);
    try {
      await mkdir(path, { recursive: true, mode: 0o700 });
      await chmod(path, 0o700);
      if (context !== null) await writeWhenChanged(join(path, context.file), `${context.text}\n`);
    } catch (cause) {
      throw unwritable(path, cause);
    }
    return path;
  }

  /** The names of all folders of sessions that are there. */
  async folders(): Promise<readonly string[]> {
    const entries = await readdir(this.#root, { withFileTypes: true }).catch(() => []);
    return entries.flatMap((entry) => (entry.isDirectory() && PLAIN.test(entry.name) ? [entry.name] : []));
  }

  /** Safe to repeat. Ignores what is no name of one of its folders. */
  async remove(folder: string): Promise<void> {
    if (PLAIN.test(folder)) await rm(join(this.#root, folder), { recursive: true, force: true });
  }
}

async function writeWhenChanged(path: string, text: string): Promise<void> {
  if ((await readFile(path, "utf8").catch(() => null)) === text) return;
  // Renamed into its place: a link that the agent has put there leads nowhere.
  const draft = `${path}.${process.pid}.tmp`;
  await rm(draft, { force: true });
  await writeFile(draft, text, { mode: 0o600, flag: "wx" });
  await rename(draft, path);
}

/** `disk_full` or `home_unwritable`. */
export function unwritable(path: string, cause: unknown): TertuliaError {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  if (code === "ENOSPC") return new TertuliaError("disk_full", `There is no space left for ${path}.`, { cause });
  return new TertuliaError("home_unwritable", `${path} cannot be written (${code}).`, { cause });
}
