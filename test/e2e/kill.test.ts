import { afterEach, beforeEach, expect, test } from "vitest";
import type { BindingRow } from "../../src/store/rows.ts";
import { windowsOf } from "../support/autopsy.ts";
import { type GatewayProcess, spawnGateway, startGateway } from "../support/gateway-process.ts";
import { exchange, fetchJson, listen } from "../support/http-client.ts";
import { audit, fateOf, keyOf, Ledger, quiet, transcripts } from "../support/ledger.ts";
import { temporaryFolder } from "../support/store.ts";

/** The built command, killed with SIGKILL by the one it talks with, at the moment that matters; then started again and asked. */

let folder: ReturnType<typeof temporaryFolder>;
let ledger: Ledger;
let running: GatewayProcess | null;

beforeEach(() => {
  folder = temporaryFolder();
  ledger = new Ledger();
  running = null;
});

afterEach(async () => {
  const ended = await running?.stop();
  folder.remove();
  if (ended?.signal === null) expect(ended.code).toBe(0);
});

async function start(): Promise<GatewayProcess & { readonly url: string }> {
  const gateway = await startGateway({ home: folder.path });
  running = gateway;
  return gateway;
}

/** Resolves when the agent of the conversation's own session is at work: its prompt was written. */
async function untilBusy(url: string, name: string): Promise<void> {
  for (;;) {
    const { body } = await fetchJson<{ sessions: { homeKey: string; state: string }[] }>(url, {
      path: "/api/sessions",
    });
    if (body.sessions.some((session) => session.homeKey === keyOf(name) && session.state === "busy")) return;
  }
}

/** The agent is at work, and nobody has seen anything of it. */
const UNSEEN = ["begun, prompt not written", "running, nothing shown"];

