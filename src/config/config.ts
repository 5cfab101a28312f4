/**
 * Config: what the owner decided, read once, checked as a whole and frozen (E1, E2). Owns the file, the `.env` beside it and the
 * process environment: nothing else reads `process.env`. Order: flag, environment, file, default. A setting that is not understood stops
 * the start; nothing is clamped or guessed. Every complaint names file and line, key, value and what is allowed, and no secret.
 */

import { dirname, join, resolve } from "node:path";
import type { z } from "zod";
import type { Role } from "../conversation/person.ts";
import type { BusyMode } from "../conversation/queue-decision.ts";
import type { RateLimits } from "../conversation/rate-limit.ts";
import { isTimeZone, policyFor, type ResetPolicy } from "../conversation/reset-policy.ts";
import { DEFAULT_KEY_RULES, sessionKeyFor } from "../conversation/session-key.ts";
import { TertuliaError } from "../errors.ts";
import { accountId, type ChatType, type Platform, type Source } from "../message/source.ts";
import type { AdmitRules } from "../store/events.ts";
import { isRecord } from "../util/is-record.ts";
import type { Proxies } from "../util/outgoing.ts";
import { check, problemAt, refusal } from "./complaint.ts";
import { deepFreeze, type Environment, given, numeral, present, table } from "./data.ts";
import { type ConfigFile, emptyFile, homeOf, invalid, locate, readDotEnv, readFile, readOptional } from "./file.ts";
import {
  type AgentPreset,
  type acpRuntime,
  type agent,
  http,
  httpRuntime,
  type LogLevel,
  type ModelPreset,
  type person,
  type policy,
  type runtime,
  type Settings,
} from "./schema.ts";

export {
  type AgentPreset,
  configKeys,
  type ModelPreset,
  runtimeKeys,
} from "./schema.ts";

export interface Config {
  /** The state folder, absolute. */
  readonly home: string;
  readonly files: {
    /** Null when there is none: everything is at its default (E1). */
    readonly config: string | null;
    readonly state: string;
    readonly lock: string;
    readonly token: string;
    /** The `.env`, whether it exists or not. */
    readonly secrets: string;
    readonly out: string;
    /** Files whose change is a change of the configuration, whether they exist or not. */
    readonly watched: readonly string[];
    /** By key path: where it is said (`config.yaml:12`), or the flag or variable that says it. `saidAt` reads it. */
    readonly places: Readonly<Record<string, string>>;
  };
  /** What a command that talks to a running gateway brings along (A6). */
  readonly client: { readonly token?: string; readonly sessionId?: string; readonly hermesSessionId?: string };
  /** Those of the environment that requests of ours go out through; absent where there is none. */
  readonly proxies?: Proxies;
  readonly timezone: string;
  /**
   * Port 0 takes any free one. Without a token (A11) a truly local request is the owner's: with `auto` where the gateway's own user is at
   * the other end, with `loopback` whoever is.
   */
  readonly http: {
    readonly host: string;
    readonly port: number;
    readonly token: "auto" | "loopback" | "always";
    /** What becomes of an OpenAI client's system message in a conversation with a name. */
    readonly systemMessages: "give" | "refuse";
  };
  /** A token that may only read the metrics. */
  readonly metrics: { readonly token?: string };
  readonly log: { readonly level: LogLevel };
  /** By name. This and every other map here has no prototype: a lookup finds only what was configured. */
  readonly agents: Readonly<Record<string, AgentConfig>>;
  readonly defaultAgent: string;
  /** By name: those of `runtimes:`, those described in an agent (named after kind and agent), and always `demo`. */
  readonly runtimes: Readonly<Record<string, RuntimeConfig>>;
  /** By id; always has `owner`. */
  readonly people: Readonly<Record<string, PersonConfig>>;
  readonly rooms: Readonly<Record<string, RoomConfig>>;
  /** Who gets in from a platform; where nothing is said, only people with an account there (A1). */
  readonly access: Readonly<Partial<Record<Platform, AccessConfig>>>;
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
          /** What runs the agents there, by name. */
          readonly runtime?: string;
        }
      >
    >
  >;
  /** By session key. */
  readonly chats: Readonly<
    Record<string, { readonly busyMode?: BusyMode; readonly prompt?: string; readonly runtime?: string }>
  >;
  /** `idleMinutes` goes up to a year, which is more than one timer can hold (2^31-1 ms). */
  readonly pool: {
    readonly idleMinutes: number;
    readonly maxWarm: number;
    /** What all warm agents may hold together; absent: no limit (B4). */
    readonly maxMemoryMb?: number;
  };
  readonly handoff: { readonly ttlMs: number };
  /** A10. */
  readonly limits: RateLimits;
  readonly delivery: { readonly ttlMs: number };
  readonly digest: DigestConfig;
  /** C5: what the model sees has stand-ins for user and chat ids. */
  readonly redactPii: boolean;
  /** By key path as written in the file, without the defaults; `originOf` reads it. */
  readonly origins: Readonly<Record<string, Origin>>;
}

