import {
  afterHuman,
  afterQuick,
  afterTurn,
  isProgram,
  type LoopState,
  mayAnswer,
  QUICK_MS,
  QUIET,
} from "../../conversation/loop-guard.ts";
import type { Author } from "../../message/message.ts";
import { accountId, type Platform } from "../../message/source.ts";
import type { Target } from "../../message/target.ts";
import { readOriginId } from "../../text/origin-id.ts";
import { deliveryText } from "../../text/render-notice.ts";
import type { Database, Write } from "./database.ts";
import { nameMessage } from "./messages.ts";
import { type DeliveryRecord, deliveryOf } from "./rows.ts";

/** Rows of shared places: who reads along (H7), how often agents answer each other (G5), and the echoes of our own messages (G3). */

type Moment = Pick<Write, "db" | "now">;

/** Stores an author as a reader of a place; agents of ours are none (H7). */
export function addReader({ db, now }: Moment, placeId: number, author: Author): void {
  if (author.kind !== "person" && author.kind !== "bot") return;
  db.run(
    "INSERT INTO place_reader(place_id, kind, id, at) VALUES(?, ?, ?, ?) ON CONFLICT DO NOTHING",
    placeId,
    author.kind,
    author.id,
    now,
  );
}

/** True if somebody other than that person is known to read along in a place. */
export function hasOtherReaders(db: Database, placeId: number, personId: string | null): boolean {
  const other = db.get(
    "SELECT 1 FROM place_reader WHERE place_id = ? AND NOT(kind = 'person' AND id = ?) LIMIT 1",
    placeId,
    personId ?? "",
  );
  return other !== undefined;
}

// ---- the loop guard

function loopState(db: Database, placeId: number): LoopState {
  const row = db.get<{ in_row: number; recent: string; said: number; quick: number; answered: number }>(
    "SELECT in_row, recent, said, quick, answered FROM loop_guard WHERE place_id = ?",
    placeId,
  );
  if (row === undefined) return QUIET;
  const { in_row: inRow, recent, said, quick, answered } = row;
  return { inRow, recent: JSON.parse(recent) as number[], isSaid: said === 1, quick, answered };
}

function keepLoopState(db: Database, placeId: number, { inRow, recent, isSaid, quick, answered }: LoopState): void {
  db.run(
    `INSERT INTO loop_guard(place_id, in_row, recent, said, quick, answered) VALUES(?, ?, ?, ?, ?, ?)
     ON CONFLICT(place_id) DO UPDATE SET in_row = excluded.in_row, recent = excluded.recent, said = excluded.said, quick = excluded.quick, answered = excluded.answered`,
    placeId,
    inRow,
    JSON.stringify(recent),
    isSaid ? 1 : 0,
    quick,
    answered,
  );
}

export function humanSpoke(db: Database, placeId: number): void {
  const state = loopState(db, placeId);
  if (state.inRow > 0 || state.isSaid || state.quick > 0) keepLoopState(db, placeId, afterHuman(state));
}

/** Counts a guest's message for the loop guard: within a second of a delivery of ours it is a program's answer (G5). */
export function guestSpoke({ db, now }: Moment, placeId: number, target: Target): void {
  const state = loopState(db, placeId);
  const said = saidJustNow(db, target, now);
  if (said !== undefined && said > state.answered) keepLoopState(db, placeId, afterQuick(state, said));
  else humanSpoke(db, placeId);
}

/** A second holds fewer deliveries than this. */
const LATELY = 500;

/** The last delivery of any of our accounts into that chat, if it is no older than a second. */
function saidJustNow(db: Database, { platform, chatId }: Target, now: number): number | undefined {
  const lately = db.all<DeliveryRecord>(
    `SELECT * FROM delivery WHERE id > (SELECT max(id) FROM delivery) - ${LATELY} AND created_at BETWEEN ? AND ? ORDER BY id DESC`,
    now - QUICK_MS,
    now,
  );
  return lately.find((row) => isThere(row, { platform, chatId }))?.id;
}

/** True if guests there are taken for programs. */
export function isLooping(db: Database, placeId: number): boolean {
  return isProgram(loopState(db, placeId));
}

/** `guarded`: programs begin no more turns there; `isFirst`: for the first time since a person spoke. */
export function guardLoop(db: Database, placeId: number, now: number): { guarded: boolean; isFirst: boolean } {
  const state = loopState(db, placeId);
  if (mayAnswer(state, now)) return { guarded: false, isFirst: false };
  if (!state.isSaid) keepLoopState(db, placeId, { ...state, isSaid: true });
  return { guarded: true, isFirst: !state.isSaid };
}

export function agentBegan(db: Database, placeId: number, now: number): void {
  keepLoopState(db, placeId, afterTurn(loopState(db, placeId), now));
}

// ---- own words

export interface Echo {
  readonly platform: Platform;
  readonly chatId: string;
  /** The platform's id of the message. */
  readonly externalId?: string | undefined;
  /** The origin id that we sent with it, as the platform repeats it; only for our own authors (G3). */
  readonly originId?: string | undefined;
  /** The account that wrote it; absent where another account of ours received it. */
  readonly account?: string;
  readonly text: string;
  /** True for what was said before the account joined: it matches no open delivery. */
  readonly isHistory: boolean;
}

/** The delivery that a message of one of our accounts echoes: by our origin id, by the platform's id, or by the text of an open delivery. */
export function deliveryOfEcho(db: Database, echo: Echo): DeliveryRecord | undefined {
  const origin = readOriginId(echo.originId ?? "");
  const byOrigin =
    origin === null
      ? undefined
      : db.get<DeliveryRecord>("SELECT * FROM delivery WHERE id = ? AND created_at = ?", origin.id, origin.createdAt);
  // Our own id says enough: of a private message through a room the address differs from the chat.
  if (byOrigin !== undefined && isOf(byOrigin, echo)) return byOrigin;
  const known =
    echo.externalId === undefined
      ? []
      : db.all<DeliveryRecord>("SELECT * FROM delivery WHERE ext_id = ?", echo.externalId);
  const byId = known.find((row) => isThere(row, echo));
  if (byId !== undefined || echo.isHistory) return byId;
  return db
    .all<DeliveryRecord>(
      "SELECT * FROM delivery INDEXED BY delivery_open WHERE state IN('queued','sending','streaming') AND attempt > 0",
    )
    .find((row) => row.ext_id === null && isThere(row, echo) && saysSo(row, echo.text));
}

function saysSo(row: DeliveryRecord, text: string): boolean {
  return deliveryText(deliveryOf(row)).trim() === text.trim();
}

type Chat = Pick<Echo, "platform" | "chatId" | "account">;

function isOf(row: DeliveryRecord, { platform, account }: Chat): boolean {
  const target = JSON.parse(row.target) as Target;
  return (
    target.door === "push" && target.platform === platform && (account === undefined || target.account === account)
  );
}

function isThere(row: DeliveryRecord, echo: Chat): boolean {
  const target = JSON.parse(row.target) as Target;
  return isOf(row, echo) && accountId(echo.platform, target.chatId) === accountId(echo.platform, echo.chatId);
}

/** Marks a delivery as delivered, for the platform shows it, whatever became of the attempt. */
export function confirmDelivery(db: Database, row: DeliveryRecord, externalId: string | undefined): void {
  db.run(
    "UPDATE delivery SET state = 'delivered', ext_id = coalesce(?, ext_id), reason = NULL WHERE id = ?",
    externalId ?? null,
    row.id,
  );
  if (row.message_id !== null && externalId !== undefined) nameMessage(db, row.message_id, externalId);
}
