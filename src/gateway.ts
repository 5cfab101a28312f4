import { type BindRequest, Bridge, type JobRequest, type SendRequest } from "./bridge/bridge.ts";
import type { Channel } from "./channel/channel.ts";
import { EventIntake } from "./channel/event-intake.ts";
import { OwnDoors, type Said, type SayRequest } from "./channel/own-doors.ts";
import type { Config } from "./config.ts";
import { type NextContext, nextContextOf } from "./context/next-context.ts";
import { type ContextGround, OWN_DOORS } from "./context/settings.ts";
import type { Person } from "./conversation/person.ts";
import { type Digest, type DigestSettings, NOISE, readDigest } from "./digest/digest.ts";
import { DigestKeeper } from "./digest/digest-keeper.ts";
import { createOwnTalks } from "./digest/own-talks.ts";
import type { Engine } from "./engine/engine.ts";
import { createLocalEngine } from "./engine/local/local-engine.ts";
import { asTertuliaError, TertuliaError } from "./errors.ts";
import { EventBus, type GatewayEvents, withoutPrompt } from "./events.ts";
import { Outbox } from "./reply/outbox.ts";
import { deliveryText } from "./reply/render-notice.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { createRuntimePool, type RuntimePool } from "./runtime/runtime-pool.ts";
import { createRuntimes, describeAgent } from "./runtimes.ts";
import type {
  BindingRow,
  Claim,
  ImportResult,
  InboundEvent,
  KeepChange,
  Settled,
  Store,
  StoreReader,
  Takeover,
  TurnAnswer,
  TurnSignal,
} from "./store/store.ts";
import { Telemetry } from "./telemetry/telemetry.ts";
import type { Watcher } from "./turn/live-turn.ts";
import { TurnAnswers } from "./turn/turn-answers.ts";
import { TurnQueue } from "./turn/turn-queue.ts";
import { TurnRunner } from "./turn/turn-runner.ts";
import { type Clock, systemClock } from "./util/clock.ts";
import { type IdSource, randomIds } from "./util/ids.ts";
import type { Log } from "./util/log.ts";

export type { BindRequest, JobRequest, Person, Said, SayRequest, SendRequest };

const PRUNE_MS = 3_600_000;

export interface GatewayOptions {
  readonly config: Config;
  /** Open and exclusive to this gateway; closed by `stop`. */
  readonly store: Store;
  readonly log: Log;
  readonly clock?: Clock;
  readonly ids?: IdSource;
  /** 0 ≤ chance < 1: the jitter of retries. */
  readonly chance?: () => number;
  /** By kind, instead of the built-in ones. */
  readonly runtimes?: Readonly<Record<string, Runtime>>;
  readonly channels?: readonly Channel[];
  /** Keys the stand-ins that `redact_pii` shows for ids, which stay the same while it does; one of this process's own where absent. */
  readonly secret?: string;
}

/**
 * Gateway: the composition root. The way of a message:
 *
 *     channel/ (own doors, channels) → intake: store.admit → turn/ queue: store.begin → context/ → runtime/ pool
 *     → turn/ runner: store.mark, store.settle → reply/ outbox: store.attempt, store.delivered
 */
export class Gateway {
  readonly config: Config;
  readonly events: EventBus;
  readonly pool: RuntimePool;
  readonly telemetry: Telemetry;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #store: Store;
  readonly #ids: IdSource;
  readonly #ground: ContextGround;
  /** By agent; agents of the demo share one. */
  readonly #runtimes: ReadonlyMap<string, Runtime>;
  readonly #channels: readonly Channel[];
  readonly #engine: Engine;
  readonly #runner: TurnRunner;
  readonly #queue: TurnQueue;
  readonly #answers: TurnAnswers;
  readonly #outbox: Outbox;
  readonly #intake: EventIntake;
  readonly #ownDoors: OwnDoors;
  readonly #bridge: Bridge;
  /** Null where no home is configured. */
  readonly #digestKeeper: DigestKeeper | null;
  #claim: Claim | null = null;
  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #cancelPrune = (): void => undefined;

