import type { Config } from "../config.ts";
import { renderEntry } from "../context/render-history.ts";
import { renderStablePart } from "../context/stable-part.ts";
import { renderTurnFacts } from "../context/turn-facts.ts";
import { asTertuliaError, isErrorCode, TertuliaError } from "../errors.ts";
import type { EventBus, EventPlace } from "../events.ts";
import type { Notice } from "../message/notice.ts";
import { assembleReply } from "../reply/assemble.ts";
import type { AgentSession, Runtime, RuntimeFailure, TurnEvent, TurnInput, TurnResult } from "../runtime/runtime.ts";
import type { Lease, RuntimePool } from "../runtime/runtime-pool.ts";
import type { Claim, Settled, Settlement, Store, Turn, TurnMark, TurnMaterial } from "../store/store.ts";
import type { Clock } from "../util/clock.ts";
import type { IdSource } from "../util/ids.ts";
import { describeSpan } from "../util/span.ts";
import { LiveTurn, type StopReason, type Watcher } from "./live-turn.ts";

/** Partial text is made durable at most this often (T8). */
const PARTIAL_MS = 1_000;
/** A settlement that the store cannot take is tried again: the answer is not lost while this process lives. */
const SETTLE_RETRY_MS = 1_000;
const PRIMER_LINES = 40;
const PRIMER_CHARACTERS = 12_000;

export interface TurnRunnerOptions {
  readonly config: Config;
  readonly store: Store;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly claim: () => Claim;
  readonly pool: RuntimePool;
  readonly runtimeOf: (agent: string) => Runtime;
  readonly events: EventBus;
  /** After the commit that ended a turn: wakes sessions, hands deliveries on. */
  readonly onSettled: (settled: Settled) => void;
  readonly onFault: (error: TertuliaError) => void;
}

/** What a turn comes to; the settlement is written from it. */
type Ending = Omit<Settlement, "turnId" | "attempt" | "now" | "runtime">;

/**
 * TurnRunner: takes a begun turn through context, runtime and reply to its settlement. It never rejects: whatever happens,
 * the turn ends in the store, or (with the store gone) is taken over at the next start.
 */
export class TurnRunner {
  readonly #options: TurnRunnerOptions;
  readonly #live = new Map<number, LiveTurn>();
  /** Those who wait for a turn to begin. */
  readonly #followers = new Map<number, Follower[]>();
  readonly #sessions = new Map<number, { session: AgentSession; steers: Promise<void>; isOpen: boolean }>();

  constructor(options: TurnRunnerOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#live.size;
  }

  live(turnId: number): LiveTurn | undefined {
    return this.#live.get(turnId);
  }

  stop(turnId: number, reason: StopReason): void {
    this.#live.get(turnId)?.stop(reason);
  }

