import fc from "fast-check";
import { expect, test } from "vitest";
import { asTertuliaError } from "../../src/errors.ts";
import type { AdmitResult } from "../../src/store/events.ts";
import { type Door, Story } from "../support/harness.ts";
import { HeartModel } from "../support/heart-model.ts";
import { type Committed, type Death, VERBS } from "../support/mortal-store.ts";

/** The whole heart against a model: whatever happens at the doors, to the clock and to the process, in whatever order. */

const RUNS = 200;

const DOORS = ["terminal", "second terminal", "http", "bob", "terminal of ada", "http of ada"] as const;
type DoorName = (typeof DOORS)[number];

type Step =
  | {
      readonly do: "say";
      readonly at: readonly DoorName[];
      readonly text: string;
      readonly watched: boolean;
      readonly key: string | null;
    }
  | { readonly do: "send"; readonly from: DoorName; readonly to: DoorName }
  | { readonly do: "bind"; readonly from: DoorName; readonly to: DoorName; readonly kind: "live" | "pinned" }
  | { readonly do: "clear"; readonly at: DoorName }
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "jump"; readonly ms: number }
  | { readonly do: "plan"; readonly death: Death }
  | { readonly do: "kill" }
  | { readonly do: "restart"; readonly saidMeanwhile: string | null };

/** A step, and how much of what it sets in motion happens before the next one. */
type Scene = { readonly step: Step; readonly rounds: number };

const MINUTE = 60_000;
const door = fc.constantFrom(...DOORS);
/** `#` becomes a number of its own: every message can be told from the others. */
const text = fc.constantFrom(
  "say #",
  "say #",
  "say #",
  "slow 3 #",
  "slow 6 #",
  "count 5 #",
  "tool #",
  "fail #",
  "die #",
  "gone #",
  "hang #",
  "say",
  "say NO_REPLY",
  "/new",
  "/new slow 2 #",
  "/stop",
  "/stop",
  "/status",
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("say" as const),
      at: fc.array(door, { minLength: 1, maxLength: 3 }),
      text,
      watched: fc.boolean(),
      key: fc.option(fc.constantFrom("a", "b"), { freq: 2 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("send" as const), from: door, to: door }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("bind" as const),
      from: door,
      to: door,
      kind: fc.constantFrom("live" as const, "pinned" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("clear" as const), at: door }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.constantFrom(50, 200, 1_000, MINUTE) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("jump" as const),
      ms: fc.constantFrom(-120 * MINUTE, -2 * MINUTE, -30_000, 30_000, 31 * MINUTE, 120 * MINUTE),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("plan" as const),
      death: fc.record(
        {
          moment: fc.constantFrom("before" as const, "after" as const),
          verb: fc.constantFrom(...VERBS.slice(0, 4)),
          skip: fc.nat(3),
        },
        { requiredKeys: ["moment"] },
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("kill" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("restart" as const), saidMeanwhile: fc.option(text) }),
  },
);
const scenes: fc.Arbitrary<Scene[]> = fc.array(fc.record({ step, rounds: fc.nat(6) }), { maxLength: 40, size: "max" });
const settings = fc.record({
  busy_mode: fc.constantFrom("collect", "queue", "steer", "interrupt", "reject"),
  reset: fc.constantFrom("none", "idle"),
});

/** What no row may ever do, whoever writes it. */
const GUARDS = `
CREATE TRIGGER one_fate BEFORE UPDATE OF fate ON intake WHEN OLD.fate IS NOT NULL
  BEGIN SELECT RAISE(ABORT, 'a final fate changes'); END;
CREATE TRIGGER final_turn BEFORE UPDATE OF state ON turn WHEN OLD.state NOT IN('queued','running')
  BEGIN SELECT RAISE(ABORT, 'an ended turn changes'); END;
CREATE TRIGGER in_order BEFORE UPDATE OF state ON turn WHEN NEW.state = 'running' AND EXISTS(SELECT 1 FROM turn o
    WHERE o.id < NEW.id AND o.conversation_id = NEW.conversation_id AND o.state IN('queued','running'))
  BEGIN SELECT RAISE(ABORT, 'a turn overtakes'); END;
CREATE TRIGGER run_again BEFORE UPDATE OF attempt ON turn WHEN NEW.attempt > 2 OR (NEW.attempt = 2 AND OLD.effects <> 'none')
  BEGIN SELECT RAISE(ABORT, 'a turn runs again that must not'); END;
CREATE TRIGGER ended_session BEFORE INSERT ON entry WHEN coalesce(NEW.mark, '') <> 'interrupted'
    AND EXISTS(SELECT 1 FROM session s WHERE s.id = NEW.session_id AND s.ended_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'an ended session is written to'); END;
CREATE TRIGGER ended_session_turn BEFORE INSERT ON turn
    WHEN EXISTS(SELECT 1 FROM session s WHERE s.id = NEW.session_id AND s.ended_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'an ended session gets a turn'); END;`;

