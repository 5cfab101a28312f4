import type { Config } from "../config/config.ts";
import { bindingState } from "../conversation/binding.ts";
import { hasSeveralSpeakers, parseSessionKey } from "../conversation/session-key.ts";
import type { Message } from "../message/message.ts";
import type { Source } from "../message/source.ts";
import type { Exchange, OpenedHow, OpenRequest, Primer, Runtime, TurnInput } from "../runtime/runtime.ts";
import type { ContextReader, TurnMaterial } from "../store/readers.ts";
import type { EntryRow } from "../store/rows.ts";
import { sourceOfConversation } from "./door-line.ts";
import { createIdMask } from "./id-mask.ts";
import { renderEntry, renderWords, type Showing } from "./render-history.ts";
import { type ContextSettings, contextSettings, type GatewayFacts } from "./settings.ts";
import { createSpeakers } from "./speakers.ts";
import { renderStablePart } from "./stable-part.ts";
import { renderTurnFacts, type TurnAuthor } from "./turn-facts.ts";

/** Context: renders a turn's material for its agent. A real turn and `tertulia context` both use these functions (C7). */

const PRIMER_LINES = 40;
const PRIMER_CHARACTERS = 12_000;
/** The most lines of a request that seeds a conversation without a name. */
const SEEDS = 1_000;

export interface ContextOptions {
  readonly config: Config;
  readonly facts: GatewayFacts;
}

/** The request that opens an agent: the stable part and, for an agent without the session, the transcript so far, bounded. */
export async function openRequestFor(
  material: TurnMaterial,
  options: ContextOptions & { reader: ContextReader; runtime: Runtime; signal: AbortSignal },
): Promise<OpenRequest> {
  const { reader, runtime, signal } = options;
  const ref = material.runtimeState?.ref;
  const request = {
    sessionId: material.session.id,
    sessionKey: material.home.key,
    ...(ref == null ? {} : { ref }),
    stablePart: stablePartOf(material, options),
    signal,
  };
  if (runtime.history === "own") return { ...request, primer: await primerOf(material, options) };
  return { ...request, primer: await seedsOf(material, reader), exchanges: await exchangesOf(material, options) };
}

/** The material for this runtime (B7): the entries that it has not seen, and its own reference to the session. */
export async function asSeenBy(runtime: string, material: TurnMaterial, reader: ContextReader): Promise<TurnMaterial> {
  if (material.runtimeState === null || material.runtimeState.runtime === runtime) return material;
  const { session, throughEntry } = material;
  return { ...material, ...(await reader.seenBy({ sessionId: session.id, runtime, throughEntry })) };
}

/** The session's exchanges. A prompt that another runtime got also holds what that one had missed: only the messages count here (B7). */
async function exchangesOf(
  material: TurnMaterial,
  options: ContextOptions & { reader: ContextReader; runtime: Runtime },
): Promise<readonly Exchange[]> {
  const { reader, runtime } = options;
  const sessionId = material.session.id;
  const exchanges = await reader.exchanges({ sessionId, beforeEntry: material.throughEntry + 1 });
  if (exchanges.every((exchange) => exchange.runtime === runtime.name)) return exchanges;
  const entries = await reader.transcript({ sessionId, after: 0, only: "standing", limit: material.throughEntry });
  const showing = showingOf(material, options, entries);
  return exchanges.map((exchange) => {
    if (exchange.runtime === runtime.name) return exchange;
    const own = entries.filter(({ turnId, role }) => turnId === exchange.turnId && role === "user");
    return { ...exchange, prompt: own.map((entry) => renderEntry(entry, showing).text).join("\n") };
  });
}

/** The lines that a conversation without a name was seeded with. */
async function seedsOf(material: TurnMaterial, reader: ContextReader): Promise<Primer> {
  if (material.home.kind !== "once") return { total: 0, lines: [] };
  const entries = await reader.transcript({ sessionId: material.session.id, after: 0, limit: SEEDS });
  const lines = entries.filter(isSeed).map(({ role, text }) => ({ role, text }));
  return { total: lines.length, lines };
}

