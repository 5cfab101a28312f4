import type { ServerResponse } from "node:http";
import type { Person } from "../conversation/person.ts";
import { TertuliaError } from "../errors.ts";
import type { GatewayEvent, GatewayEvents } from "../events.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { OwnerToken } from "../gateway/owner-token.ts";
import { exceptSilence } from "../text/silence.ts";
import type { Clock } from "../util/clock.ts";
import type { Log } from "../util/log.ts";
import { isOwnKey } from "./access.ts";
import { Journal } from "./journal.ts";
import { type Interest, isSameInterest, JournalReader } from "./journal-reader.ts";

const KEEPALIVE_MS = 15_000;
/** What is held of the past, for those who read slowly and those who come back: in all, whoever reads. */
const HELD = { bytes: 16_000_000, frames: 20_000 };
/** A connection that is full for so long is cut. */
const PATIENCE_MS = 30_000;
/** How long events are kept for somebody whose connection has ended. */
const RETURN_MS = 30_000;
export const MOST_STREAMS = { ofPerson: 64, inAll: 256 };
const MOST_AWAITED = 256;

export const STREAM_HEADERS = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache",
  "X-Accel-Buffering": "no",
};

export interface Subscription {
  readonly caller: Person;
  readonly key: string | undefined;
  readonly response: ServerResponse;
  /** The `Last-Event-ID` of somebody who comes back. */
  readonly lastEventId: string | undefined;
  /** Whether what the caller showed is still good for the same person. */
  isStillLetIn(): boolean;
}

/** Somebody who listens, or who did a moment ago and may come back. */
interface Follower {
  readonly interest: Interest;
  /** From here on everything for this interest is in the journal, as far as it reaches back. */
  readonly since: number;
  /** Null: he is away. */
  reader: JournalReader | null;
  isStillLetIn(): boolean;
  /** Ends his being awaited. */
  forget: () => void;
}

interface FollowedTurn {
  readonly begun: GatewayEvents["turn:begun"];
  stop(): void;
}

type IsFor = (interest: Interest) => boolean;

/**
 * EventFeed: the gateway's events for all who follow them over HTTP. Each is written once, into a journal that everybody reads; so what is
 * held does not depend on how many read, or how slowly. While nobody follows it hears nothing and holds nothing.
 */
export class EventFeed {
  readonly #gateway: Gateway;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #journal = new Journal<Interest>(HELD);
  readonly #followers = new Set<Follower>();
  readonly #turns = new Map<number, FollowedTurn>();
  /** Ids of another run are no ids here. */
  readonly #run = crypto.randomUUID().slice(0, 8);
  readonly #ownerToken: OwnerToken;
  /** What access was last looked at with. */
  #reviewed: readonly [config: object, token: string];
  #cancelTick = (): void => undefined;
  #unsubscribe: (() => void) | null = null;

  constructor(options: { gateway: Gateway; ownerToken: OwnerToken; clock: Clock; log: Log }) {
    this.#gateway = options.gateway;
    this.#ownerToken = options.ownerToken;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#reviewed = [this.#gateway.config, this.#ownerToken.current];
  }

  /** Those that are connected. */
  get streams(): number {
    return this.#followers
      .values()
      .filter(({ reader }) => reader !== null)
      .toArray().length;
  }

