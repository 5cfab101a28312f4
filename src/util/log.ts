import { asTertuliaError } from "../errors.ts";

/** What the parts need of a log; pino gives it. */
export interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const silentLog: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Logs an error that no caller waits for. */
export function logFault(log: Log, cause: unknown): void {
  const error = asTertuliaError(cause);
  log.error({ err: error, cause: error.cause }, `${error.code}: ${error.message}`);
}
