import { isAmongOwn } from "../../conversation/binding.ts";
import type { Authority, Speaker } from "../../conversation/person.ts";
import { isAtLeast, leastAuthority } from "../../conversation/person.ts";
import { placeOf } from "../../conversation/place.ts";
import { queueDecision, readyAt, type Traffic } from "../../conversation/queue-decision.ts";
import { pacesOf } from "../../conversation/rate-limit.ts";
import {
  buildSessionKey,
  parseLocalDoorChatId,
  parseSessionKey,
  sessionKeyFor,
} from "../../conversation/session-key.ts";
import { titleOf } from "../../conversation/title.ts";
import { TertuliaError } from "../../errors.ts";
import type { Notice } from "../../message/notice.ts";
import {
  hasNoAddress,
  isBlank,
  isLocalDoor,
  requireAddress,
  type Source,
  withoutBlankIds,
} from "../../message/source.ts";
import { isSameTarget, type Target } from "../../message/target.ts";
import { partsFor } from "../../text/assemble.ts";
import type {
  AdmitBatch,
  AdmitOutcome,
  AdmitResult,
  AdmitRules,
  Audience,
  BindEvent,
  BoundBy,
  Claim,
  CommandEvent,
  ConversationRef,
  DeleteEvent,
  EditEvent,
  ForeignRef,
  InboundEvent,
  JobEvent,
  Landed,
  LostEvent,
  MessageEvent,
  OwnEvent,
  RefusedEvent,
  RejectCode,
  RequestKey,
  SendEvent,
  Turn,
  TurnSignal,
} from "../store.ts";
import { deleteMessage, editMessage, takeBackWaiting } from "./changes.ts";
import type { Database } from "./database.ts";
import { lifeCommand } from "./life.ts";
import { hurry, isNews } from "./pace.ts";
import { authorityOf, commandFault, mayInterrupt } from "./rights.ts";
import {
  addReader,
  agentBegan,
  confirmDelivery,
  deliveryOfEcho,
  guardLoop,
  guestSpoke,
  humanSpoke,
  isLooping,
  noteReader,
} from "./rooms.ts";
import {
  type ConversationRecord,
  type DeliveryRecord,
  type MessageRecord,
  type SessionRecord,
  type TurnRecord,
  turnOf,
} from "./rows.ts";
import {
  type Admit,
  clearBindings,
  conversationRecord,
  firstSession,
  leaveForeignSessions,
  loseSession,
  readersOf,
  reopenSession,
  resetSession,
  resolveSession,
  sessionRecord,
  sessionThatGoesOn,
  setBinding,
  tell,
} from "./sessions.ts";
import { addDelivery, addEntry, addMessage, addNotice, cancel } from "./turns.ts";

/** The verb `admit`: a batch of events of one account and its cursor, in one transaction. */

const RAW_LIMIT = 16 * 1024;

/** A refusal of the domain found on the way: nothing of the event stays, the rest of the batch does (T12). */
class Rejection {
  readonly code: RejectCode;
  readonly sentence: string;
  constructor(code: RejectCode, sentence: string) {
    this.code = code;
    this.sentence = sentence;
  }
}

export function admit(db: Database, batch: AdmitBatch, claim: Claim): AdmitResult {
  const outcomes = batch.events.map((event) => admitEvent(db, batch, withoutBlanks(event), claim));
  // What was rejected leaves no account, either.
  if (batch.cursor !== undefined || outcomes.some(({ kind }) => kind !== "rejected"))
    db.run("INSERT INTO account(id, platform) VALUES(?, ?) ON CONFLICT DO NOTHING", batch.account, batch.platform);
  if (batch.cursor !== undefined) db.run("UPDATE account SET cursor = ? WHERE id = ?", batch.cursor, batch.account);
  return { outcomes };
}

/** What has a blank for an id has none: else all that come with one would be the same (K5, T3). */
function withoutBlanks(event: InboundEvent): InboundEvent {
  const { eventId, ...rest } = event;
  const known = eventId === undefined || isBlank(eventId) ? rest : event;
  return ("source" in event ? { ...known, source: withoutBlankIds(event.source) } : known) as InboundEvent;
}

/** T12: an event is taken in whole or leaves nothing; what it had written when it was refused is taken back. */
function admitEvent(db: Database, batch: AdmitBatch, event: InboundEvent, claim: Claim): AdmitOutcome {
  if (event.kind === "refused") return refuse(db, batch, event, event);
  db.run("SAVEPOINT event");
  try {
    const outcome = takeIn(contextOf(db, batch, event, claim), event);
    db.run("RELEASE event");
    return outcome;
  } catch (problem) {
    // An error of SQLite has ended the transaction with its savepoints: only what we refuse ourselves is taken back here.
    if (!isRefusal(problem)) throw problem;
    db.run("ROLLBACK TO event");
    db.run("RELEASE event");
    if (problem instanceof Rejection) return { kind: "rejected", code: problem.code, sentence: problem.sentence };
    // A caller is told at once; a platform would bring the event again and again.
    if ("source" in event) {
      const raw = isStranger(event) ? {} : { raw: JSON.stringify(event) };
      refuse(db, batch, event, { code: problem.code, sentence: problem.message, ...raw });
    }
    return { kind: "rejected", code: "source_invalid", sentence: problem.message };
  }
}

function isRefusal(problem: unknown): problem is Rejection | TertuliaError {
  return problem instanceof Rejection || (problem instanceof TertuliaError && problem.code === "source_invalid");
}

function contextOf(db: Database, batch: AdmitBatch, { freshId }: InboundEvent, claim: Claim): Context {
  let ids = 0;
  return {
    db,
    claim,
    now: batch.now,
    batch,
    notices: [],
    ended: [],
    rewound: [],
    putOff: [],
    settled: [],
    wake: new Set(),
    nextId: () => (ids++ === 0 ? freshId : `${freshId}-${ids - 1}`),
  };
}

