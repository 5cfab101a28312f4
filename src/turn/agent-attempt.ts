import type { Config } from "../config/config.ts";
import { marksIn, openRequestFor, stablePartOf, turnInputFor } from "../context/turn-context.ts";
import { asTertuliaError } from "../errors.ts";
import { type EventPlace, withoutPrompt } from "../events.ts";
import { promptOf } from "../runtime/prompt.ts";
import type { Runtime, TurnEvent, TurnInput, TurnResult } from "../runtime/runtime.ts";
import type { Lease, RuntimePool } from "../runtime/runtime-pool.ts";
import type { TurnMaterial } from "../store/readers.ts";
import { logFault } from "../util/log.ts";
import { cleanAside, cleanResult, WordStream } from "./agent-words.ts";
import { type ShownMarks, shownMarks } from "./leading-mark.ts";
import type { LiveTurn, LiveTurnOptions } from "./live-turn.ts";
import type { PartialMark } from "./partial-mark.ts";
import { isAskedInChat, type PermissionQuestion, permissionNotice } from "./permission.ts";
import { Steering, type SteeringOptions } from "./steering.ts";
import { cancelledEnding, isGone, lostEnding, type TurnEnding, unopenedEnding } from "./turn-ending.ts";
import { stopGrace, type TurnLimits } from "./turn-limits.ts";

export interface AttemptOptions extends LiveTurnOptions, SteeringOptions {
  readonly pool: RuntimePool;
  /** The session's runtime has opened or closed a background job (R2). */
  readonly onJob: (sessionId: string, job: Extract<TurnEvent, { type: "job" }>) => Promise<void>;
}

interface AttemptSubject {
  readonly live: LiveTurn;
  readonly material: TurnMaterial;
  readonly runtime: Runtime;
  readonly limits: TurnLimits;
  readonly partial: PartialMark;
  /** The pool knows of the turn's request for an agent from here on. */
  readonly asked: () => void;
}

/** The agent's result, and the lease of the handle that gave it. */
interface AgentAnswer {
  readonly result: TurnResult;
  readonly lease: Lease;
}

/** AgentAttempt: one prompt of a running turn to its agent. A turn has at most two (B5). */
export class AgentAttempt {
  readonly #subject: AttemptSubject;
  readonly #options: AttemptOptions;
  #words = new WordStream();

  constructor(subject: AttemptSubject, options: AttemptOptions) {
    this.#subject = subject;
    this.#options = options;
  }

  /** Resolves with the agent's answer, or with the turn's ending where it gave none. */
  async run(): Promise<AgentAnswer | TurnEnding> {
    const { live } = this.#subject;
    const lease = await this.#acquire();
    if (!("session" in lease)) return lease;
    let result: TurnResult | "lost" | "given_up";
    try {
      result = await this.#converse(lease);
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

  async #acquire(): Promise<Lease | TurnEnding> {
    const { live, material, runtime, limits, asked } = this.#subject;
    const { pool, facts, store, events } = this.#options;
    const config = this.#options.config();
    const { id: turnId, sessionId } = live.turn;
    events.step({ kind: "asked", turnId, agent: material.home.agent, runtime: runtime.name });
    const endWait = limits.hold();
    try {
      const acquiring = pool.acquire({
        sessionId,
        runtime,
        restarts: material.runtimeState?.restarts ?? 0,
        signal: live.signal,
        request: () => {
          endWait();
          return openRequestFor(material, { config, facts: facts(), reader: store, runtime, signal: live.signal });
        },
      });
      asked();
      const lease = await acquiring;
      endWait();
      events.step({ kind: "opened", turnId, cold: lease.cold, how: lease.how });
      return lease;
    } catch (cause) {
      if (live.stopReason !== null) return cancelledEnding(live);
      return unopenedEnding(asTertuliaError(cause), { material, runtime, config });
    }
  }

  /** `lost`: the turn was ended before the prompt was written. `given_up`: the agent did not end within the grace of a stop. */
  async #converse(lease: Lease): Promise<TurnResult | "lost" | "given_up"> {
    const { live, material, runtime } = this.#subject;
    const { facts, clock, ids, log, events } = this.#options;
    const config = this.#options.config();
    const agent = { cold: lease.cold, how: lease.how, history: runtime.history };
    const context = { config, facts: facts() };
    const input = turnInputFor(material, agent, { ...context, now: clock.now(), nonce: ids.token() });
    const shown = shownMarks(marksIn(material, agent, context));
    const marking = this.#markPrompt(input, lease, config);
    // Without effects out of sight the prompt does not wait for the disk: verbs commit in order, and all that is shown or settled is after it.
    if (runtime.effectsAtPrompt === "none") marking.catch((cause) => logFault(log, cause));
    else if (!(await marking)) return "lost";
    else live.hasEffects = true;
    live.begun = { turn: withoutPrompt(live.turn), messages: material.messages, ...placeOf(material) };
    events.emit("turn:begun", live.begun);
    events.step({ kind: "prompted", turnId: live.turn.id });
    return this.#listen(lease, input, { shown, graceMs: config.turn.stopGraceMs });
  }

