/// <reference types="node" preserve="true" />
/** What /proc says of a process group; elsewhere only whether it can be signalled. */
import { readdirSync, readFileSync } from "node:fs";

/** Whether a process of the group still runs; the dead that nobody has collected do not count. */
export function isGroupAlive(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch (cause) {
    // EPERM: there is one, of another user.
    return codeOf(cause) === "EPERM";
  }
  const members = membersOf(group);
  return members === null || members.length > 0;
}

/** Without a word where nobody is left to take it. */
export function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch (cause) {
    const code = codeOf(cause);
    if (code !== "ESRCH" && code !== "EPERM") throw cause;
  }
}

/** Bytes of memory that the group holds; undefined where this cannot be read. */
export function residentBytes(group: number): number | undefined {
  const members = membersOf(group);
  if (members === null) return undefined;
  const kilobytes = members.map((pid) => Number(/^VmRSS:\s+(\d+)/m.exec(readProc(pid, "status"))?.[1] ?? 0));
  return kilobytes.reduce((sum, part) => sum + part, 0) * 1024;
}

/** Whether a process of the group was started with the variable at that value; false where this cannot be read. */
export function hasVariable(group: number, name: string, value: string): boolean {
  return (membersOf(group) ?? []).some((pid) => readProc(pid, "environ").split("\0").includes(`${name}=${value}`));
}

/** Null where there is no /proc. */
function membersOf(group: number): readonly number[] | null {
  let entries: string[];
  try {
    entries = readdirSync("/proc");
  } catch {
    return null;
  }
  if (!entries.includes("self")) return null;
  return entries.flatMap((entry) => {
    if (!/^\d+$/.test(entry)) return [];
    // After the name, which can hold anything: state, parent, group.
    const stat = readProc(Number(entry), "stat");
    const [state, , pgrp] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(pgrp) === group && state !== "Z" && state !== "X" ? [Number(entry)] : [];
  });
}

/** Empty for a process that has ended meanwhile. */
function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return "";
  }
}

function codeOf(cause: unknown): unknown {
  return cause instanceof Error && "code" in cause ? cause.code : undefined;
}
