import { type Config, defaultRuntimeOf, rulesFor, runtimeOf } from "../config.ts";
import type { AgentFacts } from "../conversation/agent-facts.ts";
import { type Person, speakerOf } from "../conversation/person.ts";
import { ownDoorChatId, parseOwnDoorChatId, parseSessionKey, sessionKeyFor } from "../conversation/session-key.ts";
import { TertuliaError } from "../errors.ts";
import type { Notice } from "../message/notice.ts";
import { cleanText, type Source } from "../message/source.ts";
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
  StoreReader,
} from "../store/store.ts";
import { type CommandContext, type OpenQuestion, textNotice } from "../turn/command/command.ts";
import { commandOf } from "../turn/command/commands.ts";
import type { Clock } from "../util/clock.ts";
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

export interface OwnDoorsOptions {
  readonly config: Config;
  readonly reader: StoreReader;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly intake: EventIntake;
  /** Where a session's agent is: warm, busy, cold. */
  readonly warmth: (sessionId: string) => string;
  /** What the agent asks leave for there. */
  readonly questionsOf: (conversationId: number) => readonly OpenQuestion[];
  /** What a person is told of an agent (R5). */
  readonly about: (agent: string, runtime: string) => AgentFacts;
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
    const runtimeHere = this.#runtimeHere(place, conversation);
    const event = await this.#eventFor(
      {
        ...where,
        rules: { ...rules, about: this.#options.about(agent, runtimeHere.name) },
        freshId: ids.session(clock.now()),
        speaker: speakerOf(request.person),
        text,
        saidAt: clock.now(),
        ...(request.idempotency === undefined ? {} : { idempotency: request.idempotency }),
      },
      { ...place, conversation, runtimeHere },
      request,
    );
    const { account, platform } = place.source;
    const [outcome] = await intake.commit({ account, platform, agent }, [event]);
    return this.#saidOf(outcome!);
  }

  async #eventFor(
    base: Omit<MessageEvent, "kind" | "addressed" | "once">,
    place: Place & Pick<CommandContext, "conversation" | "runtimeHere">,
    request: SayRequest,
  ): Promise<InboundEvent> {
    const { config, reader, clock, warmth, about, questionsOf } = this.#options;
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
      config,
      reader,
      agent: place.agent,
      about: about(place.agent, place.runtimeHere.name),
      aboutOn: (runtime) => about(place.agent, runtime),
      runtimeHere: place.runtimeHere,
      source: place.source,
      conversation: place.conversation,
      questions: place.conversation === null ? [] : questionsOf(place.conversation.id),
      key: place.key,
      speaker: base.speaker,
      args: found.args,
      now: clock.now(),
      warmth,
    });
    return { ...base, kind: "command", ...answer };
  }

  #runtimeHere(
    { agent, key, source: { platform } }: Place,
    conversation: ConversationRow | null,
  ): CommandContext["runtimeHere"] {
    const { config } = this.#options;
    const configured = defaultRuntimeOf(config, { agent, key, platform }).name;
    return { configured, name: conversation === null ? configured : runtimeOf(config, conversation) };
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
    const { maxWaitingTurns, maxMessagesPerTurn } = this.#options.config.turn;
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
      case "refused": {
        const args = { limit: maxWaitingTurns, messages: maxMessagesPerTurn };
        throw new TertuliaError(outcome.code, renderNotice({ code: outcome.code, args }));
      }
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

/** A room by its configured name or its key (H1): an own door may be new, any other must exist. Throws `conversation_unknown`, `forbidden`. */
export function roomOf(
  config: Config,
  room: string,
  person: Person,
): { ref: ConversationRef; agent: string; rules: AdmitRules } {
  const key = config.rooms[room]?.conversation ?? room;
  if (!key.startsWith("agent:")) {
    throw new TertuliaError("conversation_unknown", `There is no room ${JSON.stringify(room)}.`, {
      remedy:
        "Name a room of the configuration (rooms:), or give a conversation key; `tertulia sessions list --json` shows them.",
    });
  }
  const own = ownDoorOf(key);
  if (person.role !== "owner" && own?.personId !== person.id)
    throw new TertuliaError("forbidden", "This conversation belongs to somebody else.");
  if (own !== null) {
    const { source, target, rules, agent } = placeAt(config, own.agent, own.platform, { id: own.personId }, own.name);
    return { ref: { kind: "source", key, source, target }, agent, rules };
  }
  const { agent } = parseSessionKey(key);
  const { source } = ownDoor("console", person, "bridge");
  return { ref: { kind: "key", key }, agent, rules: rulesFor(config, { agent, source, key }).rules };
}
