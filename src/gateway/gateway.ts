import { isDeepStrictEqual } from "node:util";
import type { Channel, ChannelStatus } from "../channel/channel.ts";
import { type AccountConfig, type Config, runtimeOf } from "../config/config.ts";
import { deepFreeze, table } from "../config/data.ts";
import { reloaded, silentPlatforms } from "../config/reload.ts";
import { createIdMask, type IdMask } from "../context/id-mask.ts";
import { maskedLog } from "../context/masked-log.ts";
import { type NextContext, nextContextOf } from "../context/next-context.ts";
import { type GatewayFacts, LOCAL_DOORS } from "../context/settings.ts";
import { type AgentState, agentStateOf } from "../conversation/agent-state.ts";
import type { InboundBatch } from "../conversation/gate.ts";
import type { Person } from "../conversation/person.ts";
import { parseSessionKey } from "../conversation/session-key.ts";
import { sessionToken } from "../conversation/session-token.ts";
import { type Digest, readDigest, settingsFrom } from "../digest/digest.ts";
import { DigestKeeper } from "../digest/digest-keeper.ts";
import { createOwnTalks } from "../digest/own-talks.ts";
import type { Engine } from "../engine/engine.ts";
import { createLocalEngine } from "../engine/local/local-engine.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { EventBus, type GatewayEvents, withoutPrompt } from "../events.ts";
import { type BindRequest, Bridge, type JobRequest, type SendRequest } from "../intake/bridge.ts";
import { EventIntake, type InboxAccount } from "../intake/event-intake.ts";
import { InboundPipeline, isStillLetIn } from "../intake/inbound-pipeline.ts";
import { LocalDoors, type Said, type SayRequest } from "../intake/local-doors.ts";
import { StrangerLog } from "../intake/stranger-log.ts";
import type { PlatformEvent } from "../message/platform-event.ts";
import type { Platform, Source } from "../message/source.ts";
import { Outbox } from "../reply/outbox.ts";
import type { HandleStateName, OpenedHow, Runtime, TurnEvent } from "../runtime/runtime.ts";
import { createRuntimePool, type RuntimePool } from "../runtime/runtime-pool.ts";
import type {
  BindingRow,
  Claim,
  ConversationRow,
  DeliveryRow,
  ImportResult,
  InboundEvent,
  KeepChange,
  Recovery,
  Settled,
  Store,
  StoreReader,
  Turn,
  TurnAnswer,
  TurnMaterial,
  TurnSignal,
} from "../store/store.ts";
import { Telemetry } from "../telemetry/telemetry.ts";
import { deliveryText } from "../text/render-notice.ts";
import type { Watcher } from "../turn/live-turn.ts";
import { TurnAnswers } from "../turn/turn-answers.ts";
import { TurnQueue } from "../turn/turn-queue.ts";
import { mayAnswer, TurnRunner } from "../turn/turn-runner.ts";
import { type Clock, systemClock } from "../util/clock.ts";
import { type IdSource, randomIds } from "../util/ids.ts";
import type { Log } from "../util/log.ts";
import {
  createRuntimes,
  describeAgent,
  endLeftovers,
  probeRuntimes,
  type RuntimeReport,
  type RuntimesOptions,
} from "./runtimes.ts";

export type { BindRequest, JobRequest, Person, Said, SayRequest, SendRequest };

const PRUNE_MS = 3_600_000;
const PROBE_FRESH_MS = 10_000;

type RuntimeJob = Extract<TurnEvent, { type: "job" }>;

interface AgentAccount {
  readonly agent: string;
  readonly account: AccountConfig;
}

function accountsOf(config: Config): AgentAccount[] {
  return Object.values(config.agents).flatMap(({ name, accounts }) =>
    accounts.map((account) => ({ agent: name, account })),
  );
}