/** Questions to the file whose answer must be: nothing. */
const NOTHING: Readonly<Record<string, string>> = {
  "T10 a message without a final fate": "SELECT * FROM intake WHERE fate IS NULL",
  "T10 a message of a person without any intake": `SELECT id, body FROM message m WHERE author_kind = 'person'
     AND NOT EXISTS(SELECT 1 FROM intake i WHERE i.message_id = m.id)`,
  "a turn left open": "SELECT id FROM turn WHERE state IN('queued','running')",
  "a turn without messages": "SELECT id FROM turn t WHERE NOT EXISTS(SELECT 1 FROM intake i WHERE i.turn_id = t.id)",
  "an entry sequence with a hole": `SELECT s.id FROM session s LEFT JOIN entry e ON e.session_id = s.id GROUP BY s.id
     HAVING count(e.seq) <> s.seq OR coalesce(max(e.seq), 0) <> s.seq`,
  "H9 a current session of somebody else, or an ended one": `SELECT c.key FROM conversation c JOIN session s ON s.id = c.current_session
     WHERE s.home <> c.id OR s.ended_at IS NOT NULL`,
  "R4 a session that is neither current nor ended": `SELECT s.id FROM session s JOIN conversation c ON c.id = s.home
     WHERE s.ended_at IS NULL AND s.id <> c.current_session`,
  "H9 a binding to an ended session":
    "SELECT b.* FROM binding b JOIN session s ON s.id = b.session_id WHERE s.ended_at IS NOT NULL",
  "H4 a binding between two agents": `SELECT b.* FROM binding b JOIN session s ON s.id = b.session_id
     JOIN conversation c ON c.id = b.conversation_id WHERE s.agent <> c.agent`,
  "an answer that is not one entry and one delivery": `SELECT id FROM turn t WHERE state = 'answered' AND reason IS NULL AND (
     (SELECT count(*) FROM entry e WHERE e.turn_id = t.id AND e.role = 'assistant' AND e.mark IS NULL AND e.session_id = t.session_id) <> 1
     OR (SELECT count(*) FROM delivery d WHERE d.turn_id = t.id AND d.kind = 'reply') <> 1
     OR (SELECT count(*) FROM delivery d WHERE d.turn_id = t.id AND d.kind = 'notice') <> 0)`,
  "O5 a silent turn that says something": `SELECT id FROM turn t WHERE reason = 'silent' AND (
     EXISTS(SELECT 1 FROM delivery d WHERE d.turn_id = t.id) OR EXISTS(SELECT 1 FROM entry e WHERE e.turn_id = t.id AND e.role <> 'user'))`,
  "T9 a failure that is not one marked entry and one notice": `SELECT id FROM turn t WHERE state IN('failed','interrupted') AND (
     (SELECT count(*) FROM entry e WHERE e.turn_id = t.id AND e.role <> 'user' AND e.mark = t.state) <> 1
     OR (SELECT count(*) FROM entry e WHERE e.turn_id = t.id AND e.role <> 'user') <> 1
     OR (SELECT count(*) FROM delivery d WHERE d.turn_id = t.id) <> 1)`,
  "R4 a withdrawn turn that left more than one notice": `SELECT id FROM turn t WHERE state = 'withdrawn' AND (
     EXISTS(SELECT 1 FROM entry e WHERE e.turn_id = t.id) OR (SELECT count(*) FROM delivery d WHERE d.turn_id = t.id) <> 1)`,
  "a message that was begun and is not one entry": `SELECT i.message_id FROM intake i JOIN turn t ON t.id = i.turn_id WHERE t.state <> 'withdrawn'
     AND (SELECT count(*) FROM entry e WHERE e.message_id = i.message_id AND e.role = 'user') <> 1`,
  "T4 a message entered before an earlier one of its conversation": `SELECT a.message_id, b.message_id FROM entry a JOIN intake ia ON ia.message_id = a.message_id
     JOIN entry b JOIN intake ib ON ib.message_id = b.message_id WHERE a.role = 'user' AND b.role = 'user' AND ia.conversation_id = ib.conversation_id
     AND a.message_id < b.message_id AND (a.turn_id > b.turn_id OR (a.turn_id = b.turn_id AND a.seq > b.seq))`,
  "an open delivery": "SELECT * FROM delivery WHERE state <> 'delivered'",
};

