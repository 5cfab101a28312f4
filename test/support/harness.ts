import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Channel } from "../../src/channel/channel.ts";
import { type AccountConfig, type Config, loadConfig } from "../../src/config/config.ts";
import type { Person } from "../../src/conversation/person.ts";
import { localDoorChatId } from "../../src/conversation/session-key.ts";
import { asTertuliaError, type TertuliaError } from "../../src/errors.ts";
import type { GatewayEvent } from "../../src/events.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import type { LocalPlatform, Said } from "../../src/intake/local-doors.ts";
import type { Fate } from "../../src/message/message.ts";
import type { Notice } from "../../src/message/notice.ts";
import { createDemoRuntime, type DemoRuntime } from "../../src/runtime/demo/demo-runtime.ts";
import type { Store } from "../../src/store/port.ts";
import type { TurnAnswer } from "../../src/store/readers.ts";
import type { BindingRow } from "../../src/store/rows.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { deliveryText, renderNotice } from "../../src/text/render-notice.ts";
import type { LiveEvent } from "../../src/turn/live-turn.ts";
import type { Clock } from "../../src/util/clock.ts";
import type { IdSource } from "../../src/util/ids.ts";
import { createManualClock } from "./manual-clock.ts";
import { type Committed, type Death, MortalClock, MortalProcess } from "./mortal-store.ts";
import { temporaryFolder } from "./store.ts";

/** 2023-11-14T22:13:20Z */
const START_MS = 1_700_000_000_000;
const STEP_MS = 50;
/** How long a story waits for an answer, by its own clock. */
const PATIENCE_MS = 60_000;

export interface StoryOptions {
  /** What stands in config.yaml. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** SQL run once over the fresh state file: triggers that watch what is written. */
  readonly watch?: string;
  readonly onCommitted?: (committed: Committed) => void;
  /** The rooms that the agents' accounts are in. */
  readonly createChannel?: (account: AccountConfig) => Channel;
}

/** A test that is a story: it begins with a running gateway, and when it is over nothing may be left open. */
export function story(
  tell: (story: Story) => Promise<void>,
  config: StoryOptions["config"] = {},
  options: Omit<StoryOptions, "config"> = {},
): () => Promise<void> {
  return async () => {
    const stage = await Story.begin({ config, ...options });
    try {
      await tell(stage);
      await stage.end();
    } finally {
      await stage.clear();
    }
  };
}

/** One run of the gateway: what dies with a SIGKILL. */
interface Life {
  readonly gateway: Gateway;
  readonly process: MortalProcess;
  readonly runtime: DemoRuntime;
}

/** A gateway over a real file, its people, and the clock that moves when it is told to. */
export class Story {
  readonly #manual = createManualClock(START_MS);
  #jumped = 0;
  /** What the gateway reads as the time of day; its timers know nothing of jumps, as real ones do not. */
  readonly clock: Clock = {
    now: () => this.#manual.now() + this.#jumped,
    after: (ms, call) => this.#manual.after(ms, call),
  };
  config: Config;
  /** What the gateway has logged as warnings, in all its lives. */
  readonly warnings: string[] = [];
  /** What the gateway has logged as errors, in all its lives. */
  readonly faults: string[] = [];
  /** The events of each life of the gateway. */
  readonly lives: GatewayEvent[][] = [];
  readonly #folder = temporaryFolder();
  readonly #options: StoryOptions;
  readonly #ids = countingIds();
  #life: Life | null = null;
  #workBefore = 0;

  private constructor(options: StoryOptions) {
    this.#options = options;
    this.config = this.#written(options.config ?? {});
  }

