/**
 * Config: what the owner decided, read once, checked as a whole and frozen (E1, E2). Owns the file, the `.env` beside it and the
 * process environment: nothing else reads `process.env`. Order: flag, environment, file, default. A setting that is not understood stops
 * the start; nothing is clamped or guessed. Every complaint names file and line, key, value and what is allowed, and no secret.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type * as Yaml from "yaml";
import { z } from "zod";
import type { Role } from "./conversation/person.ts";
import { DEFAULT_RESET_POLICY, isTimeZone, policyFor, type ResetPolicy } from "./conversation/reset-policy.ts";
import { DEFAULT_KEY_RULES, isKeyName, parseSessionKey, sessionKeyFor } from "./conversation/session-key.ts";
import { TertuliaError } from "./errors.ts";
import { CHAT_TYPES, type ChatType, isOwnDoor, PLATFORMS, type Platform, type Source } from "./message/source.ts";
import type { AdmitRules, BusyMode } from "./store/store.ts";

export interface Config {
  /** The state folder, absolute. */
  readonly home: string;
  readonly files: {
    /** Null when there is none: everything is at its default (E1). */
    readonly config: string | null;
    readonly state: string;
    readonly lock: string;
    readonly token: string;
    readonly out: string;
  };
  /** What a command that talks to a running gateway brings along (A6). */
  readonly client: { readonly token?: string; readonly sessionId?: string };
  readonly timezone: string;
  /** Port 0 takes any free one. `auto`: a truly local request needs no token (A4). */
  readonly http: { readonly host: string; readonly port: number; readonly token: "auto" | "always" };
  readonly log: { readonly level: LogLevel };
  /** By name. This and every other map here has no prototype: a lookup finds only what was configured. */
  readonly agents: Readonly<Record<string, AgentConfig>>;
  readonly defaultAgent: string;
  /** By id; always has `owner`. */
  readonly people: Readonly<Record<string, PersonConfig>>;
  readonly rooms: Readonly<Record<string, RoomConfig>>;
  readonly session: {
    readonly groupSessionsPerUser: boolean;
    readonly threadSessionsPerUser: boolean;
    readonly threadScope: "thread" | "chat";
    readonly dmScope: "chat" | "person";
  };
  readonly reset: {
    readonly default: ResetPolicy;
    readonly platforms: Readonly<Partial<Record<Platform, ResetPolicy>>>;
    readonly types: Readonly<Partial<Record<ChatType, ResetPolicy>>>;
    /** By session key. */
    readonly chats: Readonly<Record<string, ResetPolicy>>;
    /** An open background job younger than this holds a reset (R2). */
    readonly jobHoldMs: number;
  };
  /** Whoever never had a session is told once where he is (R8). */
  readonly welcome: boolean;
  readonly turn: {
    readonly busyMode: BusyMode;
    readonly debounceMs: number;
    readonly turnIdleTimeoutMs: number;
    readonly turnTimeoutMs: number;
    readonly maxWaitingTurns: number;
    readonly maxMessagesPerTurn: number;
    readonly permissionTimeoutMs: number;
    readonly stopGraceMs: number;
  };
  readonly platforms: Readonly<
    Partial<
      Record<
        Platform,
        {
          readonly busyMode?: BusyMode;
          readonly debounceMs?: number;
          /** The chat that is the home channel there. */
          readonly home?: string;
          readonly prompt?: string;
        }
      >
    >
  >;
  /** By session key. */
  readonly chats: Readonly<Record<string, { readonly busyMode?: BusyMode; readonly prompt?: string }>>;
  /** `idleMinutes` goes up to a year, which is more than one timer can hold (2^31-1 ms). */
  readonly pool: { readonly idleMinutes: number; readonly maxWarm: number };
  readonly handoff: { readonly ttlMs: number };
  readonly delivery: { readonly ttlMs: number };
  /** C5: what the model sees has stand-ins for user and chat ids. */
  readonly redactPii: boolean;
  /** By key path as written in the file, without the defaults; `originOf` reads it. */
  readonly origins: Readonly<Record<string, Origin>>;
}

export type Origin = "flag" | "env" | "file" | "default";
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface AgentConfig {
  readonly name: string;
  readonly displayName: string;
  readonly prompt?: string;
  readonly runtime: RuntimeConfig;
  readonly defaultSession?: string;
  readonly busyMode?: BusyMode;
  /** Its own, else the gateway's. */
  readonly handoffTtlMs: number;
}
/** Servers whose address and window are known; `runtime/http/presets.ts` has them. */
export const MODEL_PRESETS = [
  "openai",
  "openrouter",
  "ollama",
  "llamacpp",
  "vllm",
  "anthropic",
  "google",
  "deepseek",
  "qwen",
  "moonshot",
] as const;
export type ModelPreset = (typeof MODEL_PRESETS)[number];

export type RuntimeConfig = { readonly kind: "demo" } | ({ readonly kind: "http" } & ModelConfig);

