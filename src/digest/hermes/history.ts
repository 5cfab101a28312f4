import { createHash } from "node:crypto";
import { titleOf } from "../../conversation/title.ts";
import { cleanText } from "../../message/source.ts";
import type { ImportedMessage, ImportedSession } from "../../store/keep.ts";
import type { ForeignSession } from "../../store/rows.ts";
import { isNoise, isSilent, NOISE } from "../digest.ts";
import { HermesRows, type ReadRow, type Skipped } from "./rows.ts";
import { type HermesSession, type Judged, judge, readSessions, type SessionState } from "./sessions.ts";
import { type HermesDb, isDamage } from "./state-db.ts";

/** What one transaction takes, and one request. */
const BATCH = { rows: 500, bytes: 2_000_000 };
/** Whose the owner's sessions become. */
const OWNER = "owner";
/** Whoever else said something where the owner's session spoke. */
const OTHERS = "unknown";

type SkippedRow = Skipped | "silence" | "automatic" | "empty";
type SkippedSession = "a helper's" | "a job's" | "hidden" | "empty" | "damaged" | "written anew there" | "run here";

/** What an import did, or would do. */
export interface HistoryCount {
  /** Read so far, of `total`: for a bar. */
  rows: number;
  readonly total: number;
  sessions: number;
  messages: number;
  readonly skippedRows: Map<SkippedRow, number>;
  readonly skippedSessions: Map<SkippedSession, number>;
}

export interface HistoryOptions {
  readonly now: number;
  readonly owners: readonly string[];
  /** What is here already. */
  readonly known: readonly ForeignSession[];
}

/**
 * H13: the sessions of a Hermes state.db, parents before their children, in batches that end wherever they are full. `count` is kept up to
 * date while they are taken.
 */
export class HermesHistory {
  readonly count: HistoryCount;
  readonly #rows: HermesRows;
  readonly #sessions: readonly (readonly [HermesSession, SessionState])[];
  readonly #known: ReadonlyMap<string, ForeignSession>;
  readonly #taken = new Set<string>();
  readonly #runHere = new Set<string>();

  constructor(db: HermesDb, { now, owners, known }: HistoryOptions) {
    const total = db.all<{ n: number }>("SELECT count(*) AS n FROM messages")[0]?.n ?? 0;
    this.count = { rows: 0, total, sessions: 0, messages: 0, skippedRows: new Map(), skippedSessions: new Map() };
    this.#rows = new HermesRows(db, now);
    this.#known = new Map(known.map((session) => [session.id, session]));
    for (const { sessionId } of known) this.#taken.add(sessionId);
    const { judged } = judge(readSessions(db, now), owners);
    this.#sessions = parentsFirst(judged).map(({ session, standing }) => [session, standing] as const);
  }

  *batches(): Generator<readonly ImportedSession[], void> {
    let batch: ImportedSession[] = [];
    let rows = 0;
    let text = 0;
    for (const [session, standing] of this.#sessions) {
      const why = skippedSession(session, standing) ?? (this.#isRunHere(session) ? "run here" : null);
      if (why !== null) {
        add(this.count.skippedSessions, why);
        continue;
      }
      for (const part of this.#unlessDamaged(this.#parts(session, standing))) {
        const size = part.messages.reduce((sum, message) => sum + message.text.length, 0);
        if (batch.length > 0 && text + size > BATCH.bytes) {
          yield batch;
          batch = [];
          rows = 0;
          text = 0;
        }
        batch.push(part);
        rows += part.messages.length;
        text += size;
        if (rows < BATCH.rows) continue;
        yield batch;
        batch = [];
        rows = 0;
        text = 0;
      }
    }
    if (batch.length > 0) yield batch;
  }

  /** Also what it goes on as behind a compaction, which begins with a summary. Parents come first. */
  #isRunHere({ id, parentId, relation }: HermesSession): boolean {
    const isOurs =
      this.#prompts(id).isFirstOurs || (relation === "compaction" && parentId !== null && this.#runHere.has(parentId));
    if (isOurs) this.#runHere.add(id);
    return isOurs;
  }

