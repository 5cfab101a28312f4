import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type HermesState, hermesState } from "../../../test/support/hermes-state.ts";
import { temporaryFolder } from "../../../test/support/store.ts";
import { DEFAULT_DIGEST, readDigest } from "../digest.ts";
import { HermesHistory } from "./history.ts";
import { HermesDb } from "./state-db.ts";
import { createHermesTalks } from "./talks.ts";
import { timeIn } from "./times.ts";

const MOMENT = Date.UTC(2025, 10, 30, 12, 0, 0); // a Sunday, 12:00 UTC
const NOW = MOMENT + 30 * 60_000;
const local = (...[y, m, d, h, min, s, ms]: number[]): number =>
  new Date(y!, m! - 1, d, h ?? 0, min ?? 0, s ?? 0, ms ?? 0).getTime();

/** F-DIG-03: units by magnitude, numbers in texts, the ISO forms of Python and SQLite; and what is no time stays none. */
describe("F-DIG-03 a time is read in the unit and form it was written in", () => {
  test.each([
    ["seconds", MOMENT / 1000],
    ["seconds with a fraction", MOMENT / 1000 + 0.25, 250],
    ["milliseconds", MOMENT],
    ["microseconds", MOMENT * 1e3],
    ["nanoseconds", MOMENT * 1e6],
    ["a number in a text", String(MOMENT / 1000)],
    ["a text with a fraction", `${MOMENT / 1000}.250`, 250],
    ["milliseconds in a text", ` ${MOMENT} `],
    ["nanoseconds in a text", `${MOMENT}000000`],
    ["an exponent in a text", "1.7645040e9"],
    ["ISO in UTC", "2025-11-30T12:00:00Z"],
    ["ISO with microseconds and a zone", "2025-11-30T20:00:00.250000+08:00", 250],
    ["a zone without a colon", "2025-11-30T04:30:00-0730"],
    ["a zone of hours", "2025-11-30T14:00+02"],
    ["Python's own text of a time with a zone", "2025-11-30 12:00:00+00:00"],
    ["SQLite's CURRENT_TIMESTAMP", "2025-11-30 12:00:00"],
    ["SQLite's with milliseconds", "2025-11-30 12:00:00.250", 250],
    ["the basic form", "20251130T120000Z"],
    ["a name of the zone", "2025-11-30 12:00:00 UTC"],
  ])("F-DIG-03 D1: %s", (_, value, more = 0) => {
    expect(timeIn(value, NOW)).toBe(MOMENT + more);
  });

  test("F-DIG-03 D1: with T and without a zone it is local time, as Python writes it", () => {
    expect(timeIn("2025-11-29T12:00:00", NOW)).toBe(local(2025, 11, 29, 12));
    expect(timeIn("2025-11-29T12:00:00.123456", NOW)).toBe(local(2025, 11, 29, 12, 0, 0, 123));
    expect(timeIn("2025-11-29 12:00:00.123456", NOW)).toBe(local(2025, 11, 29, 12, 0, 0, 123));
    expect(timeIn("2025-11-29 12:00:00.123", NOW)).toBe(Date.UTC(2025, 10, 29, 12, 0, 0, 123));
  });

  test("F-DIG-03 D1: a day alone is its beginning in UTC", () => {
    expect(timeIn("2025-11-30", NOW)).toBe(Date.UTC(2025, 10, 30));
  });

  test.each([
    null,
    "",
    "yesterday",
    "2025-13-01T00:00:00Z",
    "2025-02-30",
    "2025-11-30T25:00:00Z",
    "12:00",
    0,
    -1,
    1,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    (NOW + 86_400_000) / 1000,
    NOW + 86_400_000,
    "2031-01-01T00:00:00Z",
    9.9e20,
    "1999-12-31",
    "1e400",
    new Uint8Array([1]),
  ])("F-DIG-03 D1: %s is no time", (value) => {
    expect(timeIn(value, NOW)).toBeNull();
  });
});

const UNITS: Readonly<Record<string, (ms: number) => string>> = {
  seconds: (ms) => String(ms / 1000),
  milliseconds: String,
  microseconds: (ms) => `${ms}000`,
  nanoseconds: (ms) => `${ms}000000`,
  "ISO texts": (ms) => `'${new Date(ms).toISOString()}'`,
  "texts of SQLite": (ms) => `'${new Date(ms).toISOString().slice(0, 19).replace("T", " ")}'`,
};
const units = Object.keys(UNITS);

