import type { Author } from "../message/message.ts";
import { lookOf, nameInMark, shorten } from "../text/untrusted.ts";
import type { IdMask } from "./id-mask.ts";

/** Speakers: the marks of authors where several people speak (C2, G2), made from who really wrote, never from a text. */
export interface Speakers {
  /** `[YOU]`, `[Ann]`, or `[Ann #91bc3e]` if somebody else has that name too. An author has the same mark at every door. */
  markOf(author: Author): string;
  /** The tag in the author's mark; null if the name alone is enough. */
  tagOf(author: Author): string | null;
  /** The name in the author's mark, without characters that could form a mark; empty if no name may be shown (C5). */
  nameOf(author: Author): string;
}

interface SpeakersOptions {
  readonly agent: string;
  /** Everybody whose words the agent may see: names are compared among them. */
  readonly known: Iterable<Author>;
  /** Ids of people without a name are shown as ids of this platform. */
  readonly platform: string;
  readonly mask: IdMask;
}

export function createSpeakers({ agent, known, platform, mask }: SpeakersOptions): Speakers {
  const idOf = (author: Author): string => `${author.kind}:${author.id}`;
  const nameOf = (author: Author): string => {
    const name =
      author.kind === "agent" ? (author.name ?? author.id) : mask.name(platform, author.name ?? "", author.id);
    return nameInMark(name);
  };
  const labelOf = (author: Author): string =>
    nameOf(author) || shorten(nameInMark(mask.user(platform, author.id)), 40) || "somebody";
  // Names that look the same count as the same.
  const bearers = new Map<string, Set<string>>();
  const note = (author: Author): void => {
    const label = lookOf(labelOf(author));
    bearers.set(label, (bearers.get(label) ?? new Set()).add(idOf(author)));
  };
  for (const author of known) note(author);

  const tagOf = (author: Author): string | null => {
    const label = labelOf(author);
    const others = bearers.get(lookOf(label)) ?? new Set();
    const isAlone = label !== "somebody" && [...others].every((other) => other === idOf(author));
    return isAlone ? null : `#${mask.tag(idOf(author))}`;
  };
  return {
    nameOf,
    tagOf,
    markOf(author) {
      if (author.kind === "agent" && author.id === agent) return "[YOU]";
      const tag = tagOf(author);
      return `[${labelOf(author)}${tag === null ? "" : ` ${tag}`}]`;
    },
  };
}
