import type { Command } from "commander";
import { shownAddress } from "../config/complaint.ts";
import { type Config, type ConfigFlags, configKeys, type Origin, originOf, runtimeKeys } from "../config/config.ts";
import { invalid } from "../config/file.ts";
import { TertuliaError } from "../errors.ts";
import { type Judgement, judge, lostSessions } from "../gateway/judge.ts";
import { refusalsOfMachine } from "../gateway/start.ts";
import { output, printable } from "./output.ts";
import { sessionById } from "./state.ts";
import { table } from "./table.ts";

const NOT_SHOWN = "not shown";

export function configCommand(config: Command): void {
  config
    .command("check")
    .description("say every problem, or what holds and where each value comes from")
    .option("--json", "print the values as JSON")
    .action((_options, command) => configCheck(command.optsWithGlobals()));
}

/** E2, E6: `tertulia config check` says every problem, or what holds and where each value comes from. */
async function configCheck({ json, ...flags }: ConfigFlags & { json?: boolean }): Promise<void> {
  const { config, warnings: idle } = await checked(flags);
  const warnings = [...idle, ...(await lostSessionsOf(config))];
  const values = effectiveValues(config);
  if (json) {
    output(JSON.stringify({ ok: true, home: config.home, file: config.files.config, warnings, values }));
    return;
  }
  const rows = Object.entries(values).map(([path, { value, from }]) => [path, from, shown(value)]);
  output(
    [
      `The configuration is good (${config.files.config ?? "no file: everything at its default"}).`,
      `State folder: ${config.home} (${originOf(config, "home")})`,
      ...fromEnvironment(config),
      ...warnings.map((warning) => `Warning: ${printable(warning)}`),
      "",
      table([["KEY", "FROM", "VALUE"], ...rows]),
    ].join("\n"),
  );
}

async function checked(flags: ConfigFlags): Promise<Judgement> {
  const judgement = judge({ flags });
  // Where the file is wrong, the address that it means may be another one.
  const refusals = judgement.problems.length > 0 ? [] : await refusalsOfMachine(judgement.config);
  const all = [...judgement.problems, ...refusals.map(({ message }) => message)];
  if (all.length === 0) return judgement;
  const [refusal] = refusals;
  if (refusal !== undefined)
    throw new TertuliaError(refusal.code, all.join("\n"), { cause: refusal, remedy: refusal.remedy });
  const cause = invalid(all);
  const remedy = "Correct what is named; docs/configuration.md has every key, config.example.yaml every default.";
  throw new TertuliaError(cause.code, cause.message, { cause, remedy });
}

/** As far as the state can be read: `doctor` says where it cannot. */
async function lostSessionsOf(config: Config): Promise<string[]> {
  try {
    return await Array.fromAsync(lostSessions(config, (id) => sessionById(config, id)));
  } catch (cause) {
    if (cause instanceof TertuliaError) return [];
    throw cause;
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
