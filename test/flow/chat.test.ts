/** The terminal door without a terminal: the client and the attachment at a real gateway on a free port. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Shown, Transcript } from "../../src/channel/console/transcript.ts";
import { Attachment } from "../../src/cli/chat/attachment.ts";
import { connect } from "../../src/cli/client.ts";
import { type Config, loadConfig } from "../../src/config/config.ts";
import { doorOf } from "../../src/conversation/door.ts";
import { type RunningGateway, startGateway } from "../../src/gateway/start.ts";
import type { ConversationRow } from "../../src/store/rows.ts";
import { silentLog } from "../../src/util/log.ts";
import { temporaryFolder } from "../support/store.ts";

const MAIN = "agent:main:console:dm:owner%2Fmain";
const KITCHEN = "agent:main:web:dm:owner%2Fkitchen";

let folder: ReturnType<typeof temporaryFolder>;
let config: Config;
let gateway: RunningGateway | null = null;
let terminals: FakeTerminal[] = [];

beforeEach(() => {
  folder = temporaryFolder();
  const home = join(folder.path, "home");
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, "config.yaml"), "welcome: false\n");
  config = loadConfig({ flags: { home, port: 0 }, env: {} });
});

afterEach(async () => {
  for (const terminal of terminals) await terminal.leaves();
  terminals = [];
  await stop();
  folder.remove();
});

async function start(): Promise<RunningGateway> {
  gateway = await startGateway({ config, log: silentLog });
  return gateway;
}

async function stop(): Promise<void> {
  await gateway?.stop();
  gateway = null;
}

/** What a terminal shows, as lines. */
class FakeTerminal {
  readonly attachment: Attachment;
  readonly transcript = new Transcript({
    chatId: "owner/main",
    personId: "owner",
    doorOf,
    elsewhere: "another terminal",
  });
  readonly #leaving = new AbortController();
  readonly #hearing: Promise<void>;
  #screen = "";
  #drawn = Promise.withResolvers<void>();

  private constructor(client: Awaited<ReturnType<typeof connect>>) {
    this.attachment = new Attachment({
      client,
      transcript: this.transcript,
      door: MAIN,
      key: MAIN,
      signal: this.#leaving.signal,
      onShown: (shown) => this.#draw(shown),
    });
    this.#hearing = this.attachment.run();
  }

  static async opens(): Promise<FakeTerminal> {
    const terminal = new FakeTerminal(await connect(config));
    terminals.push(terminal);
    return terminal;
  }

  get screen(): string {
    return this.#screen;
  }

  async says(text: string): Promise<void> {
    await this.attachment.send(text);
    await this.attachment.settled();
  }

  async shows(wanted: string | RegExp): Promise<void> {
    while (!(typeof wanted === "string" ? this.#screen.includes(wanted) : wanted.test(this.#screen))) {
      await this.#drawn.promise;
    }
  }

  async leaves(): Promise<void> {
    this.#leaving.abort();
    await this.#hearing;
  }

  #draw(shown: readonly Shown[]): void {
    for (const one of shown) {
      if (one.kind === "said") this.#screen += `[${one.door}] ${one.author ?? "you"}: ${one.text}\n`;
      if (one.kind === "reply") this.#screen += one.door === null ? "" : `[${one.door}] `;
      if (one.kind === "text") this.#screen += one.text;
      if (one.kind === "end") this.#screen += "\n";
      if (one.kind === "notice") this.#screen += `[${one.text}]\n`;
      if (one.kind === "answer") this.#screen += `${one.text}\n`;
      if (one.kind === "question") this.#screen += `? ${one.question.title}\n`;
    }
    this.#drawn.resolve();
    this.#drawn = Promise.withResolvers();
  }
}

test("E4: the client finds the gateway by its lock file; without one it says gateway_down and the remedy", async () => {
  await expect(connect(config)).rejects.toMatchObject({
    code: "gateway_down",
    remedy: "Start it with `tertulia start`.",
  });
  const { url } = await start();
  const client = await connect(config);
  expect(client.address).toBe(url);
  expect(await client.get("/api/whoami")).toEqual({ person: { id: "owner", role: "owner" } });
});

test("E3: what the gateway refuses has its code, its sentence and its remedy here too", async () => {
  await start();
  const client = await connect(config);
  await expect(client.get(`/api/conversations/${encodeURIComponent(MAIN)}`)).rejects.toMatchObject({
    code: "conversation_unknown",
    message: `There is no conversation ${MAIN}.`,
    remedy: expect.stringContaining("tertulia sessions list"),
  });
  await expect(client.post("/api/send", { room: 7 })).rejects.toMatchObject({ code: "request_invalid" });
});

