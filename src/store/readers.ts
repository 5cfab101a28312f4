import type { Place } from "../conversation/place.ts";
import type { Author, Fate, Message } from "../message/message.ts";
import type { Notice } from "../message/notice.ts";
import type { AdmitOutcome, RouteRules } from "./events.ts";
import type {
  BindingRow,
  ConversationRow,
  DeliveryRow,
  DirectRow,
  DirectSession,
  EntryRow,
  ExchangeRow,
  ForeignSession,
  HomeRow,
  JobRow,
  Note,
  RefusedRow,
  RuntimeStateRow,
  SessionRow,
  SessionsOfOthers,
} from "./rows.ts";
import type { SeenBound, Turn } from "./turns.ts";

/** Reads turns, and what became of messages. */
export interface TurnReader {
  turn(turnId: number): Promise<Turn | null>;
  /** The result of a turn; null while it is open. */
  answer(turnId: number): Promise<TurnAnswer | null>;
  /** One fate per conversation that the message was admitted to (T10). */
  fates(messageId: number): Promise<readonly MessageFate[]>;
  /** The last messages of a conversation with their fates, newest first (T10). */
  recentFates(query: {
    conversationId: number;
    limit: number;
  }): Promise<readonly (MessageFate & { readonly messageId: number; readonly text: string })[]>;
  message(messageId: number): Promise<Message | null>;
  /** The notice that answered a command's message. */
  commandReply(messageId: number): Promise<Notice | null>;
  /** The last request that a person sent under an idempotency key, in any conversation (T3). */
  requestUnder(query: { personId: string; key: string }): Promise<Extract<AdmitOutcome, { kind: "duplicate" }> | null>;
  /** Sessions with open turns, the one of the oldest turn first. */
  openSessions(): Promise<readonly string[]>;
}

/** Reads what a prompt is made of. */
export interface ContextReader {
  /** Everything that the prompt of a turn is built from. */
  turnMaterial(turnId: number): Promise<TurnMaterial | null>;
  /**
   * The same for a conversation's next turn (C7): the waiting one, else one that a message would start now. That one has turn id 0 and an
   * empty message of the last speaker (none where nobody has spoken). A session that the message would open has the id `""`.
   */
  nextTurnMaterial(query: { conversationId: number; now: number; rules: RouteRules }): Promise<TurnMaterial | null>;
  /** The parts of a turn's material that depend on the runtime, for a runtime that is not the session's last (B7). */
  seenBy(query: {
    sessionId: string;
    runtime: string;
    throughEntry: number;
  }): Promise<Pick<TurnMaterial, "runtimeState" | "missed" | "missedMore">>;
  /** Prompts and replies of a session before an entry, oldest first, for runtimes that keep no history. */
  exchanges(query: { sessionId: string; beforeEntry: number }): Promise<readonly ExchangeRow[]>;
  transcript(query: {
    sessionId: string;
    after?: number;
    before?: number;
    /** `standing` leaves out what was undone. */
    only?: "standing";
    limit: number;
  }): Promise<readonly EntryRow[]>;
}

/** Reads conversations, their sessions and bindings, and the places they speak in. */
export interface ConversationReader {
  conversation(key: string): Promise<ConversationRow | null>;
  conversationById(id: number): Promise<ConversationRow | null>;
  conversations(query: { personId?: string; limit?: number }): Promise<readonly ConversationRow[]>;
  session(sessionId: string): Promise<SessionRow | null>;
  sessions(query: {
    conversationId?: number;
    personId?: string;
    agent?: string;
    limit?: number;
  }): Promise<readonly SessionRow[]>;
  /** The state of each runtime that ran the session, the last used first (B6). */
  runtimeStates(sessionId: string): Promise<readonly RuntimeStateRow[]>;
  /** The state that programs keep with a conversation (B6); null where it cannot be read. */
  agentState(conversationId: number): Promise<Readonly<Record<string, unknown>> | null>;
  /** Open background jobs of a session, oldest first. */
  jobs(sessionId: string): Promise<readonly JobRow[]>;
  /** The home chats of an agent, one per platform (C1). */
  homes(agent: string): Promise<readonly HomeRow[]>;
  /** The sessions imported from another program. */
  foreignSessions(runtime: string): Promise<readonly ForeignSession[]>;
  bindings(query: { agent?: string; conversationId?: number; sessionId?: string }): Promise<readonly BindingRow[]>;
  /** Messages of a place after a sequence number, oldest first. */
  placeMessages(query: { placeId: number; after: number; limit: number }): Promise<readonly Message[]>;
  /** The author of the message with that platform id, or the account of ours that sent it (G3). */
  authorOf(query: {
    place: Place;
    externalId: string;
  }): Promise<Author | { readonly kind: "account"; readonly id: string } | null>;
  /** True if somebody other than that person and our agents is known to read along in a place (H7). */
  hasOtherReaders(query: { placeId: number; personId: string | null }): Promise<boolean>;
}

