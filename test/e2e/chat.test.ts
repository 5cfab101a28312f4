/** The terminal door as a person sees it: the built command in a real terminal, and at the end of a pipe. */
import { spawn } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import { openOwnerToken } from "../../src/gateway/owner-token.ts";
import { startHttpServer } from "../../src/http/server.ts";
import type { AgentSession, Runtime, TurnEvent, TurnOptions, TurnResult } from "../../src/runtime/runtime.ts";
import type { SessionRow } from "../../src/store/rows.ts";
import { acquireLock, readLock } from "../../src/store/sqlite/lock.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/util/clock.ts";
import { silentLog } from "../../src/util/log.ts";
import { runCommand, startGateway } from "../support/gateway-process.ts";
import { SIGNED } from "../support/http-client.ts";
import { temporaryFolder } from "../support/store.ts";
import { Terminal, type TerminalOptions } from "../support/terminal.ts";

const COMMAND = join(import.meta.dirname, "../../bin/tertulia.js");

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
let closers: (() => unknown)[];

beforeEach(() => {
  folder = temporaryFolder();
  home = folder.path;
  // A welcome would stand between the lines that are looked for; it has a story of its own.
  writeFileSync(join(home, "config.yaml"), "welcome: false\n");
  closers = [];
});

afterEach(async () => {
  for (const close of closers.reverse()) await close();
  folder.remove();
});

function chat(options: Partial<TerminalOptions> = {}): Terminal {
  const terminal = new Terminal({ home, args: ["chat"], ...options });
  closers.push(() => terminal.close());
  return terminal;
}

async function gatewayProcess() {
  const gateway = await startGateway({ home });
  closers.push(() => gateway.stop());
  return gateway;
}