class Play {
  /** Of this life of the gateway: turns whose end somebody waits for. */
  readonly #awaited = new Set<number>();
  readonly problems: string[] = [];
  readonly #story: Story;
  readonly #doors: Readonly<Record<DoorName, Door>>;
  #said = 0;

  constructor(story: Story) {
    this.#story = story;
    this.#doors = {
      terminal: story.alice(),
      "second terminal": story.alice("console", { name: "second" }),
      http: story.alice("http"),
      bob: story.bob(),
      "terminal of ada": story.alice("console", { agent: "ada" }),
      "http of ada": story.alice("http", { agent: "ada" }),
    };
  }

  async perform({ step, rounds }: Scene): Promise<void> {
    const story = this.#story;
    const doing = this.#do(step);
    doing.catch(() => undefined);
    // A restart goes on over a death of its own.
    await (step.do === "restart" ? doing : Promise.race([doing, story.death]));
    for (let round = 0; round < rounds && !story.process.isDead; round++) await tick();
    if (story.process.isDead) await this.#comesBack();
  }

  async #comesBack(): Promise<void> {
    await this.#story.comesBack();
    this.#awaited.clear();
  }

  async #do(step: Step): Promise<void> {
    const story = this.#story;
    switch (step.do) {
      case "say":
        await Promise.all(step.at.map((at) => this.#say(at, step)));
        return;
      case "send":
      case "bind": {
        const from = this.#doors[step.from];
        const conversation = await story.gateway.reader.conversation(from.key);
        const sessionId = conversation?.currentSession;
        if (sessionId == null) return;
        const to = this.#doors[step.to];
        if (step.do === "send") await expected(from.sends(`sent ${++this.#said}`, to, sessionId));
        else await expected(to.binds(sessionId, step.kind));
        return;
      }
      case "clear":
        await this.#doors[step.at].clears();
        return;
      case "pass":
        return story.passes(step.ms);
      case "jump":
        story.jumps(step.ms);
        return;
      case "plan":
        story.willDie(step.death);
        return;
      case "kill":
        story.process.kill();
        return;
      case "restart":
        return this.#restart(step.saidMeanwhile);
    }
  }

  async #restart(saidMeanwhile: string | null): Promise<void> {
    if (saidMeanwhile !== null) {
      const said = this.#say("terminal", { do: "say", at: [], text: saidMeanwhile, watched: false, key: null });
      said.catch((cause) => this.problems.push(String(cause)));
      await Promise.resolve();
    }
    await this.#story.restarts();
    this.#awaited.clear();
  }

  async #say(at: DoorName, { text, watched, key }: Extract<Step, { do: "say" }>): Promise<void> {
    const door = this.#doors[at];
    // Who retries says the same under the same key.
    const idempotency = key !== null && at.startsWith("http") ? { key: `${key} ${text}`, bodyHash: text } : undefined;
    const words = await expected(door.says(text.replace("#", `#${++this.#said}`), idempotency));
    if (words?.turnId == null) return;
    if (watched) door.watches(words);
    this.#awaits(words.turnId);
  }

  #awaits(turnId: number): void {
    const awaited = this.#awaited;
    awaited.add(turnId);
    this.#story.gateway.turns.answerOf(turnId).then(
      () => awaited.delete(turnId),
      () => undefined,
    );
  }

  /** Nothing is open any more: whoever waited in this life of the gateway has heard. */
  async rest(): Promise<number[]> {
    await this.#story.quiets();
    // A death that was planned earlier has come only now.
    if (this.#story.process.isDead) await this.#comesBack();
    await this.#story.quiets();
    return [...this.#awaited];
  }
}

/** Refusals of the domain are answers; what they must be is the model's to say. */
async function expected<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (cause) {
    const { code } = asTertuliaError(cause);
    if (code === "internal" || code.startsWith("store_") || code === "stale_claim") throw cause;
    return undefined;
  }
}