function isSeed(entry: EntryRow): boolean {
  return entry.turnId === null && entry.messageId === null;
}

/** The session's stable part: rendered at its first turn, and stored on it (C1). */
export function stablePartOf(material: TurnMaterial, options: ContextOptions): string {
  if (material.stablePart !== null) return material.stablePart;
  const { home } = material;
  return renderStablePart(
    { source: homeSource(material), shared: hasSeveralSpeakers(home.key) },
    settingsOf(material, options),
  );
}

async function primerOf(material: TurnMaterial, options: ContextOptions & { reader: ContextReader }): Promise<Primer> {
  if (material.earlier === 0) return { total: 0, lines: [] };
  const entries = await options.reader.transcript({
    sessionId: material.session.id,
    before: material.throughEntry + 1,
    only: "standing",
    limit: PRIMER_LINES,
  });
  const showing = showingOf(material, options, entries);
  const lines = entries.map((entry) => renderEntry(entry, showing));
  return { total: material.earlier, lines: lastWithin(lines, PRIMER_CHARACTERS) };
}

/** The prompt of a turn: its facts, the entries that its agent has missed, and its messages. */
export function turnInputFor(
  material: TurnMaterial,
  agent: { cold: boolean; how: OpenedHow; history: Runtime["history"] },
  moment: ContextOptions & { now: number; nonce: string },
): TurnInput {
  const missed = missedBy(agent, material.missed);
  const isCut = missed.length > 0 && material.missedMore > 0;
  const showing = showingOf(material, moment, missed);
  return {
    turnId: material.turn.id,
    facts: factsOf(material, moment),
    text: material.messages.map((message) => renderWords(message, showing)).join("\n"),
    missed: [
      ...(isCut ? [{ role: "mark" as const, text: `${material.missedMore} earlier lines are not shown` }] : []),
      ...missed.map((entry) => renderEntry(entry, showing)),
    ],
  };
}

/** The author marks that a turn's prompt shows. */
export function marksIn(
  material: TurnMaterial,
  agent: { cold: boolean; how: OpenedHow; history: Runtime["history"] },
  options: ContextOptions,
): readonly string[] {
  const missed = missedBy(agent, material.missed);
  const { speakers, named } = showingOf(material, options, missed);
  const authors = [...(named ? material.messages : []), ...material.roomLines.lines, ...missed].map(
    ({ author }) => author,
  );
  return ["[YOU]", ...authors.flatMap((author) => (author === null ? [] : [speakers.markOf(author)]))];
}

/**
 * The missed entries that the prompt has to show. A created or primed agent got all of them in the primer, one whose history the gateway
 * keeps got those of the exchanges; a warm or resumed agent got none.
 */
function missedBy(
  agent: { cold: boolean; how: OpenedHow; history: Runtime["history"] },
  missed: readonly EntryRow[],
): readonly EntryRow[] {
  if (!agent.cold) return missed;
  if (agent.history === "gateway") return missed.filter((entry) => !entry.prompted && !isSeed(entry));
  return agent.how === "created" || agent.how === "primed" ? [] : missed;
}

/** A further message for a running turn (T5), shown like the turn's own messages. */
export function steeredText(material: TurnMaterial, message: Message, options: ContextOptions): string {
  const together = { ...material, messages: [...material.messages, message] };
  return renderWords(message, showingOf(together, options, []));
}