  /** D11; damage in it is told where the session's rows are read. */
  #prompts(id: string): ReturnType<HermesRows["prompts"]> {
    try {
      return this.#rows.prompts(id);
    } catch (cause) {
      if (!isDamage(cause)) throw cause;
      return { isFirstOurs: false, isPrivate: true };
    }
  }

  /** What of a session could be read before its damage stays. */
  *#unlessDamaged(parts: Generator<ImportedSession, void>): Generator<ImportedSession, void> {
    try {
      yield* parts;
    } catch (cause) {
      if (!isDamage(cause)) throw cause;
      add(this.count.skippedSessions, "damaged");
    }
  }

  /** A session in parts of at most a batch's rows; none where nothing of it is new, or there. */
  *#parts(session: HermesSession, standing: SessionState): Generator<ImportedSession, void> {
    const known = this.#known.get(session.id);
    const seen = new Set<string>();
    let after = known?.throughId ?? 0;
    let head: Omit<ImportedSession, "messages"> | null = null;
    let lastAt = session.startedAt ?? 0;
    let isAny = known !== undefined;
    let isFirst = true;
    for (;;) {
      let read = this.#rows.next(session.id, BATCH, after, seen);
      if (read.length === 0) break;
      if (isFirst && known !== undefined) {
        if (!this.#rows.has(session.id, known.throughId)) {
          add(this.count.skippedSessions, "written anew there");
          return;
        }
        // What a compaction carried forward since is here already.
        this.#recall(known, seen);
        read = this.#rows.next(session.id, BATCH, after, seen);
      }
      isFirst = false;
      this.count.rows += read.length;
      const messages = read.flatMap((row) =>
        this.#message(row, { author: isOwn(standing) ? OWNER : session.userId, lastAt }),
      );
      lastAt = Math.max(lastAt, ...messages.map(({ at }) => at));
      if (messages.length > 0) {
        head ??= this.#head(session, standing, messages);
        yield { ...head, endedAt: session.endedAt ?? lastAt, messages };
        if (!isAny) this.count.sessions++;
        isAny = true;
        this.count.messages += messages.length;
      }
      after = Math.max(after, ...read.map(({ id }) => id));
    }
    if (!isAny) add(this.count.skippedSessions, "empty");
  }

  /** Fills `seen` with what was brought in before. */
  #recall({ id, throughId }: ForeignSession, seen: Set<string>): void {
    seen.clear();
    for (let after = 0; after < throughId; ) {
      const read = this.#rows.next(id, { ...BATCH, through: throughId }, after, seen);
      if (read.length === 0) return;
      after = Math.max(after, ...read.map((row) => row.id));
    }
  }

  #message(
    { row, id, skipped }: ReadRow,
    { author, lastAt }: { author: string | null; lastAt: number },
  ): ImportedMessage[] {
    const why = skipped ?? skippedRow(row);
    if (why !== null || row === null || row.role === "other") {
      add(this.count.skippedRows, why ?? "tool");
      return [];
    }
    // A row without a time that could be true was said when the one before it was.
    const at = row.at ?? lastAt;
    const said = row.isOwners === false ? OTHERS : author;
    const by = row.role === "user" && said !== null ? { author: said } : {};
    return [{ id, role: row.role, text: cleanText(row.text), at, ...by }];
  }

  #head(
    session: HermesSession,
    standing: SessionState,
    messages: readonly ImportedMessage[],
  ): Omit<ImportedSession, "messages"> {
    const first = messages.find(({ role }) => role === "user") ?? messages[0];
    const title = titleOf(session.title ?? first?.text ?? "");
    return {
      id: session.id,
      freshId: this.#freshId(session.id),
      parentId: session.parentId,
      // Where others spoke or read along, it stays a place of several people.
      ownerPerson: isOwn(standing) && this.#prompts(session.id).isPrivate ? OWNER : null,
      platform: session.source,
      title: title === "" ? null : title,
      openedAt: session.startedAt ?? first?.at ?? 0,
      endedAt: session.endedAt ?? 0,
      endReason: session.endReason ?? "imported",
    };
  }

  /** Its own id, recognisable; a digest of it where it holds what no id of ours has, or where the name is taken. */
  #freshId(id: string): string {
    const plain = `hermes_${id}`;
    const isPlain = /^[\w.-]{1,80}$/.test(id) && !this.#taken.has(plain);
    const fresh = isPlain ? plain : `hermes_${createHash("sha256").update(id).digest("hex").slice(0, 24)}`;
    this.#taken.add(fresh);
    return fresh;
  }
}

/** By their start, but a parent always before its children: a clock may have been set back between the two. */
function parentsFirst(judged: readonly Judged[]): readonly Judged[] {
  const byStart = judged.toSorted(
    ({ session: a }, { session: b }) => (a.startedAt ?? 0) - (b.startedAt ?? 0) || (a.id < b.id ? -1 : 1),
  );
  const byId = new Map(byStart.map((one) => [one.session.id, one]));
  const ordered = new Set<Judged>();
  for (const one of byStart) {
    // Up to who is there already, or to where a circle closes; then down again.
    const line = new Set<Judged>();
    let at: Judged | undefined = one;
    while (at !== undefined && !ordered.has(at) && !line.has(at)) {
      line.add(at);
      at = byId.get(at.session.parentId ?? "");
    }
    for (const next of [...line].reverse()) ordered.add(next);
  }
  return [...ordered];
}

/** What a program of the owner's asked is the owner's. */
function isOwn(standing: SessionState): boolean {
  return standing === "own" || standing === "program";
}

function skippedSession(session: HermesSession, standing: SessionState): SkippedSession | null {
  if (standing === "helper") return "a helper's";
  if (standing === "job") return "a job's";
  return session.isHidden ? "hidden" : null;
}

function skippedRow(row: ReadRow["row"]): SkippedRow | null {
  if (row === null || row.role === "other") return null;
  if (row.text.trim() === "") return "empty";
  if (row.role === "assistant" && isSilent(row.text)) return "silence";
  return isNoise(row.text, NOISE) ? "automatic" : null;
}

function add<K>(counts: Map<K, number>, what: K): void {
  counts.set(what, (counts.get(what) ?? 0) + 1);
}
