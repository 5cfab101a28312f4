import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { inheritedEnvironment } from "../../src/config/config.ts";
import { type AcpRuntimeOptions, createAcpRuntime } from "../../src/runtime/acp/acp-runtime.ts";
import { type AcpAgent, acpAgent, type Quirks } from "../../src/runtime/acp/presets.ts";
import type { AgentSession, OpenRequest, Runtime, TurnEvent } from "../../src/runtime/runtime.ts";
import { systemClock } from "../../src/util/clock.ts";
import { type AskOptions, ask, openRequest } from "../contract/runtime.contract.ts";
import { eventually, processesWith } from "./agent-processes.ts";
import { temporaryFolder } from "./store.ts";

/** Three times as fast a start. */
const CACHE = fileURLToPath(new URL("../../node_modules/.cache/agents", import.meta.url));
const SCRIPT = fileURLToPath(new URL("hostile-agent.ts", import.meta.url));

export interface HostileOptions extends Partial<Omit<AcpRuntimeOptions, "agent">> {
  readonly agent?: Partial<AcpAgent>;
  readonly quirks?: Partial<Quirks>;
}

/** A runtime over the hostile agent, with everything that came of it. */
export class HostileStage {
  readonly home = temporaryFolder();
  readonly runtime: Runtime;
  /** What TERTULIA_TEST_RUN says to all of its processes. */
  readonly mark = randomUUID();

  constructor(traits = "", { agent = {}, quirks = {}, env = {}, limits = {}, ...options }: HostileOptions = {}) {
    const command = acpAgent({ command: process.execPath, args: [SCRIPT, ...traits.split(" ")] });
    this.runtime = createAcpRuntime({
      name: "acp",
      agent: {
        ...command,
        title: "The hostile agent",
        install: "Install it.",
        // Late words are the matter of the tests that say so: the others do not wait for them.
        quietTimeMs: 0,
        ...agent,
        quirks: { ...command.quirks, resumeMayLie: false, ...quirks },
      },
      inherited: { ...inheritedEnvironment(), NODE_COMPILE_CACHE: CACHE },
      home: this.home.path,
      clock: systemClock,
      ...options,
      env: { TERTULIA_TEST_RUN: this.mark, ...env },
      limits: { stdinGraceMs: 300, termGraceMs: 200, quietMs: 60, replayMs: 600, lineBytes: 65_536, ...limits },
    });
  }

  /** Processes of ours that run now. */
  get processes(): number[] {
    return processesWith(`TERTULIA_TEST_RUN=${this.mark}`);
  }

  open(more: Partial<OpenRequest> = {}): Promise<AgentSession> {
    return this.runtime.open(openRequest(more));
  }

  /** Nothing may be left (B8). */
  async end(): Promise<void> {
    await this.runtime.close();
    const left = this.processes;
    for (const pid of left) process.kill(pid, "SIGKILL");
    this.home.remove();
    expect(left, "processes left").toEqual([]);
  }

  async without(pids: readonly number[]): Promise<void> {
    await eventually(() => !this.processes.some((pid) => pids.includes(pid)));
  }
}

/** Asks, and keeps what was told. */
export async function hear(session: AgentSession, text: string, options: AskOptions = {}) {
  const events: TurnEvent[] = [];
  const result = await ask(session, text, {
    ...options,
    onEvent: async (event) => {
      events.push(event);
      await options.onEvent?.(event);
    },
  });
  return { ...result, events };
}