describe("a person at the terminal", () => {
  test("K19: without a gateway the chat runs one; words, a streamed reply, Ctrl-C, history, commands, Ctrl-D", async () => {
    const terminal = chat();
    await terminal.shows("No gateway was running; this chat runs one until it ends.");
    await terminal.shows(/main: agent:main:console:dm:owner%2Fmain, 0 entries, http:\/\/127\.0\.0\.1:\d+\n>$/);

    terminal.enter("hello");
    await terminal.shows(/> hello\nI am the built-in demo agent[^>]*You said: hello\n>$/);

    terminal.enter("slow 50");
    const streaming = await terminal.shows(/> slow 50\n1 2 3/);
    expect(streaming).not.toContain("50\n>");
    terminal.press("C-c");
    // T7: the turn is stopped, and the chat goes on.
    const stopped = await terminal.shows("[The turn was stopped; ask again if you still need it.]");
    expect(stopped).not.toMatch(/ 49/);

    terminal.press("Up");
    await terminal.shows(/\n> slow 50$/);
    terminal.press("Up");
    await terminal.shows(/\n> hello$/);
    terminal.press("C-c");
    await terminal.shows(/\n>$/);
    terminal.press("C-c");
    await terminal.shows("[Ctrl-D leaves.]");

    terminal.enter("/nothing");
    await terminal.shows("There is no command /nothing. /help lists them.");
    terminal.enter("/new");
    await terminal.shows(/New session \d{8}_\d{6}_[0-9a-f]{12}/);
    terminal.enter("history");
    await terminal.shows(/> history\nEarlier messages: 0\n/);

    terminal.press("C-d");
    expect(await terminal.ends()).toBe(0);
    expect(readLock(join(home, "gateway.lock"))).toBeNull();
    expect(statSync(join(home, "chat-history")).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(home, "chat-history"), "utf8")).toBe("hello\nslow 50\n/nothing\n/new\nhistory\n");

    const again = chat({ args: ["chat", "--as", "other"] });
    await again.shows(/agent:main:console:dm:owner%2Fother, 0 entries/);
    again.press("Up");
    await again.shows(/\n> history$/);
    again.press("C-c");
    again.enter("/quit");
    expect(await again.ends()).toBe(0);

    const back = chat();
    await back.shows(/owner%2Fmain, 2 entries[^\n]*\n {2}you: history\n {2}main: Earlier messages: 0\n>$/);
  });

  test("T5: what is typed while a turn runs stays on its line, and is sent at once", async () => {
    const terminal = chat({ columns: 40 });
    await terminal.shows(/\n>$/);
    terminal.enter("slow 40");
    await terminal.shows(/1 2 3/);
    terminal.type("a line that is longer than the window is wide, still typed");
    await terminal.shows("still typed");
    await terminal.shows(/ 39 40\n> a line that is longer than the window\nis wide, still typed$/);
    const { screen } = terminal;
    const numbers = Array.from({ length: 40 }, (_, index) => index + 1).join(" ");
    expect(screen.replaceAll("\n", "")).toContain(`> slow 40${numbers}> a line`);
    expect(screen.match(/> a line/g)).toHaveLength(1);
    terminal.press("Enter");
    await terminal.shows("You said: a line that is longer");

    terminal.enter("slow 20");
    await terminal.shows(/> slow 20\n1 2/);
    terminal.enter("meanwhile");
    await terminal.shows(/> meanwhile[^>]*20\n[^>]*You said: meanwhile\n>$/);
  });

  test("T8: a gateway killed in mid-turn: the chat says so, waits, and shows what became of the messages", async () => {
    const first = await gatewayProcess();
    const terminal = chat({ columns: 120 });
    await terminal.shows(`owner%2Fmain, 0 entries, ${first.url}`);
    terminal.enter("slow 100");
    // The partial is kept once a second.
    await terminal.shows(/ 14 15/);
    await first.kill9();
    await terminal.shows("[The gateway went away; waiting for it to come back.");
    terminal.enter("are you there?");
    await terminal.shows("[Not sent yet: it goes out when the gateway is back.]");

    const second = await gatewayProcess();
    await terminal.shows(`[The gateway is back, at ${second.url}.]`);
    await terminal.shows("[The gateway was restarted before the answer was complete; ask again if you still need it.]");
    const screen = await terminal.shows("You said: are you there?");
    expect(screen.match(/You said: are you there\?/g)).toHaveLength(1);
    expect(screen).toMatch(/> slow 100\n1 2 3 4 5/);

    terminal.enter("hello");
    await terminal.shows(/You said: hello\n>$/);
    terminal.press("C-d");
    expect(await terminal.ends()).toBe(0);
    const [session] = await sessionsAt(second.url);
    expect(session!.entries).toBe(6);
  });

  test("a question of a script is not waited for without end: the gateway is killed in mid-turn and does not come back", async () => {
    const gateway = await gatewayProcess();
    const asking = runCommand({ home, args: ["chat", "-q", "slow 100", "--wait", "1"] });
    await expect.poll(async () => (await sessionsAt(gateway.url)).length).toBe(1);
    await gateway.kill9();
    const { code, errors, out } = await asking;
    expect([code, out]).toEqual([3, ""]);
    expect(errors).toContain("gateway_down: The gateway went away and was not back within 1 s.");
  });

  test("H6: what is said in its session at another door is seen live, with its door", async () => {
    const { url } = await gatewayProcess();
    const terminal = chat();
    terminal.enter("whoami");
    await terminal.shows(/Session: \S+ \(created\)\n>$/);
    const [session] = await sessionsAt(url);
    const room = "agent:main:web:dm:owner%2Fkitchen";
    await post(`${url}/api/send`, { room, text: "Dinner?", session: session!.id });
    await post(`${url}/api/conversations/${encodeURIComponent(room)}/messages`, { text: "say at eight" });
    await terminal.shows(/\[web kitchen\] say at eight\n\[web kitchen\] at eight\n>$/);

    // Another terminal of the same conversation.
    const other = chat();
    await other.shows(/owner%2Fmain, \d+ entries/);
    other.enter("say from the sofa");
    await terminal.shows(/\[another terminal\] say from the sofa\nfrom the sofa\n>$/);
  });

  test("a permission question is answered by the next line", async () => {
    const terminal = chat();
    await terminal.shows(/\n>$/);
    terminal.enter("ask");
    await terminal.shows(
      /\[The demo agent asks[^\]]*\]\n {2}1 Allow\n {2}2 Reject\n\[Answer with a number from 1 to 2\.\]\n>$/,
    );
    terminal.enter("seven");
    await terminal.shows('["seven" is no answer to the question.');
    terminal.enter("2");
    await terminal.shows(/You answered: reject\n>$/);
    terminal.press("Up");
    await terminal.shows(/\n> ask$/);
  });

  test("hostile text: escape sequences in a reply are shown and never obeyed", async () => {
    await gatewayThatSays("\u001b]0;stolen\u0007before\u001b[2Jafter\u009b31mred\r\nnext\u001b[5A!");
    const terminal = chat({ env: { NO_COLOR: "1" } });
    await terminal.shows(/0 entries/);
    terminal.enter("hello");
    const screen = await terminal.shows(/!\n>$/);
    expect(screen).toContain("0 entries");
    // What commands a terminal is taken out of an agent's words by the gateway (S6).
    expect(screen).toContain("> hello\n]0;stolenbefore[2Jafter31mred\nnext[5A!\n>");
    // NO_COLOR is heard.
    expect(terminal.colours).not.toContain("\u001b[");
  });
});

