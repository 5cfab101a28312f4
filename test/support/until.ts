/** Looks until something holds, for real processes that say nothing by themselves; rejects with what was waited for. */
export async function until<Value>(
  what: string,
  look: () => Value | undefined | null | false | Promise<Value | undefined | null | false>,
  longestMs = 15_000,
): Promise<Value> {
  const end = Date.now() + longestMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== null && found !== false) return found;
    if (Date.now() > end) throw new Error(`not within ${longestMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Lets real time pass where something must not happen in it. */
export function passing(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