function spin(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

async function fateOfText(url: string, name: string, text: string) {
  const entries = (await transcripts(url, [name])).flatMap((transcript) => transcript.entries);
  const said = entries.find((entry) => entry.text === text);
  if (said === undefined) throw new Error(`"${text}" is not in the journal of ${name}.`);
  const report = await fateOf(url, said.messageId!);
  return { said, ending: entries.find((entry) => entry.role !== "user" && entry.turnId === said.turnId), ...report! };
}

test("T2 killed as soon as the request's bytes have left, a message is stored whole or not at all, and its retry is answered once", async () => {
  for (const [round, ms] of [0, 0.5, 1, 1.5, 2, 3, 5, 8].entries()) {
    const gateway = await start();
    expect(await audit(gateway.url, ledger.lines.slice(-1))).toEqual([]);
    const line = ledger.say(gateway.url, {
      text: `say round ${round}`,
      name: "bytes",
      onFlushed: () => {
        spin(ms);
        gateway.kill9();
      },
    });
    await gateway.ended;
    await line.exchange.done;
  }
  const { url } = await start();
  expect(await audit(url, ledger.lines.slice(-1))).toEqual([]);
  // All of them once more: an earlier one may have been killed in its second run, but not lost or doubled.
  expect(await audit(url, ledger.lines, { kills: 8 })).toEqual([]);
});

test("T2 killed when a message is seen to be admitted, it has one fate after the restart", async () => {
  const gateway = await start();
  await listen(gateway.url, { onEvent: ({ name }) => name === "message:admitted" && gateway.kill9() });
  const line = ledger.say(gateway.url, { text: "slow 20 admitted", name: "admitted", isWatched: true });
  line.isAcknowledged = true;
  await gateway.ended;
  expect(line.told).toBeNull();

  const { url } = await start();
  expect(await audit(url, ledger.lines)).toEqual([]);
  expect(await transcripts(url, ["admitted"])).toHaveLength(1);
});

test("T8 a turn of which nothing was shown is run again after a kill and answered; its retry gets that answer", async () => {
  const gateway = await start();
  const line = ledger.say(gateway.url, { text: "slow 6 unseen", name: "unseen" });
  await untilBusy(gateway.url, "unseen");
  await gateway.kill9();
  expect(UNSEEN).toContain((await windowsOf(folder.path, [line]))[0]);

  const { url } = await start();
  expect(await audit(url, ledger.lines)).toEqual([]);
  expect((await fateOfText(url, "unseen", line.text)).ending?.text).toBe("1 2 3 4 5 6");
});

test("T8 it is run again once only: killed again, it is interrupted, and its retry says so", async () => {
  const gateway = await start();
  const line = ledger.say(gateway.url, { text: "slow 30 twice", name: "twice" });
  await untilBusy(gateway.url, "twice");
  await gateway.kill9();

  const second = await start();
  await untilBusy(second.url, "twice");
  await second.kill9();
  expect(UNSEEN).toContain((await windowsOf(folder.path, [line]))[0]);

  const { url } = await start();
  expect(await audit(url, ledger.lines, { kills: 2 })).toEqual([]);
  const { answer } = await fateOfText(url, "twice", line.text);
  expect(answer).toMatchObject({ state: "interrupted", reason: "crash", text: "" });
});

test("T8 killed at the seventh word of a quick answer, the turn is interrupted and not run again", async () => {
  const gateway = await start();
  const line = ledger.say(gateway.url, {
    text: "count 4000 quick",
    name: "quick",
    way: "streamed",
    onWords: (chunks) => chunks === 7 && gateway.kill9(),
  });
  await gateway.ended;
  await line.exchange.done;
  expect(await windowsOf(folder.path, [line])).toEqual(["running, words shown"]);

  const { url } = await start();
  expect(await audit(url, ledger.lines)).toEqual([]);
  const { answer } = await fateOfText(url, "quick", line.text);
  // The first word is durable before it is shown; the next ones may be a second late.
  expect(answer).toMatchObject({ state: "interrupted", reason: "crash", text: expect.stringMatching(/^1\b/) });
});

test("T8 killed in the midst of a slow answer, what had been said up to a second before is kept, and its author is told once", async () => {
  const gateway = await start();
  const line = ledger.say(gateway.url, {
    text: "slow 100 partial",
    name: "partial",
    way: "streamed",
    onWords: (chunks) => chunks === 24 && gateway.kill9(),
  });
  await gateway.ended;
  await line.exchange.done;

  const { url } = await start();
  await quiet(url);
  const { answer, ending } = await fateOfText(url, "partial", line.text);
  expect(answer).toMatchObject({ state: "interrupted", reason: "crash" });
  const kept = answer!.text.split(" ");
  expect(line.shown.split(" ").slice(0, kept.length)).toEqual(kept);
  expect(kept.length).toBeGreaterThanOrEqual(24 - 12);
  expect(ending).toMatchObject({ role: "assistant", mark: "interrupted", text: answer!.text });
  expect(answer!.notices).toHaveLength(1);

  const retry = await exchange(url, {
    path: "/v1/chat/completions",
    headers: { "idempotency-key": line.key!, "x-tertulia-conversation": line.name },
    body: { messages: [{ role: "user", content: line.text }] },
  }).done;
  expect(retry).toMatchObject({ status: 424 });
  expect(JSON.parse(retry!.body)).toMatchObject({ error: { code: "turn_interrupted" }, partial: answer!.text });
  expect(await audit(url, ledger.lines)).toEqual([]);
});

test("T3 killed between settle and send, the stored answer is what a retry gets; another body under the key is refused", async () => {
  for (const moment of ["turn:settled", "first byte"] as const) {
    const gateway = await start();
    if (moment === "turn:settled")
      await listen(gateway.url, { onEvent: ({ name }) => name === "turn:settled" && gateway.kill9() });
    const line = ledger.say(gateway.url, {
      text: `say at ${moment}`,
      name: "settled",
      isWatched: true,
      ...(moment === "first byte" ? { onHead: () => gateway.kill9() } : {}),
    });
    await gateway.ended;
    await line.exchange.done;
    const [window] = await windowsOf(folder.path, [line]);
    expect(["settled, answer not received", "answer received"]).toContain(window);
  }
  const { url } = await start();
  expect(await audit(url, ledger.lines)).toEqual([]);
  const { status, body } = await fetchJson(url, {
    path: "/v1/chat/completions",
    headers: { "idempotency-key": ledger.lines[0]!.key!, "x-tertulia-conversation": "settled" },
    body: { messages: [{ role: "user", content: "say something else" }] },
  });
  expect({ status, body }).toMatchObject({ status: 422, body: { error: { code: "idempotency_conflict" } } });
});

test("T4 killed in the midst of 64 messages at once, none is lost, none is doubled, and the order is kept", async () => {
  for (const [round, most] of [1, 20, 45].entries()) {
    const gateway = await start();
    let answers = 0;
    const lines = Array.from({ length: 64 }, (_, n) =>
      ledger.say(gateway.url, {
        text: `say batch ${round} message ${n}`,
        name: `batch-${n % 16}`,
        way: n % 3 === 0 ? "posted" : "whole",
        onHead: () => {
          answers += 1;
          if (answers === most) gateway.kill9();
        },
      }),
    );
    await gateway.ended;
    await Promise.all(lines.map((line) => line.exchange.done));
  }
  const { url } = await start();
  expect(await audit(url, ledger.lines, { kills: 3 })).toEqual([]);
});

test("T8 G-RUN-07: killed while it takes over what an earlier run left, the next start does it; queued turns run", async () => {
  const gateway = await start();
  const first = ledger.say(gateway.url, { text: "slow 100 first", name: "recovery", way: "streamed" });
  await first.exchange.head;
  for (let n = 1; n <= 3; n++) {
    await ledger.say(gateway.url, { text: `say waiting ${n}`, name: "recovery", way: "posted" }).exchange.done;
  }
  await gateway.kill9();

  for (const ms of [0, 2, 4, 8]) {
    const starting = spawnGateway({ home: folder.path });
    await starting.logs("http listens");
    spin(ms);
    await starting.kill9();
  }
  const { url } = await start();
  expect(await audit(url, ledger.lines, { kills: 5 })).toEqual([]);
  const entries = (await transcripts(url, ["recovery"])).flatMap((transcript) => transcript.entries);
  expect(entries.filter((entry) => entry.role === "user").map((entry) => entry.text)).toEqual([
    "slow 100 first",
    "say waiting 1",
    "say waiting 2",
    "say waiting 3",
  ]);
});

test("R4 killed during a reset, it happened as a whole or not at all, and a retry resets once", async () => {
  for (const [round, ms] of [0, 1, 2, 4].entries()) {
    const name = `reset-${round}`;
    const gateway = await start();
    const lines = [ledger.say(gateway.url, { text: `slow 100 ${name}`, name, way: "streamed" })];
    await lines[0]!.exchange.head;
    for (let n = 1; n <= 3; n++) {
      const waiting = ledger.say(gateway.url, { text: `say ${name} waiting ${n}`, name, way: "posted" });
      await waiting.exchange.done;
      lines.push(waiting);
    }
    const reset = {
      path: "/v1/chat/completions",
      headers: { "idempotency-key": `reset ${round}`, "x-tertulia-conversation": name },
      body: { messages: [{ role: "user", content: `/new say ${name} afresh` }] },
    };
    const told = exchange(gateway.url, {
      ...reset,
      onFlushed: () => {
        spin(ms);
        gateway.kill9();
      },
    });
    await gateway.ended;
    const isTold = (await told.done) !== null;

    const again = await start();
    await quiet(again.url);
    const before = await transcripts(again.url, [name]);
    const isReset = before.length === 2;
    expect(isTold && !isReset).toBe(false);
    expect(await audit(again.url, lines, { isReset })).toEqual([]);
    expect(await exchange(again.url, reset).done).toMatchObject({ status: 200 });
    await quiet(again.url);

    const [old, fresh, ...more] = await transcripts(again.url, [name]);
    expect(more).toEqual([]);
    expect(old?.session).toMatchObject({ endReason: "new" });
    expect(fresh?.session).toMatchObject({ parentId: old?.session.id, endedAt: null });
    expect(fresh?.entries.map((entry) => entry.text)).toEqual([`say ${name} afresh`, `${name} afresh`]);
    const settled = old!.entries.filter((entry) => entry.role !== "user");
    expect(settled).toHaveLength(isReset ? 1 : 4);
    await again.kill9();
  }
});

test("H1 killed during a send, its words and its binding are both there or both not, and a retry sends nothing twice", async () => {
  for (const [round, ms] of [0, 1, 2, 4].entries()) {
    const [name, room] = [`desk-${round}`, `room-${round}`];
    const gateway = await start();
    await ledger.say(gateway.url, { text: `say hello ${name}`, name }).exchange.done;
    const [home] = await transcripts(gateway.url, [name]);
    const session = home!.session.id;
    const send = {
      path: "/api/send",
      headers: { "idempotency-key": `send ${round}` },
      body: { room: keyOf(room), text: `words for ${room}`, session },
    };
    const sent = exchange(gateway.url, {
      ...send,
      onFlushed: () => {
        spin(ms);
        gateway.kill9();
      },
    });
    await gateway.ended;
    const isTold = (await sent.done) !== null;

    const again = await start();
    const countSent = async (): Promise<{ words: number; bindings: number }> => {
      const [desk] = await transcripts(again.url, [name]);
      const { body } = await fetchJson<{ bindings: BindingRow[] }>(again.url, { path: "/api/handoff" });
      return {
        words: desk!.entries.filter((entry) => entry.text === `words for ${room}`).length,
        bindings: body.bindings.filter((binding) => binding.sessionId === session).length,
      };
    };
    const before = await countSent();
    expect(before).toEqual(isTold || before.words === 1 ? { words: 1, bindings: 1 } : { words: 0, bindings: 0 });
    expect(await exchange(again.url, send).done).toMatchObject({ status: 200 });
    expect(await countSent()).toEqual({ words: 1, bindings: 1 });

    const follower = ledger.say(again.url, { text: `slow 4 ${room}`, name: room });
    await untilBusy(again.url, name);
    await again.kill9();
    await follower.exchange.done;
    const last = await start();
    expect(await audit(last.url, ledger.lines)).toEqual([]);
    const [desk] = await transcripts(last.url, [name]);
    expect(desk!.entries.at(-1)).toMatchObject({ role: "assistant", text: "1 2 3 4" });
    await last.kill9();
  }
});

test("T10 a client without a key finds its message, and what became of it, by its conversation", async () => {
  const gateway = await start();
  const line = ledger.say(gateway.url, { text: "slow 5 keyless", name: "keyless", key: null });
  await untilBusy(gateway.url, "keyless");
  await gateway.kill9();

  const { url } = await start();
  await quiet(url);
  const { body } = await fetchJson<{ conversation: { currentSession: string; openTurns: number } }>(url, {
    path: `/api/conversations/${encodeURIComponent(keyOf("keyless"))}`,
  });
  expect(body.conversation.openTurns).toBe(0);
  const { body: page } = await fetchJson<{ messages: { text: string }[] }>(url, {
    path: `/api/sessions/${body.conversation.currentSession}/messages`,
  });
  expect(page.messages.map((entry) => entry.text)).toEqual([line.text, "1 2 3 4 5"]);
  expect(await audit(url, ledger.lines)).toEqual([]);
});

test("T3 a keyed request without a conversation finds its own again after a kill", async () => {
  const gateway = await start();
  const request = {
    path: "/v1/chat/completions",
    headers: { "idempotency-key": "nameless" },
    body: { messages: [{ role: "user", content: "say nameless" }] },
  };
  const told = exchange(gateway.url, { ...request, onHead: () => gateway.kill9() });
  await gateway.ended;
  const first = await told.head;

  const { url } = await start();
  const retry = await exchange(url, request).done;
  expect(retry).toMatchObject({ status: 200 });
  expect(retry!.headers["x-tertulia-message"]).toBe(first!.headers["x-tertulia-message"]);
  const session = String(retry!.headers["x-tertulia-session"]);
  const { body } = await fetchJson<{ messages: { text: string }[] }>(url, {
    path: `/api/sessions/${session}/messages`,
  });
  expect(body.messages.map((entry) => entry.text)).toEqual(["say nameless", "nameless"]);
});

test("F-HTTP-04 T3 killed before the answer, a repeat that its client marks joins the turn, with no key and with or without a name", async () => {
  for (const [round, name] of ["named", undefined].entries()) {
    const gateway = await start();
    const say = (url: string, headers: Record<string, string> = {}, onFlushed?: () => void) =>
      exchange(url, {
        path: "/v1/chat/completions",
        headers: { ...(name === undefined ? {} : { "x-tertulia-conversation": name }), ...headers },
        body: { messages: [{ role: "user", content: `slow 3 round ${round}` }] },
        ...(onFlushed === undefined ? {} : { onFlushed }),
      });
    const events = await listen(gateway.url, {
      onEvent: ({ name: event }) => event === "turn:begun" && gateway.kill9(),
    });
    const cut = say(gateway.url);
    await gateway.ended;
    expect(await cut.done).toBeNull();
    events.close();

    const { url } = await start();
    const repeat = await say(url, { "x-stainless-retry-count": "1" }).done;
    const honest = await say(url).done;
    expect(Number(honest!.headers["x-tertulia-turn"]) - Number(repeat!.headers["x-tertulia-turn"])).toBe(1);
    expect(honest).toMatchObject({ status: 200 });
    await running!.stop();
    running = null;
  }
});
