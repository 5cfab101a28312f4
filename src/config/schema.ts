/** The one schema of the configuration. The message of every check is what is allowed there; config-complaint.ts says the rest. */

import { z } from "zod";
import type { Role } from "../conversation/person.ts";
import type { BusyMode } from "../conversation/queue-decision.ts";
import { DEFAULT_RESET_POLICY, isTimeZone, type ResetPolicy } from "../conversation/reset-policy.ts";
import { DEFAULT_KEY_RULES, isKeyName, isSessionKey } from "../conversation/session-key.ts";
import { CHAT_TYPES, PLATFORMS, type Platform } from "../message/source.ts";
import { present, withoutPrototype } from "./data.ts";

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

declare const UNIT: unique symbol;
/** A duration in a section; its key gets the ending `Ms`. */
type Ms = number & { readonly [UNIT]: "ms" };

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
  const schema = z.string({ error }).transform((text, context) => {
    const ms = durationMs(text);
    if (ms !== undefined && least <= ms && ms <= most) return ms as Ms;
    context.addIssue({ code: "custom", message: error });
    return z.NEVER;
  });
  durations.add(schema);
  return schema;
}

const durations = new WeakSet<object>();

function isDuration(schema: unknown): boolean {
  const isWrapped = schema instanceof z.ZodOptional || schema instanceof z.ZodPrefault;
  return isWrapped ? isDuration(schema.def.innerType) : durations.has(schema as object);
}

type Camel<K extends string> = K extends `${infer First}_${infer Rest}` ? `${First}${Capitalize<Camel<Rest>>}` : K;
type NameOf<K extends string, V> = Extract<V, Ms> extends never ? Camel<K> : `${Camel<K>}Ms`;
type Plain<V> = V extends Ms ? number : V extends readonly (infer E)[] ? readonly E[] : V;
/** A section as the code reads it. */
type Named<T> = { readonly [K in keyof T as NameOf<K & string, T[K]>]: Plain<Exclude<T[K], undefined>> };

/** The name in the code of a key of the file. */
export function nameOf(key: string, schema: unknown): string {
  const name = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return isDuration(schema) ? `${name}Ms` : name;
}

function closed<T extends z.core.$ZodLooseShape>(shape: T) {
  const known = Object.keys(shape).join(", ");
  return z.strictObject(shape, {
    error: (issue) => (issue.code === "unrecognized_keys" ? known : `a map of ${known}`),
  });
}

function named<S extends z.ZodObject>(object: S) {
  return object.transform((written) => {
    const entries = Object.entries(written).map(([key, value]) => [nameOf(key, object.def.shape[key]), value]);
    return Object.fromEntries(entries) as Named<z.output<S>>;
  });
}

/** A map of these keys and no others; read as camelCase. */
function section<T extends z.core.$ZodLooseShape>(shape: T) {
  return named(closed(shape));
}

function mapOf<K extends z.ZodString, V extends z.ZodType>(what: string, key: K, value: V) {
  return z.record(key, value, { error: `a map of ${what}` }).transform(withoutPrototype);
}

function mapPer<const T extends readonly string[], V extends z.ZodType>(names: T, value: V) {
  const known = names.join(", ");
  return z
    .partialRecord(oneOf(names), value, {
      error: (issue: { code?: string }) => (issue.code === "unrecognized_keys" ? known : `a map of ${known}`),
    })
    .transform(withoutPrototype);
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
  mode: oneOf(RESET_MODES)
    .default(DEFAULT_RESET_POLICY.mode)
    .describe("When time alone ends a conversation. A policy that says anything says its mode."),
  idle_minutes: whole(1, 525_600)
    .default(DEFAULT_RESET_POLICY.idleMinutes)
    .describe("`idle`, `both`: ends after so long without a human message."),
  at_hour: whole(0, 23).default(DEFAULT_RESET_POLICY.atHour).describe("`daily`, `both`: ends at this hour."),
  timezone: zone.optional().describe("Whose hour; without it the gateway's zone."),
  notify: onOff.default(DEFAULT_RESET_POLICY.notify).describe("The chat is told."),
});

export const http = {
  host: hostName.default("127.0.0.1").describe("Where the API listens."),
  port: whole(0, 65_535).default(8378).describe("0 takes any free port."),
  token: oneOf(["auto", "loopback", "always"])
    .default("auto")
    .describe(
      "Who needs no [token](access.md#on-this-machine): this user (`auto`), all users here (`loopback`), nobody (`always`).",
    ),
  system_messages: oneOf(["give", "refuse"])
    .default("give")
    .describe(
      "What becomes of an OpenAI client's system message in a conversation with a name: a fact of its turn, or 400.",
    ),
};