  #markPrompt(input: TurnInput, lease: Lease, config: Config): Promise<boolean> {
    const { live, material, runtime } = this.#subject;
    const { facts } = this.#options;
    return live.mark({
      prompt: {
        text: promptOf(input),
        seen: material.roomLines.bound,
        notesThrough: material.notes.at(-1)?.n ?? 0,
        entriesThrough: material.throughEntry,
        runtime: runtime.name,
      },
      runtime: { name: runtime.name, ref: lease.session.ref, restarts: lease.restarts },
      ...(material.stablePart === null ? { stablePart: stablePartOf(material, { config, facts: facts() }) } : {}),
      ...(runtime.effectsAtPrompt === "possible" ? { effects: "possible" } : {}),
    });
  }

  async #listen(
    lease: Lease,
    input: TurnInput,
    { shown, graceMs }: { readonly shown: ShownMarks; readonly graceMs: number },
  ): Promise<TurnResult | "given_up"> {
    const { live, material } = this.#subject;
    const { clock, events, log } = this.#options;
    this.#words = new WordStream(shown);
    const steering = new Steering(live, material, lease.session, this.#options);
    live.steer = (messageId) => steering.steer(messageId);
    const grace = stopGrace(live.signal, { clock, ms: graceMs });
    try {
      const turn = lease.session
        .turn(input, { signal: live.signal, onEvent: (event) => this.#receive(event) })
        .then((result) => cleanResult(result, shown));
      const result = await Promise.race([turn, grace.over]);
      events.step({ kind: "heard", turnId: live.turn.id });
      if (result === "given_up") turn.catch((cause) => logFault(log, cause));
      else await this.#say(this.#words.rest());
      live.steer = null;
      // A message that the agent has taken in just before its end is of this turn too (G-CON-06).
      grace.begin();
      const steered = await Promise.race([steering.done, grace.over]);
      // An agent that still holds a message could answer it outside a turn: it is not used again.
      if (steered === "given_up") void lease.discard();
      return result;
    } finally {
      live.steer = null;
      steering.close();
      live.questions.denyAll();
      grace.cancel();
    }
  }

  async #receive(event: TurnEvent): Promise<void> {
    const { live, limits, partial } = this.#subject;
    limits.sign();
    if (event.type === "permission") return this.#ask(cleanAside(event));
    if (event.type === "job" && live.stopReason?.kind !== "lost") {
      // A background job is an effect, also when it ends within the turn (T8).
      live.hasEffects = true;
      const job = cleanAside(event);
      if (await live.mark({ effects: "possible" })) await this.#options.onJob(live.turn.sessionId, job);
      return;
    }
    if (live.stopReason !== null) return;
    if (event.type === "text") await this.#say(this.#words.take(event.text));
    if (event.type === "tool") {
      live.hasEffects = true;
      const isDue = partial.isDueBeforeTool(live.text.length, this.#options.clock.now());
      await live.mark({ effects: "possible", ...(isDue ? { partial: live.text } : {}) });
      live.tool(cleanAside(event));
    }
  }

  async #say(words: string): Promise<void> {
    const { live, partial } = this.#subject;
    if (words === "" || live.stopReason !== null) return;
    if (live.isWatched && !live.shown) await live.markShown(live.text + words);
    if (live.stopReason !== null) return;
    if (live.text === "") this.#options.events.step({ kind: "spoke", turnId: live.turn.id });
    live.say(words);
    const mayBeKept = live.shown || live.hasEffects;
    if (mayBeKept && partial.isDue(live.text.length, this.#options.clock.now()))
      await live.mark({ partial: live.text });
  }

  /** A question is denied at once where nobody can be asked, and where it has the id of an open one: an answer could mean either. */
  async #ask(question: PermissionQuestion): Promise<void> {
    const { live, limits } = this.#subject;
    const { permissionTimeoutMs } = this.#options.config().turn;
    const { id, closed } = question;
    const isInChat = isAskedInChat(live.turn);
    const isAskable = live.stopReason === null && closed?.aborted !== true && (live.canBeAsked || isInChat);
    if (!isAskable || live.questions.has(id)) {
      question.answer(null);
      return;
    }
    const cancel = this.#options.clock.after(permissionTimeoutMs, () => live.questions.deny(id));
    closed?.addEventListener("abort", () => live.questions.deny(id), { once: true });
    live.ask({
      ...question,
      answer: (optionId) => {
        cancel();
        limits.sign();
        question.answer(optionId);
      },
    });
    if (isInChat) await live.mark({ question: permissionNotice(question, permissionTimeoutMs) });
  }
}

function placeOf({ conversation, session, home }: TurnMaterial): EventPlace {
  return {
    conversationId: conversation.id,
    conversationKey: conversation.key,
    sessionId: session.id,
    homeKey: home.key,
  };
}
