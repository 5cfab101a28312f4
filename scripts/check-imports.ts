import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/**
 * The import rules of src/. The rooms stand in the order of the road that a message takes; a file imports its own room or one before it.
 * A driver is a folder below a port's: only the composition and its lists import one, and drivers never import each other. There are no
 * cycles (types included), and one file reads the environment. Prints every breach; exits 1 if there is one.
 */
const ROOT = "src";

/** Each room has a rank of its own: two rooms never import each other. */
const ROAD: readonly RegExp[] = [
  /^errors\.ts$/,
  /^util\//,
  /^message\//,
  /^conversation\//,
  /^text\//,
  /^store\//,
  /^engine\//,
  /^digest\//,
  /^config\//,
  /^runtime\//,
  /^events\.ts$/,
  /^context\//,
  /^telemetry\//,
  /^turn\//,
  /^channel\//,
  /^reply\//,
  /^intake\//,
  /^gateway\/(?!start\.ts)/,
  /^http\//,
  /^gateway\/start\.ts$/,
  /^index\.ts$/,
  /^cli\//,
];

/** A folder below a port's; the port stands in the folder above. `runtime/wire` serves several drivers and is none. */
const DRIVER = /^(store\/sqlite|engine\/[a-z-]+|runtime\/(?!wire\/)[a-z-]+|channel\/[a-z-]+)\//;
const COMPOSITION = /^(?:gateway|cli)\//;

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
  const rank = ROAD.findIndex((room) => room.test(file));
  if (rank < 0) throw new Error(`${file} is in no room: name its folder in ROAD`);
  return rank;
}

function breachesOf(file: string): string[] {
  const isTest = file.endsWith(".test.ts");
  const found: string[] = [];
  const text = readFileSync(join(ROOT, file), "utf8");
  if (file !== "config/config.ts" && !isTest && /process\.env\b/.test(text))
    found.push(`${file}: reads the environment; only config/config.ts does`);
  if (isTest) return found;
  const own = DRIVER.exec(file)?.[1];
  for (const imported of imports.get(file)!) {
    if (rankOf(imported) > rankOf(file)) found.push(`${file}: imports ${imported}, which is further down the road`);
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