describe("F-DIG-03 in a state.db", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let state: HermesState;
  beforeEach(() => {
    folder = temporaryFolder();
    state = hermesState(`${folder.path}/state.db`);
    // As an earlier tool may have made it: SQLite keeps there what was written.
    state.exec(`DROP TABLE sessions; CREATE TABLE sessions(id TEXT PRIMARY KEY, source TEXT, parent_session_id TEXT, started_at, ended_at, end_reason TEXT);
      DROP TABLE messages; CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp);
      CREATE INDEX messages_by_time ON messages(session_id, timestamp)`);
  });
  afterEach(() => {
    state.close();
    folder.remove();
  });

  const session = (id: string): void => state.exec(`INSERT INTO sessions(id, source) VALUES('${id}', 'cli')`);
  const says = (id: string, text: string, ms: number, unit: string): void =>
    state.exec(
      `INSERT INTO messages(session_id, role, content, timestamp) VALUES('${id}', 'user', '${text}', ${UNITS[unit]!(ms)})`,
    );
  const digest = () => readDigest(createHermesTalks({ path: `${folder.path}/state.db` }), DEFAULT_DIGEST, NOW);

  test.each(units.flatMap((a) => units.map((b) => [a, b] as const)))(
    "F-DIG-03 D2: the latest in %s, an older one in %s: the latest is told, with its time",
    async (a, b) => {
      session("a");
      session("b");
      says("a", "told", MOMENT, a);
      says("b", "before", MOMENT - 3_600_000, b);
      const { sections } = await digest();
      expect(sections).toMatchObject([{ sessionId: "a", lastAt: MOMENT, pairs: [{ user: "told" }] }]);
    },
  );

  test.each(units)("F-DIG-03 D2: a session that begins in seconds and goes on in %s has its pause", async (unit) => {
    session("a");
    session("b");
    says("b", "earlier", MOMENT - 60_000, "seconds");
    says("a", "long ago", MOMENT - 7_200_000, "seconds");
    says("a", "now", MOMENT, unit);
    const { sections } = await digest();
    expect(sections).toMatchObject([{ sessionId: "a", lastAt: MOMENT, pairs: [{ user: "now" }] }]);
    expect(sections[0]?.pairs).toHaveLength(1);
  });

  test.each(["TEXT", "INTEGER", "REAL", "TIMESTAMP"])("F-DIG-03 D2: in a column of type %s", async (type) => {
    state.exec(
      `DROP TABLE messages; CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp ${type})`,
    );
    session("a");
    session("b");
    says("b", "before", MOMENT - 7_200_000, "nanoseconds");
    says("b", "between", MOMENT - 3_600_000, "ISO texts");
    says("a", "told", MOMENT, "milliseconds");
    says("a", "last", MOMENT + 60_000, "seconds");
    const { sections } = await digest();
    expect(sections).toMatchObject([{ sessionId: "a", lastAt: MOMENT + 60_000 }]);
    expect(sections[0]?.pairs.map(({ user }) => user)).toEqual(["told", "last"]);
  });

  test("F-DIG-03 D1: a number larger than any clock is no error, and no time", async () => {
    session("a");
    says("a", "odd", MOMENT, "seconds");
    state.exec(
      "UPDATE messages SET timestamp = 9223372036854775807; UPDATE sessions SET started_at = 9223372036854775807",
    );
    expect((await digest()).sections).toMatchObject([{ lastAt: null, pairs: [{ user: "odd" }] }]);
  });

  test.each(units)("F-DIG-03 H13: an import has the times of sessions that are in %s", (unit) => {
    session("a");
    says("a", "hello", MOMENT, unit);
    state.exec(
      `UPDATE sessions SET started_at = ${UNITS[unit]!(MOMENT - 60_000)}, ended_at = ${UNITS[unit]!(MOMENT + 60_000)}`,
    );
    const db = new HermesDb(`${folder.path}/state.db`);
    try {
      const history = new HermesHistory(db, { now: NOW, owners: [], known: [] });
      const [imported] = [...history.batches()].flat();
      expect(imported).toMatchObject({
        openedAt: MOMENT - 60_000,
        endedAt: MOMENT + 60_000,
        messages: [{ text: "hello", at: MOMENT }],
      });
    } finally {
      db.close();
    }
  });
});