function takeIn(context: Context, event: Exclude<InboundEvent, RefusedEvent>): AdmitOutcome {
  switch (event.kind) {
    case "message":
    case "command":
      return admitSpoken(context, event);
    case "send":
      return admitSend(context, event);
    case "bind":
      return admitBind(context, event);
    case "job":
      return admitJob(context, event);
    case "adopt":
      return { kind: "adopted", sessionId: adopted(context, event, context.batch.agent, event.foreign) };
    case "lost":
      return admitLost(context, event);
    case "reader": {
      const { db, batch, now } = context;
      noteReader(db, placeFor(db, batch.agent, event.source), event, now);
      return { kind: "noted" };
    }
    case "own":
      return admitOwn(context, event);
    case "edit":
    case "delete":
      return admitChange(context, event);
  }
}

interface Context extends Admit {
  readonly batch: AdmitBatch;
}

/** No poison loop: what cannot be admitted is kept, and the cursor passes it (T2). */
function refuse(
  db: Database,
  batch: AdmitBatch,
  { eventId }: Pick<InboundEvent, "eventId">,
  refusal: Pick<RefusedEvent, "code" | "sentence" | "raw" | "reader">,
): AdmitOutcome {
  if (refusal.reader !== undefined && !hasNoAddress(refusal.reader.source)) {
    const { source, author } = refusal.reader;
    addReader(db, placeFor(db, batch.agent, source), author, batch.now);
  }
  // An event without an id comes from a caller who is told at once, and can look at what he sent.
  if (eventId !== undefined && !seen(db, batch.account, eventId)) {
    remember(db, batch, eventId, null);
    db.run(
      "INSERT INTO refused_event(account_id, event_id, at, code, sentence, raw) VALUES(?, ?, ?, ?, ?, ?)",
      batch.account,
      eventId,
      batch.now,
      refusal.code,
      refusal.sentence,
      refusal.raw === undefined ? null : firstBytes(refusal.raw, RAW_LIMIT),
    );
  }
  return { kind: "rejected", code: "request_invalid", sentence: refusal.sentence };
}

/** Of somebody nobody knows only the fact is kept, not the words. */
function isStranger(event: InboundEvent): boolean {
  if (event.kind === "refused" || event.kind === "own" || event.kind === "reader" || event.kind === "lost")
    return false;
  const speaker = "speaker" in event ? event.speaker : event.by;
  if (speaker === null) return false;
  return speaker.person === undefined || speaker.person.role === "guest";
}

function firstBytes(text: string, most: number): string {
  const bytes = Buffer.from(text, "utf8");
  return bytes.byteLength <= most ? text : new TextDecoder().decode(bytes.subarray(0, most), { stream: true });
}

function seen(db: Database, account: string, eventId: string | undefined): { message_id: number | null } | undefined {
  if (eventId === undefined) return undefined;
  return db.get("SELECT message_id FROM event_seen WHERE account_id = ? AND event_id = ?", account, eventId);
}

function remember(db: Database, batch: AdmitBatch, eventId: string | undefined, messageId: number | null): void {
  if (eventId === undefined) return;
  db.run(
    "INSERT INTO event_seen(account_id, event_id, message_id, at) VALUES(?, ?, ?, ?)",
    batch.account,
    eventId,
    messageId,
    batch.now,
  );
}

// ---- messages and commands

function admitSpoken(context: Context, event: MessageEvent | CommandEvent): AdmitOutcome {
  const { db, batch } = context;
  const known = seen(db, batch.account, event.eventId);
  if (known !== undefined) return duplicate(db, known.message_id, null);
  const who = authorityOf(db, event.source, event.speaker);
  const delivery = deliveryOfSiblingAgent(db, event);
  // What an agent of ours was only telling (a notice, a command's answer) is nobody's business (G-HND-07).
  if (delivery?.kind === "notice") {
    remember(db, batch, event.eventId, null);
    return duplicate(db, null, null);
  }
  const conversation = conversationFor(context, event, who);
  const stored = delivery?.message_id ?? storedMessage(db, conversation, event);
  if (stored !== undefined && isTakenIn(db, conversation, stored, { event, delivery })) {
    remember(db, batch, event.eventId, stored);
    return duplicate(db, stored, conversation.id);
  }
  const request = requestOf(event, who);
  const earlier = request === null || request.isReused ? undefined : messageUnder(db, conversation.id, request);
  if (earlier !== undefined) return duplicate(db, earlier, conversation.id);
  const messageId = stored ?? storeMessage(context, conversation, event, who);
  remember(db, batch, event.eventId, messageId);
  db.run(
    "UPDATE conversation SET target = ?, at = ? WHERE id = ?",
    JSON.stringify(event.target),
    context.now,
    conversation.id,
  );
  const here = { ...conversation, target: JSON.stringify(event.target) };
  const outcome =
    event.kind === "command"
      ? command(context, here, event, messageId, who)
      : message(context, here, event, messageId, who);
  // What was refused is to be sent again: under its key it is as if it had never come (T3).
  if (request !== null && outcome.kind !== "refused") keepRequest(context, conversation.id, request, messageId);
  return outcome;
}

type Request = RequestKey & { readonly personId: string };

function requestOf({ idempotency }: MessageEvent | CommandEvent, { personId }: Authority): Request | null {
  return idempotency === undefined || personId === undefined ? null : { ...idempotency, personId };
}

function messageUnder(db: Database, conversationId: number, { personId, key, bodyHash }: Request): number | undefined {
  const earlier = db.get<{ message_id: number; body_hash: string }>(
    "SELECT message_id, body_hash FROM idempotency WHERE person_id = ? AND conversation_id = ? AND key = ?",
    personId,
    conversationId,
    key,
  );
  if (earlier !== undefined && earlier.body_hash !== bodyHash)
    throw new Rejection("idempotency_conflict", "This Idempotency-Key was used for another message.");
  return earlier?.message_id;
}

function keepRequest(context: Context, conversationId: number, request: Request, messageId: number): void {
  context.db.run(
    "INSERT OR REPLACE INTO idempotency(person_id, conversation_id, key, body_hash, message_id, at) VALUES(?, ?, ?, ?, ?, ?)",
    request.personId,
    conversationId,
    request.key,
    request.bodyHash,
    messageId,
    context.now,
  );
}

