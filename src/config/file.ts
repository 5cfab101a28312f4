/** The file, the `.env` beside it, and where they stand. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { resolve } from "node:path";
import type * as Yaml from "yaml";
import { TertuliaError } from "../errors.ts";
import { isRecord } from "../util/is-record.ts";
import { type Environment, given } from "./data.ts";
import { SECTIONS, type Written } from "./schema.ts";
import { yamlFaults } from "./yaml.ts";

export interface Problem {
  readonly path: string;
  readonly line: string;
}

export interface ConfigFile {
  readonly path: string;
  readonly settings: Record<string, unknown> & Written;
  /** By key path: `config.yaml:12`, or the flag or variable that has replaced it. */
  readonly places: Map<string, string>;
  readonly variables: ReadonlyMap<string, { readonly written: string; readonly isWhole: boolean }>;
  readonly problems: readonly Problem[];
  /** No YAML: there is nothing to check. */
  readonly isBroken: boolean;
}

export function emptyFile(path: string): ConfigFile {
  return { path, settings: {}, places: new Map(), variables: new Map(), problems: [], isBroken: false };
}

export function readFile({
  path: file,
  text,
  variables: known,
}: {
  path: string;
  text: string;
  variables: Environment;
}): ConfigFile {
  // On demand: it costs the start as much as everything else here, and most homes have no file.
  const yaml = createRequire(import.meta.url)("yaml") as typeof Yaml;
  const counter = new yaml.LineCounter();
  const document = yaml.parseDocument(text, {
    lineCounter: counter,
    prettyErrors: false,
    logLevel: "error",
    uniqueKeys: false,
  });
  const placeAt = (node: { range?: Yaml.Range | null | undefined }) =>
    `${file}:${counter.linePos(node.range?.[0] ?? 0).line}`;

  const lineOf = (place: string): string => place.slice(place.lastIndexOf(":") + 1);
  const places = new Map<string, string>();
  const variables = new Map<string, { written: string; isWhole: boolean }>();
  const problems: Problem[] = [];
  const faults = yamlFaults(text, [...document.errors, ...document.warnings], (at) => counter.linePos(at).line);
  if (faults.size > 0) {
    for (const [line, sentence] of faults) problems.push({ path: "", line: `${file}:${line}: ${sentence}` });
    return { ...emptyFile(file), problems, isBroken: true };
  }

  const object = (path: readonly string[], place: string, sentence: string) => {
    problems.push({ path: path.join("."), line: `${place}: ${path.join(".")}: ${sentence}` });
  };
  const readNode = (node: unknown, path: readonly string[], place: string): unknown => {
    places.set(path.join("."), place);
    if (path.length > DEEPEST) return object(path, place, "is nested too deep");
    if (yaml.isAlias(node)) {
      const named = node.resolve(document);
      if (named !== undefined) return readNode(named, path, place);
      return object(path, place, "names nothing that stands before it; a value that begins with * wants quotes");
    }
    if (yaml.isSeq(node)) {
      return node.items.map((item, n) =>
        readNode(item, [...path, String(n)], yaml.isNode(item) ? placeAt(item) : place),
      );
    }
    if (yaml.isMap(node)) return readMap(node, path, place);
    if (!yaml.isScalar(node) || typeof node.value !== "string") return yaml.isScalar(node) ? node.value : null;

    const filled = fill(node.value, known);
    if (filled.missing.length > 0) object(path, place, filled.missing.join("; "));
    if (filled.isFilled) {
      const isWhole = /^\$\{[^}]*\}$/.test(node.value);
      variables.set(path.join("."), { written: node.value, isWhole });
    }
    return filled.text;
  };
  const readMap = (node: Yaml.YAMLMap, path: readonly string[], place: string): Record<string, unknown> => {
    const map: Record<string, unknown> = {};
    for (const { key, value } of node.items) {
      const name = yaml.isScalar(key) ? String(key.value) : "";
      const at = yaml.isNode(key) ? placeAt(key) : place;
      if (name === "" || name === "__proto__") object([...path, name], at, "is no name for a key");
      else if (Object.hasOwn(map, name))
        object(
          [...path, name],
          at,
          `stands twice, first in line ${lineOf(places.get([...path, name].join(".")) ?? "")}; keep one`,
        );
      else map[name] = readNode(value, [...path, name], at);
    }
    return map;
  };

  const settings = (document.contents === null ? null : readNode(document.contents, [], `${file}:1`)) ?? {};
  dropEmptySections(settings);
  return { path: file, settings: settings as ConfigFile["settings"], places, variables, problems, isBroken: false };
}

