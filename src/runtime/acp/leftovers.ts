/**
 * Agents that outlived a gateway which was killed: those that do not end with their input. Each process is noted in a file while it runs, and
 * a later gateway ends what it finds noted. A number alone proves nothing: only a group in which a process carries the session is ours.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { hasVariable, isGroupAlive, signalGroup } from "./process-group.ts";
import { unwritable } from "./workspace.ts";

export class Leftovers {
  readonly #folder: string;
  /** Noted by this process. */
  static readonly #own = new Set<number>();

  constructor(home: string) {
    this.#folder = resolve(home, "workspace", ".agents");
  }

  /** Throws `disk_full` and `home_unwritable`. */
  note(group: number, sessionId: string): void {
    Leftovers.#own.add(group);
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      writeFileSync(join(this.#folder, String(group)), sessionId, { mode: 0o600 });
    } catch (cause) {
      throw unwritable(this.#folder, cause);
    }
  }

  strike(group: number): void {
    Leftovers.#own.delete(group);
    rmSync(join(this.#folder, String(group)), { force: true });
  }

  /** At once: what they did nobody hears any more. */
  end(): void {
    for (const name of this.#noted()) {
      const group = Number(name);
      if (!/^\d+$/.test(name) || group < 2 || Leftovers.#own.has(group)) continue;
      this.#endOne(group, join(this.#folder, name));
    }
  }

  #endOne(group: number, file: string): void {
    try {
      const sessionId = readFileSync(file, "utf8");
      if (isGroupAlive(group) && hasVariable(group, "TERTULIA_SESSION_ID", sessionId)) signalGroup(group, "SIGKILL");
      rmSync(file, { force: true });
    } catch {
      // A note that cannot be read or removed keeps no gateway from starting.
    }
  }

  #noted(): string[] {
    try {
      return readdirSync(this.#folder);
    } catch {
      // Nobody has noted anything; a folder that cannot be used is told by the first note.
      return [];
    }
  }
}
