/// <reference types="node" preserve="true" />
/**
 * The demo agent as an ACP agent: the same `DemoSession` over stdio, so that the ACP road works on a fresh machine. The last text block of
 * a prompt is what was said; the blocks before it are the facts, with what the session holds besides.
 *
 * With a state folder a session is a file of JSON lines there, and outlives the process.
 */
import { randomUUID } from "node:crypto";
import { appendFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/unstable";
import { type Clock, systemClock } from "../../util/clock.ts";
import { readRows } from "../prompt.ts";
import type { HistoryLine, OpenedHow, TurnEvent, TurnInput, TurnResult } from "../runtime.ts";
import { DemoSession } from "./demo-runtime.ts";

export interface AcpDemoAgentOptions {
  readonly stdin: Readable;
  readonly stdout: Writable;
  /** Ends the process, for the word `die`. */
  readonly exit: (code: number) => void;
  /** Made when it is not there. Without it sessions end with the process, or when they are closed. */
  readonly stateFolder?: string;
  readonly clock?: Clock;
  readonly newSessionId?: () => string;
  /** Told to the client. */
  readonly version?: string;
}

/** Serves one client; settles when it has closed the connection. */
export async function runAcpDemoAgent(options: AcpDemoAgentOptions): Promise<void> {
  const sessions = new DemoSessions(options);
  const { agent } = acp.methods;
  const input = Readable.toWeb(options.stdin) as ReadableStream<Uint8Array>;
  const connection = acp
    .agent({ name: "demo" })
    .onRequest(agent.initialize, () => ({
      protocolVersion: acp.PROTOCOL_VERSION,
      agentInfo: { name: "tertulia-demo", title: "Built-in demo agent", version: options.version ?? "0" },
      agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, close: {}, delete: {} } },
    }))
    .onRequest(agent.session.new, async () => ({ sessionId: await sessions.create() }))
    .onRequest(agent.session.load, async ({ params: { sessionId }, client }) => {
      for (const line of await sessions.open(sessionId, "loaded")) await replay(client, sessionId, line);
      return {};
    })
    .onRequest(agent.session.resume, async ({ params: { sessionId } }) => {
      await sessions.open(sessionId, "resumed");
      return {};
    })
    .onRequest(agent.session.prompt, async ({ params: { sessionId, prompt }, client, signal }) =>
      sessions.prompt(sessionId, readPrompt(prompt), signal, (event) => tell(client, sessionId, event)),
    )
    .onNotification(agent.session.cancel, ({ params: { sessionId } }) => sessions.cancel(sessionId))
    .onRequest(agent.session.close, ({ params: { sessionId } }) => sessions.close(sessionId))
    .onRequest(agent.session.delete, ({ params: { sessionId } }) => sessions.delete(sessionId))
    .connect(acp.ndJsonStream(Writable.toWeb(options.stdout), input));
  await connection.closed;
  await sessions.closeAll();
}

interface OpenSession {
  readonly session: DemoSession;
  /** Of the prompt that runs. */
  cancel: AbortController | null;
}

class DemoSessions {
  readonly #options: AcpDemoAgentOptions;
  readonly #open = new Map<string, OpenSession>();
  #turns = 0;
  #sideEffects = 0;

  constructor(options: AcpDemoAgentOptions) {
    this.#options = options;
  }

