import { type AccountConfig, type Config, rulesFor } from "../config/config.ts";
import { factsFor } from "../conversation/agent-facts.ts";
import { type Person, speakerOf } from "../conversation/person.ts";
import {
  type ChatKeyParts,
  localDoorChatId,
  parseLocalDoorChatId,
  parseSessionKey,
  sessionKeyFor,
} from "../conversation/session-key.ts";
import { TertuliaError } from "../errors.ts";
import type { Notice } from "../message/notice.ts";
import {
  accountId,
  cleanText,
  isBlank,
  isLocalDoor,
  PLATFORMS,
  type Platform,
  type Source,
} from "../message/source.ts";
import { isSameTarget, type Target } from "../message/target.ts";
import type {
  AdmitOutcome,
  AdmitRules,
  CommandEvent,
  ConversationRef,
  MessageEvent,
  RequestKey,
} from "../store/events.ts";
import type { ConversationRow, DeliveryRow } from "../store/rows.ts";
import { renderNotice } from "../text/render-notice.ts";
import { answerCommand, type CommandMeans, isOwnersAlone, runtimeAt } from "../turn/command/answer-command.ts";
import type { IdSource } from "../util/ids.ts";
import type { EventIntake } from "./event-intake.ts";

/** The doors of one's own: terminal, web page, HTTP (K19). They have no account elsewhere, and their replies are pulled. */

const LOCAL_PLATFORMS = ["console", "web", "http"] as const;
export type LocalPlatform = (typeof LOCAL_PLATFORMS)[number];

export const SAY_KINDS = ["line", "words"] as const;
export type SayKind = (typeof SAY_KINDS)[number];

export interface SayRequest {
  readonly person: Person;
  readonly agent: string;
  /** An own door, or an existing conversation of any door by its key. */
  readonly door: { readonly platform: LocalPlatform; readonly name: string } | { readonly key: string };
  readonly text: string;
  readonly idempotency?: RequestKey;
  /** What the person's program would have the agent be. */
  readonly instructions?: string;
  /** S7: `words` are never a command, whatever they begin with. A line may be one. */
  readonly as?: SayKind;
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

export interface LocalDoorsOptions extends CommandMeans {
  readonly ids: IdSource;
  readonly intake: EventIntake;
}

export class LocalDoors {
  readonly #options: LocalDoorsOptions;

  constructor(options: LocalDoorsOptions) {
    this.#options = options;
  }

