/**
 * Config: what the owner decided, read once, checked as a whole and frozen (E1, E2). Owns the file, the `.env` beside it and the
 * process environment: nothing else reads `process.env`. Order: flag, environment, file, default. A setting that is not understood stops
 * the start; nothing is clamped or guessed. Every complaint names file and line, key, value and what is allowed, and no secret.
 */

import { dirname, join, resolve } from "node:path";
import type { z } from "zod";
import type { BusyMode } from "../conversation/queue-decision.ts";
import { isTimeZone, policyFor } from "../conversation/reset-policy.ts";
import { DEFAULT_KEY_RULES, sessionKeyFor } from "../conversation/session-key.ts";
import { TertuliaError } from "../errors.ts";
import { accountId, type Platform, type Source } from "../message/source.ts";
import type { AdmitRules } from "../store/events.ts";
import { isRecord } from "../util/is-record.ts";
import type { Proxies } from "../util/outgoing.ts";
import { check, problemAt, refusal } from "./complaint.ts";
import {
  type DeepReadonly,
  deepFreeze,
  type Environment,
  given,
  numeral,
  present,
  table,
  withoutPrototype,
} from "./data.ts";
import { type ConfigFile, emptyFile, homeOf, invalid, locate, readDotEnv, readFile, readOptional } from "./file.ts";
import { http, httpRuntime, nameOf, type Settings } from "./schema.ts";

export {
  type AgentPreset,
  configKeys,
  type ModelPreset,
  runtimeKeys,
} from "./schema.ts";

/** Maps have no prototype: a lookup finds only what was configured. */
export interface Config extends Built {
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
  /** By key path as written in the file, without the defaults; `originOf` reads it. */
  readonly origins: Readonly<Record<string, Origin>>;
}

type Built = DeepReadonly<ReturnType<typeof build>>;

export type Origin = "flag" | "env" | "file" | "default";

export type AgentConfig = Built["agents"][string];
export type AccountConfig = AgentConfig["accounts"][number];
export type RuntimeConfig = Built["runtimes"][string];

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
interface ConfigReading {
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
  const { settings: written, problems, leftOut } = check(file);
  const files = unreadableFiles(written, file, baseFolder);
  const model = modelFromEnvironment(variables);
  const proxied = proxiesIn(variables);
  const settings = model.runtime === undefined ? written : withDefaultRuntime(written, model.runtime);
  if (model.runtime !== undefined) {
    for (const [setting, schema] of Object.entries(httpRuntime.in.shape)) {
      if (!(nameOf(setting, schema) in model.runtime)) continue;
      const path = `agents.${defaultAgentOf(settings)}.runtime.${setting}`;
      origins[path] = "env";
      file.places.set(path, MODEL_VARIABLES[setting] ?? "TERTULIA_MODEL_URL");
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
    ...build(settings, { baseFolder, env }),
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

interface RulesRequest {
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

interface Surroundings {
  readonly baseFolder: string;
  readonly env: Environment;
}

/** What refers to something else is resolved; the rest is as the schema gives it. */
function build(settings: Settings, { baseFolder, env }: Surroundings) {
  const timezone = settings.timezone ?? machineZone();
  const inZone = (policy: Settings["reset"]["default"]) => ({ ...policy, timezone: policy.timezone ?? timezone });
  const { jobHoldHours, ...reset } = settings.reset;
  const access: Readonly<Partial<Record<Platform, Settings["access"]["xmpp"] & object>>> = settings.access;
  const people: Settings["people"] = { owner: UNNAMED, ...settings.people };

  return {
    ...settings,
    timezone,
    agents: table(settings.agents, (agent, name) => agentOf(agent, { name, settings, baseFolder })),
    defaultAgent: defaultAgentOf(settings),
    runtimes: runtimesIn(settings),
    people: table(people, (person, id) => ({
      ...person,
      id,
      role: person.role ?? (id === "owner" ? ("owner" as const) : ("member" as const)),
      accounts: person.accounts.map(({ platform, id }) => ({ platform, id: accountId(platform, id) })),
    })),
    rooms: table(settings.rooms, ({ conversation, platform, chat, share }) => {
      const at = platform === undefined || chat === undefined ? undefined : { platform, id: accountId(platform, chat) };
      return { share, ...present({ conversation, chat: at }) };
    }),
    access: table(access, ({ open, people, rooms, bots }, platform) => {
      const listed = (ids: readonly string[] | null) => ids?.map((id) => accountId(platform, id)) ?? null;
      return { open, people: listed(people), rooms: listed(rooms), bots: listed(bots) };
    }),
    reset: {
      default: inZone(reset.default),
      platforms: table(reset.platforms, inZone),
      types: table(reset.types, inZone),
      chats: table(reset.chats, inZone),
      /** An open background job younger than this holds a reset (R2). */
      jobHoldMs: jobHoldHours * 3_600_000,
    },
    digest: { ...settings.digest, home: locate("digest.home", settings.digest.home, undefined, env) ?? null },
  };
}

/** The owner exists without being named. */
const UNNAMED: Settings["people"][string] = { tokens: [], accounts: [] };

function defaultAgentOf(settings: Settings): string {
  return settings.defaultAgent ?? Object.keys(settings.agents)[0] ?? "";
}

function withDefaultRuntime(settings: Settings, runtime: z.output<typeof httpRuntime>): Settings {
  const name = defaultAgentOf(settings);
  const agents = table(settings.agents, (agent, other) => (other === name ? { ...agent, runtime } : agent));
  return { ...settings, agents };
}

type AgentSettings = Settings["agents"][string];

function agentOf(
  { persona, accounts, runtime, ...agent }: AgentSettings,
  { name, settings, baseFolder }: { name: string; settings: Settings; baseFolder: string },
) {
  const displayName = agent.displayName ?? name;
  const text = persona === undefined ? undefined : textOf(resolve(baseFolder, persona));
  return {
    ...agent,
    name,
    displayName,
    names: agent.names ?? [...new Set([name, displayName])],
    /** A name in `runtimes`. */
    runtime: runtimeName(name, runtime),
    handoffTtlMs: agent.handoffTtlMs ?? settings.handoff.ttlMs,
    accounts: accounts.map((account) => accountOf(account, baseFolder)),
    /** The text of the file. */
    ...present({ persona: text }),
  };
}

/** `id` is what its channel and its sources call it. */
function accountOf({ tls, ...account }: AgentSettings["accounts"][number], baseFolder: string) {
  const { platform, jid, rooms } = account;
  const ca = tls?.ca === undefined ? undefined : resolve(baseFolder, tls.ca);
  return {
    ...account,
    id: accountId(platform, jid),
    rooms: rooms.map((room) => ({ ...room, jid: accountId(platform, room.jid) })),
    ...present({ tls: tls && { ...tls, ...present({ ca }) } }),
  };
}

/** A runtime that is described in an agent is named after both. */
function runtimeName(agentName: string, written: AgentSettings["runtime"]): string {
  if (written.kind === "named") return written.name;
  return written.kind === "demo" ? "demo" : `${written.kind}:${agentName}`;
}

/** Those of `runtimes:`, those described in an agent, and always `demo`. */
function runtimesIn({ agents, runtimes }: Settings): Settings["runtimes"] {
  const described = Object.entries(agents).flatMap(([name, { runtime }]) =>
    runtime.kind === "named" || runtime.kind === "demo" ? [] : [[runtimeName(name, runtime), runtime] as const],
  );
  return withoutPrototype({ demo: { kind: "demo" }, ...Object.fromEntries(described), ...runtimes });
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
