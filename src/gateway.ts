import type { Channel } from "./channel/channel.ts";
import { type OwnPlatform, ownDoor } from "./channel/own-door.ts";
import { type Config, rulesFor } from "./config.ts";
import { buildSessionKey, parseOwnDoorChatId, parseSessionKey } from "./conversation/session-key.ts";
import type { Engine } from "./engine/engine.ts";
import { createLocalEngine } from "./engine/local/local-engine.ts";
import { asTertuliaError, TertuliaError } from "./errors.ts";
import { EventBus } from "./events.ts";
import type { Author } from "./message/message.ts";
import type { Notice } from "./message/notice.ts";
import { cleanText } from "./message/source.ts";
import { Outbox } from "./reply/outbox.ts";
import { renderNotice } from "./reply/render-notice.ts";
import { createDemoRuntime } from "./runtime/demo/demo-runtime.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { createRuntimePool, type RuntimePool } from "./runtime/runtime-pool.ts";
import type {
  AdmitOutcome,
  AdmitRules,
  BindingRow,
  Claim,
  ConversationRef,
  DeliveryRow,
  InboundEvent,
  Landed,
  MessageEvent,
  Role,
  Settled,
  Speaker,
  Store,
  StoreReader,
  TurnAnswer,
  TurnSignal,
} from "./store/store.ts";
import { commandOf, textNotice } from "./turn/command/command.ts";
import type { Watcher } from "./turn/live-turn.ts";
import { TurnQueue } from "./turn/turn-queue.ts";
import { TurnRunner } from "./turn/turn-runner.ts";
import { type Clock, systemClock } from "./util/clock.ts";
import { type IdSource, randomIds } from "./util/ids.ts";
import type { Log } from "./util/log.ts";

const PRUNE_MS = 3_600_000;

export interface GatewayOptions {
  readonly config: Config;
  /** Open and exclusive to this gateway; closed by `stop`. */
  readonly store: Store;
  readonly log: Log;
  readonly clock?: Clock;
  readonly ids?: IdSource;
  readonly chance?: () => number;
  /** By kind; the built-in ones where absent. */
  readonly runtimes?: Readonly<Record<string, Runtime>>;
  readonly channels?: readonly Channel[];
}

/** A person as the doors know him: the caller of an API, the user of a terminal. */
export interface Person {
  readonly id: string;
  readonly role: Role;
  readonly name?: string;
}

export interface SayRequest {
  readonly person: Person;
  readonly agent: string;
  /** An own door, or an existing conversation of any door by its key. */
  readonly door: { readonly platform: OwnPlatform; readonly name: string } | { readonly key: string };
  readonly text: string;
  readonly idempotency?: { readonly key: string; readonly bodyHash: string };
  /** Seeds a conversation without a name. */
  readonly once?: MessageEvent["once"];
}

/** What became of words: a turn to wait for, an answer at once (a command), or a refusal. */
export type Said =
  | {
      readonly kind: "turn";
      readonly isNew: boolean;
      readonly messageId: number;
      readonly key: string;
      readonly sessionId: string;
      readonly turnId: number;
      readonly told: readonly DeliveryRow[];
    }
  | {
      readonly kind: "command";
      readonly messageId: number;
      readonly key: string;
      readonly sessionId: string | null;
      readonly reply: Notice;
      readonly turnId: number | null;
    }
  | { readonly kind: "recorded"; readonly messageId: number; readonly key: string };

export interface SendRequest {
  readonly person: Person;
  /** A configured room, or a conversation key. */
  readonly room: string;
  readonly agent: string;
  readonly text: string;
  readonly sessionId: string | null;
  readonly eventId?: string;
}

/**
 * Gateway: the composition root. A message comes in at a door, is admitted by the store, begun by the queue, run by the
 * runner with context and runtime, settled by the store, and carried out by the outbox.
 */
