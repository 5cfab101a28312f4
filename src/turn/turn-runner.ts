import { type Config, rulesFor } from "../config/config.ts";
import { sourceOfConversation } from "../context/door-line.ts";
import type { GatewayFacts } from "../context/settings.ts";
import { asSeenBy, marksIn, openRequestFor, stablePartOf, steeredText, turnInputFor } from "../context/turn-context.ts";
import type { Person } from "../conversation/person.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { type EventBus, type EventPlace, type GatewayEvents, withoutPrompt } from "../events.ts";
import type { Notice } from "../message/notice.ts";
import { promptOf } from "../runtime/prompt.ts";
import type { OpenedHow, Runtime, TurnEvent, TurnResult } from "../runtime/runtime.ts";
import type { Lease, RuntimePool } from "../runtime/runtime-pool.ts";
import type {
  Claim,
  ConversationRow,
  DeliveryRow,
  Settled,
  Store,
  Turn,
  TurnMark,
  TurnMaterial,
  TurnSignal,
} from "../store/store.ts";
import { oneLine } from "../text/untrusted.ts";
import type { Clock } from "../util/clock.ts";
import type { IdSource } from "../util/ids.ts";
import { describeSpan } from "../util/span.ts";
import { cleanAside, cleanResult, WordStream } from "./agent-words.ts";
import type { OpenQuestion } from "./command/command.ts";
import { shownMarks } from "./leading-mark.ts";
import { LiveTurn, type StopReason, type Watcher } from "./live-turn.ts";
import { PartialMark } from "./partial-mark.ts";
import { cancelledEnding, endingOf, failedBy, lostEnding, type TurnEnding } from "./turn-ending.ts";
import { type TurnLimits, watchLimits } from "./turn-limits.ts";

/** A settlement that the store cannot take is tried again: the answer is not lost while this process lives. */
const SETTLE_RETRY_MS = 1_000;
const LONGEST_SETTLE_RETRY_MS = 30_000;

export interface TurnRunnerOptions {
  readonly config: Config;
  readonly ground: GatewayFacts;
  readonly store: Store;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly claim: () => Claim;
  readonly pool: RuntimePool;
  /** What runs a session, by its home conversation (B7). */
  readonly runtimeOf: (home: ConversationRow) => Runtime;
  /** H10: the session that the turn was to run in is gone in its own program, and the turn waits elsewhere now. */
  readonly hasLost: (turn: Turn) => Promise<boolean>;
  /** A3: whether the turn's authors are still let in, looked at once more before anything is asked of the agent. */
  readonly isLetIn: (material: TurnMaterial) => boolean;
  readonly events: EventBus;
  /** A turn asks for its agent now: from here on the pool knows of it. */
  readonly onAsked: (sessionId: string) => void;
  /** All messages of a waiting turn were handed to the running one: the waiting turn is gone. */
  readonly onTakenIn: (turnId: number, into: number) => void;
  /** The session's runtime has opened or closed a background job (R2). */
  readonly onJob: (sessionId: string, job: Extract<TurnEvent, { type: "job" }>) => Promise<void>;
  /** Rows that were written while a turn runs. */
  readonly onDeliveries: (deliveries: readonly DeliveryRow[]) => void;
  /** After the commit that ended a turn: wakes sessions, hands deliveries on. */
  readonly onSettled: (settled: Settled) => void;
  /** The turn has ended, but the store cannot take it for now: whoever waits is told. */
  readonly onUnsettled: (turnId: number, error: TertuliaError) => void;
  readonly onFault: (cause: unknown) => void;
}

/** A running turn with what it runs on. */
interface Run {
  readonly live: LiveTurn;
  readonly material: TurnMaterial;
  readonly runtime: Runtime;
  readonly place: EventPlace;
  readonly limits: TurnLimits;
  readonly partial: PartialMark;
}

/** What the agent answered, and on what. */
interface AgentAnswer {
  readonly result: TurnResult;
  readonly lease: Lease;
}

interface Steering {
  readonly lease: Lease;
  readonly material: TurnMaterial;
  done: Promise<void>;
}

