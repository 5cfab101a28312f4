import { type Config, rulesFor } from "../config.ts";
import { type Person, speakerOf } from "../conversation/person.ts";
import {
  type ChatKeyParts,
  ownDoorChatId,
  parseOwnDoorChatId,
  parseSessionKey,
  sessionKeyFor,
} from "../conversation/session-key.ts";
import { TertuliaError } from "../errors.ts";
import type { Notice } from "../message/notice.ts";
import { accountId, cleanText, type Source } from "../message/source.ts";
import type { Target } from "../message/target.ts";
import { renderNotice } from "../reply/render-notice.ts";
import type {
  AdmitOutcome,
  AdmitRules,
  ConversationRef,
  ConversationRow,
  DeliveryRow,
  InboundEvent,
  MessageEvent,
} from "../store/store.ts";
import { answerCommand, type CommandMeans, runtimeAt } from "../turn/command/answer-command.ts";
import type { IdSource } from "../util/ids.ts";
import type { EventIntake } from "./event-intake.ts";

/** The doors of one's own: terminal, web page, HTTP (K19). They have no account elsewhere, and their replies are pulled. */

const OWN_PLATFORMS = ["console", "web", "http"] as const;
export type OwnPlatform = (typeof OWN_PLATFORMS)[number];

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

/** What became of words: a turn to wait for, or a command's answer at once. Refusals are thrown. */
export type Said =
  | {
      readonly kind: "turn";
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
      /** The turn of a reset's first message. */
      readonly turnId: number | null;
    };

interface Place {
  readonly source: Source;
  readonly target: Target;
  readonly rules: AdmitRules;
  readonly key: string;
  readonly agent: string;
  readonly into?: string;
}

export interface OwnDoorsOptions extends CommandMeans {
  readonly ids: IdSource;
  readonly intake: EventIntake;
}

export class OwnDoors {
  readonly #options: OwnDoorsOptions;

  constructor(options: OwnDoorsOptions) {
    this.#options = options;
  }

  /** Words of a person at an own door, or into a conversation by its key. Resolves when they are durable (T2). */
  async say(request: SayRequest): Promise<Said> {
    const { clock, ids, intake } = this.#options;
    const text = cleanText(request.text);
    if (text.trim() === "")
      throw new TertuliaError("request_invalid", "The message is empty.", { remedy: "Send some text." });
    const place = await this.#placeOf(request);
    const { key, agent, rules, ...where } = place;
    const conversation = await this.#options.reader.conversation(key);
    const { platform } = place.source;
    const { name: runtime } = runtimeAt(this.#options.config, { agent, key, platform, conversation });
    const event = await this.#eventFor(
      {
        ...where,
        rules: { ...rules, about: this.#options.about(agent, runtime) },
        freshId: ids.session(clock.now()),
        speaker: speakerOf(request.person),
        text,
        saidAt: clock.now(),
        ...(request.idempotency === undefined ? {} : { idempotency: request.idempotency }),
      },
      { ...place, conversation },
      request,
    );
    const { account } = place.source;
    const [outcome] = await intake.commit({ account, platform, agent }, [event]);
    return this.#saidOf(outcome!);
  }

  async #eventFor(
    base: Omit<MessageEvent, "kind" | "addressed" | "once">,
    place: Place & { readonly conversation: ConversationRow | null },
    request: SayRequest,
  ): Promise<InboundEvent> {
    const answer = await answerCommand(base.text, { ...place, speaker: base.speaker }, this.#options);
    if (answer === null)
      return {
        ...base,
        kind: "message",
        addressed: true,
        ...(request.once === undefined ? {} : { once: request.once }),
      };
    return { ...base, kind: "command", ...answer };
  }

  /** The source, target, key and settings of a door, or of a conversation named by its key. */
  async #placeOf({ door, person, agent }: SayRequest): Promise<Place> {
    const { config, reader } = this.#options;
    if ("platform" in door) return placeAt(config, agent, door.platform, person, door.name);
    const named = ownDoorOf(door.key);
    const parts = parseSessionKey(door.key);
    const isOwn = named?.personId === person.id || (parts.form === "person" && parts.personId === person.id);
    if (person.role !== "owner" && !isOwn)
      throw new TertuliaError("forbidden", "This conversation belongs to somebody else.");
    if (named !== null && config.people[named.personId] !== undefined) {
      return placeAt(config, named.agent, named.platform, { id: named.personId }, named.name);
    }
    const conversation = await reader.conversation(door.key);
    if (conversation === null) throw new TertuliaError("conversation_unknown", `There is no conversation ${door.key}.`);
    const { target, key } = conversation;
    const source = ownerSource(target, person);
    return {
      source,
      target,
      rules: rulesFor(config, { agent: conversation.agent, source, key }).rules,
      key,
      agent: conversation.agent,
      into: key,
    };
  }

