/**
 * The long form of the fuzz: `node bench/fuzz.ts [--seed N] [--share S]` throws a million random events (times the share) at the edges where
 * foreign bytes come in. Prints how many were taken, what the heap has grown by, and what a long hostile input costs. Exits 1 at the first
 * crash, unhandled rejection, answer without a remedy, or growth of memory.
 */
import { parseArgs } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { acpConnection } from "../test/support/fuzz/acp-connection.ts";
import { costOfDoubling, type FuzzTarget, fuzz } from "../test/support/fuzz/fuzz.ts";
import { httpApi } from "../test/support/fuzz/http-api.ts";
import { modelStream } from "../test/support/fuzz/model-stream.ts";
import { xmppReader } from "../test/support/fuzz/xmpp-reader.ts";

const TARGETS: readonly { open: () => FuzzTarget | Promise<FuzzTarget>; count: number }[] = [
  { open: xmppReader, count: 500_000 },
  { open: modelStream, count: 250_000 },
  { open: acpConnection, count: 200_000 },
  { open: httpApi, count: 50_000 },
];
const PIECES = ["a.", "a-", "](", "a:", "@", "> ", "`", "\n", "😀", "\\"];
const LENGTH = 60_000;
const MOST_GROWN_MB = 200;

setFlagsFromString("--expose-gc");
global.gc = runInNewContext("gc") as typeof global.gc;

const { values } = parseArgs({
  options: { seed: { type: "string", default: "1" }, share: { type: "string", default: "1" } },
});
const seed = Number(values.seed);
let total = 0;
for (const { open, count } of TARGETS) {
  const target = await open();
  const from = performance.now();
  const { taken, grownMb } = await fuzz(target, { seed, count: Math.round(count * Number(values.share)) });
  const seconds = ((performance.now() - from) / 1_000).toFixed(1);
  total += taken;
  console.log(`${target.name}: ${taken} events in ${seconds} s, seed ${seed}, heap ${grownMb.toFixed(1)} MB more`);
  for (const piece of PIECES) {
    const began = performance.now();
    await target.takeLong(piece, LENGTH);
    const ms = (performance.now() - began).toFixed(1);
    const ratio = (await costOfDoubling((length) => target.takeLong(piece, length), LENGTH)).toFixed(2);
    console.log(`  ${JSON.stringify(piece)} × ${LENGTH}: ${ms} ms; twice as much costs ${ratio} ×`);
  }
  await target.close();
  if (grownMb > MOST_GROWN_MB) throw new Error(`${target.name}: memory has grown by ${grownMb.toFixed(0)} MB`);
}
console.log(`${total} events in all`);
