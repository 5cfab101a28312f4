import { readdirSync, readFileSync } from "node:fs";

/** Processes that carry a mark in their environment, and still run; those that only wait to be collected do not count. */
export function processesWith(mark: string): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .map(Number)
    .filter(
      (pid) => readProc(pid, "environ").split("\0").includes(mark) && !/^State:\s+[ZX]/m.test(readProc(pid, "status")),
    );
}

/** Looks again until it is so. Rejects after `ms`. */
export async function eventually(isSo: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> {
  const until = performance.now() + ms;
  while (!(await isSo())) {
    if (performance.now() > until) throw new Error("It does not become so.");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return "";
  }
}