  /** A retry under a known key attaches to its turn (T3); a command's answer is read back. */
  async #repeated({ messageId, conversationId, turnId }: Extract<AdmitOutcome, { kind: "duplicate" }>): Promise<Said> {
    const { reader } = this.#options;
    const conversation = conversationId === null ? null : await reader.conversationById(conversationId);
    if (messageId === null || conversation === null) {
      throw new TertuliaError("message_unknown", "This message was taken in before, but is not kept any more.");
    }
    const { key } = conversation;
    const turn = turnId === null ? null : await reader.turn(turnId);
    if (turn !== null) return { kind: "turn", messageId, key, sessionId: turn.sessionId, turnId: turn.id, told: [] };
    const reply = await reader.commandReply(messageId);
    if (reply === null)
      throw new TertuliaError("queue_full", "This message was refused: too many were waiting before it.");
    return { kind: "command", messageId, key, sessionId: conversation.currentSession, reply, turnId: null };
  }

  async #saidOf(outcome: AdmitOutcome): Promise<Said> {
    switch (outcome.kind) {
      case "queued":
      case "joined": {
        const { messageId, key, sessionId, turnId, notices } = outcome;
        return { kind: "turn", messageId, key, sessionId, turnId, told: notices };
      }
      case "commanded": {
        const { messageId, key, sessionId, turnId, reply } = outcome;
        return { kind: "command", messageId, key, sessionId, turnId, reply: reply.body as Notice };
      }
      case "duplicate":
        return this.#repeated(outcome);
      case "refused":
        throw new TertuliaError(outcome.code, renderNotice(outcome.notice));
      case "rejected":
        throw new TertuliaError(outcome.code, outcome.sentence);
      default:
        throw new TertuliaError("internal", `A message came out of admit as ${outcome.kind}.`);
    }
  }
}

/** A door of one's own: the chat is `person/name`. */
export function ownDoor(
  platform: OwnPlatform,
  person: { id: string; name?: string },
  name: string,
): { source: Source; target: Target } {
  const chatId = ownDoorChatId(person.id, name);
  const userName = person.name === undefined ? {} : { userName: person.name };
  return {
    source: { platform, account: platform, chatId, chatType: "dm", userId: person.id, ...userName, isBot: false },
    target: { door: "pull", platform, account: platform, chatId },
  };
}

/** The own door that a key names, or null for any other conversation. */
export function ownDoorOf(
  key: string,
): { agent: string; platform: OwnPlatform; personId: string; name: string } | null {
  const parts = parseSessionKey(key);
  if (parts.form !== "chat" || !isOwnPlatform(parts.platform)) return null;
  const own = parseOwnDoorChatId(parts.chatId);
  return own === undefined ? null : { agent: parts.agent, platform: parts.platform, ...own };
}

function isOwnPlatform(platform: string): platform is OwnPlatform {
  return OWN_PLATFORMS.some((own) => own === platform);
}

function placeAt(
  config: Config,
  agent: string,
  platform: OwnPlatform,
  person: { id: string; name?: string },
  name: string,
): Place {
  const door = ownDoor(platform, person, name);
  const { source } = door;
  // Two agents at one terminal are two chats: each has its own lane.
  const target = { ...door.target, scopeId: agent };
  const { rules } = rulesFor(config, { agent, source, personId: person.id });
  const { key } = sessionKeyFor({ agent, source, rules: rules.keys, personId: person.id });
  return { source, target, key, agent, rules };
}