  /** Words of a person at an own door, or into a conversation by its key. Resolves when they are durable (T2). */
  async say(request: SayRequest): Promise<Said> {
    const { clock, ids, intake } = this.#options;
    const text = cleanText(request.text);
    if (isBlank(text))
      throw new TertuliaError("request_invalid", "The message is empty.", { remedy: "Send some text." });
    const place = await this.#placeOf(request);
    const { key, agent, rules, ...where } = place;
    const conversation = await this.#options.store.conversation(key);
    const { platform } = place.source;
    const { name: runtime } = runtimeAt(this.#options.config(), { agent, key, platform, conversation });
    const speaker = speakerOf(request.person);
    const isPrivate = isOwnersAlone({ speaker, source: place.source, conversation });
    const event = await this.#eventFor(
      {
        ...where,
        rules: { ...rules, about: factsFor(this.#options.about(agent, runtime), isPrivate) },
        freshId: ids.session(clock.now()),
        speaker,
        text,
        saidAt: clock.now(),
        ...(request.idempotency === undefined ? {} : { idempotency: request.idempotency }),
      },
      { ...place, conversation },
      request,
    );
    const { account } = place.source;
    const [outcome] = await intake.commit({ account, platform, agent }, [event]);
    return this.#saidOf(outcome!, event);
  }

  /** What was said under a request's key, as its repeat finds it; null where nothing was. */
  async saidUnder(personId: string, key: string): Promise<Said | null> {
    const found = await this.#options.store.requestUnder({ personId, key });
    return found === null ? null : this.#repeated(found);
  }

  async #eventFor(
    base: Omit<MessageEvent, "kind" | "addressed" | "once">,
    place: Place & { readonly conversation: ConversationRow | null },
    request: SayRequest,
  ): Promise<MessageEvent | CommandEvent> {
    const answer =
      request.as === "words"
        ? null
        : await answerCommand(base.text, { ...place, speaker: base.speaker }, this.#options);
    if (answer === null)
      return {
        ...base,
        kind: "message",
        addressed: true,
        ...(request.once === undefined ? {} : { once: request.once }),
        ...(request.instructions === undefined ? {} : { instructions: cleanText(request.instructions) }),
      };
    return { ...base, kind: "command", ...answer };
  }

  /** The source, target, key and settings of a door, or of a conversation named by its key. */
  async #placeOf({ door, person, agent }: SayRequest): Promise<Place> {
    const { store: reader } = this.#options;
    const config = this.#options.config();
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
    const { store: reader } = this.#options;
    const conversation = conversationId === null ? null : await reader.conversationById(conversationId);
    const turn = turnId === null ? null : await reader.turn(turnId);
    const unknown = () =>
      new TertuliaError("message_unknown", "This message was taken in before, but is not kept any more.");
    if (messageId === null || conversation === null) throw unknown();
    const { key } = conversation;
    if (turn !== null) return { kind: "turn", messageId, key, sessionId: turn.sessionId, turnId: turn.id, told: [] };
    const reply = await reader.commandReply(messageId);
    if (reply === null) throw unknown();
    return { kind: "command", messageId, key, sessionId: conversation.currentSession, reply, turnId: null };
  }

  async #saidOf(outcome: AdmitOutcome, { target }: { readonly target: Target }): Promise<Said> {
    switch (outcome.kind) {
      case "queued":
      case "joined": {
        const { messageId, key, sessionId, turnId, notices } = outcome;
        // Other doors are told of it too, in rows of their own (H10).
        const told = notices.filter((row) => isSameTarget(row.target, target));
        return { kind: "turn", messageId, key, sessionId, turnId, told };
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
  platform: LocalPlatform,
  person: { id: string; name?: string },
  name: string,
): { source: Source; target: Target } {
  const chatId = localDoorChatId(person.id, name);
  const userName = person.name === undefined ? {} : { userName: person.name };
  return {
    source: { platform, account: platform, chatId, chatType: "dm", userId: person.id, ...userName, isBot: false },
    target: { door: "pull", platform, account: platform, chatId },
  };
}

/** The own door that a key names, or null for any other conversation. */
export function ownDoorOf(
  key: string,
): { agent: string; platform: LocalPlatform; personId: string; name: string } | null {
  const parts = parseSessionKey(key);
  if (parts.form !== "chat" || !isOwnPlatform(parts.platform)) return null;
  const own = parseLocalDoorChatId(parts.chatId);
  return own === undefined ? null : { agent: parts.agent, platform: parts.platform, ...own };
}

function isOwnPlatform(platform: string): platform is LocalPlatform {
  return LOCAL_PLATFORMS.some((own) => own === platform);
}

function placeAt(
  config: Config,
  agent: string,
  platform: LocalPlatform,
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

/** What a room or a chat is for one of its agents: where its words go, and by which rules. */
export interface RoomOfAgent {
  readonly ref: ConversationRef;
  readonly agent: string;
  readonly rules: AdmitRules;
}

interface RoomName {
  /** A name under `rooms:`, the id of a chat that an account is in, `platform:id`, or a conversation's key. */
  readonly room: string;
  readonly agent?: string | undefined;
}

/** The room as that person may speak in it. Throws as `findRoom`, and `forbidden`. */
export function roomOf(config: Config, { person, ...name }: RoomName & { person: Person }): RoomOfAgent {
  const found = findRoom(config, name);
  if (person.role !== "owner" && ownDoorOf(found.ref.key)?.personId !== person.id)
    throw new TertuliaError("forbidden", "This conversation belongs to somebody else.");
  return found;
}

/**
 * Every form that a room or a chat is named by, in the one place that reads it (H1). An own door, and a room or a person that an account
 * of the agent reaches, may be new; what is named by any other key must exist. Throws `conversation_unknown`, `source_invalid`.
 */
export function findRoom(config: Config, { room, agent }: RoomName): RoomOfAgent {
  const key = config.rooms[room]?.conversation ?? room;
  if (!key.startsWith("agent:")) return chatOf(config, { room, agent });
  const own = ownDoorOf(key);
  if (own !== null) {
    const { source, target, rules } = placeAt(config, own.agent, own.platform, { id: own.personId }, own.name);
    return { ref: { kind: "source", key, source, target }, agent: own.agent, rules };
  }
  const parts = parseSessionKey(key);
  const { source } = ownDoor("console", { id: "owner" }, "bridge");
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

interface Reached {
  readonly agent: string;
  readonly account: AccountConfig;
}

/** A chat that several agents can be in: the one named speaks there, else the default one, else the only one that is there. */
function chatOf(config: Config, { room, agent }: RoomName): RoomOfAgent {
  const accounts = Object.values(config.agents).flatMap(({ name, accounts }) =>
    accounts.map((account): Reached => ({ agent: name, account })),
  );
  const named = config.rooms[room]?.chat ?? platformAndId(room);
  const inRoom = accounts.filter(({ account: { platform, rooms } }) =>
    rooms.some(
      ({ jid }) => (named === null || named.platform === platform) && jid === (named?.id ?? accountId(platform, room)),
    ),
  );
  const isOfRooms = (id: string) =>
    accounts.some(({ account }) => account.rooms.some(({ jid }) => jid.split("@")[1] === id.split("@")[1]));
  if (named !== null && inRoom.length === 0 && !isOfRooms(named.id)) {
    const there = accounts.filter(({ account }) => account.platform === named.platform);
    return personAt(config, speakerIn(config, there, { room, agent }), named.id);
  }
  const speaker = speakerIn(config, inRoom, { room, agent });
  const { platform, id: account } = speaker.account;
  const chatId = named?.id ?? accountId(platform, room);
  // As its channel names the place.
  const at = { platform, account, scopeId: chatId.split("@")[1] ?? "", chatId };
  return newRoom(config, speaker.agent, { ...at, chatType: "group", isBot: false }, { door: "push", ...at });
}

/** `xmpp:alice@example.org` */
function platformAndId(name: string): { platform: Platform; id: string } | null {
  const [, platform, id = ""] = /^([a-z]+):(.+)$/s.exec(name) ?? [];
  const known = PLATFORMS.find((one) => one === platform && !isLocalDoor(one));
  return known === undefined ? null : { platform: known, id: accountId(known, id.trim()) };
}

/** Whoever speaks where several could. */
function speakerIn({ defaultAgent }: Config, there: readonly Reached[], { room, agent }: RoomName): Reached {
  const found = there.filter((one) => agent === undefined || one.agent === agent);
  const speakers = found.length > 1 && agent === undefined ? found.filter((one) => one.agent === defaultAgent) : found;
  if (speakers[0] !== undefined) return speakers[0];
  const unknown = (sentence: string) => new TertuliaError("conversation_unknown", sentence, { remedy: NAMES });
  if (found.length > 1)
    throw unknown(`In ${room} are ${found.map((one) => one.agent).join(", ")}: it is not said which of them speaks.`);
  const where = JSON.stringify(room);
  throw unknown(
    agent === undefined ? `No agent has an account in ${where}.` : `Agent ${agent} has no account in ${where}.`,
  );
}

const NAMES =
  "Name a room of the configuration (rooms:), a room that an account of an agent is in, a person as platform:address (xmpp:ann@example.org), or a conversation key; `tertulia sessions list --json` shows the keys.";

/** A person's own chat with the account, as the person's first words would open it. */
function personAt(config: Config, { agent, account }: Reached, id: string): RoomOfAgent {
  const { platform, id: ours } = account;
  const at = { platform, account: ours, chatId: id };
  return newRoom(config, agent, { ...at, chatType: "dm", userId: id, isBot: false }, { door: "push", ...at });
}

function newRoom(config: Config, agent: string, source: Source, target: Target): RoomOfAgent {
  const isTheirs = ({ platform, id }: { platform: Platform; id: string }) =>
    source.chatType === "dm" && platform === source.platform && id === source.userId;
  const personId = Object.values(config.people).find(({ accounts }) => accounts.some(isTheirs))?.id;
  const who = personId === undefined ? {} : { personId };
  const { rules } = rulesFor(config, { agent, source, ...who });
  const { key } = sessionKeyFor({ agent, source, rules: rules.keys, ...who });
  return { ref: { kind: "source", key, source, target }, agent, rules };
}
