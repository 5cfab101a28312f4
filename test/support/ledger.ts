import { buildSessionKey, localDoorChatId } from "../../src/conversation/session-key.ts";
import type { MessageFate } from "../../src/store/readers.ts";
import type { EntryRow, SessionRow } from "../../src/store/rows.ts";
import { type Call, type Exchange, exchange, fetchJson, listen, type Reply } from "./http-client.ts";

/**
 * Ledger: a correspondent who writes down what it said, what it was told and what it saw, and holds it against the gateway's journal
 * after a crash. Every text is said once in a ledger, so that what stands twice in the journal was doubled.
 */

/** Words said once. What comes back is filled in as it comes. */
export interface Line {
  readonly text: string;
  /** Of the conversation at the HTTP door. */
  readonly name: string;
  /** The Idempotency-Key, or null for a client that sends none. */
  readonly key: string | null;
  readonly way: "whole" | "streamed" | "posted";
  /** Its words may be shown before its end: by a stream, or by somebody who listens. */
  readonly isWatched: boolean;
  readonly exchange: Exchange;
  /** A status of 200 or 202 came: from here on it must not be lost (T2). */
  isAcknowledged: boolean;
  messageId: number | null;
  /** The words of the stream that came. */
  shown: string;
  /** The whole answer, or null when it was cut. */
  told: Reply | null;
}

export interface Words {
  readonly text: string;
  readonly name: string;
  readonly key?: string | null;
  readonly way?: Line["way"];
  readonly isWatched?: boolean;
  /** Each in the moment in which the bytes are there. */
  readonly onFlushed?: () => void;
  readonly onHead?: () => void;
  readonly onWords?: (chunks: number) => void;
}

export interface Problem {
  readonly kind: "lost" | "doubled" | "wrong";
  readonly sentence: string;
}

export function keyOf(name: string): string {
  const chatId = localDoorChatId("owner", name);
  return buildSessionKey({ form: "chat", agent: "main", platform: "http", chatType: "dm", chatId });
}

export class Ledger {
  readonly lines: Line[] = [];

  say(url: string, words: Words): Line {
    const { key = `key ${this.lines.length + 1}`, way = "whole" } = words;
    let chunks = 0;
    let rest = "";
    const onBytes = (bytes: string): void => {
      const parts = (rest + bytes).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const content = contentOf(part);
        if (content === "") continue;
        line.shown += content;
        chunks += 1;
        words.onWords?.(chunks);
      }
    };
    const line: Line = {
      text: words.text,
      name: words.name,
      key,
      way,
      isWatched: words.isWatched ?? way === "streamed",
      isAcknowledged: false,
      messageId: null,
      shown: "",
      told: null,
      exchange: exchange(url, {
        ...callOf({ text: words.text, name: words.name, key, way }),
        ...(words.onFlushed === undefined ? {} : { onFlushed: words.onFlushed }),
        ...(words.onHead === undefined ? {} : { onHead: words.onHead }),
        ...(way === "streamed" ? { onBytes } : {}),
      }),
    };
    line.exchange.head.then((head) => {
      if (head === null) return;
      line.isAcknowledged = head.status < 300;
      line.messageId ??= Number(head.headers["x-tertulia-message"] ?? 0) || null;
    });
    line.exchange.done.then((reply) => {
      line.told = reply;
      if (reply !== null && way === "posted") line.messageId = (JSON.parse(reply.body) as { message: number }).message;
    });
    this.lines.push(line);
    return line;
  }
}

function callOf({ text, name, key, way }: Pick<Line, "text" | "name" | "key" | "way">): Call {
  const idempotency: Record<string, string> = key === null ? {} : { "idempotency-key": key };
  if (way === "posted")
    return {
      path: `/api/conversations/${encodeURIComponent(keyOf(name))}/messages`,
      headers: idempotency,
      body: { text },
    };
  const body = { messages: [{ role: "user", content: text }], ...(way === "streamed" ? { stream: true } : {}) };
  return { path: "/v1/chat/completions", headers: { ...idempotency, "x-tertulia-conversation": name }, body };
}