test("E4: a gateway that came back elsewhere is found by the next request", async () => {
  await start();
  const client = await connect(config);
  await stop();
  await expect(client.get("/api/whoami")).rejects.toMatchObject({ code: "gateway_down" });
  const { url } = await start();
  expect(await client.get("/api/whoami")).toMatchObject({ person: { id: "owner" } });
  expect(client.address).toBe(url);
});

test("K19: words at the terminal are answered there, commands too", async () => {
  await start();
  const terminal = await FakeTerminal.opens();
  await terminal.says("say hello");
  await terminal.says("/nothing");
  expect(terminal.screen).toBe("hello\nThere is no command /nothing. /help lists them.\n");
});

test("R6: the text after /new is its own message and is not shown as somebody else's", async () => {
  await start();
  const terminal = await FakeTerminal.opens();
  await terminal.says("say one");
  await terminal.says("/new say two");
  expect(terminal.screen).toMatch(/^one\nNew session [^\n]*\ntwo\n$/);
});

test("T7: /stop ends the turn, and what had been said stays", async () => {
  await start();
  const terminal = await FakeTerminal.opens();
  await terminal.attachment.send("slow 50");
  await terminal.shows("1 2");
  await terminal.says("/stop");
  await terminal.shows("[The turn was stopped; ask again if you still need it.]");
  expect(terminal.screen).toMatch(/^1 2[ \d]*\n?Stopped\./);
});

test("H6: a turn of a bound room is seen live at the terminal, and the terminal's at another one", async () => {
  const { gateway } = await start();
  const terminal = await FakeTerminal.opens();
  const other = await FakeTerminal.opens();
  await terminal.says("say one");
  await other.shows("[another terminal] you: say one\none\n");

  const client = await connect(config);
  const { conversation } = await client.get<{ conversation: ConversationRow }>(
    `/api/conversations/${encodeURIComponent(MAIN)}`,
  );
  await client.post("/api/send", { room: KITCHEN, text: "Dinner?", session: conversation.currentSession });
  const said = await gateway.doors.say({
    person: { id: "owner", role: "owner" },
    agent: "main",
    door: { key: KITCHEN },
    text: "say at eight",
  });
  if (said.kind === "turn") await gateway.turns.answerOf(said.turnId);
  await terminal.shows("[web kitchen] you: say at eight\n[web kitchen] at eight\n");
});

test("H12: a question is asked at the terminal, and its answer goes back to the turn", async () => {
  await start();
  const terminal = await FakeTerminal.opens();
  await terminal.attachment.send("ask");
  expect(await terminal.attachment.settled()).toBe("asked");
  await terminal.attachment.answer(terminal.transcript.ownQuestion!, "allow");
  await terminal.attachment.settled();
  expect(terminal.screen).toContain("You answered: allow");
});

test("T3: what is said while the gateway is away is sent once when it is back, in order", async () => {
  await start();
  const terminal = await FakeTerminal.opens();
  await terminal.says("say one");
  await stop();
  await terminal.shows("went away");
  const sending = [terminal.attachment.send("say two"), terminal.attachment.send("say three")];
  await terminal.shows("Not sent yet");
  await start();
  await Promise.all(sending);
  await terminal.attachment.settled();
  expect(terminal.screen).toMatch(/is back[^\n]*\ntwo\nthree\n$/);
  const { entries } = await terminal.attachment.look(10);
  expect(entries.map(({ text }) => text)).toEqual(["say one", "one", "say two", "two", "say three", "three"]);
});

test("R9: after a stop in mid-turn the terminal learns what became of its message", async () => {
  await start();
  const terminal = await FakeTerminal.opens();
  await terminal.attachment.send("slow 100");
  await terminal.shows("1 2");
  await stop();
  await start();
  await terminal.shows("[The gateway was stopped before the answer was complete; ask again if you still need it.]");
  expect(terminal.transcript.waiting).toEqual([]);
  await terminal.says("say hello");
  await terminal.shows(/hello\n$/);
});

test("K12: where a person has one conversation at every door, the terminal follows it there", async () => {
  config = { ...config, session: { ...config.session, dmScope: "person" } };
  await start();
  const terminal = await FakeTerminal.opens();
  await terminal.says("say one");
  expect(terminal.screen).toContain("one\n");
});