function tick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function play(
  scenes: readonly Scene[],
  { busy_mode, reset }: { busy_mode: string; reset: string },
): Promise<void> {
  const model = new HeartModel();
  const differences: string[] = [];
  const stopped: number[] = [];
  const story = await Story.begin({
    watch: GUARDS,
    onCommitted: (committed) => {
      try {
        if (differences.length === 0) model.committed(committed);
        stopped.push(...stopsIn(committed));
      } catch (difference) {
        differences.push(String(difference));
      }
    },
    config: {
      agents: { main: { runtime: { kind: "demo" } }, ada: { runtime: { kind: "demo" } } },
      turn: { busy_mode, turn_idle_timeout: "1m" },
      reset: { default: { mode: reset, idle_minutes: 30 } },
      handoff: { ttl: "60m" },
    },
  });
  try {
    const all = new Play(story);
    for (const scene of scenes) {
      await all.perform(scene);
      expect(differences).toEqual([]);
    }
    expect({ "waits for an answer": await all.rest() }).toEqual({ "waits for an answer": [] });
    expect(all.problems).toEqual([]);
    story.process.kill();
    await story.comesBack();
    await story.end();
    const hung = story.sql<{ id: number }>("SELECT id FROM turn WHERE reason = 'timeout'").map(({ id }) => id);
    expect(hung.filter((id) => stopped.includes(id))).toEqual([]);
    expect(differences).toEqual([]);
    for (const [what, query] of Object.entries(NOTHING)) expect({ [what]: story.sql(query) }).toEqual({ [what]: [] });
    expect(linesIn(story)).toEqual(model.lines());
    expect(overlaps(story)).toEqual([]);
    expect(toldTwice(story)).toEqual([]);
    expect(unfit(story)).toEqual([]);
  } finally {
    await story.clear();
  }
}

/** Turns that somebody was told are stopped. */
function stopsIn({ verb, result }: Committed): number[] {
  if (verb !== "admit") return [];
  return (result as AdmitResult).outcomes.flatMap((outcome) =>
    "signal" in outcome && outcome.signal?.kind === "stop" ? [outcome.signal.turnId] : [],
  );
}

/** The file, told as the model tells itself. */
function linesIn(story: Story): string[] {
  const rows = story.sql<{ line: string }>(
    `SELECT c.key || ': ' || i.message_id || ' ' || i.fate AS line FROM intake i JOIN conversation c ON c.id = i.conversation_id
     UNION ALL SELECT key || ': ' || coalesce(current_session, 'null') FROM conversation
     UNION ALL SELECT c.key || ': ' || b.kind || ' ' || b.session_id FROM binding b JOIN conversation c ON c.id = b.conversation_id`,
  );
  return rows.map(({ line }) => line).sort();
}

/** T1, as those who watch see it: in one life of the gateway a turn begins in a session after the one before has settled. */
function overlaps(story: Story): string[] {
  return story.lives.flatMap((events) => {
    const running = new Map<string, number>();
    return events.flatMap(({ name, payload }) => {
      if (name === "turn:settled") running.delete(payload.sessionId);
      if (name !== "turn:begun") return [];
      const other = running.get(payload.sessionId) ?? payload.turn.id;
      running.set(payload.sessionId, payload.turn.id);
      return other === payload.turn.id ? [] : [`turn ${payload.turn.id} began while ${other} ran`];
    });
  });
}

/** No delivery is announced twice. */
function toldTwice(story: Story): number[] {
  const ids = story.lives
    .flat()
    .flatMap(({ name, payload }) => (name === "delivery:written" ? [payload.delivery.id] : []));
  return ids.filter((id, index) => ids.indexOf(id) !== index);
}

/** T8, T9: what a turn came to that nobody has stopped or cut short: its first word says it. */
function unfit(story: Story): string[] {
  const rows = story.sql<{ id: number; state: string; reason: string | null; body: string; joined: number }>(
    `SELECT t.id, t.state, t.reason, m.body, t.messages > 1 AS joined FROM turn t JOIN intake i ON i.turn_id = t.id
     JOIN message m ON m.id = i.message_id WHERE t.state IN('answered','failed') GROUP BY t.id HAVING m.id = min(m.id)`,
  );
  return rows.flatMap(({ id, state, reason, body, joined }) => {
    const word = body.split(" ")[0]!;
    const isToFail = ["fail", "die", "gone", "hang"].includes(word) || (body === "say" && !joined);
    const mayTimeOut = reason === "timeout" && ["hang", "slow"].includes(word);
    return mayTimeOut || state === (isToFail ? "failed" : "answered")
      ? []
      : [`turn ${id} (${body}) is ${state} (${reason})`];
  });
}

test("T1 T4 T8 T10 H9 whatever happens: one fate for every message, one turn at a time, in order, nothing twice", async () => {
  await fc.assert(fc.asyncProperty(scenes, settings, play), { numRuns: RUNS, timeout: 20_000 });
}, 600_000);
