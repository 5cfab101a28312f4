import { parseSessionKey } from "../../../conversation/session-key.ts";
import type { DigestReader } from "../../readers.ts";
import type { DirectRow, DirectSession } from "../../rows.ts";
import type { ReadsOf } from "./reads.ts";

export const digestReads: ReadsOf<DigestReader> = {
  directSessions(db, personId) {
    // What was brought in has no door here; what went on has the one where something was said last.
    const rows = db.all<Omit<DirectSession, "lastAt"> & { key: string; lastAt: number | null }>(
      `SELECT s.id AS sessionId, s.agent, c.key,
         CASE WHEN f.session_id IS NULL THEN p.platform ELSE
           (SELECT q.platform FROM entry e JOIN message m ON m.id = e.message_id JOIN place q ON q.id = m.place_id
            WHERE e.session_id = s.id ORDER BY e.seq DESC LIMIT 1) END AS platform,
         (SELECT m.admitted_at FROM entry e JOIN message m ON m.id = e.message_id
          WHERE e.session_id = s.id AND e.role IN('user','assistant') ORDER BY e.seq DESC LIMIT 1) AS lastAt
       FROM session s JOIN conversation c ON c.id = s.home JOIN place p ON p.id = c.place_id
         LEFT JOIN foreign_session f ON f.session_id = s.id
       WHERE s.owner_person = ?1 AND c.person_id = ?1 AND c.kind = 'kept' AND p.chat_type = 'dm'
         AND (f.session_id IS NULL OR s.seq > f.entries)`,
      personId,
    );
    return rows.flatMap(({ key, lastAt, ...row }) => {
      const { form } = parseSessionKey(key);
      return lastAt === null || form === "job" ? [] : [{ ...row, lastAt }];
    });
  },

  directRows(db, query) {
    return db
      .all<{ role: DirectRow["role"]; text: string; at: number | null }>(
        `SELECT e.role, coalesce(m.body, e.body, '') AS text, m.admitted_at AS at
         FROM entry e LEFT JOIN message m ON m.id = e.message_id LEFT JOIN place p ON p.id = m.place_id
         WHERE e.session_id = ?1 AND e.role <> 'mark' AND m.deleted_at IS NULL AND (p.id IS NULL OR (p.chat_type = 'dm'
           AND EXISTS(SELECT 1 FROM conversation c WHERE c.place_id = p.id AND c.person_id = ?2)))
         ORDER BY e.seq DESC LIMIT ?3`,
        query.sessionId,
        query.personId,
        query.limit,
      )
      .reverse();
  },
};
