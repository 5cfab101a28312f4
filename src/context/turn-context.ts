import type { Config } from "../config.ts";
import type { OpenedHow, OpenRequest, Primer, TurnInput } from "../runtime/runtime.ts";
import type { StoreReader, TurnMaterial } from "../store/store.ts";
import { renderEntry } from "./render-history.ts";
import { renderStablePart } from "./stable-part.ts";
import { renderTurnFacts } from "./turn-facts.ts";

/** Context: from a turn's material to what its agent is told. */

const PRIMER_LINES = 40;
const PRIMER_CHARACTERS = 12_000;

/** What an agent is opened with: the stable part and, for one that lost or never had the session, the transcript so far, bounded. */
export async function openRequestFor(
  material: TurnMaterial,
  options: { config: Config; reader: StoreReader; signal: AbortSignal },
): Promise<OpenRequest> {
  const ref = material.runtimeState?.ref;
  return {
    sessionId: material.session.id,
    sessionKey: material.home.key,
    ...(ref == null ? {} : { ref }),
    stablePart: stablePartOf(material, options.config),
    primer: await primerOf(material, options.reader),
    signal: options.signal,
  };
}

/** Rendered once, at the session's first turn, and stored on it (C1). */
export function stablePartOf(material: TurnMaterial, config: Config): string {
  if (material.stablePart !== null) return material.stablePart;
  const { agent: name } = material.session;
  const agent = config.agents[name];
  return renderStablePart({
    agent: { name, displayName: agent?.displayName ?? name },
    source: sourceOf(material),
    shared: isShared(material),
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
    renderEntry(entry, { agent: material.session.agent, shared: isShared(material) }),
  );
  return { total: material.earlier, lines: lastWithin(lines, PRIMER_CHARACTERS) };
}

/** The prompt of a turn: its facts, what its agent has missed, and the words of its authors. */
export function turnInputFor(
  material: TurnMaterial,
  agent: { cold: boolean; how: OpenedHow },
  nonce: string,
): TurnInput {
  const { turn, messages, home, session } = material;
  const shared = isShared(material);
  const facts = renderTurnFacts({
    agent: session.agent,
    source: sourceOf(material),
    senders: [...new Set(messages.map(({ author }) => author.name ?? author.id))],
    notes: material.notes,
    bound: turn.bound === null ? null : { by: turn.bound, home: home.key },
    room: material.roomLines,
    nonce,
  });
  const text = messages.map(({ author, body }) => (shared ? `[${author.name ?? author.id}] ${body}` : body)).join("\n");
  // An agent opened with the primer has been told everything; one that went on has missed what it did not say itself.
  const knowsAll = agent.cold && (agent.how === "created" || agent.how === "primed");
  const missed = knowsAll ? [] : material.missed.map((entry) => renderEntry(entry, { agent: session.agent, shared }));
  return { turnId: turn.id, facts, text, missed };
}

function sourceOf({ messages }: TurnMaterial) {
  const source = messages.at(-1)?.source;
  if (source == null) throw new Error("a turn without a message of a person");
  return source;
}

/** Several people can read and speak: names are shown with their words (C2). */
function isShared(material: TurnMaterial): boolean {
  return material.turn.audience.kind === "place" || material.home.personId === null;
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