export type Origin = "flag" | "env" | "file" | "default";

export interface AgentConfig {
  readonly name: string;
  readonly displayName: string;
  /** What it is mentioned by; its name and display name where nothing else is said. */
  readonly names: readonly string[];
  /** With `{name}` in it. */
  readonly mentionFormat: string;
  readonly answer: "addressed" | "always";
  /** The text of its persona file. */
  readonly persona?: string;
  readonly prompt?: string;
  /** What runs it unless chat or platform say otherwise: a name in `runtimes`. */
  readonly runtime: string;
  readonly accounts: readonly AccountConfig[];
  /** A room's name or a chat's id: where `tertulia send` speaks when no room is named (H1). */
  readonly homeRoom?: string;
  readonly defaultSession?: string;
  readonly busyMode?: BusyMode;
  /** Its own, else the gateway's. */
  readonly handoffTtlMs: number;
}

/** An account of an agent; `id` is what its channel and its sources call it. */
export interface AccountConfig {
  readonly platform: "xmpp";
  readonly id: string;
  readonly jid: string;
  readonly password: string;
  readonly nick?: string;
  readonly rooms: readonly { readonly jid: string; readonly nick?: string; readonly password?: string }[];
  readonly service?: string;
  readonly tls?: { readonly ca?: string; readonly insecure?: boolean };
  readonly resource?: string;
}

export interface AccessConfig {
  /** Whoever writes gets in. */
  readonly open: boolean;
  /** Ids of accounts on the platform, beside those of `people:`. Null where no list was given. */
  readonly people: readonly string[] | null;
  /** Ids of rooms where everybody gets in. */
  readonly rooms: readonly string[] | null;
  /** Ids of accounts of foreign bots. */
  readonly bots: readonly string[] | null;
}

export type RuntimeConfig =
  | { readonly kind: "demo" }
  | ({ readonly kind: "http" } & ModelConfig)
  | ({ readonly kind: "acp" } & AcpAgentConfig)
  | ({ readonly kind: "hermes" } & HermesConfig);

/** An agent that is a program. One of preset and command is there. */
interface AcpAgentConfig {
  readonly preset?: AgentPreset;
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Where it reads the stable part; null for in its first prompt. */
  readonly contextFile?: string | null;
  /** Words that come after the answer to their prompt are waited for so long. */
  readonly quietTimeMs?: number;
}

/** A Hermes gateway with its API server on. */
interface HermesConfig {
  readonly baseUrl: string;
  readonly key: string;
  /** One of its model routes. */
  readonly model?: string;
  readonly idleTimeoutMs: number;
}