/** Words of another agent of ours as our accounts hear them: what the gateway has sent is known by its delivery. */
function deliveryOfSiblingAgent(db: Database, event: MessageEvent | CommandEvent): DeliveryRecord | undefined {
  const { source, speaker, text } = event;
  if (speaker.author.kind !== "agent" || isLocalDoor(source.platform)) return undefined;
  const { platform, chatId = "", messageId: externalId } = source;
  const originId = event.kind === "message" ? event.originId : undefined;
  const isHistory = event.kind === "message" && event.isHistory === true;
  const found = deliveryOfEcho(db, { platform, chatId, externalId, originId, text, isHistory });
  if (found !== undefined && externalId !== undefined && found.ext_id === null)
    db.run("UPDATE delivery SET ext_id = ? WHERE id = ?", externalId, found.id);
  return found;
}

/** A reply comes in parts, and only a later one may call: until one has, the message starts nothing. */
function isTakenIn(
  db: Database,
  conversation: ConversationRecord,
  messageId: number,
  { event, delivery }: { event: MessageEvent | CommandEvent; delivery: DeliveryRecord | undefined },
): boolean {
  const intake = intakeOf(db, conversation.id, messageId);
  if (intake === undefined) return false;
  const isLaterCall =
    delivery !== undefined &&
    delivery.part > 0 &&
    event.kind === "message" &&
    event.addressed &&
    intake.fate === "recorded" &&
    intake.reason === null;
  if (isLaterCall)
    db.run("DELETE FROM intake WHERE conversation_id = ? AND message_id = ?", conversation.id, messageId);
  return !isLaterCall;
}

function duplicate(db: Database, messageId: number | null, conversationId: number | null): AdmitOutcome {
  const intake =
    messageId === null
      ? undefined
      : db.get<{ conversation_id: number; turn_id: number | null }>(
          "SELECT conversation_id, turn_id FROM intake WHERE message_id = ? AND (conversation_id = ? OR ? IS NULL)",
          messageId,
          conversationId,
          conversationId,
        );
  return {
    kind: "duplicate",
    messageId,
    conversationId: intake?.conversation_id ?? null,
    turnId: intake?.turn_id ?? null,
  };
}

interface Spoken {
  readonly source: Source;
  readonly into?: string;
  readonly target: Target;
  readonly rules: AdmitRules;
  readonly once?: object;
}

function conversationFor(context: Context, event: Spoken, who: Authority): ConversationRecord {
  const { db, batch } = context;
  if (event.into !== undefined) {
    const named = db.get<ConversationRecord>("SELECT * FROM conversation WHERE key = ?", event.into);
    if (named === undefined) throw new Rejection("conversation_unknown", `There is no conversation ${event.into}.`);
    return named;
  }
  const { key } = sessionKeyFor({
    agent: batch.agent,
    source: event.source,
    rules: event.rules.keys,
    personId: ownerOf(event.source, who) ?? undefined,
  });
  const known = db.get<ConversationRecord>("SELECT * FROM conversation WHERE key = ?", key);
  return known ?? openConversation(context, key, event, who);
}

function openConversation(context: Context, key: string, event: Spoken, who: Authority): ConversationRecord {
  const { db, batch } = context;
  const personId = ownerOf(event.source, who);
  const id = db.insert(
    "INSERT INTO conversation(key, agent, person_id, place_id, kind, target, at) VALUES(?, ?, ?, ?, ?, ?, ?)",
    key,
    batch.agent,
    personId,
    placeFor(db, batch.agent, event.source),
    event.once === undefined ? "kept" : "once",
    JSON.stringify(event.target),
    context.now,
  );
  return conversationRecord(db, id);
}

/** Only a direct chat belongs to one person: at an own door the one its chat id names (K19). A room belongs to nobody alone. */
function ownerOf(source: Source, who: Authority): string | null {
  if (source.chatType !== "dm") return null;
  const own = isLocalDoor(source.platform) ? parseLocalDoorChatId(source.chatId ?? "") : undefined;
  return own?.personId ?? who.personId ?? null;
}

function knownPlace(db: Database, agent: string, source: Source): number | undefined {
  const place = placeOf({ agent, source });
  return db.get<{ id: number }>(
    "SELECT id FROM place WHERE platform = ? AND scope = ? AND chat_id = ? AND thread_id = ?",
    place.platform,
    place.scope,
    place.chatId,
    place.threadId,
  )?.id;
}

function placeFor(db: Database, agent: string, source: Source): number {
  requireAddress(source);
  const known = knownPlace(db, agent, source);
  if (known !== undefined) return known;
  const place = placeOf({ agent, source });
  return db.insert(
    "INSERT INTO place(platform, scope, chat_id, thread_id, chat_type, name) VALUES(?, ?, ?, ?, ?, ?)",
    place.platform,
    place.scope,
    place.chatId,
    place.threadId,
    source.chatType,
    source.chatName ?? null,
  );
}

/** A message that another agent's account has brought already: it is stored once per place (T3). */
function storedMessage(db: Database, conversation: ConversationRecord, event: Spoken): number | undefined {
  const externalId = event.source.messageId;
  if (externalId === undefined) return undefined;
  return db.get<{ id: number }>(
    "SELECT id FROM message WHERE place_id = ? AND ext_id = ?",
    placeOfEvent(db, conversation, event),
    externalId,
  )?.id;
}

/** A conversation over several doors (K12) speaks in the place of each message. */
function placeOfEvent(db: Database, conversation: ConversationRecord, event: Spoken): number {
  return event.into === undefined ? placeFor(db, conversation.agent, event.source) : conversation.place_id;
}

function storeMessage(
  context: Context,
  conversation: ConversationRecord,
  event: MessageEvent | CommandEvent,
  { role }: Authority,
): number {
  const { db, now } = context;
  const placeId = placeOfEvent(db, conversation, event);
  const { author } = event.speaker;
  if (!isLocalDoor(event.source.platform)) {
    addReader(db, placeId, author, now);
    if (author.kind === "person" && role === "guest") guestSpoke(db, placeId, event.target, now);
    else if (author.kind === "person") humanSpoke(db, placeId);
  }
  const { replyTo, instructions } = event.kind === "message" ? event : {};
  return addMessage(db, placeId, {
    ...(replyTo === undefined ? {} : { replyTo }),
    ...(instructions === undefined ? {} : { instructions }),
    author,
    body: event.text,
    now,
    saidAt: event.saidAt,
    source: JSON.stringify(event.source),
    ...(event.source.messageId === undefined ? {} : { externalId: event.source.messageId }),
  });
}