  stopAll(reason: StopReason): void {
    for (const live of this.#live.values()) live.stop(reason);
  }

  /**
   * Lets somebody see a turn's words, from its first on, also when it has not begun yet. That words are shown is durable
   * before the first one is (T8). Returns the way to stop.
   */
  watch(turnId: number, watcher: Watcher): () => void {
    const follower: Follower = { watcher, stop: () => undefined, isOver: false };
    const live = this.#live.get(turnId);
    if (live === undefined) {
      this.#followers.set(turnId, [...(this.#followers.get(turnId) ?? []), follower]);
    } else {
      this.#attach(live, follower);
    }
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
      .catch((cause) => this.#fault(cause));
  }

  /** T5: hands a waiting message to the running turn. It stays where it waits unless the runtime takes it. */
  steer(turnId: number, messageId: number): void {
    const open = this.#sessions.get(turnId);
    if (open === undefined || !open.isOpen) return;
    // One after the other: a later message never overtakes an earlier one.
    open.steers = open.steers
      .then(() => this.#steerOne(turnId, messageId, open.session))
      .catch((cause) => this.#fault(cause));
  }

  async #steerOne(turnId: number, messageId: number, session: AgentSession): Promise<void> {
    const live = this.#live.get(turnId);
    const message = await this.#options.store.message(messageId);
    if (live === undefined || message === null || session.steer === undefined) return;
    const taken = await session.steer({ turnId, facts: "", text: message.body, missed: [] });
    if (taken === "consumed") await this.#mark(live, { consumed: [messageId] });
  }

  async run(turn: Turn): Promise<void> {
    const live = new LiveTurn(turn);
    this.#live.set(turn.id, live);
    for (const follower of this.#followers.get(turn.id) ?? []) this.#attach(live, follower);
    this.#followers.delete(turn.id);
    try {
      await this.#runLive(live);
    } catch (cause) {
      // The store could not be read, or a bug: the turn is ended so that the next one runs.
      this.#fault(cause);
      await this.#settle(live, failedBy(asTertuliaError(cause), live.text), "none");
    } finally {
      this.#live.delete(turn.id);
    }
  }

  async #runLive(live: LiveTurn): Promise<void> {
    const material = await this.#options.store.turnMaterial(live.turn.id);
    if (material === null) return;
    const runtime = this.#options.runtimeOf(material.session.agent);
    const place = placeOf(material);
    const ending = await this.#converse(live, material, runtime, place);
    await this.#settle(live, ending, runtime.name);
  }

  /** Acquires the agent, writes the prompt, and hears it out; at most one controlled rebuild (B5). */
  async #converse(live: LiveTurn, material: TurnMaterial, runtime: Runtime, place: EventPlace): Promise<Ending> {
    const limits = this.#watchLimits(live);
    let isSecondTry = false;
    try {
      for (;;) {
        const lease = await this.#acquire(live, material, runtime);
        if (!("session" in lease)) return lease;
        const result = await this.#speak(live, material, runtime, lease, place, limits);
        if (result === "lost") return lostEnding();
        if (result === "given_up") {
          void lease.discard();
          return cancelledEnding(live);
        }
        const isGone = result.failure?.kind === "process-died" || result.failure?.kind === "session-gone";
        if (isGone) await lease.discard();
        else lease.release();
        const mayRunAgain = !isSecondTry && live.stopReason === null && !live.shown && !limits.sawEffects();
        const wasEmpty = result.outcome === "done" && result.text.trim() === "";
        if (
          (isGone && mayRunAgain) ||
          (wasEmpty && !isSecondTry && live.stopReason === null && mayAskAgain(live, limits, material))
        ) {
          isSecondTry = true;
          live.restart();
          continue;
        }
        return this.#endingOf(live, result);
      }
    } finally {
      limits.cancel();
    }
  }

  async #acquire(live: LiveTurn, material: TurnMaterial, runtime: Runtime): Promise<Lease | Ending> {
    const { pool } = this.#options;
    try {
      return await pool.acquire({
        sessionId: live.turn.sessionId,
        runtime,
        restarts: material.runtimeState?.restarts ?? 0,
        signal: live.signal,
        request: async () => ({
          sessionId: live.turn.sessionId,
          sessionKey: material.home.key,
          ...(material.runtimeState?.ref == null ? {} : { ref: material.runtimeState.ref }),
          stablePart: this.#stablePart(material),
          primer: await this.#primer(material),
          signal: live.signal,
        }),
      });
    } catch (cause) {
      if (live.stopReason !== null) return cancelledEnding(live);
      return { ...failedBy(asTertuliaError(cause), ""), sessionFault: false };
    }
  }

  #stablePart(material: TurnMaterial): string {
    if (material.stablePart !== null) return material.stablePart;
    const { config } = this.#options;
    const agent = config.agents[material.session.agent] ?? {
      name: material.session.agent,
      displayName: material.session.agent,
    };
    return renderStablePart({
      agent: { name: agent.name, displayName: agent.displayName },
      source: material.messages[0]!.source!,
      shared: isShared(material),
      ...("prompt" in agent && agent.prompt !== undefined ? { prompt: agent.prompt } : {}),
    });
  }

