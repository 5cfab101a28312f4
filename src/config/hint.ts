/** What somebody may have meant by a key that is none: by its meaning first, then by its letters, then where it belongs to something else. */

import { nearest } from "../text/nearest-name.ts";
import { AGENT_PRESETS, configKeys, MODEL_PRESETS, runtime } from "./schema.ts";

interface UnknownKey {
  /** Of the map it stands in. */
  readonly path: readonly string[];
  readonly key: string;
  /** The keys that the map takes. */
  readonly known: readonly string[];
  /** What the map says of its kind, of a runtime. */
  readonly kind: unknown;
}

/** Null where nothing is near. */
export function keyHint({ path, key, known, kind }: UnknownKey): string | null {
  const name = snake(key);
  const mean = (there: string): string => `did you mean ${there}?`;
  const here = (near: string): string => mean([...path, near].join("."));
  if (known.includes(name)) return here(name);
  const ofOther = typeof kind === "string" ? kindsWith(name, kind) : [];
  if (ofOther.length > 0) return `it belongs to kind ${ofOther.join(" and ")}, and this is kind ${kind as string}`;
  const near = synonym(name, known) ?? byWords(name, known) ?? nearest(key, known);
  if (near !== undefined) return here(near);
  const there = elsewhere(name)?.split(".");
  // Below the same name, as far as it is the same way.
  const named = there?.map((step, depth) =>
    step === "*" && there[depth - 1] === path[depth - 1] ? (path[depth] ?? step) : step,
  );
  return named === undefined ? null : mean(named.join("."));
}

/** A preset, or a vendor, in the place of a kind. */
export function kindHint(value: string): string | null {
  const name = value.toLowerCase();
  const isAgent = AGENT_PRESETS.some((preset) => preset === name);
  const kind = MODEL_PRESETS.some((preset) => preset === name) ? "http" : isAgent ? "acp" : own(KINDS, name);
  if (kind === undefined) return null;
  const isPreset = MODEL_PRESETS.some((preset) => preset === name) || isAgent;
  return isPreset ? `did you mean { kind: ${kind}, preset: ${name} }?` : `did you mean ${kind}?`;
}

const KINDS: Readonly<Record<string, string>> = {
  model: "http",
  llm: "http",
  api: "http",
  https: "http",
  chat: "http",
  agent: "acp",
  process: "acp",
  stdio: "acp",
  command: "acp",
};

/** Kinds of runtimes, other than this one, that take the key. */
function kindsWith(key: string, kind: string): string[] {
  return runtime.def.options.flatMap((option) => {
    const { shape } = option.in;
    const [name = ""] = shape.kind.def.values;
    return name !== kind && Object.hasOwn(shape, key) ? [name] : [];
  });
}

/** Other programs' words, and everyday ones, for our keys; those that fit the map best come first. */
const SYNONYMS: Readonly<Record<string, string>> = {
  address: "base_url jid host id",
  agent: "agents",
  aliases: "names",
  allow: "access people",
  allow_from: "access people",
  allowed_users: "access people",
  allowlist: "access people",
  api_base: "base_url",
  api_key: "key",
  apikey: "key",
  arguments: "args",
  auth_token: "key tokens",
  backend: "kind preset",
  bind: "host",
  bot_name: "nick display_name",
  certificate: "ca",
  channel: "accounts rooms",
  channels: "accounts rooms",
  cmd: "command",
  context_length: "window",
  context_size: "window",
  context_window: "window",
  debounce: "debounce_ms",
  default: "default_agent",
  endpoint: "base_url",
  engine: "kind preset",
  environment: "env",
  executable: "command",
  hour: "at_hour",
  idle: "idle_minutes idle_timeout",
  idle_ms: "idle_minutes",
  instructions: "prompt",
  language: "lang",
  listen: "host",
  locale: "lang",
  log_level: "level",
  logging: "log",
  loglevel: "level",
  login: "jid",
  max_context: "window",
  max_completion_tokens: "max_output",
  max_output_tokens: "max_output",
  max_sessions: "max_warm",
  max_tokens: "max_output",
  members: "people",
  memory: "max_memory_mb",
  mentions: "names",
  model_name: "model",
  nickname: "nick",
  num_ctx: "window",
  pass: "password",
  passwd: "password",
  personality: "persona",
  pii: "redact_pii",
  privacy: "redact_pii",
  program: "command",
  provider: "preset kind",
  queue_mode: "busy_mode",
  server: "service base_url",
  size: "max_warm",
  soul: "persona",
  system: "prompt",
  system_prompt: "prompt",
  time_zone: "timezone",
  timeout: "idle_timeout turn_timeout ttl",
  token: "tokens key password",
  type: "kind platform",
  tz: "timezone",
  uri: "base_url",
  url: "base_url",
  user: "people jid",
  username: "jid name",
  users: "people",
  zone: "timezone",
};

function synonymsOf(key: string): string[] | undefined {
  return own(SYNONYMS, key)?.split(" ");
}

/** `constructor` is in every object, and is no key of ours. */
function own(table: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function synonym(key: string, known: readonly string[]): string | undefined {
  return synonymsOf(key)?.find((name) => known.includes(name));
}

/** All words of one are in the other; where several are, the one with the key's last word, which is what it is about. */
function byWords(key: string, known: readonly string[]): string | undefined {
  const words = wordsOf(key);
  const isWithin = (few: readonly string[], many: readonly string[]): boolean =>
    few.every((word) => many.includes(word));
  const near = known.filter((name) => isWithin(wordsOf(name), words) || isWithin(words, wordsOf(name)));
  return near.find((name) => wordsOf(name).includes(words.at(-1) ?? "")) ?? near[0];
}

function wordsOf(key: string): string[] {
  return key.split("_").map((word) => word.replace(/(?<=..)s$/, ""));
}

function snake(key: string): string {
  return key
    .replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_")
    .replaceAll("-", "_")
    .toLowerCase();
}

/** The same key where it belongs (`idle_minutes` directly under `reset`), or one that means it. */
function elsewhere(key: string): string | undefined {
  const paths = configKeys().map(({ path }) => path);
  const ends = (name: string): string | undefined => paths.find((path) => path === name || path.endsWith(`.${name}`));
  const meant = synonymsOf(key)?.map(ends) ?? [];
  const last = (path: string): string => path.slice(path.lastIndexOf(".") + 1);
  // A single word is in too many keys.
  const byMeaning = key.includes("_") ? paths.find((path) => byWords(key, [last(path)]) !== undefined) : undefined;
  return ends(key) ?? meant.find((path) => path !== undefined) ?? byMeaning;
}
