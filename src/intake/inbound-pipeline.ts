import { type Config, rulesFor } from "../config/config.ts";
import { factsFor } from "../conversation/agent-facts.ts";
import {
  type AccessPolicy,
  accountKey,
  idForAll,
  mayEnter,
  mayStillSpeak,
  meaningOf,
  type SeenByAccounts,
  speakerOfWho,
  type Who,
  whoWrote,
} from "../conversation/gate.ts";
import type { Person, Speaker } from "../conversation/person.ts";
import { placeOf } from "../conversation/place.ts";
import { sessionKeyFor } from "../conversation/session-key.ts";
import { asTertuliaError, type ErrorCode, TertuliaError } from "../errors.ts";
import type { Message } from "../message/message.ts";
import type { PlatformEvent, PlatformMessage } from "../message/platform-event.ts";
import { cleanSource, cleanText, isLocalDoor, type Platform, type Source, withoutBlankIds } from "../message/source.ts";
import type { InboundEvent, MessageEvent } from "../store/events.ts";
import type { ConversationRow } from "../store/rows.ts";
import { plainAnswer } from "../turn/command/allow.ts";
import { answerCommand, type CommandMeans, isOwnersAlone, runtimeAt } from "../turn/command/answer-command.ts";
import type { IdSource } from "../util/ids.ts";
import { type Log, logFault } from "../util/log.ts";
import type { EventIntake, InboxAccount } from "./event-intake.ts";
import type { StrangerLog } from "./stranger-log.ts";

export interface InboundPipelineOptions extends CommandMeans {
  readonly ids: IdSource;
  readonly intake: EventIntake;
  readonly accounts: {
    /** What our accounts are shown of the author of a source (G4, G7). */
    seen(source: Source): SeenByAccounts;
  };
  /** Notes who was not let in. */
  readonly strangers: StrangerLog;
  readonly log: Log;
}

/** It was not the event's fault: the channel brings it again. */
const RETRIED: readonly ErrorCode[] = ["store_unavailable", "store_corrupt", "stale_claim", "gateway_stopping"];

type Spoken = Exclude<PlatformEvent, { kind: "refused" }>;

/** From what a platform says to what becomes of it: through the gate, into one transaction for each call, in the order of the calls. */
export class InboundPipeline {
  readonly #options: InboundPipelineOptions;
  /** The calls of an account follow each other. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(options: InboundPipelineOptions) {
    this.#options = options;
  }

  /** Resolves when it is durable (T2). */
  async receive(account: InboxAccount, heard: readonly PlatformEvent[], cursor?: string): Promise<void> {
    const before = this.#turns.get(account.account) ?? Promise.resolve();
    const taken = before.catch(() => undefined).then(() => this.#take(account, heard, cursor));
    const settled = taken
      .catch(() => undefined)
      .finally(() => {
        if (this.#turns.get(account.account) === settled) this.#turns.delete(account.account);
      });
    this.#turns.set(account.account, settled);
    await taken;
  }

  async #take(account: InboxAccount, heard: readonly PlatformEvent[], cursor?: string): Promise<void> {
    // One after the other, not in one batch: a mention may stand in the message before the reply to it.
    const events: InboundEvent[] = [];
    for (const one of heard) {
      const event = await this.#eventOf(account, one);
      if (event !== null) events.push(event);
    }
    await this.#options.intake.commit(account, events, cursor);
  }

  async #eventOf(account: InboxAccount, heard: PlatformEvent): Promise<InboundEvent | null> {
    const { clock, ids } = this.#options;
    const base = { eventId: heard.eventId, freshId: ids.session(clock.now()) };
    if (heard.kind === "refused") {
      const { code, sentence, raw } = heard;
      return { ...base, kind: "refused", code, sentence, ...(raw === undefined ? {} : { raw }) };
    }
    try {
      const judged = await this.#judged(account, cleaned(heard));
      return judged === null ? null : ({ ...base, ...judged } as InboundEvent);
    } catch (cause) {
      const error = asTertuliaError(cause);
      if (RETRIED.includes(error.code)) throw cause;
      // No poison loop: one that cannot be judged is kept as refused, and the cursor passes it (T2).
      if (error.code === "internal") logFault(this.#options.log, cause);
      return { ...base, kind: "refused", code: error.code, sentence: error.message };
    }
  }

  /** Null: there is nothing to be stored. */
  async #judged(account: InboxAccount, heard: Spoken): Promise<object | null> {
    const { config, accounts, strangers } = this.#options;
    const house = accessPolicyFor(config(), account.agent, account.platform);
    const source = withVouched(heard);
    const who = whoWrote(heard, house, accounts.seen(source));
    const speaker = speakerOfWho(who, source, account.agent);
    if (heard.kind === "reader") {
      const { alias } = heard;
      return { kind: "reader", source, author: speaker.author, ...(alias === undefined ? {} : { alias }) };
    }
    if (!mayEnter(who, source, house.access)) {
      strangers.note(account, source);
      const reader = source.chatType === "dm" ? {} : { reader: { source, author: speaker.author } };
      return { kind: "refused", code: "access", sentence: "Whoever wrote this is not let in.", ...reader };
    }
    switch (heard.kind) {
      case "edit":
        return { kind: "edit", source, speaker, messageId: heard.messageId, text: heard.text };
      case "delete": {
        const { messageId, isModeration } = heard;
        return { kind: "delete", source, speaker, messageId, isModeration };
      }
      case "message":
        break;
    }
    if (who.kind === "own") {
      const { text, saidAt, originId, isHistory } = heard;
      return { kind: "own", source, text, saidAt, isHistory, ...(originId === undefined ? {} : { originId }) };
    }
    return this.#words(account, { ...heard, source }, { who, speaker, house });
  }

