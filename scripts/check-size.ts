import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * The sizes in src/ without tests: no file over 450 lines but those listed here with a reason, and no class over 12 fields without a
 * comment `// Fields:` above it that says why. biome.jsonc holds functions to 60 lines. Prints every breach; exits 1 if there is one.
 */
const ROOT = "src";
const MOST_LINES = 450;
const MOST_FIELDS = 12;

/** An entry whose file has become small enough is a breach too. */
const LONG_FILES: Readonly<Record<string, string>> = {
  "channel/xmpp/xmpp-room.ts": "to be split",
  "config/config.ts": "to be split",
  "config/schema.ts": "a list: every setting, with its default and its description",
  "runtime/runtime-pool.ts": "the pool of agents is one state machine",
};

/** Classes with many fields and no word why yet: each is to be split, or to say why, and to leave this list. */
const WIDE_CLASSES: readonly string[] = ["GroupCommit", "TurnRun", "XmppConnection", "XmppRoom"];

const files = readdirSync(ROOT, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
  .toSorted();
const gone = Object.keys(LONG_FILES).filter((name) => !files.includes(name));
const breaches = [
  ...gone.map((name) => `scripts/check-size.ts: lists ${name}, which is not there`),
  ...files.flatMap((name) => breachesOf(name, readFileSync(join(ROOT, name), "utf8").trimEnd().split("\n"))),
];
for (const breach of breaches) console.error(breach);
if (breaches.length > 0) process.exitCode = 1;

function breachesOf(name: string, lines: readonly string[]): string[] {
  const path = join(ROOT, name);
  const isListed = Object.hasOwn(LONG_FILES, name);
  const isLong = lines.length > MOST_LINES;
  return [
    ...(isLong && !isListed ? [`${path}: ${lines.length} lines; at most ${MOST_LINES}`] : []),
    ...(isListed && !isLong ? [`scripts/check-size.ts: lists ${name}, which has only ${lines.length} lines`] : []),
    ...lines.flatMap((line, index) => {
      const [, className] = /^(?:export )?(?:abstract )?class (\w+)/.exec(line) ?? [];
      const fields = className === undefined ? 0 : fieldsAfter(lines, index);
      if (fields <= MOST_FIELDS || isExplained(lines, index) || WIDE_CLASSES.includes(className!)) return [];
      return [
        `${path}: class ${className} has ${fields} fields; over ${MOST_FIELDS} a comment \`// Fields:\` says why`,
      ];
    }),
  ];
}

function fieldsAfter(lines: readonly string[], index: number): number {
  const body = lines.slice(index + 1, lines.indexOf("}", index));
  return body.filter((line) => /^ {2}(?:(?:readonly|override|declare) )*#?\w+[?!]?(?:: | = |;)/.test(line)).length;
}

function isExplained(lines: readonly string[], index: number): boolean {
  const above = lines.slice(0, index);
  const begin = above.findLastIndex((line) => !/^(?:\/\/|\/\*\*| \*)/.test(line)) + 1;
  return above.slice(begin).some((line) => line.startsWith("// Fields:"));
}