  #written(config: Readonly<Record<string, unknown>>): Config {
    const people = { owner: { name: "Alice" }, bob: { name: "Bob" } };
    writeFileSync(join(this.#folder.path, "config.yaml"), JSON.stringify({ people, welcome: false, ...config }));
    return loadConfig({ flags: { home: this.#folder.path }, env: {} });
  }

  /** Another file is written, and read by the running gateway. */
  async rewrites(config: Readonly<Record<string, unknown>>): Promise<readonly string[]> {
    this.config = this.#written(config);
    return this.waitsFor(this.gateway.reload(this.config));
  }

  static async begin(options: StoryOptions = {}): Promise<Story> {
    const story = new Story(options);
    if (options.watch !== undefined) {
      await story.#open(story.clock).close();
      story.sql(options.watch);
    }
    await story.starts();
    return story;
  }

  #open(clock: Clock): Store {
    return openSqliteStore({ path: join(this.#folder.path, "state.db"), clock });
  }

  get gateway(): Gateway {
    if (this.#life === null) throw new Error("The gateway does not run.");
    return this.#life.gateway;
  }
  get process(): MortalProcess {
    if (this.#life === null) throw new Error("The gateway does not run.");
    return this.#life.process;
  }
  /** How often the demo agent's tool has run. */
  get sideEffects(): number {
    return this.#workBefore + (this.#life?.runtime.sideEffects ?? 0);
  }

  // ---- the people and their doors

  readonly alice = (platform: LocalPlatform = "console", at: { name?: string; agent?: string } = {}): Door =>
    new Door(this, { person: { id: "owner", role: "owner", name: "Alice" }, platform, ...at });
  readonly bob = (platform: LocalPlatform = "console", at: { name?: string; agent?: string } = {}): Door =>
    new Door(this, { person: { id: "bob", role: "member", name: "Bob" }, platform, ...at });

  // ---- lives and deaths

  async starts(death?: Death): Promise<void> {
    const clock = new MortalClock(this.clock);
    const process = new MortalProcess({
      store: this.#open(clock),
      clock,
      onCommitted: (committed) => this.#options.onCommitted?.(committed),
    });
    const runtime = createDemoRuntime({ clock: process.clock });
    const gateway = new Gateway({
      config: this.config,
      store: process.store,
      clock: process.clock,
      ids: this.#ids,
      chance: () => 0,
      runtimes: { demo: runtime },
      ...(this.#options.createChannel === undefined ? {} : { createChannel: this.#options.createChannel }),
      log: {
        info: () => undefined,
        warn: (_, message) => this.warnings.push(message),
        error: (_, message) => this.faults.push(message),
      },
    });
    const events: GatewayEvent[] = [];
    this.lives.push(events);
    gateway.events.subscribe((event) => events.push(event));
    this.#life = { gateway, process, runtime };
    if (death !== undefined) process.dieAt(death);
    await Promise.race([gateway.start(), process.death]);
  }

  /** The process will die at that call; `death` waits for it. */
  willDie(death: Death): void {
    this.process.dieAt(death);
  }
  get death(): Promise<void> {
    return this.process.death;
  }

  /** Killed, now or as planned, and started again; perhaps to die once more. */
  async comesBack(death?: Death): Promise<void> {
    const { process, runtime } = this.#life!;
    await process.bury();
    this.#workBefore += runtime.sideEffects;
    await this.starts(death);
  }

  /** Stopped in order, and started again. */
  async restarts(): Promise<void> {
    await this.#stop();
    await this.starts();
  }

  async #stop(): Promise<void> {
    const { gateway, process, runtime } = this.#life!;
    let isStopped = false;
    const stopped = gateway.stop().then(() => {
      isStopped = true;
    });
    // What hangs is given up by the clock: the graces of agents and handles.
    while (!isStopped && !process.isDead) {
      await this.rests();
      if (!isStopped) await this.#manual.advance(100);
    }
    if (process.isDead) await process.bury();
    else await stopped;
    this.#workBefore += runtime.sideEffects;
    this.#life = null;
  }

  // ---- time

  /** The time of day is set, in either direction. */
  jumps(ms: number): void {
    this.#jumped += ms;
  }

  /** Until nothing goes on any more without the clock, or the process is dead. */
  async rests(): Promise<void> {
    for (let still = 0; still < 3 && this.#life !== null && !this.process.isDead; ) {
      const before = this.process.activity.calls;
      await new Promise((resolve) => setImmediate(resolve));
      const { calls, inFlight } = this.process.activity;
      still = calls === before && inFlight === 0 ? still + 1 : 0;
    }
  }

  /** Time goes by, and everything that it sets in motion happens; it stands still when the process dies. */
  async passes(ms: number): Promise<void> {
    const step = Math.max(STEP_MS, Math.ceil(ms / 40));
    await this.rests();
    for (let left = ms; left > 0 && this.#life?.process.isDead === false; left -= step) {
      await this.#manual.advance(Math.min(step, left));
      await this.rests();
    }
  }

  /** Time goes by until no turn is open, or the process is dead. */
  async quiets(): Promise<void> {
    const hasOpen = (): boolean => this.sql("SELECT 1 FROM turn WHERE state IN('queued','running') LIMIT 1").length > 0;
    for (let waited = 0; waited < 100 && !this.process.isDead && hasOpen(); waited++) {
      await this.passes(waited < 20 ? 200 : 60_000);
    }
    await this.rests();
  }

  /** Time goes by until it is there. */
  async waitsFor<T>(promise: Promise<T>): Promise<T> {
    let isThere = false;
    const settled = promise.finally(() => {
      isThere = true;
    });
    settled.catch(() => undefined);
    for (let waited = 0; waited < PATIENCE_MS; waited += STEP_MS) {
      await this.rests();
      if (isThere) return settled;
      await this.#manual.advance(STEP_MS);
    }
    throw new Error("It does not come.");
  }

  // ---- what is in the file

  sql<Row extends object = Record<string, string | number | null>>(
    query: string,
    ...values: (string | number | null)[]
  ): Row[] {
    const db = new DatabaseSync(join(this.#folder.path, "state.db"));
    try {
      if (values.length === 0 && /;\s*\S/.test(query)) {
        db.exec(query);
        return [];
      }
      return db.prepare(query).all(...values) as unknown as Row[];
    } finally {
      db.close();
    }
  }

  /** What an agent was last told. */
  lastPrompt(agent?: string): string {
    const [row] = this.sql<{ prompt: string }>(
      `SELECT t.prompt FROM turn t JOIN session s ON s.id = t.session_id
       WHERE t.prompt IS NOT NULL AND s.agent = coalesce(?, s.agent) ORDER BY t.id DESC LIMIT 1`,
      agent ?? null,
    );
    if (row === undefined) throw new Error("No agent was told anything yet.");
    return row.prompt;
  }

  /** Lets everything come to its end, stops the gateway, and looks whether anything is left open. */
  async end(): Promise<void> {
    await this.quiets();
    const { gateway } = this;
    await this.#stop();
    const [open] = this.sql(
      `SELECT (SELECT count(*) FROM turn WHERE state IN('queued','running')) AS turns,
         (SELECT count(*) FROM delivery WHERE state IN('queued','sending','streaming')) AS deliveries`,
    );
    const left = {
      ...open,
      timers: this.#manual.pending,
      handles: gateway.pool.list().length,
      running: gateway.turns.running,
    };
    const isNothing = Object.values(left).every((count) => count === 0);
    if (!isNothing) throw new Error(`Something is left open: ${JSON.stringify(left)}`);
    if (this.faults.length > 0) throw new Error(`The gateway has logged errors:\n${this.faults.join("\n")}`);
  }

  async clear(): Promise<void> {
    await this.#life?.process.bury();
    this.#folder.remove();
  }
}

/** Words that were taken in. */
export interface Words {
  readonly messageId: number;
  readonly turnId: number | null;
  readonly sessionId: string | null;
  /** What a command was answered. */
  readonly reply: string | null;
}

/** A person at a door. */
export class Door {
  readonly key: string;
  readonly person: Person;
  readonly agent: string;
  readonly story: Story;
  readonly #platform: LocalPlatform;
  readonly #name: string;

  constructor(story: Story, at: { person: Person; platform: LocalPlatform; name?: string; agent?: string }) {
    this.story = story;
    this.person = at.person;
    this.agent = at.agent ?? story.config.defaultAgent;
    this.#platform = at.platform;
    this.#name = at.name ?? "main";
    const chatId = encodeURIComponent(localDoorChatId(this.person.id, this.#name));
    this.key = `agent:${this.agent}:${this.#platform}:dm:${chatId}`;
  }

  /** Resolves when the words are durable. */
  async says(text: string, idempotency?: { key: string; bodyHash: string }): Promise<Words> {
    const said: Said = await this.story.gateway.doors.say({
      person: this.person,
      agent: this.agent,
      door: { platform: this.#platform, name: this.#name },
      text,
      ...(idempotency === undefined ? {} : { idempotency }),
    });
    const { messageId, turnId, sessionId } = said;
    return { messageId, turnId, sessionId, reply: said.kind === "command" ? renderNotice(said.reply) : null };
  }

  /** Says it, and waits for what comes back: the answer, a command's reply, or the sentence that says why there is none. */
  async asks(text: string): Promise<string> {
    const words = await this.says(text);
    return words.reply ?? this.hears(words);
  }

  async hears(words: Words): Promise<string> {
    return shown(await this.answer(words));
  }

  answer(words: Words): Promise<TurnAnswer> {
    if (words.turnId === null) throw new Error("These words have no turn.");
    return this.story.waitsFor(this.story.gateway.turns.answerOf(words.turnId));
  }

  /** Speaks in somebody's conversation by its key. */
  async speaksInto(door: Door, text: string): Promise<Words> {
    const said = await this.story.gateway.doors.say({
      person: this.person,
      agent: door.agent,
      door: { key: door.key },
      text,
    });
    return { messageId: said.messageId, turnId: said.turnId, sessionId: said.sessionId, reply: null };
  }

  /** Says what must be refused. */
  async isRefused(text: string): Promise<TertuliaError> {
    try {
      await this.says(text);
    } catch (cause) {
      return asTertuliaError(cause);
    }
    throw new Error(`${JSON.stringify(text)} was taken in.`);
  }

  /** Watches a turn as this person's screen does. */
  watches(
    words: Words,
    { canAnswer = true } = {},
  ): { readonly seen: LiveEvent[]; readonly text: () => string; stop(): void } {
    const seen: LiveEvent[] = [];
    const stop = this.story.gateway.turns.watch(words.turnId!, { canAnswer, onEvent: (event) => seen.push(event) });
    const text = (): string => seen.flatMap((event) => (event.type === "text" ? [event.text] : [])).join("");
    return { seen, text, stop };
  }

  /** Answers a question of the agent. */
  allows(words: Words, id: string, optionId: string | null): void {
    this.story.gateway.turns.answerPermission({ person: this.person, turnId: words.turnId!, id, optionId });
  }

  async fate(words: Words): Promise<Fate | undefined> {
    const fates = await this.story.gateway.reader.fates(words.messageId);
    return fates.find((fate) => fate.conversationKey === this.key)?.fate;
  }

  async session(): Promise<string> {
    const conversation = await this.story.gateway.reader.conversation(this.key);
    if (conversation?.currentSession == null) throw new Error(`Nothing was said at ${this.key} yet.`);
    return conversation.currentSession;
  }

  /** The transcript of this door's own session, or of another one, as `role: text`. */
  async transcript(sessionId?: string): Promise<string[]> {
    const entries = await this.story.gateway.reader.transcript({
      sessionId: sessionId ?? (await this.session()),
      limit: 1000,
    });
    return entries.map((entry) => `${entry.role}${entry.mark === null ? "" : ` (${entry.mark})`}: ${entry.text}`);
  }

  /** What was delivered here, in order: replies, notices and words sent from elsewhere. */
  shows(): string[] {
    const rows = this.story.sql<{ kind: string; body: string }>(
      `SELECT d.kind, d.body FROM delivery d LEFT JOIN turn t ON t.id = d.turn_id LEFT JOIN message m ON m.id = d.message_id
       JOIN conversation c ON c.key = ? AND d.target = c.target
       WHERE coalesce(t.conversation_id, c.id) = c.id AND coalesce(m.place_id, c.place_id) = c.place_id ORDER BY d.id`,
      this.key,
    );
    return rows.map((row) =>
      deliveryText({ body: row.kind === "notice" ? (JSON.parse(row.body) as Notice) : row.body }),
    );
  }

  // ---- speaking elsewhere from here (section 8)

  /** H1: words into another door, from this door's session or the one named. Shared unless a story says otherwise: some doors are another person's. */
  async sends(text: string, to: Door, sessionId?: string | null, share = true): Promise<BindingRow | null> {
    const from = sessionId === undefined ? await this.session() : sessionId;
    const sent = await this.story.gateway.bridge.send({
      person: this.person,
      room: to.key,
      text,
      sessionId: from,
      share,
    });
    return sent.binding;
  }

  async binds(sessionId: string, binding: "live" | "pinned", share = true): Promise<void> {
    await this.story.gateway.bridge.bind({
      person: this.person,
      room: this.key,
      change: { kind: "set", binding, sessionId },
      share,
    });
  }

  async clears(): Promise<boolean> {
    const { had } = await this.story.gateway.bridge.bind({
      person: this.person,
      room: this.key,
      change: { kind: "clear" },
    });
    return had;
  }
}

function shown(answer: TurnAnswer): string {
  if (answer.turn.state === "answered") return answer.text;
  return answer.notices.map(renderNotice).join("\n");
}

function countingIds(): IdSource {
  let sessions = 0;
  let tokens = 0;
  return { session: () => `s${++sessions}`, token: () => `t${++tokens}` };
}
