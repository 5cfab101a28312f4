/**
 * An ACP agent that does what agents have been seen to do, and worse: `node test/support/hostile-agent.ts [trait …]`. Traits say how it
 * lives; the first word of a prompt says what it does in that turn. It speaks the wire itself, so that it can speak it wrongly.
 */
import { spawn } from "node:child_process";
import { appendFileSync, closeSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";

type Fields = Record<string, unknown>;

const traits = new Set(process.argv.slice(2));
/** Of a trait with a number: `gap=300`. */
const numberOf = (trait: string): number =>
  Number([...traits].find((one) => one.startsWith(`${trait}=`))?.slice(trait.length + 1) ?? 0);
const KNOWN = ".hostile-sessions";
/** With the trait `history`: what was said, a line each. */
const HISTORY = ".hostile-history";
let calls = 0;
let prompts = 0;
let lastWasCancelled = false;
const answers = new Map<unknown, (response: Fields) => void>();
const cancels = new Set<() => void>();
/** What is said when the answer to the prompt has been written, in the same breath. */
const afterwards: (() => void)[] = [];

const send = (message: Fields): void =>
  void process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const write = (text: string): Promise<void> => new Promise((resolve) => process.stdout.write(text, () => resolve()));
const update = (sessionId: unknown, change: Fields): void =>
  send({ method: "session/update", params: { sessionId, update: change } });
const say = (sessionId: unknown, text: string, more: Fields = {}): void =>
  update(sessionId, { sessionUpdate: "agent_message_chunk", content: { type: "text", text }, ...more });
const call = (method: string, params: Fields): Promise<Fields> =>
  new Promise((resolve) => {
    const id = `call-${++calls}`;
    answers.set(id, resolve);
    send({ id, method, params });
  });
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const never = (): Promise<never> => new Promise(() => undefined);
const cancelled = (): Promise<void> =>
  new Promise((resolve) => {
    cancels.add(resolve);
  });

class Refusal extends Error {
  readonly code: number;
  readonly data: unknown;
  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

function stopListening(): void {
  closeSync(0);
  setInterval(() => undefined, 1_000);
}

function remember(role: "user" | "agent", text: string): void {
  if (traits.has("history")) appendFileSync(HISTORY, `${JSON.stringify({ role, text })}\n`);
}

/** Its history again: `user` messages too, `tools` in between, each after `gap`, the first one after `delay`. */
async function replay(sessionId: unknown): Promise<void> {
  const lines = existsSync(HISTORY) ? readFileSync(HISTORY, "utf8").split("\n").filter(Boolean) : [];
  await pause(numberOf("delay"));
  for (const { role, text } of lines.map((line) => JSON.parse(line) as { role: string; text: string })) {
    if (role === "user" && !traits.has("user")) continue;
    await pause(numberOf("gap"));
    const sessionUpdate = role === "user" ? "user_message_chunk" : "agent_message_chunk";
    update(sessionId, { sessionUpdate, content: { type: "text", text } });
    if (traits.has("tools")) update(sessionId, { sessionUpdate: "tool_call", toolCallId: text, title: `Old ${text}` });
  }
}

function known(): string[] {
  return existsSync(KNOWN) ? readFileSync(KNOWN, "utf8").split("\n").filter(Boolean) : [];
}

/** A child of the same group that ends only by SIGKILL. */
function stubbornChild(): Promise<void> {
  const child = spawn(
    process.execPath,
    ["-e", "process.on('SIGTERM',()=>{});console.log('up');setInterval(()=>{},1000)"],
    {
      // It holds our own output open, as children do.
      stdio: ["ignore", "pipe", "ignore", 1],
    },
  );
  return new Promise((resolve) => child.stdout!.once("data", () => resolve()));
}

const permission = (sessionId: unknown, more: Fields = {}): Promise<Fields> =>
  call("session/request_permission", {
    sessionId,
    toolCall: { toolCallId: "t1", title: "Remove all files" },
    options: [
      { optionId: "yes", name: "Yes", kind: "allow_once" },
      { optionId: "no", name: "No", kind: "reject_once" },
    ],
    ...more,
  });

const outcome = (response: Fields): string =>
  JSON.stringify((response.result as Fields | undefined)?.outcome ?? response.error);

const methods: Record<string, (params: Fields) => Promise<unknown>> = {
  async initialize() {
    if (traits.has("hang-initialize")) return never();
    if (traits.has("deaf-initialize")) stopListening();
    if (traits.has("die-initialize")) {
      console.error("the key sk-very-secret is wrong");
      process.exit(3);
    }
    if (traits.has("close-output")) {
      process.stdout.end();
      return never();
    }
    return {
      protocolVersion: traits.has("version-2") ? 2 : 1,
      agentInfo: { name: "hostile", version: "6.6.6" },
      agentCapabilities: {
        loadSession: traits.has("load"),
        mcpCapabilities: { http: traits.has("mcp-http") },
        sessionCapabilities: {
          ...(traits.has("resume") ? { resume: {} } : {}),
          ...(traits.has("list") ? { list: {} } : {}),
          ...(traits.has("close") ? { close: {} } : {}),
        },
      },
    };
  },
  async "session/new"({ mcpServers }) {
    if (traits.has("hang-new")) return never();
    if (traits.has("die-new")) process.exit(4);
    if (traits.has("auth")) throw new Refusal(-32000, "Authentication required");
    if (traits.has("no-id")) return {};
    writeFileSync(".hostile-mcp", JSON.stringify(mcpServers));
    const sessionId = `h-${process.pid}-${known().length}`;
    writeFileSync(KNOWN, [...known(), sessionId].join("\n"));
    return { sessionId };
  },
  async "session/resume"({ sessionId }) {
    if (traits.has("resume-lies")) return {};
    if (traits.has("die-resume")) process.exit(5);
    if (traits.has("resume-replays")) void replay(sessionId);
    if (traits.has("resume-fails") || !known().includes(String(sessionId))) throw new Refusal(-32603, "Internal error");
    return {};
  },
  async "session/load"({ sessionId }) {
    if (!known().includes(String(sessionId))) {
      if (traits.has("load-null")) return null;
      throw new Refusal(-32602, "Invalid params");
    }
    if (traits.has("history")) {
      const told = replay(sessionId);
      if (!traits.has("late")) await told;
    } else if (traits.has("late-replay")) {
      void (async () => {
        for (let i = 0; i < 8; i++) {
          await pause(20);
          say(sessionId, `OLD${i} `);
        }
      })();
    } else {
      say(sessionId, "OLD ");
    }
    return {};
  },
  async "session/list"() {
    return { sessions: known().map((sessionId) => ({ sessionId, cwd: process.cwd() })) };
  },
  async "session/close"() {
    writeFileSync(".hostile-closed", "");
    return {};
  },
  async "session/prompt"({ sessionId, prompt }) {
    prompts++;
    if (traits.has("resume-lies") && !known().includes(String(sessionId))) return { stopReason: "refusal" };
    if (traits.has("empty-after-cancel") && lastWasCancelled) {
      lastWasCancelled = false;
      return { stopReason: "end_turn", usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0 } };
    }
    const texts = (prompt as { text: string }[]).map(({ text }) => text);
    const [, word = "", argument = ""] = /^(\S+)\s*(.*)$/s.exec(texts.at(-1)?.split("\n").at(-1) ?? "") ?? [];
    if (traits.has("echo"))
      update(sessionId, { sessionUpdate: "user_message_chunk", content: { type: "text", text: texts.join("") } });
    remember("user", texts.join(""));
    const end = await (words[word] ?? words.say!)(sessionId, argument, prompt as Fields[]);
    return typeof end === "string" ? { stopReason: end } : (end ?? { stopReason: "end_turn" });
  },
};

const words: Record<string, (sessionId: unknown, argument: string, prompt: Fields[]) => Promise<unknown>> = {
  async say(sessionId, argument) {
    remember("agent", argument);
    say(sessionId, argument);
  },
  async noise(sessionId) {
    await write(
      'Welcome to the agent!\n\n\u001b[31mWARN\u001b[0m {not json\n[]\n[1]\n42\nnull\n"text"\n{}\n{"jsonrpc":"2.0"}\n',
    );
    say(sessionId, "x".repeat(100_000));
    await write(`${JSON.stringify([{ jsonrpc: "2.0", method: "session/update", params: {} }])}\n`);
    send({ id: 4711, result: "nobody asked" });
    send({ id: null, error: { code: -1, message: "nobody" } });
    send({ method: "window/logMessage", params: { text: "hello" } });
    send({ method: "session/update" });
    send({ method: "session/update", params: { sessionId } });
    send({ method: "session/update", params: { sessionId, update: "text" } });
    const line = JSON.stringify({
      jsonrpc: "2.0",
      method: "session/update",
      params: {
        sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "hälf 😀" } },
      },
    });
    for (const byte of Buffer.from(`${line}\r\n`)) process.stdout.write(Buffer.of(byte));
  },
  async unknown(sessionId) {
    update(sessionId, { sessionUpdate: "mood_update", mood: "good" });
    update(sessionId, { sessionUpdate: 7 });
    update(sessionId, { sessionUpdate: "agent_message_chunk", content: { type: "hologram", data: "x" } });
    update(sessionId, { sessionUpdate: "agent_message_chunk", content: null });
    update(sessionId, { sessionUpdate: "agent_message_chunk", content: { type: "text", text: 5 } });
    update(sessionId, { sessionUpdate: "tool_call", toolCallId: 9 });
    update(sessionId, { sessionUpdate: "tool_call_update", toolCallId: "t9", status: "exploded", title: "Odd" });
    update(sessionId, { sessionUpdate: "plan", entries: "none" });
    update(sessionId, {
      sessionUpdate: "plan",
      entries: [{ content: "look", status: "in_progress", priority: "high" }, 3],
    });
    update(sessionId, { sessionUpdate: "usage_update", used: 53_000, size: 200_000 });
    update(sessionId, { sessionUpdate: "usage_update", used: "many" });
    update(sessionId, { sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "hm" } });
    say(sessionId, "ok");
  },
  async stop(sessionId, argument) {
    const [reason = "", ...text] = argument.split(" ");
    if (text.length > 0) say(sessionId, text.join(" "));
    return reason;
  },
  async usage(sessionId, argument) {
    say(sessionId, "ok");
    if (argument === "prompt") {
      const usage = { inputTokens: 11, outputTokens: 7, totalTokens: 18, cachedReadTokens: 5 };
      return { stopReason: "end_turn", usage };
    }
    if (argument === "quota") {
      return { stopReason: "end_turn", _meta: { quota: { token_count: { input_tokens: 12, output_tokens: 3 } } } };
    }
    say(sessionId, "", { _meta: { usage: { inputTokens: 20, outputTokens: 2 } } });
    say(sessionId, "", { _meta: { usage: { inputTokens: 30, outputTokens: 4 } } });
  },
  async tools(sessionId) {
    update(sessionId, { sessionUpdate: "tool_call", toolCallId: "a", title: "Read x", status: "pending" });
    update(sessionId, { sessionUpdate: "tool_call_update", toolCallId: "a", status: "in_progress" });
    for (let i = 0; i < 50; i++) update(sessionId, { sessionUpdate: "tool_call_update", toolCallId: "a", content: [] });
    update(sessionId, { sessionUpdate: "tool_call_update", toolCallId: "a", status: "completed" });
    update(sessionId, { sessionUpdate: "tool_call", toolCallId: "b", title: "Write y", status: "failed" });
    say(sessionId, "ok");
  },
  async slowly(sessionId, argument) {
    const [, ms = "200", text = argument] = /^(\d+)ms (.*)$/s.exec(argument) ?? [];
    await pause(Number(ms));
    say(sessionId, text);
  },
  empty: async () => undefined,
  async hang(sessionId) {
    say(sessionId, "wait");
    await cancelled();
    lastWasCancelled = true;
    return "cancelled";
  },
  async deafen(sessionId) {
    say(sessionId, "wait");
    return never();
  },
  async "ask-hang"(sessionId) {
    say(sessionId, "may I?");
    // Ends only when it has its answer, as some do.
    const response = await permission(sessionId);
    say(sessionId, outcome(response));
    await (JSON.stringify(response).includes("cancelled") ? undefined : cancelled());
    return "cancelled";
  },
  async "ask-withdraw"(sessionId, argument) {
    // It takes its question back, and goes on.
    const asked = permission(sessionId);
    await pause(Number(argument));
    send({ method: "$/cancel_request", params: { requestId: `call-${calls}` } });
    say(sessionId, outcome(await asked));
    await cancelled();
    return "cancelled";
  },
  async "ask-twice"(sessionId) {
    const both = await Promise.all([permission(sessionId), permission(sessionId)]);
    say(sessionId, both.map(outcome).join(" "));
  },
  async "ask-silent"(sessionId) {
    const response = await permission(sessionId);
    if (!outcome(response).includes('"no"')) say(sessionId, outcome(response));
  },
  async "ask-leave"(sessionId) {
    // The turn ends before its question is answered.
    void permission(sessionId).then((response) => writeFileSync(".hostile-answer", outcome(response)));
    say(sessionId, "never mind");
  },
  async "ask-other"(sessionId) {
    say(sessionId, outcome(await permission("another session")));
  },
  async "ask-odd"(sessionId) {
    update(sessionId, { sessionUpdate: "tool_call", toolCallId: "t2", title: "Known title", status: "pending" });
    const options = [
      { optionId: "x", name: "X", kind: "maybe" },
      5,
      { optionId: "only", name: "", kind: "allow_once" },
    ];
    say(sessionId, outcome(await permission(sessionId, { toolCall: { toolCallId: "t2" }, options })));
  },
  /** Takes nothing any more, and lives on. */
  async deaf(sessionId) {
    say(sessionId, "not listening");
    stopListening();
  },
  async "deaf-hang"(sessionId) {
    stopListening();
    say(sessionId, "not listening");
    return never();
  },
  async die(sessionId) {
    await write("");
    say(sessionId, "half a sen");
    await write("");
    process.exit(7);
  },
  async "die-after"(sessionId) {
    say(sessionId, "done");
    setImmediate(() => process.stdout.write("", () => process.exit(0)));
  },
  async child(sessionId) {
    await stubbornChild();
    say(sessionId, "born");
  },
  async "child-die"(sessionId) {
    await stubbornChild();
    say(sessionId, "orphaned");
    await write("");
    process.exit(9);
  },
  async flood(sessionId, argument) {
    for (let i = 0; i < Number(argument); i++) {
      if (i % 1_000 === 0) writeFileSync(".hostile-flood", String(i));
      update(sessionId, {
        sessionUpdate: "agent_thought_chunk",
        content: { type: "text", text: `${i} ${"y".repeat(200)}` },
      });
      if (process.stdout.writableNeedDrain) await new Promise((resolve) => process.stdout.once("drain", resolve));
    }
    say(sessionId, "ok");
  },
  async endless(sessionId) {
    let isOver = false;
    void cancelled().then(() => {
      isOver = true;
    });
    while (!isOver) {
      say(sessionId, "z".repeat(50_000));
      await pause(0);
      if (process.stdout.writableNeedDrain) await new Promise((resolve) => process.stdout.once("drain", resolve));
    }
    return "cancelled";
  },
  async other(sessionId) {
    say("another session", "SECRET OF ANOTHER");
    update(undefined, { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "NOBODY'S" } });
    say(sessionId, "ok");
  },
  async late(sessionId) {
    say(sessionId, "ok");
    setTimeout(() => say(sessionId, "LATE "), 20);
  },
  /** `after 0,300 a,b`: says so after its answer, each after so many ms; what stands behind a bar comes before. */
  async after(sessionId, argument) {
    const [, times = "", texts = "", first = ""] = /^(\S+) (.*?)(?:\|(.*))?$/s.exec(argument) ?? [];
    if (first !== "") say(sessionId, first);
    for (const [i, text] of texts.split(",").entries()) {
      const ms = Number(times.split(",")[i]);
      afterwards.push(() => (ms === 0 ? say(sessionId, text) : void setTimeout(() => say(sessionId, text), ms)));
    }
  },
  async "after-news"(sessionId) {
    say(sessionId, "ok");
    afterwards.push(() => {
      update(sessionId, { sessionUpdate: "tool_call_update", toolCallId: "a", title: "Read x", status: "completed" });
      void permission(sessionId).then((response) => say(sessionId, outcome(response)));
    });
  },
  async chatter(sessionId, argument) {
    say(sessionId, "ok");
    afterwards.push(() => setInterval(() => say(sessionId, "blah "), Number(argument)));
  },
  async queued(sessionId) {
    say(sessionId, "Queued for ");
    say(sessionId, "the next turn. (1 queued)");
  },
  async queue(sessionId) {
    say(sessionId, "Queue");
    say(sessionId, "s are short today");
  },
  async error(_, argument) {
    const [code, ...message] = argument.split(" ");
    throw new Refusal(Number(code), message.join(" "));
  },
  async client(sessionId) {
    const answered = await Promise.all([
      call("fs/read_text_file", { sessionId, path: "/etc/passwd" }),
      call("fs/write_text_file", { sessionId, path: "/tmp/x", content: "" }),
      call("terminal/create", { sessionId, command: "sh" }),
      call("elicitation/create", { sessionId, message: "?", mode: "form", requestedSchema: {} }),
      call("session/request_permission", {}),
    ]);
    say(
      sessionId,
      answered.map((response) => (response.error as Fields | undefined)?.code ?? outcome(response)).join(" "),
    );
  },
  async blocks(sessionId, _, prompt) {
    say(sessionId, JSON.stringify(prompt.map(({ text }) => text)));
  },
  async env(sessionId) {
    say(sessionId, JSON.stringify(process.env));
  },
  async cwd(sessionId) {
    say(
      sessionId,
      JSON.stringify({
        cwd: process.cwd(),
        context: existsSync("AGENTS.md") ? readFileSync("AGENTS.md", "utf8") : null,
      }),
    );
  },
  async prompts(sessionId) {
    say(sessionId, String(prompts));
  },
};

async function take(message: Fields): Promise<void> {
  const { id, method, params } = message;
  if (method === undefined) return answers.get(id)?.(message);
  if (method === "session/cancel") {
    for (const cancel of cancels) cancel();
    return cancels.clear();
  }
  try {
    const result = await methods[String(method)]?.((params ?? {}) as Fields);
    if (result === undefined) throw new Refusal(-32601, "Method not found");
    send({ id, result });
    for (const speak of afterwards.splice(0)) speak();
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause;
    send({ id, error: { code: cause.code, message: cause.message, data: cause.data } });
  }
}

if (traits.has("deaf")) {
  process.on("SIGTERM", () => undefined);
  setInterval(() => undefined, 1_000);
}
if (traits.has("child")) await stubbornChild();
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void take(JSON.parse(line) as Fields));
lines.on("close", () => {
  if (!traits.has("deaf") && !traits.has("sigterm-only")) process.exit(0);
});
if (traits.has("sigterm-only")) setInterval(() => undefined, 1_000);
