import { statSync } from "node:fs";

/** The rights of a file or folder where others than its owner have some; null where they have none, or it is not there. */
export function rightsOfOthers(path: string): string | null {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  return (mode & 0o077) === 0 ? null : (mode & 0o777).toString(8).padStart(4, "0");
}
