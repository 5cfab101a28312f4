/** A real process that speaks ACP at random: through its pipe, the connection, and the turn. */
import { fileURLToPath } from "node:url";
import { inheritedEnvironment } from "../../../src/config/config.ts";
import { createAcpRuntime } from "../../../src/runtime/acp/acp-runtime.ts";
import { acpAgent } from "../../../src/runtime/acp/presets.ts";
import type { AgentSession, TurnResult } from "../../../src/runtime/runtime.ts";
import { systemClock } from "../../../src/util/clock.ts";
import { temporaryFolder } from "../store.ts";
import type { FuzzTarget } from "./fuzz.ts";

const AGENT = fileURLToPath(new URL("fuzz-agent.ts", import.meta.url));
const OUTCOMES: readonly TurnResult["outcome"][] = ["done", "cancelled", "failed"];

export function acpConnection(): FuzzTarget {
  const home = temporaryFolder();
  const runtime = createAcpRuntime({
    name: "acp",
    agent: {
      ...acpAgent({ command: process.execPath, args: [AGENT], quietTimeMs: 0 }),
      title: "The fuzzing agent",
      install: "Install it.",
    },
    inherited: inheritedEnvironment(),
    home: home.path,
    clock: systemClock,
    env: {},
    limits: { stdinGraceMs: 300, termGraceMs: 200 },
  });
  let session: AgentSession | null = null;
  let turnId = 0;
  const ask = async (order: object): Promise<TurnResult> => {
    session ??= await runtime.open({
      sessionId: "s-fuzz",
      sessionKey: "agent:main:console:dm:owner%2Fmain",
      stablePart: "Source: CLI terminal",
      primer: { total: 0, lines: [] },
      signal: new AbortController().signal,
    });
    const input = { turnId: ++turnId, facts: "", text: JSON.stringify(order), missed: [] };
    const signal = new AbortController().signal;
    const result = await session.turn(input, {
      signal,
      onEvent: (event) => {
        if (event.type === "permission") event.answer(event.options[0]?.id ?? null);
        return Promise.resolve();
      },
    });
    // What breaks the protocol may end the agent; the next turn then has another one (B5).
    if (result.outcome === "failed") {
      await session.park();
      session = null;
    }
    return result;
  };
  return {
    name: "ACP connection",
    async take(chance, count) {
      const { outcome } = await ask({ seed: chance.whole(2 ** 31), count });
      if (!OUTCOMES.includes(outcome)) throw new Error(`no outcome of a turn: ${outcome}`);
      return count;
    },
    async takeLong(piece, length) {
      await ask({ piece, length });
    },
    async close() {
      await runtime.close();
      home.remove();
    },
  };
}
