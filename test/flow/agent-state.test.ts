/** The kind of F-HER-05: what other programs read of a conversation: ids, names and counts, of every kind of runtime, named or in place. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import { ACP_PRESETS } from "../../src/runtime/acp/presets.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/util/clock.ts";
import { silentLog } from "../../src/util/log.ts";
import { type FakeHermes, HERMES_KEY, startFakeHermes } from "../support/fake-hermes.ts";
import { FAKE_MODEL, type FakeModel, startFakeModel } from "../support/fake-model.ts";
import { temporaryFolder } from "../support/store.ts";

const OWNER = { id: "owner", role: "owner" } as const;

let folder: ReturnType<typeof temporaryFolder>;
let gateway: Gateway | null = null;
let model: FakeModel;
let hermes: FakeHermes;
beforeEach(async () => {
  folder = temporaryFolder();
  const usage = (n: number) => ({
    prompt_tokens: 100 * n,
    completion_tokens: n,
    prompt_tokens_details: { cached_tokens: 10 * n, cache_write_tokens: 7 },
  });
  model = await startFakeModel(({ n }) => ({
    steps: [{ text: "ok" }, { finish: "stop" }, { usage: usage(n + 1) }, { done: true }],
  }));
  hermes = await startFakeHermes();
});
afterEach(async () => {
  await gateway?.stop();
  gateway = null;
  await model.close();
  await hermes.close();
  folder.remove();
});

async function starts(config: object): Promise<Gateway> {
  writeFileSync(join(folder.path, "config.yaml"), JSON.stringify({ welcome: false, ...config }));
  gateway = new Gateway({
    config: loadConfig({ flags: { home: folder.path }, env: {} }),
    store: openSqliteStore({ path: join(folder.path, "state.db"), clock: systemClock }),
    log: silentLog,
  });
  await gateway.start();
  return gateway;
}

async function asks(text: string, agent = "mohe"): Promise<string> {
  const said = await gateway!.doors.say({ person: OWNER, agent, door: { platform: "console", name: "main" }, text });
  if (said.kind === "turn") await gateway!.turns.answerOf(said.turnId);
  return `agent:${agent}:console:dm:owner%2Fmain`;
}

async function stateOf(key: string) {
  const conversation = (await gateway!.reader.conversation(key))!;
  const session = (await gateway!.reader.session(conversation.currentSession!))!;
  return { ...(await gateway!.conversations.agentState(conversation)), session };
}

test.each(["acp", "http", "hermes"])(
  "F-HER-05 B6: of a runtime of kind %s that is described in its agent the name is the kind, and the id is plain",
  async (kind) => {
    const runtimes = {
      acp: { kind, command: ACP_PRESETS.demo.command, args: ACP_PRESETS.demo.args, quiet_time: "0ms" },
      http: { kind, base_url: model.url, model: FAKE_MODEL },
      hermes: { kind, base_url: hermes.url, key: HERMES_KEY },
    };
    await starts({ agents: { mohe: { runtime: runtimes[kind as keyof typeof runtimes] } } });
    const { runtime, runtime_state, session } = await stateOf(await asks("say hello"));
    expect(runtime).toBe(kind);
    expect(Object.keys(runtime_state)).toEqual([kind]);
    const id = runtime_state[kind]?.session_id;
    expect(id).toMatch(/^[\w.-]+$/);
    if (kind === "http") expect(id).toBe(session.id);
  },
);

test("F-HER-05 B6: where another runtime is called as its kind is, the one described in its agent keeps its whole name", async () => {
  const there = { kind: "http", base_url: model.url, model: FAKE_MODEL };
  await starts({ agents: { mohe: { runtime: there } }, runtimes: { http: there } });
  const key = await asks("hi");
  await asks("/runtime http");
  await asks("hi");
  const { runtime, runtime_state } = await stateOf(key);
  expect(runtime).toBe("http");
  expect(Object.keys(runtime_state).sort()).toEqual(["http", "http:mohe"]);
});

test("F-HER-05 R: a session has all counts of its tokens: in, out, from the cache, into it, and of the last prompt", async () => {
  await starts({ agents: { mohe: { runtime: { kind: "http", base_url: model.url, model: FAKE_MODEL } } } });
  await asks("one");
  const { session } = await stateOf(await asks("two"));
  expect(session.tokens).toEqual({ input: 300, output: 3, cacheRead: 30, cacheWrite: 14, lastPrompt: 200 });
});