  /** The transcript so far, bounded: for an agent that lost or never had it. */
  async #primer(
    material: TurnMaterial,
  ): Promise<{ total: number; lines: { role: "user" | "assistant" | "mark"; text: string }[] }> {
    if (material.earlier === 0) return { total: 0, lines: [] };
    const entries = await this.#options.store.transcript({
      sessionId: material.session.id,
      before: material.throughEntry + 1,
      limit: PRIMER_LINES,
    });
    const lines = entries.map((entry) =>
      renderEntry(entry, { agent: material.session.agent, shared: isShared(material) }),
    );
    return { total: material.earlier, lines: lastWithin(lines, PRIMER_CHARACTERS) };
  }

  async #speak(
    live: LiveTurn,
    material: TurnMaterial,
    runtime: Runtime,
    lease: Lease,
    place: EventPlace,
    limits: Limits,
  ): Promise<TurnResult | "lost" | "given_up"> {
    const input = this.#input(material, lease);
    const marked = await this.#mark(live, {
      facts: {
        text: input.facts,
        seen: material.roomLines.bound,
        notesThrough: material.notes.at(-1)?.n ?? 0,
        entriesThrough: material.throughEntry,
        runtime: runtime.name,
      },
      runtime: { name: runtime.name, ref: lease.session.ref, restarts: lease.restarts },
      ...(material.stablePart === null ? { stablePart: this.#stablePart(material) } : {}),
      ...(runtime.effectsAtPrompt === "possible" ? { effects: "possible" as const } : {}),
    });
    if (!marked) return this.#lost(lease);
    if (runtime.effectsAtPrompt === "possible") limits.effect();
    this.#options.events.emit("turn:begun", { turn: live.turn, messages: material.messages, ...place });
    const open = { session: lease.session, steers: Promise.resolve(), isOpen: true };
    this.#sessions.set(live.turn.id, open);
    try {
      const turn = lease.session.turn(input, {
        signal: live.signal,
        onEvent: (event) => this.#hear(live, event, limits),
      });
      const patience = this.#patience(live);
      const result = await Promise.race([turn, patience.over]);
      patience.cancel();
      if (result === "given_up") turn.catch((cause) => this.#fault(cause));
      open.isOpen = false;
      await open.steers;
      return result;
    } finally {
      open.isOpen = false;
      this.#sessions.delete(live.turn.id);
    }
  }

  #lost(lease: Lease): "lost" {
    lease.release();
    return "lost";
  }

  /** After a stop the agent has a while to end; then it is given up, and its late words are thrown away. */
  #patience(live: LiveTurn): { over: Promise<"given_up">; cancel(): void } {
    const { clock, config } = this.#options;
    let cancelTimer = (): void => undefined;
    const { promise, resolve } = Promise.withResolvers<"given_up">();
    const start = (): void => {
      cancelTimer = clock.after(config.turn.stopGraceMs, () => resolve("given_up"));
    };
    if (live.signal.aborted) start();
    else live.signal.addEventListener("abort", start, { once: true });
    return {
      over: promise,
      cancel: () => {
        live.signal.removeEventListener("abort", start);
        cancelTimer();
      },
    };
  }

  #input(material: TurnMaterial, lease: Lease): TurnInput {
    const { turn, messages, home } = material;
    const source = messages.at(-1)!.source!;
    const shared = isShared(material);
    const senders = [...new Set(messages.map((message) => message.author.name ?? message.author.id))];
    const facts = renderTurnFacts({
      agent: material.session.agent,
      source,
      senders,
      notes: material.notes,
      bound: turn.bound === null ? null : { by: turn.bound, home: home.key },
      room: material.roomLines,
      nonce: this.#options.ids.token(),
    });
    const text = messages
      .map((message) => (shared ? `[${message.author.name ?? message.author.id}] ${message.body}` : message.body))
      .join("\n");
    // An agent opened with the primer has been told everything; one that went on has missed what it did not say itself.
    const knowsAll = lease.cold && (lease.how === "created" || lease.how === "primed");
    const missed = knowsAll ? [] : material.missed;
    return {
      turnId: turn.id,
      facts,
      text,
      missed: missed.map((entry) => renderEntry(entry, { agent: material.session.agent, shared })),
    };
  }

  async #hear(live: LiveTurn, event: TurnEvent, limits: Limits): Promise<void> {
    limits.sign();
    if (live.stopReason !== null && event.type !== "permission") return;
    switch (event.type) {
      case "text":
        if (live.isWatched && !live.shown) {
          await this.#showText(live);
          if (live.stopReason?.kind === "lost") return;
        }
        live.say(event.text);
        if (live.shown || limits.sawEffects()) await limits.partial(() => this.#mark(live, { partial: live.text }));
        return;
      case "tool":
        limits.effect();
        await this.#mark(live, { effects: "possible", ...(live.text === "" ? {} : { partial: live.text }) });
        live.tool({ type: "tool", id: event.id, title: event.title, state: event.state });
        return;
      case "permission":
        this.#ask(live, event);
        return;
      case "thought":
        return;
    }
  }

  #ask(live: LiveTurn, event: Extract<TurnEvent, { type: "permission" }>): void {
    const { clock, config } = this.#options;
    // Where nobody is there who could be asked, it is denied at once.
    if (live.stopReason !== null || !live.canBeAsked) {
      event.answer(null);
      return;
    }
    const cancel = clock.after(config.turn.permissionTimeoutMs, () => live.answer(event.id, null));
    live.ask({
      ...event,
      answer: (optionId) => {
        cancel();
        event.answer(optionId);
      },
    });
  }

  async #showText(live: LiveTurn): Promise<void> {
    if (await this.#mark(live, { effects: "shown", ...(live.text === "" ? {} : { partial: live.text }) }))
      live.shown = true;
  }

  /** False when the turn is not ours any more: a reset has ended it, and it is stopped here. */
  async #mark(live: LiveTurn, change: Omit<TurnMark, "turnId" | "attempt" | "now">): Promise<boolean> {
    const { store, clock, claim } = this.#options;
    const marked = await store.mark(
      { turnId: live.turn.id, attempt: live.turn.attempt, now: clock.now(), ...change },
      claim(),
    );
    if (marked === "marked") return true;
    live.stop({ kind: "lost" });
    return false;
  }

  /** T7: the limits of a turn, looked at at least once a minute; waits for permission do not count. */
  #watchLimits(live: LiveTurn): Limits {
    const { clock, config } = this.#options;
    const { turnIdleTimeoutMs, turnTimeoutMs } = config.turn;
    let idleFrom = clock.now();
    let totalFrom = idleFrom;
    let lastCheck = idleFrom;
    let lastPartial = idleFrom;
    let hasEffects = false;
    let cancel = (): void => undefined;
    const check = (): void => {
      const now = clock.now();
      if (live.isAsking) {
        idleFrom = now;
        totalFrom += now - lastCheck;
      }
      lastCheck = now;
      if (now - idleFrom >= turnIdleTimeoutMs) live.stop({ kind: "timeout", limit: "idle", ms: turnIdleTimeoutMs });
      else if (now - totalFrom >= turnTimeoutMs) live.stop({ kind: "timeout", limit: "total", ms: turnTimeoutMs });
      else schedule(now);
    };
    const schedule = (now: number): void => {
      const next = Math.min(idleFrom + turnIdleTimeoutMs, totalFrom + turnTimeoutMs, now + 60_000);
      cancel = clock.after(Math.max(1, next - now), check);
    };
    schedule(idleFrom);
    return {
      sign: () => {
        idleFrom = clock.now();
      },
      effect: () => {
        hasEffects = true;
      },
      sawEffects: () => hasEffects,
      partial: async (write) => {
        if (clock.now() - lastPartial < PARTIAL_MS) return;
        lastPartial = clock.now();
        await write();
      },
      cancel: () => cancel(),
    };
  }

  #endingOf(live: LiveTurn, result: TurnResult): Ending {
    const usage = result.usage === undefined ? {} : { usage: result.usage };
    if (live.stopReason !== null) return { ...cancelledEnding(live), ...usage };
    if (result.outcome === "failed") return { ...failedEnding(live, result.failure), ...usage };
    if (result.outcome === "cancelled")
      return {
        ...failedBy(new TertuliaError("runtime_failed", "The agent ended its turn without an answer."), live.text),
        ...usage,
      };
    return { ...assembleReply(result.text, live.turn.target), ...usage };
  }

  async #settle(live: LiveTurn, ending: Ending, runtime: string): Promise<void> {
    if (live.stopReason?.kind === "lost") return;
    const { store, clock, claim } = this.#options;
    for (;;) {
      try {
        const result = await store.settle(
          { turnId: live.turn.id, attempt: live.turn.attempt, now: clock.now(), runtime, ...ending },
          claim(),
        );
        if (result.kind === "not_running") return;
        this.#live.delete(live.turn.id);
        live.end(result);
        this.#options.onSettled(result);
        return;
      } catch (cause) {
        const error = asTertuliaError(cause);
        this.#fault(error);
        if (error.code !== "store_unavailable" || live.stopReason?.kind === "shutdown") return;
        await new Promise<void>((resolve) => clock.after(SETTLE_RETRY_MS, resolve));
      }
    }
  }

  #fault(cause: unknown): void {
    this.#options.onFault(asTertuliaError(cause));
  }
}

