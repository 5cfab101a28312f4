import type { Config } from "../config.ts";
import { type Log, silentLog } from "../util/log.ts";

/** JSON lines on standard error, or at the end of a file (0600). */
export async function createLog(config: Config, path?: string): Promise<Log> {
  if (config.log.level === "silent") return silentLog;
  const { pino } = await import("pino");
  const target = path === undefined ? { fd: 2 } : { dest: path, append: true, mode: 0o600 };
  const log = pino({ level: config.log.level, base: null }, pino.destination({ ...target, sync: true }));
  return {
    info: (fields, message) => log.info(fields, message),
    warn: (fields, message) => log.warn(fields, message),
    error: (fields, message) => log.error(fields, message),
  };
}
