import fc from "fast-check";
import { expect, test } from "vitest";
import { columnAfter } from "./screen.ts";

test("the column after a text: rows fill up before they wrap, wide characters never stand across the edge", () => {
  expect(columnAfter(0, "abc", 10)).toBe(3);
  expect(columnAfter(7, "abc", 10)).toBe(10);
  expect(columnAfter(10, "d", 10)).toBe(1);
  expect(columnAfter(9, "漢", 10)).toBe(2);
  expect(columnAfter(8, "漢", 10)).toBe(10);
  expect(columnAfter(3, "ab\ncd", 10)).toBe(2);
  expect(columnAfter(3, "\t", 10)).toBe(8);
  expect(columnAfter(8, "\t", 10)).toBe(9);
  expect(columnAfter(0, "e\u0301👩‍👩‍👧", 10)).toBe(3);
});

test("the column does not depend on how a text was cut into pieces", () => {
  const characters = fc.constantFrom("a", "漢", " ", "\n", "é", "\t");
  fc.assert(
    fc.property(fc.array(characters), fc.array(characters), fc.integer({ min: 4, max: 30 }), (head, tail, columns) => {
      const [first, second] = [head.join(""), tail.join("")];
      expect(columnAfter(columnAfter(0, first, columns), second, columns)).toBe(
        columnAfter(0, first + second, columns),
      );
    }),
  );
});
