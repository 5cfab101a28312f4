import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, describe, expect, test } from "vitest";
import { acpConnection } from "../support/fuzz/acp-connection.ts";
import { costOfDoubling, type FuzzTarget, fuzz } from "../support/fuzz/fuzz.ts";
import { httpApi } from "../support/fuzz/http-api.ts";
import { modelStream } from "../support/fuzz/model-stream.ts";
import { xmppReader } from "../support/fuzz/xmpp-reader.ts";

/** The short form of `bench/fuzz.ts`: another seed each run, printed where it fails. */
const SEED = Date.now() % 1_000_000;
const MOST_GROWN_MB = 60;

setFlagsFromString("--expose-gc");
global.gc = runInNewContext("gc") as typeof global.gc;

const TARGETS: readonly {
  name: string;
  open: () => FuzzTarget | Promise<FuzzTarget>;
  count: number;
  length: number;
}[] = [
  { name: "XMPP reader", open: xmppReader, count: 20_000, length: 20_000 },
  { name: "HTTP API", open: httpApi, count: 1_500, length: 50_000 },
  { name: "ACP connection", open: acpConnection, count: 10_000, length: 50_000 },
  { name: "model stream", open: modelStream, count: 20_000, length: 50_000 },
];

describe.each(TARGETS)("fuzz: $name", ({ open, count, length }) => {
  let opened: FuzzTarget | undefined;
  const target = async (): Promise<FuzzTarget> => (opened ??= await open());
  afterAll(() => opened?.close());

  test("no random event crashes it, is left unhandled, or is kept in memory", async () => {
    const { taken, grownMb } = await fuzz(await target(), { seed: SEED, count });
    console.log(`${taken} events, seed ${SEED}`);
    expect(grownMb).toBeLessThan(MOST_GROWN_MB);
  }, 60_000);

  test.each(["a.", "a-", "](", "a:", "@", "> ", "`", "\n", "😀", "\\"])(
    "twice as much of %j costs at most three times the CPU time",
    async (piece) => {
      const one = await target();
      expect(await costOfDoubling((size) => one.takeLong(piece, size), length)).toBeLessThanOrEqual(3);
    },
    60_000,
  );
});