function intakeOf(
  db: Database,
  conversationId: number,
  messageId: number,
): { fate: string | null; reason: string | null } | undefined {
  return db.get(
    "SELECT fate, reason FROM intake WHERE conversation_id = ? AND message_id = ?",
    conversationId,
    messageId,
  );
}

function addIntake(
  db: Database,
  intake: { conversationId: number; messageId: number; turnId?: number; fate?: string; reason?: string },
): void {
  db.run(
    "INSERT INTO intake(conversation_id, message_id, turn_id, fate, reason) VALUES(?, ?, ?, ?, ?)",
    intake.conversationId,
    intake.messageId,
    intake.turnId ?? null,
    intake.fate ?? null,
    intake.reason ?? null,
  );
}

function landed(context: Context, conversation: ConversationRecord, messageId: number): Landed {
  return {
    messageId,
    conversationId: conversation.id,
    key: conversation.key,
    notices: context.notices,
    ended: context.ended,
    rewound: context.rewound,
    putOff: context.putOff,
    settled: context.settled,
    wake: [...context.wake],
  };
}

function message(
  context: Context,
  conversation: ConversationRecord,
  event: MessageEvent,
  messageId: number,
  who: Authority,
): AdmitOutcome {
  const { db } = context;
  if (!event.addressed) {
    addIntake(db, { conversationId: conversation.id, messageId, fate: "recorded" });
    return { ...landed(context, conversation, messageId), kind: "recorded" };
  }
  const placeId = machinePlace(context, conversation, event, who);
  if (placeId !== null) {
    const { guarded, isFirst } = guardLoop(db, placeId, context.now);
    if (guarded) {
      addIntake(db, { conversationId: conversation.id, messageId, fate: "recorded", reason: "loop_guard" });
      if (isFirst) tell(context, event.target, { code: "loop_guard", args: {} });
      return { ...landed(context, conversation, messageId), kind: "recorded" };
    }
  }
  const isToSeed = event.once !== undefined && conversation.current_session === null;
  const here = isToSeed ? seeded(context, conversation, event.once.history) : conversation;
  const turn = land(context, here, event, messageId, who);
  if (placeId !== null && turn.kind === "queued") agentBegan(db, placeId, context.now);
  return { ...landed(context, conversation, messageId), ...turn };
}

/** Where the loop guard counts these words (G5); null for those of people. */
function machinePlace(
  { db }: Context,
  conversation: ConversationRecord,
  event: MessageEvent,
  { role }: Authority,
): number | null {
  if (role !== "guest") return null;
  const { kind } = event.speaker.author;
  const placeId = placeOfEvent(db, conversation, event);
  return kind === "agent" || kind === "bot" || isLooping(db, placeId) ? placeId : null;
}

/** A conversation without a name begins with the history its request brought. */
function seeded(
  context: Context,
  conversation: ConversationRecord,
  history: readonly { role: "user" | "assistant"; text: string }[],
): ConversationRecord {
  const sessionId = firstSession(context, conversation);
  for (const { role, text } of history) addEntry(context.db, sessionId, { turnId: null, role, body: text });
  return { ...conversation, current_session: sessionId };
}

/** What somebody says that is to begin a turn, and by which rules. */
interface Words extends Spoken {
  readonly speaker: Speaker;
  readonly text: string;
}

type TurnLanding =
  | { kind: "queued" | "joined"; sessionId: string; turnId: number; begun: Turn | null; signal: TurnSignal | null }
  | Refused;

type Refused = Pick<Extract<AdmitOutcome, { kind: "refused" }>, "kind" | "code" | "notice">;

