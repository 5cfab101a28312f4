/** What each ACP agent of others has to do beyond the runtime contract: be killed, be opened again, be stopped, and be timed. */
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createAcpRuntime } from "../../src/runtime/acp/acp-runtime.ts";
import type {
  AgentSession,
  OpenedHow,
  OpenRequest,
  PermissionOption,
  Runtime,
  TurnEvent,
} from "../../src/runtime/runtime.ts";
import { systemClock } from "../../src/util/clock.ts";
import { ask, openRequest, type RuntimeAbilities, runtimeContract, startSlow } from "../contract/runtime.contract.ts";
import { type AgentModel, isLetGo, startAgentModel } from "../support/agent-model.ts";
import { eventually, processesWith } from "../support/agent-processes.ts";
import type { RealAgent } from "../support/real-agents.ts";
import { temporaryFolder } from "../support/store.ts";
import { note } from "./seen.ts";

export interface AcpAgentCase {
  readonly name: string;
  readonly make: (home: string, model: AgentModel) => RealAgent | Promise<RealAgent>;
  readonly abilities?: RuntimeAbilities;
  /** How a session goes on whose process was killed in the middle of a turn, or that was parked. */
  readonly again: readonly OpenedHow[];
  /** After a cancel it may leave the stream of its model open, unheard. */
  readonly hangsUpLate?: boolean;
  /** Its tool for commands, where it asks before it runs a dangerous one. */
  readonly asksBefore?: string;
}

interface Stage {
  readonly runtime: Runtime;
  readonly model: AgentModel;
  readonly mark: string;
  dispose(): Promise<void>;
}

/** A home and a model for all tests of an agent: what it does once for a home it need not do each time. */
interface Ground {
  readonly home: ReturnType<typeof temporaryFolder>;
  readonly model: AgentModel;
  readonly real: RealAgent;
}

async function createGround({ make }: AcpAgentCase): Promise<Ground> {
  const home = temporaryFolder();
  const model = await startAgentModel();
  return { home, model, real: await make(join(home.path, "agent"), model) };
}

function createStage(name: string, { home, model, real: { agent, env } }: Ground): Stage {
  const mark = `TERTULIA_TEST_RUN=${randomUUID()}`;
  const runtime = createAcpRuntime({
    name,
    agent,
    env: { TERTULIA_TEST_RUN: mark.split("=")[1]! },
    inherited: env,
    home: home.path,
    clock: systemClock,
  });
  return {
    runtime,
    model,
    mark,
    async dispose() {
      await runtime.close();
      expect(processesWith(mark), "processes left (B8)").toEqual([]);
    },
  };
}

export function acpAgentSuite(agentCase: AcpAgentCase): void {
  const { name, abilities, again: goesOn, asksBefore, hangsUpLate = false } = agentCase;
  let ground: Ground;
  beforeAll(async () => {
    ground = await createGround(agentCase);
  });
  afterAll(async () => {
    await ground.model.close();
    ground.home.remove();
  });
  const create = async (): Promise<Stage> => createStage(name, ground);
  runtimeContract(`${name}, the program`, create, { die: "no", fail: "no", ...abilities });

  describe(`${name}, killed, opened again, stopped`, () => {
    let stage: Stage;
    beforeEach(async () => {
      stage = await create();
    });
    afterEach(() => stage.dispose());
    const open = (more: Partial<OpenRequest> = {}): Promise<AgentSession> => stage.runtime.open(openRequest(more));

    test("B5 G-RUN-03: SIGKILL in the middle of a turn is said at once, with what was said; the context is not lost", async () => {
      const session = await open();
      await ask(session, "say the parrot is called Kiwi");
      const slow = startSlow(session, "slow 300");
      await slow.heard;
      const killedAt = performance.now();
      for (const pid of processesWith(stage.mark)) process.kill(pid, "SIGKILL");
      const result = await slow.result;
      note(name, "kill seen after ms", performance.now() - killedAt);
      expect(result).toMatchObject({ outcome: "failed", failure: { kind: "process-died" } });
      expect(result.text).toContain("1");
      await session.park();

      const again = await open({ ref: session.ref, primer: PRIMER });
      note(name, "opened after a kill", again.how);
      expect(goesOn).toContain(again.how);
      expect((await ask(again, "history")).text).toContain("Kiwi");
    });

    test("B3 B4 B8: warm it starts no process; stopped it ends by itself and leaves none; it goes on where it was", async () => {
      const coldAt = performance.now();
      const session = await open();
      note(name, "cold, first chunk ms", await firstChunk(session, coldAt));
      await ask(session, "say the parrot is called Kiwi");
      const before = processesWith(stage.mark).length;
      const warm: number[] = [];
      for (let n = 0; n < 5; n++) warm.push(await firstChunk(session, performance.now()));
      note(name, "warm, first chunk ms (median of 5)", warm.sort((a, b) => a - b)[2]!);
      expect(processesWith(stage.mark).length).toBeLessThanOrEqual(before);

      const slow = startSlow(session, "slow 300");
      await slow.heard;
      const cancelledAt = performance.now();
      slow.cancel.abort();
      expect((await slow.result).outcome).toBe("cancelled");
      note(name, "cancelled after ms", performance.now() - cancelledAt);
      if (!hangsUpLate) await eventually(() => isLetGo(stage.model, "slow 300"));

      const parkedAt = performance.now();
      await session.park();
      await eventually(() => processesWith(stage.mark).length === 0);
      note(name, "stopped after ms", performance.now() - parkedAt);

      const again = await open({ ref: session.ref, primer: PRIMER });
      note(name, "opened after a park", again.how);
      expect(goesOn).toContain(again.how);
      expect((await ask(again, "history")).text).toContain("Kiwi");
    });

    const asks = async (): Promise<void> => {
      const precious = join(ground.home.path, `precious-${randomUUID()}`);
      mkdirSync(precious);
      const session = await open();
      const order = `tool ${asksBefore} ${JSON.stringify({ command: `rm -rf ${precious}`, description: "tidies up" })}`;
      const answer = (kind: PermissionOption["kind"]) => (event: TurnEvent) => {
        if (event.type !== "permission") return;
        note(name, "options of a permission", event.options.map((option) => option.kind).join(" "));
        event.answer(event.options.find((option) => option.kind === kind)?.id ?? null);
      };
      await ask(session, order, { onEvent: answer("reject_once") });
      expect(existsSync(precious)).toBe(true);
      await ask(session, order, { onEvent: answer("allow_once") });
      expect(existsSync(precious)).toBe(false);
    };
    if (asksBefore !== undefined) {
      test("H12: a command is run only when a person allows it", asks);
    }
  });
}

const PRIMER: OpenRequest["primer"] = {
  total: 2,
  lines: [
    { role: "user", text: "say the parrot is called Kiwi" },
    { role: "assistant", text: "the parrot is called Kiwi" },
  ],
};

async function firstChunk(session: AgentSession, from: number): Promise<number> {
  let at: number | null = null;
  const onEvent = (event: TurnEvent): void => {
    if (event.type === "text") at ??= performance.now() - from;
  };
  expect((await ask(session, "say hello", { onEvent })).outcome).toBe("done");
  return at ?? Number.NaN;
}
