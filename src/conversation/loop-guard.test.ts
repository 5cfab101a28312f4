import { describe, expect, test } from "vitest";
import { afterHuman, afterQuick, afterTurn, isProgram, mayAnswer, QUIET } from "./loop-guard.ts";

const MINUTE = 60_000;

describe("G5 the loop guard of a place", () => {
  test("six turns in a row are answered, the seventh is not; a human word begins anew", () => {
    let state = QUIET;
    for (let n = 0; n < 6; n++) {
      expect(mayAnswer(state, n)).toBe(true);
      state = afterTurn(state, n);
    }
    expect(mayAnswer(state, 6)).toBe(false);
    expect(mayAnswer(afterHuman(state), 6)).toBe(true);
  });

  test("twenty within five minutes are answered, whoever spoke in between; then the oldest has to be past", () => {
    let state = QUIET;
    for (let n = 0; n < 20; n++) state = afterHuman(afterTurn(state, n));
    expect(state.recent).toHaveLength(20);
    expect(mayAnswer(state, 5 * MINUTE - 1)).toBe(false);
    expect(mayAnswer(state, 5 * MINUTE)).toBe(true);
    expect(afterTurn(state, 99).recent).toHaveLength(20);
  });

  test("a clock that was set back holds nothing", () => {
    let state = QUIET;
    for (let n = 0; n < 20; n++) state = afterHuman(afterTurn(state, 1_000_000 + n));
    expect(mayAnswer(state, 999_999)).toBe(true);
  });

  test("a guest who answers within a second, six times in a row, counts as a program", () => {
    let state = QUIET;
    for (let n = 1; n <= 5; n++) {
      state = afterQuick(state, n);
      expect(mayAnswer(state, 0)).toBe(true);
      expect(isProgram(state)).toBe(false);
    }
    state = afterQuick(state, 6);
    expect(mayAnswer(state, 0)).toBe(false);
    state = afterQuick(state, 7);
    expect(isProgram(state)).toBe(true);
    expect(afterHuman(state).quick).toBe(0);
  });
});