/** The turn's facts block. */
export function factsOf(material: TurnMaterial, options: ContextOptions & { now: number; nonce: string }): string {
  const { turn, messages, conversation, home } = material;
  const { now, nonce } = options;
  const valid = material.guests.filter((binding) => bindingState(binding, now) === "valid");
  const own = valid.find(({ conversationId, kind }) => conversationId === conversation.id && kind === turn.bound);
  const isHome = conversation.id === home.id;
  const { speakers, named } = showingOf(material, options, []);
  return renderTurnFacts(
    {
      now,
      source: turnSource(material),
      authors: authorsOf(messages),
      role: turn.authority.role,
      stablePart: stablePartOf(material, options),
      handoff: turn.bound === null ? null : { by: turn.bound, home: home.key, until: own?.expiresAt ?? null },
      // Only the session's own door is told which other doors speak in it.
      guests: isHome ? valid.map(({ conversationKey, expiresAt }) => ({ key: conversationKey, until: expiresAt })) : [],
      notes: material.notes,
      previousAt: material.previous?.lastHumanAt ?? null,
      isFirst: material.earlier === 0,
      named,
      room: material.roomLines,
      instructions: messages.flatMap(({ instructions }) => instructions ?? []),
      nonce,
    },
    speakers,
    settingsOf(material, options),
  );
}

function settingsOf({ session, home, homes }: TurnMaterial, { config, facts }: ContextOptions): ContextSettings {
  return contextSettings(config, facts, {
    agent: session.agent,
    homeKey: home.key,
    homePlatform: home.target.platform,
    homes: homes.map(({ platform, target }) => ({ platform, chatId: target.chatId })),
  });
}

/** How the turn shows words: with their authors wherever more than one person can have said them (C2). */
function showingOf(material: TurnMaterial, options: ContextOptions, entries: readonly EntryRow[]): Showing {
  const { session, conversation, home, messages } = material;
  const others = [...messages, ...material.roomLines.lines].map(({ author }) => author);
  const earlier = entries.flatMap(({ author }) => (author === null ? [] : [author]));
  const people = [...messages.map(({ author }) => author), ...earlier].filter(({ kind }) => kind !== "agent");
  const isOnePerson =
    !hasSeveralSpeakers(home.key) &&
    (conversation.id === home.id || (!hasSeveralSpeakers(conversation.key) && isSamePerson(conversation, home))) &&
    new Set(people.map(({ kind, id }) => `${kind}:${id}`)).size <= 1;
  return {
    named: !isOnePerson,
    speakers: createSpeakers({
      agent: session.agent,
      known: [...material.speakers, ...others, ...earlier],
      platform: turnSource(material).platform,
      mask: createIdMask(settingsOf(material, options)),
    }),
  };
}

function isSamePerson(a: { personId: string | null }, b: { personId: string | null }): boolean {
  return a.personId !== null && a.personId === b.personId;
}

function authorsOf(messages: readonly Message[]): TurnAuthor[] {
  const authors = new Map<string, TurnAuthor>();
  for (const { author, source } of messages) {
    const userId = source?.userId;
    authors.set(`${author.kind}:${author.id}`, { author, ...(userId === undefined ? {} : { userId }) });
  }
  return [...authors.values()];
}

function turnSource({ messages, conversation }: TurnMaterial): Source {
  const source = messages.at(-1)?.source;
  return source == null ? sourceOfConversation(conversation) : atItsChat(source, conversation.key);
}

/** The source of the session's home, also when its first turn came by another door. */
function homeSource(material: TurnMaterial): Source {
  const { conversation, home } = material;
  return conversation.id === home.id ? turnSource(material) : sourceOfConversation(home);
}

/** The source with the chat type of its key: the owner can write into a group from a direct chat. */
function atItsChat(source: Source, key: string): Source {
  const parts = parseSessionKey(key);
  const isOther = parts.form === "chat" && parts.chatType !== "dm" && source.chatType === "dm";
  return isOther ? { ...source, chatType: parts.chatType } : source;
}

/** The last lines that together have at most `most` characters. */
function lastWithin<Line extends { readonly text: string }>(lines: readonly Line[], most: number): Line[] {
  let from = lines.length;
  let characters = 0;
  while (from > 0 && characters + lines[from - 1]!.text.length <= most) {
    from -= 1;
    characters += lines[from]!.text.length;
  }
  return lines.slice(from);
}