/** Deeper than any key there is; an alias that contains itself ends here. */
const DEEPEST = 12;

/** A section whose keys are all commented out, as in the template, says nothing. */
function dropEmptySections(settings: unknown): void {
  if (!isRecord(settings)) return;
  for (const [key, value] of Object.entries(settings)) {
    const isSection = Object.hasOwn(SECTIONS.shape, key) && !["timezone", "default_agent", "welcome"].includes(key);
    if (value === null && isSection) delete settings[key];
  }
}

/** Puts variables in; `$${` stands for a plain `${`. */
function fill(text: string, known: Environment): { text: string; isFilled: boolean; missing: readonly string[] } {
  const missing: string[] = [];
  let isFilled = false;
  const filled = text.replace(/\$?\$\{([^}]*)\}?/g, (whole, name: string) => {
    if (whole.startsWith("$$")) return whole.slice(1);
    isFilled = true;
    const value = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!/^[A-Za-z_]\w*$/.test(name) || !whole.endsWith("}")) {
      missing.push("after $ and { the name of a variable and } must follow; write $${ for a plain $ and {");
    } else if (value === undefined) {
      missing.push(`the variable ${name} is not set, neither in the environment nor in .env`);
    }
    return value ?? standIn(name);
  });
  return { text: filled, isFilled, missing };
}

/** For a variable that is not set: the start is refused, and what else is wrong is still found. Has the form that most values may have. */
function standIn(name: string): string {
  return `variable-that-is-not-set-${name}`;
}

/** Decide where the file is looked for, so they cannot stand in it. */
const OUTSIDE_DOT_ENV = ["TERTULIA_HOME", "TERTULIA_CONFIG"];

export function readDotEnv(
  path: string,
  env: Environment,
): { values: Record<string, string>; problems: readonly string[] } {
  const values: Record<string, string> = {};
  const problems: string[] = [];
  for (const [index, line] of (readOptional(path) ?? "")
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .entries()) {
    const place = `${path}:${index + 1}`;
    if (/^\s*(#|$)/.test(line)) continue;
    const [, name, rest] = /^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)$/.exec(line) ?? [];
    const value = rest === undefined ? undefined : dotEnvValue(rest);
    if (name === undefined || value === undefined) {
      problems.push(`${place}: not understood; allowed: KEY=VALUE, KEY="VALUE" or KEY='VALUE' in one line`);
    } else if (OUTSIDE_DOT_ENV.includes(name) && env[name] === undefined) {
      problems.push(`${place}: ${name} decides which .env is read; set it in the environment`);
    } else {
      values[name] = value;
    }
  }
  return { values, problems };
}

/** A `#` begins a comment only after a space: a secret may contain one. */
function dotEnvValue(text: string): string | undefined {
  const quote = text[0];
  if (quote !== '"' && quote !== "'") return text.replace(/(^|\s)#.*$/, "").trim();
  const body = quote === '"' ? /^"((?:[^"\\]|\\.)*)"\s*(?:#.*)?$/ : /^'([^']*)'\s*(?:#.*)?$/;
  const inside = body.exec(text)?.[1];
  if (quote === "'") return inside;
  return inside?.replace(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
}

/** Absolute; `~` also where no shell has replaced it. An empty environment variable counts as absent, an empty flag is a slip. */
export function locate(
  name: string,
  flag: string | undefined,
  variable: string | undefined,
  env: Environment,
): string | undefined {
  if (flag === "") throw invalid([`${name}: "" is not allowed; allowed: a path`]);
  const path = flag ?? given(variable);
  return path === undefined ? undefined : resolve(path.replace(/^~(?=\/|$)/, () => homeOf(env)));
}

export function homeOf(env: Environment): string {
  return given(env.HOME) ?? homedir();
}

export function readOptional(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw invalid([`${path}: it cannot be read (${code})`], cause);
  }
}

export function invalid(problems: readonly string[], cause?: unknown): TertuliaError {
  const [only, ...more] = problems;
  const sentence = more.length === 0 ? `${only}` : `The configuration has ${problems.length} problems.`;
  return new TertuliaError("config_invalid", more.length === 0 ? sentence : [sentence, ...problems].join("\n"), {
    cause,
  });
}
