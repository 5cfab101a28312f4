import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { Config } from "../config/config.ts";
import { type Log, silentLog } from "../util/log.ts";

/** JSON lines on standard error, or at the end of a file (0600) where one can be written. */
export async function createLog(config: Config, path?: string): Promise<Log> {
  if (config.log.level === "silent") return silentLog;
  const { pino } = await import("pino");
  const target = path === undefined || !isWritable(path) ? { fd: 2 } : { dest: path, append: true };
  const log = pino({ level: config.log.level, base: null }, pino.destination({ ...target, sync: true }));
  return {
    info: (fields, message) => log.info(fields, message),
    warn: (fields, message) => log.warn(fields, message),
    error: (fields, message) => log.error(fields, message),
  };
}

/** A folder that cannot be written is the start's to complain of, in its own words. */
function isWritable(path: string): boolean {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    closeSync(openSync(path, "a", 0o600));
    return true;
  } catch {
    return false;
  }
}
