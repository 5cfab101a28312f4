import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createHermesRuntime } from "../../src/runtime/hermes/hermes-runtime.ts";
import type { Runtime, TurnEvent } from "../../src/runtime/runtime.ts";
import { systemClock } from "../../src/util/clock.ts";
import { ask, openRequest, runtimeContract, startSlow } from "../contract/runtime.contract.ts";
import { type AgentModel, startAgentModel } from "../support/agent-model.ts";
import { eventually } from "../support/agent-processes.ts";
import {
  announceMissing,
  HERMES_VERSION,
  hermesInstall,
  type RunningHermes,
  startHermes,
} from "../support/real-hermes.ts";
import { temporaryFolder } from "../support/store.ts";
import { note } from "./seen.ts";

const install = await hermesInstall();
if (install.kind === "unavailable") announceMissing(install);

describe.skipIf(install.kind === "unavailable")("a Hermes of its makers, over its HTTP API", () => {
  const folder = temporaryFolder();
  let model: AgentModel;
  let hermes: RunningHermes;
  beforeAll(async () => {
    model = await startAgentModel();
    const from = performance.now();
    hermes = await startHermes({ home: join(folder.path, "hermes"), modelUrl: model.url });
    note("hermes http", "gateway answers after ms", performance.now() - from);
  });
  afterAll(async () => {
    await hermes?.stop();
    await model?.close();
    folder.remove();
  });
  const create = (key: string | undefined = hermes.key): Runtime =>
    createHermesRuntime({
      name: "hermes",
      baseUrl: hermes.url,
      key,
      idleTimeoutMs: 60_000,
      clock: systemClock,
      chance: () => 0.5,
    });

  runtimeContract("hermes, its API server", async () => ({ runtime: create(), dispose: async () => undefined }), {
    die: "no",
  });

  test("E3: the probe says its version", async () => {
    expect(await create().probe(new AbortController().signal)).toMatchObject({ ok: true, version: HERMES_VERSION });
  });

  test("E3: without a key, or with a wrong one, nothing is opened, and the sentence says what to do", async () => {
    await expect(create("wrong-key-0123456789").open(openRequest())).rejects.toThrow("refuses the key");
    const keyless = createHermesRuntime({
      name: "hermes",
      baseUrl: hermes.url,
      idleTimeoutMs: 60_000,
      clock: systemClock,
      chance: () => 0.5,
    });
    await expect(keyless.open(openRequest())).rejects.toThrow("wants a key");
  });

  test("B5: the id is Hermes' own, and the session is there after Hermes was started anew", async () => {
    const session = await create().open(openRequest());
    expect(session.ref).toMatch(/^api_/);
    await ask(session, "say the parrot is called Kiwi");
    await hermes.kill();
    expect((await ask(session, "say hello", { signal: AbortSignal.timeout(500) })).outcome).not.toBe("done");
    hermes = await startHermes({ home: join(folder.path, "hermes"), modelUrl: model.url });
    const again = await create().open(openRequest({ ref: session.ref, primer: PRIMER }));
    expect([again.how, again.ref]).toEqual(["resumed", session.ref]);
    expect((await ask(again, "history")).text).toContain("Kiwi");
    const unknown = await create().open(openRequest({ ref: "api_1_00000000", primer: PRIMER }));
    expect(unknown.how).toBe("primed");
    expect((await ask(unknown, "history")).text).toContain("Kiwi");
  });

  test("B5: a session that goes on under another id, as after a compression, is followed", async () => {
    const session = await create().open(openRequest());
    await ask(session, "say the parrot is called Kiwi");
    const first = session.ref;
    const child = `20261130_000000_${randomBytes(3).toString("hex")}`;
    const state = new DatabaseSync(join(folder.path, "hermes", "state.db"));
    const now = Date.now() / 1_000;
    state.prepare("UPDATE sessions SET ended_at = ?, end_reason = 'compression' WHERE id = ?").run(now, first);
    state
      .prepare("INSERT INTO sessions (id, source, parent_session_id, started_at) VALUES (?, 'api_server', ?, ?)")
      .run(child, first, now + 0.001);
    state.prepare("UPDATE messages SET session_id = ? WHERE session_id = ?").run(child, first);
    state.close();
    expect((await ask(session, "history")).text).toContain("Kiwi");
    expect(session.ref).toBe(child);
    expect((await create().open(openRequest({ ref: first, primer: PRIMER }))).ref).toBe(child);
  });

  test("T7: what is closed is stopped: Hermes ends the run and keeps what it said; the next turn is answered", async () => {
    const session = await create().open(openRequest());
    await ask(session, "say hello");
    const slow = startSlow(session, "slow 300");
    await slow.heard;
    const from = performance.now();
    slow.cancel.abort();
    expect((await slow.result).outcome).toBe("cancelled");
    // It may leave the stream of its model open for a while, unheard: its transcript is what says that the run is over.
    await eventually(async () => /^1\b/.test((await messagesOf(hermes, session.ref)).at(-1)?.content ?? ""));
    note("hermes http", "run ended after ms", performance.now() - from);
    expect((await ask(session, "say still here")).text).toBe("still here");
  });

  test("T8: a tool of Hermes is told as it runs, and is done", async () => {
    const events: TurnEvent[] = [];
    const session = await create().open(openRequest());
    const result = await ask(session, 'tool terminal {"command":"echo from-the-tool"}', {
      onEvent: (event) => void events.push(event),
    });
    expect(result.text).toContain("from-the-tool");
    const tools = events.flatMap((event) => (event.type === "tool" ? [event.state] : []));
    expect(tools).toEqual(["running", "done"]);
  });

  test("H12: a dangerous command is held back, since nobody can be asked over this API", async () => {
    const precious = join(folder.path, "precious");
    mkdirSync(precious);
    const session = await create().open(openRequest());
    const { text } = await ask(session, `tool terminal ${JSON.stringify({ command: `rm -rf ${precious}` })}`);
    expect(text).toContain("approval");
    expect(existsSync(precious)).toBe(true);
  });

  test("C1: the stable part reaches the model below Hermes' own prompt, and the same each time", async () => {
    const session = await create().open(openRequest({ stablePart: "Source: CLI terminal\nMark 4711" }));
    await ask(session, "say one");
    await ask(session, "say two");
    const [one, two] = model.asked.slice(-2);
    expect(one?.system).toContain("Mark 4711");
    expect(one?.system.length).toBeGreaterThan(1_000);
    expect(two?.system).toBe(one?.system);
    expect(two?.messages.map(({ text }) => text)).toEqual(["say one", "one", "say two"]);
  });

  test("B3: a first word comes soon", async () => {
    const session = await create().open(openRequest());
    const times: number[] = [];
    for (let n = 0; n < 5; n++) {
      const from = performance.now();
      const heard = Promise.withResolvers<number>();
      await ask(session, "say hello", { onEvent: () => heard.resolve(performance.now() - from) });
      times.push(await heard.promise);
    }
    note("hermes http", "first chunk ms (median of 5)", times.sort((a, b) => a - b)[2]!);
  });

  test("E3: a Hermes without API_SERVER_KEY does not start its API server", async () => {
    const home = join(folder.path, "keyless");
    await expect(startHermes({ home, modelUrl: model.url, key: null, patienceMs: 6_000 })).rejects.toThrow(
      "does not answer",
    );
    expect(readFileSync(join(home, "logs", "gateway.log"), "utf8")).toContain("API_SERVER_KEY is required");
  });
});

async function messagesOf(hermes: RunningHermes, id: string): Promise<{ readonly content: string | null }[]> {
  const headers = { authorization: `Bearer ${hermes.key}` };
  const response = await fetch(`${hermes.url}/api/sessions/${id}/messages`, { headers });
  return ((await response.json()) as { data: { content: string | null }[] }).data;
}

const PRIMER = {
  total: 2,
  lines: [
    { role: "user", text: "say the parrot is called Kiwi" },
    { role: "assistant", text: "the parrot is called Kiwi" },
  ],
} as const;
