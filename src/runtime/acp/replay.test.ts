import { describe, expect, test } from "vitest";
import { ReplayFilter } from "./replay.ts";

/** The kind: what is known was cleaned and has lost its mark; what the agent tells again is as it said it, cut anywhere. */
describe("F-ACP-02 B10: a reply that was stored otherwise than it was said", () => {
  const told = (known: string, pieces: readonly string[]): string => {
    const filter = new ReplayFilter({ known: [known.replace(/\s+/g, "")], prompts: [], isExpected: true });
    return pieces.map((piece) => filter.text(piece)).join("") + filter.end();
  };

  test.each([
    ["with the agent's own mark", "the first answer", "[YOU] the first answer"],
    ["with its mark in full width", "the first answer", "［YOU］：the first answer"],
    ["with control characters", "a\uFFFDb and c", "a\0b\u001b and\u0007 c"],
    ["with half a character", "the first\uFFFD answer", "the first\ud83e answer"],
    ["with a whole one", "the 🦜 answer", "the 🦜 answer"],
  ])("F-ACP-02 G2 S6: %s", (_, known, said) => {
    expect(told(known, [said, "the new answer"])).toBe("the new answer");
    expect(told(known, [...said.split(""), "the new answer"])).toBe("the new answer");
  });

  test("F-ACP-02 B10: a new answer that begins in such a way is told whole", () => {
    for (const answer of ["[YOU] something else", "[docs](a) has it", "[", "a\0", "[YOU"])
      expect(told("the first answer", answer.split(""))).toBe(answer);
  });
});