/** A model behind an OpenAI-compatible address. One of preset and baseUrl is there. */
export interface ModelConfig {
  readonly preset?: ModelPreset;
  readonly baseUrl?: string;
  readonly model: string;
  readonly key?: string;
  /** Tokens it can hold. */
  readonly window?: number;
  readonly maxOutput?: number;
  readonly idleTimeoutMs: number;
  readonly headers: Readonly<Record<string, string>>;
}

export interface PersonConfig {
  readonly id: string;
  readonly name?: string;
  readonly role: Role;
  readonly tokens: readonly string[];
}

export interface RoomConfig {
  /** A session key. */
  readonly conversation: string;
  readonly share: boolean;
}

export interface ConfigFlags {
  readonly home?: string | undefined;
  readonly config?: string | undefined;
  readonly port?: string | number | undefined;
  readonly host?: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads and checks everything. Throws `config_invalid`, with one line for every problem found. */
export function loadConfig({ flags = {}, env = process.env }: { flags?: ConfigFlags; env?: Environment } = {}): Config {
  const home = locate("--home", flags.home, env.TERTULIA_HOME, env) ?? join(homeOf(env), ".tertulia");
  const named = locate("--config", flags.config, env.TERTULIA_CONFIG, env);
  const configFile = named ?? join(home, "config.yaml");
  const text = readOptional(configFile);
  if (text === null && named !== undefined) throw invalid([`${configFile}: there is no such file`]);

  const dotEnv = readDotEnv(join(dirname(configFile), ".env"), env);
  const variables: Environment = { ...dotEnv.values, ...env };
  const file = text === null ? emptyFile(configFile) : readFile({ path: configFile, text, variables });
  if (file.isBroken) throw invalid([...dotEnv.problems, ...file.problems.map((problem) => problem.line)]);

  const { shadowed, origins } = override(file, [
    { key: "port", where: "TERTULIA_PORT", origin: "env", value: numeral(given(variables.TERTULIA_PORT)) },
    { key: "port", where: "--port", origin: "flag", value: numeral(flags.port) },
    { key: "host", where: "--host", origin: "flag", value: flags.host },
  ]);
  const { settings, problems } = check(file);
  const model = modelFromEnvironment(variables);
  const all = [...dotEnv.problems, ...shadowed, ...problems, ...model.problems];
  if (settings === undefined || all.length > 0) throw invalid(all);
  if (model.runtime !== undefined) {
    const name = settings.default_agent ?? Object.keys(settings.agents)[0] ?? "main";
    settings.agents[name]!.runtime = model.runtime;
    origins[`agents.${name}.runtime`] = "env";
  }

  const token = given(variables.TERTULIA_TOKEN);
  const sessionId = given(variables.TERTULIA_SESSION_ID);
  origins.home = flags.home ? "flag" : given(env.TERTULIA_HOME) ? "env" : "default";
  return deepFreeze({
    home,
    files: {
      config: text === null ? null : configFile,
      state: join(home, "state.db"),
      lock: join(home, "gateway.lock"),
      token: join(home, "token"),
      out: join(home, "out"),
    },
    client: present({ token, sessionId }),
    ...build(settings),
    origins,
  });
}

/** TERTULIA_MODEL_URL, _NAME and _KEY turn the default agent into that model. */
function modelFromEnvironment(variables: Environment): { runtime?: z.output<typeof httpRuntime>; problems: string[] } {
  const url = given(variables.TERTULIA_MODEL_URL);
  const name = given(variables.TERTULIA_MODEL_NAME);
  const key = given(variables.TERTULIA_MODEL_KEY);
  if (url === undefined && name === undefined) return { problems: [] };
  if (url === undefined) return { problems: ["TERTULIA_MODEL_NAME is set without TERTULIA_MODEL_URL"] };
  if (name === undefined) return { problems: ["TERTULIA_MODEL_URL is set without TERTULIA_MODEL_NAME"] };
  const parsed = httpRuntime.safeParse({ kind: "http", base_url: url, model: name, ...present({ key }) });
  if (parsed.success) return { runtime: parsed.data, problems: [] };
  const variable: Record<string, string> = {
    base_url: "TERTULIA_MODEL_URL",
    model: "TERTULIA_MODEL_NAME",
    key: "TERTULIA_MODEL_KEY",
  };
  return {
    problems: parsed.error.issues.map(
      (issue) => `${variable[String(issue.path[0])] ?? "TERTULIA_MODEL_URL"}: needs ${issue.message}`,
    ),
  };
}

/** Where the value of a key comes from; key paths as in docs/configuration.md (`turn.debounce_ms`). */
export function originOf(config: Config, keyPath: string): Origin {
  return config.origins[keyPath] ?? "default";
}

export interface RulesRequest {
  readonly agent: string;
  readonly source: Source;
  /** Absent: computed from the source, which throws `source_invalid` where it has no address (K5). */
  readonly key?: string;
  /** The person the author is linked to; decides the key where `dm_scope` is `person` (K12). */
  readonly personId?: string;
}

/**
 * The settings that hold for one message: chat over platform over agent over the gateway's own; for HTTP always `queue` (T5); resets by
 * R1. `from` names for each the key path that decided it, or the rule that left no choice. Throws `agent_unknown`.
 */
export function rulesFor(
  config: Config,
  request: RulesRequest,
): { rules: AdmitRules; from: Readonly<Record<string, string>> } {
  const { source } = request;
  const agent = config.agents[request.agent];
  if (!agent) throw new TertuliaError("agent_unknown", `There is no agent "${request.agent}".`);
  const keys = { ...DEFAULT_KEY_RULES, ...config.session };
  const key = request.key ?? sessionKeyFor({ agent: agent.name, source, rules: keys, personId: request.personId }).key;
  const platform = config.platforms[source.platform];

  const busy = first<BusyMode>([
    ["T5", source.platform === "http" ? "queue" : undefined],
    [`chats.${key}.busy_mode`, config.chats[key]?.busyMode],
    [`platforms.${source.platform}.busy_mode`, platform?.busyMode],
    [`agents.${agent.name}.busy_mode`, agent.busyMode],
    ["turn.busy_mode", config.turn.busyMode],
  ]);
  const debounce = first<number>([
    [`platforms.${source.platform}.debounce_ms`, platform?.debounceMs],
    ["turn.debounce_ms", config.turn.debounceMs],
  ]);
  const reset = policyFor({
    chat: config.reset.chats[key],
    platform: config.reset.platforms[source.platform],
    chatType: config.reset.types[source.chatType],
    default: config.reset.default,
  });
  const resetFrom = {
    chat: `reset.chats.${key}`,
    platform: `reset.platforms.${source.platform}`,
    type: `reset.types.${source.chatType}`,
    default: "reset.default",
  }[reset.from];

  return {
    rules: {
      keys,
      busyMode: busy.value,
      debounceMs: debounce.value,
      maxWaitingTurns: config.turn.maxWaitingTurns,
      maxMessagesPerTurn: config.turn.maxMessagesPerTurn,
      reset: reset.policy,
      jobHoldMs: config.reset.jobHoldMs,
      welcome: config.welcome && source.platform !== "http",
      ...present({ defaultSession: agent.defaultSession }),
    },
    from: {
      keys: "session",
      busyMode: busy.from,
      debounceMs: debounce.from,
      maxWaitingTurns: "turn.max_waiting_turns",
      maxMessagesPerTurn: "turn.max_messages_per_turn",
      reset: resetFrom,
      jobHoldMs: "reset.job_hold_hours",
      ...(agent.defaultSession === undefined ? {} : { defaultSession: `agents.${agent.name}.default_session` }),
    },
  };
}

function first<T>(layers: readonly (readonly [from: string, value: T | undefined])[]): { from: string; value: T } {
  for (const [from, value] of layers) if (value !== undefined) return { from, value };
  throw new TertuliaError("internal", "A setting has no default.");
}

// ---- the schema. The message of every check is what is allowed there; `complain` says the rest.

const LOG_LEVELS = ["info", "debug", "warn", "error", "silent"] as const;
const ROLES = ["owner", "member", "guest"] as const satisfies readonly Role[];
const BUSY_MODES = ["collect", "queue", "steer", "interrupt", "reject"] as const satisfies readonly BusyMode[];
const RESET_MODES = ["none", "idle", "daily", "both"] as const satisfies readonly ResetPolicy["mode"][];

const HOST_NAME = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i;
const IPV6 = /^(?=.*:.*:)[0-9a-f:.]+(%\w+)?$/i;
const ROOM_NAME = /^[\p{L}\p{N}_.#-]+$/u;
/** What can stand in an Authorization header. */
const TOKEN = /^[\x21-\x7e]{16,}$/;
const DURATION = /^(\d+)(ms|s|m|h|d)$/;
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

function durationMs(text: string): number | undefined {
  const [, count, unit] = DURATION.exec(text) ?? [];
  return unit === undefined ? undefined : Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
}

function words(error: string, matches: (text: string) => boolean = (text) => text !== "") {
  return z.string({ error }).refine(matches, { error });
}

function whole(from: number, to: number) {
  const error = `a whole number from ${from} to ${to}`;
  return z.int({ error }).min(from, { error }).max(to, { error });
}

function oneOf<const T extends readonly string[]>(values: T) {
  return z.enum(values, { error: values.join(", ") });
}

/** `to` stays below 2^31-1 ms: a longer timer would fire at once. */
function duration(from: string, to: string) {
  const error = `a duration from ${from} to ${to}, such as 90s (ms, s, m, h or d)`;
  const [least, most] = [durationMs(from) ?? 0, durationMs(to) ?? 0];
  return z.string({ error }).transform((text, context) => {
    const ms = durationMs(text);
    if (ms !== undefined && least <= ms && ms <= most) return ms;
    context.addIssue({ code: "custom", message: error });
    return z.NEVER;
  });
}

function section<T extends z.core.$ZodLooseShape>(shape: T) {
  const known = Object.keys(shape).join(", ");
  return z.strictObject(shape, {
    error: (issue) => (issue.code === "unrecognized_keys" ? known : `a map of ${known}`),
  });
}

function mapOf<K extends z.ZodString, V extends z.ZodType>(what: string, key: K, value: V) {
  return z.record(key, value, { error: `a map of ${what}` });
}

function mapPer<const T extends readonly string[], V extends z.ZodType>(names: T, value: V) {
  const known = names.join(", ");
  return z.partialRecord(oneOf(names), value, {
    error: (issue: { code?: string }) => (issue.code === "unrecognized_keys" ? known : `a map of ${known}`),
  });
}

const onOff = z.boolean({ error: "true, false" });
const keyName = words("a-z, 0-9, _ and -, but not person, job or foreign", isKeyName);
const roomName = words("letters, digits, and _ . # -", (name) => ROOM_NAME.test(name));
const sessionKey = words("a session key such as agent:main:telegram:dm:99", isSessionKey);
const zone = words("an IANA time zone such as Europe/Berlin", isTimeZone);
const hostName = words(
  "a host name or an IP address, without port or brackets",
  (host) => HOST_NAME.test(host) || IPV6.test(host),
);

const policy = section({
  mode: oneOf(RESET_MODES).default(DEFAULT_RESET_POLICY.mode),
  idle_minutes: whole(1, 525_600).default(DEFAULT_RESET_POLICY.idleMinutes),
  at_hour: whole(0, 23).default(DEFAULT_RESET_POLICY.atHour),
  timezone: zone.optional(),
  notify: onOff.default(DEFAULT_RESET_POLICY.notify),
});

const http = {
  host: hostName.default("127.0.0.1"),
  port: whole(0, 65_535).default(8378),
  token: oneOf(["auto", "always"]).default("auto"),
};

const httpRuntime = section({
  kind: z.literal("http", { error: "http" }),
  preset: oneOf(MODEL_PRESETS).optional(),
  base_url: words("an http or https address such as http://127.0.0.1:11434/v1", isHttpUrl).optional(),
  model: words("the name of a model, as its server says it"),
  key: words("a key without spaces, best a variable from .env", (key) => /^\S+$/.test(key)).optional(),
  window: whole(1_024, 10_000_000).optional(),
  max_output: whole(16, 1_000_000).optional(),
  idle_timeout: duration("1s", "1d").prefault("5m"),
  headers: mapOf(
    "headers by name",
    words("the name of a header", (name) => /^[\w-]+$/.test(name)),
    words("a text"),
  ).default({}),
}).refine(({ preset, base_url }) => preset !== undefined || base_url !== undefined, {
  error: "preset or base_url is needed",
});

const agent = section({
  display_name: words("a text").optional(),
  prompt: words("a text").optional(),
  runtime: z.discriminatedUnion("kind", [section({ kind: z.literal("demo", { error: "demo" }) }), httpRuntime], {
    error: "demo, http, as in `runtime: { kind: demo }`",
  }),
  default_session: words("the id of a session").optional(),
  busy_mode: oneOf(BUSY_MODES).optional(),
  handoff_ttl: duration("1s", "7d").optional(),
});

const person = section({
  name: words("a text").optional(),
  role: oneOf(ROLES).optional(),
  tokens: z
    .array(
      words("at least 16 printable ASCII characters without spaces", (token) => TOKEN.test(token)),
      {
        error: "a list of tokens",
      },
    )
    .default([]),
});

const SCHEMA = section({
  timezone: zone.optional(),
  http: section(http).prefault({}),
  log: section({ level: oneOf(LOG_LEVELS).default("info") }).prefault({}),
  agents: mapOf("agents by name", keyName, agent).prefault({ main: { runtime: { kind: "demo" } } }),
  default_agent: keyName.optional(),
  people: mapOf("people by id", keyName, person).prefault({}),
  rooms: mapOf("rooms by name", roomName, section({ conversation: sessionKey, share: onOff.default(false) })).prefault(
    {},
  ),
  session: section({
    group_sessions_per_user: onOff.default(DEFAULT_KEY_RULES.groupSessionsPerUser),
    thread_sessions_per_user: onOff.default(DEFAULT_KEY_RULES.threadSessionsPerUser),
    thread_scope: oneOf(["thread", "chat"]).default(DEFAULT_KEY_RULES.threadScope),
    dm_scope: oneOf(["chat", "person"]).default(DEFAULT_KEY_RULES.dmScope),
  }).prefault({}),
  reset: section({
    default: policy.prefault({}),
    platforms: mapPer(PLATFORMS, policy).prefault({}),
    types: mapPer(CHAT_TYPES, policy).prefault({}),
    chats: mapOf("policies by session key", sessionKey, policy).prefault({}),
    job_hold_hours: whole(0, 8_760).default(24),
  }).prefault({}),
  welcome: onOff.default(true),
  turn: section({
    busy_mode: oneOf(BUSY_MODES).default("collect"),
    debounce_ms: whole(0, 60_000).default(800),
    turn_idle_timeout: duration("100ms", "1d").prefault("10m"),
    turn_timeout: duration("100ms", "7d").prefault("2h"),
    max_waiting_turns: whole(1, 1000).default(20),
    max_messages_per_turn: whole(1, 10_000).default(200),
    permission_timeout: duration("100ms", "1d").prefault("5m"),
    stop_grace: duration("100ms", "10m").prefault("5s"),
  }).prefault({}),
  platforms: mapPer(
    PLATFORMS,
    section({
      busy_mode: oneOf(BUSY_MODES).optional(),
      debounce_ms: whole(0, 60_000).optional(),
      home: words("a chat id in quotes").optional(),
      prompt: words("a text").optional(),
    }),
  ).prefault({}),
  chats: mapOf(
    "settings by session key",
    sessionKey,
    section({ busy_mode: oneOf(BUSY_MODES).optional(), prompt: words("a text").optional() }),
  ).prefault({}),
  pool: section({
    idle_minutes: whole(1, 525_600).default(60),
    max_warm: whole(1, 10_000).default(32),
  }).prefault({}),
  handoff: section({ ttl: duration("1s", "7d").prefault("60m") }).prefault({}),
  delivery: section({ ttl: duration("1s", "7d").prefault("24h") }).prefault({}),
  redact_pii: onOff.default(false),
});

type Settings = z.output<typeof SCHEMA>;
type Written = z.input<typeof SCHEMA>;

function isSessionKey(text: string): boolean {
  try {
    parseSessionKey(text);
    return true;
  } catch (cause) {
    if (cause instanceof TertuliaError) return false;
    throw cause;
  }
}

export interface ConfigKey {
  /** As in the file; `*` for a name of the owner's. */
  readonly path: string;
  /** As it would be written there; absent where there is none. */
  readonly fallback?: unknown;
  readonly allowed: string;
}

/** Every key there is, for hints and for the comparison with template and documentation (E2). */
export function configKeys(): readonly ConfigKey[] {
  return keysUnder(SCHEMA, "");
}

function keysUnder(schema: z.core.$ZodType, path: string, fallback?: unknown): readonly ConfigKey[] {
  if (schema instanceof z.ZodOptional) return keysUnder(schema.def.innerType, path, fallback);
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return keysUnder(schema.def.innerType, path, schema.def.defaultValue);
  }
  if (schema instanceof z.ZodRecord) return keysUnder(schema.def.valueType, `${path}.*`);
  if (schema instanceof z.ZodDiscriminatedUnion) {
    // The key that tells the options apart stands once, with all it may say.
    const keys = schema.def.options.flatMap((option) => keysUnder(option, path));
    const kind = `${path}.${schema.def.discriminator}`;
    const allowed = keys.flatMap((key) => (key.path === kind ? key.allowed : [])).join(", ");
    return [{ path: kind, allowed }, ...keys.filter((key) => key.path !== kind)];
  }
  if (schema instanceof z.ZodObject) {
    return Object.entries(schema.def.shape).flatMap(([key, inner]) => keysUnder(inner, path ? `${path}.${key}` : key));
  }
  const refused = z.safeParse(schema, Symbol("nothing a file can hold")).error;
  return [{ path, ...present({ fallback }), allowed: refused?.issues[0]?.message ?? "" }];
}

// ---- from what is written to what holds

/** The owner exists without being named. */
const UNNAMED: z.output<typeof person> = { tokens: [] };

function build(settings: Settings) {
  const { http, log, session, reset, turn, pool } = settings;
  const timezone = settings.timezone ?? machineZone();
  const handoff = { ttlMs: settings.handoff.ttl };
  const policies = <K extends string>(layer: Readonly<Partial<Record<K, z.output<typeof policy>>>>) =>
    table(layer, (written) => resetPolicy(written, timezone));

  return {
    timezone,
    http,
    log,
    agents: table(settings.agents, (written, name): AgentConfig => {
      return {
        name,
        displayName: written.display_name ?? name,
        runtime: runtimeConfig(written.runtime),
        handoffTtlMs: written.handoff_ttl ?? handoff.ttlMs,
        ...present({
          prompt: written.prompt,
          defaultSession: written.default_session,
          busyMode: written.busy_mode,
        }),
      };
    }),
    defaultAgent: settings.default_agent ?? Object.keys(settings.agents)[0] ?? "",
    people: table({ owner: UNNAMED, ...settings.people }, (written, id): PersonConfig => {
      const role = written.role ?? (id === "owner" ? "owner" : "member");
      return { id, role, tokens: written.tokens, ...present({ name: written.name }) };
    }),
    rooms: table(settings.rooms, (room) => room),
    session: {
      groupSessionsPerUser: session.group_sessions_per_user,
      threadSessionsPerUser: session.thread_sessions_per_user,
      threadScope: session.thread_scope,
      dmScope: session.dm_scope,
    },
    reset: {
      default: resetPolicy(reset.default, timezone),
      platforms: policies(reset.platforms),
      types: policies(reset.types),
      chats: policies(reset.chats),
      jobHoldMs: reset.job_hold_hours * 3_600_000,
    },
    welcome: settings.welcome,
    turn: {
      busyMode: turn.busy_mode,
      debounceMs: turn.debounce_ms,
      turnIdleTimeoutMs: turn.turn_idle_timeout,
      turnTimeoutMs: turn.turn_timeout,
      maxWaitingTurns: turn.max_waiting_turns,
      maxMessagesPerTurn: turn.max_messages_per_turn,
      permissionTimeoutMs: turn.permission_timeout,
      stopGraceMs: turn.stop_grace,
    },
    platforms: table(settings.platforms, (written) =>
      present({
        busyMode: written.busy_mode,
        debounceMs: written.debounce_ms,
        home: written.home,
        prompt: written.prompt,
      }),
    ),
    chats: table(settings.chats, (written) => present({ busyMode: written.busy_mode, prompt: written.prompt })),
    pool: {
      idleMinutes: pool.idle_minutes,
      maxWarm: pool.max_warm,
    },
    handoff,
    delivery: { ttlMs: settings.delivery.ttl },
    redactPii: settings.redact_pii,
  } satisfies Partial<Config>;
}

function runtimeConfig(written: z.output<typeof agent>["runtime"]): RuntimeConfig {
  if (written.kind === "demo") return { kind: "demo" };
  const { kind, preset, base_url, model, key, window, max_output, idle_timeout, headers } = written;
  return {
    kind,
    model,
    idleTimeoutMs: idle_timeout,
    headers: table(headers, (value) => value),
    ...present({ preset, baseUrl: base_url, key, window, maxOutput: max_output }),
  };
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

function resetPolicy(written: z.output<typeof policy>, timezone: string): ResetPolicy {
  return {
    mode: written.mode,
    idleMinutes: written.idle_minutes,
    atHour: written.at_hour,
    timezone: written.timezone ?? timezone,
    notify: written.notify,
  };
}

/** UTC where the machine has no zone with a name (TZ=UTC-3, TZ=/etc/localtime). */
function machineZone(): string {
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions() as { timeZone: string | undefined };
  return timeZone !== undefined && isTimeZone(timeZone) ? timeZone : "UTC";
}

// ---- what a schema of single keys cannot see

interface Objection {
  readonly path: readonly string[];
  readonly allowed: string;
}

function* objectionsTo(settings: Settings, written: Written): Generator<Objection> {
  const agents = Object.keys(settings.agents);
  const ofAgent = `a conversation of ${agents.join(", ")}`;
  if (agents.length === 0) yield { path: ["agents"], allowed: "at least one agent" };
  if (settings.default_agent !== undefined && !agents.includes(settings.default_agent)) {
    yield { path: ["default_agent"], allowed: agents.join(", ") };
  }
  if ((settings.people.owner?.role ?? "owner") !== "owner") {
    yield { path: ["people", "owner", "role"], allowed: "owner, for the person `owner`" };
  }
  yield* repeatedTokens(settings.people);

  for (const [name, { conversation }] of Object.entries(settings.rooms)) {
    if (!agents.includes(parseSessionKey(conversation).agent)) {
      yield { path: ["rooms", name, "conversation"], allowed: ofAgent };
    }
  }
  for (const path of [["reset", "chats"], ["chats"]]) {
    for (const key of Object.keys(valueAt(settings, path) ?? {})) {
      if (!agents.includes(parseSessionKey(key).agent)) yield { path: [...path, key], allowed: ofAgent };
    }
  }

  yield* idleHttpModes(settings);
  for (const [platform, { home }] of Object.entries(settings.platforms)) {
    if (home !== undefined && isOwnDoor(platform as Platform)) {
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

function* repeatedTokens(people: Settings["people"]): Generator<Objection> {
  const known = new Set<string>();
  for (const [id, { tokens }] of Object.entries(people)) {
    for (const [n, token] of tokens.entries()) {
      if (known.has(token)) yield { path: ["people", id, "tokens", String(n)], allowed: "a token given only once" };
      known.add(token);
    }
  }
}

/** T5: over HTTP every message has a turn of its own; another mode would have no effect. */
function* idleHttpModes({ platforms, chats }: Settings): Generator<Objection> {
  const allowed = "queue, always so for HTTP";
  const isIdle = (mode: BusyMode | undefined) => mode !== undefined && mode !== "queue";
  if (isIdle(platforms.http?.busy_mode)) yield { path: ["platforms", "http", "busy_mode"], allowed };
  for (const [key, { busy_mode }] of Object.entries(chats)) {
    const parts = parseSessionKey(key);
    const isHttp = parts.form === "chat" && parts.platform === "http";
    if (isHttp && isIdle(busy_mode)) yield { path: ["chats", key, "busy_mode"], allowed };
  }
}

const MODE_OF_ITS_OWN = `${RESET_MODES.join(", ")}; a policy is whole, and without a mode its limits would have no effect`;

function lacksMode(policy: object | undefined): boolean {
  return policy !== undefined && Object.keys(policy).length > 0 && !("mode" in policy);
}

// ---- checking and complaining

function check(file: ConfigFile): { settings?: Settings; problems: readonly string[] } {
  let result = SCHEMA.safeParse(file.settings, { jitless: true });
  if (!result.success && typeVariables(file, result.error.issues)) {
    result = SCHEMA.safeParse(file.settings, { jitless: true });
  }
  const found = result.success
    ? [...objectionsTo(result.data, file.settings)].map(({ path, allowed }) => refusal(file, path, allowed))
    : result.error.issues.flatMap((issue) => complaintsOf(file, issue));
  const known = new Set(file.problems.map((problem) => problem.path));
  const problems = [...file.problems, ...found.filter((problem) => !known.has(problem.path))];
  return { ...(result.success ? { settings: result.data } : {}), problems: problems.map((problem) => problem.line) };
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

interface Problem {
  readonly path: string;
  readonly line: string;
}

function complaintsOf(file: ConfigFile, issue: z.core.$ZodIssue): readonly Problem[] {
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const known = issue.message.split(", ");
      const near = nearest(key, known);
      const hint = near === undefined ? elsewhere(key) : [...path, near].join(".");
      const rest = hint === undefined ? `allowed: ${issue.message}` : `did you mean ${hint}?`;
      return problemAt(file, [...path, key], `unknown key; ${rest}`);
    });
  }
  if (issue.code === "invalid_key") {
    const allowed = issue.issues[0]?.message ?? issue.message;
    return [problemAt(file, path, `${JSON.stringify(path.at(-1))} is no name for it; allowed: ${allowed}`)];
  }
  return [refusal(file, path, issue.message)];
}

function refusal(file: ConfigFile, path: readonly string[], allowed: string): Problem {
  const value = valueAt(file.settings, path);
  const said = value === undefined ? "is missing" : `${shown(file, path, value)} is not allowed`;
  return problemAt(file, path, `${said}; allowed: ${allowed}${hintFor(path, value, allowed)}`);
}

function problemAt(file: ConfigFile, path: readonly string[], sentence: string): Problem {
  const keyPath = path.join(".");
  const subject = keyPath === "" ? "" : `${keyPath}: `;
  return { path: keyPath, line: `${placeOf(file, path)}: ${subject}${sentence}` };
}

/** The key itself, else what is around it. */
function placeOf(file: ConfigFile, path: readonly string[]): string {
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
  if (path.some((key) => SECRET.test(key))) return "the value (not shown)";
  if (typeof value !== "string") return String(value);
  return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value);
}

function hintFor(path: readonly string[], value: unknown, allowed: string): string {
  if (allowed.startsWith("a duration") && /^\d+$/.test(String(value))) return "; the unit is missing";
  if (typeof value !== "string") return "";
  const near = nearest(value, path.at(-1) === "timezone" ? Intl.supportedValuesOf("timeZone") : allowed.split(", "));
  return near === undefined || near === value ? "" : `; did you mean ${near}?`;
}

/** The same key where it belongs: `idle_minutes` directly under `reset`. */
function elsewhere(key: string): string | undefined {
  return configKeys().find(({ path }) => path.endsWith(`.${key}`))?.path;
}

function nearest(word: string, known: readonly string[]): string | undefined {
  const allowed = Math.max(1, Math.floor(word.length / 3));
  let best: string | undefined;
  let least = allowed + 1;
  for (const candidate of word === "" ? [] : known) {
    if (Math.abs(candidate.length - word.length) >= least) continue;
    const steps = distance(word.toLowerCase(), candidate.toLowerCase());
    if (steps < least) [best, least] = [candidate, steps];
  }
  return best;
}

/** Letters added, dropped, replaced or swapped with the next one. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwap = j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwap ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [before, last] = [last, row];
  }
  return last[b.length] ?? 0;
}

function invalid(problems: readonly string[], cause?: unknown): TertuliaError {
  const [only, ...more] = problems;
  const sentence = more.length === 0 ? `${only}` : `The configuration has ${problems.length} problems.`;
  return new TertuliaError("config_invalid", more.length === 0 ? sentence : [sentence, ...problems].join("\n"), {
    cause,
  });
}

// ---- the file, the `.env` beside it, and what stands above both

interface ConfigFile {
  readonly path: string;
  readonly settings: Record<string, unknown> & Written;
  /** By key path: `config.yaml:12`, or the flag or variable that has replaced it. */
  readonly places: Map<string, string>;
  readonly variables: ReadonlyMap<string, { readonly written: string; readonly isWhole: boolean }>;
  readonly problems: readonly Problem[];
  /** No YAML: there is nothing to check. */
  readonly isBroken: boolean;
}

function emptyFile(path: string): ConfigFile {
  return { path, settings: {}, places: new Map(), variables: new Map(), problems: [], isBroken: false };
}

function readFile({
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
  const document = yaml.parseDocument(text, { lineCounter: counter, prettyErrors: false, logLevel: "error" });
  const placeAt = (node: { range?: Yaml.Range | null | undefined }) =>
    `${file}:${counter.linePos(node.range?.[0] ?? 0).line}`;

  const places = new Map<string, string>();
  const variables = new Map<string, { written: string; isWhole: boolean }>();
  const problems: Problem[] = [];
  for (const { pos, message } of [...document.errors, ...document.warnings]) {
    const place = `${file}:${counter.linePos(pos[0]).line}`;
    // What follows in the same line is its consequence; after the colon the message quotes the file, perhaps a secret.
    if (problems.some(({ line }) => line.startsWith(`${place}: `))) continue;
    problems.push({ path: "", line: `${place}: ${message.split(": ")[0]}` });
  }
  if (problems.length > 0) return { ...emptyFile(file), problems, isBroken: true };

  const object = (path: readonly string[], place: string, sentence: string) => {
    problems.push({ path: path.join("."), line: `${place}: ${path.join(".")}: ${sentence}` });
  };
  const readNode = (node: unknown, path: readonly string[], place: string): unknown => {
    places.set(path.join("."), place);
    if (path.length > DEEPEST) return object(path, place, "is nested too deep");
    if (yaml.isAlias(node)) return readNode(node.resolve(document), path, place);
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
      else map[name] = readNode(value, [...path, name], at);
    }
    return map;
  };

  const settings = document.contents === null ? {} : readNode(document.contents, [], `${file}:1`);
  dropEmptySections(settings);
  return { path: file, settings: settings as ConfigFile["settings"], places, variables, problems, isBroken: false };
}

/** Deeper than any key there is; an alias that contains itself ends here. */
const DEEPEST = 12;

/** A section whose keys are all commented out, as in the template, says nothing. */
function dropEmptySections(settings: unknown): void {
  if (!isRecord(settings)) return;
  for (const [key, value] of Object.entries(settings)) {
    const isSection = Object.hasOwn(SCHEMA.shape, key) && !["timezone", "default_agent", "welcome"].includes(key);
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
    if (!/^[A-Za-z_]\w*$/.test(name) || !whole.endsWith("}")) {
      missing.push("after $ and { the name of a variable and } must follow; write $${ for a plain $ and {");
    } else if (known[name] === undefined) {
      missing.push(`the variable ${name} is not set, neither in the environment nor in .env`);
    }
    return known[name] ?? "";
  });
  return { text: filled, isFilled, missing };
}

