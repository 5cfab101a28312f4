/** How often guests may begin turns (A10). Pure; what was begun is the store's to keep, so that a restart forgets nothing. */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

export interface RateLimits {
  readonly guestPerMinute: number;
  readonly guestPerHour: number;
  /** All guests of a place together. */
  readonly placePerMinute: number;
  /** All guests of an account of ours together. */
  readonly accountPerMinute: number;
}

/** So many within a span. */
export interface Allowance {
  readonly most: number;
  readonly spanMs: number;
}

/** What is counted together, by the name that it is kept under. */
export interface Pace {
  readonly id: string;
  readonly of: "guest" | "place" | "account";
  readonly allowances: readonly Allowance[];
}

/** Where a guest's turn, or a guest's command, counts. */
export function pacesOf(
  deed: "turn" | "command",
  { guest, place, account }: { readonly guest: string; readonly place: number; readonly account: string },
  limits: RateLimits,
): readonly Pace[] {
  const own: Pace = {
    id: `${deed} of ${guest}`,
    of: "guest",
    allowances: [
      { most: limits.guestPerMinute, spanMs: MINUTE_MS },
      { most: limits.guestPerHour, spanMs: HOUR_MS },
    ],
  };
  if (deed === "command") return [own];
  return [
    own,
    { id: `place ${place}`, of: "place", allowances: [{ most: limits.placePerMinute, spanMs: MINUTE_MS }] },
    { id: `account ${account}`, of: "account", allowances: [{ most: limits.accountPerMinute, spanMs: MINUTE_MS }] },
  ];
}

/** When one more may begin, or null for now. A clock that was set back holds nothing. */
export function heldUntil(begun: readonly number[], { most, spanMs }: Allowance, now: number): number | null {
  const within = begun.filter((at) => at > now - spanMs && at <= now);
  return within.length < most ? null : within[within.length - most]! + spanMs;
}

/** Nothing is kept for longer. */
export const LONGEST_SPAN_MS = HOUR_MS;
/** What is refused over and over is said once in such a time. */
export const TOLD_EVERY_MS = MINUTE_MS;
