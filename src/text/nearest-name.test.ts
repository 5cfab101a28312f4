import { expect, test } from "vitest";
import { byNearness, nearest } from "./nearest-name.ts";

test.each([
  ["prot", ["host", "port"], "port"],
  ["Idle_Minuts", ["idle_minutes"], "idle_minutes"],
  ["zzz", ["port"], undefined],
  ["", ["a"], undefined],
])("the nearest of %j in %j is %s", (word, known, near) => {
  expect(nearest(word, known)).toBe(near);
});

test("the nearest names are the most alike", () => {
  expect(byNearness("gpt-4o", ["claude", "gpt-4o-mini", "gpt-4o-mini", "o3", "gpt-4.1"]).slice(0, 3)).toEqual([
    "gpt-4o-mini",
    "gpt-4.1",
    "o3",
  ]);
});