interface Follower {
  readonly watcher: Watcher;
  stop: () => void;
  isOver: boolean;
}

interface Limits {
  /** The agent gave a sign of life. */
  sign(): void;
  effect(): void;
  sawEffects(): boolean;
  partial(write: () => Promise<unknown>): Promise<void>;
  cancel(): void;
}

function placeOf(material: TurnMaterial): EventPlace {
  return {
    conversationId: material.conversation.id,
    conversationKey: material.conversation.key,
    sessionId: material.session.id,
    homeKey: material.home.key,
  };
}

/** The last lines that together have at most so many characters. */
function lastWithin<Line extends { readonly text: string }>(lines: readonly Line[], most: number): Line[] {
  let from = lines.length;
  let characters = 0;
  while (from > 0 && characters + lines[from - 1]!.text.length <= most) {
    from -= 1;
    characters += lines[from]!.text.length;
  }
  return lines.slice(from);
}

/** Several people can read and speak: names are shown with their words (C2). */
function isShared(material: TurnMaterial): boolean {
  return material.turn.audience.kind === "place" || material.home.personId === null;
}

/** O5: only where nothing can have happened yet, or a cancelled turn before it explains the silence. */
function mayAskAgain(live: LiveTurn, limits: Limits, material: TurnMaterial): boolean {
  return (!live.shown && !limits.sawEffects()) || (material.afterCancel && !limits.sawEffects());
}