// Whatever was not typed as a line by itself is one message of words: pastes of any length, with and without brackets, with commands and
// answers in any of their lines; texts of several lines typed by hand; the same through a pipe behind the screen.
describe("F-TTY-01 F-TTY-02 S7: what is pasted", () => {
  const heard = "say You heard:";

  async function opened(options: Partial<TerminalOptions> = {}): Promise<Terminal> {
    const terminal = chat({ columns: 120, ...options });
    await terminal.shows(/0 entries[^\n]*\n>$/);
    return terminal;
  }

  test.each(["bracketed", "plain"] as const)("F-TTY-01 three lines are one message (%s)", async (how) => {
    const terminal = await opened();
    terminal.paste(`${heard}\none\ntwo`, how);
    await terminal.shows(/> say You heard:↵one↵two$/);
    terminal.press("Enter");
    await terminal.shows(/↵two\nYou heard:\none\ntwo\n>$/);
    terminal.enter("history");
    await terminal.shows(/Earlier messages: 2\n/);
    terminal.press("Up", "Up", "Enter");
    await terminal.shows(/↵two\nYou heard:\none\ntwo\n>$/);
  });

  test("F-TTY-01 lines that arrive together with their last line end are sent at once, as one message", async () => {
    const terminal = await opened();
    terminal.paste(`${heard}\n\n  indented\nlast\n`, "plain");
    await terminal.shows(/last\nYou heard:\n\n {2}indented\nlast\n>$/);
  });

  test("F-TTY-01 a long paste is folded, and sent whole with what is typed around it", async () => {
    const terminal = await opened();
    const lines = Array.from({ length: 300 }, (_, index) => `line ${index + 1} of a text that goes on for a while`);
    terminal.type("say first ");
    terminal.paste(lines.join("\n"));
    await terminal.shows(/> say first \[pasted 1: 300 lines\]$/);
    terminal.type(" last");
    terminal.press("Enter");
    await terminal.shows(/\nline 300 of a text that goes on for a while last\n>$/);
    terminal.enter("history");
    await terminal.shows(/Earlier messages: 2\n/);
  });

  test.each(["M-Enter", "C-j"])("F-TTY-01 %s begins a new line", async (key) => {
    const terminal = await opened();
    terminal.type(heard);
    await terminal.shows(`> ${heard}`);
    terminal.press(key);
    terminal.type("typed below");
    terminal.press("Enter");
    await terminal.shows(/\nYou heard:\ntyped below\n>$/);
  });

  test.each([
    ["/new", "bracketed"],
    ["/new\nmore", "bracketed"],
    ["/new\nmore", "plain"],
    ["more\n/stop\nmore", "bracketed"],
    ["more\n/quit", "plain"],
    ["/exit", "bracketed"],
  ] as const)("F-TTY-02 %j is no command in a paste (%s)", async (text, how) => {
    const terminal = await opened();
    terminal.enter("say before");
    await terminal.shows(/\nbefore\n>$/);
    terminal.paste(text, how);
    await terminal.shows(`> ${text.replaceAll("\n", "↵")}`);
    terminal.press("Enter");
    await terminal.shows(`You said: ${text}\n>`);
    terminal.enter("history");
    await terminal.shows(/Earlier messages: 4\n/);
  });

  test.each([
    ["1\n", "bracketed"],
    ["a list\n1\n", "bracketed"],
    ["a list\n1\n", "plain"],
    ["Allow", "bracketed"],
  ] as const)("F-TTY-02 %j permits nothing in a paste (%s)", async (text, how) => {
    const terminal = await opened();
    terminal.enter("ask");
    await terminal.shows(/\[Answer with a number from 1 to 2\.\]\n>$/);
    terminal.paste(text, how);
    if (how === "bracketed") terminal.press("Enter");
    await terminal.shows("[Sent as words: a command or an answer is a line that is typed by itself.]");
    terminal.enter("2");
    await terminal.shows(/You answered: reject\n/);
    await terminal.shows(`You said: ${text.trim()}\n>`);
  });

  test("F-TTY-02 a typed command takes what is pasted behind it, and a line begun anew is a typed one", async () => {
    const terminal = await opened();
    terminal.enter("say before");
    await terminal.shows(/\nbefore\n>$/);
    terminal.type("/title ");
    terminal.paste("a pasted title");
    terminal.press("Enter");
    await terminal.shows(/\n[^>\n]*a pasted title[^>\n]*\n>$/);
    terminal.paste("/new");
    await terminal.shows(/> \/new$/);
    terminal.press("C-u");
    terminal.enter("/new");
    await terminal.shows("New session");
  });

  test("F-TTY-02 behind the screen: lines that are pasted into `chat | tee` are one message", async () => {
    const terminal = new Terminal({ home, args: ["chat"], through: "cat" });
    closers.push(() => terminal.close());
    terminal.enter("say before");
    await terminal.shows(/^before$/m);
    terminal.paste("/new\nmore\n", "plain");
    await terminal.shows("You said: /new\nmore");
    terminal.enter("history");
    await terminal.shows(/Earlier messages: 4/);
  });
});