export const httpRuntime = named(
  closed({
    kind: z.literal("http", { error: "http" }),
    preset: oneOf(MODEL_PRESETS)
      .optional()
      .describe("With `http`: a server whose address and window are known ([models](models.md))."),
    base_url: words("an http or https address such as http://127.0.0.1:11434/v1", isHttpUrl)
      .refine((url) => !isHttpUrl(url) || !namesUser(url), {
        error: "an address without user and password; what signs in belongs in `key` or `headers`",
      })
      .optional()
      .describe("Its address, up to `/chat/completions`. One of `preset` and this is needed."),
    model: words("the name of a model, as its server says it").describe("Required with `http`."),
    key: words("a key without spaces, best a variable from .env", (key) => /^\S+$/.test(key))
      .optional()
      .describe(`Sent as bearer; written as \`\${NAME}\`.`),
    window: whole(1_024, 10_000_000)
      .optional()
      .describe("Tokens the model can hold; default the preset's, else 32768."),
    max_output: whole(16, 1_000_000).optional().describe("Tokens of one reply; default the server's."),
    idle_timeout: duration("1s", "1d").prefault("5m").describe("The longest silence of the server."),
    headers: mapOf(
      "headers by name",
      words("the name of a header", (name) => /^[\w-]+$/.test(name)),
      words("a text"),
    )
      .prefault({})
      .describe("Further headers."),
  }).refine(({ preset, base_url }) => preset !== undefined || base_url !== undefined, {
    error: "preset or base_url is needed",
  }),
);

const acpRuntime = named(
  closed({
    kind: z.literal("acp", { error: "acp" }),
    preset: oneOf(AGENT_PRESETS).optional().describe("With `acp`: an agent whose command is known ([acp](acp.md))."),
    command: words("a program, by its name or its path")
      .optional()
      .describe("With `acp`: what is started. One of `preset` and this is needed."),
    args: z
      .array(z.string({ error: "a text" }), { error: "a list of texts" })
      .optional()
      .describe("Its arguments; default the preset's."),
    env: mapOf(
      "variables by name",
      words("the name of a variable", (name) => /^[A-Za-z_]\w*$/.test(name)),
      z.string({ error: "a text" }),
    )
      .prefault({})
      .describe("Further variables for it."),
    context_file: words("a file name such as AGENTS.md, or none", (name) => /^[\w-][\w.-]*$/.test(name))
      .transform((name) => (name === "none" ? null : name))
      .optional()
      .describe("The file it reads when a session begins; default the preset's, else AGENTS.md."),
    quiet_time: duration("0ms", "500ms")
      .optional()
      .describe("How long it is [listened to](acp.md#a-turn) after its answer; default the preset's, else 400ms."),
  }).refine(({ preset, command }) => preset !== undefined || command !== undefined, {
    error: "preset or command is needed",
  }),
);

const hermesRuntime = section({
  kind: z.literal("hermes", { error: "hermes" }),
  base_url: words("an http or https address before /v1, such as http://127.0.0.1:8642", isHttpUrl)
    .refine((url) => !isHttpUrl(url) || !namesUser(url), {
      error: "an address without user and password; what signs in belongs in `key`",
    })
    .refine((url) => !isHttpUrl(url) || !/\/(?:v1|chat\/completions)(?:\/|$)/i.test(new URL(url).pathname), {
      error: "an address before /v1",
    })
    .default("http://127.0.0.1:8642")
    .describe("With `hermes` ([Hermes](hermes.md))."),
  model: words("a model route of Hermes").optional().describe("With `hermes`; without it Hermes' own choice."),
  key: words("a key without spaces, best a variable from .env", (key) => /^\S+$/.test(key)).describe(
    "Required with `hermes`: its API_SERVER_KEY.",
  ),
  idle_timeout: duration("1s", "1d")
    .prefault("5m")
    .describe("With `hermes`: the longest silence; a sign of life comes every 30 s."),
});

const RUNTIME_KINDS = "demo, http, acp, hermes, as in `runtime: { kind: demo }`";

/** A runtime by its name under `runtimes:`, as it is told apart from one that is described in place. */
const namedRuntime = z.strictObject({ kind: z.literal("named"), name: z.string() });

export const runtime = z
  .discriminatedUnion(
    "kind",
    [section({ kind: z.literal("demo", { error: "demo" }) }), httpRuntime, acpRuntime, hermesRuntime],
    { error: RUNTIME_KINDS },
  )
  .describe("The kind of a runtime that is described here.");