/** A model behind an OpenAI-compatible address. One of preset and baseUrl is there. */
interface ModelConfig {
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

interface PersonConfig {
  readonly id: string;
  readonly name?: string;
  readonly role: Role;
  readonly tokens: readonly string[];
  /** Where the person writes from, by the platform's ids (A4). */
  readonly accounts: readonly { readonly platform: Platform; readonly id: string }[];
}

/** D1. */
interface DigestConfig {
  /** Whose files are kept, absolute; null: none are. */
  readonly home: string | null;
  readonly intervalMs: number;
  readonly idleMinutes: number;
  readonly limit: number;
  readonly lang: "en" | "zh";
  /** Beginnings of messages that nobody said, besides the known ones. */
  readonly noise: readonly string[];
}

/** One conversation by its key, or one chat, in which each agent has its own. */
interface RoomConfig {
  readonly conversation?: string;
  readonly chat?: { readonly platform: Platform; readonly id: string };
  readonly share: boolean;
}

export interface ConfigFlags {
  readonly home?: string | undefined;
  readonly config?: string | undefined;
  readonly port?: string | number | undefined;
  readonly host?: string | undefined;
}

export interface ConfigRequest {
  readonly flags?: ConfigFlags;
  readonly env?: Environment;
}

/** What is written, and what of it cannot hold. */
export interface ConfigReading {
  /** With problems: built from the rest, for whoever looks for further ones, or only asks where a gateway is. */
  readonly config: Config;
  readonly problems: readonly string[];
  /** Key paths whose values were left out of it. */
  readonly leftOut: readonly string[];
}

/** Reads and checks everything that can be seen without building anything. Throws `config_invalid`, with one line for every problem found. */
export function loadConfig(request: ConfigRequest = {}): Config {
  const { config, problems } = readConfig(request);
  if (problems.length > 0) throw invalid(problems);
  return config;
}

/** The same, without throwing for what stands in the file. Throws `config_invalid` for a flag that leads nowhere. */
export function readConfig({ flags = {}, env = process.env }: ConfigRequest = {}): ConfigReading {
  const home = locate("--home", flags.home, env.TERTULIA_HOME, env) ?? join(homeOf(env), ".tertulia");
  const named = locate("--config", flags.config, env.TERTULIA_CONFIG, env);
  const configFile = named ?? join(home, "config.yaml");
  const text = readOptional(configFile);
  if (text === null && named !== undefined) throw invalid([`${configFile}: there is no such file`]);

  const baseFolder = dirname(configFile);
  const secrets = join(baseFolder, ".env");
  const dotEnv = readDotEnv(secrets, env);
  const variables: Environment = { ...dotEnv.values, ...env };
  const file = text === null ? emptyFile(configFile) : readFile({ path: configFile, text, variables });
  const { shadowed, origins } = override(file, [
    { key: "port", where: "TERTULIA_PORT", origin: "env", value: numeral(given(variables.TERTULIA_PORT)) },
    { key: "port", where: "--port", origin: "flag", value: numeral(flags.port) },
    { key: "host", where: "--host", origin: "flag", value: flags.host },
  ]);
  const { settings, problems, leftOut } = check(file);
  const files = unreadableFiles(settings, file, baseFolder);
  const model = modelFromEnvironment(variables);
  const proxied = proxiesIn(variables);
  if (model.runtime !== undefined) {
    const name = settings.default_agent ?? Object.keys(settings.agents)[0] ?? "main";
    settings.agents[name]!.runtime = model.runtime;
    for (const setting of Object.keys(model.runtime)) {
      origins[`agents.${name}.runtime.${setting}`] = "env";
      file.places.set(`agents.${name}.runtime.${setting}`, MODEL_VARIABLES[setting] ?? "TERTULIA_MODEL_URL");
    }
  }

  const token = given(variables.TERTULIA_TOKEN);
  const sessionId = given(variables.TERTULIA_SESSION_ID);
  origins.home = flags.home ? "flag" : given(env.TERTULIA_HOME) ? "env" : "default";
  const config: Config = deepFreeze({
    home,
    files: {
      config: text === null ? null : configFile,
      state: join(home, "state.db"),
      lock: join(home, "gateway.lock"),
      token: join(home, "token"),
      secrets,
      out: join(home, "out"),
      watched: [configFile, secrets, ...personasOf(settings, baseFolder)],
      places: Object.fromEntries(file.places),
    },
    ...present({ proxies: proxied.proxies }),
    client: present({ token, sessionId, hermesSessionId: given(variables.HERMES_SESSION_ID) }),
    ...build(settings, { baseFolder }),
    digest: digestConfig(settings.digest, locate("digest.home", settings.digest.home, undefined, env) ?? null),
    origins,
  });
  return {
    config,
    problems: [
      ...dotEnv.problems,
      ...shadowed,
      ...problems.map(({ line }) => line),
      ...files,
      ...model.problems,
      ...proxied.problems,
    ],
    leftOut,
  };
}

/** A sentence about a setting, with where it is said. */
export function saidAt({ files }: Pick<Config, "files">, path: string, sentence: string): string {
  if (files.config === null && files.places[path] === undefined) return `${path} (default): ${sentence}`;
  const places = new Map(Object.entries(files.places));
  return problemAt({ path: files.config ?? "", places }, path.split("."), sentence).line;
}

/** What a program that the gateway starts inherits: everything but the gateway's own variables, which say where it is and hold its keys. */
export function inheritedEnvironment(env: Environment = process.env): Readonly<Record<string, string>> {
  const kept = Object.entries(env).filter(([name, value]) => value !== undefined && !name.startsWith("TERTULIA_"));
  return Object.fromEntries(kept) as Record<string, string>;
}

function personasOf({ agents }: Settings, baseFolder: string): string[] {
  return Object.values(agents).flatMap(({ persona }) => (persona === undefined ? [] : [resolve(baseFolder, persona)]));
}

/** Files that are named and cannot be read, or hold something else. */
function unreadableFiles({ agents }: Settings, file: ConfigFile, baseFolder: string): string[] {
  const isGiven = (path: string[]): boolean => !file.problems.some((problem) => problem.path === path.join("."));
  return Object.entries(agents).flatMap(([name, { persona, accounts }]) => {
    const named = [
      { path: ["persona"], name: persona, allowed: "the path of a text file that is there and can be read", holds: "" },
      ...accounts.map(({ tls }, n) => ({
        path: ["accounts", String(n), "tls", "ca"],
        name: tls?.ca,
        allowed: "the path of a file with certificates in PEM form that is there and can be read",
        holds: "-----BEGIN",
      })),
    ];
    return named.flatMap(({ path: below, name: written, allowed, holds }) => {
      const path = ["agents", name, ...below];
      if (written === undefined || !isGiven(path)) return [];
      return textOf(resolve(baseFolder, written))?.includes(holds) ? [] : [refusal(file, path, allowed).line];
    });
  });
}

/** Undefined where it cannot be read. */
function textOf(path: string): string | undefined {
  try {
    return readOptional(path) ?? undefined;
  } catch (cause) {
    if (cause instanceof TertuliaError) return undefined;
    throw cause;
  }
}

const MODEL_VARIABLES: Readonly<Record<string, string>> = {
  base_url: "TERTULIA_MODEL_URL",
  model: "TERTULIA_MODEL_NAME",
  key: "TERTULIA_MODEL_KEY",
};

/** Small letters go before large ones, as everywhere else; `proxy.example:3128` is http. What is no address stops the start: nothing goes past it in silence. */
function proxiesIn(variables: Environment): { proxies?: Proxies; problems: string[] } {
  const problems: string[] = [];
  const read = (...names: string[]): string | undefined => {
    const name = names.flatMap((one) => [one, one.toUpperCase()]).find((one) => given(variables[one]) !== undefined);
    if (name === undefined) return undefined;
    const written = given(variables[name])!;
    const url = URL.parse(/^[a-z][a-z\d+.-]*:\/\//i.test(written) ? written : `http://${written}`);
    if (url !== null && /^https?:$/.test(url.protocol)) return url.href;
    problems.push(`${name} is no http or https address; what it holds is not shown, as it can be a password`);
    return undefined;
  };
  const addresses = present({ http: read("http_proxy", "all_proxy"), https: read("https_proxy", "all_proxy") });
  if (Object.keys(addresses).length === 0) return { problems };
  return { proxies: { ...addresses, except: given(variables.no_proxy) ?? given(variables.NO_PROXY) ?? "" }, problems };
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
  return {
    problems: parsed.error.issues.map(
      (issue) => `${MODEL_VARIABLES[String(issue.path[0])] ?? "TERTULIA_MODEL_URL"}: needs ${issue.message}`,
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
      limits: config.limits,
      welcome: config.welcome && source.platform !== "http",
      share: isSharedRoom(config, key, source),
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
      limits: "limits",
      ...(agent.defaultSession === undefined ? {} : { defaultSession: `agents.${agent.name}.default_session` }),
    },
  };
}

/** What runs a conversation while nobody has switched it by `/runtime`: chat over platform over agent (B7). Throws `agent_unknown`. */
export function defaultRuntimeOf(
  config: Config,
  { agent: name, key, platform }: { agent: string; key: string; platform: Platform },
): { name: string; from: string } {
  const agent = config.agents[name];
  if (!agent) throw new TertuliaError("agent_unknown", `There is no agent "${name}".`);
  const { value, from } = first<string>([
    [`chats.${key}.runtime`, config.chats[key]?.runtime],
    [`platforms.${platform}.runtime`, config.platforms[platform]?.runtime],
    [`agents.${name}.runtime`, agent.runtime],
  ]);
  return { name: value, from };
}

/** What runs a conversation now: what was chosen by `/runtime`, as long as it is configured, else the default (B7). */
export function runtimeOf(
  config: Config,
  conversation: {
    readonly agent: string;
    readonly key: string;
    readonly target: { readonly platform: Platform };
    readonly runtime: { readonly name: string | null };
  },
): string {
  const { name: chosen } = conversation.runtime;
  if (chosen !== null && config.runtimes[chosen] !== undefined) return chosen;
  const { agent, key, target } = conversation;
  return defaultRuntimeOf(config, { agent, key, platform: target.platform }).name;
}

/** H7: whether a session may be bound in that conversation although others read along, by `rooms.<room>.share`. */
function isSharedRoom(config: Config, key: string, { platform, chatId = "", chatType }: Source): boolean {
  return Object.values(config.rooms).some(({ share, conversation, chat }) => {
    const isChat = chatType !== "dm" && chat?.platform === platform && chat.id === accountId(platform, chatId);
    return share && (conversation === key || isChat);
  });
}

function first<T>(layers: readonly (readonly [from: string, value: T | undefined])[]): { from: string; value: T } {
  for (const [from, value] of layers) if (value !== undefined) return { from, value };
  throw new TertuliaError("internal", "A setting has no default.");
}

// ---- from what is written to what holds

/** The owner exists without being named. */
const UNNAMED: z.output<typeof person> = { tokens: [], accounts: [] };

function build(settings: Settings, { baseFolder }: { baseFolder: string }) {
  const { http, metrics, log, session, reset, turn, pool, limits } = settings;
  const timezone = settings.timezone ?? machineZone();
  const handoff = { ttlMs: settings.handoff.ttl };
  const policies = <K extends string>(layer: Readonly<Partial<Record<K, z.output<typeof policy>>>>) =>
    table(layer, (written) => resetPolicy(written, timezone));

  return {
    timezone,
    http: { host: http.host, port: http.port, token: http.token, systemMessages: http.system_messages },
    metrics: present(metrics),
    log,
    agents: table(settings.agents, (written, name): AgentConfig => {
      return {
        name,
        displayName: written.display_name ?? name,
        runtime: runtimeName(name, written.runtime),
        handoffTtlMs: written.handoff_ttl ?? handoff.ttlMs,
        names: written.names ?? [...new Set([name, written.display_name ?? name])],
        mentionFormat: written.mention_format,
        answer: written.answer,
        accounts: written.accounts.map((account) => accountConfig(account, baseFolder)),
        ...present({
          persona: written.persona === undefined ? undefined : textOf(resolve(baseFolder, written.persona)),
          prompt: written.prompt,
          homeRoom: written.home_room,
          defaultSession: written.default_session,
          busyMode: written.busy_mode,
        }),
      };
    }),
    defaultAgent: settings.default_agent ?? Object.keys(settings.agents)[0] ?? "",
    runtimes: table(
      { demo: { kind: "demo" }, ...inPlace(settings.agents), ...settings.runtimes } as Settings["runtimes"],
      runtimeConfig,
    ),
    people: table({ owner: UNNAMED, ...settings.people }, (written, id): PersonConfig => {
      const role = written.role ?? (id === "owner" ? "owner" : "member");
      const accounts = written.accounts.map(({ platform, id }) => ({ platform, id: accountId(platform, id) }));
      return { id, role, tokens: written.tokens, accounts, ...present({ name: written.name }) };
    }),
    rooms: table(settings.rooms, ({ conversation, platform, chat, share }): RoomConfig => {
      const at = platform === undefined || chat === undefined ? undefined : { platform, id: accountId(platform, chat) };
      return { share, ...present({ conversation, chat: at }) };
    }),
    access: table(settings.access, ({ open, people, rooms, bots }, platform): AccessConfig => {
      const listed = (ids: readonly string[] | undefined) =>
        ids?.map((id) => accountId(platform as Platform, id)) ?? null;
      return { open, people: listed(people), rooms: listed(rooms), bots: listed(bots) };
    }),
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
        runtime: written.runtime,
      }),
    ),
    chats: table(settings.chats, (written) =>
      present({ busyMode: written.busy_mode, prompt: written.prompt, runtime: written.runtime }),
    ),
    pool: {
      idleMinutes: pool.idle_minutes,
      maxWarm: pool.max_warm,
      ...present({ maxMemoryMb: pool.max_memory_mb }),
    },
    handoff,
    limits: {
      guestPerMinute: limits.guest_per_minute,
      guestPerHour: limits.guest_per_hour,
      placePerMinute: limits.place_per_minute,
      accountPerMinute: limits.account_per_minute,
    },
    delivery: { ttlMs: settings.delivery.ttl },
    redactPii: settings.redact_pii,
  } satisfies Partial<Config>;
}

