import { isMasked, maskOf } from "./mask.ts";

export type Rule = (text: string) => string;

/** Replaces what `pick` finds in the group `secret` of every match, or in the whole of it. `pick` gives `""` where there is no secret. */
export function rule(pattern: RegExp, pick: (found: string, groups: Groups) => string = (found) => found): Rule {
  return (text) =>
    text.replace(pattern, (...found) => {
      const match = found[0] as string;
      const last: unknown = found.at(-1);
      const hasGroups = typeof last === "object" && last !== null;
      const groups = (hasGroups ? last : {}) as Groups;
      const offset = found.at(hasGroups ? -3 : -2) as number;
      const where = groups.secret ?? match;
      // The first half of a mask is no new secret.
      if (isMasked(where) || text.charAt(offset + match.length) === "…") return match;
      const secret = pick(where, groups);
      if (secret === "") return match;
      const at = match.lastIndexOf(where) + where.indexOf(secret);
      return match.slice(0, at) + maskOf(secret) + match.slice(at + secret.length);
    });
}

type Groups = Readonly<Record<string, string | undefined>>;

export function when(isSecret: (secret: string) => boolean): (found: string) => string {
  return (found) => (isSecret(found) ? found : "");
}
