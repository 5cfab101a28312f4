import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  DEFAULT_RESET_POLICY,
  isTimeZone,
  latestBoundary,
  policyFor,
  type ResetPolicy,
  resetReasonOf,
} from "./reset-policy.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const at = (iso: string): number => Date.parse(iso);
const idle = (idleMinutes: number): ResetPolicy => ({ ...DEFAULT_RESET_POLICY, mode: "idle", idleMinutes });
const daily = (timezone: string, atHour: number): ResetPolicy => ({
  ...DEFAULT_RESET_POLICY,
  mode: "daily",
  timezone,
  atHour,
});
const boundary = (timezone: string, atHour: number, now: string): string =>
  new Date(latestBoundary({ timezone, atHour, now: at(now) })).toISOString();

describe("R1: which policy", () => {
  const chat = idle(1);
  const platform = idle(2);
  const chatType = idle(3);
  const fallback = DEFAULT_RESET_POLICY;

  test("R1: chat override, platform, chat type, default, in this order", () => {
    expect(policyFor({ chat, platform, chatType, default: fallback })).toEqual({ policy: chat, from: "chat" });
    expect(policyFor({ platform, chatType, default: fallback })).toEqual({ policy: platform, from: "platform" });
    expect(policyFor({ chatType, default: fallback })).toEqual({ policy: chatType, from: "type" });
    expect(policyFor({ chat: undefined, default: fallback })).toEqual({ policy: fallback, from: "default" });
  });

  test("R1: the chosen policy is whole, also when it turns resets off", () => {
    const off: ResetPolicy = { ...DEFAULT_RESET_POLICY, notify: false };
    expect(policyFor({ chat: off, platform, default: daily("Asia/Shanghai", 4) }).policy).toBe(off);
  });

  test("R1: by default time alone never ends a conversation", () => {
    expect(DEFAULT_RESET_POLICY).toMatchObject({ mode: "none", idleMinutes: 1440, atHour: 4, notify: true });
    expect(resetReasonOf({ policy: DEFAULT_RESET_POLICY, lastHumanAt: 0, now: at("2026-05-10T20:30Z") })).toBeNull();
  });

  test("R1: a time zone is an IANA name", () => {
    for (const name of ["UTC", "Asia/Shanghai", "america/new_york", "Etc/GMT-8"]) expect(isTimeZone(name)).toBe(true);
    for (const name of ["", "Mars/Olympus", " UTC", "+02:00", "-0500", "GMT+1"]) expect(isTimeZone(name)).toBe(false);
  });
});

describe("R2: idle, then daily", () => {
  const now = at("2026-05-10T20:30Z");

  test("R2: idle means longer than the limit, not exactly the limit", () => {
    const policy = idle(60);
    expect(resetReasonOf({ policy, lastHumanAt: now - HOUR, now })).toBeNull();
    expect(resetReasonOf({ policy, lastHumanAt: now - HOUR - 1, now })).toBe("idle");
  });

  test("R2: activity at the boundary instant itself belongs to the new day", () => {
    const policy = daily("Asia/Shanghai", 4);
    const four = at("2026-05-10T20:00Z");
    expect(resetReasonOf({ policy, lastHumanAt: four, now })).toBeNull();
    expect(resetReasonOf({ policy, lastHumanAt: four - 1, now })).toBe("daily");
    expect(resetReasonOf({ policy, lastHumanAt: four - 1, now: four })).toBe("daily");
    expect(resetReasonOf({ policy, lastHumanAt: four - 2, now: four - 1 })).toBeNull();
  });

  test("R2: with both, idle is the reason when both hold, and each holds alone", () => {
    const policy: ResetPolicy = { ...daily("Asia/Shanghai", 4), mode: "both", idleMinutes: 120 };
    expect(resetReasonOf({ policy, lastHumanAt: now - 3 * HOUR, now })).toBe("idle");
    expect(resetReasonOf({ policy, lastHumanAt: now - HOUR, now })).toBe("daily");
    expect(resetReasonOf({ policy, lastHumanAt: now - 3 * HOUR, now: now - HOUR })).toBeNull();
    expect(resetReasonOf({ policy, lastHumanAt: now - 4 * HOUR, now: now - HOUR })).toBe("idle");
  });

  test("R2: each mode looks at its own fields only", () => {
    const lastHumanAt = now - 3 * DAY;
    expect(resetReasonOf({ policy: { ...idle(10_000), atHour: 4 }, lastHumanAt, now })).toBeNull();
    expect(resetReasonOf({ policy: { ...daily("UTC", 4), idleMinutes: 1 }, lastHumanAt: now - HOUR, now })).toBeNull();
  });

  test("R2: a clock that went backwards resets nothing", () => {
    const policy: ResetPolicy = { ...daily("Asia/Shanghai", 4), mode: "both", idleMinutes: 0 };
    for (const ahead of [1, HOUR, 3 * DAY]) {
      expect(resetReasonOf({ policy, lastHumanAt: now + ahead, now })).toBeNull();
    }
  });
});