/** A runtime that is described in an agent is named after both. */
function runtimeName(agentName: string, written: z.output<typeof agent>["runtime"]): string {
  if (written.kind === "named") return written.name;
  return written.kind === "demo" ? "demo" : `${written.kind}:${agentName}`;
}

function inPlace(agents: Settings["agents"]): Settings["runtimes"] {
  const described = Object.entries(agents).flatMap(([name, { runtime: written }]) =>
    written.kind === "named" || written.kind === "demo" ? [] : [[runtimeName(name, written), written] as const],
  );
  return Object.fromEntries(described);
}

function accountConfig(written: z.output<typeof agent>["accounts"][number], baseFolder: string): AccountConfig {
  const { platform, jid, password, rooms, nick, service, resource, tls } = written;
  const ca = tls?.ca === undefined ? undefined : resolve(baseFolder, tls.ca);
  return {
    platform,
    id: accountId(platform, jid),
    jid,
    password,
    rooms: rooms.map((room) => {
      const { jid, ...more } = typeof room === "string" ? { jid: room } : room;
      return { jid: accountId(platform, jid), ...present(more) };
    }),
    ...present({ nick, service, resource }),
    ...(tls === undefined ? {} : { tls: present({ ca, insecure: tls.insecure }) }),
  };
}

/** Where its API server listens by itself. */
const HERMES_URL = "http://127.0.0.1:8642";

