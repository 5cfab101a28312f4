/**
 * When time alone ends a session (R1 to R3). Pure: the same arguments give the same answer under every process time zone. What is
 * remembered between calls (a formatter per zone, the last day computed) is speed only.
 *
 * The caller looks at `suspended`, open turns and background jobs first; they come before the clock in R2.
 */

import { describeSpan } from "../util/span.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** No zone was ever further from UTC than this, local mean times included. */
const WIDEST_OFFSET_MS = 16 * HOUR_MS;

/**
 * A whole policy: layers replace each other, fields are never merged (R1). Flat rather than a union per mode, as it is what an owner
 * writes down; the hour stays known while the mode is `idle`.
 */
export type ResetPolicy = {
  readonly mode: "none" | "idle" | "daily" | "both";
  readonly idleMinutes: number;
  /** Hour of the wall clock in `timezone`, 0 to 23. */
  readonly atHour: number;
  /** IANA name, checked with `isTimeZone` when the configuration is read. */
  readonly timezone: string;
  /** Whether the user is told (R5). */
  readonly notify: boolean;
};

/** The zone is a placeholder: the gateway puts its own in. */
export const DEFAULT_RESET_POLICY: ResetPolicy = {
  mode: "none",
  idleMinutes: 1440,
  atHour: 4,
  timezone: "UTC",
  notify: true,
};

export type ResetPolicyLayers = {
  readonly chat?: ResetPolicy | undefined;
  readonly platform?: ResetPolicy | undefined;
  readonly chatType?: ResetPolicy | undefined;
  readonly default: ResetPolicy;
};

export type ChosenResetPolicy = {
  readonly policy: ResetPolicy;
  readonly from: "chat" | "platform" | "type" | "default";
};

/** R1: chat override, then platform, then chat type, then the default. */
export function policyFor(layers: ResetPolicyLayers): ChosenResetPolicy {
  if (layers.chat) return { policy: layers.chat, from: "chat" };
  if (layers.platform) return { policy: layers.platform, from: "platform" };
  if (layers.chatType) return { policy: layers.chatType, from: "type" };
  return { policy: layers.default, from: "default" };
}

export type ResetQuestion = {
  readonly policy: ResetPolicy;
  /** Last *human* activity (R10), epoch ms. */
  readonly lastHumanAt: number;
  /** The gateway's clock, epoch ms. */
  readonly now: number;
};

/**
 * The clock's part of R2: idle before daily, null to keep. Exactly the idle limit, and activity exactly at the boundary, keep. Throws a
 * `RangeError` if a daily policy names a zone that does not exist.
 */
export function resetReasonOf({ policy, lastHumanAt, now }: ResetQuestion): "idle" | "daily" | null {
  const { mode } = policy;
  if (mode === "none") return null;
  if (mode !== "daily" && Math.max(0, now - lastHumanAt) > policy.idleMinutes * MINUTE_MS) return "idle";
  if (mode !== "idle" && lastHumanAt < latestBoundary({ ...policy, now })) return "daily";
  return null;
}

export type BoundaryQuestion = { readonly atHour: number; readonly timezone: string; readonly now: number };

/**
 * R3: the latest daily boundary at or before `now`, epoch ms. Each calendar day has its own: an hour in a gap of the clock means the first
 * instant after the gap (which may already be the next date), an hour that comes twice means the first. Throws a `RangeError` for an
 * unknown zone.
 */
export function latestBoundary({ atHour, timezone, now }: BoundaryQuestion): number {
  const zone = zoneOf(timezone);
  const known = zone.lastDay.get(atHour);
  if (known && known.from <= now && now < known.until) return known.from;

  // Backwards from the day after tomorrow: where the clock was set back over midnight, tomorrow's boundary may have passed already.
  const today = Math.floor((now + offsetAt(zone, now)) / DAY_MS) * DAY_MS;
  let wallClock = today + 2 * DAY_MS + atHour * HOUR_MS;
  let until = firstInstantAt(zone, wallClock);
  let from = until;
  while (from > now) {
    until = from;
    wallClock -= DAY_MS;
    from = firstInstantAt(zone, wallClock);
  }
  zone.lastDay.set(atHour, { from, until });
  return from;
}

