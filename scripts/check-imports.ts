import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/**
 * The import rules of src/: imports point inwards (nouns ← ports ← stages and drivers ← gateway ← start, http ← cli), only the
 * composition imports drivers, drivers never import each other, there are no cycles (types included), and one file reads the
 * environment. Prints every breach; exits 1 if there is one.
 */
const ROOT = "src";

/** Drivers: a folder below a port's. Ports stand in the folder above. */
const DRIVER =
  /^(store\/sqlite|engine\/local|runtime\/(?:demo|acp|http|hermes)|channel\/(?:xmpp|telegram|discord|slack|weixin))\//;
/** Where parts are put together, and commands that are a part's own front. */
const COMPOSITION = /^(gateway|runtimes|start)\.ts$|^cli\//;

/** The first that matches; a file imports its own rank or a lower one. */
const RANKS: readonly (readonly [RegExp, number])[] = [
  [/^(util\/|errors\.ts)/, 0],
  [/^message\//, 1],
  [/^(conversation\/|turn\/turn\.ts|reply\/delivery\.ts)/, 2],
  [/^(store\/store|runtime\/runtime|channel\/channel|engine\/engine)\.ts$/, 3],
  [/^(config|config-[a-z]+|events|owner-token)\.ts$/, 4],
  [/^(store|runtime|channel|engine|context|turn|reply|bridge|digest|telemetry)\//, 5],
  [/^(gateway|runtimes|judge)\.ts$/, 6],
  [/^http\//, 7],
  [/^(start|index)\.ts$/, 8],
  [/^cli\//, 9],
];

const files = readdirSync(ROOT, { recursive: true, encoding: "utf8" })
  .map((name) => name.replaceAll("\\", "/"))
  .filter((name) => name.endsWith(".ts"));
const imports = new Map(files.map((file) => [file, importsOf(file)]));
const breaches = [...files.flatMap(breachesOf), ...cycles()];
for (const breach of breaches) console.error(breach);
if (breaches.length > 0) process.exitCode = 1;

function importsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  const found = text.matchAll(/(?:^|\n)\s*(?:import|export)[^"';]*?from\s+"(\.[^"]+)"|import\("(\.[^"]+)"\)/g);
  return [...found].map((match) => relative(ROOT, join(ROOT, dirname(file), match[1] ?? match[2]!)));
}

function rankOf(file: string): number {
  const rank = RANKS.find(([pattern]) => pattern.test(file))?.[1];
  if (rank === undefined) throw new Error(`${file} has no place: name it in RANKS`);
  return rank;
}

function breachesOf(file: string): string[] {
  const isTest = file.endsWith(".test.ts");
  const found: string[] = [];
  const text = readFileSync(join(ROOT, file), "utf8");
  if (file !== "config.ts" && !isTest && /process\.env\b/.test(text))
    found.push(`${file}: reads the environment; only config.ts does`);
  if (isTest) return found;
  const own = DRIVER.exec(file)?.[1];
  for (const imported of imports.get(file)!) {
    if (rankOf(imported) > rankOf(file)) found.push(`${file}: imports ${imported}, which is further out`);
    const driver = DRIVER.exec(imported)?.[1];
    if (driver !== undefined && driver !== own && !COMPOSITION.test(file))
      found.push(`${file}: imports the driver ${imported}; only the composition does`);
  }
  return found;
}

function cycles(): string[] {
  const done = new Set<string>();
  const found: string[] = [];
  const walk = (file: string, path: readonly string[]): void => {
    const at = path.indexOf(file);
    if (at >= 0) {
      found.push(`cycle: ${[...path.slice(at), file].join(" → ")}`);
      return;
    }
    if (done.has(file)) return;
    for (const next of imports.get(file) ?? []) walk(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) walk(file, []);
  return found;
}
