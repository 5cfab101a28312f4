import { type AgentConfig, type Config, inheritedEnvironment } from "./config.ts";
import type { AgentFacts } from "./conversation/agent-facts.ts";
import { createAcpRuntime } from "./runtime/acp/acp-runtime.ts";
import { acpAgent } from "./runtime/acp/presets.ts";
import { createDemoRuntime } from "./runtime/demo/demo-runtime.ts";
import { createHermesRuntime } from "./runtime/hermes/hermes-runtime.ts";
import { createHttpRuntime, DEFAULT_WINDOW } from "./runtime/http/http-runtime.ts";
import { withPreset } from "./runtime/http/presets.ts";
import type { Runtime } from "./runtime/runtime.ts";
import type { Clock } from "./util/clock.ts";

export interface RuntimesOptions {
  readonly clock: Clock;
  readonly chance: () => number;
  /** By kind, instead of the built-in ones. */
  readonly given?: Readonly<Record<string, Runtime>>;
}

/** One runtime for each agent of the configuration; those of the demo share one. Throws `config_invalid`. */
export function createRuntimes(config: Config, options: RuntimesOptions): ReadonlyMap<string, Runtime> {
  const demo = options.given?.demo ?? createDemoRuntime({ clock: options.clock });
  return new Map(
    Object.values(config.agents).map((agent) => [agent.name, createRuntime(config, agent, options, demo)]),
  );
}

function createRuntime(
  config: Config,
  { name, runtime }: AgentConfig,
  { clock, chance, given }: RuntimesOptions,
  demo: Runtime,
): Runtime {
  if (runtime.kind === "demo") return demo;
  const other = given?.[runtime.kind];
  if (other !== undefined) return other;
  if (runtime.kind === "acp") {
    const { env, ...written } = runtime;
    const inherited = inheritedEnvironment();
    return createAcpRuntime({
      name: `acp:${name}`,
      agent: acpAgent(written),
      env,
      inherited,
      home: config.home,
      clock,
    });
  }
  if (runtime.kind === "hermes") return createHermesRuntime({ ...runtime, name: `hermes:${name}`, clock, chance });
  const { preset, baseUrl, window, headers, ...model } = runtime;
  const written = {
    headers,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(window === undefined ? {} : { window }),
  };
  const server = preset === undefined ? written : withPreset(preset, written);
  return createHttpRuntime({ name: `http:${name}`, clock, chance, ...model, ...server, baseUrl: server.baseUrl ?? "" });
}

/** R5: what a person is told of an agent. */
export function describeAgent(config: Config, name: string): AgentFacts {
  const agent = config.agents[name];
  const base = { agent: agent?.displayName ?? name, runtime: agent?.runtime.kind ?? "none" };
  if (agent?.runtime.kind === "hermes") return { ...base, ...withEndpoint(agent.runtime.baseUrl) };
  if (agent?.runtime.kind !== "http") return base;
  const { preset, baseUrl, window, model } = agent.runtime;
  const known = preset === undefined ? undefined : withPreset(preset, {});
  return {
    ...base,
    model,
    window: window ?? known?.window ?? DEFAULT_WINDOW,
    windowFrom: window !== undefined ? "configured" : known !== undefined ? "preset" : "default",
    ...withEndpoint(baseUrl ?? known?.baseUrl),
  };
}

function withEndpoint(url: string | undefined): { endpoint?: string } {
  const endpoint = localAddress(url);
  return endpoint === null ? {} : { endpoint };
}

/** Only of this machine, and without what an address can hide: user, password, query. */
function localAddress(url: string | undefined): string | null {
  if (url === undefined || !URL.canParse(url)) return null;
  const { protocol, hostname, host, pathname } = new URL(url);
  const isLocal = hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
  return isLocal ? `${protocol}//${host}${pathname.replace(/\/$/, "")}` : null;
}
