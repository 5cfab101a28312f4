import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Config, loadConfig } from "../../src/config/config.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import type { Said } from "../../src/intake/local-doors.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { renderNotice } from "../../src/text/render-notice.ts";
import { silentLog } from "../../src/util/log.ts";
import { createKnowingRuntime, type KnowingRuntime } from "../support/knowing-runtime.ts";
import { createManualClock, type ManualClock } from "../support/manual-clock.ts";
import { temporaryFolder } from "../support/store.ts";

const OWNER = { id: "owner", role: "owner" } as const;
const KEY = "agent:main:console:dm:owner%2Fmain";
const START = Date.UTC(2026, 10, 30, 12);

/** `a` keeps its sessions over parks, `b` loses them, and of `c` the gateway keeps the history. */
function createStage() {
  const folder = temporaryFolder();
  const clock: ManualClock = createManualClock(START);
  const runtimes: Record<string, KnowingRuntime> = {
    a: createKnowingRuntime({ name: "a", history: "own", canResume: true }),
    b: createKnowingRuntime({ name: "b", history: "own", canResume: false }),
    c: createKnowingRuntime({ name: "c", history: "gateway", canResume: false }),
  };
  const base = loadConfig({ flags: { home: folder.path }, env: {} });
  let config: Config = {
    ...base,
    runtimes: { a: { kind: "demo" }, b: { kind: "demo" }, c: { kind: "demo" } },
    agents: { main: { ...base.agents.main!, runtime: "a" } },
  };
  let gateway!: Gateway;
  const open = async (): Promise<void> => {
    const store = openSqliteStore({ path: `${folder.path}/state.db`, clock });
    gateway = new Gateway({ config, store, log: silentLog, clock, runtimes });
    await gateway.start();
  };
  const say = async (text: string) =>
    gateway.doors.say({ person: OWNER, agent: "main", door: { platform: "console", name: "main" }, text });
  const hears = async (said: Said): Promise<string> => {
    if (said.kind === "command") return renderNotice(said.reply);
    const answer = await gateway.turns.answerOf(said.turnId);
    return [answer.text, ...answer.notices.map(renderNotice)].filter((part) => part !== "").join("\n");
  };
  return {
    clock,
    runtimes,
    open,
    says: say,
    hears,
    get gateway() {
      return gateway;
    },
    async close() {
      await gateway.stop();
      folder.remove();
    },
    /** Says it, and gives the answer or the sentence in its place. */
    asks: async (text: string): Promise<string> => hears(await say(text)),
    /** Says it, and returns while the runtime is at it. */
    async begins(runtime: string, text: string): Promise<{ said: Said; goOn: () => void }> {
      const { promise, resolve: goOn } = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      gateway.events.on("turn:begun", () => begun.resolve());
      runtimes[runtime]!.hold = promise;
      const said = await say(text);
      await begun.promise;
      return { said, goOn };
    },
    async session(): Promise<string> {
      return (await gateway.reader.conversation(KEY))!.currentSession!;
    },
    /** Every handle is closed, as after an hour of silence. */
    async parks(): Promise<void> {
      await gateway.pool.drop((await gateway.reader.conversation(KEY))?.currentSession ?? "");
    },
    async restarts(change = (before: Config["runtimes"]): Config["runtimes"] => before): Promise<void> {
      await gateway.stop();
      config = { ...config, runtimes: change(config.runtimes) };
      await open();
    },
  };
}

