/** The known name that differs in at most a third of the letters; undefined where none does. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const allowed = Math.max(1, Math.floor(word.length / 3));
  let best: string | undefined;
  let least = allowed + 1;
  for (const candidate of word === "" ? [] : known) {
    if (Math.abs(candidate.length - word.length) >= least) continue;
    const steps = distance(word, candidate);
    if (steps < least) [best, least] = [candidate, steps];
  }
  return best;
}

/** The nearest first: those that contain the name or stand in it, then those with the fewest other letters; of equals the shorter. */
export function byNearness(name: string, names: readonly string[]): readonly string[] {
  const holds = (a: string, b: string): boolean => a.toLowerCase().includes(b.toLowerCase());
  return [...new Set(names)]
    .map((other) => ({ other, isPart: holds(other, name) || holds(name, other), steps: distance(name, other) }))
    .sort(
      (a, b) =>
        Number(b.isPart) - Number(a.isPart) ||
        a.steps - b.steps ||
        a.other.length - b.other.length ||
        a.other.localeCompare(b.other, "en"),
    )
    .map(({ other }) => other);
}

/** Letters added, dropped, replaced or swapped with the next one; case does not count. */
function distance(one: string, other: string): number {
  const [a, b] = [one.toLowerCase(), other.toLowerCase()];
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwap = j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwap ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [before, last] = [last, row];
  }
  return last[b.length] ?? 0;
}
