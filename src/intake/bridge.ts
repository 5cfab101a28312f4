import type { Config } from "../config/config.ts";
import { type Person, speakerOf } from "../conversation/person.ts";
import { parseSessionKey } from "../conversation/session-key.ts";
import { titleOf } from "../conversation/title.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { cleanText, isBlank } from "../message/source.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { AdmitOutcome, ConversationRef, InboundEvent, SendEvent } from "../store/events.ts";
import type { ConversationReader } from "../store/readers.ts";
import type { BindingRow, SessionRow } from "../store/rows.ts";
import type { Turn } from "../store/turns.ts";
import type { Clock } from "../util/clock.ts";
import type { IdSource } from "../util/ids.ts";
import type { Log } from "../util/log.ts";
import { isInReach } from "./agent-reach.ts";
import type { EventIntake } from "./event-intake.ts";
import { findRoom, type RoomOfAgent, roomOf } from "./local-doors.ts";

/** Sending from one door into another, and the bindings that this sets (section 8 of docs/contract.md). */

export interface SendRequest {
  readonly person: Person;
  /** In any form that `findRoom` reads. */
  readonly room: string;
  /** Refused where the room speaks with another one. */
  readonly agent?: string;
  readonly text: string;
  /** Null binds nothing (H5). `hermes:<id>`: a session of Hermes' own (H13). */
  readonly sessionId: string | null;
  /** The agent of that session speaks itself, as far as it reaches (A9). */
  readonly as?: SessionRow;
  /** Others read along there, and may (H7). */
  readonly share?: boolean;
  /** The same id again is the same send. */
  readonly eventId?: string;
}

export interface BindRequest {
  readonly person: Person;
  readonly room: string;
  readonly agent?: string;
  readonly share?: boolean;
  readonly change:
    | { readonly kind: "clear" }
    | { readonly kind: "set"; readonly binding: "live" | "pinned"; readonly sessionId: string };
}

export interface JobRequest {
  /** Null: the session's own runtime. */
  readonly person: Person | null;
  readonly sessionId: string;
  readonly id: string;
  /** Null closes it. */
  readonly title: string | null;
}

export interface BridgeOptions {
  readonly config: () => Config;
  readonly store: ConversationReader;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Log;
  readonly intake: EventIntake;
  /** The kind of an agent's runtime, and its name; `lookUp` where it has sessions of its own to go on with. */
  readonly runtimeOf: (agent: string) => Pick<Runtime, "name" | "lookUp"> & { readonly kind: string };
}

/** Whose the sessions are that the configuration names. */
const OWNER: Person = { id: "owner", role: "owner" };

export class Bridge {
  readonly #options: BridgeOptions;

  constructor(options: BridgeOptions) {
    this.#options = options;
  }

