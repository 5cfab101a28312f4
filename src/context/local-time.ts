/** Times as an agent reads them: local, by the minute, with the zone. They do not depend on the process's own zone. */

interface ZoneFormats {
  readonly minute: Intl.DateTimeFormat;
  readonly weekday: Intl.DateTimeFormat;
  readonly offset: Intl.DateTimeFormat;
}

/** Formats by zone. Creating a format costs a hundred times as much as using it. */
const FORMATS = new Map<string, ZoneFormats>();

const MINUTE_MS = 60_000;
/** The last result: many turns fall into one minute of one zone. */
let last = { minute: Number.NaN, timezone: "", text: "" };

/** `2026-11-30 14:05 Monday, Europe/Berlin (UTC+01:00)`. */
export function timeWithZone(at: number, timezone: string): string {
  const minute = Math.floor(at / MINUTE_MS);
  if (last.minute !== minute || last.timezone !== timezone) {
    const text = `${localMinute(at, timezone)} ${formatsOf(timezone).weekday.format(at)}, ${timezone} (${offset(at, timezone)})`;
    last = { minute, timezone, text };
  }
  return last.text;
}

/** `2026-11-30 14:05`. */
export function localMinute(at: number, timezone: string): string {
  return formatsOf(timezone).minute.format(at);
}

function offset(at: number, timezone: string): string {
  const parts = formatsOf(timezone).offset.formatToParts(at);
  const name = parts.find(({ type }) => type === "timeZoneName")?.value ?? "";
  return name === "GMT" ? "UTC" : name.replace("GMT", "UTC");
}

function formatsOf(timeZone: string): ZoneFormats {
  let formats = FORMATS.get(timeZone);
  if (formats === undefined) {
    formats = {
      // Sweden writes dates as ISO 8601 does.
      minute: new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" }),
      weekday: new Intl.DateTimeFormat("en-US", { timeZone, weekday: "long" }),
      offset: new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" }),
    };
    FORMATS.set(timeZone, formats);
  }
  return formats;
}
