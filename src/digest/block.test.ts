import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addBlock, DIGEST_MARKERS, fillBlock, findBlock, removeBlock } from "./block.ts";

const { begin, end } = DIGEST_MARKERS;
/** As the script of the origin makes it. */
const FOREIGN = `${begin} — 由 sync-digest.py 自动生成，勿手改 -->\n_（等待首次同步）_\n${end} -->\n`;

function filled(text: string, content: string): string {
  const bytes = Buffer.from(text);
  const found = findBlock(bytes, DIGEST_MARKERS);
  if (found.kind !== "block") throw new Error(found.kind);
  return fillBlock(bytes, found, content).toString();
}

test("D7: a block that another program made is taken over, its marker lines as they are", () => {
  expect(filled(`# Mine\n\n${FOREIGN}after`, "new\nlines")).toBe(
    `# Mine\n\n${begin} — 由 sync-digest.py 自动生成，勿手改 -->\nnew\nlines\n${end} -->\nafter`,
  );
});

test.each([
  ["the end marker is missing", `${begin} -->\nx\n`],
  ["the begin marker is missing", `x\n${end} -->\n`],
  ["there are several begin markers", `${begin} -->\n${begin} -->\n${end} -->`],
  ["there are several end markers", `${begin} -->\n${end} -->\n${end} -->`],
  ["the end marker stands before the begin marker", `${end} -->\n${begin} -->\n`],
  ["both markers stand on one line", `${begin} --> ${end} -->`],
  ["the comment of the begin marker is not closed on its line", `${begin}\n-->\n${end} -->`],
  ["the comment of the end marker is not closed on its line", `${begin} -->\n${end}\n-->`],
])("D7: damaged markers: %s", (why, text) => {
  expect(findBlock(Buffer.from(text), DIGEST_MARKERS)).toEqual({ kind: "damaged", why });
});

/** Bytes of any kind, with whole and broken markers among them. */
const anyFile = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes)) },
      {
        weight: 4,
        arbitrary: fc
          .constantFrom(
            `${begin} x -->\n`,
            `${end} -->\n`,
            `\n${begin} x -->\n`,
            `\n${end} -->\n`,
            begin,
            end,
            "-->",
            "\n",
            "\r\n",
            "<!-- ",
            "CROSS-PLATFORM",
            "text\n",
          )
          .map((text) => Buffer.from(text)),
      },
    ),
    { maxLength: 12 },
  )
  .map((parts) => Buffer.concat(parts));
const anyContent = fc
  .string({ unit: "binary", maxLength: 60 })
  .map((text) => text.toWellFormed().replaceAll("<!--", "").replaceAll("\r", ""));

test("D7: for any file and any damage no byte outside the markers changes", () => {
  let blocks = 0;
  fc.assert(
    fc.property(anyFile, anyContent, (bytes, content) => {
      const found = findBlock(bytes, DIGEST_MARKERS);
      if (found.kind !== "block") return;
      blocks++;
      const after = fillBlock(bytes, found, content);
      expect(after.subarray(0, found.from).equals(bytes.subarray(0, found.from))).toBe(true);
      const tail = bytes.subarray(found.to);
      expect(after.subarray(after.length - tail.length).equals(tail)).toBe(true);
      expect(bytes.subarray(found.lineFrom).toString("latin1").startsWith(begin)).toBe(true);
      expect(tail.toString("latin1").startsWith(end)).toBe(true);
      // Found again, and nothing to do the second time.
      const again = findBlock(after, DIGEST_MARKERS);
      expect(again.kind).toBe("block");
      if (again.kind === "block") expect(fillBlock(after, again, content)).toBe(after);
    }),
    { numRuns: 3_000 },
  );
  expect(blocks).toBeGreaterThan(20);
});

test("D7: taking a block away leaves what was there before it was added, to the byte", () => {
  fc.assert(
    fc.property(anyFile, anyContent, (bytes, content) => {
      if (findBlock(bytes, DIGEST_MARKERS).kind !== "absent") return;
      const added = addBlock(bytes, DIGEST_MARKERS, { label: "ours", content });
      const found = findBlock(added, DIGEST_MARKERS);
      // A file that ends in half a marker's comment is the only one in which the block cannot be found.
      if (found.kind !== "block") return;
      expect(removeBlock(added, found).equals(bytes)).toBe(true);
    }),
    { numRuns: 1_000 },
  );
});

test("D7: text written behind the block by hand does not run into the text before it", () => {
  const added = addBlock(Buffer.from("before"), DIGEST_MARKERS, { label: "ours", content: "x" });
  const edited = Buffer.concat([added, Buffer.from("after")]);
  const found = findBlock(edited, DIGEST_MARKERS);
  if (found.kind !== "block") throw new Error(found.kind);
  expect(removeBlock(edited, found).toString()).toBe("before\nafter");
});

