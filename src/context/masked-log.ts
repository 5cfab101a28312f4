import type { Log } from "../util/log.ts";
import type { IdMask } from "./id-mask.ts";

/** Fields of a log line that hold the id of a user or a chat. */
const IDS: Readonly<Record<string, "user" | "chat">> = { chat: "chat", from: "user", to: "user", user: "user" };

/** A log that shows the same stand-ins for ids as agents see (C5). `mask` gives the mask at this moment. */
export function maskedLog(log: Log, mask: () => IdMask): Log {
  const masked = (fields: object): object => {
    const { platform } = fields as { platform?: unknown };
    const name = typeof platform === "string" ? platform : "";
    const entries = Object.entries(fields).map(([key, value]) => {
      const kind = IDS[key];
      return [key, kind !== undefined && typeof value === "string" ? mask()[kind](name, value) : value];
    });
    return Object.fromEntries(entries);
  };
  return {
    info: (fields, message) => log.info(masked(fields), message),
    warn: (fields, message) => log.warn(masked(fields), message),
    error: (fields, message) => log.error(masked(fields), message),
  };
}