export class Gateway {
  readonly config: Config;
  readonly events: EventBus;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #ids: IdSource;
  readonly #store: Store;
  readonly #engine: Engine;
  readonly #runtimes: Readonly<Record<string, Runtime>>;
  readonly #channels: readonly Channel[];
  readonly #pool: RuntimePool;
  readonly #runner: TurnRunner;
  readonly #queue: TurnQueue;
  readonly #outbox: Outbox;
  readonly #waiters = new Map<number, ((answer: TurnAnswer) => void)[]>();
  #claim: Claim | null = null;
  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #cancelPrune = (): void => undefined;

  constructor(options: GatewayOptions) {
    const { config, store, log } = options;
    const clock = options.clock ?? systemClock;
    const claim = (): Claim => this.#holdClaim();
    const onFault = (error: TertuliaError): void => this.#fault(error);
    this.config = config;
    this.#log = log;
    this.#clock = clock;
    this.#ids = options.ids ?? randomIds;
    this.#store = store;
    this.events = new EventBus((cause) => this.#fault(cause));
    this.#engine = createLocalEngine({ store, holder: `pid ${process.pid}` });
    this.#runtimes = options.runtimes ?? { demo: createDemoRuntime({ clock }) };
    this.#channels = options.channels ?? [];
    this.#pool = createRuntimePool({
      clock,
      idleMs: config.pool.idleMinutes * 60_000,
      maxWarm: config.pool.maxWarm,
      onEvent: (event) => this.events.emit("runtime:state", event),
    });
    this.#runner = new TurnRunner({
      config,
      store,
      clock,
      ids: this.#ids,
      claim,
      pool: this.#pool,
      runtimeOf: (agent) => this.#runtimeOf(agent),
      events: this.events,
      onSettled: (settled) => this.#onSettled(settled),
      onFault,
    });
    this.#queue = new TurnQueue({
      store,
      clock,
      claim,
      run: (turn) => this.#runner.run(turn),
      onTakeover: (takeover) => {
        this.#log.info(
          { turn: takeover.kind === "rerun" ? takeover.turnId : takeover.turn.id },
          `turn of an earlier run: ${takeover.kind}`,
        );
        if (takeover.kind === "interrupted") this.#onSettled(takeover);
      },
      onFault,
    });
    this.#outbox = new Outbox({
      store,
      clock,
      claim,
      chance: options.chance ?? Math.random,
      ttlMs: config.delivery.ttlMs,
      channelOf: (account) => this.#channels.find((channel) => channel.account === account),
      onDelivery: (delivery, result) =>
        this.#log.info({ delivery: delivery.id, result: result.kind }, "delivery ended"),
      onFault,
    });
  }

  get reader(): StoreReader {
    return this.#store;
  }
  get isReady(): boolean {
    return this.#state === "running";
  }
  get pool(): Pick<RuntimePool, "list" | "counters"> {
    return this.#pool;
  }
  get runningTurns(): number {
    return this.#runner.running;
  }

  /** Takes the claim, takes over what an earlier run left, and opens the channels. */
  async start(): Promise<void> {
    this.#claim = await this.#engine.start({
      wake: (sessionId) => this.#queue.wake(sessionId),
      signal: (signal) => this.#signal(signal),
    });
    for (const person of Object.values(this.config.people)) {
      const row = { id: person.id, role: person.role, ...(person.name === undefined ? {} : { name: person.name }) };
      await this.#store.keep({ kind: "person", person: row }, this.#claim);
    }
    this.#state = "running";
    for (const sessionId of await this.#store.openSessions()) this.#queue.wake(sessionId);
    await this.#outbox.start();
    for (const channel of this.#channels) await channel.start(await this.#inbox(channel));
    this.#prune();
  }

  /** Running turns get the grace of a stop; then they are interrupted and their authors told. Nothing stays open. */
  async stop(): Promise<void> {
    if (this.#state === "stopped" || this.#state === "stopping") return;
    this.#state = "stopping";
    this.#cancelPrune();
    await Promise.all(this.#channels.map((channel) => channel.stop()));
    this.#runner.stopAll({ kind: "shutdown" });
    await this.#queue.stop();
    await this.#outbox.stop();
    await this.#pool.close();
    await Promise.all(Object.values(this.#runtimes).map((runtime) => runtime.close()));
    await this.#engine.stop();
    await this.#store.close();
    this.#state = "stopped";
  }

  // ---- words in

  /** Words of a person at an own door, or into a conversation by its key. Resolves when they are durable (T2). */
  async say(request: SayRequest): Promise<Said> {
    this.#mustRun();
    const text = cleanText(request.text);
    if (text.trim() === "")
      throw new TertuliaError("request_invalid", "The message is empty.", { remedy: "Send some text." });
    const place = await this.#placeOf(request);
    const base = {
      ...place,
      eventId: this.#ids.token(),
      freshId: this.#ids.session(this.#clock.now()),
      speaker: speakerOf(request.person),
      text,
      saidAt: this.#clock.now(),
      ...(request.idempotency === undefined ? {} : { idempotency: request.idempotency }),
    };
    const event = await this.#eventFor(base, place, request);
    const [outcome] = await this.#commit(
      { account: place.source.account, platform: place.source.platform, agent: place.agent },
      [event],
    );
    return this.#saidOf(outcome!, text, request);
  }

  async #eventFor(
    base: Omit<MessageEvent, "kind" | "addressed" | "once">,
    place: { key: string; agent: string },
    request: SayRequest,
  ): Promise<InboundEvent> {
    const found = commandOf(base.text);
    if (found === null)
      return {
        ...base,
        kind: "message",
        addressed: true,
        ...(request.once === undefined ? {} : { once: request.once }),
      };
    if ("unknown" in found) {
      return {
        ...base,
        kind: "command",
        effect: { kind: "none" },
        reply: textNotice(`There is no command /${found.unknown}. /help lists them.`),
      };
    }
    const answer = await found.command.run({
      config: this.config,
      reader: this.#store,
      agent: place.agent,
      conversation: await this.#store.conversation(place.key),
      key: place.key,
      speaker: base.speaker,
      args: found.args,
      now: this.#clock.now(),
      warmth: (sessionId) => this.#pool.list().find((handle) => handle.sessionId === sessionId)?.state ?? "cold",
    });
    return { ...base, kind: "command", ...answer };
  }

  /** The source, target, key and settings of a door or of a conversation named by its key. */
  async #placeOf(
    request: SayRequest,
  ): Promise<{
    source: MessageEvent["source"];
    target: MessageEvent["target"];
    rules: AdmitRules;
    key: string;
    agent: string;
    into?: string;
  }> {
    if ("platform" in request.door) {
      const door = ownDoor(request.door.platform, request.person, request.door.name);
      return { ...door, ...this.#rules(request.agent, door.source), agent: request.agent };
    }
    const { key } = request.door;
    const parts = parseSessionKey(key);
    const own = parts.form === "chat" ? parseOwnDoorChatId(parts.chatId) : undefined;
    if (request.person.role !== "owner" && own?.personId !== request.person.id) {
      throw new TertuliaError("forbidden", "This conversation belongs to somebody else.");
    }
    if (
      parts.form === "chat" &&
      own !== undefined &&
      isOwnPlatform(parts.platform) &&
      this.config.people[own.personId] !== undefined
    ) {
      const door = ownDoor(parts.platform, { id: own.personId }, own.name);
      return { ...door, ...this.#rules(parts.agent, door.source), agent: parts.agent };
    }
    const conversation = await this.#store.conversation(key);
    if (conversation === null) throw new TertuliaError("conversation_unknown", `There is no conversation ${key}.`);
    const { target } = conversation;
    const source = {
      platform: target.platform,
      account: target.account,
      chatId: target.chatId,
      chatType: "dm" as const,
      userId: request.person.id,
      isBot: false,
    };
    return {
      source,
      target,
      rules: rulesFor(this.config, { agent: conversation.agent, source, key }).rules,
      key,
      agent: conversation.agent,
      into: key,
    };
  }

  #rules(agent: string, source: MessageEvent["source"]): { rules: AdmitRules; key: string } {
    const personId = source.userId;
    const key = buildSessionKey({
      form: "chat",
      agent,
      platform: source.platform,
      chatType: "dm",
      chatId: source.chatId ?? "",
    });
    return {
      key,
      rules: rulesFor(this.config, { agent, source, key, ...(personId === undefined ? {} : { personId }) }).rules,
    };
  }

  #saidOf(outcome: AdmitOutcome, text: string, request: SayRequest): Promise<Said> | Said {
    switch (outcome.kind) {
      case "queued":
      case "joined":
        return {
          kind: "turn",
          isNew: true,
          messageId: outcome.messageId,
          key: outcome.key,
          sessionId: outcome.sessionId,
          turnId: outcome.turnId,
          told: outcome.notices,
        };
      case "commanded":
        return {
          kind: "command",
          messageId: outcome.messageId,
          key: outcome.key,
          sessionId: outcome.sessionId,
          reply: outcome.reply.body as Notice,
          turnId: outcome.turnId,
        };
      case "recorded":
        return { kind: "recorded", messageId: outcome.messageId, key: outcome.key };
      case "refused":
        throw new TertuliaError(
          outcome.code,
          renderNotice({
            code: outcome.code,
            args: { limit: this.config.turn.maxWaitingTurns, messages: this.config.turn.maxMessagesPerTurn },
          }),
        );
      case "duplicate":
        return this.#repeated(outcome, text, request);
      case "rejected":
        throw new TertuliaError(outcome.code, outcome.sentence);
      default:
        throw new TertuliaError("internal", `A message came out of admit as ${outcome.kind}.`);
    }
  }

  /** A retry under a known key attaches to its turn; a command's answer is read back. */
  async #repeated(
    outcome: Extract<AdmitOutcome, { kind: "duplicate" }>,
    _text: string,
    _request: SayRequest,
  ): Promise<Said> {
    const { messageId, conversationId, turnId } = outcome;
    const conversation = conversationId === null ? null : await this.#store.conversationById(conversationId);
    if (messageId === null || conversation === null)
      throw new TertuliaError("message_unknown", "This message was taken in before, but is not kept any more.");
    if (turnId !== null) {
      const turn = await this.#store.turn(turnId);
      return {
        kind: "turn",
        isNew: false,
        messageId,
        key: conversation.key,
        sessionId: turn!.sessionId,
        turnId,
        told: [],
      };
    }
    const reply = await this.#store.commandReply(messageId);
    if (reply === null) {
      const [fate] = await this.#store.fates(messageId);
      throw new TertuliaError(
        fate?.fate.fate === "refused" ? "queue_full" : "message_unknown",
        "This message was not answered: there were too many before it.",
      );
    }
    return {
      kind: "command",
      messageId,
      key: conversation.key,
      sessionId: conversation.currentSession,
      reply,
      turnId: null,
    };
  }

  /** One transaction, and then everything that it set in motion. */
  async #commit(
    account: { account: string; platform: MessageEvent["source"]["platform"]; agent: string },
    events: readonly InboundEvent[],
    cursor?: string,
  ): Promise<readonly AdmitOutcome[]> {
    const batch = { ...account, now: this.#clock.now(), events, ...(cursor === undefined ? {} : { cursor }) };
    const { outcomes } = await this.#store.admit(batch, this.#holdClaim());
    for (const [index, outcome] of outcomes.entries()) await this.#setInMotion(events[index]!, outcome);
    return outcomes;
  }

  async #setInMotion(event: InboundEvent, outcome: AdmitOutcome): Promise<void> {
    if (outcome.kind === "duplicate" || outcome.kind === "rejected") return;
    // An ended session's handle goes before the next one opens (R4).
    for (const ended of outcome.ended) {
      await this.#pool.drop(ended.sessionId);
      this.events.emit("session:ended", { ...ended, conversationKey: outcome.key });
    }
    for (const settled of outcome.settled) {
      this.#runner.stop(settled.turn.id, { kind: "lost" });
      this.#onSettled(settled);
    }
    this.#announce(event, outcome);
    this.#handOn(outcome.notices, outcome);
    if ("reply" in outcome) this.#handOn([outcome.reply], outcome);
    if ("delivery" in outcome) this.#handOn([outcome.delivery], outcome);
    if ("signal" in outcome && outcome.signal !== null) this.#engine.signal(outcome.signal);
    if ("begun" in outcome && outcome.begun !== null) this.#queue.start(outcome.begun);
    else if ("turnId" in outcome && outcome.turnId !== null && outcome.sessionId !== null)
      this.#engine.wake(outcome.sessionId);
    for (const sessionId of outcome.wake) this.#engine.wake(sessionId);
  }

  #announce(event: InboundEvent, outcome: Exclude<AdmitOutcome, { kind: "duplicate" | "rejected" }>): void {
    if ("messageId" in outcome && "text" in event) {
      const author: Author =
        event.kind === "send" ? { kind: "agent", id: parseSessionKey(outcome.key).agent } : event.speaker.author;
      this.events.emit("message:admitted", {
        conversationKey: outcome.key,
        conversationId: outcome.conversationId,
        messageId: outcome.messageId,
        text: event.text,
        author,
        outcome: outcome.kind,
        turnId: "turnId" in outcome ? outcome.turnId : null,
      });
    }
    if (outcome.kind === "sent" && outcome.bound !== null)
      this.events.emit("binding:changed", { conversationKey: outcome.key, binding: outcome.bound });
    if (outcome.kind === "bound")
      this.events.emit("binding:changed", { conversationKey: outcome.key, binding: outcome.binding });
    if (outcome.kind === "cleared")
      this.events.emit("binding:changed", { conversationKey: outcome.key, binding: null });
  }

  #handOn(deliveries: readonly DeliveryRow[], at: Pick<Landed, "conversationId" | "key">): void {
    for (const delivery of deliveries) {
      this.events.emit("delivery:written", {
        delivery,
        text: deliveryText(delivery),
        conversationKey: at.key,
        conversationId: at.conversationId,
      });
    }
    this.#outbox.take(deliveries);
  }

  // ---- turns

  /** How a turn ended; resolves when it has. */
  async answerOf(turnId: number): Promise<TurnAnswer> {
    const { promise, resolve } = Promise.withResolvers<TurnAnswer>();
    const waiting = this.#waiters.get(turnId) ?? [];
    this.#waiters.set(turnId, [...waiting, resolve]);
    // It may have ended before anybody waited.
    if (this.#runner.live(turnId) === undefined) {
      const answer = await this.#store.answer(turnId);
      if (answer !== null) {
        this.#waiters.delete(turnId);
        return answer;
      }
    }
    return promise;
  }

  /** Sees a turn's words, from its first on. Returns the way to stop watching. */
  watch(turnId: number, watcher: Watcher): () => void {
    return this.#runner.watch(turnId, watcher);
  }

  /** The session's agent is not needed any more: its handle is parked when its turn is over. */
  park(sessionId: string): Promise<void> {
    return this.#pool.drop(sessionId);
  }

  /** Stops a running turn of a conversation, as `/stop` does. */
  async stopTurn(turnId: number): Promise<boolean> {
    const live = this.#runner.live(turnId);
    live?.stop({ kind: "stopped" });
    return live !== undefined;
  }

  /** Answers an open permission question, with the turn's authority: its own person, or the owner (H12). */
  answerPermission(request: { person: Person; turnId: number; id: string; optionId: string | null }): void {
    const live = this.#runner.live(request.turnId);
    if (live === undefined) throw new TertuliaError("request_invalid", "This turn does not run any more.");
    const { personId } = live.turn.authority;
    if (request.person.role !== "owner" && personId !== request.person.id)
      throw new TertuliaError("forbidden", "This question is for somebody else.");
    live.answer(request.id, request.optionId);
  }

  #signal(signal: TurnSignal): void {
    if (signal.kind === "steer") this.#runner.steer(signal.turnId, signal.messageId);
    else this.#runner.stop(signal.turnId, { kind: signal.kind === "stop" ? "stopped" : "superseded" });
  }

  #onSettled(settled: Settled): void {
    for (const sessionId of settled.wake) this.#engine.wake(sessionId);
    const waiting = this.#waiters.get(settled.turn.id);
    if (waiting !== undefined) {
      this.#waiters.delete(settled.turn.id);
      const notices = settled.deliveries.flatMap((row) => (row.kind === "notice" ? [row.body as Notice] : []));
      const answer: TurnAnswer = {
        turn: settled.turn,
        text: settled.text,
        silent: settled.turn.reason === "silent",
        notices,
      };
      for (const resolve of waiting) resolve(answer);
    }
    this.#outbox.take(settled.deliveries);
    if (this.events.isHeard) this.#announceSettled(settled).catch((cause) => this.#fault(cause));
  }

  async #announceSettled({ turn, text, deliveries, messageIds }: Settled): Promise<void> {
    const conversation = await this.#store.conversationById(turn.conversationId);
    const session = await this.#store.session(turn.sessionId);
    if (conversation === null || session === null) return;
    const at = { conversationId: conversation.id, conversationKey: conversation.key };
    this.events.emit("turn:settled", {
      turn,
      text,
      silent: turn.reason === "silent",
      messageIds,
      sessionId: session.id,
      homeKey: session.homeKey,
      ...at,
    });
    for (const delivery of deliveries)
      this.events.emit("delivery:written", { delivery, text: deliveryText(delivery), ...at });
  }

  // ---- bridge: speaking from one door into another

  /** H1: speaks in a room as the agent, and binds the room to the session, unless there is none. */
  async send(request: SendRequest): Promise<{ messageId: number; key: string; binding: BindingRow | null }> {
    this.#mustRun();
    const text = cleanText(request.text);
    if (text.trim() === "")
      throw new TertuliaError("request_invalid", "There is nothing to send.", { remedy: "Send some text." });
    const { ref, agent, rules } = this.#roomOf(request.room, request.person, request.agent);
    const [outcome] = await this.#commit({ account: "bridge", platform: "console", agent }, [
      {
        kind: "send",
        eventId: request.eventId ?? this.#ids.token(),
        freshId: this.#ids.session(this.#clock.now()),
        by: speakerOf(request.person),
        text,
        into: ref,
        sessionId: request.sessionId,
        ttlMs: this.config.agents[agent]?.handoffTtlMs ?? this.config.handoff.ttlMs,
        rules,
      },
    ]);
    if (outcome!.kind === "sent") return { messageId: outcome!.messageId, key: outcome!.key, binding: outcome!.bound };
    throw refusal(outcome!);
  }

  /** Sets or clears a binding of a room by hand (H4). */
  async bind(request: {
    person: Person;
    room: string;
    agent: string;
    change: { kind: "clear" } | { kind: "set"; binding: "live" | "pinned"; sessionId: string };
  }): Promise<{ key: string; binding: BindingRow | null; had: boolean }> {
    this.#mustRun();
    const { ref, agent, rules } = this.#roomOf(request.room, request.person, request.agent);
    const ttlMs = this.config.agents[agent]?.handoffTtlMs ?? this.config.handoff.ttlMs;
    const [outcome] = await this.#commit({ account: "bridge", platform: "console", agent }, [
      {
        kind: "bind",
        eventId: this.#ids.token(),
        freshId: this.#ids.session(this.#clock.now()),
        by: speakerOf(request.person),
        conversation: ref,
        change: request.change.kind === "clear" ? request.change : { ...request.change, ttlMs },
        rules,
      },
    ]);
    if (outcome!.kind === "bound") return { key: outcome!.key, binding: outcome!.binding, had: true };
    if (outcome!.kind === "cleared") return { key: outcome!.key, binding: null, had: outcome!.had };
    throw refusal(outcome!);
  }

  /** A room by its configured name or its key; an own door may be new, any other must exist. */
  #roomOf(room: string, person: Person, agent: string): { ref: ConversationRef; agent: string; rules: AdmitRules } {
    const key = this.config.rooms[room]?.conversation ?? room;
    if (!key.startsWith("agent:")) {
      throw new TertuliaError("conversation_unknown", `There is no room ${JSON.stringify(room)}.`, {
        remedy:
          "Name a room of the configuration (rooms:), or give a conversation key; `tertulia sessions list` shows them.",
      });
    }
    const parts = parseSessionKey(key);
    const own = parts.form === "chat" ? parseOwnDoorChatId(parts.chatId) : undefined;
    if (person.role !== "owner" && own?.personId !== person.id)
      throw new TertuliaError("forbidden", "This conversation belongs to somebody else.");
    if (parts.agent !== agent && this.config.agents[parts.agent] === undefined)
      throw new TertuliaError("agent_unknown", `There is no agent ${parts.agent}.`);
    if (parts.form === "chat" && own !== undefined && isOwnPlatform(parts.platform)) {
      const door = ownDoor(parts.platform, { id: own.personId }, own.name);
      return {
        ref: { kind: "source", ...door },
        agent: parts.agent,
        rules: this.#rules(parts.agent, door.source).rules,
      };
    }
    const source = {
      platform: "console" as const,
      account: "bridge",
      chatId: `${person.id}/bridge`,
      chatType: "dm" as const,
      isBot: false,
    };
    return {
      ref: { kind: "key", key },
      agent: parts.agent,
      rules: rulesFor(this.config, { agent: parts.agent, source, key }).rules,
    };
  }

  // ---- parts

  async #inbox(channel: Channel) {
    const agent = this.config.defaultAgent;
    return {
      cursor: await this.#store.cursor(channel.account),
      commit: (events: readonly InboundEvent[], cursor?: string) =>
        this.#commit({ account: channel.account, platform: channel.platform, agent }, events, cursor),
    };
  }

  #runtimeOf(agent: string): Runtime {
    const kind = this.config.agents[agent]?.runtime.kind ?? "demo";
    const runtime = this.#runtimes[kind];
    if (runtime === undefined) throw new TertuliaError("runtime_failed", `There is no runtime ${kind}.`);
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

function speakerOf(person: Person): Speaker {
  const author: Author = { kind: "person", id: person.id, ...(person.name === undefined ? {} : { name: person.name }) };
  return { author, person: { id: person.id, role: person.role } };
}

function isOwnPlatform(platform: string): platform is OwnPlatform {
  return platform === "console" || platform === "web" || platform === "http";
}

function deliveryText({ body }: DeliveryRow): string {
  return typeof body === "string" ? body : renderNotice(body);
}

function refusal(outcome: AdmitOutcome): TertuliaError {
  if (outcome.kind === "rejected") return new TertuliaError(outcome.code, outcome.sentence);
  if (outcome.kind === "duplicate") return new TertuliaError("idempotency_conflict", "This was sent before.");
  return new TertuliaError("internal", `A send came out of admit as ${outcome.kind}.`);
}