describe("R3: the daily boundary", () => {
  test("R3: G-RST-03: the boundary in the New York gap is not carried back to yesterday", () => {
    const policy = daily("America/New_York", 2);
    const lastHumanAt = at("2026-03-07T02:30-05:00");
    expect(resetReasonOf({ policy, lastHumanAt, now: at("2026-03-08T01:00-05:00") })).toBeNull();
    expect(boundary("America/New_York", 2, "2026-03-08T01:00-05:00")).toBe("2026-03-07T07:00:00.000Z");

    // 02:00 does not come on the 8th; 03:00 summer time is the first instant after the gap.
    const afterGap = at("2026-03-08T03:00-04:00");
    expect(resetReasonOf({ policy, lastHumanAt, now: afterGap - 1 })).toBeNull();
    expect(resetReasonOf({ policy, lastHumanAt, now: afterGap })).toBe("daily");
    expect(boundary("America/New_York", 2, "2026-03-09T01:59-04:00")).toBe("2026-03-08T07:00:00.000Z");
    expect(boundary("America/New_York", 2, "2026-03-09T02:00-04:00")).toBe("2026-03-09T06:00:00.000Z");
  });

  test("R3: G-RST-03: the half-hour gap of Lord Howe", () => {
    // 2026-10-04: 02:00 (+10:30) becomes 02:30 (+11).
    expect(boundary("Australia/Lord_Howe", 2, "2026-10-04T01:59:59.999+10:30")).toBe("2026-10-02T15:30:00.000Z");
    expect(boundary("Australia/Lord_Howe", 2, "2026-10-04T02:30+11:00")).toBe("2026-10-03T15:30:00.000Z");
    expect(boundary("Australia/Lord_Howe", 3, "2026-10-04T03:00+11:00")).toBe("2026-10-03T16:00:00.000Z");
  });

  test("R3: G-RST-03: the gap of Nuuk that ends at midnight", () => {
    // 2026-03-28: 23:00 (-2) becomes 00:00 (-1) of the 29th.
    expect(boundary("America/Nuuk", 23, "2026-03-28T22:59-02:00")).toBe("2026-03-28T01:00:00.000Z");
    expect(boundary("America/Nuuk", 23, "2026-03-29T00:00-01:00")).toBe("2026-03-29T01:00:00.000Z");
    expect(boundary("America/Nuuk", 0, "2026-03-29T00:00-01:00")).toBe("2026-03-29T01:00:00.000Z");
    expect(boundary("America/Nuuk", 23, "2026-03-29T23:00-01:00")).toBe("2026-03-30T00:00:00.000Z");
  });

  test("R3: of an hour that comes twice the first counts, once", () => {
    const policy = daily("America/New_York", 1);
    const first = at("2026-11-01T01:00-04:00");
    expect(boundary("America/New_York", 1, "2026-11-01T01:30-04:00")).toBe("2026-11-01T05:00:00.000Z");
    expect(boundary("America/New_York", 1, "2026-11-01T01:30-05:00")).toBe("2026-11-01T05:00:00.000Z");
    expect(resetReasonOf({ policy, lastHumanAt: first, now: at("2026-11-01T01:30-05:00") })).toBeNull();
  });

  test("R3: a boundary holds after the clock is set back to the date before it", () => {
    // St. John's, 1987-10-25: 00:01 (-2:30) becomes 23:01 (-3:30) of the 24th.
    expect(boundary("America/St_Johns", 0, "1987-10-24T23:30-03:30")).toBe("1987-10-25T02:30:00.000Z");
    expect(boundary("America/St_Johns", 0, "1987-10-25T12:00-03:30")).toBe("1987-10-25T02:30:00.000Z");
  });

  test("R3: every hour of a day that was skipped falls on the instant after it", () => {
    // Apia had no 2011-12-30: 29th 24:00 (-10) was 31st 00:00 (+14).
    expect(boundary("Pacific/Apia", 4, "2011-12-29T23:59:59.999-10:00")).toBe("2011-12-29T14:00:00.000Z");
    expect(boundary("Pacific/Apia", 4, "2011-12-31T03:59+14:00")).toBe("2011-12-30T10:00:00.000Z");
    expect(boundary("Pacific/Apia", 4, "2011-12-31T04:00+14:00")).toBe("2011-12-30T14:00:00.000Z");
  });

  test("R3: a zone nobody knows is an error, not another zone", () => {
    expect(() => latestBoundary({ timezone: "Mars/Olympus", atHour: 4, now: 0 })).toThrow(RangeError);
  });

  test("R3: G-RST-04: the policy's zone decides", () => {
    const lastHumanAt = at("2026-05-10T19:30:00Z");
    const now = at("2026-05-10T20:30:00Z");
    expect(resetReasonOf({ policy: daily("Asia/Shanghai", 4), lastHumanAt, now })).toBe("daily");
    expect(resetReasonOf({ policy: daily("UTC", 4), lastHumanAt, now })).toBeNull();
  });

  test.each(["UTC", "Europe/Berlin", "Asia/Shanghai", "America/New_York"])(
    "R3: G-RST-04: the same answers in a process under TZ=%s",
    (TZ) => {
      const script = `
        const { latestBoundary, resetReasonOf } = await import(${JSON.stringify(new URL("./reset-policy.ts", import.meta.url))});
        const policy = ${JSON.stringify(daily("Asia/Shanghai", 4))};
        console.log(JSON.stringify([
          new Intl.DateTimeFormat().resolvedOptions().timeZone,
          resetReasonOf({ policy, lastHumanAt: Date.parse("2026-05-10T19:30Z"), now: Date.parse("2026-05-10T20:30Z") }),
          latestBoundary({ timezone: "America/New_York", atHour: 2, now: Date.parse("2026-03-08T06:00Z") }),
        ]));`;
      const output = execFileSync(process.execPath, ["--input-type=module", "--eval", script], {
        env: { ...process.env, TZ, NODE_OPTIONS: "" },
        encoding: "utf8",
      });
      expect(JSON.parse(output)).toEqual([TZ, "daily", at("2026-03-07T02:00-05:00")]);
    },
  );
});