// Every reason to wait is told, at every terminal that somebody looks at: the screen, and standard error of -q; nothing stays of it.
describe("F-TTY-04 a sign of life", () => {
  const SIGN = /thinking|warming up|waits as/;

  test("F-TTY-04 thinking, a tool, waiting as 2nd: with the time, and gone with the answer", async () => {
    const agent = await gatewayWithSlowAgent();
    const terminal = chat({ env: { NO_COLOR: "1" } });
    await terminal.shows(/\n>$/);
    terminal.enter("hello");
    await terminal.shows(/> hello\nthe agent is warming up, [1-9] s\n>$/);
    agent.opens();
    await terminal.shows(/> hello\nthinking, [2-9] s\n>$/);
    terminal.type("typed meanwhile");
    await terminal.shows(/> hello\nthinking, \d+ s\n> typed meanwhile$/);
    await agent.does({ type: "tool", id: "t", title: "Reading the whole archive", state: "running" });
    await terminal.shows(/\nReading the whole archive, \d+ s\n> typed meanwhile$/);
    await agent.does({ type: "tool", id: "t", title: "Reading the whole archive", state: "done" });
    await terminal.shows(/\nthinking, \d+ s\n> typed meanwhile$/);

    const other = chat({ env: { NO_COLOR: "1" } });
    await other.shows(/\n>$/);
    other.enter("me too");
    await other.shows(/\nwaits as 2nd, [1-9] s\n>$/);
    await agent.does({ type: "text", text: "the answer" });
    await terminal.shows(/\nthe answer\nthinking, \d+ s\n> typed meanwhile$/);
    agent.ends();
    await terminal.shows(/\[tool: Reading the whole archive\]\n.*\nthe answer\n> typed meanwhile$/);
    await other.shows(/\nthinking, \d+ s\n>$/);
    agent.ends();
    expect(await other.shows(/\nend\n>$/)).not.toMatch(SIGN);
  });

  test("F-TTY-04 -q: on standard error, only where that is a terminal", async () => {
    const agent = await gatewayWithSlowAgent();
    agent.opens();
    const terminal = new Terminal({ home, args: ["chat", "-q", "hello"], env: { NO_COLOR: "1" } });
    closers.push(() => terminal.close());
    await terminal.shows(/^thinking, [1-9] s$/);
    // The row above goes when the terminal says that its command has ended.
    await agent.does({ type: "text", text: "above\nthe end" });
    agent.ends();
    await terminal.ends();
    expect(await terminal.shows(/^the end$/m)).not.toMatch(SIGN);
    const asking = runCommand({ home, args: ["chat", "-q", "hello"] });
    await agent.hasTurn();
    await delay(1_500);
    agent.ends();
    expect(await asking).toMatchObject({ out: "end\n", errors: "" });
  });
});

