import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import * as acp from "@agentclientprotocol/sdk/unstable";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../../test/support/acp-demo-agent.ts", import.meta.url));
const { agent: ask, client: asked } = acp.methods;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tertulia-demo-"));
});
afterAll(() => rm(folder, { recursive: true }));

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) if (child.exitCode === null) child.kill("SIGKILL");
});

/** A client with the agent's process, initialized. */
async function start() {
  const child = spawn(process.execPath, [SCRIPT, folder], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  const exited = once(child, "exit").then(([code]) => code as number | null);
  const updates: acp.SessionUpdate[] = [];
  const permissions: { answer: (outcome: acp.RequestPermissionOutcome) => void }[] = [];
  let onUpdate = (): void => undefined;
  const connection = acp
    .client({ name: "test" })
    .onNotification(asked.session.update, ({ params }) => {
      updates.push(params.update);
      onUpdate();
    })
    .onRequest(asked.session.requestPermission, async () => {
      const { promise, resolve } = Promise.withResolvers<acp.RequestPermissionOutcome>();
      permissions.push({ answer: resolve });
      onUpdate();
      return { outcome: await promise };
    })
    .connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>));
  const { agent } = connection;
  const initialized = await agent.request(ask.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  return {
    agent,
    initialized,
    exited,
    updates,
    permissions,
    create: async () => (await agent.request(ask.session.new, { cwd: folder, mcpServers: [] })).sessionId,
    prompt(sessionId: string, ...texts: string[]) {
      updates.length = 0;
      const prompt = texts.map((text): acp.ContentBlock => ({ type: "text", text }));
      return agent.request(ask.session.prompt, { sessionId, prompt });
    },
    text: () => updates.map(chunkOf).join(""),
    next: () =>
      new Promise<void>((resolve) => {
        onUpdate = resolve;
      }),
    async stop() {
      child.stdin.end();
      expect(await exited).toBe(0);
    },
  };
}

function chunkOf(update: acp.SessionUpdate): string {
  const isChunk = update.sessionUpdate === "agent_message_chunk" || update.sessionUpdate === "user_message_chunk";
  return isChunk && update.content.type === "text" ? update.content.text : "";
}

test("B3: two prompts in one session, with memory; the facts are a block of their own", async () => {
  const { initialized, create, prompt, text, stop } = await start();
  expect(initialized).toMatchObject({ protocolVersion: 1, agentCapabilities: { loadSession: true } });
  const sessionId = await create();
  const first = await prompt(sessionId, "Source: CLI terminal", "my parrot is called Kiwi");
  expect(first).toEqual({
    stopReason: "end_turn",
    usage: { inputTokens: 8, outputTokens: 27, totalTokens: 35 },
  });
  expect(text()).toContain(
    `Door: CLI terminal\nSession: ${sessionId} (created)\nEarlier messages: 0\nYou said: my parrot`,
  );
  await prompt(sessionId, "history");
  expect(text()).toContain("you: my parrot is called Kiwi");
  await stop();
});

test("T7: slow is streamed, and a cancel ends it with what was said", async () => {
  const { agent, create, prompt, text, next, stop } = await start();
  const sessionId = await create();
  const answered = prompt(sessionId, "slow 1000");
  await next();
  await agent.notify(ask.session.cancel, { sessionId });
  expect((await answered).stopReason).toBe("cancelled");
  expect(text()).toMatch(/^1/);
  expect((await prompt(sessionId, "say again")).stopReason).toBe("end_turn");
  expect(text()).toBe("again");
  await stop();
});

test("H12: ask asks for a permission, and a cancelled question is no answer", async () => {
  const { create, prompt, text, next, permissions, stop } = await start();
  const sessionId = await create();
  for (const [outcome, answer] of [
    [{ outcome: "selected", optionId: "reject" }, "You answered: reject"],
    [{ outcome: "cancelled" }, "no answer"],
  ] as const) {
    const answered = prompt(sessionId, "ask");
    await next();
    permissions.at(-1)?.answer(outcome);
    await answered;
    expect(text()).toBe(answer);
  }
  await stop();
});

test("T8: the tool is told in all its states", async () => {
  const { create, prompt, updates, text, stop } = await start();
  await prompt(await create(), "tool");
  expect(updates.map((update) => ("status" in update ? update.status : update.sessionUpdate))).toEqual([
    "pending",
    "in_progress",
    "completed",
    "agent_message_chunk",
  ]);
  expect(text()).toBe("I counted one up: 1");
  await stop();
});

test("B5: after die, the session is resumed or loaded by the next process", async () => {
  const before = await start();
  const sessionId = await before.create();
  await before.prompt(sessionId, "say my parrot is called Kiwi");
  await expect(before.prompt(sessionId, "die")).rejects.toThrow();
  expect(await before.exited).toBe(1);

  const { agent, prompt, text, updates, stop } = await start();
  const request = { sessionId, cwd: folder, mcpServers: [] };
  await agent.request(ask.session.resume, request);
  expect(updates).toEqual([]);
  await prompt(sessionId, "whoami");
  expect(text()).toContain(`Session: ${sessionId} (resumed)`);

  updates.length = 0;
  await agent.request(ask.session.load, request);
  expect(updates.map(chunkOf).slice(0, 3)).toEqual(["say my parrot is called Kiwi", "my parrot is called Kiwi", "die"]);
  await prompt(sessionId, "history");
  expect(text()).toContain("me: my parrot is called Kiwi");
  await stop();
});

test("B5: fail is a refusal; gone loses the session and its file; an unknown one is not found", async () => {
  const { agent, create, prompt, stop } = await start();
  const sessionId = await create();
  expect((await prompt(sessionId, "fail")).stopReason).toBe("refusal");
  await expect(prompt(sessionId, "gone")).rejects.toMatchObject({ code: -32002 });
  await expect(prompt(sessionId, "say hello")).rejects.toMatchObject({ code: -32002 });
  expect(await readdir(folder)).not.toContain(`${sessionId}.jsonl`);
  for (const unknown of [sessionId, "../escape"]) {
    const request = { sessionId: unknown, cwd: folder, mcpServers: [] };
    await expect(agent.request(ask.session.load, request)).rejects.toMatchObject({ code: -32002 });
  }
  await stop();
});

test("B8: with its client gone the process ends by itself, whatever runs", async () => {
  const { create, prompt, next, stop } = await start();
  const turns = ["slow 1000", "stubborn"].map(async (text) => {
    await expect(prompt(await create(), text)).rejects.toThrow();
  });
  await next();
  await stop();
  await Promise.all(turns);
});

test("B8: closing a session ends its prompt and nothing else", async () => {
  const { agent, create, prompt, text, stop } = await start();
  const [stuck, other] = [await create(), await create()];
  const answered = prompt(stuck, "stubborn");
  await agent.request(ask.session.close, { sessionId: stuck });
  await expect(answered).rejects.toThrow();
  await prompt(other, "say still here");
  expect(text()).toBe("still here");
  await stop();
});