/** Wall clock of a minute as "2026-03-08 02:00"; such texts sort by time. */
function wallClockOf(timezone: string): (at: number) => string {
  const format = new Intl.DateTimeFormat("sv-SE", {
    timeZone: timezone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
  return (at) => format.format(at);
}

/** The starts of the hours in which the clock moved by anything but an hour. */
function changesOf2026(timezone: string): number[] {
  const wallClock = wallClockOf(timezone);
  const changes: number[] = [];
  for (let hour = at("2026-01-01T00:00Z"); hour < at("2027-01-01T00:00Z"); hour += HOUR) {
    const elapsed = at(`${wallClock(hour + HOUR)}Z`) - at(`${wallClock(hour)}Z`);
    if (elapsed !== HOUR) changes.push(hour);
  }
  return changes;
}

/** The slow way: read the clock minute by minute and look each date's hours up in what it showed. */
function boundariesByScan(timezone: string, from: number, to: number): Map<number, number[]> {
  const wallClock = wallClockOf(timezone);
  const shown: string[] = [];
  for (let minute = from; minute < to; minute += MINUTE) shown.push(wallClock(minute));
  const firstShown = new Map<string, number>();
  const gaps: { before: string; after: string; end: number }[] = [];
  shown.forEach((text, index) => {
    const minute = from + index * MINUTE;
    if (!firstShown.has(text)) firstShown.set(text, minute);
    const previous = shown[index - 1];
    if (previous !== undefined && at(`${text}Z`) - at(`${previous}Z`) > MINUTE) {
      gaps.push({ before: previous, after: text, end: minute });
    }
  });

  const byHour = new Map<number, number[]>();
  for (let hour = 0; hour < 24; hour++) {
    const boundaries = new Set<number>();
    for (let date = from - DAY; date <= to + DAY; date += DAY) {
      const wanted = `${new Date(date).toISOString().slice(0, 10)} ${String(hour).padStart(2, "0")}:00`;
      const gap = gaps.find(({ before, after }) => before < wanted && wanted < after);
      const instant = firstShown.get(wanted) ?? gap?.end;
      if (instant !== undefined) boundaries.add(instant);
    }
    byHour.set(
      hour,
      [...boundaries].sort((a, b) => a - b),
    );
  }
  return byHour;
}

describe("R3: against a clock read minute by minute", () => {
  test.each([
    "America/New_York",
    "America/St_Johns",
    "America/Nuuk",
    "America/Havana",
    "America/Santiago",
    "Europe/Berlin",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
  ])("R3: %s, every hour around its clock changes of 2026", (timezone) => {
    const changes = changesOf2026(timezone);
    expect(changes).not.toHaveLength(0);

    for (const change of changes) {
      for (const [atHour, boundaries] of boundariesByScan(timezone, change - 2 * DAY, change + 2 * DAY)) {
        expect(boundaries.length).toBeGreaterThanOrEqual(3);
        boundaries.slice(1).forEach((expected, index) => {
          const previous = boundaries[index];
          const ask = (now: number) => latestBoundary({ timezone, atHour, now });
          expect([ask(expected - 1), ask(expected), ask(expected + 1)]).toEqual([previous, expected, expected]);
        });
      }
    }
  });

  test("R3: boundary ≤ now < next boundary, and its clock shows the hour or comes out of a gap", () => {
    const timezones = Intl.supportedValuesOf("timeZone");
    fc.assert(
      fc.property(
        fc.constantFrom(...timezones),
        fc.integer({ min: 0, max: 23 }),
        fc.integer({ min: at("1975-01-01T00:00Z"), max: at("2040-01-01T00:00Z") }),
        (timezone, atHour, now) => {
          const ask = (at: number) => latestBoundary({ timezone, atHour, now: at });
          const from = ask(now);
          expect(from).toBeLessThanOrEqual(now);
          expect(ask(from)).toBe(from);
          expect(ask(from - 1)).toBeLessThan(from);
          // Even where a date was skipped, the next boundary has come 50 hours later.
          const next = firstAfter(from, from + 50 * HOUR, ask);
          expect(now).toBeLessThan(next);
          expect(ask(next)).toBe(next);

          // In the minute up to it the clock reached the hour of some date, by ticking or by jumping over it.
          const wallClock = wallClockOf(timezone);
          const dates = (minute: number) => Math.floor((at(`${wallClock(minute)}Z`) - atHour * HOUR) / DAY);
          expect(dates(from)).toBeGreaterThan(dates(from - MINUTE));
          const shows = wallClock(from);
          const ticked = shows.endsWith(` ${String(atHour).padStart(2, "0")}:00`);
          expect(ticked || at(`${shows}Z`) - at(`${wallClock(from - MINUTE)}Z`) > MINUTE).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  });
});

/** The first instant in (from, to] at which the answer is no longer `from`, by halving. */
function firstAfter(from: number, to: number, answer: (now: number) => number): number {
  let low = from;
  let high = to;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (answer(middle) === from) low = middle;
    else high = middle;
  }
  return high;
}
