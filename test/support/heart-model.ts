import type { ResetPolicy } from "../../src/conversation/reset-policy.ts";
import type * as E from "../../src/store/events.ts";
import type * as S from "../../src/store/turns.ts";
import type { Committed } from "./mortal-store.ts";

/** The heart as plain maps. It hears of every commit in its order, and throws where it would have answered otherwise. It knows own doors and
 * the reset modes none and idle. Integer ids are the store's; so are the moments at which turns begin and end, which other guards watch. */
type Conversation = { key: string; current: Session | null; policy: ResetPolicy | null; bindings: Map<string, Bound> };
type Bound = { session: Session; sentAt: number; ttlMs: number };
type Session = { id: string; home: Conversation; isEnded: boolean; failures: number; lastHumanAt: number };
type Turn = { id: number; conversation: Conversation; session: Session; state: S.TurnState; messages: number[] };
type At = { now: number; nextId: () => string; ended: string[]; settled: number[] };
type Landing = Partial<Omit<Extract<E.AdmitOutcome, { kind: "commanded" }>, "kind">> & { kind: string; code?: string };

export class HeartModel {
  readonly #turns = new Map<number, Turn>();
  readonly #conversations = new Map<string, Conversation>();
  readonly #sessions = new Map<string, Session>();
  readonly #otherFates: string[] = [];

  committed({ verb, request, result }: Committed): void {
    if (verb === "admit") this.#admit(request as E.AdmitBatch, result as E.AdmitResult);
    if (verb === "begin") this.#begin((request as { sessionId: string }).sessionId, result as S.BeginResult);
    if (verb === "mark" && (result as { kind: string }).kind === "marked") this.#mark(request as S.TurnMark);
    if (verb === "settle") this.#settle(request as S.Settlement, result as S.SettleResult);
  }

  /** What became of every message, where every conversation speaks of its own, and what it is bound to. */
  lines(): string[] {
    const lines = [...this.#otherFates];
    for (const { conversation, state, messages } of this.#turns.values())
      lines.push(...messages.map((id) => `${conversation.key}: ${id} ${state}`));
    for (const { key, current, bindings } of this.#conversations.values()) {
      const bound = [...bindings].map(([kind, { session }]) => `${key}: ${kind} ${session.id}`);
      lines.push(`${key}: ${current?.id ?? null}`, ...bound);
    }
    return lines.sort();
  }

  #open(where: (turn: Turn) => boolean): Turn[] {
    return [...this.#turns.values()].filter((turn) => ["queued", "running"].includes(turn.state) && where(turn));
  }

  #conversation(key: string): Conversation {
    const known = this.#conversations.get(key) ?? { key, current: null, policy: null, bindings: new Map() };
    this.#conversations.set(key, known);
    return known;
  }

  #admit({ events, now }: E.AdmitBatch, { outcomes }: E.AdmitResult): void {
    for (const [index, event] of events.entries()) {
      const outcome = outcomes[index]!;
      let ids = 0;
      const nextId = (): string => (ids++ === 0 ? event.freshId : `${event.freshId}-${ids - 1}`);
      const at: At = { now, nextId, ended: [], settled: [] };
      if (event.kind === "send" || event.kind === "bind") this.#bridge(event, at, outcome.kind === "rejected");
      if (["duplicate", "rejected", "own", "changed", "noted"].includes(outcome.kind) || !("key" in outcome)) continue;
      const conversation = this.#conversation(outcome.key);
      if (event.kind === "message") this.#land(conversation, event.rules, at, outcome as Landing);
      if (event.kind === "command") this.#command(conversation, event, at, outcome as Landing);
      same(
        "ended",
        outcome.ended.map((ended) => ended.sessionId),
        at.ended,
      );
      same("settled", outcome.settled.map(({ turn }) => turn.id).sort(), at.settled.sort());
    }
  }

