/** Checking what is written, and saying what is wrong with it: place, key, value, and what is allowed (E2). */

import type { z } from "zod";
import type { BusyMode } from "../conversation/queue-decision.ts";
import { parseSessionKey } from "../conversation/session-key.ts";
import { accountId, isLocalDoor, type Platform } from "../message/source.ts";
import { nearest } from "../text/nearest-name.ts";
import { isRecord } from "../util/is-record.ts";
import { numeral, valueAt } from "./data.ts";
import type { ConfigFile, Problem } from "./file.ts";
import { keyHint, kindHint } from "./hint.ts";
import { type Objection, unmetIds } from "./ids.ts";
import { RESET_MODES, SCHEMA, type Settings, type Written } from "./schema.ts";

// ---- what a schema of single keys cannot see

function* objectionsTo(settings: Settings, written: Written): Generator<Objection> {
  const agents = Object.keys(settings.agents);
  const ofAgent = `a conversation of ${agents.join(", ")}`;
  if (agents.length === 0) yield { path: ["agents"], allowed: "at least one agent" };
  if (settings.defaultAgent !== undefined && !agents.includes(settings.defaultAgent)) {
    yield { path: ["default_agent"], allowed: agents.join(", ") };
  }
  if ((settings.people.owner?.role ?? "owner") !== "owner") {
    yield { path: ["people", "owner", "role"], allowed: "owner, for the person `owner`" };
  }
  yield* repeatedTokens(settings);
  yield* repeatedAccounts(settings);
  yield* unknownHomeRooms(settings);
  yield* unmetIds(settings);

  for (const [name, { conversation }] of Object.entries(settings.rooms)) {
    if (conversation !== undefined && !agents.includes(parseSessionKey(conversation).agent)) {
      yield { path: ["rooms", name, "conversation"], allowed: ofAgent };
    }
  }
  for (const path of [["reset", "chats"], ["chats"]]) {
    for (const key of Object.keys(valueAt(settings, path) ?? {})) {
      if (!agents.includes(parseSessionKey(key).agent)) yield { path: [...path, key], allowed: ofAgent };
    }
  }

  yield* unknownRuntimes(settings);
  yield* idleHttpModes(settings);
  for (const [platform, { home }] of Object.entries(settings.platforms)) {
    if (home !== undefined && isLocalDoor(platform as Platform)) {
      yield {
        path: ["platforms", platform, "home"],
        allowed: "nothing: a home channel is on a platform that can be written to",
      };
    }
  }
  const { default: fallback, job_hold_hours: _, ...layers } = written.reset ?? {};
  if (lacksMode(fallback)) yield { path: ["reset", "default", "mode"], allowed: MODE_OF_ITS_OWN };
  for (const [layer, policies] of Object.entries(layers)) {
    for (const [name, policy] of Object.entries(policies ?? {})) {
      if (lacksMode(policy)) yield { path: ["reset", layer, name, "mode"], allowed: MODE_OF_ITS_OWN };
    }
  }
}

function* repeatedTokens({ people, metrics }: Pick<Settings, "people" | "metrics">): Generator<Objection> {
  const known = new Set(metrics.token === undefined ? [] : [metrics.token]);
  for (const [id, { tokens }] of Object.entries(people)) {
    for (const [n, token] of tokens.entries()) {
      if (known.has(token)) yield { path: ["people", id, "tokens", String(n)], allowed: "a token given only once" };
      known.add(token);
    }
  }
}

/** Every name of a runtime that is used must be one that is described; `demo` always is. */
function* unknownRuntimes({ runtimes, agents, platforms, chats }: Settings): Generator<Objection> {
  const known = [...new Set(["demo", ...Object.keys(runtimes)])];
  for (const [name, { runtime }] of Object.entries(agents)) {
    if (runtime.kind === "named" && !known.includes(runtime.name))
      yield { path: ["agents", name, "runtime"], allowed: `${known.join(", ")}, or a runtime described in place` };
  }
  for (const [layer, named] of [["platforms", platforms] as const, ["chats", chats] as const]) {
    for (const [name, { runtime }] of Object.entries(named)) {
      if (runtime !== undefined && !known.includes(runtime))
        yield { path: [layer, name, "runtime"], allowed: known.join(", ") };
    }
  }
}

/** One account has one consumer, and one person. */
function* repeatedAccounts({ agents, people }: Settings): Generator<Objection> {
  const known = new Set<string>();
  const isNew = (platform: Platform, id: string): boolean => {
    const before = known.size;
    return known.add(`${platform} ${accountId(platform, id)}`).size > before;
  };
  for (const [name, { accounts }] of Object.entries(agents)) {
    for (const [n, { platform, jid }] of accounts.entries()) {
      if (!isNew(platform, jid)) yield { path: ["agents", name, "accounts", String(n), "jid"], allowed: ONLY_ONCE };
    }
  }
  for (const [id, { accounts }] of Object.entries(people)) {
    for (const [n, account] of accounts.entries()) {
      if (!isNew(account.platform, account.id))
        yield { path: ["people", id, "accounts", String(n), "id"], allowed: ONLY_ONCE };
    }
  }
}