describe("two runtimes side by side", () => {
  let stage: ReturnType<typeof createStage>;
  beforeEach(async () => {
    stage = createStage();
    await stage.open();
  });
  afterEach(() => stage.close());

  test("B7: /runtime b goes on with another runtime, /runtime back returns, and each knows all that was said once", async () => {
    expect(await stage.asks("w1")).toBe("r1");
    expect(await stage.asks("/runtime b")).toContain("From the next message on b runs this conversation");
    expect(await stage.asks("w2")).toBe("r2");
    expect(await stage.asks("w3")).toBe("r3");
    expect(await stage.asks("/runtime back")).toContain("From the next message on a runs this conversation");
    expect(await stage.asks("w4")).toBe("r4");
    const session = await stage.session();
    expect(stage.runtimes.b!.known(session)).toEqual(["w1", "r1", "w2", "r2", "w3", "r3"]);
    expect(stage.runtimes.a!.known(session)).toEqual(["w1", "r1", "w2", "r2", "w3", "r3", "w4", "r4"]);
    expect(stage.runtimes.a!.opened).toBe(1);
  });

  test("B7: a runtime that fails its first turn is left again, and the author is told once with the way to try again", async () => {
    await stage.asks("w1");
    await stage.asks("/runtime b");
    stage.runtimes.b!.failing = 1;
    const said = await stage.says("w2");
    // The second time it is read back, as a retry and `chat -q` do.
    for (const answer of [await stage.hears(said), await stage.hears(said)]) {
      expect(answer).toContain("It was told to fail.");
      expect(
        answer.match(/The runtime b failed its first turn here, so a runs this conversation again\./g),
      ).toHaveLength(1);
    }
    expect(await stage.asks("w3")).toBe("r3");
    expect(stage.runtimes.a!.known(await stage.session())).toEqual(["w1", "r1", "w2", "w3", "r3"]);
  });

  test("B7: one that has answered once stays, whatever becomes of its later turns", async () => {
    await stage.asks("/runtime b");
    await stage.asks("w1");
    stage.runtimes.b!.failing = 1;
    expect(await stage.asks("w2")).not.toContain("again with /runtime");
    expect(await stage.asks("/runtime")).toContain("b (runs this conversation");
  });

  test("B7: whoever goes back while the new runtime fails its first turn stays where he went", async () => {
    await stage.asks("w1");
    await stage.asks("/runtime b");
    const { said, goOn } = await stage.begins("b", "w2");
    await stage.asks("/runtime back");
    stage.runtimes.b!.failing = 1;
    goOn();
    expect(await stage.hears(said)).not.toContain("failed its first turn");
    expect(await stage.asks("/runtime")).toContain("a (runs this conversation");
    expect(await stage.asks("w3")).toBe("r3");
    expect(stage.runtimes.a!.known(await stage.session())).toEqual(["w1", "r1", "w2", "w3", "r3"]);
  });

  test("B7: an answer of one runtime is no trial of another that was chosen meanwhile", async () => {
    await stage.asks("w1");
    await stage.asks("/runtime b");
    const { said, goOn } = await stage.begins("b", "w2");
    await stage.asks("/runtime c");
    goOn();
    expect(await stage.hears(said)).toBe("r2");
    stage.runtimes.c!.failing = 1;
    expect(await stage.asks("w3")).toContain("The runtime c failed its first turn here, so b runs this conversation");
    expect(await stage.asks("w4")).toBe("r4");
    expect(stage.runtimes.b!.known(await stage.session())).toEqual(["w1", "r1", "w2", "r2", "w3", "w4", "r4"]);
  });

  test("B7: the configured runtime, returned to by /runtime default, is left again by its name", async () => {
    await stage.asks("/runtime b");
    await stage.asks("w1");
    await stage.asks("/runtime default");
    stage.runtimes.a!.failing = 1;
    const answer = await stage.asks("w2");
    expect(answer).toContain("The runtime a failed its first turn here, so b runs this conversation again.");
    expect(answer).toContain("try again with /runtime a.");
    expect(await stage.asks("/runtime back")).toContain("From the next message on a runs this conversation");
  });

  test("B7: messages that wait behind a first turn that fails are answered by the runtime before", async () => {
    await stage.asks("w1");
    await stage.asks("/runtime b");
    const { said, goOn } = await stage.begins("b", "w2");
    const waiting = await stage.says("w3");
    stage.runtimes.b!.failing = 1;
    goOn();
    expect(await stage.hears(said)).toContain("so a runs this conversation again");
    await stage.clock.advance(5_000);
    expect(await stage.hears(waiting)).toBe("r3");
    expect(stage.runtimes.a!.known(await stage.session())).toEqual(["w1", "r1", "w2", "w3", "r3"]);
  });

  test("B7: a runtime that is not configured any more cannot be gone back to, and is not fallen back on", async () => {
    await stage.asks("w1");
    await stage.asks("/runtime b");
    await stage.asks("w2");
    await stage.asks("/runtime c");
    await stage.restarts(({ b: _, ...runtimes }) => runtimes);
    expect(await stage.asks("/runtime back")).toContain('There is no runtime "b" any more.');
    stage.runtimes.c!.failing = 1;
    expect(await stage.asks("w3")).not.toContain("b runs this conversation");
    expect(await stage.asks("/runtime")).toContain("c (runs this conversation");
  });

  test("B7: the model is told once that another runtime ran the conversation before", async () => {
    await stage.asks("w1");
    await stage.asks("/runtime c");
    const { facts } = await stage.gateway.conversations.nextContext(KEY);
    expect(facts).toContain("this conversation was run by a until now, and is run by c from here on");
    await stage.asks("w2");
    expect((await stage.gateway.conversations.nextContext(KEY)).facts).not.toContain("was run by");
  });

  test("B6: agent_state has the origin's shape, and keys that are not ours are kept at every depth", async () => {
    const conversation = async () => (await stage.gateway.reader.conversation(KEY))!;
    await stage.asks("w1");
    await stage.gateway.conversations.keepAgentState(KEY, {
      jarvis: { mood: 3 },
      runtime_state: { jarvis: { x: 1 }, a: { y: 2 } },
    });
    await stage.gateway.conversations.keepAgentState(KEY, { jarvis: { tone: "dry" } });
    expect(await stage.gateway.conversations.agentState(await conversation())).toEqual({
      jarvis: { mood: 3, tone: "dry" },
      runtime: "a",
      runtime_state: {
        jarvis: { x: 1 },
        a: {
          y: 2,
          session_id: `a-${await stage.session()}`,
          last_used_at: "2026-11-30T12:00:00.000Z",
          restart_count: 0,
          status: "healthy",
          seen_through: 0,
        },
      },
    });
    stage.runtimes.a!.failing = 1;
    await stage.asks("w2");
    expect(await stage.gateway.conversations.agentState(await conversation())).toMatchObject({
      runtime_state: { a: { status: "degraded", seen_through: 2 } },
    });
  });

  test("B7: only the owner switches, and an unknown name changes nothing", async () => {
    expect(await stage.asks("/runtime nobody")).toMatch(/There is no runtime "nobody"\.\nRuntimes:\n {2}a/);
    const said = await stage.gateway.doors.say({
      person: { id: "bob", role: "member" },
      agent: "main",
      door: { platform: "console", name: "main" },
      text: "/runtime b",
    });
    expect(said.kind === "command" && renderNotice(said.reply)).toBe(
      "Only the owner decides what runs a conversation.",
    );
    expect(await stage.asks("/runtime a")).toBe("a runs this conversation already.");
  });

  test("B7: a choice is the conversation's: /new keeps it, a restart keeps it, /runtime default drops it", async () => {
    await stage.asks("w1");
    await stage.asks("/runtime b");
    await stage.asks("w2");
    await stage.asks("/new");
    await stage.restarts();
    await stage.asks("w3");
    expect(stage.runtimes.b!.known(await stage.session())).toEqual(["w3", "r3"]);
    await stage.asks("/runtime default");
    await stage.asks("w4");
    expect(stage.runtimes.a!.known(await stage.session())).toEqual(["w3", "r3", "w4", "r4"]);
  });
});

