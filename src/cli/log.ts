import type { Config } from "../config.ts";
import { type Log, silentLog } from "../util/log.ts";

/** JSON lines on standard error. */
export async function createLog(config: Config): Promise<Log> {
  if (config.log.level === "silent") return silentLog;
  const { pino } = await import("pino");
  const log = pino({ level: config.log.level, base: null }, pino.destination({ fd: 2, sync: true }));
  return {
    info: (fields, message) => log.info(fields, message),
    warn: (fields, message) => log.warn(fields, message),
    error: (fields, message) => log.error(fields, message),
  };
}
