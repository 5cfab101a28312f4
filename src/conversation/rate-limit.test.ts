import { describe, expect, test } from "vitest";
import { heldUntil, pacesOf } from "./rate-limit.ts";

describe("A10 how often guests may begin turns", () => {
  const limits = { guestPerMinute: 2, guestPerHour: 5, placePerMinute: 3, accountPerMinute: 4 };
  const at = { guest: "ann", place: 7, account: "nova@e.org" };

  test("a turn counts for the guest, the place and the account; a command for the guest alone, and apart", () => {
    expect(pacesOf("turn", at, limits).map(({ id, of, allowances }) => [id, of, allowances])).toEqual([
      [
        "turn of ann",
        "guest",
        [
          { most: 2, spanMs: 60_000 },
          { most: 5, spanMs: 3_600_000 },
        ],
      ],
      ["place 7", "place", [{ most: 3, spanMs: 60_000 }]],
      ["account nova@e.org", "account", [{ most: 4, spanMs: 60_000 }]],
    ]);
    expect(pacesOf("command", at, limits).map(({ id }) => id)).toEqual(["command of ann"]);
  });

  test.each([
    ["nothing was begun", [], null],
    ["one less than the limit", [1_000], null],
    ["the limit", [1_000, 2_000], 61_000],
    ["more than the limit", [1_000, 2_000, 3_000], 62_000],
    ["one has just left the span", [-50_000, 2_000], null],
    ["a clock that was set back", [20_000, 30_000], null],
    ["this very moment", [10_000, 10_000], 70_000],
  ])("%s", (_, begun, until) => {
    expect(heldUntil(begun, { most: 2, spanMs: 60_000 }, 10_000)).toBe(until);
  });
});
