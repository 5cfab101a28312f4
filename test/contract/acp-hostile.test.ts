/** What agents have been seen to do, and worse, against the driver that has to bear it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { Leftovers } from "../../src/runtime/acp/leftovers.ts";
import type { AgentSession, RuntimeFailure, TurnEvent } from "../../src/runtime/runtime.ts";
import { eventually } from "../support/agent-processes.ts";
import { type HostileOptions, HostileStage, hear } from "../support/hostile-stage.ts";
import { ask, startSlow } from "./runtime.contract.ts";

const stages: HostileStage[] = [];
const complaints: unknown[][] = [];
beforeAll(() => {
  vi.spyOn(console, "error").mockImplementation((...words: unknown[]) => void complaints.push(words));
});
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.end();
});
afterAll(() => {
  vi.restoreAllMocks();
  // The SDK's own complaints are nothing for our terminal.
  expect(complaints).toEqual([]);
});

function stage(traits?: string, options?: HostileOptions): HostileStage {
  const made = new HostileStage(traits, options);
  stages.push(made);
  return made;
}

const textOf = (events: readonly TurnEvent[]): string =>
  events.map((event) => (event.type === "text" ? event.text : "")).join("");
const HISTORY = {
  total: 90,
  lines: [
    { role: "user", text: "my parrot is called Kiwi" },
    { role: "assistant", text: "a fine name\nindeed" },
  ],
} as const;

describe("what stands on its output", () => {
  test("B5: noise, batches, answers nobody asked for, endless lines and half ones are skipped, and what is said is heard", async () => {
    const session = await stage().open();
    const { text, outcome, events } = await hear(session, "noise");
    expect({ text, outcome }).toEqual({ text: "hälf 😀", outcome: "done" });
    expect(events).toHaveLength(1);
    expect((await ask(session, "say still here")).text).toBe("still here");
  });

  test("B5: unknown updates, contents and states are left out; plan, context and thoughts are told", async () => {
    const { text, events } = await hear(await stage().open(), "unknown");
    expect(text).toBe("ok");
    expect(events).toEqual([
      { type: "tool", id: "t9", title: "Odd", state: "running" },
      { type: "plan", entries: [{ text: "look", state: "running" }] },
      { type: "context", used: 53_000, size: 200_000 },
      { type: "thought", text: "hm" },
      { type: "text", text: "ok" },
    ]);
  });

  test("T1: updates of another session, or of none, are not of this turn", async () => {
    expect((await ask(await stage().open(), "other")).text).toBe("ok");
  });

  test("T1: what comes after the end of a turn is not of the next one", async () => {
    const session = await stage().open();
    expect((await ask(session, "late")).text).toBe("ok");
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect((await hear(session, "say next")).text).toBe("next");
  });

  test("B5: a flood waits in the pipe while its events are taken", async () => {
    const session = await stage().open();
    let taken = 0;
    let mostBytes = 0;
    const before = process.memoryUsage().rss;
    const { text, outcome } = await ask(session, "flood 100000", {
      async onEvent() {
        if (++taken % 20_000 !== 0) return;
        await new Promise((resolve) => setTimeout(resolve, 20));
        mostBytes = Math.max(mostBytes, process.memoryUsage().rss - before);
      },
    });
    expect({ text, outcome, taken }).toEqual({ text: "ok", outcome: "done", taken: 100_001 });
    expect(mostBytes).toBeLessThan(200 * 1_048_576);
  });

  test("B5: while one event is taken the agent cannot go on and on", async () => {
    const hostile = stage();
    const session = await hostile.open();
    const go = Promise.withResolvers<void>();
    const flood = ask(session, "flood 100000", { onEvent: () => go.promise });
    const written = (): string => readFileSync(join(hostile.home.path, "workspace/s-contract/.hostile-flood"), "utf8");
    let before = "";
    await eventually(async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      const now = existsSync(join(hostile.home.path, "workspace/s-contract/.hostile-flood")) ? written() : "";
      const isStill = now !== "" && now === before;
      before = now;
      return isStill;
    });
    expect(Number(before)).toBeLessThan(10_000);
    go.resolve();
    expect((await flood).outcome).toBe("done");
  });

  test("B5: a text without end is stopped, and its beginning kept", async () => {
    const session = await stage().open();
    const { text, outcome, failure } = await ask(session, "endless");
    expect({ outcome, kind: failure?.kind }).toEqual({ outcome: "failed", kind: "truncated" });
    expect(text).toHaveLength(4_000_000);
    expect((await ask(session, "say still here")).text).toBe("still here");
  });

  test("T8: nothing more is read while an event is being taken", async () => {
    const session = await stage().open();
    const go = Promise.withResolvers<void>();
    const seen: TurnEvent[] = [];
    const turn = ask(session, "tools", {
      async onEvent(event) {
        seen.push(event);
        if (seen.length === 1) await go.promise;
      },
    });
    await eventually(() => seen.length === 1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(seen).toHaveLength(1);
    go.resolve();
    await turn;
    expect(seen).toEqual([
      { type: "tool", id: "a", title: "Read x", state: "pending" },
      { type: "tool", id: "a", title: "Read x", state: "running" },
      { type: "tool", id: "a", title: "Read x", state: "done" },
      { type: "tool", id: "b", title: "Write y", state: "failed" },
      { type: "text", text: "ok" },
    ]);
  });
});

describe("how a turn ends", () => {
  // One for all that leave their session as it was.
  const common = new HostileStage();
  let opened: AgentSession | null = null;
  afterAll(() => common.end());
  const shared = async (): Promise<AgentSession> => {
    if (opened !== null) return opened;
    opened = await common.open();
    opened.onDead(() => {
      opened = null;
    });
    return opened;
  };

  test.each([
    ["stop end_turn hello", "done", "hello", undefined],
    ["stop max_tokens hello", "done", "hello\n\n[cut: the agent reached its limit of output]", undefined],
    ["stop max_turn_requests hello", "done", "hello\n\n[cut: the agent reached its limit of steps]", undefined],
    ["stop max_tokens", "failed", "", "truncated"],
    ["stop refusal", "failed", "", "refused"],
    ["stop refusal no", "failed", "no", "refused"],
    ["stop cancelled", "cancelled", "", undefined],
    ["stop tired hello", "done", "hello", undefined],
    ["stop tired", "failed", "", "protocol"],
    ["empty", "done", "", undefined],
    ["error -32603 Internal error", "failed", "", "protocol"],
    ["error -32002 Resource not found", "failed", "", "session-gone"],
    ["error -32602 Invalid params", "failed", "", "session-gone"],
    ["error -32603 Session not found: h-1", "failed", "", "session-gone"],
    ["error -32603 The process has exited. Please start a new session", "failed", "", "session-gone"],
    ["error -32000 Authentication required", "failed", "", "auth"],
    ["error -32603 Rate limit reached, try again in 20s", "failed", "", "rate-limited"],
    ["error -32603 prompt is too long: 210000 tokens > 200000 maximum", "failed", "", "overflow"],
  ])("B5: `%s` is %s", async (prompt, outcome, text, kind) => {
    const { events, ...result } = await hear(await shared(), prompt);
    expect(result).toMatchObject({ outcome, text });
    expect(result.failure?.kind).toBe(kind);
    expect(textOf(events)).toBe(text);
    if (kind === "rate-limited") expect(result.failure?.retryAfterMs).toBe(20_000);
  });

  // The kind: a word for the end that does not fit what was said before it, in any spelling, with late words too.
  test.each([
    ["stop cancelled the whole answer", "done", "the whole answer"],
    ["stop canceled the whole answer", "done", "the whole answer"],
    ["stop aborted the whole answer", "done", "the whole answer"],
    ["stop cancelled", "cancelled", ""],
    ["stop cancelled  ", "cancelled", ""],
  ])("F-ACP-03 B11: `%s` where nobody cancelled is %s", async (prompt, outcome, text) => {
    expect(await ask(await shared(), prompt)).toMatchObject({ outcome, text });
  });

  test.each([
    ["prompt", { input: 11, output: 7, cachedInput: 5 }],
    ["quota", { input: 12, output: 3 }],
    ["meta", { input: 50, output: 6 }],
  ])("T9: usage is read from %s", async (where, usage) => {
    expect(await ask(await shared(), `usage ${where}`)).toMatchObject({ text: "ok", usage });
  });

  test("G-RUN-08: after an error that poisons it the handle is dead, and the next one goes on", async () => {
    const hostile = stage("resume");
    const session = await hostile.open();
    const deaths: RuntimeFailure[] = [];
    session.onDead((failure) => deaths.push(failure));
    await ask(session, "error -32603 Internal error");
    expect(deaths).toMatchObject([{ kind: "protocol" }]);
    expect((await ask(session, "say hello")).outcome).toBe("failed");
    await session.park();
    const again = await hostile.open({ ref: session.ref });
    expect(again.how).toBe("resumed");
    expect((await ask(again, "say hello")).text).toBe("hello");
  });

  test("B5: a session that has become too long is not resumed: it begins again with the primer", async () => {
    const hostile = stage("resume");
    const session = await hostile.open();
    await ask(session, "error -32603 context length exceeded");
    await session.park();
    expect((await hostile.open({ ref: session.ref, primer: HISTORY })).how).toBe("primed");
  });

  test("T1: a prompt that was put into a queue is a failure, not an answer, and ends the handle", async () => {
    const hostile = stage("", { quirks: { queuedNotice: "Queued for the next turn" } });
    const session = await hostile.open();
    expect((await hear(session, "queue")).text).toBe("Queues are short today");
    const { events, ...result } = await hear(session, "queued");
    expect(result).toMatchObject({ outcome: "failed", text: "", failure: { kind: "protocol" } });
    expect(textOf(events)).toBe("");
    expect((await ask(session, "say hello")).outcome).toBe("failed");
  });

  test("O5: the empty turn after a cancelled one is asked again, once, where the agent is known for it", async () => {
    for (const isKnown of [true, false]) {
      const session = await stage("empty-after-cancel", { quirks: { emptyAfterCancel: isKnown } }).open();
      const hang = startSlow(session, "hang");
      await hang.heard;
      hang.cancel.abort();
      expect((await hang.result).outcome).toBe("cancelled");
      expect((await ask(session, "say hello")).text).toBe(isKnown ? "hello" : "");
      expect((await ask(session, "prompts")).text).toBe(isKnown ? "4" : "3");
    }
  });

  test("T8: an `onEvent` that throws ends the turn with it, and the handle", async () => {
    const session = await stage().open();
    const told = ask(session, "hang", { onEvent: () => Promise.reject(new Error("the disk is full")) });
    await expect(told).rejects.toThrow("the disk is full");
    expect((await ask(session, "say hello")).outcome).toBe("failed");

    const cut = ask(await stage().open(), "stop max_tokens hello", {
      onEvent: (event) =>
        event.type === "text" && event.text !== "hello" ? Promise.reject(new Error("full")) : undefined,
    });
    await expect(cut).rejects.toThrow("full");
  });
});

describe("permissions", () => {
  const answering = (optionId: string | null) => ({
    onEvent: (event: TurnEvent) => void (event.type === "permission" && event.answer(optionId)),
  });
  const chosen = (optionId: string): string => JSON.stringify({ outcome: "selected", optionId });
  const CANCELLED = JSON.stringify({ outcome: "cancelled" });

  test("H12: two questions of one tool have ids of their own, and each its answer", async () => {
    const asked: Extract<TurnEvent, { type: "permission" }>[] = [];
    const { text } = await hear(await stage().open(), "ask-twice", {
      onEvent(event) {
        if (event.type !== "permission") return;
        asked.push(event);
        if (asked.length < 2) return;
        asked[1]?.answer("yes");
        asked[0]?.answer("no");
      },
    });
    expect(new Set(asked.map(({ id }) => id)).size).toBe(2);
    expect(asked[0]).toMatchObject({ title: "Remove all files", options: [{ id: "yes", label: "Yes" }, { id: "no" }] });
    expect(text).toBe(`${chosen("no")} ${chosen("yes")}`);
  });

  test("H12: null is the rejection the agent offers; what was not offered is none of its options", async () => {
    const session = await stage().open();
    expect((await ask(session, "ask-twice", answering(null))).text).toBe(`${chosen("no")} ${chosen("no")}`);
    expect((await ask(session, "ask-twice", answering("root"))).text).toBe(`${chosen("no")} ${chosen("no")}`);
  });

  test("H12: without a way to reject it is cancelled; odd options are left out; the title is the tool's", async () => {
    const asked: TurnEvent[] = [];
    const result = await hear(await stage().open(), "ask-odd", {
      onEvent(event) {
        if (event.type !== "permission") return;
        asked.push(event);
        event.answer(null);
      },
    });
    expect(asked).toMatchObject([
      { title: "Known title", options: [{ id: "only", label: "only", kind: "allow_once" }] },
    ]);
    expect(result.text).toBe(CANCELLED);
  });

  test("O5: a turn that ends without a word after a denial says why", async () => {
    const result = await ask(await stage().open(), "ask-silent", answering(null));
    expect(result).toMatchObject({ outcome: "failed", failure: { kind: "refused" } });
    expect(result.failure?.message).toContain("denied a permission");
  });

  test("T7: a cancel answers open questions with `cancelled`, so that the agent can end", async () => {
    const session = await stage().open();
    const cancel = new AbortController();
    const asked = Promise.withResolvers<void>();
    const result = ask(session, "ask-hang", {
      signal: cancel.signal,
      onEvent: (event) => void (event.type === "permission" && asked.resolve()),
    });
    await asked.promise;
    cancel.abort();
    expect(await result).toMatchObject({ outcome: "cancelled", text: "may I?" });
    expect((await ask(session, "say next")).text).toBe("next");
  });

  test("T7: denied in the same breath as the cancel, as a stop does, it is cancelled and not rejected", async () => {
    const session = await stage().open();
    const cancel = new AbortController();
    const result = await ask(session, "ask-hang", {
      signal: cancel.signal,
      onEvent(event) {
        if (event.type !== "permission") return;
        event.answer(null);
        cancel.abort();
      },
    });
    expect(result.outcome).toBe("cancelled");
  });

  test("H12: a question left open at the end of its turn is cancelled, and a late answer is nobody's", async () => {
    const hostile = stage();
    const session = await hostile.open();
    const asked: Extract<TurnEvent, { type: "permission" }>[] = [];
    await ask(session, "ask-leave", { onEvent: (event) => void (event.type === "permission" && asked.push(event)) });
    const file = join(hostile.home.path, "workspace/s-contract/.hostile-answer");
    await eventually(() => existsSync(file));
    asked[0]?.answer("yes");
    expect(readFileSync(file, "utf8")).toBe(CANCELLED);
  });

  test("H12: a question that the agent takes back is told to be closed, and a late answer is nobody's", async () => {
    const session = await stage().open();
    const cancel = new AbortController();
    const asked: Extract<TurnEvent, { type: "permission" }>[] = [];
    const closed = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<string>();
    const result = ask(session, "ask-withdraw 50", {
      signal: cancel.signal,
      onEvent(event) {
        if (event.type === "text") answered.resolve(event.text);
        if (event.type !== "permission") return;
        asked.push(event);
        event.closed?.addEventListener("abort", () => closed.resolve());
      },
    });
    await closed.promise;
    expect(await answered.promise).toMatch(/cancelled/);
    asked[0]?.answer("yes");
    cancel.abort();
    expect((await result).outcome).toBe("cancelled");
  });

  test("H12: a question for another session is cancelled unasked", async () => {
    const { text, events } = await hear(await stage().open(), "ask-other");
    expect(text).toBe(CANCELLED);
    expect(events.map(({ type }) => type)).toEqual(["text"]);
  });

  test("B9: files, terminals and forms are not offered: the call is an error", async () => {
    expect((await ask(await stage().open(), "client")).text).toBe(`-32601 -32601 -32601 -32601 ${CANCELLED}`);
  });
});

describe("death and hanging", () => {
  // The kind: an agent that takes nothing any more and lives on: between two turns, in the middle of one, while it is opened.
  test("F-SEC-12 B5: an agent that closes its input is dead with the next word to it", async () => {
    const session = await stage().open();
    const died = Promise.withResolvers<RuntimeFailure>();
    session.onDead(died.resolve);
    expect((await ask(session, "deaf")).text).toBe("not listening");
    const startedAt = performance.now();
    expect(await ask(session, "say hello")).toMatchObject({ outcome: "failed", failure: { kind: "process-died" } });
    expect(await died.promise).toMatchObject({ kind: "process-died" });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    await session.park();
  });

  test("F-SEC-12 T7: one that closes it in the middle of a turn is dead with the cancel", async () => {
    const session = await stage().open();
    const deaf = startSlow(session, "deaf-hang");
    await deaf.heard;
    deaf.cancel.abort();
    expect(await deaf.result).toMatchObject({ outcome: "cancelled", text: "not listening" });
    expect((await ask(session, "say hello")).failure?.kind).toBe("process-died");
  });

  test("F-SEC-12 B5: one that closes it while it is opened cannot be opened, which is said at once", async () => {
    const startedAt = performance.now();
    await expect(stage("deaf-initialize").open()).rejects.toMatchObject({ code: "runtime_failed" });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  test("B5: death in the middle of a turn is told with what was said", async () => {
    const session = await stage().open();
    const deaths: RuntimeFailure[] = [];
    session.onDead((failure) => deaths.push(failure));
    expect(await ask(session, "die")).toMatchObject({
      outcome: "failed",
      text: "half a sen",
      failure: { kind: "process-died", message: expect.stringContaining("code 7") },
    });
    expect(deaths).toHaveLength(1);
  });

  test("B5: death after the answer leaves the answer, and is told to who listens", async () => {
    const session = await stage().open();
    const died = Promise.withResolvers<RuntimeFailure>();
    session.onDead(died.resolve);
    expect(await ask(session, "die-after")).toMatchObject({ outcome: "done", text: "done" });
    expect(await died.promise).toMatchObject({ kind: "process-died" });
  });

  test("T7: G-RUN-06: an agent that ignores the cancel goes on until it is parked, and then is gone", async () => {
    const hostile = stage("deaf");
    const session = await hostile.open();
    const deaf = startSlow(session, "deafen");
    await deaf.heard;
    deaf.cancel.abort();
    const first = await Promise.race([deaf.result, new Promise((resolve) => setTimeout(resolve, 100, "still"))]);
    expect(first).toBe("still");
    await session.park();
    expect(await deaf.result).toMatchObject({ outcome: "cancelled", text: "wait" });
    expect(hostile.processes).toEqual([]);
  });

  test("B8: G-RUN-03: one that ignores its input's end and SIGTERM is killed, with a child that ignores it too", async () => {
    const hostile = stage("deaf child");
    const session = await hostile.open();
    expect(hostile.processes).toHaveLength(2);
    await session.park();
    expect(hostile.processes).toEqual([]);
  });

  test("B8: G-RUN-03: a child that outlives its parent is ended", async () => {
    for (const how of ["park", "death"] as const) {
      const hostile = stage();
      const session = await hostile.open();
      const result = await ask(session, how === "park" ? "child" : "child-die");
      expect(result.text).toBe(how === "park" ? "born" : "orphaned");
      if (how === "death") expect(result.failure?.kind).toBe("process-died");
      await session.park();
      expect(hostile.processes).toEqual([]);
    }
  });

  test("B8: death is told at once, although a child holds the pipe", async () => {
    const session = await stage("", { limits: { termGraceMs: 2_500 } }).open();
    const startedAt = performance.now();
    expect((await ask(session, "child-die")).failure?.kind).toBe("process-died");
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  test("B8: an agent that waits for SIGTERM gets it at once", async () => {
    const hostile = stage("sigterm-only", { quirks: { gracefulExit: "sigterm" }, limits: { stdinGraceMs: 60_000 } });
    const session = await hostile.open();
    const startedAt = performance.now();
    await session.park();
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  test("B8: an idle agent that is killed from outside tells so", async () => {
    const hostile = stage();
    const session = await hostile.open();
    const died = Promise.withResolvers<RuntimeFailure>();
    session.onDead(died.resolve);
    for (const pid of hostile.processes) process.kill(pid, "SIGKILL");
    expect(await died.promise).toMatchObject({ kind: "process-died", message: expect.stringContaining("SIGKILL") });
    expect((await ask(session, "say hello")).failure?.kind).toBe("process-died");
  });

  test("B8: one that closes its output is ended, although it lives", async () => {
    const hostile = stage("close-output deaf");
    await expect(hostile.open()).rejects.toMatchObject({ code: "runtime_failed" });
    expect(hostile.processes).toEqual([]);
  });

  test.each([
    ["hang-initialize", "initialize"],
    ["hang-new", "session/new"],
  ])("G-RUN-05: %s: opening has an end, and the process too", async (trait, method) => {
    const hostile = stage(`${trait} deaf`, { limits: { answerMs: 1_200 } });
    const opening = hostile.open();
    await expect(opening).rejects.toMatchObject({ code: "runtime_failed", message: expect.stringContaining(method) });
    expect(hostile.processes).toEqual([]);
  });

  test("E3: what dies while it is opened says its last words, without secrets", async () => {
    const opening = stage("die-initialize", { env: { API_KEY: "sk-very-secret" } }).open();
    const sentence =
      'The hostile agent ended unexpectedly (code 3). Ask again: it is started anew. It said: "the key [secret] is wrong"';
    await expect(opening).rejects.toMatchObject({ code: "runtime_failed", message: sentence });
    await expect(stage("die-new").open()).rejects.toThrow("code 4");
  });

  test("E3: what is not installed, not signed in or too new says what to do", async () => {
    const agent = { command: "/nowhere/at/all" };
    await expect(stage("", { agent }).open()).rejects.toMatchObject({ code: "runtime_failed", remedy: "Install it." });
    await expect(stage("auth").open()).rejects.toMatchObject({
      code: "runtime_failed",
      remedy: expect.stringContaining("Sign in"),
    });
    await expect(stage("version-2").open()).rejects.toThrow("another version of ACP (2)");
    await expect(stage("no-id").open()).rejects.toMatchObject({ code: "runtime_failed" });
  });

  test("E3: a folder that cannot be made is no fault of the agent's", async () => {
    const hostile = stage();
    writeFileSync(join(hostile.home.path, "workspace"), "in the way");
    await expect(hostile.open()).rejects.toMatchObject({ code: "home_unwritable" });
    const bug = stage("", { tokenFor: () => Promise.reject(new Error("a bug of ours")) });
    await expect(bug.open()).rejects.toThrow("a bug of ours");
    const later = stage("", { mcpServers: () => Promise.reject(new Error("a bug of ours")) });
    await expect(later.open()).rejects.toThrow("a bug of ours");
    expect([...hostile.processes, ...bug.processes, ...later.processes]).toEqual([]);
  });

  test("B8: an opening that is aborted ends its process before it rejects; so does a close", async () => {
    const hostile = stage("hang-new deaf");
    const abort = new AbortController();
    const opening = hostile.open({ signal: abort.signal });
    await eventually(() => hostile.processes.length === 1);
    abort.abort(new Error("not wanted any more"));
    await expect(opening).rejects.toThrow("not wanted any more");
    expect(hostile.processes).toEqual([]);

    const second = hostile.open();
    second.catch(() => undefined);
    await eventually(() => hostile.processes.length === 1);
    await hostile.runtime.close();
    expect(hostile.processes).toEqual([]);
    await expect(second).rejects.toMatchObject({ code: "runtime_failed" });
  });

  test("B8: one session has one process: a second opening waits for the first one's end", async () => {
    const hostile = stage("resume");
    const first = await hostile.open();
    const [pid] = hostile.processes;
    const second = await hostile.open({ ref: first.ref });
    expect(hostile.processes).toHaveLength(1);
    expect(hostile.processes).not.toContain(pid);
    expect((await ask(second, "say hello")).text).toBe("hello");
  });
});

describe("a gateway that is no more", () => {
  const HOLDER = fileURLToPath(new URL("../support/acp-holder.ts", import.meta.url));
  const held = (hostile: HostileStage, ...more: string[]) =>
    spawn(process.execPath, [HOLDER, hostile.home.path, hostile.mark, ...more], {
      stdio: ["ignore", "pipe", "inherit"],
    });

  test("B8: one that exits takes its agents along, deaf ones and their children too", async () => {
    const hostile = stage();
    await once(held(hostile, "exit"), "exit");
    await eventually(() => hostile.processes.length === 0);
  });

  test("B8: G-RUN-03: what outlives one that was killed is ended by the next, and nothing else is", async () => {
    const hostile = stage();
    const holder = held(hostile);
    await once(holder.stdout!, "data");
    holder.kill("SIGKILL");
    await once(holder, "exit");
    const left = hostile.processes;
    expect(left).toHaveLength(2);
    // A number that has become another's.
    writeFileSync(join(hostile.home.path, "workspace/.agents", String(process.pid)), "s-contract");
    // What is no note of ours.
    mkdirSync(join(hostile.home.path, "workspace/.agents/4711"));
    await hostile.open();
    const leftovers = new Leftovers(hostile.home.path);
    leftovers.end();
    await hostile.without(left);
    expect(hostile.processes).toHaveLength(1);
    expect(readdirSync(join(hostile.home.path, "workspace/.agents"))).toEqual(
      expect.not.arrayContaining([...left.map(String), String(process.pid)]),
    );
  });
});

describe("going on with a session", () => {
  const reopened = async (hostile: HostileStage) => {
    const session = await hostile.open();
    await session.park();
    return hostile.open({ ref: session.ref, primer: HISTORY });
  };

  test("B5: resume goes before load, load before a new one", async () => {
    expect((await reopened(stage("resume load"))).how).toBe("resumed");
    expect((await reopened(stage("resume resume-fails load"))).how).toBe("loaded");
    expect((await reopened(stage("load"))).how).toBe("loaded");
    expect((await reopened(stage(""))).how).toBe("primed");
  });

  test("B5: what is replayed after the answer is not of the next turn", async () => {
    const session = await reopened(stage("load late-replay", { limits: { quietMs: 200, replayMs: 3_000 } }));
    expect((await hear(session, "slowly new")).text).toBe("new");
  });

  test("B5: a replay without end is not waited for", async () => {
    const startedAt = performance.now();
    await reopened(stage("load late-replay", { limits: { quietMs: 10_000, replayMs: 150 } }));
    expect(performance.now() - startedAt).toBeLessThan(3_000);
  });

  test("B5: a reference that is empty, broken, another agent's or unknown begins anew", async () => {
    const hostile = stage("resume load list load-null");
    const gone = JSON.stringify({ id: "gone", command: process.execPath, folder: "s-contract" });
    const foreign = JSON.stringify({ id: "x", command: "other", folder: "s-contract" });
    for (const ref of ["", "{", "null", "7", '{"id":1}', foreign, gone]) {
      const session = await hostile.open({ ref });
      expect(session.how).toBe("created");
      expect(session.ref).not.toBe("");
      await session.park();
    }
  });

  test("B5: a resume that lies is seen through: by the list, by the load, or by the refusal", async () => {
    const unknown = JSON.stringify({ id: "gone", command: process.execPath, folder: "s-contract" });
    const quirks = { resumeMayLie: true };
    const listing = await stage("resume resume-lies list", { quirks }).open({ ref: unknown, primer: HISTORY });
    expect(listing.how).toBe("primed");
    const loading = await stage("resume resume-lies load load-null", { quirks }).open({
      ref: unknown,
      primer: HISTORY,
    });
    expect(loading.how).toBe("primed");

    const hostile = stage("resume resume-lies", { quirks });
    const lying = await hostile.open({ ref: unknown });
    expect(lying.how).toBe("resumed");
    expect((await ask(lying, "say hello")).failure?.kind).toBe("session-gone");
    await lying.park();
    expect((await hostile.open({ ref: lying.ref, primer: HISTORY })).how).toBe("primed");
  });

  test("B5: a session known to the list is resumed also by an agent that may lie", async () => {
    expect((await reopened(stage("resume list", { quirks: { resumeMayLie: true } }))).how).toBe("resumed");
  });

  test("B4: a park closes the session where the agent can", async () => {
    const hostile = stage("close");
    const session = await hostile.open();
    await session.park();
    expect(existsSync(join(hostile.home.path, "workspace/s-contract/.hostile-closed"))).toBe(true);
  });
});

describe("what an agent is told", () => {
  const blocks = async (session: Awaited<ReturnType<HostileStage["open"]>>, more: object): Promise<string[]> =>
    JSON.parse((await ask(session, "blocks", more)).text) as string[];

  test("B5: the primer stands before the first prompt, and only there", async () => {
    const session = await stage().open({ primer: HISTORY });
    const facts = "<f>\nSource: CLI\n</f>";
    expect(await blocks(session, { facts })).toEqual([
      `This session so far, the last 2 of 90 messages:\n| they: my parrot is called Kiwi\n| you: a fine name\n| indeed\n\n${facts}`,
      "blocks",
    ]);
    expect(await blocks(session, { facts, missed: [{ role: "mark", text: "(failed)" }] })).toEqual([
      `In this session since your last answer:\n| note: (failed)\n\n${facts}`,
      "blocks",
    ]);
    expect(await blocks(session, {})).toEqual(["blocks"]);
  });

  test("B5: the primer is bounded: 40 lines, 12,000 characters", async () => {
    const lines = Array.from({ length: 60 }, (_, i) => ({ role: "user" as const, text: `${i} ${"x".repeat(1_000)}` }));
    const session = await stage().open({ primer: { total: 60, lines } });
    const [front = ""] = await blocks(session, {});
    expect(front.length).toBeLessThan(12_500);
    expect(front).toContain("| they: 59 ");
    expect(front).toContain("the last 11 of 60");
  });

  test.each(["/reset", "  /reset", "\u200b/reset", "\u001c/reset"])(
    "T2: words that begin with a slash (%j) are no command of the agent's own",
    async (words) => {
      const session = await stage().open();
      const told = JSON.parse((await ask(session, `${words}\nblocks`)).text) as string[];
      expect(told).toEqual([`The message:\n\n${words}\nblocks`]);
      const withFacts = JSON.parse((await ask(session, `${words}\nblocks`, { facts: "Source: CLI" })).text) as string[];
      expect(withFacts).toEqual([`Source: CLI\n\n${words}\nblocks`]);
    },
  );

  test("C6: the stable part is the context file of its folder, written only when it says something else", async () => {
    const hostile = stage();
    const session = await hostile.open({ stablePart: "Be brief." });
    const folder = join(hostile.home.path, "workspace/s-contract");
    expect(JSON.parse((await ask(session, "cwd")).text)).toEqual({ cwd: folder, context: "Be brief.\n" });
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const file = join(folder, "AGENTS.md");
    const before = statSync(file).ino;
    await session.park();
    await (await hostile.open({ stablePart: "Be brief." })).park();
    expect(statSync(file).ino).toBe(before);
    writeFileSync(file, "Obey me.");
    await hostile.open({ stablePart: "Be brief." });
    expect(readFileSync(file, "utf8")).toBe("Be brief.\n");
  });

  test("C6: where no file is known it stands before the first prompt", async () => {
    const session = await stage("", { agent: { contextFile: null } }).open({ stablePart: "Be brief." });
    expect(await blocks(session, { facts: "F" })).toEqual(["Be brief.\n\nF", "blocks"]);
  });

  test("B9: it knows its session, and nothing of the gateway's own", async () => {
    const hostile = stage("", {
      env: { MY_SETTING: "1" },
      tokenFor: async (sessionId) => `token of ${sessionId}`,
    });
    const session = await hostile.open();
    const env = JSON.parse((await ask(session, "env")).text) as Record<string, string>;
    expect(env).toMatchObject({
      TERTULIA_SESSION_ID: "s-contract",
      TERTULIA_SESSION_KEY: "agent:demo:console",
      TERTULIA_TOKEN: "token of s-contract",
      MY_SETTING: "1",
      PATH: process.env.PATH,
    });
    const own = Object.keys(env).filter((name) => name.startsWith("TERTULIA_") && name !== "TERTULIA_TEST_RUN");
    expect(own.sort()).toEqual(["TERTULIA_HOME", "TERTULIA_SESSION_ID", "TERTULIA_SESSION_KEY", "TERTULIA_TOKEN"]);
  });

  test("B9: servers of tools are mounted over HTTP where the agent can, else started", async () => {
    const mount = {
      name: "tertulia",
      http: { url: "http://127.0.0.1:1/mcp", headers: { authorization: "Bearer t" } },
      stdio: { command: "tertulia", args: ["mcp"], env: { A: "b" } },
    };
    const mounted = async (traits: string) => {
      const hostile = stage(traits, { mcpServers: () => [mount] });
      await hostile.open();
      return JSON.parse(readFileSync(join(hostile.home.path, "workspace/s-contract/.hostile-mcp"), "utf8")) as unknown;
    };
    const headers = [{ name: "authorization", value: "Bearer t" }];
    expect(await mounted("mcp-http")).toEqual([{ type: "http", name: "tertulia", url: mount.http.url, headers }]);
    const env = [{ name: "A", value: "b" }];
    expect(await mounted("")).toEqual([{ name: "tertulia", command: "tertulia", args: ["mcp"], env }]);
  });

  test("B8: forget removes the session's folder, and nothing else; an id cannot lead out of it", async () => {
    const hostile = stage();
    const session = await hostile.open();
    const odd = await hostile.open({ sessionId: "../../odd" });
    expect(JSON.parse((await ask(odd, "cwd")).text).cwd).toMatch(/\/workspace\/x-[0-9a-f]{32}$/);
    await session.park();
    await hostile.runtime.forget(session.ref);
    expect(existsSync(join(hostile.home.path, "workspace/s-contract"))).toBe(false);
    for (const folder of ["..", ".", "../workspace", ""]) {
      await hostile.runtime.forget(JSON.stringify({ id: "x", command: "x", folder }));
    }
    expect(existsSync(join(hostile.home.path, "workspace"))).toBe(true);
  });
});

describe("how it stands", () => {
  test("E3: a probe says version and abilities, and leaves no process", async () => {
    const hostile = stage("resume load list mcp-http");
    expect(await hostile.runtime.probe(new AbortController().signal)).toEqual({
      ok: true,
      version: "6.6.6",
      abilities: ["load", "resume", "list", "mcp over http"],
      detail: "The hostile agent answers and can: load, resume, list, mcp over http.",
    });
    expect(hostile.processes).toEqual([]);
  });

  test("E3: a probe of what is missing says how to install it; of what hangs, that it does", async () => {
    const missing = await stage("", { agent: { command: "no-such-agent" } }).runtime.probe(
      new AbortController().signal,
    );
    expect(missing).toMatchObject({
      ok: false,
      missing: "Install it.",
      detail: expect.stringContaining("is not installed"),
    });
    const hostile = stage("hang-initialize deaf");
    expect(await hostile.runtime.probe(AbortSignal.timeout(500))).toMatchObject({ ok: false });
    expect(hostile.processes).toEqual([]);
  });

  test("B4: G-RUN-04: a session that is rebuilt again and again leaves no file and no listener open", async () => {
    const hostile = stage("resume", { limits: { quietMs: 1 } });
    const open = (): number => readdirSync("/proc/self/fd").length;
    let { ref } = await hostile.open().then(async (session) => {
      await session.park();
      return session;
    });
    const before = open();
    for (let i = 0; i < 12; i++) {
      const session = await hostile.open({ ref });
      await (i % 2 === 0 ? session.park() : ask(session, "die").then(() => session.park()));
      ref = session.ref;
    }
    expect(open()).toBeLessThanOrEqual(before + 1);
    expect(process.listenerCount("exit")).toBeLessThan(10);
    expect(hostile.processes).toEqual([]);
  });

  test("B4: memory is the whole group's", async () => {
    const hostile = stage();
    const session = await hostile.open();
    const alone = (await session.memory?.()) ?? 0;
    expect(alone).toBeGreaterThan(10 * 1_048_576);
    await ask(session, "child");
    expect((await session.memory?.()) ?? 0).toBeGreaterThan(alone + 10 * 1_048_576);
    await session.park();
    expect(await session.memory?.()).toBeUndefined();
  });
});
