import { judge, readSessions } from "./sessions.ts";
import { HermesDb } from "./state-db.ts";

/** D9: who besides the owner has sessions in a state.db, as sentences. Every session of a home reads its context files. */
export function otherReaders({
  path,
  owners,
  now,
}: {
  path: string;
  owners: readonly string[];
  now: number;
}): string[] {
  const db = new HermesDb(path);
  try {
    const { judged, assumed, unclear } = judge(readSessions(db, now), owners);
    const count = (standing: string): number => judged.filter((one) => one.standing === standing).length;
    const groups = count("group");
    const strangers = count("stranger");
    return [
      ...(groups === 0 ? [] : [`There are ${groups} group sessions.`]),
      ...(strangers === 0
        ? []
        : [
            `There are ${strangers} direct chats that are not known to be the owner's${unclear.size === 0 ? "" : ` (${[...unclear.keys()].join(", ")}: say whose with --owner PLATFORM:ID)`}.`,
          ]),
      ...(assumed === 0 ? [] : [`Of ${assumed} sessions nothing says whether they are group sessions.`]),
    ];
  } finally {
    db.close();
  }
}
