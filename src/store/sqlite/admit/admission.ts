import type { Authority } from "../../../conversation/person.ts";
import type { Notice } from "../../../message/notice.ts";
import type { Target } from "../../../message/target.ts";
import type {
  AdmitBatch,
  AdmitOutcome,
  CommandEvent,
  Consequences,
  InboundEvent,
  MessageEvent,
  RejectCode,
} from "../../events.ts";
import type { Database, Write } from "../database.ts";
import { addNotice } from "../deliveries.ts";
import type { ConversationRecord } from "../rows.ts";

/** The admission of one event: the transaction, the batch, and the consequences so far. */
export interface Admission extends Write {
  readonly batch: AdmitBatch;
  /** Filled on the way, in the order in which things happen. */
  readonly consequences: { readonly [Kind in keyof Consequences]: Consequences[Kind][number][] };
  /** Takes the next id for a session (`<freshId>`, `<freshId>-1`, …). */
  nextId(): string;
}

/** A message or command in its conversation, stored, with the authority of its author. */
export interface Spoken<Event extends MessageEvent | CommandEvent = MessageEvent | CommandEvent> {
  readonly event: Event;
  readonly conversation: ConversationRecord;
  readonly messageId: number;
  readonly who: Authority;
}

/** A refusal of the domain: nothing of the event stays, the rest of the batch does (T12). */
export class Rejection {
  readonly code: RejectCode;
  readonly sentence: string;
  constructor(code: RejectCode, sentence: string) {
    this.code = code;
    this.sentence = sentence;
  }
}

export function beginAdmission(write: Write, batch: AdmitBatch, { freshId }: InboundEvent): Admission {
  let ids = 0;
  return {
    ...write,
    batch,
    consequences: { notices: [], ended: [], rewound: [], putOff: [], settled: [], wake: [] },
    nextId: () => (ids++ === 0 ? freshId : `${freshId}-${ids - 1}`),
  };
}

/** Writes a notice besides the event's own answer. */
export function notify({ db, now, claim, consequences }: Admission, target: Target, notice: Notice): void {
  consequences.notices.push(...addNotice(db, { target, notice, now }, claim));
}

export function consequencesOf({ consequences }: Admission): Consequences {
  return { ...consequences, wake: [...new Set(consequences.wake)] };
}

/** The part of an outcome that names its conversation. */
export function outcomeIn(
  admission: Admission,
  { id, key }: ConversationRecord,
): Consequences & { readonly conversationId: number; readonly key: string } {
  return { conversationId: id, key, ...consequencesOf(admission) };
}

export function outcomeOf(
  admission: Admission,
  { conversation, messageId }: Spoken,
): ReturnType<typeof outcomeIn> & { readonly messageId: number } {
  return { messageId, ...outcomeIn(admission, conversation) };
}

// ---- ids of events (T3)

/** The message of an event that is known already; undefined for a new one. */
export function knownEvent(
  { db, batch }: Pick<Admission, "db" | "batch">,
  { eventId }: Pick<InboundEvent, "eventId">,
): { readonly message_id: number | null } | undefined {
  if (eventId === undefined) return undefined;
  return db.get("SELECT message_id FROM event_seen WHERE account_id = ? AND event_id = ?", batch.account, eventId);
}

export function rememberEvent(
  { db, batch }: Pick<Admission, "db" | "batch">,
  { eventId }: Pick<InboundEvent, "eventId">,
  messageId: number | null,
): void {
  if (eventId === undefined) return;
  db.run(
    "INSERT INTO event_seen(account_id, event_id, message_id, at) VALUES(?, ?, ?, ?)",
    batch.account,
    eventId,
    messageId,
    batch.now,
  );
}

export function duplicate(db: Database, messageId: number | null, conversationId: number | null = null): AdmitOutcome {
  const intake =
    messageId === null
      ? undefined
      : db.get<{ conversation_id: number; turn_id: number | null }>(
          "SELECT conversation_id, turn_id FROM intake WHERE message_id = ?1 AND (conversation_id = ?2 OR ?2 IS NULL)",
          messageId,
          conversationId,
        );
  return {
    kind: "duplicate",
    messageId,
    conversationId: intake?.conversation_id ?? null,
    turnId: intake?.turn_id ?? null,
  };
}