/** The owner speaks in a conversation of another door: in its place, as himself. */
function ownerSource(target: Target, person: Person): Source {
  return {
    platform: target.platform,
    account: target.account,
    chatId: target.chatId,
    chatType: "dm",
    userId: person.id,
    isBot: false,
  };
}

/** What a room is for one of its agents: where its words go, and by which rules. */
export interface RoomOfAgent {
  readonly ref: ConversationRef;
  readonly agent: string;
  readonly rules: AdmitRules;
}

/**
 * A room by its configured name, its chat's id, or its key (H1). An own door and a chat of the agent's accounts may be new, any other must
 * exist. Throws `conversation_unknown`, `forbidden`.
 */
export function roomOf(
  config: Config,
  { room, person, agent }: { room: string; person: Person; agent?: string | undefined },
): RoomOfAgent {
  const key = config.rooms[room]?.conversation ?? room;
  if (!key.startsWith("agent:")) return chatOf(config, { room, person, agent });
  const own = ownDoorOf(key);
  if (person.role !== "owner" && own?.personId !== person.id)
    throw new TertuliaError("forbidden", "This conversation belongs to somebody else.");
  if (own !== null) {
    const { source, target, rules, agent } = placeAt(config, own.agent, own.platform, { id: own.personId }, own.name);
    return { ref: { kind: "source", key, source, target }, agent, rules };
  }
  const parts = parseSessionKey(key);
  const { source } = ownDoor("console", person, "bridge");
  const at = parts.form === "chat" ? { ...source, ...inChat(parts) } : source;
  return {
    ref: { kind: "key", key },
    agent: parts.agent,
    rules: rulesFor(config, { agent: parts.agent, source: at, key }).rules,
  };
}

function inChat({ platform, chatId, chatType }: ChatKeyParts): Pick<Source, "platform" | "chatId" | "chatType"> {
  return { platform, chatId, chatType };
}

/** A chat that several agents can be in: the one named speaks there, else the only one that is there. */
function chatOf(
  config: Config,
  { room, person, agent }: { room: string; person: Person; agent?: string | undefined },
): RoomOfAgent {
  const unknown = (sentence: string) =>
    new TertuliaError("conversation_unknown", sentence, {
      remedy:
        "Name a room of the configuration (rooms:), or give a conversation key; `tertulia sessions list --json` shows them.",
    });
  const named = config.rooms[room]?.chat;
  const accounts = Object.values(config.agents).flatMap(({ name, accounts }) =>
    accounts.map((account) => ({ agent: name, account })),
  );
  const isThere = ({ account }: (typeof accounts)[number]): boolean =>
    named === undefined
      ? account.rooms.some(({ jid }) => jid === accountId(account.platform, room))
      : account.platform === named.platform && account.rooms.some(({ jid }) => jid === named.id);
  const there = accounts.filter(isThere);
  if (named === undefined && there.length === 0) throw unknown(`There is no room ${JSON.stringify(room)}.`);
  if (person.role !== "owner") throw new TertuliaError("forbidden", "This conversation belongs to somebody else.");
  const found = there.filter((one) => agent === undefined || one.agent === agent);
  const only =
    agent === undefined && found.length > 1 ? found.filter((one) => one.agent === config.defaultAgent) : found;
  if (only[0] === undefined) {
    throw unknown(
      found.length > 1
        ? `In ${room} are ${found.map((one) => one.agent).join(", ")}: it is not said which of them speaks.`
        : agent === undefined
          ? `No agent has an account in ${room}.`
          : `Agent ${agent} has no account in ${room}.`,
    );
  }
  const { account } = only[0];
  const chatId = named?.id ?? accountId(account.platform, room);
  // As its channel names the place.
  const at = { platform: account.platform, account: account.id, scopeId: chatId.split("@")[1] ?? "", chatId };
  const source: Source = { ...at, chatType: "group", isBot: false };
  const target: Target = { door: "push", ...at };
  const { rules } = rulesFor(config, { agent: only[0].agent, source });
  const { key } = sessionKeyFor({ agent: only[0].agent, source, rules: rules.keys });
  return { ref: { kind: "source", key, source, target }, agent: only[0].agent, rules };
}
