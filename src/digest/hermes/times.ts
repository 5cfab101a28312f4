/**
 * Times of a state.db, in whatever unit and form a version or another tool wrote them. The column says neither: SQLite keeps what it is given.
 */

/** Epoch ms. Before it nobody talked to an agent; a time later than now by more than this is one of a clock that was wrong. */
const EARLIEST = Date.UTC(2000, 0, 1);
const AHEAD_MS = 5 * 60_000;

/** How many of a unit are a millisecond. The window of times is so narrow that a number is in at most one of them. */
const PER_MS = { seconds: 1e-3, milliseconds: 1, microseconds: 1e3, nanoseconds: 1e6 } as const;
const UNITS: readonly number[] = Object.values(PER_MS);

/** Epoch ms; null for what can be no time: a word, an absurd number, the future. */
export function timeIn(value: unknown, now: number): number | null {
  const text = typeof value === "string" ? value.trim() : null;
  const isNumber = typeof value === "number" || (text !== null && NUMBER.test(text));
  const found = isNumber ? UNITS.map((perMs) => Number(value) / perMs) : [];
  if (text !== null) found.push(isoIn(text));
  const at = found.find((ms) => ms >= EARLIEST && ms <= now + AHEAD_MS);
  return at === undefined ? null : Math.round(at);
}

/** The numbers that are times, one range for each unit. */
export function numericWindows(now: number): readonly (readonly [from: number, to: number])[] {
  return UNITS.map((perMs) => [EARLIEST * perMs, (now + AHEAD_MS) * perMs]);
}

/** An expression for a column of times. JavaScript has no number for nanoseconds as SQLite's integers have them. */
export function asTime(column: string): string {
  return `CASE typeof(${column}) WHEN 'integer' THEN CAST(${column} AS REAL) ELSE ${column} END`;
}

const NUMBER = /^\d{1,30}(?:\.\d{0,30})?(?:e\+?\d{1,2})?$/i;
const ISO =
  /^(\d{4})-?(\d\d)-?(\d\d)(?:(T| )(\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d{1,12}))?)?)?(?: ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?$/i;

/**
 * Without a zone, T or six digits of a second are local time, as Python writes it; else a blank, or a day alone, is UTC, as SQLite writes it.
 * NaN for no date.
 */
function isoIn(text: string): number {
  const parts = ISO.exec(text);
  if (parts === null) return Number.NaN;
  const [, year, month, day, separator, hour = "0", minute = "0", second = "0", fraction = "0", zone] = parts;
  const date = [Number(year), Number(month) - 1, Number(day)] as const;
  const time = [Number(hour), Number(minute), Number(second), Math.floor(Number(`0.${fraction}`) * 1000)] as const;
  const utc = Date.UTC(...date, ...time);
  // A month, day or hour that does not exist would become another one.
  const isReal = new Date(Date.UTC(...date)).getUTCDate() === date[2] && date[1] < 12 && time[0] < 24 && time[1] < 60;
  if (!isReal) return Number.NaN;
  if (zone !== undefined) return utc - offsetOf(zone);
  const isLocal = separator?.toUpperCase() === "T" || fraction.length === 6;
  return isLocal ? new Date(...date, ...time).getTime() : utc;
}

function offsetOf(zone: string): number {
  const [, sign, hours, minutes = "0"] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone) ?? [];
  if (sign === undefined) return 0;
  return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}
