import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import type { Person } from "../../src/conversation/person.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { systemClock } from "../../src/util/clock.ts";
import { silentLog } from "../../src/util/log.ts";
import { type FakeRequest, refuses, says, startFakeModel } from "../support/fake-model.ts";
import { temporaryFolder } from "../support/store.ts";

/** Conversations of two people at two doors with one model; every message names its conversation, its session and its number. */
const TURNS = 300;
const PEOPLE: readonly Person[] = [
  { id: "owner", role: "owner", name: "Alice" },
  { id: "bob", role: "member", name: "Bob" },
];

interface Talk {
  readonly label: string;
  readonly person: Person;
  readonly platform: "console" | "http";
  /** How often it was reset. */
  generation: number;
  turn: number;
}

/** What the model is to do with a message is said in it. */
function reply({ body }: FakeRequest) {
  const words = body.messages.at(-1)?.content ?? "";
  const name = /talk-\S+/.exec(words.split("\n\n").at(-1) ?? "")?.[0] ?? "";
  if (words.endsWith("refuse")) return refuses(400, { message: "no such parameter" });
  if (words.endsWith("cut")) return { steps: [{ text: `half of ${name}` }, { cut: true as const }] };
  if (words.endsWith("wait")) return { steps: [{ text: `begun ${name}` }, { stall: true as const }] };
  return says("answer ", `to ${name}`);
}

describe("300 turns with resets, stops, failures and restarts", () => {
  test("C1, C6, R4, G-PER-03, G-CTX-03 every request has the stable prefix, the right facts, and nothing of another conversation", async () => {
    const model = await startFakeModel(reply);
    const folder = temporaryFolder();
    writeFileSync(
      join(folder.path, "config.yaml"),
      JSON.stringify({
        people: { owner: { name: "Alice" }, bob: { name: "Bob" } },
        turn: { stop_grace: "2s" },
        agents: { main: { runtime: { kind: "http", base_url: model.url, model: "fake-1", window: 1_000_000 } } },
      }),
    );
    const open = async (): Promise<Gateway> => {
      const store = openSqliteStore({ path: join(folder.path, "state.db"), clock: systemClock });
      const gateway = new Gateway({
        config: loadConfig({ flags: { home: folder.path }, env: {} }),
        store,
        log: silentLog,
        chance: () => 0,
      });
      await gateway.start();
      return gateway;
    };
    let gateway = await open();
    const abandoned: Gateway[] = [];
    const talks: Talk[] = PEOPLE.flatMap((person) =>
      (["console", "http"] as const).flatMap((platform) =>
        [1, 2].map((n) => ({ label: `${person.id}-${platform}-${n}`, person, platform, generation: 0, turn: 0 })),
      ),
    );
    const counts = { answered: 0, failed: 0, stopped: 0, resets: 0, restarts: 0 };
    const say = (talk: Talk, text: string) =>
      gateway.doors.say({
        person: talk.person,
        agent: "main",
        door: { platform: talk.platform, name: talk.label },
        text,
      });

    // A fixed order that mixes everything: the same in each run.
    let seed = 7;
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    for (let n = 1; n <= TURNS; n++) {
      const talk = talks[next(talks.length)]!;
      if (next(25) === 0) {
        await say(talk, "/new");
        talk.generation += 1;
        counts.resets += 1;
      }
      if (next(40) === 0) {
        counts.restarts += 1;
        if (counts.restarts % 2 === 0) abandoned.push(gateway);
        else await gateway.stop();
        gateway = await open();
      }
      const kind = ["", "", "", "", "", "", "", "refuse", "cut", "wait"][next(10)]!;
      talk.turn += 1;
      const requests = model.requests.length;
      const said = await say(talk, `talk-${talk.label}-g${talk.generation}-${talk.turn} ${kind}`.trim());
      if (said.kind !== "turn") throw new Error(said.kind);
      if (kind === "wait") {
        await model.arrived(requests);
        await say(talk, "/stop");
      }
      const { turn, text } = await gateway.turns.answerOf(said.turnId);
      if (kind === "") expect(text).toBe(`answer to talk-${talk.label}-g${talk.generation}-${talk.turn}`);
      counts[turn.state === "answered" ? "answered" : turn.state === "failed" ? "failed" : "stopped"] += 1;
    }
    await gateway.stop();
    for (const old of abandoned) await old.stop();
    await model.close();
    folder.remove();

    expect(counts.answered).toBeGreaterThan(180);
    expect(Math.min(counts.failed, counts.stopped, counts.resets, counts.restarts)).toBeGreaterThan(4);
    replay(model.requests, talks);
  }, 60_000);
});

/** The requests as the model saw them, line by line. */
function replay(requests: readonly FakeRequest[], talks: readonly Talk[]): void {
  /** The last request of each session. */
  const last = new Map<string, FakeRequest>();
  for (const request of requests) {
    const { messages } = request.body;
    const [system, ...rest] = messages;
    const prompt = rest.at(-1)!.content;
    const words = prompt.split("\n\n").at(-1)!;
    const [, label = "", generation = ""] = /^talk-(\S+)-g(\d+)-\d+/.exec(words) ?? [];
    const talk = talks.find((candidate) => candidate.label === label)!;
    const session = `talk-${label}-g${generation}-`;

    // Nothing of another conversation, nor of this one before its reset.
    for (const [, found] of JSON.stringify(messages).matchAll(/(talk-[a-z]+-[a-z]+-\d-g\d+-)\d+/g))
      expect(found).toBe(session);
    // The right facts: the door, who speaks, and the reset exactly once.
    expect(prompt).toContain(
      `\nSource: ${talk.platform === "console" ? "CLI terminal" : `HTTP API (DM with "${talk.person.name}")`}\n`,
    );
    expect(prompt).toContain(`From: "${talk.person.name}"`);
    const resets = JSON.stringify(messages).match(/this is a fresh conversation/g)?.length ?? 0;
    expect(resets).toBe(generation === "0" ? 0 : 1);
    // The roles alternate, as strict servers demand.
    expect(rest.map(({ role }) => role)).toEqual(rest.map((_, at) => (at % 2 === 0 ? "user" : "assistant")));

    const before = last.get(session);
    if (before !== undefined) {
      // Byte for byte what was sent, and what was answered to it.
      expect(system).toEqual(before.body.messages[0]);
      const prefix = JSON.stringify(before.body.messages).slice(0, -1);
      if (JSON.stringify(before.body.messages) !== JSON.stringify(messages))
        expect(JSON.stringify(messages).startsWith(`${prefix},`)).toBe(true);
    }
    last.set(session, request);
  }
  expect(last.size).toBeGreaterThan(talks.length);
}
