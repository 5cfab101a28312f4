import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import type { Clock } from "../util/clock.ts";

/** An editor writes a file in several steps. */
const SETTLE_MS = 200;

/**
 * Calls `onChange` when one of the files has changed, appeared or gone: their folders are watched, for editors put a new file in the old
 * one's place. Returns the way to stop.
 */
export function watchFiles(
  paths: readonly string[],
  { clock, onChange, onError }: { clock: Clock; onChange: () => void; onError: (cause: unknown) => void },
): () => void {
  let cancel = (): void => undefined;
  const watchers: FSWatcher[] = [];
  for (const folder of new Set(paths.map(dirname))) {
    const names = new Set(paths.filter((path) => dirname(path) === folder).map((path) => basename(path)));
    try {
      const watcher = watch(folder, { persistent: false }, (_, name) => {
        if (name !== null && !names.has(name)) return;
        cancel();
        cancel = clock.after(SETTLE_MS, onChange);
      });
      watcher.on("error", onError);
      watchers.push(watcher);
    } catch (cause) {
      onError(cause);
    }
  }
  return () => {
    cancel();
    for (const watcher of watchers) watcher.close();
  };
}