  constructor(options: GatewayOptions) {
    const { config, store, log, clock = systemClock, ids = randomIds, chance = Math.random } = options;
    const claim = (): Claim => this.#holdClaim();
    const onFault = (cause: unknown): void => this.#fault(cause);
    const onSettled = (settled: Settled): void => this.#onSettled(settled);
    this.config = config;
    this.#log = log;
    this.#clock = clock;
    this.#store = store;
    this.#runtimes = createRuntimes(config, { clock, chance, given: options.runtimes ?? {} });
    this.#channels = options.channels ?? [];
    this.#ids = ids;
    this.#ground = {
      platforms: [...new Set([...OWN_DOORS, ...this.#channels.map(({ platform }) => platform)])],
      secret: options.secret ?? ids.token(),
    };
    this.events = new EventBus(onFault);
    this.#engine = createLocalEngine({ store, holder: `pid ${process.pid}` });
    this.pool = createRuntimePool({
      clock,
      idleMs: config.pool.idleMinutes * 60_000,
      maxWarm: config.pool.maxWarm,
      onEvent: (event) => this.events.emit("runtime:state", event),
    });
    const { events, pool } = this;
    this.telemetry = new Telemetry({ events, pool, clock, log, reader: store, runningTurns: () => this.runningTurns });
    this.#answers = new TurnAnswers(store);
    this.#runner = new TurnRunner({
      config,
      ground: this.#ground,
      store,
      clock,
      ids,
      claim,
      pool: this.pool,
      runtimeOf: (agent) => this.#runtimeOf(agent),
      events: this.events,
      onTakenIn: (turnId, into) => this.#answers.takenIn(turnId, into),
      onJob: (sessionId, job) => this.#jobOfRuntime(sessionId, job),
      onSettled,
      onUnsettled: (turnId, error) => this.#answers.failed(turnId, error),
      onFault,
    });
    this.#queue = new TurnQueue({
      store,
      clock,
      claim,
      run: (turn) => this.#runner.run(turn),
      onTakeover: (takeover) => this.#onTakeover(takeover),
      onFault,
    });
    this.#outbox = new Outbox({
      store,
      clock,
      claim,
      chance,
      ttlMs: config.delivery.ttlMs,
      channelOf: (account) => this.#channels.find((channel) => channel.account === account),
      onAttempted: (delivery, result) => this.events.step({ kind: "attempted", delivery, result }),
      onFault,
    });
    this.#intake = new EventIntake({
      store,
      clock,
      claim,
      engine: this.#engine,
      events: this.events,
      outbox: this.#outbox,
      startTurn: (turn) => this.#queue.start(turn),
      dropSession: (sessionId) => this.pool.drop(sessionId),
      onPutOff: (putOff) => log.info(putOff, `a reset was put off (${putOff.reason}), held by a ${putOff.heldBy}`),
      onSettled: (settled) => {
        this.#runner.stop(settled.turn.id, { kind: "lost" });
        onSettled(settled);
      },
    });
    const warmth = (sessionId: string): string =>
      this.pool.list().find((handle) => handle.sessionId === sessionId)?.state ?? "cold";
    const known = new Map(Object.keys(config.agents).map((agent) => [agent, describeAgent(config, agent)]));
    const about = (agent: string) => known.get(agent) ?? describeAgent(config, agent);
    this.#ownDoors = new OwnDoors({ config, reader: store, clock, ids, intake: this.#intake, warmth, about });
    this.#bridge = new Bridge({ config, reader: store, clock, ids, intake: this.#intake });
    this.#digestKeeper = this.#createDigestKeeper(config);
  }

  #createDigestKeeper({ digest, timezone }: Config): DigestKeeper | null {
    if (digest.home === null) return null;
    return new DigestKeeper({
      home: digest.home,
      intervalMs: digest.intervalMs,
      source: createOwnTalks(this.#store),
      settings: digestSettings(this.config),
      rendering: { lang: digest.lang, timezone },
      clock: this.#clock,
      nonce: () => this.#ids.token().slice(0, 12),
      onWritten: (files) => this.#log.info({ home: digest.home, files }, "the digest was written"),
      onFault: (cause) => this.#fault(cause),
    });
  }

  get reader(): StoreReader {
    return this.#store;
  }
  get isReady(): boolean {
    return this.#state === "running";
  }
  get runningTurns(): number {
    return this.#runner.running;
  }
  /** The turns that run now, as `turn:begun` told of them. */
  get turnsBegun(): readonly GatewayEvents["turn:begun"][] {
    return this.#runner.begun;
  }

  /** Takes the claim, takes over what an earlier run left, and opens the channels. */
  async start(): Promise<void> {
    this.#claim = await this.#engine.start({
      wake: (sessionId) => this.#queue.wake(sessionId),
      signal: (signal) => this.#signal(signal),
    });
    for (const { id, role, name } of Object.values(this.config.people)) {
      await this.#store.keep(
        { kind: "person", person: { id, role, ...(name === undefined ? {} : { name }) } },
        this.#claim,
      );
    }
    this.#state = "running";
    for (const sessionId of await this.#store.openSessions()) this.#queue.wake(sessionId);
    await this.#outbox.start();
    for (const channel of this.#channels) await this.#open(channel);
    this.#prune();
    this.#digestKeeper?.start();
  }

  /** Running turns get the grace of a stop; then they are interrupted and their authors told. Nothing stays open. */
  async stop(): Promise<void> {
    if (this.#state === "stopped" || this.#state === "stopping") return;
    this.#state = "stopping";
    this.#cancelPrune();
    await this.#digestKeeper?.stop();
    await Promise.all(this.#channels.map((channel) => channel.stop()));
    await this.#intake.stop();
    this.#runner.stopAll({ kind: "shutdown" });
    await this.#queue.stop();
    await this.#outbox.stop();
    await this.pool.close();
    await Promise.all([...new Set(this.#runtimes.values())].map((runtime) => runtime.close()));
    await this.#engine.stop();
    await this.#store.close();
    this.#state = "stopped";
  }

  /** Words of a person at an own door, or into a conversation by its key. */
  async say(request: SayRequest): Promise<Said> {
    this.#mustRun();
    return this.#ownDoors.say(request);
  }

  /** How a turn ended; resolves when it has. */
  answerOf(turnId: number): Promise<TurnAnswer> {
    return this.#answers.of(turnId);
  }

  /** Sees a turn's words, from its first on. Returns the way to stop watching. */
  watch(turnId: number, watcher: Watcher): () => void {
    return this.#runner.watch(turnId, watcher);
  }

  /** C7: what the next turn of a conversation would be told. Throws `conversation_unknown`. */
  async nextContext(key: string): Promise<NextContext> {
    const conversation = await this.#store.conversation(key);
    if (conversation === null) throw new TertuliaError("conversation_unknown", `There is no conversation ${key}.`);
    return nextContextOf(conversation, {
      config: this.config,
      ground: this.#ground,
      reader: this.#store,
      now: this.#clock.now(),
      nonce: this.#ids.token(),
    });
  }

  /** H13: a batch of another program's sessions. Throws `agent_unknown`. */
  async import(change: Omit<Extract<KeepChange, { kind: "import" }>, "kind" | "now">): Promise<ImportResult> {
    this.#mustRun();
    if (!Object.hasOwn(this.config.agents, change.agent))
      throw new TertuliaError("agent_unknown", `There is no agent ${change.agent}.`);
    const kept = await this.#store.keep({ kind: "import", now: this.#clock.now(), ...change }, this.#holdClaim());
    return kept.imported ?? { sessions: 0, messages: 0, wentOn: [] };
  }

  /** D1: what was said last at the owner's doors. */
  digest(): Promise<Digest> {
    return readDigest(createOwnTalks(this.#store), digestSettings(this.config), this.#clock.now());
  }

  /** Answers an open permission question, with the turn's authority: its own person, or the owner (H12). */
  answerPermission(request: { person: Person; turnId: number; id: string; optionId: string | null }): void {
    const live = this.#runner.live(request.turnId);
    if (live === undefined) throw new TertuliaError("request_invalid", "This turn does not run any more.");
    const isTheirs = request.person.role === "owner" || live.turn.authority.personId === request.person.id;
    if (!isTheirs) throw new TertuliaError("forbidden", "This question is for somebody else.");
    live.answer(request.id, request.optionId);
  }

  /** The session's agent is not needed any more: its handle is parked when its turn is over. */
  park(sessionId: string): Promise<void> {
    return this.pool.drop(sessionId);
  }

  /** H1: speaks in a room as the agent, and binds the room to the session, unless there is none. */
  async send(request: SendRequest): Promise<{ messageId: number; key: string; binding: BindingRow | null }> {
    this.#mustRun();
    return this.#bridge.send(request);
  }

  /** Sets or clears a binding of a room by hand (H4). */
  async bind(request: BindRequest): Promise<{ key: string; binding: BindingRow | null; had: boolean }> {
    this.#mustRun();
    return this.#bridge.bind(request);
  }

  /** R2: a background job of a session is opened or closed; an open one holds its reset for a while. */
  async job(request: JobRequest): Promise<{ had: boolean }> {
    this.#mustRun();
    return this.#bridge.job(request);
  }

  /** A late report, of a session that has ended meanwhile, changes nothing. */
  async #jobOfRuntime(
    sessionId: string,
    { id, title, state }: { id: string; title: string; state: string },
  ): Promise<void> {
    try {
      await this.#bridge.job({ person: null, sessionId, id, title: state === "open" ? title : null });
    } catch (cause) {
      if (asTertuliaError(cause).code !== "session_ended") throw cause;
      this.#log.info({ session: sessionId, job: id }, "a job was reported for a session that has ended");
    }
  }

  async #open(channel: Channel): Promise<void> {
    const account = { account: channel.account, platform: channel.platform, agent: this.config.defaultAgent };
    await channel.start({
      cursor: await this.#store.cursor(channel.account),
      commit: (events: readonly InboundEvent[], cursor?: string) => this.#intake.commit(account, events, cursor),
    });
  }

  #signal(signal: TurnSignal): void {
    if (signal.kind === "steer") this.#runner.steer(signal.turnId, signal.messageId);
    else this.#runner.stop(signal.turnId, { kind: signal.kind === "stop" ? "stopped" : "superseded" });
  }

  #onTakeover(takeover: Takeover): void {
    const turn = takeover.kind === "rerun" ? takeover.turnId : takeover.turn.id;
    this.#log.info({ turn }, `a turn of an earlier run: ${takeover.kind}`);
    if (takeover.kind === "interrupted") this.#onSettled(takeover);
  }

  #onSettled(settled: Settled): void {
    this.events.step({ kind: "settled", turn: settled.turn, deliveries: settled.deliveries });
    for (const sessionId of settled.wake) this.#engine.wake(sessionId);
    this.#answers.settled(settled);
    this.#outbox.take(settled.deliveries);
    if (this.events.isHeard) this.#announceSettled(settled).catch((cause) => this.#fault(cause));
  }

  async #announceSettled({ turn, text, deliveries, messageIds }: Settled): Promise<void> {
    const conversation = await this.#store.conversationById(turn.conversationId);
    const session = await this.#store.session(turn.sessionId);
    if (conversation === null || session === null) return;
    const at = { conversationId: conversation.id, conversationKey: conversation.key };
    const silent = turn.reason === "silent";
    this.events.emit("turn:settled", {
      turn: withoutPrompt(turn),
      text,
      silent,
      messageIds,
      sessionId: session.id,
      homeKey: session.homeKey,
      ...at,
    });
    for (const delivery of deliveries)
      this.events.emit("delivery:written", { delivery, text: deliveryText(delivery), ...at });
  }

  #runtimeOf(agent: string): Runtime {
    const runtime = this.#runtimes.get(agent);
    if (runtime === undefined) throw new TertuliaError("agent_unknown", `There is no agent ${agent} any more.`);
    return runtime;
  }

  #holdClaim(): Claim {
    if (this.#claim === null) throw new TertuliaError("gateway_stopping", "The gateway is not running.");
    return this.#claim;
  }

  #mustRun(): void {
    if (this.#state !== "running") throw new TertuliaError("gateway_stopping", "The gateway is starting or stopping.");
  }

  #prune(): void {
    this.#store.keep({ kind: "prune", now: this.#clock.now() }, this.#holdClaim()).catch((cause) => this.#fault(cause));
    this.#cancelPrune = this.#clock.after(PRUNE_MS, () => this.#prune());
  }

  #fault(cause: unknown): void {
    const error = asTertuliaError(cause);
    this.#log.error({ err: error, cause: error.cause }, `${error.code}: ${error.message}`);
  }
}

function digestSettings({ digest }: Config): DigestSettings {
  const { idleMinutes, limit, noise } = digest;
  return { idleMinutes, limit, noise: [...NOISE, ...noise] };
}
