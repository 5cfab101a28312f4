/** What stands in place of a secret. */

const LONG = 20;

export function maskOf(secret: string): string {
  const points = Array.from(secret);
  if (points.length < LONG) return "…";
  return `${points.slice(0, 4).join("")}…${points.slice(-4).join("")}`;
}

/** What is a mask already, ours or somebody else's. */
export function isMasked(text: string): boolean {
  return text.includes("…") || text.includes("***") || /^[*•x.]+$/i.test(text) || text.includes("\u0000");
}