function lostEnding(): Ending {
  return {
    outcome: {
      state: "interrupted",
      reason: "lost",
      partial: "",
      notice: { code: "interrupted", args: { reason: "reset" } },
    },
  };
}

function cancelledEnding(live: LiveTurn): Ending {
  const partial = live.text;
  const reason = live.stopReason ?? { kind: "stopped" };
  if (reason.kind === "timeout") {
    const notice: Notice = {
      code: "timeout",
      args: {
        limit: reason.limit,
        span: describeSpan(reason.ms),
        setting: reason.limit === "idle" ? "turn.turn_idle_timeout" : "turn.turn_timeout",
      },
    };
    return { outcome: { state: "failed", reason: "timeout", partial, notice } };
  }
  return {
    outcome: {
      state: "interrupted",
      reason: reason.kind,
      partial,
      notice: { code: "interrupted", args: { partial, reason: reason.kind } },
    },
  };
}

const SESSION_FAULTS: readonly RuntimeFailure["kind"][] = ["session-gone", "protocol", "overflow"];

function failedEnding(live: LiveTurn, failure: RuntimeFailure | undefined): Ending {
  const code = failure?.kind === "process-died" ? "runtime_died" : "runtime_failed";
  const error = new TertuliaError(code, failure?.message ?? "The agent failed without saying why.");
  return {
    ...failedBy(error, live.text),
    sessionFault: failure !== undefined && SESSION_FAULTS.includes(failure.kind),
  };
}

/** T9: the user's message and one marked entry; the author gets one sentence with the remedy. */
function failedBy(error: TertuliaError, partial: string): Ending {
  const code = isErrorCode(error.code) ? error.code : "internal";
  return {
    outcome: {
      state: "failed",
      reason: code,
      partial,
      notice: { code: "failed", args: { code, sentence: `${error.message} ${error.remedy}` } },
    },
  };
}
