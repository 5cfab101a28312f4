const LONGEST = 60;

/** A title in one line, at most 60 code points: the beginning of a text, cut between words where it has to be. Empty where nothing is left. */
export function titleOf(text: string): string {
  const flat = text
    .slice(0, 8 * LONGEST)
    .toWellFormed()
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s\u202a-\u202e\u2066-\u2069]+/gu, " ")
    .trim();
  const points = Array.from(flat);
  if (points.length <= LONGEST) return flat;
  const head = points.slice(0, LONGEST - 1).join("");
  // Without a space near the end it is cut where it stands: Chinese has none.
  const words = /^(.{30,})\s\S*$/u.exec(head)?.[1];
  return `${words ?? head}…`;
}
