/** A time as the owner's clock shows it: `2026-05-10 14:05`. */
export function when(at: number | null, timezone: string): string {
  if (at === null) return "–";
  return new Date(at).toLocaleString("sv-SE", { timeZone: timezone, dateStyle: "short", timeStyle: "short" });
}