export interface GatewayOptions {
  readonly config: Config;
  /** Open and exclusive to this gateway; closed by `stop`. */
  readonly store: Store;
  readonly log: Log;
  readonly clock?: Clock;
  readonly ids?: IdSource;
  /** 0 ≤ chance < 1: the jitter of retries. */
  readonly chance?: () => number;
  /** By name or by kind, instead of what the configuration describes. */
  readonly runtimes?: Readonly<Record<string, Runtime>>;
  /** Of the default agent, beside those of its accounts. */
  readonly channels?: readonly Channel[];
  /** Opens nothing yet: the channel of an agent's account. */
  readonly createChannel?: (account: AccountConfig) => Channel;
  /** Keys the stand-ins that `redact_pii` shows for ids, which stay the same while it does; one of this process's own where absent. */
  readonly secret?: () => string;
}

/**
 * Gateway: the composition root. The way of a message:
 *
 *     channel/ (own doors, channels) → intake: store.admit → turn/ queue: store.begin → context/ → runtime/ pool
 *     → turn/ runner: store.mark, store.settle → reply/ outbox: store.attempt, store.delivered
 */
export class Gateway {
  #config: Config;
  readonly events: EventBus;
  readonly pool: RuntimePool;
  readonly telemetry: Telemetry;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #store: Store;
  readonly #ids: IdSource;
  readonly #ground: GatewayFacts;
  readonly #secret: () => string;
  readonly #options: GatewayOptions;
  readonly #runtimes: Map<string, Runtime>;
  /** Not configured any more: turns may still run on them, and they end with the gateway. */
  readonly #retired = new Set<Runtime>();
  /** Accounts that were removed while this gateway runs. */
  readonly #gone = new Set<string>();
  /** By account; `account` is what the configuration says of it, null for a channel that was given. */
  readonly #channels = new Map<
    string,
    { readonly channel: Channel; readonly agent: string; readonly account: AccountConfig | null }
  >();
  #reloading: Promise<unknown> = Promise.resolve();
  readonly #engine: Engine;
  readonly #runner: TurnRunner;
  readonly #queue: TurnQueue;
  readonly #answers: TurnAnswers;
  readonly #outbox: Outbox;
  readonly #intake: EventIntake;
  readonly #localDoors: LocalDoors;
  readonly #hearing: InboundPipeline;
  readonly #bridge: Bridge;
  /** Null where no home is configured. */
  #digestKeeper: DigestKeeper | null;
  /** The last that was begun. */
  #probe: { config: Config; reports: Promise<readonly RuntimeReport[]>; freshUntil: number } | null = null;
  #claim: Claim | null = null;
  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #cancelPrune = (): void => undefined;