  async create(): Promise<string> {
    const sessionId = this.#options.newSessionId?.() ?? randomUUID();
    const { stateFolder } = this.#options;
    if (stateFolder !== undefined) {
      await mkdir(stateFolder, { recursive: true });
      await writeFile(this.#fileOf(sessionId, stateFolder), "");
    }
    this.#start(sessionId, "created", []);
    return sessionId;
  }

  async open(sessionId: string, how: OpenedHow): Promise<readonly HistoryLine[]> {
    const { stateFolder } = this.#options;
    if (stateFolder === undefined) throw acp.RequestError.sessionNotFound(sessionId);
    const lines = await readLines(this.#fileOf(sessionId, stateFolder));
    if (!lines) throw acp.RequestError.sessionNotFound(sessionId);
    await this.close(sessionId);
    this.#start(sessionId, how, lines);
    return lines;
  }

  async prompt(
    sessionId: string,
    said: Omit<TurnInput, "turnId">,
    signal: AbortSignal,
    onEvent: (event: TurnEvent) => Promise<void>,
  ): Promise<acp.PromptResponse> {
    const open = this.#open.get(sessionId);
    if (!open) throw acp.RequestError.sessionNotFound(sessionId);
    if (open.cancel) throw acp.RequestError.invalidRequest(undefined, "a prompt of this session runs already");
    open.cancel = new AbortController();
    try {
      for (const line of said.missed) await this.#keep(sessionId, line);
      await this.#keep(sessionId, { role: "user", text: said.text });
      const input = { turnId: ++this.#turns, ...said };
      const either = AbortSignal.any([open.cancel.signal, signal]);
      const result = await open.session.turn(input, { signal: either, onEvent });
      if (result.text) await this.#keep(sessionId, { role: "assistant", text: result.text });
      if (result.failure?.kind === "session-gone") await this.delete(sessionId);
      return responseOf(result, sessionId);
    } finally {
      open.cancel = null;
    }
  }

  cancel(sessionId: string): void {
    this.#open.get(sessionId)?.cancel?.abort();
  }

  async close(sessionId: string): Promise<void> {
    const open = this.#open.get(sessionId);
    this.#open.delete(sessionId);
    open?.cancel?.abort();
    await open?.session.park();
  }

  async delete(sessionId: string): Promise<void> {
    await this.close(sessionId);
    const { stateFolder } = this.#options;
    if (stateFolder !== undefined) await rm(this.#fileOf(sessionId, stateFolder), { force: true });
  }

  async closeAll(): Promise<void> {
    for (const sessionId of this.#open.keys()) await this.close(sessionId);
  }

  #start(sessionId: string, how: OpenedHow, lines: readonly HistoryLine[]): void {
    const clock = this.#options.clock ?? systemClock;
    const primer = { total: lines.length, lines };
    const session = new DemoSession({ sessionId, how, primer, clock, work: () => ++this.#sideEffects });
    session.onDead(() => this.#options.exit(1));
    this.#open.set(sessionId, { session, cancel: null });
  }

  async #keep(sessionId: string, line: HistoryLine): Promise<void> {
    const { stateFolder } = this.#options;
    if (stateFolder === undefined) return;
    await appendFile(this.#fileOf(sessionId, stateFolder), `${JSON.stringify(line)}\n`);
  }

  /** An id is chosen by the client when it loads: it must not lead out of the folder. */
  #fileOf(sessionId: string, stateFolder: string): string {
    if (!/^[\w-]{1,128}$/.test(sessionId)) throw acp.RequestError.sessionNotFound(sessionId);
    return join(stateFolder, `${sessionId}.jsonl`);
  }
}

function responseOf({ outcome, failure, usage }: TurnResult, sessionId: string): acp.PromptResponse {
  if (failure?.kind === "refused") return { stopReason: "refusal" };
  if (failure?.kind === "session-gone") throw acp.RequestError.sessionNotFound(sessionId);
  if (failure) throw acp.RequestError.internalError(undefined, failure.message);
  const { input = 0, output = 0 } = usage ?? {};
  return {
    stopReason: outcome === "cancelled" ? "cancelled" : "end_turn",
    usage: { inputTokens: input, outputTokens: output, totalTokens: input + output },
  };
}

function readPrompt(prompt: readonly acp.ContentBlock[]): Omit<TurnInput, "turnId"> {
  const texts = prompt.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const { lines, rest } = readRows(texts.slice(0, -1).join("\n"));
  return { facts: rest, missed: lines, text: texts.at(-1) ?? "" };
}

/** A file whose last line was cut by a crash keeps the lines before it. */
async function readLines(file: string): Promise<HistoryLine[] | null> {
  let content: string;
  try {
    content = await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    throw error;
  }
  const whole = content.slice(0, content.lastIndexOf("\n") + 1);
  return whole.split("\n").flatMap((line) => (line ? [JSON.parse(line) as HistoryLine] : []));
}

function replay(client: acp.AgentContext, sessionId: string, { role, text }: HistoryLine): Promise<void> {
  const sessionUpdate = role === "user" ? "user_message_chunk" : "agent_message_chunk";
  return update(client, sessionId, { sessionUpdate, content: { type: "text", text } });
}

async function tell(client: acp.AgentContext, sessionId: string, event: TurnEvent): Promise<void> {
  if (event.type === "text") {
    const content = { type: "text", text: event.text } as const;
    await update(client, sessionId, { sessionUpdate: "agent_message_chunk", content });
  } else if (event.type === "tool") {
    await tellTool(client, sessionId, event);
  } else if (event.type === "permission") {
    // Not awaited: a cancelled turn ends without the answer.
    void askPermission(client, sessionId, event).then(event.answer, () => event.answer(null));
  }
}

function tellTool(client: acp.AgentContext, sessionId: string, event: TurnEvent & { type: "tool" }): Promise<void> {
  const { id: toolCallId, title } = event;
  if (event.state === "pending") {
    return update(client, sessionId, {
      sessionUpdate: "tool_call",
      toolCallId,
      title,
      kind: "other",
      status: "pending",
    });
  }
  const status = ({ running: "in_progress", done: "completed", failed: "failed" } as const)[event.state];
  return update(client, sessionId, { sessionUpdate: "tool_call_update", toolCallId, status });
}

async function askPermission(
  client: acp.AgentContext,
  sessionId: string,
  { id, title, options }: TurnEvent & { type: "permission" },
): Promise<string | null> {
  const request: acp.RequestPermissionRequest = {
    sessionId,
    toolCall: { toolCallId: id, title },
    options: options.map((option) => ({ optionId: option.id, name: option.label, kind: option.kind })),
  };
  const { outcome } = await client.request(acp.methods.client.session.requestPermission, request);
  return outcome.outcome === "selected" ? outcome.optionId : null;
}

function update(client: acp.AgentContext, sessionId: string, change: acp.SessionUpdate): Promise<void> {
  return client.notify(acp.methods.client.session.update, { sessionId, update: change });
}
