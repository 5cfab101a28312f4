import type { DigestReader } from "../store/readers.ts";
import type { DirectSession } from "../store/rows.ts";
import { type DigestRow, type DigestSource, type Talk, withoutNoise } from "./digest.ts";
import { latestTalk } from "./latest-talk.ts";

/** Whose talks the files hold (D9): whoever has this machine's terminal. */
export const DIGEST_PERSON = "owner";

/** Sessions of one platform whose rows are read. */
const LOOKED_INTO = 4;

/** D1: the owner's talks in our own store. */
export function createOwnTalks(reader: DigestReader, personId = DIGEST_PERSON): DigestSource {
  return {
    async talks({ rows: limit, noise }) {
      const found = await reader.directSessions(personId);
      // A blank stands in neither name.
      const byDoor = Map.groupBy(found, ({ platform, agent }) => `${platform} ${agent}`);
      const talks: Talk[] = [];
      for (const sessions of byDoor.values()) {
        const { platform, agent } = sessions[0]!;
        const latest = sessions.toSorted(laterFirst).slice(0, LOOKED_INTO);
        const rows = new Map<string, readonly DigestRow[]>();
        for (const { sessionId } of latest)
          rows.set(sessionId, withoutNoise(await reader.directRows({ sessionId, personId, limit }), noise));
        const candidates = latest.map(({ sessionId, lastAt }) => ({ id: sessionId, lastAt }));
        const talk = latestTalk(platform === "console" ? "terminal" : platform, candidates, (id) => rows.get(id) ?? []);
        if (talk !== null) talks.push({ ...talk, agent });
      }
      const isOne = new Set(talks.map(({ agent }) => agent)).size <= 1;
      return { talks: isOne ? talks.map(({ agent: _, ...talk }) => talk) : talks, notes: [] };
    },
  };
}

function laterFirst(a: DirectSession, b: DirectSession): number {
  return b.lastAt - a.lastAt || (a.sessionId < b.sessionId ? -1 : 1);
}
