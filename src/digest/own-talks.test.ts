import { expect, test } from "vitest";
import { DEFAULT_DIGEST, NOISE, readDigest } from "./digest.ts";
import { latestTalk } from "./latest-talk.ts";
import { createOwnTalks } from "./own-talks.ts";

const START = Date.UTC(2026, 10, 30, 8);

/** Sessions of one platform, each with its lines, one a minute. */
function talksOf(sessions: Readonly<Record<string, readonly string[]>>) {
  const rows = Object.entries(sessions).map(([sessionId, lines], i) => ({
    sessionId,
    rows: lines.map((text, n) => ({ role: "user" as const, text, at: START + (100 * i + n) * 60_000 })),
  }));
  return createOwnTalks({
    directSessions: async () =>
      rows.map((one) => ({
        sessionId: one.sessionId,
        agent: "main",
        platform: "telegram",
        lastAt: one.rows.at(-1)?.at ?? 0,
      })),
    directRows: async ({ sessionId }) => rows.find((one) => one.sessionId === sessionId)?.rows ?? [],
  });
}

test("D2 D3: G-SYN-06: of our own sessions as well, automatic messages make none the latest", async () => {
  const source = talksOf({ talk: ["hello"], ping: ["BEEP one", "[System: two]"], later: ["bye", "BEEP three"] });
  const settings = { ...DEFAULT_DIGEST, noise: [...NOISE, "BEEP"] };
  const { sections } = await readDigest(source, settings, START);
  expect(sections.map(({ sessionId, pairs }) => [sessionId, ...pairs.map(({ user }) => user)])).toEqual([
    ["later", "bye"],
  ]);
  const { sections: others } = await readDigest(talksOf({ talk: ["hello"], ping: ["BEEP"] }), settings, START);
  expect(others.map(({ sessionId }) => sessionId)).toEqual(["talk"]);
});

test("D2: G-SYN-06: of sessions with equal times it is always the same, in whatever order they come", () => {
  const rows = [{ role: "user", text: "hello", at: START }] as const;
  const sessions = ["c", "a", "b"].map((id) => ({ id, lastAt: START }));
  for (const candidates of [sessions, sessions.toReversed()])
    expect(latestTalk("web", candidates, () => rows)?.sessionId).toBe("a");
});