  async #words(
    { agent, account }: InboxAccount,
    heard: PlatformMessage,
    { who, speaker, house }: { who: Who; speaker: Speaker; house: AccessPolicy },
  ): Promise<object> {
    const { about, store: reader } = this.#options;
    const config = this.#options.config();
    const { source, text, saidAt, target, replyTo, originId } = heard;
    const personId = speaker.person?.id;
    const { rules } = rulesFor(config, { agent, source, ...(personId === undefined ? {} : { personId }) });
    const { key } = sessionKeyFor({ agent, source, rules: rules.keys, personId });
    const conversation = await reader.conversation(key);
    const { name: runtime } = runtimeAt(config, { agent, key, platform: source.platform, conversation });
    const isReplyToOwn = replyTo !== undefined && (await this.#isOwn(heard, { agent, account }));
    const meaning = meaningOf(heard, who, house, isReplyToOwn);
    const base: Omit<MessageEvent, "kind" | "freshId" | "addressed"> = {
      source,
      speaker,
      text,
      saidAt,
      target,
      rules: { ...rules, about: factsFor(about(agent, runtime), isOwnersAlone({ speaker, source, conversation })) },
    };
    const command = meaning.kind === "command" ? meaning.text : this.#plainAnswer(meaning.reply, conversation);
    if (command !== null) {
      const answer = await answerCommand(command, { agent, key, source, speaker, conversation }, this.#options);
      if (answer !== null) return { ...base, ...answer, kind: "command" };
    }
    return {
      ...base,
      kind: "message",
      addressed: meaning.kind === "command" || meaning.addressed,
      ...(heard.isHistory ? { isHistory: true } : {}),
      ...(replyTo === undefined ? {} : { replyTo: replyTo.messageId }),
      // Of a stranger's it would say nothing: anybody can repeat an id (G3).
      ...(originId === undefined || who.kind !== "agent" ? {} : { originId }),
    };
  }

  /** Words that answer what the agent asks leave for, said to it. */
  #plainAnswer(text: string | undefined, conversation: ConversationRow | null): string | null {
    if (text === undefined || conversation === null) return null;
    const isAsking = this.#options.turns.questionsOf(conversation.id).some(({ isAskedThere }) => isAskedThere);
    return isAsking ? plainAnswer(text) : null;
  }

  /** G3: by what was delivered, and where that is not known, by what the platform says. */
  async #isOwn({ source, replyTo }: PlatformMessage, { agent, account }: { agent: string; account: string }) {
    const place = placeOf({ agent, source });
    const author = await this.#options.store.authorOf({ place, externalId: replyTo!.messageId });
    if (author === null) return replyTo!.isOwn;
    return author.kind === "account" ? author.id === account : author.kind === "agent" && author.id === agent;
  }
}

function cleaned<H extends Spoken>(heard: H): H {
  const text = "text" in heard ? { text: cleanText(heard.text) } : {};
  return { ...heard, source: withoutBlankIds(cleanSource(heard.source)), ...text };
}

/** What the service vouches for is the stable id of an occupant. */
function withVouched({ source, verifiedUser }: Spoken): Source {
  if (verifiedUser === undefined || source.chatType === "dm") return source;
  return { ...source, userIdAlt: idForAll(source, verifiedUser) };
}

/** What the owner decided of one agent on one platform. */
function accessPolicyFor(config: Config, agentName: string, platform: Platform): AccessPolicy {
  const agent = config.agents[agentName];
  if (agent === undefined) throw new TertuliaError("agent_unknown", `There is no agent ${agentName} any more.`);
  return {
    agent,
    names: Object.values(config.agents).flatMap(({ names }) => names),
    agents: new Map(
      Object.values(config.agents).flatMap(({ name, accounts }) =>
        accounts.map(({ platform, id }) => [accountKey(platform, id), name] as const),
      ),
    ),
    people: peopleOf(config),
    access: config.access[platform] ?? null,
  };
}

function peopleOf(config: Config): Map<string, Person> {
  return new Map(
    Object.values(config.people).flatMap(({ id, role, name, accounts }) =>
      accounts.map((account) => [
        accountKey(account.platform, account.id),
        { id, role, ...(name === undefined ? {} : { name }) },
      ]),
    ),
  );
}

/** A3: whether a message that was let in would be let in now. What came by no account of the configuration is not the gate's. */
export function isStillLetIn(
  config: Config,
  { author, source }: Message,
  seenByAccounts: (source: Source) => SeenByAccounts,
): boolean {
  if (source === null) return true;
  if (isLocalDoor(source.platform)) return author.kind !== "person" || config.people[author.id] !== undefined;
  const isGated = Object.values(config.agents).some(({ accounts }) =>
    accounts.some(({ platform, id }) => platform === source.platform && id === source.account),
  );
  if (!isGated) return true;
  const house = { people: peopleOf(config), access: config.access[source.platform] ?? null };
  return mayStillSpeak(author, source, {
    ...house,
    knows: (id) => config.people[id] !== undefined,
    address: seenByAccounts(source).address,
  });
}