// The kind: every text that has the letters of a marker and is none, and every way in which a real marker can be dressed.
describe("F-DIG-01 D7: a marker is a whole line outside of fences and quotations", () => {
  const block = `${begin} -->\nold\n${end} -->\n`;

  test("F-DIG-01 D7: HTML that is closed again, and a comment that is open, before and in a block", () => {
    expect(findBlock(Buffer.from(`<pre>x</pre>\n<!-- a\nb -->\n<details>\n\n${block}`), DIGEST_MARKERS).kind).toBe(
      "block",
    );
    expect(filled(`${begin} -->\n<pre>\n<!-- cut\n${end} -->\nmine`, "new")).toBe(
      `${begin} -->\nnew\n${end} -->\nmine`,
    );
    expect(findBlock(Buffer.from(`<!-- as it looks:\n${block}`), DIGEST_MARKERS).kind).toBe("damaged");
  });

  test.each([
    ["in prose", `write \`${begin} -->\` and \`${end} -->\`\n`],
    ["in the middle of a line", `see ${begin} -->\nmine\nsee ${end} -->\n`],
    ["in HTML that stands as it is", `<pre>\n${block}</pre>\n`],
    ["in code as HTML", `text\n\n  <PRE class="x"><code>\n\n${block}</code></PRE>\n`],
    ["in a text field", `<textarea>\n${block}</textarea>\n`],
    ["in a fence", `\`\`\`md\n${block}\`\`\`\n`],
    ["in a fence of tildes, with backticks in it", `~~~\n\`\`\`\n${block}~~~\n`],
    ["in a longer fence, with a shorter one in it", `\`\`\`\`\n\`\`\`\n${block}\`\`\`\`\n`],
    ["in a fence that is never closed", `\`\`\`\n${block}`],
    ["in a quotation", `> ${begin} -->\n> mine\n> ${end} -->\n`],
    ["indented as code", `    ${begin} -->\n    mine\n    ${end} -->\n`],
    ["in a list", `- ${begin} -->\n- ${end} -->\n`],
    ["another word", "<!-- CROSS-PLATFORM:BEGINNER -->\nmine\n<!-- CROSS-PLATFORM:ENDING -->\n"],
    ["a longer name", "<!-- CROSS-PLATFORM:BEGIN-2 -->\nmine\n<!-- CROSS-PLATFORM:END_2 -->\n"],
    ["in small letters", "<!-- cross-platform:begin -->\nmine\n<!-- cross-platform:end -->\n"],
  ])("no marker: %s", (_, text) => {
    for (const lines of [text, text.replaceAll("\n", "\r\n")])
      expect(findBlock(Buffer.from(lines), DIGEST_MARKERS).kind).toBe("absent");
  });

  test.each([
    ["backticks", `${begin} -->\nmine\n\`\`\`\n${end} -->\n\`\`\`\n`],
    ["tildes, with a fence left open before", `${begin} -->\n~~~~\n${end} -->\n~~~~~\n\`\`\`\n`],
  ])(
    "F-DIG-01 an end marker that only stands in a fence of %s closes no block: what is between is nobody's to delete",
    (_, text) => {
      for (const lines of [text, text.replaceAll("\n", "\r\n")])
        expect(findBlock(Buffer.from(lines), DIGEST_MARKERS)).toEqual({
          kind: "damaged",
          why: "the end marker is missing",
        });
    },
  );

  test.each([
    ["behind a fence in a list", `- \`\`\`sh\n  ${begin} -->\n  \`\`\`\n1. > ~~~\n${block}`],
    ["around a fence with a marker in it", `${begin} -->\n~~~\n${end} -->\n~~~\n${end} -->\n`],
    ["behind a closed fence", `\`\`\`\n${block}\`\`\`\n${block}`],
    ["beside a quotation of itself", `> ${begin} -->\n> ${end} -->\n\n${block}\nsee \`${end} -->\`\n`],
    ["after a byte order mark", `\ufeff${block}`],
    ["with blanks at its end", block.replaceAll("-->", "-->  \t")],
    ["with the line ends of Windows", block.replaceAll("\n", "\r\n")],
    ["with words in it", `${begin} — 由 x 自动生成 -->\nold\n${end} 完 -->\n`],
    ["without a blank", `${begin}-->\nold\n${end}-->`],
    ["around a fence that was left open", `${begin} -->\n\`\`\`\n${end} -->\n`],
  ])("a marker: %s", (_, text) => {
    const bytes = Buffer.from(text);
    const found = findBlock(bytes, DIGEST_MARKERS);
    if (found.kind !== "block") throw new Error(JSON.stringify(found));
    const after = fillBlock(bytes, found, "new");
    expect(after.subarray(0, found.from).equals(bytes.subarray(0, found.from))).toBe(true);
    expect(findBlock(after, DIGEST_MARKERS).kind).toBe("block");
  });

  test("a marker line with words behind its comment is damaged, not taken", () => {
    const text = `${begin} --> and so on\nmine\n${end} -->\n`;
    expect(findBlock(Buffer.from(text), DIGEST_MARKERS)).toMatchObject({ kind: "damaged" });
  });
});