const ONLY_ONCE = "an account given only once, to one agent or one person";

function* unknownHomeRooms({ agents, rooms }: Settings): Generator<Objection> {
  for (const [name, { homeRoom, accounts }] of Object.entries(agents)) {
    if (homeRoom === undefined) continue;
    const known = [...Object.keys(rooms), ...accounts.flatMap(({ rooms }) => rooms.map(({ jid }) => jid))];
    if (!known.includes(homeRoom)) {
      yield {
        path: ["agents", name, "home_room"],
        allowed:
          known.length === 0 ? "a room under `rooms:` or of one of its accounts; there is none" : known.join(", "),
      };
    }
  }
}

/** T5: over HTTP every message has a turn of its own; another mode would have no effect. */
function* idleHttpModes({ platforms, chats }: Settings): Generator<Objection> {
  const allowed = "queue, always so for HTTP";
  const isIdle = (mode: BusyMode | undefined) => mode !== undefined && mode !== "queue";
  if (isIdle(platforms.http?.busyMode)) yield { path: ["platforms", "http", "busy_mode"], allowed };
  for (const [key, { busyMode }] of Object.entries(chats)) {
    const parts = parseSessionKey(key);
    const isHttp = parts.form === "chat" && parts.platform === "http";
    if (isHttp && isIdle(busyMode)) yield { path: ["chats", key, "busy_mode"], allowed };
  }
}

const MODE_OF_ITS_OWN = `${RESET_MODES.join(", ")}; a policy is whole, and without a mode its limits would have no effect`;

function lacksMode(policy: object | undefined): boolean {
  return policy !== undefined && Object.keys(policy).length > 0 && !("mode" in policy);
}

// ---- checking and complaining

interface Checked {
  /** With problems: what is left without the values that are wrong, so that further ones are found. */
  readonly settings: Settings;
  /** Paths of the values that were left out. */
  readonly leftOut: readonly string[];
  readonly problems: readonly Problem[];
}

export function check(file: ConfigFile): Checked {
  let result = SCHEMA.safeParse(file.settings, { jitless: true });
  if (!result.success && typeVariables(file, result.error.issues)) {
    result = SCHEMA.safeParse(file.settings, { jitless: true });
  }
  const { settings, written, leftOut } = result.success
    ? { settings: result.data, written: file.settings, leftOut: [] }
    : withoutWrong(file.settings, result.error.issues);
  // Names that others refer to stand there: without the whole of them nothing can be said of the references.
  const isGuesswork = leftOut.some((path) => ["", "agents", "runtimes", "rooms"].includes(path));
  const objections = isGuesswork ? [] : [...objectionsTo(settings, written)];
  const found = [
    ...(result.success ? [] : result.error.issues.flatMap((issue) => complaintsOf(file, issue))),
    ...objections
      .filter(({ path }) => !leftOut.some((out) => isAbout(path, out)))
      .map(({ path, allowed }) => refusal(file, path, allowed)),
  ];
  const known = new Set(file.problems.map((problem) => problem.path));
  return { settings, leftOut, problems: [...file.problems, ...found.filter(({ path }) => !known.has(path))] };
}

/** Whether what was left out is what is objected to, or what its home room would be among. */
function isAbout(path: readonly string[], leftOut: string): boolean {
  const keyPath = path.join(".");
  const among = ["rooms.", keyPath.replace(/home_room$/, "accounts")];
  const home = path.at(-1) === "home_room" && among.some((one) => leftOut.startsWith(one));
  return home || leftOut === keyPath || leftOut.startsWith(`${keyPath}.`) || keyPath.startsWith(`${leftOut}.`);
}

/** Deeper than any setting, and wider than any list of faults that somebody reads. */
const MOST_ROUNDS = 100;

function withoutWrong(file: Written, issues: readonly z.core.$ZodIssue[]) {
  // A word, a number or a list stands where the settings do.
  if (!isRecord(file)) return { settings: SCHEMA.parse({}), written: {} as Written, leftOut: [""] };
  const written = structuredClone(file) as Record<string, unknown> & Written;
  const leftOut: string[] = [];
  let wrong = issues;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const gone: string[] = [];
    for (const issue of wrong) {
      const at = [...issue.path.map(String), ...(issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [])];
      // Another fault has taken it along.
      if (!gone.some((path) => `${at.join(".")}.`.startsWith(`${path}.`))) gone.push(...leaveOut(written, issue));
    }
    leftOut.push(...gone);
    const result = SCHEMA.safeParse(written, { jitless: true });
    if (result.success) return { settings: result.data, written, leftOut };
    wrong = result.error.issues;
  }
  return { settings: SCHEMA.parse({}), written: {} as Written, leftOut: [...leftOut, ""] };
}

/** What stands in for a name that others may refer to. */
const DEMO = { kind: "demo" } as const;