/** T5 inside the transaction: reads the traffic, and joins, queues, begins or refuses. */
function land(
  context: Context,
  conversation: ConversationRecord,
  event: Words,
  messageId: number,
  who: Authority,
): TurnLanding {
  const { db, now } = context;
  const { rules, target } = event;
  const waiting = db.all<TurnRecord>(
    "SELECT * FROM turn WHERE conversation_id = ? AND state = 'queued' ORDER BY id DESC",
    conversation.id,
  );
  const last = waiting[0];
  const joinable = last !== undefined && isSameTarget(JSON.parse(last.target) as Target, target) ? last : null;
  const willJoin = joinable !== null && rules.busyMode !== "queue" && rules.busyMode !== "reject";
  if (!willJoin) {
    const refused = refuseHurry(context, conversation, { ...event, deed: "turn", messageId, who });
    if (refused !== null) return refused;
  }
  // A message that joins follows its turn; any other is resolved afresh (H2).
  const place: { sessionId: string; bound: BoundBy | null } = willJoin
    ? { sessionId: joinable.session_id, bound: joinable.bound }
    : resolveSession(context, conversation, rules);
  const { traffic, running } = readTraffic(db, {
    conversation,
    sessionId: place.sessionId,
    target,
    who,
    joinable,
    waiting: waiting.length,
  });
  const landing = queueDecision(traffic, rules);
  if (event.speaker.author.kind === "person") {
    db.run(
      "UPDATE session SET last_human_at = ?, title = coalesce(title, ?) WHERE id = ?",
      now,
      titleOf(event.text) || null,
      place.sessionId,
    );
  }
  if (landing.kind === "refuse") return refuseBusy(context, conversation, landing.code, { ...event, messageId });
  if (landing.kind === "join") {
    const authority = leastAuthority(JSON.parse(joinable!.authority) as Authority, who);
    db.run(
      "UPDATE turn SET messages = messages + 1, authority = ?, ready_at = ? WHERE id = ?",
      JSON.stringify(authority),
      readyAt({ admittedAt: joinable!.admitted_at }, now, rules.debounceMs),
      landing.turnId,
    );
    addIntake(db, { conversationId: conversation.id, messageId, turnId: landing.turnId });
    return {
      kind: "joined",
      sessionId: place.sessionId,
      turnId: landing.turnId,
      begun: null,
      signal: signalFor(db, landing.signal, running, messageId),
    };
  }
  const isHeld = landing.kind === "begin" && context.batch.hold === true;
  const isWaiting = landing.kind === "queue" || isHeld;
  const audience: Audience =
    conversation.person_id === null
      ? { kind: "place", placeId: conversation.place_id }
      : { kind: "person", personId: conversation.person_id };
  const turn = db.get<TurnRecord>(
    `INSERT INTO turn(session_id, conversation_id, state, epoch, attempt, ready_at, target, audience, authority, bound, admitted_at, begun_at)
     VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
    place.sessionId,
    conversation.id,
    isWaiting ? "queued" : "running",
    isWaiting ? null : context.claim.epoch,
    isWaiting ? 0 : 1,
    isWaiting && !isHeld && rules.busyMode !== "queue" ? now + rules.debounceMs : now,
    JSON.stringify(target),
    JSON.stringify(audience),
    JSON.stringify(who),
    place.bound,
    now,
    isWaiting ? null : now,
  )!;
  const turnId = turn.id;
  addIntake(db, { conversationId: conversation.id, messageId, turnId });
  if (!isWaiting) addEntry(db, place.sessionId, { turnId, messageId, role: "user" });
  return {
    kind: "queued",
    sessionId: place.sessionId,
    turnId,
    begun: isWaiting ? null : turnOf(turn),
    signal: landing.kind === "queue" ? signalFor(db, landing.signal, running, messageId) : null,
  };
}

function readTraffic(
  db: Database,
  query: {
    conversation: ConversationRecord;
    sessionId: string;
    target: Target;
    who: Authority;
    joinable: TurnRecord | null;
    waiting: number;
  },
): { traffic: Traffic; running: TurnRecord | null } {
  const { conversation, sessionId } = query;
  const open = db.all<TurnRecord>(
    "SELECT * FROM turn WHERE session_id = ? AND state IN('queued','running') ORDER BY id",
    sessionId,
  );
  const elsewhere = db.get(
    "SELECT 1 FROM turn WHERE conversation_id = ? AND state IN('queued','running') AND session_id <> ? LIMIT 1",
    conversation.id,
    sessionId,
  );
  const running = open.find((turn) => turn.state === "running" && turn.conversation_id === conversation.id) ?? null;
  return {
    running,
    traffic: {
      idle: open.length === 0 && elsewhere === undefined,
      joinable: query.joinable === null ? null : { turnId: query.joinable.id, messages: query.joinable.messages },
      waiting: open.filter((turn) => turn.state === "queued").length,
      running:
        running === null
          ? null
          : {
              turnId: running.id,
              sameTarget: isSameTarget(JSON.parse(running.target) as Target, query.target),
              withinAuthority: isAtLeast(query.who, JSON.parse(running.authority) as Authority),
              // Asked only where words interrupt.
              get stoppable() {
                return mayInterrupt(db, conversation, query.who);
              },
            },
      overtaken: query.waiting - (query.joinable === null ? 0 : 1),
    },
  };
}

function signalFor(
  db: Database,
  kind: "steer" | "interrupt" | null,
  running: TurnRecord | null,
  messageId: number,
): TurnSignal | null {
  if (kind === null || running === null) return null;
  if (kind === "interrupt") cancel(db, running.id, "superseded");
  const at = { turnId: running.id, sessionId: running.session_id };
  return kind === "steer" ? { kind, ...at, messageId } : { kind, ...at };
}

/** Of a busy door it is said once while the same turn runs (T5), of a full one once a minute. */
function refuseBusy(
  context: Context,
  conversation: ConversationRecord,
  code: "busy" | "queue_full",
  event: Words & { messageId: number },
): Refused {
  const { db, now } = context;
  const isNewsHere =
    code === "queue_full"
      ? isNews(db, `queue_full ${conversation.id}`, now)
      : db.get(
          `SELECT 1 FROM intake i WHERE i.conversation_id = ? AND i.reason = 'busy'
           AND i.message_id > (SELECT coalesce(max(message_id), 0) FROM intake WHERE conversation_id = ? AND turn_id IS NOT NULL) LIMIT 1`,
          conversation.id,
          conversation.id,
        ) === undefined;
  const { maxWaitingTurns, maxMessagesPerTurn: messages } = event.rules;
  const notice: Notice = { code, args: { limit: code === "busy" ? null : maxWaitingTurns, messages } };
  return refuseWords(context, conversation, { ...event, code, notice, isNews: isNewsHere });
}

/** A10: null where the speaker is in no hurry. Agents of ours have the loop guard (G5). */
function refuseHurry(
  context: Context,
  conversation: ConversationRecord,
  { deed, messageId, who, ...event }: Words & { deed: "turn" | "command"; messageId: number; who: Authority },
): Refused | null {
  const { db, now, batch } = context;
  const { author } = event.speaker;
  const { limits } = event.rules;
  if (limits === undefined || who.role !== "guest" || author.kind === "agent") return null;
  const { target } = event;
  const guest = who.personId ?? `${author.kind} ${author.id}`;
  const at = { guest, place: placeOfEvent(db, conversation, event), account: batch.account };
  const held = hurry(db, pacesOf(deed, at, limits), now);
  return held === null
    ? null
    : refuseWords(context, conversation, { ...held, code: "rate_limited", messageId, target });
}

/** Each has its fate; that it was refused is said where that is news. */
function refuseWords(
  context: Context,
  conversation: ConversationRecord,
  refused: Pick<Refused, "code" | "notice"> & { messageId: number; target: Target; isNews: boolean },
): Refused {
  const { code, notice, messageId } = refused;
  addIntake(context.db, { conversationId: conversation.id, messageId, fate: "refused", reason: code });
  if (refused.isNews) tell(context, refused.target, notice);
  return { kind: "refused", code, notice };
}

function command(
  context: Context,
  conversation: ConversationRecord,
  event: CommandEvent,
  messageId: number,
  who: Authority,
): AdmitOutcome {
  const { db } = context;
  const held = refuseHurry(context, conversation, { ...event, deed: "command", messageId, who });
  if (held !== null) return { ...landed(context, conversation, messageId), ...held };
  addIntake(db, { conversationId: conversation.id, messageId, fate: "answered", reason: "command" });
  const withdrawn = event.effect.kind === "undo" ? takeBackWaiting(context, conversation, event.speaker.author) : null;
  let refused = withdrawn === null ? commandFault(db, conversation, event.effect, who) : null;
  const effect: CommandEvent["effect"] = withdrawn === null && refused === null ? event.effect : { kind: "none" };
  let args = event.reply.args;
  let turn: TurnLanding | null = null;
  let signal: TurnSignal | null = null;
  let sessionId = conversation.current_session;
  if (effect.kind === "reset") {
    const previous = sessionId;
    leaveForeignSessions(context, conversation);
    sessionId = resetSession(context, conversation, "new");
    db.run("UPDATE session SET last_human_at = ? WHERE id = ?", context.now, sessionId);
    args = { ...args, session: sessionId, previous };
    if (effect.firstMessage !== undefined) {
      const first = addMessage(db, placeOfEvent(db, conversation, event), {
        author: event.speaker.author,
        body: effect.firstMessage,
        now: context.now,
        saidAt: event.saidAt,
        source: JSON.stringify(event.source),
      });
      const words = { ...event, text: effect.firstMessage };
      turn = land(context, conversationRecord(db, conversation.id), words, first, who);
    }
  }
  if (effect.kind === "stop") {
    const running = db.get<TurnRecord>(
      "SELECT * FROM turn WHERE conversation_id = ? AND state = 'running'",
      conversation.id,
    );
    if (running !== undefined) {
      cancel(db, running.id, "stopped");
      signal = { kind: "stop", turnId: running.id, sessionId: running.session_id };
    }
    args = { ...args, found: running !== undefined };
  }
  if (effect.kind === "answer") {
    const answered = answerable(db, conversation, effect.turnId, who);
    if (typeof answered === "string") refused = answered;
    else signal = { ...effect, sessionId: answered.session_id };
  }
  const life = lifeCommand(context, conversation, { ...event, effect }, who);
  const notice: Notice =
    refused === null
      ? (withdrawn ?? life?.reply ?? { code: event.reply.code, args })
      : { code: "not_done", args: { reason: refused } };
  const [reply, ...more] = addNotice(db, { target: event.target, messageId, notice, now: context.now }, context.claim);
  context.notices.push(...more);
  const first = turn === null || turn.kind === "refused" ? null : turn;
  return {
    ...landed(context, conversation, messageId),
    kind: "commanded",
    sessionId: life?.sessionId ?? sessionId,
    reply: reply!,
    turnId: first?.turnId ?? null,
    begun: first?.begun ?? null,
    signal,
  };
}

/** H12: a question is answered with the rights of its turn: by its own person, or by the owner. */
function answerable(
  db: Database,
  conversation: ConversationRecord,
  turnId: number,
  who: Authority,
): TurnRecord | "answer_late" | "answer_forbidden" {
  const turn = db.get<TurnRecord>(
    "SELECT * FROM turn WHERE id = ? AND conversation_id = ? AND state = 'running'",
    turnId,
    conversation.id,
  );
  if (turn === undefined) return "answer_late";
  const { personId } = JSON.parse(turn.authority) as Authority;
  const isTheirs = who.role === "owner" || (personId !== undefined && personId === who.personId);
  return isTheirs ? turn : "answer_forbidden";
}

// ---- own words, edits and deletions

/** G3: never answered. The echo of a delivery says that it is delivered; anything else was said elsewhere under our account. */
function admitOwn(context: Context, event: OwnEvent): AdmitOutcome {
  const { db, batch, now } = context;
  const known = seen(db, batch.account, event.eventId);
  if (known !== undefined) return { kind: "own", messageId: known.message_id, shown: null };
  const { platform, chatId = "", messageId: externalId } = event.source;
  const { originId, text, isHistory } = event;
  const echo = { platform, chatId, externalId, originId, text, isHistory, account: batch.account };
  const delivery = deliveryOfEcho(db, echo);
  if (delivery !== undefined) {
    confirmDelivery(db, delivery, externalId);
    remember(db, batch, event.eventId, delivery.message_id);
    return { kind: "own", messageId: delivery.message_id, shown: { deliveryId: delivery.id, lane: delivery.lane } };
  }
  const placeId = placeFor(db, batch.agent, event.source);
  const stored =
    externalId === undefined
      ? undefined
      : db.get<{ id: number }>("SELECT id FROM message WHERE place_id = ? AND ext_id = ?", placeId, externalId)?.id;
  const messageId =
    stored ??
    addMessage(db, placeId, {
      author: { kind: "agent", id: batch.agent },
      body: text,
      now,
      saidAt: event.saidAt,
      ...(externalId === undefined ? {} : { externalId }),
    });
  remember(db, batch, event.eventId, messageId);
  return { kind: "own", messageId, shown: null };
}

/** T6: each agent's account brings it; the first one changes the message, for all of them. */
function admitChange(context: Context, event: EditEvent | DeleteEvent): AdmitOutcome {
  const { db, batch } = context;
  const known = seen(db, batch.account, event.eventId);
  if (known !== undefined) return { kind: "changed", messageId: known.message_id, settled: [], wake: [] };
  const message = db.get<MessageRecord>(
    "SELECT * FROM message WHERE place_id = ? AND ext_id = ?",
    knownPlace(db, batch.agent, event.source) ?? null,
    event.messageId,
  );
  const outcome = event.kind === "edit" ? editMessage(context, event, message) : deleteMessage(context, event, message);
  remember(db, batch, event.eventId, message?.id ?? null);
  return outcome;
}

// ---- sends and bindings

function refConversation(context: Context, ref: ConversationRef, rules: AdmitRules): ConversationRecord {
  if (ref.kind === "source") {
    const { source, target } = ref;
    const whose = addresseeOf(context.db, source);
    const conversation = conversationFor(context, { source, target, rules }, whose);
    if (isDirectPush(source)) {
      const id = whose.personId ?? source.userId ?? "";
      addReader(context.db, conversation.place_id, { kind: "person", id }, context.now);
    }
    return conversation;
  }
  const known = context.db.get<ConversationRecord>("SELECT * FROM conversation WHERE key = ?", ref.key);
  // A conversation without a name is gone in two days: nothing may hang on it.
  if (known === undefined || known.kind === "once")
    throw new Rejection("conversation_unknown", `There is no conversation ${ref.key}.`);
  return known;
}

/** Whose chat it is that is spoken into: never the speaker's for that he speaks there. */
function addresseeOf(db: Database, source: Source): Authority {
  return authorityOf(db, source, { author: { kind: "person", id: source.userId ?? "" } });
}

function isDirectPush({ platform, chatType }: Source): boolean {
  return chatType === "dm" && !isLocalDoor(platform);
}

const OTHERS_READ = "Others read along there, and would see what this session holds.";

/** A session that a person may bind into a conversation (H5, H7, H9). */
function bindable(
  context: Context,
  event: SendEvent | BindEvent,
  conversation: ConversationRecord,
  sessionId: string,
): SessionRecord {
  const session = sessionRecord(context.db, sessionId);
  if (session === undefined || conversationRecord(context.db, session.home).kind === "once")
    throw new Rejection("session_unknown", `There is no session ${sessionId}.`);
  if (session.ended_at !== null || session.suspended !== null)
    throw new Rejection("session_ended", `Session ${sessionId} has ended.`);
  if (session.agent !== conversation.agent) {
    throw new Rejection(
      "agent_mismatch",
      `Session ${sessionId} belongs to agent ${session.agent}, the conversation to ${conversation.agent}.`,
    );
  }
  // Words of a session at home need no binding, whoever's it is.
  if (event.kind === "send" && session.home === conversation.id) return session;
  const { person } = event.by;
  if (session.owner_person === null)
    throw new Rejection("forbidden", "A session that is nobody's is bound nowhere: send with --no-session.");
  if (person === undefined || session.owner_person !== person.id)
    throw new Rejection("forbidden", "Only the owner of a session binds it.");
  if (event.kind === "send" && event.byAgent === true && event.rules.share !== true) {
    throw new Rejection("not_shared", "An agent binds a room only where the configuration says `share: true`.");
  }
  const readers = readersOf(context.db, conversation, { rules: event.rules, owner: session.owner_person });
  if (event.share !== true && !isAmongOwn(readers, { ownerPerson: session.owner_person })) {
    throw new Rejection("not_shared", OTHERS_READ);
  }
  return session;
}

function admitSend(context: Context, event: SendEvent): AdmitOutcome {
  const { db, batch } = context;
  const known = seen(db, batch.account, event.eventId);
  const conversation = refConversation(context, event.into, event.rules);
  if (known !== undefined) return repeatedSend(db, conversation, event, known.message_id);
  const session = namedSession(context, event, conversation, event);
  const target = JSON.parse(conversation.target) as Target;
  const messageId = addMessage(db, lastPlaceOf(db, conversation), {
    author: { kind: "agent", id: conversation.agent },
    body: event.text,
    now: context.now,
  });
  remember(db, batch, event.eventId, messageId);
  let bound = null;
  // Said for no session, they are of the one that will be asked about them (K17).
  const own = session === null ? sessionThatGoesOn(context, conversation, event.rules) : null;
  if (own !== null) addEntry(db, own, { turnId: null, messageId, role: "assistant", mark: "sent" });
  if (session !== null) {
    addEntry(db, session.id, { turnId: null, messageId, role: "assistant", mark: "sent" });
    if (session.home !== conversation.id) {
      bound = setBinding(context, conversation, {
        kind: "live",
        sessionId: session.id,
        ttlMs: event.ttlMs,
        by: event.by.person!.id,
        shared: event.share === true,
      });
    }
  }
  const deliveries = partsFor(event.text, target).map((body, part) =>
    addDelivery(db, { kind: "send", target, messageId, part, body, now: context.now }, context.claim),
  );
  return { ...landed(context, conversation, messageId), kind: "sent", deliveries, bound };
}

/** Where the conversation's target is: one over several doors (K12), or over the threads of a chat (K13), speaks where it was spoken to last. */
function lastPlaceOf(db: Database, conversation: ConversationRecord): number {
  const last = db.get<{ place_id: number }>(
    `SELECT m.place_id FROM intake i JOIN message m ON m.id = i.message_id WHERE i.conversation_id = ? AND m.source IS NOT NULL
     ORDER BY i.message_id DESC LIMIT 1`,
    conversation.id,
  );
  return last?.place_id ?? conversation.place_id;
}

/** The session that was named, if one was. */
function namedSession(
  context: Context,
  event: SendEvent | BindEvent,
  conversation: ConversationRecord,
  { sessionId, foreign }: Pick<SendEvent, "sessionId" | "foreign">,
): SessionRecord | null {
  const named = foreign === undefined ? sessionId : foreignSession(context, event, conversation, foreign);
  return named === null ? null : bindable(context, event, conversation, named);
}

/** A session of another program where it may be bound. */
function foreignSession(
  context: Context,
  event: SendEvent | BindEvent,
  conversation: ConversationRecord,
  foreign: ForeignRef,
): string {
  const { db } = context;
  const person = ownerWho(event.by);
  const readers = readersOf(db, conversation, { rules: event.rules, owner: person.id });
  const isAllowed = event.share === true || isAmongOwn(readers, { ownerPerson: person.id });
  if (!isAllowed && sessionBehind(db, { ...foreign, agent: conversation.agent }) === null)
    throw new Rejection("not_shared", OTHERS_READ);
  return adopted(context, event, conversation.agent, foreign);
}

function ownerWho({ person }: Speaker): NonNullable<Speaker["person"]> {
  if (person?.role !== "owner") throw new Rejection("forbidden", "Only the owner brings a session of another program.");
  return person;
}

/** H13: the home of a runtime's own session; it is at home at no door of ours, and belongs to whoever brings it. */
function adopted(
  context: Context,
  event: Pick<SendEvent, "by">,
  agent: string,
  { runtime, id, name }: ForeignRef,
): string {
  const { db } = context;
  const person = ownerWho(event.by);
  const key = buildSessionKey({ form: "foreign", agent, runtime, id });
  const known = db.get<ConversationRecord>("SELECT * FROM conversation WHERE key = ?", key);
  const behind = sessionBehind(db, { name, id, agent }) ?? known?.current_session ?? null;
  if (behind !== null) {
    const session = sessionRecord(db, behind)!;
    // Its own program has it, and was asked: that it ended here was our word.
    const isLost = session.ended_at !== null && conversationRecord(db, session.home).key === key;
    if (isLost && session.owner_person === person.id) reopenSession(context, session);
    return behind;
  }
  const chatId = `${runtime}:${id}`;
  const source: Source = { platform: "console", account: "console", chatId, chatType: "dm", isBot: false };
  const target: Target = { door: "pull", platform: "console", account: "console", scopeId: agent, chatId };
  const home = db.insert(
    "INSERT INTO conversation(key, agent, person_id, place_id, kind, target, at) VALUES(?, ?, ?, ?, 'kept', ?, ?)",
    key,
    agent,
    person.id,
    placeFor(db, agent, source),
    JSON.stringify(target),
    context.now,
  );
  const sessionId = firstSession(context, conversationRecord(db, home));
  db.run("INSERT INTO runtime_state(session_id, runtime, ref) VALUES(?, ?, ?)", sessionId, name, id);
  return sessionId;
}

/** The session that a runtime keeps under such an id already: one of this gateway's own, or one the agent has brought in. */
function sessionBehind(db: Database, { name, id, agent }: { name: string; id: string; agent: string }): string | null {
  const behind = db.all<{ id: string; agent: string; key: string }>(
    `SELECT s.id, s.agent, c.key FROM runtime_state r JOIN session s ON s.id = r.session_id JOIN conversation c ON c.id = s.home
     WHERE r.runtime = ? AND r.ref = ? ORDER BY s.ended_at IS NOT NULL, r.last_used_at DESC`,
    name,
    id,
  );
  const isIt = (row: { agent: string; key: string }) =>
    row.agent === agent || parseSessionKey(row.key).form !== "foreign";
  return behind.find(isIt)?.id ?? null;
}

/** The same id again is the same send; with other words, or into another room, it is a slip that must not pass as sent (T3). */
function repeatedSend(
  db: Database,
  conversation: ConversationRecord,
  event: SendEvent,
  messageId: number | null,
): AdmitOutcome {
  const sent = db.get<{ place_id: number; body: string }>("SELECT place_id, body FROM message WHERE id = ?", messageId);
  const isThere =
    sent?.place_id === conversation.place_id ||
    db.get(
      "SELECT 1 FROM intake i JOIN message m ON m.id = i.message_id WHERE i.conversation_id = ? AND m.place_id = ? LIMIT 1",
      conversation.id,
      sent?.place_id ?? null,
    ) !== undefined;
  if (isThere && sent?.body === event.text) return duplicate(db, messageId, null);
  throw new Rejection("idempotency_conflict", "This Idempotency-Key was used for another message.");
}

function admitBind(context: Context, event: BindEvent): AdmitOutcome {
  const { db, batch } = context;
  if (seen(db, batch.account, event.eventId) !== undefined) return duplicate(db, null, null);
  const { change } = event;
  const conversation = refConversation(context, event.conversation, event.rules);
  const who: Authority = { role: event.by.person?.role ?? "guest" };
  if (change.kind === "clear" && commandFault(db, conversation, { kind: "unbind" }, who) !== null)
    throw new Rejection("forbidden", "Several people speak there: the owner or a member takes a handoff back.");
  const session = change.kind === "clear" ? null : namedSession(context, event, conversation, change);
  remember(db, batch, event.eventId, null);
  const { messageId: _, ...base } = landed(context, conversation, 0);
  if (change.kind === "clear" || session === null)
    return { ...base, kind: "cleared", had: clearBindings(context, conversation) };
  if (session.home === conversation.id)
    throw new Rejection("request_invalid", "This session is at home in that conversation: it needs no binding.");
  const binding = setBinding(context, conversation, {
    kind: change.binding,
    sessionId: session.id,
    ttlMs: change.ttlMs,
    by: event.by.person!.id,
    shared: event.share === true,
  });
  return { ...base, kind: "bound", binding };
}

// ---- background jobs

/** Of a turn that has shown something, or ended meanwhile, there is nothing to move. */
function admitLost(context: Context, { turnId }: LostEvent): AdmitOutcome {
  const { db } = context;
  const turn = db.get<TurnRecord>(
    "SELECT * FROM turn WHERE id = ? AND state = 'running' AND prompted = 0 AND bound IS NOT NULL",
    turnId,
  );
  if (turn === undefined) return { kind: "noted" };
  loseSession(context, sessionRecord(db, turn.session_id)!, turn);
  const { messageId: _, ...base } = landed(context, conversationRecord(db, turn.conversation_id), 0);
  return { ...base, kind: "cleared", had: true };
}

/** R2: opened and closed by the session's runtime, or by its owner. A late report on a session that has ended opens nothing. */
function admitJob(context: Context, event: JobEvent): AdmitOutcome {
  const { db, batch, now } = context;
  if (seen(db, batch.account, event.eventId) !== undefined) return duplicate(db, null, null);
  const session = sessionRecord(db, event.sessionId);
  if (session === undefined) throw new Rejection("session_unknown", `There is no session ${event.sessionId}.`);
  const person = event.by?.person;
  if (event.by !== null && person?.role !== "owner" && (person === undefined || session.owner_person !== person.id))
    throw new Rejection("forbidden", "Only the owner of a session speaks of its jobs.");
  const isOpening = event.change.state === "open";
  if (isOpening && session.ended_at !== null)
    throw new Rejection("session_ended", `Session ${event.sessionId} has ended.`);
  remember(db, batch, event.eventId, null);
  const had =
    db.get("SELECT 1 FROM job WHERE session_id = ? AND id = ? AND closed_at IS NULL", session.id, event.id) !==
    undefined;
  if (event.change.state === "open") {
    db.run(
      `INSERT INTO job(session_id, id, title, opened_at) VALUES(?, ?, ?, ?) ON CONFLICT(session_id, id) DO UPDATE SET
       title = excluded.title, closed_at = NULL, opened_at = CASE WHEN closed_at IS NULL THEN opened_at ELSE excluded.opened_at END`,
      session.id,
      event.id,
      event.change.title,
      now,
    );
  } else {
    db.run(
      "UPDATE job SET closed_at = ? WHERE session_id = ? AND id = ? AND closed_at IS NULL",
      now,
      session.id,
      event.id,
    );
  }
  const { messageId: _, ...base } = landed(context, conversationRecord(db, session.home), 0);
  return { ...base, kind: "job", had };
}