/** By its name, or described in place. */
const agentRuntime = z
  .preprocess(
    (written) => (typeof written === "string" ? { kind: "named", name: written } : written),
    z.discriminatedUnion("kind", [...runtime.def.options, namedRuntime], {
      error: RUNTIME_KINDS,
    }),
  )
  .describe(
    "What runs the agent: `runtime: local`, or the keys below. Required; without any `agents` there is `main` with `demo`.",
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
          z
            .union(
              [
                words(ROOM_OF_ACCOUNT, isBareJid),
                // No section: of a union with a transform inside, no single key is complained about.
                closed({
                  jid: words(ROOM_OF_ACCOUNT, isBareJid),
                  nick: words("a text").optional(),
                  password: words("a text").optional(),
                }),
              ],
              { error: `${ROOM_OF_ACCOUNT}, or { jid, nick, password }` },
            )
            .transform((room) =>
              typeof room === "string"
                ? { jid: room }
                : { jid: room.jid, ...present({ nick: room.nick, password: room.password }) },
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

const agent = section({
  display_name: words("a text").optional().describe("What the agent is called in chats; without it its name."),
  names: z
    .array(
      words("a name", (name) => name.trim() !== ""),
      { error: "a list of names" },
    )
    .optional()
    .describe("What it is called by in rooms; without it its name and display name."),
  mention_format: words("a text with {name} in it", (format) => format.includes("{name}"))
    .default("@{name}")
    .describe("How it is mentioned, besides `@name`."),
  answer: oneOf(["addressed", "always"])
    .default("addressed")
    .describe("In rooms: when it is [called](rooms.md#who-is-meant), or always."),
  persona: words("the path of a text file")
    .optional()
    .describe("Joins its prompt, before `prompt`; read with the configuration. Relative to the file."),
  prompt: words("a text").optional().describe("Your own words to the agent."),
  accounts: z
    .array(account, { error: "a list of accounts" })
    .default([])
    .describe("Where it is: `{ platform: xmpp, jid, password }`, with `nick`, `rooms`, `service`, `tls`, `resource`."),
  home_room: words("the name of a room, or the id of a chat")
    .optional()
    .describe("Where `tertulia send` speaks when no room is named."),
  runtime: agentRuntime,
  default_session: words("the id of a session")
    .optional()
    .describe("Where its conversations speak when nothing else is bound; `hermes:ID` is one of Hermes."),
  busy_mode: oneOf(BUSY_MODES).optional().describe("Goes before `turn.busy_mode`."),
  handoff_ttl: duration("1s", "7d").optional().describe("Goes before `handoff.ttl`."),
});

const ownToken = words("at least 16 printable ASCII characters without spaces", (token) => TOKEN.test(token));

const person = section({
  name: words("a text").optional().describe("What the person is called. `owner` exists without being named."),
  role: oneOf(ROLES).optional().describe("`member` where it is not said; the person `owner` is always owner."),
  tokens: z
    .array(ownToken, { error: "a list of tokens" })
    .default([])
    .describe("Bearer tokens, each of at least 16 printable ASCII characters without spaces."),
  accounts: z
    .array(section({ platform: oneOf(PUSH_PLATFORMS), id: words("the id of an account in quotes") }), {
      error: "a list of accounts",
    })
    .default([])
    .describe("Where the person writes from: `{ platform, id }`. Lets in, with the role."),
});

const room = named(
  closed({
    conversation: sessionKey
      .optional()
      .describe("The conversation that `tertulia send <name>` means. This, or a platform and a chat."),
    platform: oneOf(PUSH_PLATFORMS).optional().describe("Where the chat is."),
    chat: words("the id of a chat in quotes")
      .optional()
      .describe("A chat in which each agent has a conversation of its own."),
    share: onOff.default(false).describe("Lets a session be bound here although other people read along."),
  }).refine(
    ({ conversation, platform, chat }) =>
      (conversation === undefined) === (platform !== undefined && chat !== undefined),
    {
      path: ["conversation"],
      error: "a session key, or instead of it platform and chat",
    },
  ),
);

const ids = (what: string) =>
  z
    .array(
      words(what, (id) => id.trim() !== ""),
      { error: `a list of ${what}` },
    )
    .optional()
    .transform((list) => list ?? null);

const access = section({
  open: onOff.default(false).describe("Whoever writes there is let in."),
  people: ids("ids of people").describe("Accounts that are let in, besides those of `people`."),
  rooms: ids("ids of rooms").describe("Rooms in which everybody is let in."),
  bots: ids("ids of bots").describe("Accounts of other people's bots: let in, and counted by the loop guard."),
});

export const SECTIONS = closed({
  timezone: zone.optional().describe("The gateway's zone; without it the machine's, or UTC where that has no name."),
  http: section(http).prefault({}),
  metrics: section({
    token: ownToken.optional().describe("A token that reads [`/metrics`](telemetry.md#metrics) and nothing else."),
  }).prefault({}),
  log: section({
    level: oneOf(LOG_LEVELS).default("info").describe("The least important lines that are logged."),
  }).prefault({}),
  agents: mapOf("agents by name", keyName, agent).prefault({ main: { runtime: { kind: "demo" } } }),
  default_agent: keyName.optional().describe("The agent of a message that names none; without it the first one."),
  runtimes: mapOf("runtimes by name", keyName, runtime)
    .prefault({})
    .describe("A runtime under a name of its own ([runtimes](runtime.md)); `demo` is always there."),
  people: mapOf("people by id", keyName, person).prefault({}),
  rooms: mapOf("rooms by name", roomName, room).prefault({}),
  access: mapPer(PUSH_PLATFORMS, access).prefault({}),
  session: section({
    group_sessions_per_user: onOff
      .default(DEFAULT_KEY_RULES.groupSessionsPerUser)
      .describe("In groups and channels everybody has a conversation of their own."),
    thread_sessions_per_user: onOff.default(DEFAULT_KEY_RULES.threadSessionsPerUser).describe("The same for threads."),
    thread_scope: oneOf(["thread", "chat"])
      .default(DEFAULT_KEY_RULES.threadScope)
      .describe("`chat` joins the threads of a chat to the chat; replies stay in their thread."),
    dm_scope: oneOf(["chat", "person"])
      .default(DEFAULT_KEY_RULES.dmScope)
      .describe("`person` gives a known person one conversation at every door."),
  }).prefault({}),
  reset: section({
    default: policy.prefault({}),
    platforms: mapPer(PLATFORMS, policy).prefault({}).describe("A policy for one platform."),
    types: mapPer(CHAT_TYPES, policy).prefault({}).describe("A policy for `dm`, `group`, `channel` or `thread`."),
    chats: mapOf("policies by session key", sessionKey, policy).prefault({}).describe("A policy for one conversation."),
    job_hold_hours: whole(0, 8_760).default(24).describe("An open background job younger than this holds a reset."),
  }).prefault({}),
  welcome: onOff.default(true).describe("Whoever comes for the first time is told where he is, once (not over HTTP)."),
  turn: section({
    busy_mode: oneOf(BUSY_MODES).default("collect").describe("What a message does while a turn runs."),
    debounce_ms: whole(0, 60_000).default(800).describe("How long a waiting turn gathers followers."),
    turn_idle_timeout: duration("100ms", "1d").prefault("10m").describe("Ends a turn without any event."),
    turn_timeout: duration("100ms", "7d").prefault("2h").describe("Ends a turn in any case."),
    max_waiting_turns: whole(1, 1000)
      .default(20)
      .describe("Waiting turns of one session; beyond them the author is told."),
    max_messages_per_turn: whole(1, 10_000)
      .default(200)
      .describe("Messages in one waiting turn; beyond them the author is told."),
    permission_timeout: duration("100ms", "1d")
      .prefault("5m")
      .describe("After it a question for permission counts as denied."),
    stop_grace: duration("100ms", "10m").prefault("5s").describe("From asking an agent to stop until it is made to."),
  }).prefault({}),
  platforms: mapPer(
    PLATFORMS,
    section({
      busy_mode: oneOf(BUSY_MODES).optional().describe("Goes before the agent's. HTTP is always `queue`."),
      debounce_ms: whole(0, 60_000).optional().describe("Goes before `turn.debounce_ms`."),
      home: words("a chat id in quotes")
        .optional()
        .describe("The home channel there, as agents are told. Not at the doors of this machine."),
      prompt: words("a text").optional().describe("Your own words to agents whose session is at home there."),
      runtime: keyName.optional().describe("What runs the agents there; goes before the agent's."),
    }),
  ).prefault({}),
  chats: mapOf(
    "settings by session key",
    sessionKey,
    section({
      busy_mode: oneOf(BUSY_MODES).optional().describe("Goes before the platform's."),
      prompt: words("a text").optional().describe("Your own words to the agent of this conversation."),
      runtime: keyName.optional().describe("What runs this conversation; goes before the platform's."),
    }),
  ).prefault({}),
  pool: section({
    idle_minutes: whole(1, 525_600).default(60).describe("Parks an agent unused for so long."),
    max_warm: whole(1, 10_000).default(32).describe("Agents kept warm at once."),
    max_memory_mb: whole(1, 10_000_000)
      .optional()
      .describe(
        "What warm agents may hold together; the least recently used idle one goes first. Without it there is no limit.",
      ),
  }).prefault({}),
  handoff: section({
    ttl: duration("1s", "7d").prefault("60m").describe("How long a room stays with the session that last spoke there."),
  }).prefault({}),
  limits: section({
    guest_per_minute: whole(1, 1_000_000)
      .default(10)
      .describe("Turns of one guest, at all doors together ([access](access.md#how-often))."),
    guest_per_hour: whole(1, 1_000_000).default(100).describe("The same, in an hour."),
    place_per_minute: whole(1, 1_000_000).default(30).describe("Turns of all guests of a room or chat."),
    account_per_minute: whole(1, 1_000_000).default(60).describe("Turns of all guests of an account of an agent."),
  }).prefault({}),
  delivery: section({
    ttl: duration("1s", "7d").prefault("24h").describe("How long a reply waits for its platform to come back."),
  }).prefault({}),
  digest: section({
    home: words("an absolute path, or one that begins with ~/", (path) => /^(?:\/|~\/|[a-z]:[\\/])/i.test(path))
      .optional()
      .describe("The folder of the [digest](digest.md)'s files; without it there are none."),
    interval: duration("10s", "1d")
      .prefault("5m")
      .describe("How often they are looked at; they are written when something changed."),
    idle_minutes: whole(1, 1440).default(15).describe("A longer pause ends what is told of a door."),
    limit: whole(1, 100).default(20).describe("Exchanges of one door."),
    lang: oneOf(["en", "zh"]).default("en").describe("The language of the words around them."),
    noise: z
      .array(words("a text"), { error: "a list of texts" })
      .default([])
      .describe("Beginnings of messages that nobody said, besides the known ones."),
  }).prefault({}),
  redact_pii: onOff
    .default(false)
    .describe("Agents and the log are shown stand-ins for user and chat ids ([context](context.md#ids))."),
});

export const SCHEMA = named(SECTIONS);

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
  /** What it does, for the documentation. */
  readonly text: string;
}

/** Every key there is, for hints and for the comparison with template and documentation (E2). */
export function configKeys(): readonly ConfigKey[] {
  return keysUnder(SCHEMA, "");
}

/** Keys of a runtime, wherever it is described. */
export function runtimeKeys(path: string): readonly ConfigKey[] {
  return keysUnder(runtime, path);
}

function keysUnder(schema: z.core.$ZodType, path: string, above: Partial<ConfigKey> = {}): readonly ConfigKey[] {
  const text = z.globalRegistry.get(schema)?.description ?? above.text ?? "";
  const key = (path: string, allowed: string): ConfigKey => ({ ...above, path, allowed, text });
  if (schema instanceof z.ZodOptional) return keysUnder(schema.def.innerType, path, { ...above, text });
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault)
    return keysUnder(schema.def.innerType, path, { fallback: schema.def.defaultValue, text });
  if (schema === agentRuntime)
    return [key(path, "a name under `runtimes`, or a runtime described in place"), ...keysUnder(runtime, path)];
  if (schema instanceof z.ZodPipe) return keysUnder(schema.def.in, path, { ...above, text });
  if (schema instanceof z.ZodRecord) {
    const each = `${path}.*`;
    const { valueType } = schema.def;
    if (valueType === runtime) return [{ path: each, allowed: "a runtime, as under `agents.<name>.runtime`", text }];
    const below = keysUnder(valueType, each, valueType instanceof z.ZodString ? { text } : {});
    return valueType === policy ? [{ path: each, allowed: "the keys of `reset.default`", text }, ...below] : below;
  }
  if (schema instanceof z.ZodDiscriminatedUnion) {
    // The key that tells the options apart stands once, with all it may say.
    const keys = schema.def.options.flatMap((option) => keysUnder(option, path));
    const kind = `${path}.${schema.def.discriminator}`;
    const allowed = keys.flatMap((one) => (one.path === kind ? one.allowed : [])).join(", ");
    return [{ path: kind, allowed, text }, ...keys.filter((one) => one.path !== kind)];
  }
  if (schema instanceof z.ZodObject)
    return Object.entries(schema.def.shape).flatMap(([name, inner]) =>
      keysUnder(inner, path ? `${path}.${name}` : name),
    );
  const refused = z.safeParse(schema, Symbol("nothing a file can hold")).error;
  return [key(path, refused?.issues[0]?.message ?? "")];
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

function namesUser(url: string): boolean {
  const { username, password } = new URL(url);
  return username !== "" || password !== "";
}