interface Follower {
  readonly watcher: Watcher;
  stop: () => void;
  isOver: boolean;
}

/**
 * TurnRunner: takes a begun turn through context, runtime and reply to its settlement. It never rejects: whatever happens,
 * the turn ends in the store or, with the store gone, is taken over at the next start.
 */
export class TurnRunner {
  readonly #options: TurnRunnerOptions;
  readonly #live = new Map<number, LiveTurn>();
  /** Stops of turns that are begun and have not come here yet. */
  readonly #early = new Map<number, StopReason>();
  #stopReason: StopReason | null = null;
  /** Settlements that wait to be tried again; a stop of all ends the waits. */
  readonly #pauses = new Set<() => void>();
  /** Those who wait for a turn to begin. */
  readonly #followers = new Map<number, Follower[]>();
  /** Turns whose agent can be handed more: one steer after the other. */
  readonly #steering = new Map<number, Steering>();

  constructor(options: TurnRunnerOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#live.size;
  }

  /** The turns that run now, as `turn:begun` told of them. */
  get begun(): readonly GatewayEvents["turn:begun"][] {
    const going = [...this.#live.values()].filter(({ stopReason }) => stopReason?.kind !== "lost");
    return going.flatMap(({ begun }) => begun ?? []);
  }

  live(turnId: number): LiveTurn | undefined {
    return this.#live.get(turnId);
  }

  /** Stops the running turns whose authors are not let in any more (A3). */
  async stopUnwelcome(): Promise<void> {
    for (const turnId of [...this.#live.keys()]) {
      const material = await this.#options.store.turnMaterial(turnId);
      if (material !== null && !this.#options.isLetIn(material)) this.stop(turnId, { kind: "removed" });
    }
  }

  stop(turnId: number, reason: StopReason): void {
    const live = this.#live.get(turnId);
    live?.stop(reason);
    if (reason.kind === "lost") this.#end(turnId);
    else if (live === undefined) this.#stopEarly(turnId, reason).catch(this.#options.onFault);
  }

  /** A reset ended it: nobody waits for words of it, begun or not, and what its agent still says is nobody's. */
  #end(turnId: number): void {
    this.#live.get(turnId)?.end();
    for (const { watcher } of this.#followers.get(turnId) ?? []) watcher.onEvent({ type: "end" });
    this.#followers.delete(turnId);
  }

  /** A turn that is begun and has not come here yet is stopped when it comes. */
  async #stopEarly(turnId: number, reason: StopReason): Promise<void> {
    this.#early.set(turnId, reason);
    const turn = await this.#options.store.turn(turnId);
    if (turn?.state !== "running") this.#early.delete(turnId);
  }

  /** Those that run, and those that still come. */
  stopAll(reason: StopReason): void {
    this.#stopReason = reason;
    for (const live of this.#live.values()) live.stop(reason);
    for (const goOn of [...this.#pauses]) goOn();
  }

  /**
   * Lets somebody see a turn's words, from its first on, also when it has not begun yet. That words are shown is durable
   * before the first one is (T8). Returns the way to stop.
   */
  watch(turnId: number, watcher: Watcher): () => void {
    const follower: Follower = { watcher, stop: () => undefined, isOver: false };
    const live = this.#live.get(turnId);
    if (live === undefined) this.#followers.set(turnId, [...(this.#followers.get(turnId) ?? []), follower]);
    else this.#attach(live, follower);
    return () => {
      follower.isOver = true;
      follower.stop();
      const waiting = this.#followers.get(turnId)?.filter((other) => other !== follower) ?? [];
      if (waiting.length > 0) this.#followers.set(turnId, waiting);
      else this.#followers.delete(turnId);
    };
  }

  #attach(live: LiveTurn, follower: Follower): void {
    if (live.text === "" || live.shown) {
      follower.stop = live.watch(follower.watcher);
      return;
    }
    this.#showText(live)
      .then(() => {
        if (!follower.isOver && this.#live.has(live.turn.id)) follower.stop = live.watch(follower.watcher);
      })
      .catch(this.#options.onFault);
  }

  /** T5: hands a waiting message to the running turn. It stays where it waits until the agent has read it. */
  steer(turnId: number, messageId: number): void {
    const steering = this.#steering.get(turnId);
    if (steering === undefined) return;
    steering.done = steering.done.then(() => this.#steerOne(turnId, messageId, steering)).catch(this.#options.onFault);
  }

  async #steerOne(turnId: number, messageId: number, { lease: { session }, material }: Steering): Promise<void> {
    const live = this.#live.get(turnId);
    const message = await this.#options.store.message(messageId);
    if (live === undefined || live.stopReason !== null || message === null || session.steer === undefined) return;
    // One that joined its waiting turn would overtake what waits there before it (T4).
    const fates = await this.#options.store.fates(messageId);
    const own = fates.find(({ conversationId }) => conversationId === live.turn.conversationId);
    if (own?.fate.fate !== "waiting") return;
    const taken = await session.steer({
      turnId,
      facts: "",
      text: steeredText(material, message, this.#options),
      missed: [],
    });
    if (taken !== "consumed") return;
    if (!(await this.#mark(live, { consumed: [messageId] }))) return;
    const { authority } = (await this.#options.store.turn(turnId)) ?? live.turn;
    live.runsWith(authority);
    const waitedIn = own.turnId;
    if (waitedIn === null || (await this.#options.store.turn(waitedIn)) !== null) return;
    this.#options.events.step({ kind: "taken_in", turnId: waitedIn });
    this.#options.onTakenIn(waitedIn, turnId);
  }

  /** Whether the turn was settled here; if not, its session is to be looked at again. */
  async run(turn: Turn): Promise<boolean> {
    if (await this.#options.hasLost(turn)) return false;
    const live = new LiveTurn(turn);
    this.#live.set(turn.id, live);
    const stopped = this.#early.get(turn.id) ?? this.#stopReason;
    if (stopped !== null) live.stop(stopped);
    this.#early.delete(turn.id);
    for (const follower of this.#followers.get(turn.id) ?? []) this.#attach(live, follower);
    this.#followers.delete(turn.id);
    try {
      const found = await this.#options.store.turnMaterial(turn.id);
      if (found === null) return false;
      if (!this.#options.isLetIn(found)) {
        live.stop({ kind: "removed" });
        return await this.#settle(live, cancelledEnding(live));
      }
      const runtime = this.#options.runtimeOf(found.home);
      const material = await asSeenBy(runtime.name, found, this.#options.store);
      // Its handle would still hold the session as it was before another runtime went on with it.
      const isReturn = found.runtimeState !== null && found.runtimeState.runtime !== runtime.name;
      if (isReturn && runtime.history === "gateway") await this.#options.pool.drop(material.session.id, runtime.name);
      const ending = await this.#converse(live, material, runtime);
      return await this.#settle(live, ending);
    } catch (cause) {
      // The store could not be written, or a bug: the turn is ended so that the next one runs.
      this.#options.onFault(cause);
      return await this.#settle(live, failedBy(asTertuliaError(cause), live.text));
    } finally {
      this.#live.delete(turn.id);
      // Whatever ended it: nobody waits for more words of it.
      live.end();
    }
  }

  /**
   * Ends the agent of a session in which no turn runs, and opens it anew. `how` is null where the next message of its home would not go
   * there, or no place is free: then nothing is opened before somebody asks.
   */
  async restart(sessionId: string): Promise<{ how: OpenedHow | null }> {
    const { store, pool, config, ground, clock, claim } = this.#options;
    const session = await store.session(sessionId);
    if (session === null) throw new TertuliaError("session_unknown", `There is no session ${sessionId}.`);
    if (session.endedAt !== null) throw new TertuliaError("session_ended", `Session ${sessionId} has ended.`);
    if ([...this.#live.values()].some(({ turn }) => turn.sessionId === sessionId))
      throw new TertuliaError("busy", `A turn runs in session ${sessionId}.`);
    await pool.drop(sessionId);
    if (pool.room === 0) return { how: null };
    const home = await store.conversationById(session.home);
    if (home === null) return { how: null };
    const { rules } = rulesFor(config, { agent: home.agent, key: home.key, source: sourceOfConversation(home) });
    const found = await store.nextTurnMaterial({ conversationId: home.id, now: clock.now(), rules });
    if (found?.session.id !== sessionId) return { how: null };
    const runtime = this.#options.runtimeOf(home);
    const material = await asSeenBy(runtime.name, found, store);
    const abort = new AbortController();
    const restarts = (material.runtimeState?.restarts ?? 0) + 1;
    const restarted = { kind: "restarts", sessionId, runtime: runtime.name, restarts } as const;
    try {
      const lease = await pool.acquire({
        sessionId,
        runtime,
        restarts,
        signal: abort.signal,
        request: () => openRequestFor(material, { config, ground, reader: store, runtime, signal: abort.signal }),
      });
      lease.release();
      await store.keep(restarted, claim());
      return { how: lease.how };
    } catch (cause) {
      if (asTertuliaError(cause).code === "runtime_failed")
        await store.keep({ ...restarted, status: "broken" }, claim());
      throw cause;
    }
  }

  /** Acquires the agent, writes the prompt, and hears it out; at most one controlled rebuild (B5). */
  async #converse(live: LiveTurn, material: TurnMaterial, runtime: Runtime): Promise<TurnEnding> {
    const { clock, config } = this.#options;
    const limits = watchLimits(live, {
      clock,
      idleMs: config.turn.turnIdleTimeoutMs,
      totalMs: config.turn.turnTimeoutMs,
    });
    const run: Run = {
      live,
      material,
      runtime,
      place: placeOf(material),
      limits,
      partial: new PartialMark(clock.now()),
    };
    try {
      const first = await this.#attempt(run);
      if (!("result" in first)) return first;
      if (!isWorthAnother(run, first.result)) return heardEnding(run, first, config);
      live.restart();
      // What the first one had taken in is of the turn, and the second one is told it too.
      const material = await this.#options.store.turnMaterial(live.turn.id);
      if (material === null) return lostEnding();
      const again = { ...run, material: await asSeenBy(runtime.name, material, this.#options.store) };
      const second = await this.#attempt(again);
      return "result" in second ? heardEnding(again, second, config) : second;
    } finally {
      limits.cancel();
    }
  }

  /** One prompt to the agent: what it answered, or the turn's ending where there was no answer to have. */
  async #attempt(run: Run): Promise<AgentAnswer | TurnEnding> {
    const { live } = run;
    const lease = await this.#acquire(run);
    if (!("session" in lease)) return lease;
    let result: TurnResult | "lost" | "given_up";
    try {
      result = await this.#speak(run, lease);
    } catch (cause) {
      await lease.discard();
      throw cause;
    }
    if (result === "given_up") {
      void lease.discard();
      return cancelledEnding(live);
    }
    if (result !== "lost" && isGone(result)) await lease.discard();
    else lease.release();
    return result === "lost" ? lostEnding() : { result, lease };
  }

  async #acquire({ live, material, runtime, limits }: Run): Promise<Lease | TurnEnding> {
    const { pool, config, ground, store, events, onAsked } = this.#options;
    const turnId = live.turn.id;
    events.step({ kind: "asked", turnId, agent: material.home.agent, runtime: runtime.name });
    const endWait = limits.hold();
    try {
      const acquiring = pool.acquire({
        sessionId: live.turn.sessionId,
        runtime,
        restarts: material.runtimeState?.restarts ?? 0,
        signal: live.signal,
        request: () => {
          endWait();
          return openRequestFor(material, { config, ground, reader: store, runtime, signal: live.signal });
        },
      });
      onAsked(live.turn.sessionId);
      const lease = await acquiring;
      endWait();
      events.step({ kind: "opened", turnId, cold: lease.cold, how: lease.how });
      return lease;
    } catch (cause) {
      if (live.stopReason !== null) return cancelledEnding(live);
      // An agent that dies while it is opened is the session's own fault (R7); one that was not even tried is not.
      const error = asTertuliaError(cause);
      const isBroken = error.code === "runtime_failed";
      return {
        ...failedBy(error, ""),
        sessionFault: isBroken,
        ...trialOf({ material, runtime }, "failed", config),
        ...(isBroken
          ? { runtime: { name: runtime.name, status: "broken", restarts: material.runtimeState?.restarts ?? 0 } }
          : {}),
      };
    }
  }

  async #speak(run: Run, lease: Lease): Promise<TurnResult | "lost" | "given_up"> {
    const { live, material, runtime, place } = run;
    const { config, ground, clock, ids } = this.#options;
    const agent = { cold: lease.cold, how: lease.how, history: runtime.history };
    const input = turnInputFor(material, agent, { config, ground, now: clock.now(), nonce: ids.token() });
    const shown = shownMarks(marksIn(material, agent, { config, ground }));
    live.words = new WordStream(shown);
    const marking = this.#mark(live, {
      prompt: {
        text: promptOf(input),
        seen: material.roomLines.bound,
        notesThrough: material.notes.at(-1)?.n ?? 0,
        entriesThrough: material.throughEntry,
        runtime: runtime.name,
      },
      runtime: { name: runtime.name, ref: lease.session.ref, restarts: lease.restarts },
      ...(material.stablePart === null ? { stablePart: stablePartOf(material, { config, ground }) } : {}),
      ...(runtime.effectsAtPrompt === "possible" ? { effects: "possible" } : {}),
    });
    // Where nothing can happen out of our sight the prompt does not wait for the disk: verbs commit in their order, so whatever is shown or settled is after it.
    if (runtime.effectsAtPrompt === "none") marking.catch(this.#options.onFault);
    else if (!(await marking)) return "lost";
    else live.hasEffects = true;
    live.begun = { turn: withoutPrompt(live.turn), messages: material.messages, ...place };
    this.#options.events.emit("turn:begun", live.begun);
    this.#options.events.step({ kind: "prompted", turnId: live.turn.id });
    const steering: Steering = { lease, material, done: Promise.resolve() };
    this.#steering.set(live.turn.id, steering);
    const patience = this.#patience(live);
    try {
      const turn = lease.session
        .turn(input, { signal: live.signal, onEvent: (event) => this.#hear(run, event) })
        .then((result) => cleanResult(result, shown));
      const result = await Promise.race([turn, patience.over]);
      this.#options.events.step({ kind: "heard", turnId: live.turn.id });
      if (result === "given_up") turn.catch(this.#options.onFault);
      else await this.#say(run, live.words.rest());
      this.#steering.delete(live.turn.id);
      // What the agent has taken in is of this turn, also when it was taken in just before the end (G-CON-06).
      patience.begin();
      const steered = await Promise.race([steering.done, patience.over]);
      // An agent that still holds a message could answer it besides its own turn: it is not used again.
      if (steered === "given_up") void lease.discard();
      return result;
    } finally {
      this.#steering.delete(live.turn.id);
      live.denyAll();
      patience.cancel();
    }
  }

  /**
   * After a stop the agent has a while to end; then it is given up, and its late words are thrown away. After its own end
   * as long is waited for what it was being handed.
   */
  #patience(live: LiveTurn): { readonly over: Promise<"given_up">; begin(): void; cancel(): void } {
    const { clock, config } = this.#options;
    let cancelTimer: (() => void) | null = null;
    const { promise, resolve } = Promise.withResolvers<"given_up">();
    const begin = (): void => {
      cancelTimer ??= clock.after(config.turn.stopGraceMs, () => resolve("given_up"));
    };
    if (live.signal.aborted) begin();
    else live.signal.addEventListener("abort", begin, { once: true });
    return {
      over: promise,
      begin,
      cancel: () => {
        live.signal.removeEventListener("abort", begin);
        cancelTimer?.();
      },
    };
  }

  async #hear(run: Run, event: TurnEvent): Promise<void> {
    const { live, limits, partial } = run;
    limits.sign();
    if (event.type === "permission") {
      await this.#ask(live, limits, cleanAside(event));
      return;
    }
    if (event.type === "job" && live.stopReason?.kind !== "lost") {
      // What goes on in the background is an effect, also when it ends within the turn (T8).
      live.hasEffects = true;
      const job = cleanAside(event);
      if (await this.#mark(live, { effects: "possible" })) await this.#options.onJob(live.turn.sessionId, job);
      return;
    }
    if (live.stopReason !== null) return;
    if (event.type === "text") await this.#say(run, live.words.take(event.text));
    if (event.type === "tool") {
      live.hasEffects = true;
      const isDue = partial.isDueBeforeTool(live.text.length, this.#options.clock.now());
      await this.#mark(live, { effects: "possible", ...(isDue ? { partial: live.text } : {}) });
      live.tool(cleanAside(event));
    }
  }

  async #say({ live, partial }: Run, words: string): Promise<void> {
    if (words === "" || live.stopReason !== null) return;
    if (live.isWatched && !live.shown) await this.#showText(live, live.text + words);
    if (live.stopReason !== null) return;
    if (live.text === "") this.#options.events.step({ kind: "spoke", turnId: live.turn.id });
    live.say(words);
    const mayBeKept = live.shown || live.hasEffects;
    if (mayBeKept && partial.isDue(live.text.length, this.#options.clock.now()))
      await this.#mark(live, { partial: live.text });
  }

  async #ask(live: LiveTurn, limits: TurnLimits, event: Extract<TurnEvent, { type: "permission" }>): Promise<void> {
    const { clock, config } = this.#options;
    // Where nobody is there who could be asked, it is denied at once.
    // So is a second question under the id of an open one: an answer could not say which of them it is for.
    const isByWords = canBeAskedThere(live.turn);
    const isAskable = live.stopReason === null && event.closed?.aborted !== true && (live.canBeAsked || isByWords);
    if (!isAskable || live.isOpen(event.id)) {
      event.answer(null);
      return;
    }
    const cancel = clock.after(config.turn.permissionTimeoutMs, () => live.deny(event.id));
    event.closed?.addEventListener("abort", () => live.deny(event.id), { once: true });
    live.ask({
      ...event,
      answer: (optionId) => {
        cancel();
        limits.sign();
        event.answer(optionId);
      },
    });
    if (isByWords) await this.#mark(live, { question: permissionNotice(event, config.turn.permissionTimeoutMs) });
  }

  /** An answer that was admitted; one that comes too late changes nothing. */
  answer({ turnId, id, optionId }: Extract<TurnSignal, { kind: "answer" }>): void {
    const live = this.#live.get(turnId);
    if (live?.isOpen(id)) live.answer(id, optionId);
  }

  /** What the agents ask leave for in a conversation's running turns. */
  questionsOf(conversationId: number): readonly OpenQuestion[] {
    return [...this.#live.values()]
      .filter(({ turn }) => turn.conversationId === conversationId)
      .flatMap(({ turn, questions }) => {
        const isAskedThere = turn.target.door === "pull" || canBeAskedThere(turn);
        return questions.map((question) => ({ turnId: turn.id, isAskedThere, ...question }));
      });
  }

  async #showText(live: LiveTurn, text = live.text): Promise<void> {
    if (await this.#mark(live, { effects: "shown", ...(text === "" ? {} : { partial: text }) })) live.shown = true;
  }

  /** False when the turn is not ours any more: a reset has ended it, and it is stopped here. */
  async #mark(live: LiveTurn, change: Omit<TurnMark, "turnId" | "attempt" | "now">): Promise<boolean> {
    const { store, clock, claim, onDeliveries } = this.#options;
    const { id: turnId, attempt } = live.turn;
    const marked = await store.mark({ turnId, attempt, now: clock.now(), ...change }, claim());
    if (marked.kind === "not_running") {
      live.stop({ kind: "lost" });
      return false;
    }
    if (marked.deliveries.length > 0) onDeliveries(marked.deliveries);
    return true;
  }

  async #settle(live: LiveTurn, ending: TurnEnding): Promise<boolean> {
    const { store, clock, claim, onFault, onSettled, onUnsettled } = this.#options;
    const { id: turnId, attempt } = live.turn;
    for (let waitMs = SETTLE_RETRY_MS; live.stopReason?.kind !== "lost"; waitMs *= 2) {
      try {
        const result = await store.settle({ turnId, attempt, now: clock.now(), ...ending }, claim());
        if (result.kind === "not_running") return false;
        this.#live.delete(turnId);
        live.end();
        onSettled(result);
        return true;
      } catch (cause) {
        const error = asTertuliaError(cause);
        onFault(error);
        onUnsettled(turnId, error);
        // A turn that is left running would keep its session from ever going on.
        if (error.code === "stale_claim" || this.#stopReason !== null) return false;
        await this.#pause(Math.min(waitMs, LONGEST_SETTLE_RETRY_MS));
      }
    }
    return false;
  }

  /** Until the time is over, or all are stopped. */
  async #pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(ms, resolve);
    this.#pauses.add(resolve);
    await promise;
    cancel();
    this.#pauses.delete(resolve);
  }
}

/** What the agent's result means, and how its runtime is after it (B6, B7). */
function heardEnding(run: Run, { result, lease }: AgentAnswer, config: Config): TurnEnding {
  const { live, runtime } = run;
  const ending = endingOf(live, result);
  const { state } = ending.outcome;
  const status = state === "failed" || isGone(result) ? "degraded" : "healthy";
  return {
    ...ending,
    ...(state === "interrupted" ? {} : trialOf(run, state === "answered" ? "passed" : "failed", config)),
    runtime: { name: runtime.name, ref: lease.session.ref, status, restarts: lease.restarts },
  };
}

/** A failure where the runtime before is not configured any more ends nothing: there is no way back. */
function trialOf(
  { material, runtime }: Pick<Run, "material" | "runtime">,
  outcome: "passed" | "failed",
  config: Config,
): Pick<TurnEnding, "trial"> {
  const { name: chosen, before, isOnTrial } = material.home.runtime;
  const isPossible = outcome === "passed" || (before !== null && config.runtimes[before] !== undefined);
  return isOnTrial && isPossible ? { trial: { chosen, runtime: runtime.name, outcome } } : {};
}

/** H12: the owner, or who asked, where it is asked there. */
export function mayAnswer({ id, role }: Person, turn: Turn): boolean {
  const isTheirs = turn.authority.personId === id && (turn.target.door === "pull" || canBeAskedThere(turn));
  return role === "owner" || isTheirs;
}

/** H12: at a door that is written to, only where those who read the question are those who may answer it: the owner, or one person alone. */
function canBeAskedThere({ target, authority, audience }: Turn): boolean {
  if (target.door !== "push") return false;
  return authority.role === "owner" || (audience.kind === "person" && audience.personId === authority.personId);
}

function permissionNotice({ title, options }: Extract<TurnEvent, { type: "permission" }>, ms: number): Notice {
  const labels = options.map(({ label }) => oneLine(label)).join("\n");
  return { code: "permission", args: { title: oneLine(title), options: labels, span: describeSpan(ms) } };
}

function placeOf(material: TurnMaterial): EventPlace {
  return {
    conversationId: material.conversation.id,
    conversationKey: material.conversation.key,
    sessionId: material.session.id,
    homeKey: material.home.key,
  };
}

function isGone({ failure }: TurnResult): boolean {
  return failure?.kind === "process-died" || failure?.kind === "session-gone";
}

/** A second try where nothing can have happened yet: of a lost agent (T8, B5), or of an empty answer (O5). */
function isWorthAnother({ live, material }: Run, result: TurnResult): boolean {
  if (live.stopReason !== null || live.hasEffects) return false;
  if (isGone(result)) return !live.shown;
  const isEmpty = result.outcome === "done" && result.text.trim() === "";
  return isEmpty && (!live.shown || material.afterCancel);
}
