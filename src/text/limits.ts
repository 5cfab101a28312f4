import type { Platform } from "../message/source.ts";
import type { Target } from "../message/target.ts";
import type { Limit } from "./unit.ts";

/**
 * How long one message may be, by platform (O3). Where a platform does not say how it counts, its characters are taken as UTF-16
 * units: no other count of characters is larger.
 */
const LIMITS: Readonly<Record<Platform, Limit | null>> = {
  console: null,
  web: null,
  http: null,
  telegram: { limit: 4_096, unit: "utf16" },
  // Its API counts code points: https://github.com/discord/discord-api-docs/issues/1315
  discord: { limit: 2_000, unit: "codepoints" },
  // It takes more and cuts it off silently beyond 40,000; 4,000 is what it recommends.
  slack: { limit: 4_000, unit: "utf16" },
  weixin: { limit: 2_000, unit: "utf16" },
  // A stanza may have 262,144 bytes; people read shorter ones, and escaping makes a byte six at most.
  xmpp: { limit: 8_000, unit: "bytes" },
};

/** Null where a text is taken whole: at a pull door. */
export function limitOf(target: Target): Limit | null {
  return target.door === "pull" ? null : LIMITS[target.platform];
}
