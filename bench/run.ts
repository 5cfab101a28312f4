/**
 * The whole bench: `node bench/run.ts` (`--quick`: fewer and shorter rounds, and no file). Prints one table and writes it to
 * bench/results.md; the rooms need Prosody (scripts/xmpp-setup.sh). The numbers are of this machine and this moment; the ratios are what is aimed at.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import { measureAgents } from "./agents.ts";
import { measureContext } from "./context.ts";
import { measureDigest } from "./digest.ts";
import { measureDurableTurns } from "./durable-turns.ts";
import { measureHistory } from "./history.ts";
import { measureHttp } from "./http.ts";
import { measureMemory } from "./memory.ts";
import { build } from "./processes.ts";
import { measureRooms } from "./rooms.ts";
import { measureStart } from "./start.ts";
import { FULL, markdown, QUICK, type Row } from "./table.ts";

const isQuick = process.argv.includes("--quick");
const effort = isQuick ? QUICK : FULL;
const from = performance.now();
build();
const rows: Row[] = [];
// The digest is weighed in this process: before others have grown it.
for (const measure of [
  measureDigest,
  measureHttp,
  measureHistory,
  measureContext,
  measureStart,
  measureMemory,
  measureDurableTurns,
  measureAgents,
  measureRooms,
]) {
  rows.push(...(await measure(effort)));
  process.stderr.write(`${measure.name}: ${seconds()} s\n`);
}
const table = markdown(rows);
if (!isQuick) writeFileSync(join(import.meta.dirname, "results.md"), report(table));
process.stdout.write(`${table}\n`);

function seconds(): number {
  return Math.round((performance.now() - from) / 1_000);
}

function report(table: string): string {
  const git = (...args: string[]): string =>
    execFileSync("git", args, { cwd: import.meta.dirname, encoding: "utf8" }).trim();
  const isChanged = git("status", "--porcelain", "--", "../src", "../sql", ".") !== "";
  return [
    "# Results of the bench",
    "",
    "Written by `node bench/run.ts`; not to be edited. What is measured, and what the floor is: the heads of the files in bench/.",
    "",
    `- date: ${new Date().toISOString()}, ${seconds()} s`,
    `- machine: ${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? "unknown"}), ${process.platform} ${process.arch}, node ${process.version}`,
    `- revision: ${git("rev-parse", "--short", "HEAD")}${isChanged ? " with changes" : ""}`,
    `- medians of ${effort.rounds} rounds (memory: ${Math.ceil(effort.rounds / 5)}), both sides in turn; the ratio is the median of the rounds' ratios`,
    "",
    table,
    "",
  ].join("\n");
}