  /** H1: speaks in a room as the agent, and binds the room to the session. Throws what `admit` refuses (H5, H7, H9). */
  async send(request: SendRequest): Promise<{ messageId: number; key: string; binding: BindingRow | null }> {
    const text = cleanText(request.text);
    if (isBlank(text))
      throw new TertuliaError("request_invalid", "There is nothing to send.", { remedy: "Send some text." });
    const { ref, agent, rules } = await this.#roomFor(request);
    const outcome = await this.#commit(agent, {
      ...this.#base(request),
      kind: "send",
      text,
      into: ref,
      ...(await this.#sessionOf(request.sessionId, { agent, person: request.person })),
      ttlMs: this.#ttlMs(agent),
      share: request.share === true,
      byAgent: request.as !== undefined,
      rules,
    });
    if (outcome.kind === "sent") return { messageId: outcome.messageId, key: outcome.key, binding: outcome.bound };
    if (outcome.kind === "duplicate" && outcome.messageId !== null) return this.#sentBefore(outcome.messageId, ref);
    throw refusal(outcome);
  }

  /** The same send again says what the first one did, as it stands now. */
  async #sentBefore(messageId: number, ref: ConversationRef) {
    const key = ref.key;
    const conversation = await this.#options.store.conversation(key);
    const bindings =
      conversation === null ? [] : await this.#options.store.bindings({ conversationId: conversation.id });
    return { messageId, key, binding: bindings.find((binding) => binding.kind === "live") ?? null };
  }

  /** Sets or clears a binding of a room by hand (H4). */
  async bind(request: BindRequest): Promise<{ key: string; binding: BindingRow | null; had: boolean }> {
    const { change } = request;
    const { ref, agent, rules } = this.#roomOf(request);
    const to = async (sessionId: string) => ({
      ...(await this.#sessionOf(sessionId, { agent, person: request.person })),
      ttlMs: this.#ttlMs(agent),
    });
    const outcome = await this.#commit(agent, {
      ...this.#base(request),
      kind: "bind",
      conversation: ref,
      change: change.kind === "clear" ? change : { ...change, ...(await to(change.sessionId)) },
      share: request.share === true,
      rules,
    });
    if (outcome.kind === "bound") return { key: outcome.key, binding: outcome.binding, had: true };
    if (outcome.kind === "cleared") return { key: outcome.key, binding: null, had: outcome.had };
    throw refusal(outcome);
  }

  /** R2: opens or closes a background job; says whether it was open. Throws what `admit` refuses. */
  async job({ person, sessionId, id, title }: JobRequest): Promise<{ had: boolean }> {
    const { ids, clock, config } = this.#options;
    const outcome = await this.#commit(config().defaultAgent, {
      kind: "job",
      eventId: ids.token(),
      freshId: ids.session(clock.now()),
      by: person === null ? null : speakerOf(person),
      sessionId,
      id,
      change: title === null ? { state: "closed" } : { state: "open", title: titleOf(title) || id },
    });
    if (outcome.kind === "job") return { had: outcome.had };
    throw refusal(outcome);
  }

  /** A job that a session's runtime has opened or closed. A late report, of a session that has ended meanwhile, changes nothing. */
  async jobReported(
    sessionId: string,
    { id, title, state }: { id: string; title: string; state: "open" | "closed" },
  ): Promise<void> {
    try {
      await this.job({ person: null, sessionId, id, title: state === "open" ? title : null });
    } catch (cause) {
      if (asTertuliaError(cause).code !== "session_ended") throw cause;
      this.#options.log.info({ session: sessionId, job: id }, "a job was reported for a session that has ended");
    }
  }

  /**
   * H13: a session of Hermes' own is asked for before anything is said, so that none is opened that Hermes does not have. Throws
   * `session_unknown`, `session_ended`, `runtime_failed`.
   */
  async #sessionOf(
    sessionId: string | null,
    { agent, person }: { agent: string; person: Person },
  ): Promise<Pick<SendEvent, "sessionId" | "foreign">> {
    const [, kind, id] = /^(hermes):(.*)$/s.exec(sessionId ?? "") ?? [];
    if (kind === undefined || id === undefined) {
      const session =
        sessionId === null || person.role !== "owner" ? null : await this.#options.store.session(sessionId);
      const foreign = session === null ? null : await this.#foreignOf(session);
      if (foreign !== null) await mustStand(foreign.ref, foreign.agent, foreign.own);
      return { sessionId };
    }
    const own = this.#options.runtimeOf(agent);
    if (own.kind !== kind)
      throw new TertuliaError(
        "session_unknown",
        `Agent ${agent} runs on ${own.kind}, not on ${kind}: it has no session ${shown(id)}.`,
        { remedy: OF_OTHER_PROGRAMS },
      );
    // Only the owner brings one in: to others it is refused unasked, whether or not it is there.
    if (person.role === "owner") await mustStand(id, agent, own);
    return { sessionId: null, foreign: { runtime: kind, id, name: own.name } };
  }

  /** What a session of ours is in its own program; null for one of our own, and for one that is gone on with by something else. */
  async #foreignOf({ id, agent, homeKey }: SessionRow) {
    const key = parseSessionKey(homeKey);
    const own = this.#options.runtimeOf(agent);
    if (key.form !== "foreign" || key.runtime !== own.kind) return null;
    const states = await this.#options.store.runtimeStates(id);
    return { agent, own, ref: states.find(({ runtime }) => runtime === own.name)?.ref ?? key.id };
  }

  /**
   * H10: whether the foreign session that a turn is about to run in is gone, or has ended, in its own program. Then it has ended here, and the
   * turn waits in its conversation's own. Of a program that cannot be asked nothing is known.
   */
  async hasLost({ id, bound, sessionId }: Turn): Promise<boolean> {
    const { store: reader, ids, clock } = this.#options;
    const session = bound === null ? null : await reader.session(sessionId);
    const foreign = session === null ? null : await this.#foreignOf(session);
    if (foreign === null) return false;
    const standing = await foreign.own.lookUp?.(foreign.ref).catch(() => undefined);
    if (standing === undefined || standing === "open") return false;
    const event = { kind: "lost", freshId: ids.session(clock.now()), turnId: id } as const;
    return (await this.#commit(foreign.agent, event)).kind === "cleared";
  }

  /** H4: the session here that an agent's `default_session` names. Throws why it cannot be spoken in. */
  async defaultSession(agent: string, named: string): Promise<string> {
    const { store: reader, ids, clock } = this.#options;
    const { foreign } = await this.#sessionOf(named, { agent, person: OWNER });
    if (foreign !== undefined) {
      const event = { kind: "adopt", freshId: ids.session(clock.now()), by: speakerOf(OWNER), foreign } as const;
      const outcome = await this.#commit(agent, event);
      if (outcome.kind !== "adopted") throw refusal(outcome);
      return this.defaultSession(agent, outcome.sessionId);
    }
    const session = await reader.session(named);
    if (session === null) throw new TertuliaError("session_unknown", `There is no session ${named}.`);
    if (session.endedAt !== null) throw new TertuliaError("session_ended", `Session ${named} has ended.`);
    if (session.agent !== agent)
      throw new TertuliaError("agent_mismatch", `Session ${named} belongs to agent ${session.agent}, not to ${agent}.`);
    return session.id;
  }

  #roomOf({ room, person, agent }: { room: string; person: Person; agent?: string }): RoomOfAgent {
    return spokenBy(agent, room, roomOf(this.#options.config(), { room, person, agent }));
  }

  /** For a person by the person's rights, for an agent by its own reach. */
  async #roomFor({ as: session, ...request }: SendRequest): Promise<RoomOfAgent> {
    if (session === undefined) return this.#roomOf(request);
    const { room } = request;
    const { agent } = session;
    const found = spokenBy(agent, room, findRoom(this.#options.config(), { room, agent }));
    if (await isInReach(found, session, { config: this.#options.config(), reader: this.#options.store })) return found;
    throw new TertuliaError("forbidden", "An agent speaks in its session's own room or chat, and in its home.", {
      remedy: "Send it with a person's token, or make that room the agent's home: home_room, or /sethome there.",
    });
  }

  async #commit(agent: string, event: InboundEvent): Promise<AdmitOutcome> {
    const [outcome] = await this.#options.intake.commit({ account: "bridge", platform: "console", agent }, [event]);
    return outcome!;
  }

  #base({ person, eventId }: { person: Person; eventId?: string }) {
    const { ids, clock } = this.#options;
    return { ...(eventId === undefined ? {} : { eventId }), freshId: ids.session(clock.now()), by: speakerOf(person) };
  }

  #ttlMs(agent: string): number {
    const config = this.#options.config();
    return config.agents[agent]?.handoffTtlMs ?? config.handoff.ttlMs;
  }
}

function spokenBy(agent: string | undefined, room: string, found: RoomOfAgent): RoomOfAgent {
  if (agent === undefined || agent === found.agent) return found;
  throw new TertuliaError("agent_mismatch", `In ${room} speaks agent ${found.agent}, not ${agent}.`);
}

const OF_OTHER_PROGRAMS =
  "Name a session of this gateway (`tertulia sessions list`); those of Hermes' own are for agents with a runtime of `kind: hermes`.";

/** Throws where a session of the agent's own program does not go on there. */
async function mustStand(id: string, agent: string, { lookUp }: Pick<Runtime, "lookUp">): Promise<void> {
  const standing = await lookUp?.(id);
  if (standing === undefined)
    throw new TertuliaError(
      "runtime_failed",
      `The runtime of agent ${agent} cannot be asked for session ${shown(id)}.`,
      {
        remedy: OF_OTHER_PROGRAMS,
      },
    );
  if (standing === "unknown")
    throw new TertuliaError("session_unknown", `The Hermes of agent ${agent} has no session ${shown(id)}.`, {
      remedy: "`hermes sessions list` shows those it has; with --no-session the words are said and nothing is bound.",
    });
  if (standing === "ended")
    throw new TertuliaError("session_ended", `Session ${shown(id)} has ended in the Hermes of agent ${agent}.`, {
      remedy: "Name a session that goes on; `hermes sessions list` shows them.",
    });
}

/** As a sentence can hold it. */
function shown(id: string): string {
  return /^[\x21-\x7e]{1,120}$/.test(id) ? id : JSON.stringify(id.slice(0, 120));
}

function refusal(outcome: AdmitOutcome): TertuliaError {
  if (outcome.kind === "rejected") return new TertuliaError(outcome.code, outcome.sentence);
  if (outcome.kind === "duplicate")
    return new TertuliaError("idempotency_conflict", "This was sent before; it is not sent again.");
  return new TertuliaError("internal", `A send came out of admit as ${outcome.kind}.`);
}