export interface DeliveryReader {
  /** Deliveries of a lane after a delivery id, oldest first. */
  deliveries(query: { lane: string; after: number; limit: number }): Promise<readonly DeliveryRow[]>;
  /** The first open delivery of each lane, oldest first; of one lane, if one is named. */
  openDeliveries(query?: { lane: string }): Promise<readonly DeliveryRow[]>;
}

/** Reads what digests show. */
export interface DigestReader {
  /**
   * Sessions at home in a direct chat or a terminal of that person, each with its platform and the time of its last user or assistant
   * entry (D9). Excludes jobs, empty sessions, and imported sessions that did not continue here.
   */
  directSessions(personId: string): Promise<readonly DirectSession[]>;
  /** The last user and assistant entries of such a session, oldest first, from the person's own places only. */
  directRows(query: { sessionId: string; personId: string; limit: number }): Promise<readonly DirectRow[]>;
}

/** Reads counts, cursors and refused events. */
export interface StatusReader {
  refusedEvents(query: { account?: string; limit: number }): Promise<readonly RefusedRow[]>;
  cursor(account: string): Promise<string | null>;
  /** Counts the sessions of groups and of other people's direct chats (D9), without imported ones. */
  sessionsOfOthers(personId: string): Promise<SessionsOfOthers>;
  /** Open turns and deliveries, read from indexes alone: cheap enough to ask often. */
  openCounts(): Promise<{ readonly turns: number; readonly deliveries: number }>;
  counts(): Promise<
    Readonly<Record<"conversations" | "sessions" | "messages" | "turns" | "openTurns" | "openDeliveries", number>>
  >;
}

/** Everything that can be read. All reads are async and see committed rows only; a consumer names the reader that it needs. */
export interface StoreReader
  extends TurnReader,
    ContextReader,
    ConversationReader,
    DeliveryReader,
    DigestReader,
    StatusReader {}

/** Everything that the prompt of a turn is built from. */
export interface TurnMaterial {
  readonly turn: Turn;
  readonly conversation: ConversationRow;
  readonly session: SessionRow;
  readonly home: ConversationRow;
  readonly stablePart: string | null;
  /** The turn's own messages, oldest first. */
  readonly messages: readonly Message[];
  readonly notes: readonly Note[];
  /** The agent's homes, as set in a chat. */
  readonly homes: readonly HomeRow[];
  /** The session before this one, if it was reset. */
  readonly previous: SessionRow | null;
  /** Bindings of other conversations to this session, expired ones too (H8). */
  readonly guests: readonly BindingRow[];
  /** Authors of the last 500 messages of a shared place: they tell namesakes apart (C2). */
  readonly speakers: readonly Author[];
  /** The state of the runtime that ran the session last. */
  readonly runtimeState: RuntimeStateRow | null;
  /** How many entries stand before this turn's own, without what was undone. */
  readonly earlier: number;
  /** The number of the last entry before this turn's own. */
  readonly throughEntry: number;
  /** Lines of this turn's place that the session has not seen (H11), newest last, at most 20; `more` counts the older ones. */
  readonly roomLines: { readonly lines: readonly Message[]; readonly more: number; readonly bound: SeenBound };
  /** Entries before this turn's own that the runtime has not seen (B7), the last 40; `missedMore` counts the older ones. */
  readonly missed: readonly EntryRow[];
  readonly missedMore: number;
  /** The turn before was cancelled and no tool ran: an empty answer may be asked for once more (O5). */
  readonly afterCancel: boolean;
}

export interface TurnAnswer {
  readonly turn: Turn;
  readonly text: string;
  readonly silent: boolean;
  readonly notices: readonly Notice[];
}

export interface MessageFate {
  readonly conversationKey: string;
  readonly conversationId: number;
  readonly sessionId: string | null;
  readonly turnId: number | null;
  readonly fate: Fate;
}
