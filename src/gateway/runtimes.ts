import { type Config, inheritedEnvironment, type RuntimeConfig, saidAt } from "../config/config.ts";
import { invalid } from "../config/file.ts";
import type { AgentFacts } from "../conversation/agent-facts.ts";
import { asTertuliaError } from "../errors.ts";
import { createAcpRuntime } from "../runtime/acp/acp-runtime.ts";
import { Leftovers } from "../runtime/acp/leftovers.ts";
import { acpAgent } from "../runtime/acp/presets.ts";
import { createDemoRuntime } from "../runtime/demo/demo-runtime.ts";
import { createHermesRuntime } from "../runtime/hermes/hermes-runtime.ts";
import { createHttpRuntime, DEFAULT_WINDOW } from "../runtime/http/http-runtime.ts";
import { withPreset } from "../runtime/http/presets.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { type Clock, systemClock } from "../util/clock.ts";
import type { Log } from "../util/log.ts";
import { isLoopback } from "../util/loopback.ts";
import { createFetch } from "../util/outgoing.ts";

export interface RuntimesOptions {
  readonly clock: Clock;
  readonly chance: () => number;
  readonly log?: Log;
  /** What a session's agent signs in with at this gateway, scoped to that session (A6, B9); without it agents get none. */
  readonly tokenFor?: (sessionId: string) => string;
  /** By name or by kind, instead of the built-in ones. */
  readonly given?: Readonly<Record<string, Runtime>>;
}

/** Every runtime of the configuration by its name. Nothing is started by it. Throws `config_invalid`, with a line for each that cannot be. */
export function createRuntimes(config: Config, options: RuntimesOptions): Map<string, Runtime> {
  const { runtimes, problems } = attemptRuntimes(config, options);
  if (problems.length > 0) throw invalid(problems.map(({ path, sentence }) => saidAt(config, path, sentence)));
  return runtimes;
}

/** What keeps a runtime of the configuration from being made, by the path of its key (E6). */
export function runtimeProblems(config: Config): readonly SettingProblem[] {
  return attemptRuntimes(config, { clock: systemClock, chance: Math.random }).problems;
}

interface SettingProblem {
  readonly path: string;
  readonly sentence: string;
}

function attemptRuntimes(config: Config, options: RuntimesOptions) {
  const runtimes = new Map<string, Runtime>();
  const problems: SettingProblem[] = [];
  for (const name of Object.keys(config.runtimes)) {
    try {
      runtimes.set(name, createRuntime(config, name, options));
    } catch (cause) {
      const { code, message, setting } = asTertuliaError(cause);
      if (code !== "config_invalid") throw cause;
      problems.push({
        path: [pathOf(config, name), ...(setting === undefined ? [] : [setting])].join("."),
        sentence: message,
      });
    }
  }
  return { runtimes, problems };
}

/** Where it is described: under its name, or in its agent. */
function pathOf({ agents, origins }: Config, name: string): string {
  if (origins[`runtimes.${name}`] !== undefined) return `runtimes.${name}`;
  const agent = Object.values(agents).find(({ runtime }) => runtime === name);
  return agent === undefined ? `runtimes.${name}` : `agents.${agent.name}.runtime`;
}

/** Ends agents of an earlier gateway of this home that was killed (B8). For whoever holds the home, and before anything is opened. */
export function endLeftovers({ home }: Config): void {
  new Leftovers(home).end();
}

function createRuntime(
  config: Config,
  name: string,
  { clock, chance, log, given, tokenFor }: RuntimesOptions,
): Runtime {
  const runtime = config.runtimes[name]!;
  const { proxies } = config;
  const fetch = createFetch(proxies);
  const other = given?.[name] ?? given?.[runtime.kind];
  if (other !== undefined) return other;
  switch (runtime.kind) {
    case "demo":
      return createDemoRuntime({ name, clock });
    case "acp": {
      const { env, ...written } = runtime;
      const inherited = inheritedEnvironment();
      return createAcpRuntime({
        name,
        agent: acpAgent(written),
        env,
        inherited,
        home: config.home,
        clock,
        log,
        ...(tokenFor === undefined ? {} : { tokenFor }),
      });
    }
    case "hermes":
      return createHermesRuntime({ ...runtime, name, clock, chance, fetch, proxies });
    case "http": {
      const { preset, baseUrl, window, headers, ...model } = runtime;
      const written = {
        headers,
        ...(baseUrl === undefined ? {} : { baseUrl }),
        ...(window === undefined ? {} : { window }),
      };
      const server = preset === undefined ? written : withPreset(preset, written);
      return createHttpRuntime({
        name,
        clock,
        chance,
        fetch,
        proxies,
        ...model,
        ...server,
        baseUrl: server.baseUrl ?? "",
      });
    }
  }
}

const PROBE_MS = 15_000;

export interface RuntimeReport {
  readonly name: string;
  readonly kind: RuntimeConfig["kind"];
  readonly ok: boolean;
  readonly version: string | null;
  readonly abilities: readonly string[];
  /** Those that it runs by default. */
  readonly agents: readonly string[];
  readonly detail: string;
  readonly missing?: string;
}

/** Asks every runtime of the configuration whether it can run, each on an instance of its own that is closed again. Never rejects for one of them. */
export async function probeRuntimes(config: Config, { clock }: { clock: Clock }): Promise<readonly RuntimeReport[]> {
  const runtimes = createRuntimes(config, { clock, chance: Math.random });
  return Promise.all(
    [...runtimes].map(async ([name, runtime]): Promise<RuntimeReport> => {
      const { kind } = config.runtimes[name]!;
      const agents = Object.values(config.agents).flatMap((agent) => (agent.runtime === name ? [agent.name] : []));
      try {
        const { version = null, abilities = [], ...probe } = await runtime.probe(AbortSignal.timeout(PROBE_MS));
        return { name, kind, version, abilities, agents, ...probe };
      } catch (cause) {
        const { message, remedy } = asTertuliaError(cause);
        return { name, kind, ok: false, version: null, abilities: [], agents, detail: message, missing: remedy };
      } finally {
        await runtime.close();
      }
    }),
  );
}

/** R5: what a person is told of an agent on a runtime. */
export function describeAgent(config: Config, name: string, runtimeName: string): AgentFacts {
  const runtime = config.runtimes[runtimeName];
  const base = { agent: config.agents[name]?.displayName ?? name, runtime: labelOf(runtimeName) };
  if (runtime?.kind === "hermes") return { ...base, ...withEndpoint(runtime.baseUrl) };
  if (runtime?.kind !== "http") return base;
  const { preset, baseUrl, window, model } = runtime;
  const known = preset === undefined ? undefined : withPreset(preset, {});
  return {
    ...base,
    model,
    window: window ?? known?.window ?? DEFAULT_WINDOW,
    windowFrom: window !== undefined ? "configured" : known !== undefined ? "preset" : "default",
    ...withEndpoint(baseUrl ?? known?.baseUrl),
  };
}

/** A runtime that is described in its agent is called by its kind. */
function labelOf(runtimeName: string): string {
  return runtimeName.split(":", 1)[0] ?? runtimeName;
}

function withEndpoint(url: string | undefined): { endpoint?: string } {
  const endpoint = localAddress(url);
  return endpoint === null ? {} : { endpoint };
}

/** Only of this machine, and without what an address can hide: user, password, query. */
function localAddress(url: string | undefined): string | null {
  if (url === undefined || !URL.canParse(url)) return null;
  const { protocol, hostname, host, pathname } = new URL(url);
  return isLoopback({ hostname }) ? `${protocol}//${host}${pathname.replace(/\/$/, "")}` : null;
}
