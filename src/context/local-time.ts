/** Times as an agent is told them: local, by the minute, with the zone. The process's own zone has no part in it. */

/** `2026-11-30 14:05 Monday, Europe/Berlin (UTC+01:00)`. */
export function timeWithZone(at: number, timezone: string): string {
  return `${localMinute(at, timezone)} ${part(at, timezone, "weekday", "long")}, ${timezone} (${offset(at, timezone)})`;
}

/** `2026-11-30 14:05`. */
export function localMinute(at: number, timezone: string): string {
  // Sweden writes dates as ISO 8601 does.
  return new Date(at).toLocaleString("sv-SE", { timeZone: timezone, dateStyle: "short", timeStyle: "short" });
}

function offset(at: number, timezone: string): string {
  const name = part(at, timezone, "timeZoneName", "longOffset");
  return name === "GMT" ? "UTC" : name.replace("GMT", "UTC");
}

function part(at: number, timezone: string, type: "weekday" | "timeZoneName", style: "long" | "longOffset"): string {
  const format = new Intl.DateTimeFormat("en-US", { timeZone: timezone, [type]: style });
  return format.formatToParts(at).find((found) => found.type === type)?.value ?? "";
}