  constructor(options: GatewayOptions) {
    const { config, store, clock = systemClock, ids = randomIds, chance = Math.random } = options;
    const log = maskedLog(options.log, () => this.idMask);
    const claim = (): Claim => this.#holdClaim();
    const onFault = (cause: unknown): void => this.#fault(cause);
    const onSettled = (settled: Settled): void => this.#onSettled(settled);
    this.#config = config;
    this.#options = options;
    this.#log = log;
    this.#clock = clock;
    this.#store = store;
    const ownSecret = ids.token();
    this.#secret = options.secret ?? (() => ownSecret);
    this.#runtimes = createRuntimes(config, this.#runtimesOptions());
    for (const channel of options.channels ?? [])
      this.#channels.set(channel.account, { channel, agent: config.defaultAgent, account: null });
    this.#ids = ids;
    const platforms = () => this.#platforms();
    const secret = this.#secret;
    this.#ground = {
      get platforms() {
        return platforms();
      },
      get secret() {
        return secret();
      },
    };
    // Every part reads the configuration at the moment it needs it: a reload reaches the next message (A3).
    const live = <T extends object>(fixed: T): T & { readonly config: Config } =>
      Object.defineProperty(fixed, "config", { get: () => this.#config, enumerable: true }) as T & { config: Config };
    this.events = new EventBus(onFault);
    this.#engine = createLocalEngine({ store, holder: `pid ${process.pid}` });
    this.pool = createRuntimePool({
      clock,
      idleMs: config.pool.idleMinutes * 60_000,
      maxWarm: config.pool.maxWarm,
      ...(config.pool.maxMemoryMb === undefined ? {} : { maxMemoryMb: config.pool.maxMemoryMb }),
      onEvent: (event) => {
        this.events.emit("runtime:state", event);
        this.#queue.freed();
      },
      onRestart: (restart) => {
        store.keep({ kind: "restarts", ...restart, status: "degraded" }, claim()).catch(onFault);
      },
    });
    const { events, pool } = this;
    // O6: typing while busy.
    events.on("turn:begun", ({ turn: { target } }) =>
      this.#channels.get(target.account)?.channel.typing?.start(target),
    );
    events.onStep((step) => {
      if (step.kind !== "settled") return;
      const { target } = step.turn;
      this.#channels.get(target.account)?.channel.typing?.stop(target);
    });
    this.telemetry = new Telemetry({ events, pool, clock, log, reader: store, runningTurns: () => this.runningTurns });
    this.#answers = new TurnAnswers(store);
    this.#runner = new TurnRunner(
      live({
        ground: this.#ground,
        store,
        clock,
        ids,
        claim,
        pool: this.pool,
        runtimeOf: (home: ConversationRow) => this.#runtimeNamed(runtimeOf(this.#config, home)),
        hasLost: (turn: Turn) => this.#bridge.hasLost(turn),
        isLetIn: ({ messages }: TurnMaterial) =>
          messages.every((message) => isStillLetIn(this.#config, message, (source) => this.#hearsayOf(source))),
        events: this.events,
        onAsked: (sessionId: string) => this.#queue.asked(sessionId),
        onTakenIn: (turnId: number, into: number) => this.#answers.takenIn(turnId, into),
        onJob: (sessionId: string, job: RuntimeJob) => this.#jobOfRuntime(sessionId, job),
        onDeliveries: (deliveries: readonly DeliveryRow[]) => this.#outbox.take(deliveries),
        onSettled,
        onUnsettled: (turnId: number, error: TertuliaError) => this.#answers.failed(turnId, error),
        onFault,
      }),
    );
    this.#queue = new TurnQueue({
      store,
      clock,
      claim,
      run: (turn) => this.#runner.run(turn),
      room: () => this.pool.room,
      onRecovery: (takeover) => this.#onRecovery(takeover),
      onFault,
    });
    this.#outbox = new Outbox({
      store,
      clock,
      claim,
      chance,
      ttlMs: config.delivery.ttlMs,
      channelOf: (account) => this.#channels.get(account)?.channel ?? (this.#gone.has(account) ? null : undefined),
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
      hasRoom: (coming) => this.#queue.hasRoom(coming),
      startTurn: (turn) => this.#queue.start(turn),
      dropSession: (sessionId) => this.pool.drop(sessionId),
      onPutOff: (putOff) => log.info(putOff, `a reset was put off (${putOff.reason}), held by a ${putOff.heldBy}`),
      onSettled: (settled) => {
        this.#runner.stop(settled.turn.id, { kind: "lost" });
        onSettled(settled);
      },
    });
    const handleState = (sessionId: string): string => this.stateOf(sessionId);
    const about = (agent: string, runtime: string) => describeAgent(this.#config, agent, runtime);
    const questionsOf = (conversationId: number) => this.#runner.questionsOf(conversationId);
    const parts = { reader: store, clock, ids, intake: this.#intake };
    this.#localDoors = new LocalDoors(live({ ...parts, handleState, about, questionsOf }));
    // Over ACP a Hermes goes on only with sessions that began there: those of its other doors are reached by its API (H13).
    const ownRuntimeOf = (agent: string) => {
      const name = this.#config.agents[agent]?.runtime ?? "none";
      const runtime = this.#runtimes.get(name);
      const lookUp = runtime?.lookUp?.bind(runtime);
      return { name, kind: this.#config.runtimes[name]?.kind ?? "none", ...(lookUp === undefined ? {} : { lookUp }) };
    };
    this.#bridge = new Bridge(live({ ...parts, runtimeOf: ownRuntimeOf }));
    this.#digestKeeper = this.#createDigestKeeper(config);
    const strangers = new StrangerLog({ log, clock });
    this.#hearing = new InboundPipeline(
      live({
        ...parts,
        handleState,
        about,
        questionsOf,
        hearsayOf: (source: Source) => this.#hearsayOf(source),
        onFault,
        onStranger: (account: InboxAccount, source: Source) => strangers.note(account, source),
      }),
    );
  }

  /** As it stands: `reload` puts another one in its place. */
  get config(): Config {
    return this.#config;
  }

  /** How ids are shown to whoever may not see them (C5). */
  get idMask(): IdMask {
    return createIdMask({ redactPii: this.#config.redactPii, secret: this.#secret() });
  }

  #runtimesOptions(): RuntimesOptions {
    const { clock = systemClock, chance = Math.random, runtimes = {}, log } = this.#options;
    return { clock, chance, log, given: runtimes, tokenFor: (sessionId) => sessionToken(this.#secret(), sessionId) };
  }

  #createDigestKeeper({ digest, timezone }: Config): DigestKeeper | null {
    if (digest.home === null) return null;
    return new DigestKeeper({
      home: digest.home,
      intervalMs: digest.intervalMs,
      source: createOwnTalks(this.#store),
      settings: settingsFrom(digest),
      rendering: { lang: digest.lang, timezone },
      clock: this.#clock,
      nonce: () => this.#ids.token().slice(0, 12),
      onWritten: (files) => this.#log.info({ home: digest.home, files }, "the digest was written"),
      onWarning: (warning) => this.#log.warn({ home: digest.home }, warning),
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
  /** The accounts that are open, and how they stand. */
  get channels(): readonly { account: string; platform: Platform; agent: string; status: ChannelStatus }[] {
    return [...this.#channels.values()].map(({ channel, agent }) => ({
      account: channel.account,
      platform: channel.platform,
      agent,
      status: channel.status(),
    }));
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
    endLeftovers(this.#config);
    await this.#keepPeople();
    this.#state = "running";
    this.#config = await this.#withDefaultSessions(this.#config);
    for (const sessionId of await this.#store.openSessions()) this.#queue.wake(sessionId);
    const given = [...this.#channels.values()];
    for (const { agent, account } of accountsOf(this.#config)) this.#prepare(agent, account);
    await this.#outbox.start();
    for (const { channel, agent } of given) await this.#open(channel, agent);
    for (const { channel, agent } of this.#channels.values())
      if (!given.some((one) => one.channel === channel)) await this.#openOrTell(channel, agent);
    this.#warnOfSilence();
    this.#prune();
    this.#digestKeeper?.start();
  }

  /**
   * A configuration that has been read anew holds from the next message on: agents come and go, access is looked at again, and turns of
   * people who are not let in any more are stopped (A3, G6). What is unchanged is not touched. Returns the key paths whose change needs
   * a restart; those stay as they were.
   */
  reload(config: Config): Promise<readonly string[]> {
    const done = this.#reloading.then(() => this.#reload(config));
    this.#reloading = done.catch(() => undefined);
    return done;
  }

  async #reload(next: Config): Promise<readonly string[]> {
    this.#mustRun();
    const { config, needsRestart } = reloaded(this.#config, next);
    const before = this.#config;
    const added = Object.keys(config.agents).filter((agent) => before.agents[agent] === undefined);
    for (const [name, runtime] of createRuntimes(config, this.#runtimesOptions()))
      if (!this.#runtimes.has(name)) this.#runtimes.set(name, runtime);
    this.#config = config;
    for (const [name, runtime] of [...this.#runtimes])
      if (config.runtimes[name] === undefined) this.#retire(name, runtime);
    if (!isDeepStrictEqual(before.digest, config.digest)) {
      await this.#digestKeeper?.stop();
      this.#digestKeeper = this.#createDigestKeeper(config);
      this.#digestKeeper?.start();
    }
    await this.#keepPeople();
    this.#config = await this.#withDefaultSessions(config);
    const accounts = accountsOf(config);
    for (const [id, { channel, agent, account }] of [...this.#channels]) {
      const isKept = account === null || accounts.some((one) => isDeepStrictEqual(one, { agent, account }));
      if (isKept) continue;
      this.#channels.delete(id);
      this.#gone.add(id);
      await channel.stop();
    }
    const removed = Object.keys(before.agents).filter((agent) => config.agents[agent] === undefined);
    await this.#runner.stopUnwelcome();
    for (const { turn, homeKey } of this.#runner.begun)
      if (removed.includes(parseSessionKey(homeKey).agent)) this.#runner.stop(turn.id, { kind: "stopped" });
    for (const { agent, account } of accounts) {
      if (this.#channels.has(account.id)) continue;
      const channel = this.#prepare(agent, account);
      if (channel !== null) await this.#openOrTell(channel, agent);
    }
    this.#warnOfSilence();
    this.#log.info({ added, removed, needsRestart }, "the configuration was read anew");
    return needsRestart;
  }

  /** Under its name another one may come; its handles close as soon as no turn runs on them. */
  #retire(name: string, runtime: Runtime): void {
    this.#runtimes.delete(name);
    this.#retired.add(runtime);
    for (const handle of this.pool.list())
      if (handle.runtime === name) this.pool.drop(handle.sessionId, name).catch((cause) => this.#fault(cause));
  }

  async #keepPeople(): Promise<void> {
    const people = Object.values(this.#config.people);
    for (const { id, role, name } of people) {
      const person = { id, role, ...(name === undefined ? {} : { name }) };
      await this.#store.keep({ kind: "person", person }, this.#holdClaim());
    }
    const identities = people.flatMap(({ id: personId, accounts }) =>
      accounts.map(({ platform, id: userId }) => ({ platform, userId, personId })),
    );
    await this.#store.keep({ kind: "identities", now: this.#clock.now(), identities }, this.#holdClaim());
  }

  /** H10: a configured session that cannot be spoken in is said, and stops no bot. One of another program is called by its id here. */
  async #withDefaultSessions(config: Config): Promise<Config> {
    if (Object.values(config.agents).every(({ defaultSession }) => defaultSession === undefined)) return config;
    const agents = table(config.agents, (agent) => agent);
    for (const { name, defaultSession } of Object.values(config.agents)) {
      if (defaultSession === undefined) continue;
      try {
        agents[name] = { ...agents[name]!, defaultSession: await this.#bridge.defaultSession(name, defaultSession) };
      } catch (cause) {
        const { code, message, remedy } = asTertuliaError(cause);
        this.#log.warn({ agent: name, code }, `agents.${name}.default_session is not spoken in: ${message} ${remedy}`);
      }
    }
    return deepFreeze({ ...config, agents });
  }

  /** A1: nobody gets in where nobody was let in. */
  #warnOfSilence(): void {
    for (const platform of silentPlatforms(this.#config))
      this.#log.warn(
        { platform },
        `nobody is let in on ${platform}: name people with accounts there, or say access.${platform} (docs/access.md)`,
      );
  }

  #platforms(): Platform[] {
    return [...new Set([...LOCAL_DOORS, ...[...this.#channels.values()].map(({ channel }) => channel.platform)])];
  }

  /** Of the author of a source, by what our accounts on that platform are shown at this moment (G4, G7). */
  #hearsayOf(source: Source): InboundBatch {
    const there = [...this.#channels.values()].filter(({ channel }) => channel.platform === source.platform);
    const address = there.map(({ channel }) => channel.addressOf?.(source)).find((known) => known !== undefined);
    return {
      siblingAgent: there.find(({ channel }) => channel.isMe?.(source) === true)?.agent ?? null,
      address: address ?? null,
    };
  }

  /** Running turns get the grace of a stop; then they are interrupted and their authors told. Nothing stays open. */
  async stop(): Promise<void> {
    if (this.#state === "stopped" || this.#state === "stopping") return;
    this.#state = "stopping";
    this.#cancelPrune();
    await this.#reloading;
    await this.#digestKeeper?.stop();
    await Promise.all([...this.#channels.values()].map(({ channel }) => channel.stop()));
    await this.#intake.stop();
    this.#runner.stopAll({ kind: "shutdown" });
    await this.#queue.stop();
    await this.#outbox.stop();
    await this.pool.close();
    await Promise.all([...new Set([...this.#runtimes.values(), ...this.#retired])].map((runtime) => runtime.close()));
    await this.#engine.stop();
    await this.#store.close();
    this.#state = "stopped";
  }

  /** Words of a person at an own door, or into a conversation by its key. */
  async say(request: SayRequest): Promise<Said> {
    this.#mustRun();
    return this.#localDoors.say(request);
  }

  /** What was said under a request's key (T3): a repeat of it is answered as the request was. */
  saidUnder(personId: string, key: string): Promise<Said | null> {
    return this.#localDoors.saidUnder(personId, key);
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

  /** B6: a conversation's runtimes as other programs read them, with what they keep there themselves. */
  async agentState({ id, currentSession, ...conversation }: ConversationRow): Promise<AgentState> {
    const states = currentSession === null ? [] : await this.#store.runtimeStates(currentSession);
    const runtime = runtimeOf(this.config, conversation);
    const known = states.map((state) => ({ ...state, ref: this.#idIn(state, currentSession) }));
    return agentStateOf(await this.#store.agentState(id), { runtime, states: known });
  }

  /** A session's plain id at its runtime; where the gateway keeps the history it is the gateway's own. */
  #idIn({ runtime: name, ref }: { readonly runtime: string; readonly ref: string | null }, sessionId: string | null) {
    const runtime = this.#runtimes.get(name);
    if (ref === null || runtime === undefined) return null;
    if (runtime.history === "gateway") return sessionId;
    return runtime.idOf === undefined ? ref : runtime.idOf(ref);
  }

  /** Merges keys of others into it. Throws `conversation_unknown`. */
  async keepAgentState(key: string, patch: Readonly<Record<string, unknown>>): Promise<void> {
    this.#mustRun();
    const conversation = await this.#store.conversation(key);
    if (conversation === null) throw new TertuliaError("conversation_unknown", `There is no conversation ${key}.`);
    await this.#store.keep({ kind: "agent_state", conversationId: conversation.id, patch }, this.#holdClaim());
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
    return readDigest(createOwnTalks(this.#store), settingsFrom(this.config.digest), this.#clock.now());
  }

  /** Answers an open permission question, with the turn's authority: its own person, or the owner (H12). */
  answerPermission(request: { person: Person; turnId: number; id: string; optionId: string | null }): void {
    const live = this.#runner.live(request.turnId);
    if (live === undefined) throw new TertuliaError("request_invalid", "This turn does not run any more.");
    if (!mayAnswer(request.person, live.turn))
      throw new TertuliaError("forbidden", "This question is for somebody else.");
    live.answer(request.id, request.optionId);
  }

  /** The session's agent is not needed any more: its handle is parked when its turn is over. */
  park(sessionId: string): Promise<void> {
    return this.pool.drop(sessionId);
  }

  /** Every agent is opened anew for its next turn. */
  parkAll(): void {
    for (const { sessionId } of this.pool.list()) this.park(sessionId).catch((cause) => this.#fault(cause));
  }

  /** Where a session's agent is: warm, busy, cold. */
  stateOf(sessionId: string): HandleStateName {
    const handles = this.pool.list().filter((handle) => handle.sessionId === sessionId);
    return handles.find(({ state }) => state !== "cold")?.state ?? "cold";
  }

  /** What runs a conversation now (B7). */
  runtimeOf(conversation: ConversationRow): string {
    return runtimeOf(this.config, conversation);
  }

  /** Asks every runtime whether it can run. It starts programs: whoever asks while it runs, or soon after it, gets the same answer. */
  probeRuntimes(): Promise<readonly RuntimeReport[]> {
    const { config } = this;
    const known = this.#probe;
    if (known !== null && known.config === config && this.#clock.now() < known.freshUntil) return known.reports;
    const reports = probeRuntimes(config, { clock: this.#clock });
    const probe = { config, reports, freshUntil: Number.POSITIVE_INFINITY };
    const done = (): void => {
      probe.freshUntil = this.#clock.now() + PROBE_FRESH_MS;
    };
    reports.then(done, done);
    this.#probe = probe;
    return reports;
  }

  /** The session's agent is ended and opened anew. Throws `session_unknown`, `session_ended`, `busy`, and why it cannot be opened. */
  async restart(sessionId: string): Promise<{ how: OpenedHow | null }> {
    this.#mustRun();
    return this.#runner.restart(sessionId);
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

  /** Null where this build has no channel for it. */
  #prepare(agent: string, account: AccountConfig): Channel | null {
    const channel = this.#options.createChannel?.(account);
    if (channel === undefined) {
      this.#log.warn({ agent, account: account.id }, `there is no channel for ${account.platform} here`);
      return null;
    }
    this.#gone.delete(account.id);
    this.#channels.set(account.id, { channel, agent, account });
    return channel;
  }

  async #open(channel: Channel, agent: string): Promise<void> {
    const account = { account: channel.account, platform: channel.platform, agent };
    await channel.start({
      cursor: await this.#store.cursor(channel.account),
      commit: (events: readonly InboundEvent[], cursor?: string) => this.#intake.commit(account, events, cursor),
      hear: (heard: readonly PlatformEvent[], cursor?: string) => this.#hearing.hear(account, heard, cursor),
      caughtUp: (covers, isSure) => this.#outbox.caughtUp({ account: channel.account, covers, isSure }),
    });
  }

  /** An account that cannot be opened stops no other. */
  async #openOrTell(channel: Channel, agent: string): Promise<void> {
    try {
      await this.#open(channel, agent);
    } catch (cause) {
      this.#fault(cause);
    }
  }

  #signal(signal: TurnSignal): void {
    if (signal.kind === "steer") this.#runner.steer(signal.turnId, signal.messageId);
    else if (signal.kind === "answer") this.#runner.answer(signal);
    else this.#runner.stop(signal.turnId, { kind: signal.kind === "stop" ? "stopped" : "superseded" });
  }

  #onRecovery(takeover: Recovery): void {
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

  #runtimeNamed(name: string): Runtime {
    const runtime = this.#runtimes.get(name);
    if (runtime === undefined) throw new TertuliaError("runtime_unknown", `There is no runtime ${name}.`);
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
    this.#forgetPruned().catch((cause) => this.#fault(cause));
    this.#cancelPrune = this.#clock.after(PRUNE_MS, () => this.#prune());
  }

  /** What the agents of pruned sessions have kept goes with them. One that cannot be forgotten stops no other. */
  async #forgetPruned(): Promise<void> {
    const { forgotten = [] } = await this.#store.keep({ kind: "prune", now: this.#clock.now() }, this.#holdClaim());
    for (const { sessionId, runtime, ref } of forgotten) {
      await this.pool.drop(sessionId);
      await this.#runtimes
        .get(runtime)
        ?.forget(ref)
        .catch((cause) => this.#fault(cause));
    }
  }

  #fault(cause: unknown): void {
    const error = asTertuliaError(cause);
    this.#log.error({ err: error, cause: error.cause }, `${error.code}: ${error.message}`);
  }
}
