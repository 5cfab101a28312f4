import type { Config } from "../config/config.ts";
import { trustedUid } from "../http/peer.ts";
import { plural } from "./table.ts";

/** Whom agents answer on each platform where they have accounts (A1), a phrase each: `xmpp: 1 person, whoever is in core@x.org`. */
export function letIn({ agents, people, access }: Config): string[] {
  const platforms = new Set(Object.values(agents).flatMap(({ accounts }) => accounts.map(({ platform }) => platform)));
  return [...platforms].map((platform) => {
    const { open = false, people: listed, rooms, bots } = access[platform] ?? {};
    if (open) return `${platform}: everybody`;
    const known = Object.values(people).flatMap(({ accounts }) => accounts.filter((one) => one.platform === platform));
    const count = new Set([...known.map(({ id }) => id), ...(listed ?? [])]).size;
    const who = [
      ...(count === 0 ? [] : [plural(count, "account")]),
      ...(rooms ?? []).map((room) => `whoever is in ${room}`),
      ...(bots?.length ? [plural(bots.length, "bot")] : []),
    ];
    return `${platform}: ${who.join(", ") || "nobody (docs/access.md)"}`;
  });
}

export function isLoopback(host: string): boolean {
  return host.startsWith("127.") || host === "::1" || host === "localhost";
}

/** Who is let in over HTTP from this machine (A11). */
export function trustedOverHttp({ token }: Config["http"]): string {
  if (token === "loopback") return "every user of this machine, as the owner";
  return token === "always" || trustedUid() === null
    ? "bearers of a token"
    : "this user's own programs, as the owner, and bearers of a token";
}