/** The value of an issue; where it is absent, or stands in a list, what is around it. A list goes as a whole: its places stay those of the file. */
function leaveOut(tree: Record<string, unknown>, issue: z.core.$ZodIssue): string[] {
  const keys = issue.path.map(String);
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => dropAt(tree, [...keys, key]));
  const inList = keys.findIndex((_, depth) => Array.isArray(valueAt(tree, keys.slice(0, depth))));
  const path = inList < 0 ? keys : keys.slice(0, inList);
  return [dropAt(tree, valueAt(tree, path) === undefined ? path.slice(0, -1) : path)];
}

function dropAt(tree: Record<string, unknown>, path: readonly string[]): string {
  const parent = valueAt(tree, path.slice(0, -1)) as Record<string, unknown> | undefined;
  const last = path.at(-1);
  if (last === undefined || parent === undefined) for (const key of Object.keys(tree)) delete tree[key];
  else if (path.length === 2 && path[0] === "agents") parent[last] = { runtime: DEMO };
  else if (
    (path.length === 3 && path[0] === "agents" && last === "runtime") ||
    (path.length === 2 && path[0] === "runtimes")
  )
    parent[last] = DEMO;
  else delete parent[last];
  return path.join(".");
}

/** A value that is one variable and nothing else takes the type of its key: `port: ${PORT}`. */
function typeVariables(file: ConfigFile, issues: readonly z.core.$ZodIssue[]): boolean {
  let isChanged = false;
  for (const { code, path } of issues) {
    const keys = path.map(String);
    const value = valueAt(file.settings, keys);
    if (code !== "invalid_type" || typeof value !== "string" || !file.variables.get(keys.join("."))?.isWhole) continue;
    if (!/^(true|false|-?\d+)$/.test(value)) continue;
    const parent = valueAt(file.settings, keys.slice(0, -1)) as Record<string, unknown>;
    parent[keys.at(-1) ?? ""] = numeral(value) === value ? value === "true" : Number(value);
    isChanged = true;
  }
  return isChanged;
}

function complaintsOf(file: ConfigFile, issue: z.core.$ZodIssue): readonly Problem[] {
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const known = issue.message.split(", ");
      const hint = keyHint({ path, key, known, kind: valueAt(file.settings, [...path, "kind"]) });
      return problemAt(file, [...path, key], `unknown key; ${hint ?? `allowed: ${issue.message}`}`);
    });
  }
  if (issue.code === "invalid_key") {
    const allowed = issue.issues[0]?.message ?? issue.message;
    return [problemAt(file, path, `${JSON.stringify(path.at(-1))} is no name for it; allowed: ${allowed}`)];
  }
  return [refusal(file, path, issue.message)];
}

export function refusal(file: ConfigFile, path: readonly string[], allowed: string): Problem {
  const value = valueAt(file.settings, path);
  const said = value === undefined ? "is missing" : `${shown(file, path, value)} is not allowed`;
  return problemAt(file, path, `${said}; allowed: ${allowed}${hintFor(path, value, allowed)}`);
}

export function problemAt(
  file: Pick<ConfigFile, "path" | "places">,
  path: readonly string[],
  sentence: string,
): Problem {
  const keyPath = path.join(".");
  const subject = keyPath === "" ? "" : `${keyPath}: `;
  return { path: keyPath, line: `${placeOf(file, path)}: ${subject}${sentence}` };
}

/** The key itself, else what is around it. */
function placeOf(file: Pick<ConfigFile, "path" | "places">, path: readonly string[]): string {
  for (let length = path.length; length > 0; length--) {
    const place = file.places.get(path.slice(0, length).join("."));
    if (place !== undefined) return place;
  }
  return file.path;
}

const SECRET = /token|password|passphrase|secret|credential|(^|[_-])key$/i;

/** Never a secret, and never what a variable holds: it may be one in the wrong place. */
function shown(file: ConfigFile, path: readonly string[], value: unknown): string {
  const variable = file.variables.get(path.join("."));
  if (variable !== undefined) return `${variable.written} (from the environment)`;
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "a map";
  if (path.some((key) => SECRET.test(key)) || path.includes("headers")) return "the value (not shown)";
  if (path.at(-1) === "base_url") {
    const address = shownAddress(String(value));
    return address === null ? "the value (not shown)" : JSON.stringify(address);
  }
  if (typeof value !== "string") return String(value);
  return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value);
}

/** An address without what may be secret in it: user, password, query; null where that cannot be told apart. */
export function shownAddress(text: string): string | null {
  const url = URL.parse(text);
  return url === null || url.host === "" ? null : `${url.protocol}//${url.host}${url.pathname}${url.search && "?…"}`;
}

function hintFor(path: readonly string[], value: unknown, allowed: string): string {
  if (allowed.startsWith("a duration") && /^\d+$/.test(String(value))) return "; the unit is missing";
  if (typeof value !== "string") return "";
  const kind = path.at(-1) === "kind" ? kindHint(value) : null;
  if (kind !== null) return `; ${kind}`;
  const near = nearest(value, path.at(-1) === "timezone" ? Intl.supportedValuesOf("timeZone") : allowed.split(", "));
  return near === undefined || near === value ? "" : `; did you mean ${near}?`;
}
