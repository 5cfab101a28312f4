import { type DigestRow, type DigestSource, type Talks, type TalksQuery, withoutNoise } from "../digest.ts";
import { type Candidate, latestTalk } from "../latest-talk.ts";
import { type HermesRow, HermesRows } from "./rows.ts";
import { isPutAway, type Judgement, judge, readSessions } from "./sessions.ts";
import { HermesDb, isDamage } from "./state-db.ts";
import { asTime, numericWindows, timeIn } from "./times.ts";

/** How many times `rows` a talk is looked at for a line of its user: an agent at work may call tools hundreds of times. */
const PAGES = 12;

export interface HermesTalksOptions {
  readonly path: string;
  /** The owner's own ids, `platform:id` (D9). */
  readonly owners?: readonly string[];
}

/** D1: the talks of a Hermes state.db. The file is opened for each answer and closed again. */
export function createHermesTalks({ path, owners = [] }: HermesTalksOptions): DigestSource {
  return {
    async talks(query) {
      const db = new HermesDb(path);
      try {
        return db.atOnce(() => talksIn(db, owners, query));
      } finally {
        db.close();
      }
    },
  };
}

function talksIn(db: HermesDb, owners: readonly string[], query: TalksQuery): Talks {
  const judgement = judge(readSessions(db, query.now), owners);
  const notes = notesOf(judgement);
  const lastAt = lastTimes(db, query.now);
  const candidates = new Map<string, Candidate[]>();
  for (const { session, standing } of judgement.judged) {
    if (standing !== "own" || isPutAway(session)) continue;
    const at = unlessDamaged(session.id, notes, () => lastAt(session.id)) ?? null;
    if (at === null) continue;
    const known = candidates.get(session.source);
    if (known === undefined) candidates.set(session.source, [{ id: session.id, lastAt: at }]);
    else known.push({ id: session.id, lastAt: at });
  }
  const rows = new HermesRows(db, query.now);
  const talks = [...candidates].flatMap(([platform, ofPlatform]) => {
    const talk = latestTalk(
      platform,
      ofPlatform,
      (id) => unlessDamaged(id, notes, () => rowsOf(rows, id, query)) ?? [],
    );
    return talk === null ? [] : [talk];
  });
  return { talks, notes };
}

/**
 * The time of the last user or assistant row: of each unit the last, by the index, and of the texts all, for their order is not that of
 * their times. 0 where no time of the session is one; null for one without messages.
 */
function lastTimes(db: HermesDb, now: number): (id: string) => number | null {
  const said = `SELECT ${asTime("timestamp")} AS at FROM messages WHERE session_id = ? AND role IN('user','assistant')`;
  const latest = db.prepare<{ at: unknown }>(
    `${said} AND timestamp >= ? AND timestamp <= ? ORDER BY timestamp DESC LIMIT 1`,
  );
  const texts = db.prepare<{ at: unknown }>(`${said} AND timestamp >= '' AND timestamp < x''`);
  const windows = numericWindows(now);
  const any = db.prepare("SELECT 1 FROM messages WHERE session_id = ? LIMIT 1");
  return (id) => {
    const rows = [...windows.flatMap(([from, to]) => latest(id, from, to)), ...texts(id)];
    const at = rows.reduce((last, row) => Math.max(last, timeIn(row.at, now) ?? 0), 0);
    return at > 0 || any(id).length > 0 ? at : null;
  };
}

/** The last rows; more of them until one is a user's. */
function rowsOf(rows: HermesRows, id: string, { rows: count, noise }: TalksQuery): readonly DigestRow[] {
  let found: readonly HermesRow[] = [];
  let before: number | undefined;
  for (let page = 0; page < PAGES; page++) {
    const read = rows.last(id, count, before);
    const shown = withoutNoise(
      read.flatMap(({ row }) => (row === null ? [] : [row])),
      noise,
    );
    found = [...shown, ...found];
    if (read.length < count || shown.some((row) => row.role === "user")) break;
    before = Math.min(...read.map((row) => row.id));
  }
  return withoutOthers(found);
}

/** D11: what others said in a session of the owner's, and what they were answered, is theirs: it only shows that something went on. */
function withoutOthers(rows: readonly HermesRow[]): readonly DigestRow[] {
  let isOthers = false;
  return rows.map((row) => {
    if (row.role === "user") isOthers = row.isOwners === false;
    return isOthers ? { role: "other", text: "", at: row.at } : row;
  });
}

/** Damaged pages cost the session whose rows stand there, and no other. */
function unlessDamaged<T>(id: string, notes: string[], read: () => T): T | undefined {
  try {
    return read();
  } catch (cause) {
    if (!isDamage(cause)) throw cause;
    notes.push(`Session ${id} is damaged in the file, and left out.`);
    return undefined;
  }
}

export function notesOf({ judged, assumed, unclear }: Judgement): string[] {
  const groups = judged.filter(({ standing }) => standing === "group").length;
  return [
    ...(assumed === 0
      ? []
      : [`Of ${assumed} sessions nothing says what kind of chat they are: they count as direct chats of the owner.`]),
    ...[...unclear].map(
      ([source, ids]) =>
        `${source} is left out: its direct chats are of several people (${ids.slice(0, 5).join(", ")}${ids.length > 5 ? ", …" : ""}). Say which one is the owner: --owner ${source}:ID.`,
    ),
    ...(groups === 0 ? [] : [`${groups} group sessions are left out.`]),
  ];
}
