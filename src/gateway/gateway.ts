import { isDeepStrictEqual } from "node:util";
import type { Channel, Inbox } from "../channel/channel.ts";
import type { AccountConfig, Config } from "../config/config.ts";
import { reloaded } from "../config/reload.ts";
import { createIdMask, type IdMask } from "../context/id-mask.ts";
import { maskedLog } from "../context/masked-log.ts";
import { parseSessionKey } from "../conversation/session-key.ts";
import { sessionToken } from "../conversation/session-token.ts";
import type { Engine } from "../engine/engine.ts";
import { createLocalEngine } from "../engine/local/local-engine.ts";
import { TertuliaError } from "../errors.ts";
import { EventBus } from "../events.ts";
import { Bridge } from "../intake/bridge.ts";
import { EventIntake, type InboxAccount } from "../intake/event-intake.ts";
import { InboundPipeline, isStillLetIn } from "../intake/inbound-pipeline.ts";
import { LocalDoors } from "../intake/local-doors.ts";
import { StrangerLog } from "../intake/stranger-log.ts";
import { Outbox, type OutboxOptions } from "../reply/outbox.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { RuntimePool } from "../runtime/runtime-pool.ts";
import type { Claim, Store } from "../store/port.ts";
import type { StoreReader } from "../store/readers.ts";
import { Telemetry } from "../telemetry/telemetry.ts";
import type { GatewayParts } from "../turn/parts.ts";
import { Turns } from "../turn/turns.ts";
import { type Clock, systemClock } from "../util/clock.ts";
import { type IdSource, randomIds } from "../util/ids.ts";
import { type Log, logFault } from "../util/log.ts";
import { Accounts, gatewayFacts } from "./accounts.ts";
import { Conversations } from "./conversations.ts";
import { withDefaultSessions } from "./default-sessions.ts";
import { OwnDigest } from "./own-digest.ts";
import { createPool } from "./pool.ts";
import { RuntimeSet } from "./runtime-set.ts";
import { describeAgent, endLeftovers } from "./runtimes.ts";
import { keepPeople, Pruning } from "./upkeep.ts";

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
  /** Channels of the default agent, beside those of the accounts. */
  readonly channels?: readonly Channel[];
  /** Creates the channel of an account. Must not connect. */
  readonly createChannel?: (account: AccountConfig) => Channel;
  /** Keys the stand-ins that `redact_pii` shows for ids, which stay the same while it does; one of this process's own where absent. */
  readonly secret?: () => string;
}

/**
 * Gateway: the composition root. The road of a message:
 *
 *     channel/ → intake/ (inbound pipeline, local doors, bridge): store.admit → turn/ queue: store.begin → context/
 *     → runtime/ pool → turn/ runner: store.mark, store.settle → reply/ outbox: store.attempt, store.delivered
 */
// Fields: the parts that callers are handed, and what start, reload and stop need of the rest.
export class Gateway {
  #config: Config;
  #claim: Claim | null = null;
  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #reloading: Promise<unknown> = Promise.resolve();
  readonly #secret: () => string;
  readonly #parts: GatewayParts;
  readonly #engine: Engine;
  readonly #intake: EventIntake;
  readonly #outbox: Outbox;
  readonly #pipeline: InboundPipeline;
  readonly #pruning: Pruning;
  readonly events: EventBus;
  readonly runtimes: RuntimeSet;
  readonly pool: RuntimePool;
  readonly accounts: Accounts;
  readonly turns: Turns;
  readonly doors: LocalDoors;
  readonly bridge: Bridge;
  readonly conversations: Conversations;
  readonly digest: OwnDigest;
  readonly telemetry: Telemetry;

