import { EventEmitter } from "node:events";
import type { ReadStream, WriteStream } from "node:tty";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createManualClock } from "../../../test/support/manual-clock.ts";
import { Keyboard } from "./keyboard.ts";

/** What the pieces come to that a terminal sends, one after the other with as many ms between them. */
async function heard(pieces: readonly (string | Buffer)[], betweenMs = 0): Promise<string[]> {
  const clock = createManualClock();
  const told: string[] = [];
  const tell = (kind: string, text: string): void => {
    const last = told.at(-1);
    if (kind === "keys" && last?.startsWith("keys ")) told[told.length - 1] = last + text;
    else told.push(`${kind} ${text}`.trim());
  };
  const input = Object.assign(new EventEmitter(), { setRawMode: () => input, pause: () => input });
  const keyboard = new Keyboard({
    input: input as unknown as ReadStream,
    output: { write: () => true } as unknown as WriteStream,
    clock,
    onPaste: (text) => tell("paste", text),
    onNewLine: () => tell("newline", ""),
    onKeys: () => undefined,
  });
  keyboard.on("data", (bytes: Buffer) => tell("keys", JSON.stringify(bytes.toString()).slice(1, -1)));
  for (const piece of pieces) {
    input.emit("data", Buffer.from(piece));
    await clock.advance(betweenMs);
  }
  await clock.advance(2_000);
  expect(clock.pending).toBe(0);
  keyboard.close();
  return told;
}

const paste = (text: string): string => `\u001b[200~${text}\u001b[201~`;

test.each([
  ["keys one by one", ["h", "i", "\r"], ["keys hi\\r"]],
  ["a line at once, as programs type it", ["hi\r"], ["keys hi\\r"]],
  ["a line at once, with the other line end", ["hi\n"], ["keys hi\\r"]],
  ["Enter, and what is typed right after it", ["a", "\rb"], ["keys a\\rb"]],
  ["keys among lines", ["a\r\u0004", "\u001b[A\r\u001b[A\r"], ["keys a\\r\\u0004\\u001b[A\\r\\u001b[A\\r"]],
  [
    "Alt-Enter, Ctrl-J",
    ["a", "\u001b\r", "b", "\n", "\u001b\n"],
    ["keys a", "newline", "keys b", "newline", "newline"],
  ],
  ["a paste in brackets", ["a", paste("1\r2\r\n3\n"), "b"], ["keys a", "paste 1\n2\n3", "keys b"]],
  ["a paste with keys in it", [paste("a\u001b[2Jb\u0003c")], ["paste a[2Jbc"]],
  [
    "two pastes and a key in one piece",
    [`${paste("1")}x${paste("2\n")}\r`],
    ["paste 1", "keys x", "paste 2", "keys \\r"],
  ],
  [
    "F-TTY-02 lines with a form feed, a bell, a zero byte",
    ["a\f\r\u0007/new\r1\0\r"],
    ["paste a\n/new\n1\ufffd", "keys \\r"],
  ],
  ["F-TTY-02 lines in colours", ["\u001b[1;31ma\u001b[0m\r/new\r"], ["paste [1;31ma[0m\n/new", "keys \\r"]],
  ["F-TTY-02 lines that end as Unicode ends them", ["a\u2028/new\r"], ["paste a\u2028/new", "keys \\r"]],
  ["several lines together", ["1\r2\r\r3"], ["paste 1\n2\n\n3"]],
  ["several lines together with the last end", ["1\r2\r"], ["paste 1\n2", "keys \\r"]],
  ["lines that come in pieces", ["one\r", "two\r", "three"], ["paste one\ntwo\nthree"]],
  ["nothing", [paste("\n\n")], []],
])("F-TTY-01 F-TTY-02 S7: %s", async (_, pieces, told) => {
  expect(await heard(pieces)).toEqual(told);
});

test("F-TTY-01 a line that comes a moment later is a line of its own", async () => {
  expect(await heard(["one\r", "two\r"], 10)).toEqual(["keys one\\rtwo\\r"]);
});

test("F-TTY-01 a paste whose end is lost holds nothing up", async () => {
  expect(await heard(["\u001b[200~1\r2", "a"], 1_500)).toEqual(["paste 1\n2", "keys a"]);
});

test("F-TTY-01 however a paste is cut into pieces, it is the same text", async () => {
  const whole = Buffer.from(`a${paste("漢字\r/new\r👩‍👩‍👧\r1")}\r`);
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: whole.length - 1 })), async (cuts) => {
      const at = [0, ...cuts.sort((one, other) => one - other), whole.length];
      const pieces = at.slice(1).map((end, index) => whole.subarray(at[index], end));
      expect(await heard(pieces)).toEqual(["keys a", "paste 漢字\n/new\n👩‍👩‍👧\n1", "keys \\r"]);
    }),
    { numRuns: 200 },
  );
});