type Step = { readonly kind: "say" | "park" | "restart" | "fail" } | { readonly kind: "switch"; readonly to: string };
const SAY: Step = { kind: "say" };

test("B7: whatever is switched, parked, restarted and fails, the runtime that answers knows every message exactly once, in order", async () => {
  const step = fc.oneof<fc.WeightedArbitrary<Step>[]>(
    { weight: 4, arbitrary: fc.constant(SAY) },
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant("switch" as const), to: fc.constantFrom("a", "b", "c", "back") }),
    },
    { weight: 1, arbitrary: fc.constantFrom({ kind: "park" } as const, { kind: "restart" } as const) },
    { weight: 1, arbitrary: fc.constant({ kind: "fail" } as const) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 18 }), async (steps) => {
      const stage = createStage();
      await stage.open();
      try {
        const expected: string[] = [];
        let n = 0;
        const say = async (isFailing: boolean): Promise<void> => {
          const before = await stage.gateway.reader.conversation(KEY);
          const active = before?.runtime.name ?? "a";
          n += 1;
          if (isFailing) stage.runtimes[active]!.failing = 1;
          await stage.asks(`w${n}`);
          expected.push(...(isFailing ? [`w${n}`] : [`w${n}`, `r${n}`]));
          expect(stage.runtimes[active]!.known(await stage.session())).toEqual(expected);
        };
        for (const step of steps) {
          if (step.kind === "say") await say(false);
          else if (step.kind === "fail") await say(true);
          else if (step.kind === "switch") await stage.asks(`/runtime ${step.to}`);
          else if (step.kind === "park") await stage.parks();
          else await stage.restarts();
        }
        await say(false);
      } finally {
        await stage.close();
      }
    }),
    {
      numRuns: 60,
      examples: [
        // What the gateway's history holds of another runtime's turns must not come a second time as what was missed.
        [["c", "a", "c"].flatMap((to) => [{ kind: "switch" as const, to }, SAY]).concat([{ kind: "park" }, SAY])],
      ],
    },
  );
}, 60_000);
