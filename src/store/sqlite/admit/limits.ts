import { pacesOf } from "../../../conversation/rate-limit.ts";
import type { Notice } from "../../../message/notice.ts";
import type { AdmitOutcome } from "../../events.ts";
import { hurry, isNews } from "../pace.ts";
import { type Admission, notify, type Spoken } from "./admission.ts";
import { addIntake, placeOfEvent } from "./conversations.ts";

/** Refuses messages and commands that are too many (T5, A10). Each refused message has its fate; its author is notified now and then. */

export type RefusedWords = Pick<Extract<AdmitOutcome, { kind: "refused" }>, "kind" | "code" | "notice">;

/** Refuses a message that a busy or full queue does not take. `busy` is said once per running turn, `queue_full` once a minute. */
export function refuseBusy(admission: Admission, spoken: Spoken, code: "busy" | "queue_full"): RefusedWords {
  const { db, now } = admission;
  const { id } = spoken.conversation;
  const isNewsHere =
    code === "queue_full"
      ? isNews(db, { id: `queue_full ${id}`, now })
      : db.get(
          `SELECT 1 FROM intake i WHERE i.conversation_id = ?1 AND i.reason = 'busy'
           AND i.message_id > (SELECT coalesce(max(message_id), 0) FROM intake WHERE conversation_id = ?1 AND turn_id IS NOT NULL) LIMIT 1`,
          id,
        ) === undefined;
  const { maxWaitingTurns, maxMessagesPerTurn: messages } = spoken.event.rules;
  const notice: Notice = { code, args: { limit: code === "busy" ? null : maxWaitingTurns, messages } };
  return refuse(admission, spoken, { code, notice, isNews: isNewsHere });
}

/** Refuses a guest who begins too many turns or commands (A10); null otherwise. Sibling agents have the loop guard instead (G5). */
export function refuseHurry(admission: Admission, spoken: Spoken, deed: "turn" | "command"): RefusedWords | null {
  const { db, now, batch } = admission;
  const { event, conversation, who } = spoken;
  const { author } = event.speaker;
  const { limits } = event.rules;
  if (limits === undefined || who.role !== "guest" || author.kind === "agent") return null;
  const guest = who.personId ?? `${author.kind} ${author.id}`;
  const at = { guest, place: placeOfEvent(db, conversation, event), account: batch.account };
  const held = hurry(db, pacesOf(deed, at, limits), now);
  return held === null ? null : refuse(admission, spoken, { ...held, code: "rate_limited" });
}

function refuse(
  admission: Admission,
  { event, conversation, messageId }: Spoken,
  { code, notice, isNews: isSaid }: Pick<RefusedWords, "code" | "notice"> & { readonly isNews: boolean },
): RefusedWords {
  addIntake(admission.db, { conversationId: conversation.id, messageId, fate: "refused", reason: code });
  if (isSaid) notify(admission, event.target, notice);
  return { kind: "refused", code, notice };
}