describe("at the end of a pipe", () => {
  test("-q prints the reply and nothing else", async () => {
    const result = await runCommand({ home, args: ["chat", "-q", "say hello there"] });
    expect(result).toMatchObject({ code: 0, out: "hello there\n", errors: "" });
  });

  test("-q at a running gateway says what failed on standard error, with the exit code of the error", async () => {
    await gatewayProcess();
    const failed = await runCommand({ home, args: ["chat", "-q", "fail"] });
    expect(failed).toMatchObject({ code: 1, out: "" });
    expect(failed.errors).toMatch(/^runtime_failed: The demo agent was told to fail\.\nTry again; [^\n]*\n$/);
    const agent = await runCommand({ home, args: ["chat", "--agent", "nobody", "-q", "hello"] });
    expect(agent).toMatchObject({
      code: 1,
      out: "",
      errors: 'agent_unknown: There is no agent "nobody".\nChoose one of main.\n',
    });
  });

  test("-q --json prints one object", async () => {
    const { out, code } = await runCommand({ home, args: ["chat", "-q", "say hi", "--json", "--as", "job"] });
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({
      text: "hi",
      session: expect.stringMatching(/^\d{8}_/),
      turn: 1,
      message: 1,
      conversation: "agent:main:console:dm:owner%2Fjob",
      state: "answered",
    });
    const refused = await runCommand({ home, args: ["chat", "-q", "fail", "--json"] });
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.out).error.code).toBe("runtime_failed");
  });

  test("-q denies what it is asked: nobody is there", async () => {
    const { out } = await runCommand({ home, args: ["chat", "-q", "ask"] });
    expect(out).toBe("no answer\n");
  });

  // Words and stdin, in every combination, are one message of words; a file with commands in it, in any line, runs none.
  test.each([
    [["chat"], "say You heard:\n/new\n\nlast\n", "You heard:\n/new\n\nlast"],
    [["chat", "-q", "-"], "say You heard:\r\nlast", "You heard:\nlast"],
    [["chat", "-q", "say You heard:"], "/new\nlast\n", "You heard:\n\n/new\nlast"],
    [["chat", "--query", "say alone"], "", "alone"],
    [["chat"], "say one", "one"],
  ])("F-TTY-03 F-TTY-02 S7 %j with a pipe is one message", async (args, input, reply) => {
    const { code, out, errors } = await piped(args, input);
    expect({ code, out, errors }).toEqual({ code: 0, out: `${reply}\n`, errors: "" });
    const { out: json } = await piped(["chat", "--json", "--lines"], "history\n");
    expect(json).toContain("Earlier messages: 2\\n");
  });

  test.each(["/new", "/status\n", "1"])("F-TTY-02 a pipe that is one line, %j, is words", async (input) => {
    const { out } = await piped(["chat"], input);
    expect(out).toContain(`You said: ${input.trim()}\n`);
    const typed = await piped(["chat", "-q", "/status"], "");
    expect(typed.out).not.toContain("You said:");
  });

  test("F-TTY-03 with nothing to say it says so; a pipe on which nothing comes is not waited for", async () => {
    for (const args of [["chat"], ["chat", "-q", "-"], ["chat", "-q", " "]]) {
      const { code, out, errors } = await piped(args, "\n");
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(errors).toMatch(/^usage: There is nothing to say: .*\n.*cat file \| tertulia chat -q/);
    }
    const child = spawn(process.execPath, [COMMAND, "chat", "-q", "say alone"], {
      env: { HOME: home, TERTULIA_HOME: home },
    });
    expect(await text(child.stdout)).toBe("alone\n");
    expect(await text(child.stderr)).toBe("");
  });

  test("F-TTY-03 --lines: lines are sent one after the other; a line answers a question", async () => {
    const { code, out, errors } = await piped(["chat", "--lines"], "say one\n\nslow 3\nask\n1\nhistory");
    expect(code).toBe(0);
    expect(out).toMatch(/^one\n1 2 3\nYou answered: allow\nEarlier messages: 6\n/);
    expect(errors).toContain("[The demo agent asks for nothing in particular.]");
  });

  test("--json prints one object a line", async () => {
    const { code, out } = await piped(["chat", "--json"], "say one\n/whoami\n");
    expect(code).toBe(0);
    const events = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(events.map(({ event }) => event)).toEqual(
      expect.arrayContaining(["ready", "sent", "turn:begun", "turn:text", "turn:settled", "delivery:written"]),
    );
    expect(events.find(({ event }) => event === "turn:settled")).toMatchObject({ text: "one" });
    expect(events.findLast(({ event }) => event === "sent")).toMatchObject({
      kind: "command",
      reply: expect.stringContaining("You are"),
    });
  });
});

