/** The one schema of the configuration. The message of every check is what is allowed there; config-complaint.ts says the rest. */

import { z } from "zod";
import type { Role } from "../conversation/person.ts";
import type { BusyMode } from "../conversation/queue-decision.ts";
import { DEFAULT_RESET_POLICY, isTimeZone, type ResetPolicy } from "../conversation/reset-policy.ts";
import { DEFAULT_KEY_RULES, isKeyName, isSessionKey } from "../conversation/session-key.ts";
import { CHAT_TYPES, PLATFORMS, type Platform } from "../message/source.ts";
import { present } from "./data.ts";

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

/** Agents whose command is known; `runtime/acp/presets.ts` has them. */
export const AGENT_PRESETS = ["demo", "opencode", "gemini", "claude", "codex", "hermes", "qwen"] as const;
export type AgentPreset = (typeof AGENT_PRESETS)[number];

const LOG_LEVELS = ["info", "debug", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
const ROLES = ["owner", "member", "guest"] as const satisfies readonly Role[];
const BUSY_MODES = ["collect", "queue", "steer", "interrupt", "reject"] as const satisfies readonly BusyMode[];
export const RESET_MODES = ["none", "idle", "daily", "both"] as const satisfies readonly ResetPolicy["mode"][];

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

export const policy = section({
  mode: oneOf(RESET_MODES).default(DEFAULT_RESET_POLICY.mode),
  idle_minutes: whole(1, 525_600).default(DEFAULT_RESET_POLICY.idleMinutes),
  at_hour: whole(0, 23).default(DEFAULT_RESET_POLICY.atHour),
  timezone: zone.optional(),
  notify: onOff.default(DEFAULT_RESET_POLICY.notify),
});

export const http = {
  host: hostName.default("127.0.0.1"),
  port: whole(0, 65_535).default(8378),
  token: oneOf(["auto", "loopback", "always"]).default("auto"),
  system_messages: oneOf(["give", "refuse"]).default("give"),
};

export const httpRuntime = section({
  kind: z.literal("http", { error: "http" }),
  preset: oneOf(MODEL_PRESETS).optional(),
  base_url: words("an http or https address such as http://127.0.0.1:11434/v1", isHttpUrl)
    .refine((url) => !isHttpUrl(url) || !namesUser(url), {
      error: "an address without user and password; what signs in belongs in `key` or `headers`",
    })
    .optional(),
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

export const acpRuntime = section({
  kind: z.literal("acp", { error: "acp" }),
  preset: oneOf(AGENT_PRESETS).optional(),
  command: words("a program, by its name or its path").optional(),
  args: z.array(z.string({ error: "a text" }), { error: "a list of texts" }).optional(),
  env: mapOf(
    "variables by name",
    words("the name of a variable", (name) => /^[A-Za-z_]\w*$/.test(name)),
    z.string({ error: "a text" }),
  ).default({}),
  context_file: words("a file name such as AGENTS.md, or none", (name) => /^[\w-][\w.-]*$/.test(name)).optional(),
  quiet_time: duration("0ms", "500ms").optional(),
}).refine(({ preset, command }) => preset !== undefined || command !== undefined, {
  error: "preset or command is needed",
});

const hermesRuntime = section({
  kind: z.literal("hermes", { error: "hermes" }),
  base_url: words("an http or https address before /v1, such as http://127.0.0.1:8642", isHttpUrl)
    .refine((url) => !isHttpUrl(url) || !namesUser(url), {
      error: "an address without user and password; what signs in belongs in `key`",
    })
    .refine((url) => !isHttpUrl(url) || !/\/(?:v1|chat\/completions)(?:\/|$)/i.test(new URL(url).pathname), {
      error: "an address before /v1",
    })
    .optional(),
  model: words("a model route of Hermes").optional(),
  key: words("a key without spaces, best a variable from .env", (key) => /^\S+$/.test(key)),
  idle_timeout: duration("1s", "1d").prefault("5m"),
});

const RUNTIME_KINDS = "demo, http, acp, hermes, as in `runtime: { kind: demo }`";

/** A runtime by its name under `runtimes:`, as it is told apart from one that is described in place. */
const namedRuntime = z.strictObject({ kind: z.literal("named"), name: z.string() });

export const runtime = z.discriminatedUnion(
  "kind",
  [section({ kind: z.literal("demo", { error: "demo" }) }), httpRuntime, acpRuntime, hermesRuntime],
  { error: RUNTIME_KINDS },
);

/** By its name, or described in place. */
const agentRuntime = z.preprocess(
  (written) => (typeof written === "string" ? { kind: "named", name: written } : written),
  z.discriminatedUnion("kind", [...runtime.def.options, namedRuntime], {
    error: RUNTIME_KINDS,
  }),
);

const ROOM_OF_ACCOUNT = "the address of a room such as core@conference.example.org";

/** An account of an agent on a platform; as many kinds as there are channels with accounts. */
const account = z.discriminatedUnion(
  "platform",
  [
    section({
      platform: z.literal("xmpp", { error: "xmpp" }),
      jid: words("an address such as mohe@example.org", isBareJid),
      password: words("a password, best a variable from .env"),
      nick: words("a text").optional(),
      rooms: z
        .array(
          z.union(
            [
              words(ROOM_OF_ACCOUNT, isBareJid),
              section({
                jid: words(ROOM_OF_ACCOUNT, isBareJid),
                nick: words("a text").optional(),
                password: words("a text").optional(),
              }),
            ],
            { error: `${ROOM_OF_ACCOUNT}, or { jid, nick, password }` },
          ),
          { error: "a list of rooms" },
        )
        .default([]),
      service: words(
        "an address such as xmpp://…, xmpps://example.org:5223 or wss://…",
        (text) => /^(?:xmpps?|wss?):\/\/[^\s/]/.test(text) && URL.canParse(text),
      ).optional(),
      tls: section({ ca: words("the path of a PEM file").optional(), insecure: onOff.optional() }).optional(),
      resource: words("a text").optional(),
    }),
  ],
  { error: "xmpp, as in `{ platform: xmpp, jid: …, password: … }`" },
);

/** Those that an agent can have an account on: there is a channel for each. */
export const ACCOUNT_PLATFORMS = ["xmpp"] as const satisfies readonly Platform[];

/** Platforms where somebody else can write, and access has to be said. */
export const PUSH_PLATFORMS = ["telegram", "discord", "slack", "weixin", "xmpp"] as const satisfies readonly Platform[];

export const agent = section({
  display_name: words("a text").optional(),
  names: z
    .array(
      words("a name", (name) => name.trim() !== ""),
      { error: "a list of names" },
    )
    .optional(),
  mention_format: words("a text with {name} in it", (format) => format.includes("{name}")).default("@{name}"),
  answer: oneOf(["addressed", "always"]).default("addressed"),
  persona: words("the path of a text file").optional(),
  prompt: words("a text").optional(),
  accounts: z.array(account, { error: "a list of accounts" }).default([]),
  home_room: words("the name of a room, or the id of a chat").optional(),
  runtime: agentRuntime,
  default_session: words("the id of a session").optional(),
  busy_mode: oneOf(BUSY_MODES).optional(),
  handoff_ttl: duration("1s", "7d").optional(),
});

const ownToken = words("at least 16 printable ASCII characters without spaces", (token) => TOKEN.test(token));

export const person = section({
  name: words("a text").optional(),
  role: oneOf(ROLES).optional(),
  tokens: z.array(ownToken, { error: "a list of tokens" }).default([]),
  accounts: z
    .array(section({ platform: oneOf(PUSH_PLATFORMS), id: words("the id of an account in quotes") }), {
      error: "a list of accounts",
    })
    .default([]),
});

const room = section({
  conversation: sessionKey.optional(),
  platform: oneOf(PUSH_PLATFORMS).optional(),
  chat: words("the id of a chat in quotes").optional(),
  share: onOff.default(false),
}).refine(
  ({ conversation, platform, chat }) => (conversation === undefined) === (platform !== undefined && chat !== undefined),
  {
    path: ["conversation"],
    error: "a session key, or instead of it platform and chat",
  },
);

const ids = (what: string) =>
  z
    .array(
      words(what, (id) => id.trim() !== ""),
      { error: `a list of ${what}` },
    )
    .optional();

const access = section({
  open: onOff.default(false),
  people: ids("ids of people"),
  rooms: ids("ids of rooms"),
  bots: ids("ids of bots"),
});

export const SCHEMA = section({
  timezone: zone.optional(),
  http: section(http).prefault({}),
  metrics: section({ token: ownToken.optional() }).prefault({}),
  log: section({ level: oneOf(LOG_LEVELS).default("info") }).prefault({}),
  agents: mapOf("agents by name", keyName, agent).prefault({ main: { runtime: { kind: "demo" } } }),
  default_agent: keyName.optional(),
  runtimes: mapOf("runtimes by name", keyName, runtime).default({}),
  people: mapOf("people by id", keyName, person).prefault({}),
  rooms: mapOf("rooms by name", roomName, room).prefault({}),
  access: mapPer(PUSH_PLATFORMS, access).prefault({}),
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
      runtime: keyName.optional(),
    }),
  ).prefault({}),
  chats: mapOf(
    "settings by session key",
    sessionKey,
    section({
      busy_mode: oneOf(BUSY_MODES).optional(),
      prompt: words("a text").optional(),
      runtime: keyName.optional(),
    }),
  ).prefault({}),
  pool: section({
    idle_minutes: whole(1, 525_600).default(60),
    max_warm: whole(1, 10_000).default(32),
    max_memory_mb: whole(1, 10_000_000).optional(),
  }).prefault({}),
  handoff: section({ ttl: duration("1s", "7d").prefault("60m") }).prefault({}),
  limits: section({
    guest_per_minute: whole(1, 1_000_000).default(10),
    guest_per_hour: whole(1, 1_000_000).default(100),
    place_per_minute: whole(1, 1_000_000).default(30),
    account_per_minute: whole(1, 1_000_000).default(60),
  }).prefault({}),
  delivery: section({ ttl: duration("1s", "7d").prefault("24h") }).prefault({}),
  digest: section({
    home: words("an absolute path, or one that begins with ~/", (path) =>
      /^(?:\/|~\/|[a-z]:[\\/])/i.test(path),
    ).optional(),
    interval: duration("10s", "1d").prefault("5m"),
    idle_minutes: whole(1, 1440).default(15),
    limit: whole(1, 100).default(20),
    lang: oneOf(["en", "zh"]).default("en"),
    noise: z.array(words("a text"), { error: "a list of texts" }).default([]),
  }).prefault({}),
  redact_pii: onOff.default(false),
});

export type Settings = z.output<typeof SCHEMA>;
export type Written = z.input<typeof SCHEMA>;

export function isBareJid(text: string): boolean {
  return /^[^\s@/"'&<>:]+@[^\s@/"'&<>]+$/u.test(text);
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

/** Keys of a runtime, wherever it is described. */
export function runtimeKeys(path: string): readonly ConfigKey[] {
  return keysUnder(runtime, path);
}

function keysUnder(schema: z.core.$ZodType, path: string, fallback?: unknown): readonly ConfigKey[] {
  if (schema instanceof z.ZodOptional) return keysUnder(schema.def.innerType, path, fallback);
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return keysUnder(schema.def.innerType, path, schema.def.defaultValue);
  }
  if (schema === agentRuntime)
    return [{ path, allowed: "a name under `runtimes`, or a runtime described in place" }, ...keysUnder(runtime, path)];
  if (schema instanceof z.ZodRecord && schema.def.valueType === runtime)
    return [{ path: `${path}.*`, allowed: "a runtime, as under `agents.<name>.runtime`" }];
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

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

function namesUser(url: string): boolean {
  const { username, password } = new URL(url);
  return username !== "" || password !== "";
}
