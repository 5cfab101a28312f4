/** Numbers of several rounds, as rows of one table. */

/** How much is measured: many short rounds, for the noise of a shared machine comes in bursts. `--quick` does less of the same. */
export interface Effort {
  readonly rounds: number;
  /** Factor of the messages per round. */
  readonly scale: number;
}
export const FULL: Effort = { rounds: 11, scale: 1 };
export const QUICK: Effort = { rounds: 5, scale: 0.4 };

export interface Row {
  readonly metric: string;
  readonly unit: string;
  readonly ours: number;
  /** The floor's, or what the metric names. */
  readonly beside: number;
  readonly ratio: number;
  readonly aim: Aim | null;
}
export type Aim = { readonly atMost: number } | { readonly atLeast: number };

/** One number of both sides from the same round. */
export interface Pair {
  readonly ours: number;
  readonly beside: number;
}

/** Medians over the rounds; the ratio is the median of the rounds' ratios, for both sides of a round had the same noise. */
export function row(metric: string, unit: string, pairs: readonly Pair[], aim: Aim | null = null): Row {
  return {
    metric,
    unit,
    ours: median(pairs.map((pair) => pair.ours)),
    beside: median(pairs.map((pair) => pair.beside)),
    ratio: median(pairs.map((pair) => pair.ours / pair.beside)),
    aim,
  };
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** Both sides one after the other, and the other way round in the next round. */
export async function inTurn<T>(
  round: number,
  ours: () => T | Promise<T>,
  beside: () => T | Promise<T>,
): Promise<{ ours: T; beside: T }> {
  if (round % 2 === 0) return { ours: await ours(), beside: await beside() };
  const second = await beside();
  return { ours: await ours(), beside: second };
}

export function markdown(rows: readonly Row[]): string {
  const lines = rows.map(({ metric, unit, ours, beside, ratio, aim }) => [
    metric,
    `${figure(ours)} ${unit}`,
    `${figure(beside)} ${unit}`,
    ratio.toFixed(2),
    aim === null ? "" : "atMost" in aim ? `≤ ${aim.atMost}` : `≥ ${aim.atLeast}`,
    aim === null ? "" : isMet(ratio, aim) ? "met" : "**missed**",
  ]);
  const cells = [["metric", "ours", "floor / beside", "ratio", "aim", "verdict"], ...lines];
  const widths = cells[0]!.map((_, column) => Math.max(...cells.map((line) => line[column]!.length)));
  const [head, ...body] = cells.map((line) => `| ${line.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`);
  return [head, `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body].join("\n");
}

function isMet(ratio: number, aim: Aim): boolean {
  return "atMost" in aim ? ratio <= aim.atMost : ratio >= aim.atLeast;
}

function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
