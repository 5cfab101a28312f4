import { parseSessionKey } from "../../../conversation/session-key.ts";
import type { StatusReader } from "../../readers.ts";
import type { ReadsOf } from "./reads.ts";

export const statusReads: ReadsOf<StatusReader> = {
  refusedEvents(db, query) {
    return db
      .all<{ account_id: string; event_id: string; at: number; code: string; sentence: string; raw: string | null }>(
        "SELECT * FROM refused_event WHERE (?1 IS NULL OR account_id = ?1) ORDER BY id DESC LIMIT ?2",
        query.account ?? null,
        query.limit,
      )
      .map((row) => ({
        account: row.account_id,
        eventId: row.event_id,
        at: row.at,
        code: row.code,
        sentence: row.sentence,
        raw: row.raw,
      }));
  },

  cursor(db, account) {
    return db.get<{ cursor: string | null }>("SELECT cursor FROM account WHERE id = ?", account)?.cursor ?? null;
  },

  sessionsOfOthers(db, personId) {
    const rows = db.all<{ isGroup: number; key: string; personId: string | null }>(
      `SELECT p.chat_type <> 'dm' AS isGroup, c.key, c.person_id AS personId
       FROM session s JOIN conversation c ON c.id = s.home JOIN place p ON p.id = c.place_id WHERE c.kind = 'kept'`,
    );
    const ours = rows.filter(({ key }) => parseSessionKey(key).form !== "foreign");
    return {
      groups: ours.filter(({ isGroup }) => isGroup === 1).length,
      direct: ours.filter((row) => row.isGroup === 0 && row.personId !== personId).length,
    };
  },

  openCounts(db) {
    return db.get<{ turns: number; deliveries: number }>(
      `SELECT (SELECT count(*) FROM turn INDEXED BY turn_queued WHERE state = 'queued')
         + (SELECT count(*) FROM turn INDEXED BY turn_one_running WHERE state = 'running') AS turns,
       (SELECT count(*) FROM delivery INDEXED BY delivery_open WHERE state IN('queued','sending','streaming')) AS deliveries`,
    )!;
  },

  counts(db) {
    return db.get<Record<"conversations" | "sessions" | "messages" | "turns" | "openTurns" | "openDeliveries", number>>(
      `SELECT (SELECT count(*) FROM conversation WHERE kind = 'kept') AS conversations, (SELECT count(*) FROM session) AS sessions,
         (SELECT count(*) FROM message) AS messages, (SELECT count(*) FROM turn) AS turns,
         (SELECT count(*) FROM turn WHERE state IN('queued','running')) AS openTurns,
         (SELECT count(*) FROM delivery WHERE state IN('queued','sending','streaming')) AS openDeliveries`,
    )!;
  },
};
