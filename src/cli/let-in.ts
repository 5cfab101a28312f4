import type { Config } from "../config.ts";
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
