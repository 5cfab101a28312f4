import { isDeepStrictEqual } from "node:util";
import type { Platform } from "../message/source.ts";
import type { Config } from "./config.ts";
import { deepFreeze } from "./data.ts";

/** What of a new configuration can hold while the gateway runs (A3). */

/** Read once, when the gateway is built. */
const AT_START = [
  "home",
  "http",
  "log",
  "pool",
  "delivery",
  "client",
  "proxies",
] as const satisfies readonly (keyof Config)[];

interface Reloaded {
  readonly config: Config;
  /** Key paths that have changed and stay as they were until the next start. */
  readonly needsRestart: readonly string[];
}

/** The new configuration, with what can only change at a start taken from the old one. */
export function reloaded(old: Config, next: Config): Reloaded {
  const kept = AT_START.filter((key) => !isDeepStrictEqual(old[key], next[key]));
  const changed = Object.keys(next.runtimes).filter(
    (name) => old.runtimes[name] !== undefined && !isDeepStrictEqual(old.runtimes[name], next.runtimes[name]),
  );
  const runtimes: Config["runtimes"] = Object.assign(
    Object.create(null),
    next.runtimes,
    Object.fromEntries(changed.map((name) => [name, old.runtimes[name]])),
  );
  const atStart = Object.fromEntries(AT_START.map((key) => [key, old[key]]));
  return {
    config: deepFreeze({ ...next, ...atStart, runtimes }),
    needsRestart: [...kept.filter((key) => key !== "client"), ...changed.map((name) => `runtime ${name}`)],
  };
}

/** Platforms where agents have accounts and nobody is let in: no person has an account there, no list, no switch (A1). */
export function silentPlatforms(config: Config): Platform[] {
  const platforms = new Set(
    Object.values(config.agents).flatMap(({ accounts }) => accounts.map((one) => one.platform)),
  );
  return [...platforms].filter((platform) => {
    const access = config.access[platform];
    const isKnown = Object.values(config.people).some(({ accounts }) =>
      accounts.some((one) => one.platform === platform),
    );
    return !isKnown && !access?.open && !access?.people?.length && !access?.rooms?.length;
  });
}
