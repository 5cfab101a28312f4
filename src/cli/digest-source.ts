import type { Config } from "../config/config.ts";
import { type Digest, readDigest, settingsFrom } from "../digest/digest.ts";
import { createOwnTalks, DIGEST_PERSON } from "../digest/own-talks.ts";
import type { SessionsOfOthers } from "../store/rows.ts";
import { readState } from "./state.ts";

/** The digest of our own store: the running gateway's, or that of its file; null where there is neither. */
export function ownDigest(config: Config): Promise<Digest | null> {
  return readState<Digest>(config, {
    gateway: (client) => client.get("/api/digest"),
    file: (reader) => readDigest(createOwnTalks(reader), settingsFrom(config.digest), Date.now()),
  });
}

/** D9: who besides the owner has sessions in our own state, as sentences. Any of them may have an agent that works in the home. */
export async function ownReaders(config: Config): Promise<string[]> {
  const others = await readState<SessionsOfOthers>(config, {
    gateway: (client) => client.get("/api/digest/readers"),
    file: (reader) => reader.sessionsOfOthers(DIGEST_PERSON),
  });
  const { groups, direct } = others ?? { groups: 0, direct: 0 };
  return [
    ...(groups === 0 ? [] : [`There are ${groups} group sessions.`]),
    ...(direct === 0 ? [] : [`There are ${direct} direct chats of others.`]),
  ];
}