async function piped(args: readonly string[], input: string) {
  const child = spawn(process.execPath, [COMMAND, ...args], {
    env: { HOME: home, TERTULIA_HOME: home },
  });
  child.stdin.end(input);
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  const [out, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { out, errors, code };
}

async function sessionsAt(url: string): Promise<readonly SessionRow[]> {
  const response = await fetch(`${url}/api/sessions`, { headers: SIGNED });
  return ((await response.json()) as { sessions: SessionRow[] }).sessions;
}

async function post(url: string, body: object): Promise<void> {
  const headers = { ...SIGNED, "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  expect(response.ok).toBe(true);
}

/** A gateway in this process whose agent says one thing. */
async function gatewayThatSays(words: string): Promise<void> {
  await gatewayOf(async (_input, { onEvent }) => {
    for (const word of words.split(/(?<=e)/)) await onEvent({ type: "text", text: word });
    return { outcome: "done", text: words };
  });
}

/** A gateway in this process whose agent does what it is told, when it is told. */
async function gatewayWithSlowAgent() {
  const opened = Promise.withResolvers<void>();
  const turns: { said: string; onEvent: TurnOptions["onEvent"]; end: (result: TurnResult) => void }[] = [];
  let arrived = Promise.withResolvers<void>();
  const hasTurn = async (): Promise<void> => {
    while (turns.length === 0) await arrived.promise;
  };
  await gatewayOf((_input, { onEvent }) => {
    const { promise, resolve } = Promise.withResolvers<TurnResult>();
    turns.push({ said: "", onEvent, end: resolve });
    arrived.resolve();
    arrived = Promise.withResolvers();
    return promise;
  }, opened.promise);
  return {
    opens: () => opened.resolve(),
    hasTurn,
    async does(event: TurnEvent): Promise<void> {
      await hasTurn();
      const [turn] = turns;
      if (event.type === "text") turn!.said += event.text;
      await turn!.onEvent(event);
    },
    ends(): void {
      const { said, end } = turns.shift()!;
      end({ outcome: "done", text: said === "" ? "end" : said });
    },
  };
}

async function gatewayOf(turn: AgentSession["turn"], opened: Promise<void> = Promise.resolve()): Promise<void> {
  const session: AgentSession = {
    ref: "parrot",
    how: "created",
    turn,
    park: async () => undefined,
    onDead: () => () => undefined,
  };
  const runtime: Runtime = {
    name: "demo",
    history: "own",
    effectsAtPrompt: "none",
    async open() {
      await opened;
      return session;
    },
    probe: async () => ({ ok: true, detail: "" }),
    forget: async () => undefined,
    close: async () => undefined,
  };
  const config = loadConfig({ flags: { home, port: 0 }, env: {} });
  const lock = acquireLock({ path: config.files.lock, pid: process.pid, now: Date.now() });
  closers.push(() => lock.release());
  const store = openSqliteStore({ path: config.files.state, clock: systemClock });
  const gateway = new Gateway({ config, store, log: silentLog, runtimes: { demo: runtime } });
  closers.push(() => gateway.stop());
  const ownerToken = openOwnerToken(config.files.token, { log: silentLog });
  const http = await startHttpServer({ gateway, ownerToken, log: silentLog, startedAt: 0 });
  closers.push(() => http.close());
  await gateway.start();
  lock.publish(`http://127.0.0.1:${http.address.port}`);
}