function contentOf(event: string): string {
  const data = /^data: (\{.*)$/m.exec(event)?.[1];
  if (data === undefined) return "";
  const chunk = JSON.parse(data) as { choices?: { delta?: { content?: string } }[] };
  return chunk.choices?.[0]?.delta?.content ?? "";
}

/** What the demo agent says to these words, however often it is asked. */
function expectedAnswer(text: string): string {
  const [, word = "", argument = ""] = /^(\S+) (.*)$/s.exec(text) ?? [];
  if (word === "say") return argument;
  const numbers = Array.from({ length: Number.parseInt(argument, 10) }, (_, index) => index + 1);
  if (word === "count" || word === "slow") return numbers.join(" ");
  throw new Error(`What the demo agent answers to ${JSON.stringify(text)} depends on more than the words.`);
}

// ---- the journal, as anybody can read it

export interface Transcript {
  readonly session: SessionRow;
  readonly entries: readonly EntryRow[];
}

/** The sessions at home in these conversations, the oldest first. */
export async function transcripts(url: string, names: Iterable<string>): Promise<Transcript[]> {
  const keys = new Set([...names].map(keyOf));
  const { body } = await fetchJson<{ sessions: SessionRow[] }>(url, { path: "/api/sessions?limit=1000" });
  const own = body.sessions.filter((session) => keys.has(session.homeKey));
  const read = own.map(async (session) => {
    const path = `/api/sessions/${session.id}/messages?after=0&limit=1000`;
    const reply = await fetchJson<{ messages: EntryRow[] }>(url, { path });
    return { session, entries: reply.body.messages };
  });
  return (await Promise.all(read)).sort((a, b) => a.session.openedAt - b.session.openedAt);
}

export interface FateReport {
  readonly fates: readonly MessageFate[];
  readonly answer: {
    readonly text: string;
    readonly state: string;
    readonly reason: string | null;
    readonly notices: readonly string[];
  } | null;
}

export async function fateOf(url: string, messageId: number): Promise<FateReport | null> {
  const { status, body } = await fetchJson<FateReport>(url, { path: `/api/messages/${messageId}` });
  return status === 200 ? body : null;
}

/** Resolves when no turn is open any more. */
export async function quiet(url: string): Promise<void> {
  let settled = Promise.withResolvers<void>();
  const listener = await listen(url, { onEvent: ({ name }) => name === "turn:settled" && settled.resolve() });
  try {
    for (;;) {
      const { body } = await fetchJson<{ counts: { openTurns: number } }>(url, { path: "/api/status" });
      if (body.counts.openTurns === 0) return;
      await settled.promise;
      settled = Promise.withResolvers<void>();
    }
  } finally {
    listener.close();
  }
}

/** What became of a line: its one fate, `absent` when it is in no transcript, null when it has none or several. */
export async function fateIn(url: string, line: Line, journal: readonly Transcript[]): Promise<string | null> {
  const [found] = find(line.text, journal);
  if (found === undefined) return "absent";
  const report = await fateOf(url, found.entry.messageId!);
  return report?.fates.length === 1 ? report.fates[0]!.fate.fate : null;
}

// ---- the audit

export interface AuditOptions {
  /** How often the gateway was killed since the lines were said: once leaves a turn of which nothing was shown its second run (T8). */
  readonly kills?: number;
  /** A reset is in the journal: what waited before it may be withdrawn (R4). */
  readonly isReset?: boolean;
}

/** Everything the journal has against the ledger, after a restart: before and after each keyed line was said again. */
export async function audit(url: string, lines: readonly Line[], options: AuditOptions = {}): Promise<Problem[]> {
  await quiet(url);
  const names = new Set(lines.map((line) => line.name));
  const before = await transcripts(url, names);
  const problems = before.flatMap(orderOf);
  for (const line of lines) problems.push(...(await check(url, line, before, options)));
  await Promise.all(lines.map(async (line) => problems.push(...(await sayAgain(url, line, before)))));
  await quiet(url);
  const after = await transcripts(url, names);
  for (const line of lines) problems.push(...countedTwice(line, after));
  return problems;
}

interface Found {
  readonly entry: EntryRow;
  readonly endings: readonly EntryRow[];
}

function find(text: string, journal: readonly Transcript[]): Found[] {
  return journal.flatMap(({ entries }) =>
    entries
      .filter((entry) => entry.role === "user" && entry.text === text)
      .map((entry) => ({
        entry,
        endings: entries.filter((other) => other.role !== "user" && other.turnId === entry.turnId),
      })),
  );
}

function countedTwice(line: Line, journal: readonly Transcript[]): Problem[] {
  const found = find(line.text, journal);
  const endings = found.flatMap((one) => one.endings);
  const sentence = `"${line.text}" stands ${found.length} times in the journal, with ${endings.length} endings`;
  return found.length > 1 || endings.length > 1 ? [{ kind: "doubled", sentence }] : [];
}

/** A line against the journal, once all is quiet: one final fate, one ending, and nothing that contradicts what was told or shown. */
async function check(
  url: string,
  line: Line,
  journal: readonly Transcript[],
  { kills = 1, isReset = false }: AuditOptions,
): Promise<Problem[]> {
  const doubled = countedTwice(line, journal);
  if (doubled.length > 0) return doubled;
  const [found] = find(line.text, journal);
  if (found === undefined) return checkAbsent(url, line, isReset);
  const wrong = (sentence: string): Problem[] => [{ kind: "wrong", sentence: `"${line.text}" ${sentence}` }];

  const { entry, endings } = found;
  if (line.messageId !== null && entry.messageId !== line.messageId)
    return wrong(`was told to be message ${line.messageId} and is ${entry.messageId}`);
  const report = await fateOf(url, entry.messageId!);
  const fates = report?.fates.map((fate) => fate.fate.fate) ?? [];
  if (fates.length !== 1) return wrong(`has ${fates.length} fates`);
  const [fate] = fates;
  const ending = endings[0];
  if (ending === undefined) return [{ kind: "lost", sentence: `"${line.text}" has no ending; its fate is ${fate}` }];

  const expected = expectedAnswer(line.text);
  if (fate === "answered") {
    if (ending.mark !== null || ending.text !== expected)
      return wrong(`was answered by ${JSON.stringify(ending.text)}`);
    if (!expected.startsWith(line.shown)) return wrong(`showed ${JSON.stringify(line.shown)}`);
  } else if (fate === "interrupted") {
    if (!line.isWatched && kills === 1 && !isReset) return wrong("was interrupted, though none of its words was shown");
    if (ending.mark !== "interrupted") return wrong(`was interrupted, and its entry has the mark ${ending.mark}`);
    const kept = report?.answer?.text ?? "";
    if (!expected.startsWith(kept)) return wrong(`kept ${JSON.stringify(kept)}`);
  } else {
    return wrong(`has the fate ${fate}`);
  }
  if (line.told !== null && line.way !== "posted") return checkTold(line, line.told, fate, ending, wrong);
  return [];
}

async function checkAbsent(url: string, line: Line, isReset: boolean): Promise<Problem[]> {
  if (!line.isAcknowledged) return [];
  const report = line.messageId === null ? null : await fateOf(url, line.messageId);
  const fates = report?.fates.map((fate) => fate.fate.fate) ?? [];
  if (isReset && fates.length === 1 && fates[0] === "withdrawn") return [];
  return [{ kind: "lost", sentence: `"${line.text}" was acknowledged; its fate is ${fates.join() || "unknown"}` }];
}

function checkTold(
  line: Line,
  told: Reply,
  fate: string,
  ending: EntryRow,
  wrong: (sentence: string) => Problem[],
): Problem[] {
  // "Not now" says nothing of what becomes of it.
  if (told.status === 503 || /"code":"(gateway_stopping|store_unavailable)"/.test(told.body)) return [];
  const isAnswered = told.status === 200 && !told.body.includes('"error"');
  if (isAnswered !== (fate === "answered")) return wrong(`was told ${told.status}, and is ${fate}`);
  if (!isAnswered) return [];
  const text = line.way === "streamed" ? line.shown : answerIn(told);
  return text === ending.text ? [] : wrong(`was told ${JSON.stringify(text)}`);
}

function answerIn(reply: Reply): string {
  const body = JSON.parse(reply.body) as { choices: { message: { content: string } }[] };
  return body.choices[0]!.message.content;
}

/** A retry attaches or reads back; it runs nothing that was taken in before (T3). One that left no trace is new. */
async function sayAgain(url: string, line: Line, before: readonly Transcript[]): Promise<Problem[]> {
  if (line.key === null) return [];
  const way = line.way === "streamed" ? "whole" : line.way;
  const reply = await exchange(url, callOf({ ...line, way })).done;
  const [found] = find(line.text, before);
  const wrong = (sentence: string): Problem[] => [
    { kind: "wrong", sentence: `"${line.text}", said again, ${sentence}` },
  ];
  if (reply === null) return wrong("was cut");
  const said = JSON.parse(reply.body) as { message?: number; error?: { code: string }; partial?: string };
  if (way === "posted") {
    if (reply.status !== 202) return wrong(`got ${reply.status}`);
    const known = found?.entry.messageId ?? line.messageId;
    return known === null || known === said.message ? [] : wrong(`became message ${said.message}`);
  }
  const messageId = Number(reply.headers["x-tertulia-message"]);
  if (found === undefined) {
    if (line.messageId !== null && messageId !== line.messageId) return wrong(`became message ${messageId}`);
    const isWithdrawn = reply.status === 424 && said.error?.code === "turn_withdrawn";
    const isNew = reply.status === 200 && answerIn(reply) === expectedAnswer(line.text);
    return isWithdrawn || isNew ? [] : wrong(`got ${reply.status} ${reply.body}`);
  }
  if (messageId !== found.entry.messageId) return wrong(`became message ${messageId}`);
  const ending = found.endings[0];
  if (ending?.mark === null) {
    return reply.status === 200 && answerIn(reply) === ending.text ? [] : wrong(`got ${reply.status} ${reply.body}`);
  }
  return reply.status === 424 && said.error?.code === "turn_interrupted" ? [] : wrong(`got ${reply.status}`);
}

/** T4: in the order admitted, one turn after the other. */
function orderOf({ session, entries }: Transcript): Problem[] {
  const turns = entries.flatMap((entry) => (entry.turnId === null ? [] : [entry.turnId]));
  const messages = entries.flatMap((entry) => (entry.role === "user" && entry.messageId ? [entry.messageId] : []));
  const isOrdered = isAscending(turns) && isAscending(messages);
  return isOrdered ? [] : [{ kind: "wrong", sentence: `Session ${session.id} is not in the order admitted` }];
}

function isAscending(numbers: readonly number[]): boolean {
  return numbers.every((number, index) => index === 0 || number >= numbers[index - 1]!);
}
