import type { GatewayFacts } from "../context/settings.ts";
import { steeredText } from "../context/turn-context.ts";
import type { AgentSession } from "../runtime/runtime.ts";
import type { TurnMaterial } from "../store/readers.ts";
import { logFault } from "../util/log.ts";
import type { LiveTurn } from "./live-turn.ts";
import type { GatewayParts } from "./parts.ts";
import type { TurnAnswers } from "./turn-answers.ts";

export interface SteeringOptions extends GatewayParts {
  readonly facts: () => GatewayFacts;
  readonly answers: TurnAnswers;
}

/** Steering: hands waiting messages to the agent of a running turn, one after the other (T5). */
export class Steering {
  readonly #live: LiveTurn;
  readonly #material: TurnMaterial;
  readonly #session: AgentSession;
  readonly #options: SteeringOptions;
  #done: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(live: LiveTurn, material: TurnMaterial, session: AgentSession, options: SteeringOptions) {
    this.#live = live;
    this.#material = material;
    this.#session = session;
    this.#options = options;
  }

  /** Resolves when the agent has read, or refused, every message that was handed to it up to now. */
  get done(): Promise<void> {
    return this.#done;
  }

  /** The message stays in its waiting turn until the agent has read it. */
  steer(messageId: number): void {
    const { log } = this.#options;
    this.#done = this.#done.then(() => this.#handOver(messageId)).catch((cause) => logFault(log, cause));
  }

  /** Hands over nothing more. */
  close(): void {
    this.#isClosed = true;
  }

  async #handOver(messageId: number): Promise<void> {
    const { store, events, answers, config, facts } = this.#options;
    const live = this.#live;
    const { id: turnId, conversationId } = live.turn;
    const message = await store.message(messageId);
    if (this.#isClosed || live.stopReason !== null || message === null || this.#session.steer === undefined) return;
    // A message that joined its waiting turn would overtake the messages that wait there before it (T4).
    const fates = await store.fates(messageId);
    const own = fates.find((fate) => fate.conversationId === conversationId);
    if (own?.fate.fate !== "waiting") return;
    const text = steeredText(this.#material, message, { config: config(), facts: facts() });
    const taken = await this.#session.steer({ turnId, facts: "", text, missed: [] });
    if (taken !== "consumed" || !(await live.mark({ consumed: [messageId] }))) return;
    live.runsWith(((await store.turn(turnId)) ?? live.turn).authority);
    const waitedIn = own.turnId;
    if (waitedIn === null || (await store.turn(waitedIn)) !== null) return;
    // Its last message was taken in: that turn is gone, and whoever waits for it waits for this one.
    events.step({ kind: "taken_in", turnId: waitedIn });
    answers.takenIn(waitedIn, turnId);
  }
}