  constructor(options: GatewayOptions) {
    const { config, store, clock = systemClock, ids = randomIds, chance = Math.random, channels = [] } = options;
    this.#config = config;
    const ownSecret = ids.token();
    const secret = options.secret ?? (() => ownSecret);
    this.#secret = secret;
    const log = maskedLog(options.log, () => this.idMask);
    const events = new EventBus((cause) => logFault(log, cause));
    const claim = (): Claim => this.#holdClaim();
    const parts: GatewayParts = { store, clock, ids, log, events, config: () => this.#config, claim };
    this.#parts = parts;
    this.events = events;
    const engine = createLocalEngine({ store, holder: `pid ${process.pid}` });
    this.#engine = engine;
    const tokenFor = (sessionId: string): string => sessionToken(secret(), sessionId);
    const runtimes = new RuntimeSet(parts, { clock, chance, log, tokenFor, given: options.runtimes ?? {} });
    this.runtimes = runtimes;
    const pool = createPool(parts);
    this.pool = pool;
    const accounts = new Accounts({ parts, given: channels, createChannel: options.createChannel });
    this.accounts = accounts;
    const facts = gatewayFacts(accounts, secret);
    const onAttempted: OutboxOptions["onAttempted"] = (delivery, result) =>
      events.step({ kind: "attempted", delivery, result });
    const outbox = new Outbox({ ...parts, chance, ttlMs: config.delivery.ttlMs, accounts, onAttempted });
    this.#outbox = outbox;
    const intake = new EventIntake({ ...parts, engine, outbox, pool });
    this.#intake = intake;
    const bridge = new Bridge({ ...parts, intake, runtimeOf: (agent) => runtimes.ofAgent(agent) });
    this.bridge = bridge;
    const turns = new Turns(parts, {
      pool,
      facts: () => facts,
      runtimeNamed: (name) => runtimes.named(name),
      isLetIn: ({ messages }) => messages.every((one) => isStillLetIn(this.#config, one, (at) => accounts.seen(at))),
      hasLost: (turn) => bridge.hasLost(turn),
      onJob: (sessionId, job) => bridge.jobReported(sessionId, job),
      onDeliveries: (deliveries) => outbox.take(deliveries),
      onSettled: ({ wake, deliveries }) => {
        for (const sessionId of wake) engine.wake(sessionId);
        outbox.take(deliveries);
      },
    });
    this.turns = turns;
    const about = (agent: string, runtime: string) => describeAgent(this.#config, agent, runtime);
    this.doors = new LocalDoors({ ...parts, intake, pool, turns, about });
    const strangers = new StrangerLog({ log, clock });
    this.#pipeline = new InboundPipeline({ ...parts, intake, pool, turns, about, accounts, strangers });
    this.conversations = new Conversations(parts, { facts, runtimes });
    this.digest = new OwnDigest(parts);
    this.telemetry = new Telemetry({ ...parts, pool, turns });
    this.#pruning = new Pruning(parts, { pool, runtimes });
  }

  /** The configuration as it stands: `reload` puts another one in its place. */
  get config(): Config {
    return this.#config;
  }
  /** How ids are shown to whoever may not see them (C5). */
  get idMask(): IdMask {
    return createIdMask({ redactPii: this.#config.redactPii, secret: this.#secret() });
  }
  get reader(): StoreReader {
    return this.#parts.store;
  }
  get isReady(): boolean {
    return this.#state === "running";
  }

  /** Takes the claim, takes over what an earlier run left, and opens the channels. */
  async start(): Promise<void> {
    this.#claim = await this.#engine.start(this.turns);
    endLeftovers(this.#config);
    await keepPeople(this.#parts);
    this.#state = "running";
    this.#config = await withDefaultSessions(this.#config, { bridge: this.bridge, log: this.#parts.log });
    for (const sessionId of await this.reader.openSessions()) this.turns.wake(sessionId);
    this.accounts.prepare();
    await this.#outbox.start();
    await this.accounts.open((account) => this.#inboxOf(account));
    this.#pruning.start();
    this.digest.start();
  }

  #inboxOf(account: InboxAccount): Omit<Inbox, "cursor"> {
    return {
      commit: (events, cursor) => this.#intake.commit(account, events, cursor),
      receive: (events, cursor) => this.#pipeline.receive(account, events, cursor),
      caughtUp: (covers, isSure) => this.#outbox.caughtUp({ account: account.account, covers, isSure }),
    };
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
    if (!this.isReady) throw new TertuliaError("gateway_stopping", "The gateway is starting or stopping.");
    const before = this.#config;
    const { config, needsRestart } = reloaded(before, next);
    this.runtimes.add(config);
    this.#config = config;
    for (const runtime of this.runtimes.retire())
      for (const handle of this.pool.list())
        if (handle.runtime === runtime)
          this.pool.drop(handle.sessionId, runtime).catch((cause) => logFault(this.#parts.log, cause));
    if (!isDeepStrictEqual(before.digest, config.digest)) {
      await this.digest.stop();
      this.digest.start();
    }
    await keepPeople(this.#parts);
    this.#config = await withDefaultSessions(config, { bridge: this.bridge, log: this.#parts.log });
    await this.accounts.closeRemoved();
    await this.turns.stopUnwelcome();
    const [added, removed] = [missingIn(before, config), missingIn(config, before)];
    for (const { turn, homeKey } of this.turns.begun)
      if (removed.includes(parseSessionKey(homeKey).agent)) this.turns.stopTurn(turn.id, { kind: "stopped" });
    await this.accounts.openAdded();
    this.#parts.log.info({ added, removed, needsRestart }, "the configuration was read anew");
    return needsRestart;
  }

  /** Running turns get the grace of a stop; then they are interrupted and their authors told. Nothing stays open. */
  async stop(): Promise<void> {
    if (this.#state === "stopped" || this.#state === "stopping") return;
    this.#state = "stopping";
    this.#pruning.stop();
    await this.#reloading;
    await this.digest.stop();
    await this.accounts.close();
    await this.#intake.stop();
    await this.turns.stop();
    await this.#outbox.stop();
    await this.pool.close();
    await this.runtimes.close();
    await this.#engine.stop();
    await this.#parts.store.close();
    this.#state = "stopped";
  }

  #holdClaim(): Claim {
    if (this.#claim === null) throw new TertuliaError("gateway_stopping", "The gateway is not running.");
    return this.#claim;
  }
}

/** Agents of the second configuration that the first one has not. */
function missingIn(one: Config, other: Config): string[] {
  return Object.keys(other.agents).filter((agent) => one.agents[agent] === undefined);
}