  /** T5: what becomes of a message. */
  #land(conversation: Conversation, { busyMode, ...rules }: E.AdmitRules, at: At, outcome: Landing): void {
    const own = this.#open((turn) => turn.conversation === conversation);
    const mayJoin = busyMode !== "queue" && busyMode !== "reject";
    const joined = mayJoin ? own.findLast((turn) => turn.state === "queued") : undefined;
    const session = joined?.session ?? this.#resolve(conversation, rules.reset, at);
    session.lastHumanAt = at.now;
    const there = this.#open((turn) => turn.session === session);
    const waitingThere = there.filter((turn) => turn.state === "queued").length;
    const isFull = joined ? joined.messages.length >= rules.maxMessagesPerTurn : waitingThere >= rules.maxWaitingTurns;
    const busy = busyMode === "reject" ? "busy" : isFull ? "queue_full" : joined ? "joined" : "queued";
    const isIdle = own.length + there.length === 0;
    same("landing", outcome.begun ? "begun" : (outcome.code ?? outcome.kind), isIdle ? "begun" : busy);
    const { messageId, turnId: id } = outcome as { messageId: number; turnId: number };
    if (outcome.code !== undefined) return void this.#otherFates.push(`${conversation.key}: ${messageId} refused`);
    same("place", [outcome.sessionId, id], [session.id, joined?.id ?? id]);
    if (joined) return void joined.messages.push(messageId);
    const state = outcome.begun ? "running" : "queued";
    this.#turns.set(id, { id, conversation, session, state, messages: [messageId] });
  }

  /** H2 to H4, H9: live, else pinned, else its own. */
  #resolve(conversation: Conversation, reset: ResetPolicy, at: At): Session {
    for (const [kind, { session, sentAt, ttlMs }] of [...conversation.bindings].sort()) {
      const isOver = kind === "live" && (at.now - sentAt < -60_000 || at.now - sentAt >= ttlMs);
      if (isOver || session.isEnded || session.failures >= 3) conversation.bindings.delete(kind);
      else if (!this.#isDue(session, session.home.policy, at)) return session;
    }
    conversation.policy = reset;
    const { current } = conversation;
    const isKept = current !== null && current.failures < 3 && !this.#isDue(current, reset, at);
    return isKept ? current : this.#reset(conversation, at);
  }

  #isDue(session: Session, policy: ResetPolicy | null, { now }: At): boolean {
    if (policy?.mode !== "idle" || this.#open((turn) => turn.session === session).length > 0) return false;
    return now - session.lastHumanAt > policy.idleMinutes * 60_000;
  }

  #openSession(home: Conversation, { now, nextId }: At): Session {
    home.current = { id: nextId(), home, isEnded: false, failures: 0, lastHumanAt: now };
    this.#sessions.set(home.current.id, home.current);
    return home.current;
  }

  /** R4: what runs in it is cut, what waits of its own is withdrawn, what waits of its guests goes home; nobody is bound to it. */
  #reset(conversation: Conversation, at: At): Session {
    const old = conversation.current;
    if (old === null) return this.#openSession(conversation, at);
    old.isEnded = true;
    at.ended.push(old.id);
    this.#cut((turn) => turn.session === old && (turn.state === "running" || turn.conversation === conversation), at);
    const next = this.#openSession(conversation, at);
    for (const guest of this.#conversations.values()) {
      const moved = this.#open((turn) => turn.session === old && turn.conversation === guest);
      const bound = [...guest.bindings].filter(([, { session }]) => session === old);
      for (const [kind] of bound) guest.bindings.delete(kind);
      if (moved.length + bound.length === 0) continue;
      const own = guest.current ?? this.#openSession(guest, at);
      for (const turn of moved) turn.session = own;
    }
    return next;
  }

  #cut(which: (turn: Turn) => boolean, { settled }: At): void {
    for (const turn of this.#open(which)) {
      turn.state = turn.state === "running" ? "interrupted" : "withdrawn";
      settled.push(turn.id);
    }
  }

  #command(conversation: Conversation, { effect, rules }: E.CommandEvent, at: At, outcome: Landing): void {
    this.#otherFates.push(`${conversation.key}: ${outcome.messageId} answered`);
    const running = this.#open((turn) => turn.conversation === conversation && turn.state === "running");
    same("stopped", outcome.signal?.turnId, effect.kind === "stop" ? running[0]?.id : undefined);
    if (effect.kind !== "reset") return;
    conversation.bindings.clear();
    this.#cut((turn) => turn.conversation === conversation && turn.session !== conversation.current, at);
    this.#reset(conversation, at);
    // The text behind the command is a message of its own, the next one.
    if (effect.firstMessage !== undefined)
      this.#land(conversation, rules, at, { ...outcome, messageId: outcome.messageId! + 1 });
  }

  #bridge(event: E.SendEvent | E.BindEvent, { now }: At, isRefused: boolean): void {
    const isSend = event.kind === "send";
    const { key } = isSend ? event.into : event.conversation;
    const change = isSend ? ({ ...event, kind: "set", binding: "live" } as const) : event.change;
    if (change.kind === "clear") return void this.#conversation(key).bindings.clear();
    const session = this.#sessions.get(change.sessionId!)!;
    const [, agent, , , person] = session.home.key.split(/[:%]/);
    const isAlive = !session.isEnded && session.failures < 3;
    const isTheirs = agent === key.split(":")[1] && person === event.by.person?.id && isAlive;
    const isHome = session.home.key === key;
    same("refused", isRefused, !isTheirs || (isHome && !isSend));
    const { binding, ttlMs } = change;
    if (!isRefused && !isHome) this.#conversation(key).bindings.set(binding, { session, sentAt: now, ttlMs });
  }

  /** T4: the oldest that waits in the session; of an earlier run what was left running, first. */
  #begin(sessionId: string, result: S.BeginResult): void {
    if (result.kind === "busy") return;
    if (result.takeover?.kind === "interrupted") this.#turns.get(result.takeover.turn.id)!.state = "interrupted";
    if (result.kind !== "begun") return;
    const open = this.#open((turn) => turn.session.id === sessionId);
    const head = open.find((turn) => turn.state === "running") ?? open[0];
    same("begun", result.turn.id, head?.id);
    head!.state = "running";
  }

  #mark({ turnId, consumed = [] }: S.TurnMark): void {
    const turn = this.#turns.get(turnId)!;
    for (const id of consumed) {
      const from = this.#open((other) => other.conversation === turn.conversation && other.messages.includes(id))[0]!;
      from.messages = from.messages.filter((message) => message !== id);
      if (from.messages.length === 0) this.#turns.delete(from.id);
      turn.messages.push(id);
    }
  }

  #settle({ turnId, outcome, sessionFault }: S.Settlement, { kind }: S.SettleResult): void {
    const turn = this.#turns.get(turnId);
    if (kind !== "settled" || turn === undefined) return;
    turn.state = outcome.state;
    if (sessionFault === true) turn.session.failures++;
    else if (turn.state === "answered" && turn.session.failures < 3) turn.session.failures = 0;
  }
}

function same(what: string, is: unknown, must: unknown): void {
  const [found, expected] = [JSON.stringify(is), JSON.stringify(must)];
  if (found !== expected) throw new Error(`The heart and its model differ: ${what} is ${found}, must be ${expected}.`);
}