  /** Sends what happens from now on, or from where somebody who comes back was, until the connection ends. Throws `too_many`. */
  open({ caller, key, response, lastEventId, isStillLetIn }: Subscription): void {
    this.#mustHaveRoom(caller);
    // It went away while it was looked at who it is: nothing would tell its end any more.
    if (response.destroyed) return;
    response.writeHead(200, STREAM_HEADERS);
    const interest: Interest = { personId: caller.id, isOwner: caller.role === "owner", key };
    const now = this.#clock.now();
    this.#begin();
    const known = this.#knownFrom(interest, lastEventId);
    const from = known?.at ?? this.#journal.last;
    const reader = new JournalReader({
      interest,
      journal: this.#journal,
      from,
      response,
      now: () => this.#clock.now(),
    });
    const follower: Follower = { interest, since: known?.since ?? from, reader, isStillLetIn, forget: () => undefined };
    response.on("close", () => this.#left(follower));
    this.#followers.add(follower);
    const isResumed = known !== undefined;
    const hello = { conversation: key ?? null, ...(lastEventId === undefined ? {} : { resumed: isResumed }) };
    const running = this.#gateway.turns.begun.filter((begun) => isForTurn(begun)(interest));
    const greeting: [string, unknown][] = [["hello", hello]];
    // Whoever comes in the middle of a turn is told of it, and of its words so far where they were told already.
    for (const begun of isResumed ? [] : running) {
      greeting.push(["turn:begun", begun]);
      if (this.#turns.has(begun.turn.id)) greeting.push(...this.#soFar(begun.turn.id));
    }
    for (const [at, [name, data]] of greeting.entries()) {
      const id = !isResumed && at === greeting.length - 1 ? from : null;
      reader.send(this.#frame(name, data, id), now);
    }
    for (const begun of running) if (!this.#turns.has(begun.turn.id)) this.#follow(begun);
    this.#takeAll();
  }

  /** Ends every stream. */
  close(): void {
    for (const follower of [...this.#followers]) {
      follower.reader?.end();
      this.#drop(follower);
    }
  }

  #mustHaveRoom({ id }: Person): void {
    const own = [...this.#followers].filter(({ reader, interest }) => reader !== null && interest.personId === id);
    if (own.length < MOST_STREAMS.ofPerson && this.streams < MOST_STREAMS.inAll) return;
    throw new TertuliaError("too_many", `There are ${own.length} event streams of yours, ${this.streams} in all.`, {
      remedy: "Close some, or listen to several conversations on one.",
    });
  }

  #begin(): void {
    if (this.#unsubscribe !== null) return;
    this.#unsubscribe = this.#gateway.events.subscribe((event) => this.#hear(event));
    const tick = (): void => {
      this.#cancelTick = this.#clock.after(KEEPALIVE_MS, tick);
      this.#tick();
    };
    this.#cancelTick = this.#clock.after(KEEPALIVE_MS, tick);
  }

  /** Where somebody who comes back goes on; undefined where that is not known, or not all that followed is still here. */
  #knownFrom(interest: Interest, lastEventId: string | undefined): { at: number; since: number } | undefined {
    const [run, number] = lastEventId?.split("-") ?? [];
    const at = /^\d{1,15}$/.test(number ?? "") ? Number(number) : -1;
    if (run !== this.#run || !this.#journal.reaches(at)) return undefined;
    const before = [...this.#followers].find((one) => isSameInterest(one.interest, interest) && one.since <= at);
    if (before === undefined) return undefined;
    if (before.reader === null) this.#followers.delete(before);
    before.forget();
    return { at, since: before.since };
  }

  #left(follower: Follower): void {
    if (follower.reader === null) return;
    follower.reader = null;
    if (!this.#followers.has(follower)) return;
    const alike = [...this.#followers].filter(
      (one) => one !== follower && isSameInterest(one.interest, follower.interest),
    );
    if (alike.some(({ since }) => since <= follower.since)) {
      this.#drop(follower);
      return;
    }
    for (const one of alike) if (one.reader === null) this.#drop(one);
    follower.forget = this.#clock.after(RETURN_MS, () => this.#drop(follower));
    const awaited = [...this.#followers].filter(({ reader }) => reader === null);
    if (awaited.length > MOST_AWAITED) this.#drop(awaited[0]!);
  }

  /** Nothing is kept for him any more. */
  #drop(follower: Follower): void {
    follower.forget();
    this.#followers.delete(follower);
    for (const [turnId, { begun, stop }] of this.#turns) {
      if (this.#isWanted(isForTurn(begun))) continue;
      stop();
      this.#turns.delete(turnId);
    }
    if (this.#followers.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    this.#cancelTick();
    this.#journal.clear();
  }

  #hear(event: GatewayEvent): void {
    const isFor: IsFor = (interest) => concerns(event, interest.key) && isForPerson(event, interest);
    this.#tell(event.name, event.payload, isFor);
    if (event.name === "turn:begun" && this.#isWanted(isFor)) this.#follow(event.payload);
  }

  #follow(begun: GatewayEvents["turn:begun"]): void {
    const turnId = begun.turn.id;
    const isFor = isForTurn(begun);
    const say = exceptSilence((text) => this.#tell("turn:text", { turnId, text }, isFor));
    const isWatched = (): boolean => this.#isWanted(isFor, ({ reader }) => reader !== null);
    const turn = { begun, stop: (): void => undefined };
    this.#turns.set(turnId, turn);
    turn.stop = this.#gateway.turns.watch(turnId, {
      get canAnswer() {
        return isWatched();
      },
      onEvent: ({ type, ...data }) => {
        if (type === "end") {
          say(null);
          this.#turns.delete(turnId);
        } else if ("text" in data) say(data.text);
        else this.#tell(`turn:${type}`, { turnId, ...data }, isFor);
      },
    });
  }

  /** A turn's words and open questions up to now. */
  #soFar(turnId: number): [string, unknown][] {
    const told: [string, unknown][] = [];
    const say = exceptSilence((text) => told.push(["turn:text", { turnId, text }]));
    const stop = this.#gateway.turns.watch(turnId, {
      canAnswer: false,
      onEvent: ({ type, ...data }) => {
        if ("text" in data) say(data.text);
        else told.push([`turn:${type}`, { turnId, ...data }]);
      },
    });
    stop();
    return told;
  }

  #isWanted(isFor: IsFor, fits: (follower: Follower) => boolean = () => true): boolean {
    return this.#followers.values().some((follower) => isFor(follower.interest) && fits(follower));
  }

  #tell(name: string, data: unknown, isFor: IsFor): void {
    this.#review();
    if (!this.#isWanted(isFor)) return;
    this.#journal.append((seq) => this.#frame(name, data, seq), isFor);
    this.#takeAll();
  }

  #frame(name: string, data: unknown, id: number | null): Buffer {
    const line = id === null ? "" : `id: ${this.#run}-${id}\n`;
    return Buffer.from(`event: ${name}\ndata: ${JSON.stringify(data)}\n${line}\n`);
  }

  #takeAll(): void {
    const now = this.#clock.now();
    for (const follower of [...this.#followers])
      if (follower.reader?.take(now) === false) this.#cut(follower, "it has fallen too far behind");
  }

  #tick(): void {
    const now = this.#clock.now();
    const keepalive = this.#frame("keepalive", {}, null);
    for (const follower of [...this.#followers]) {
      if (follower.reader === null) continue;
      const fullMs = follower.reader.fullMs(now);
      if (fullMs >= PATIENCE_MS) this.#cut(follower, "it is not read");
      else if (fullMs === 0) follower.reader.send(keepalive, now);
    }
    this.#review();
  }

  /** Ends the streams of those who are not let in any more (A3). */
  #review(): void {
    const ground = [this.#gateway.config, this.#ownerToken.current] as const;
    if (ground.every((part, at) => part === this.#reviewed[at])) return;
    this.#reviewed = ground;
    for (const follower of [...this.#followers]) {
      if (follower.isStillLetIn()) continue;
      follower.reader?.end();
      this.#drop(follower);
    }
  }

  #cut(follower: Follower, why: string): void {
    this.#log.info({ person: follower.interest.personId }, `an event stream was cut: ${why}`);
    follower.reader?.end();
    this.#left(follower);
  }
}

function concerns({ name, payload }: GatewayEvent, key: string | undefined): boolean {
  if (key === undefined) return true;
  if (name === "runtime:state") return false;
  return payload.conversationKey === key || ("homeKey" in payload && payload.homeKey === key);
}

/** An event of a conversation is for its person and the owner; the gateway's own are the owner's. */
function isForPerson(event: GatewayEvent, { personId, isOwner }: Interest): boolean {
  if (isOwner) return true;
  if (event.name === "runtime:state") return false;
  const { payload } = event;
  const isOwn = (key: string): boolean => isOwnKey({ id: personId, role: "guest" }, key);
  return isOwn(payload.conversationKey) && (!("homeKey" in payload) || isOwn(payload.homeKey));
}

function isForTurn(payload: GatewayEvents["turn:begun"]): IsFor {
  const event: GatewayEvent = { name: "turn:begun", payload };
  return (interest) => concerns(event, interest.key) && isForPerson(event, interest);
}
