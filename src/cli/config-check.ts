import { shownAddress } from "../config/complaint.ts";
import {
  type Config,
  type ConfigFlags,
  configKeys,
  loadConfig,
  type Origin,
  originOf,
  runtimeKeys,
} from "../config/config.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { output } from "./output.ts";
import { table } from "./table.ts";

const NOT_SHOWN = "not shown";

/** E2: `tertulia config check` says every problem, or what holds and where each value comes from. */
export async function configCheck({ json, ...flags }: ConfigFlags & { json?: boolean }): Promise<void> {
  const config = checked(flags);
  const values = effectiveValues(config);
  if (json) {
    output(JSON.stringify({ ok: true, home: config.home, file: config.files.config, values }));
    return;
  }
  const rows = Object.entries(values).map(([path, { value, from }]) => [path, from, shown(value)]);
  output(
    [
      `The configuration is good (${config.files.config ?? "no file: everything at its default"}).`,
      `State folder: ${config.home} (${originOf(config, "home")})`,
      ...fromEnvironment(config),
      "",
      table([["KEY", "FROM", "VALUE"], ...rows]),
    ].join("\n"),
  );
}

function checked(flags: ConfigFlags): Config {
  try {
    return loadConfig({ flags });
  } catch (cause) {
    const error = asTertuliaError(cause);
    if (error.code !== "config_invalid") throw cause;
    const remedy = "Correct what is named; docs/configuration.md has every key, config.example.yaml every default.";
    throw new TertuliaError(error.code, error.message, { cause, remedy });
  }
}

function fromEnvironment({ client }: Config): string[] {
  return [
    ...(client.token === undefined ? [] : ["TERTULIA_TOKEN is set (not shown): commands send it."]),
    ...(client.sessionId === undefined ? [] : [`TERTULIA_SESSION_ID is ${client.sessionId}: sends speak for it.`]),
  ];
}

interface Effective {
  readonly value: string | number | boolean;
  readonly from: Origin;
}

/** Keys whose values are secrets, or may be. */
const SECRETS: readonly string[] = [
  "metrics.token",
  "agents.*.runtime.key",
  "agents.*.runtime.headers.*",
  "agents.*.runtime.env.*",
  "runtimes.*.key",
  "runtimes.*.headers.*",
  "runtimes.*.env.*",
];

/** By key path as in the file, with the owner's names in place of `*`. Tokens are counted; no secret is shown. */
export function effectiveValues(config: Config): Readonly<Record<string, Effective>> {
  const values: Record<string, Effective> = {};
  const written = asWritten(config);
  for (const { path: pattern, fallback } of [...configKeys(), ...runtimeKeys("runtimes.*")]) {
    for (const { path, value } of valuesAt(written, pattern.split("."))) {
      const from = originOf(config, path);
      const isAsWritten = from === "default" && typeof fallback === "string";
      values[path] = { value: isAsWritten ? fallback : disclosed(pattern, value), from };
    }
  }
  return values;
}

/** In the shape of the file: each runtime where it is described, in its agent or under its name. */
function asWritten(config: Config) {
  const isNamed = (name: string): boolean => config.origins[`runtimes.${name}`] !== undefined;
  const agents = Object.entries(config.agents).map(([name, agent]) => {
    const inPlace = config.origins[`agents.${name}.runtime.kind`] !== undefined || !isNamed(agent.runtime);
    return [name, inPlace ? { ...agent, runtime: config.runtimes[agent.runtime] } : agent] as const;
  });
  const rooms = Object.entries(config.rooms).map(([name, { chat, ...room }]) => {
    return [name, chat === undefined ? room : { ...room, platform: chat.platform, chat: chat.id }] as const;
  });
  return {
    ...config,
    rooms: Object.fromEntries(rooms),
    reset: { ...config.reset, jobHoldHours: config.reset.jobHoldMs / 3_600_000 },
    agents: Object.fromEntries(agents),
    runtimes: Object.fromEntries(Object.entries(config.runtimes).filter(([name]) => isNamed(name))),
  };
}

function disclosed(pattern: string, value: Effective["value"]): Effective["value"] {
  if (SECRETS.includes(pattern)) return NOT_SHOWN;
  return pattern.endsWith(".base_url") ? (shownAddress(String(value)) ?? NOT_SHOWN) : value;
}

interface Found {
  readonly path: string;
  readonly value: string | number | boolean;
}

function valuesAt(node: unknown, pattern: readonly string[], before: readonly string[] = []): readonly Found[] {
  const [step, ...rest] = pattern;
  if (step === undefined) return found(node, before);
  if (typeof node !== "object" || node === null) return [];
  const tree = node as Readonly<Record<string, unknown>>;
  if (step === "*") return Object.keys(tree).flatMap((name) => valuesAt(tree[name], rest, [...before, name]));
  const field = step.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  const here = [...before, step];
  // A duration is written with its unit and kept in milliseconds.
  const ms = rest.length === 0 ? tree[`${field}Ms`] : undefined;
  return typeof ms === "number" && !(field in tree) ? found(duration(ms), here) : valuesAt(tree[field], rest, here);
}

function found(value: unknown, path: readonly string[]): readonly Found[] {
  if (Array.isArray(value))
    return [{ path: path.join("."), value: value.length === 0 ? "none" : `${value.length}, not shown` }];
  if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") return [];
  return [{ path: path.join("."), value }];
}

function duration(ms: number): string {
  const units = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["m", 60_000],
    ["s", 1_000],
  ] as const;
  const unit = units.find(([, size]) => ms % size === 0);
  return unit === undefined ? `${ms}ms` : `${ms / unit[1]}${unit[0]}`;
}

function shown(value: string | number | boolean): string {
  const text = String(value);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