/** Decide where the file is looked for, so they cannot stand in it. */
const OUTSIDE_DOT_ENV = ["TERTULIA_HOME", "TERTULIA_CONFIG"];

function readDotEnv(path: string, env: Environment): { values: Record<string, string>; problems: readonly string[] } {
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

interface Override {
  readonly key: "host" | "port";
  readonly where: string;
  readonly origin: Origin;
  readonly value: unknown;
}

/** The later one wins; what it hides must be right too. */
function override(file: ConfigFile, overrides: readonly Override[]) {
  const origins: Record<string, Origin> = {};
  const shadowed: string[] = [];
  for (const path of file.places.keys()) if (path !== "") origins[path] = "file";

  const settings: unknown = file.settings;
  if (!isRecord(settings)) return { origins, shadowed };
  settings.http ??= {};
  const section = settings.http;
  for (const { key, where, origin, value } of overrides) {
    if (value === undefined || !isRecord(section)) continue;
    const hidden = key in section ? http[key].safeParse(section[key]).error?.issues[0] : undefined;
    if (hidden) shadowed.push(refusal(file, ["http", key], hidden.message).line);
    section[key] = value;
    file.places.set(`http.${key}`, where);
    origins[`http.${key}`] = origin;
  }
  return { origins, shadowed };
}

function numeral(value: string | number | undefined): string | number | undefined {
  return typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value;
}

function given(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}

/** Absolute; `~` also where no shell has replaced it. An empty environment variable counts as absent, an empty flag is a slip. */
function locate(
  name: string,
  flag: string | undefined,
  variable: string | undefined,
  env: Environment,
): string | undefined {
  if (flag === "") throw invalid([`${name}: "" is not allowed; allowed: a path`]);
  const path = flag ?? given(variable);
  return path === undefined ? undefined : resolve(path.replace(/^~(?=\/|$)/, () => homeOf(env)));
}

function homeOf(env: Environment): string {
  return given(env.HOME) ?? homedir();
}

function readOptional(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw invalid([`${path}: it cannot be read (${code})`], cause);
  }
}

// ---- plain data

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function valueAt(tree: unknown, path: readonly string[]): unknown {
  let value = tree;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Without the absent fields: they stay absent instead of being undefined. */
function present<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T>;
}

/** Without a prototype: nobody is found under `constructor`. */
function table<K extends string, V, W>(
  entries: Readonly<Partial<Record<K, V>>>,
  change: (value: V, name: string) => W,
): Record<K, W> {
  const result: Record<string, W> = Object.create(null);
  for (const [name, value] of Object.entries<V | undefined>(entries)) {
    if (value !== undefined) result[name] = change(value, name);
  }
  return result;
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