function runtimeConfig(written: z.output<typeof runtime>): RuntimeConfig {
  if (written.kind === "demo") return { kind: "demo" };
  if (written.kind === "acp") return acpConfig(written);
  if (written.kind === "hermes") {
    const { kind, base_url: baseUrl = HERMES_URL, key, idle_timeout: idleTimeoutMs, model } = written;
    return { kind, baseUrl, key, idleTimeoutMs, ...present({ model }) };
  }
  const { kind, preset, base_url, model, key, window, max_output, idle_timeout, headers } = written;
  return {
    kind,
    model,
    idleTimeoutMs: idle_timeout,
    headers: table(headers, (value) => value),
    ...present({ preset, baseUrl: base_url, key, window, maxOutput: max_output }),
  };
}

function digestConfig(written: Settings["digest"], home: string | null): DigestConfig {
  const { interval, idle_minutes, limit, lang, noise } = written;
  return { home, intervalMs: interval, idleMinutes: idle_minutes, limit, lang, noise };
}

function acpConfig(written: z.output<typeof acpRuntime>): RuntimeConfig {
  const { kind, preset, command, args, env, context_file, quiet_time: quietTimeMs } = written;
  const contextFile = context_file === "none" ? null : context_file;
  return { kind, env: table(env, (value) => value), ...present({ preset, command, args, contextFile, quietTimeMs }) };
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