/**
 * After which moment a message resets the session, if nobody writes until then: epoch ms, null for never. The reset comes with the first
 * message after it, not by a timer. Throws a `RangeError` for an unknown zone.
 */
export function nextResetAt(policy: ResetPolicy, lastHumanAt: number): number | null {
  const { mode } = policy;
  const idle = mode === "idle" || mode === "both" ? [lastHumanAt + policy.idleMinutes * MINUTE_MS] : [];
  const daily = mode === "daily" || mode === "both" ? [boundaryAfter({ ...policy, now: lastHumanAt })] : [];
  return mode === "none" ? null : Math.min(...idle, ...daily);
}

function boundaryAfter(question: BoundaryQuestion): number {
  const latest = latestBoundary(question);
  // One day has at most 25 hours; two have at least 46.
  return latestBoundary({ ...question, now: latest + 27 * HOUR_MS });
}

/** A policy as a sentence says it. */
export function describePolicy({ mode, idleMinutes, atHour, timezone, notify }: ResetPolicy): string {
  const idle = `after ${describeSpan(idleMinutes * 60_000)} without a human message`;
  const daily = `daily at ${atHour}:00 ${timezone}`;
  const told = notify ? "" : ", and nobody is told";
  switch (mode) {
    case "none":
      return "none: time alone never ends a session";
    case "idle":
      return `idle: ends ${idle}${told}`;
    case "daily":
      return `daily: ends ${daily}${told}`;
    case "both":
      return `both: ends ${idle}, and ${daily}${told}`;
  }
}

/** True for an IANA name this Node knows, in any case. Bare offsets (`+02:00`) are not names: they have no summer time. */
export function isTimeZone(name: string): boolean {
  if (!/^[a-z]/i.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: name });
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

type Zone = {
  readonly format: Intl.DateTimeFormat;
  /** By hour, the boundary found last and the one after it: between the two the answer stays the same. */
  readonly lastDay: Map<number, { readonly from: number; readonly until: number }>;
};

const zones = new Map<string, Zone>();

function zoneOf(name: string): Zone {
  let zone = zones.get(name);
  if (!zone) {
    // The shortest output that carries the offset: "9 PM GMT-03:00".
    const format = new Intl.DateTimeFormat("en-US", { timeZone: name, hour: "numeric", timeZoneName: "longOffset" });
    zone = { format, lastDay: new Map() };
    zones.set(name, zone);
  }
  return zone;
}

/** Wall clock minus UTC at an instant, in ms. */
function offsetAt(zone: Zone, at: number): number {
  const text = zone.format.format(at);
  const sign = text.indexOf("GMT") + 3;
  if (sign >= text.length) return 0;
  const [hours, minutes, seconds] = text.slice(sign + 1).split(":");
  const size = Number(hours) * HOUR_MS + Number(minutes ?? 0) * MINUTE_MS + Number(seconds ?? 0) * 1000;
  return text[sign] === "-" ? -size : size;
}

/**
 * The first instant whose wall clock (written as if it were UTC) has reached `wallClock`: this one rule covers plain days, gaps and hours
 * that come twice. It counts on at most one clock change within the 32 hours around it, which holds for every zone since 1970.
 */
function firstInstantAt(zone: Zone, wallClock: number): number {
  let before = wallClock - WIDEST_OFFSET_MS;
  let after = wallClock + WIDEST_OFFSET_MS;
  const offsetBefore = offsetAt(zone, before);
  const offsetAfter = offsetAt(zone, after);
  if (offsetBefore === offsetAfter) return wallClock - offsetBefore;

  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offsetAt(zone, middle) === offsetBefore) before = middle;
    else after = middle;
  }
  const change = after;
  const asBefore = wallClock - offsetBefore;
  return asBefore < change ? asBefore : Math.max(change, wallClock - offsetAfter);
}
