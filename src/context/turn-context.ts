import type { Config } from "../config.ts";
import type { Message } from "../message/message.ts";
import type { Exchange, OpenedHow, OpenRequest, Primer, Runtime, TurnInput } from "../runtime/runtime.ts";
import type { Audience, ConversationRow, EntryRow, StoreReader, TurnMaterial } from "../store/store.ts";
import { promptOf } from "./prompt.ts";
import { renderEntry } from "./render-history.ts";
import { renderStablePart } from "./stable-part.ts";
import { renderTurnFacts } from "./turn-facts.ts";

/** Context: from a turn's material to what its agent is told. */

const PRIMER_LINES = 40;
const PRIMER_CHARACTERS = 12_000;
/** Lines of a request that seeds a conversation without a name, at most. */
const SEEDS = 1_000;

/** What an agent is opened with: the stable part and, for one that lost or never had the session, the transcript so far, bounded. */
export async function openRequestFor(
  material: TurnMaterial,
  options: { config: Config; reader: StoreReader; runtime: Runtime; signal: AbortSignal },
): Promise<OpenRequest> {
  const { config, reader, runtime, signal } = options;
  const ref = material.runtimeState?.ref;
  const request = {
    sessionId: material.session.id,
    sessionKey: material.home.key,
    ...(ref == null ? {} : { ref }),
    stablePart: stablePartOf(material, config),
    signal,
  };
  if (runtime.history === "own") return { ...request, primer: await primerOf(material, reader) };
  return { ...request, primer: await seedsOf(material, reader), exchanges: await exchangesOf(material, reader) };
}

/** The session so far as it was sent and answered, byte for byte, for a runtime that remembers nothing. */
async function exchangesOf(material: TurnMaterial, reader: StoreReader): Promise<Exchange[]> {
  const rows = await reader.exchanges({ sessionId: material.session.id, beforeEntry: material.throughEntry + 1 });
  return rows.map(({ turnId, audience, facts, messages, reply, mark }) => ({
    turnId,
    prompt: promptOf({ facts, missed: [], text: wordsOf(messages, isShared({ audience, home: material.home })) }),
    reply,
    mark,
  }));
}

/** What a conversation without a name was seeded with. */
async function seedsOf(material: TurnMaterial, reader: StoreReader): Promise<Primer> {
  if (material.home.kind !== "once") return { total: 0, lines: [] };
  const entries = await reader.transcript({ sessionId: material.session.id, after: 0, limit: SEEDS });
  const lines = entries.filter(isSeed).map(({ role, text }) => ({ role, text }));
  return { total: lines.length, lines };
}

function isSeed(entry: EntryRow): boolean {
  return entry.turnId === null && entry.messageId === null;
}

/** Rendered once, at the session's first turn, and stored on it (C1). */
export function stablePartOf(material: TurnMaterial, config: Config): string {
  if (material.stablePart !== null) return material.stablePart;
  const { agent: name } = material.session;
  const agent = config.agents[name];
  return renderStablePart({
    agent: { name, displayName: agent?.displayName ?? name },
    source: sourceOf(material),
    shared: isShared({ audience: material.turn.audience, home: material.home }),
    ...(agent?.prompt === undefined ? {} : { prompt: agent.prompt }),
  });
}

async function primerOf(material: TurnMaterial, reader: StoreReader): Promise<Primer> {
  if (material.earlier === 0) return { total: 0, lines: [] };
  const entries = await reader.transcript({
    sessionId: material.session.id,
    before: material.throughEntry + 1,
    limit: PRIMER_LINES,
  });
  const lines = entries.map((entry) =>
    renderEntry(entry, {
      agent: material.session.agent,
      shared: isShared({ audience: material.turn.audience, home: material.home }),
    }),
  );
  return { total: material.earlier, lines: lastWithin(lines, PRIMER_CHARACTERS) };
}

/** The prompt of a turn: its facts, what its agent has missed, and the words of its authors. */
export function turnInputFor(
  material: TurnMaterial,
  agent: { cold: boolean; how: OpenedHow; history: Runtime["history"] },
  nonce: string,
): TurnInput {
  const { turn, messages, home, session } = material;
  const shared = isShared({ audience: material.turn.audience, home: material.home });
  const facts = renderTurnFacts({
    agent: session.agent,
    source: sourceOf(material),
    senders: [...new Set(messages.map(({ author }) => author.name ?? author.id))],
    notes: material.notes,
    bound: turn.bound === null ? null : { by: turn.bound, home: home.key },
    room: material.roomLines,
    nonce,
  });
  const missed = missedBy(agent, material.missed).map((entry) => renderEntry(entry, { agent: session.agent, shared }));
  return { turnId: turn.id, facts, text: wordsOf(messages, shared), missed };
}

/** An agent just opened has been told everything by the primer, or by the exchanges all that was sent; one that went on has missed what it did not say itself. */
function missedBy(
  agent: { cold: boolean; how: OpenedHow; history: Runtime["history"] },
  missed: readonly EntryRow[],
): readonly EntryRow[] {
  if (!agent.cold) return missed;
  if (agent.history === "gateway") return missed.filter((entry) => !entry.prompted && !isSeed(entry));
  return agent.how === "created" || agent.how === "primed" ? [] : missed;
}

/** The words of a turn's authors, with their names where several people speak. */
function wordsOf(messages: readonly Message[], shared: boolean): string {
  return messages.map(({ author, body }) => (shared ? `[${author.name ?? author.id}] ${body}` : body)).join("\n");
}

function sourceOf({ messages }: TurnMaterial) {
  const source = messages.at(-1)?.source;
  if (source == null) throw new Error("a turn without a message of a person");
  return source;
}

/** Several people can read and speak: names are shown with their words (C2). */
function isShared({ audience, home }: { audience: Audience; home: Pick<ConversationRow, "personId"> }): boolean {
  return audience.kind === "place" || home.personId === null;
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
