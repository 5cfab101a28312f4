import type { Author } from "../message/message.ts";
import type { PlatformEvent, PlatformMessage } from "../message/platform-event.ts";
import { accountId, isBlank, isOccupantAddress, type Platform, participantOf, type Source } from "../message/source.ts";
import { addressOf, type Called, isCommandFor } from "./addressing.ts";
import type { Person, Speaker } from "./person.ts";
import { isKeyName } from "./session-key.ts";

/**
 * Gate: who may speak, and whether it is for the agent whose account has heard it. Pure: what was heard, and what the owner decided. It
 * believes the platform's ids and what the service vouches for, never a name or a nick (A4).
 */

/** What the owner decided, as far as the gate needs it. */
export interface AccessPolicy {
  readonly agent: Called;
  /** Of all agents. */
  readonly names: readonly string[];
  /** Agents of this gateway and people by their account: `xmpp mohe@example.org`, see `accountKey`. */
  readonly agents: ReadonlyMap<string, string>;
  readonly people: ReadonlyMap<string, Person>;
  /** Of the platform; null where nothing was said of it (A1). */
  readonly access: Access | null;
}

export interface Access {
  readonly open: boolean;
  readonly people: readonly string[] | null;
  readonly rooms: readonly string[] | null;
  /** Accounts of bots that are none of ours: let in, and counted by the loop guard (G5). */
  readonly bots: readonly string[] | null;
}

export function accountKey(platform: Platform, id: string): string {
  return `${platform} ${accountId(platform, id)}`;
}

/** Who wrote it. */
export type Who =
  | { readonly kind: "own" }
  | { readonly kind: "agent"; readonly agent: string }
  | { readonly kind: "person"; readonly person: Person }
  /** Nobody the gateway knows. `id`: by which he may be let in, only where the platform vouches for one; `seenAs`: under which he is kept. */
  | { readonly kind: "unknown"; readonly id: string | null; readonly seenAs: string | null; readonly isBot: boolean };

export type Written = Pick<Exclude<PlatformEvent, { kind: "refused" }>, "source" | "isOwn" | "verifiedUser">;

/** What the other accounts of this gateway know of an occupant, and the room hides from the one that has heard him (G7). */
export interface SeenByAccounts {
  /** The agent of ours whose account it is, as its own channel says. */
  readonly siblingAgent: string | null;
  /** His address, as another account of ours is shown it now. It is for rights only: nothing that is stored or shown has it. */
  readonly address: string | null;
}

export function whoWrote(
  { source, isOwn, verifiedUser }: Written,
  house: AccessPolicy,
  { siblingAgent, address }: SeenByAccounts,
): Who {
  if (isOwn) return { kind: "own" };
  const id = vouchedId(source, address ?? verifiedUser);
  const key = id === null ? null : accountKey(source.platform, id);
  const agent = (key === null ? undefined : house.agents.get(key)) ?? siblingAgent;
  if (agent != null) return { kind: "agent", agent };
  const person = key === null ? undefined : house.people.get(key);
  if (person !== undefined) return { kind: "person", person };
  const seenAs = vouchedId(source, verifiedUser && idForAll(source, verifiedUser));
  return {
    kind: "unknown",
    id,
    seenAs,
    isBot: source.isBot || (id !== null && house.access?.bots?.includes(id) === true),
  };
}

/** Under what id an author is kept and shown: of one whose room hides his address it is the occupant's, whatever we are shown (G7). */
export function idForAll({ userId }: Source, verifiedUser: string): string {
  return userId !== undefined && isOccupantAddress(userId) ? userId : verifiedUser;
}

/** In a room of XMPP an occupant's id is no account: only what the service vouches for is one. */
function vouchedId(source: Source, verifiedUser: string | undefined): string | null {
  if (verifiedUser) return accountId(source.platform, verifiedUser);
  if (source.platform === "xmpp" && (source.chatType !== "dm" || source.scopeId !== undefined)) return null;
  const id = source.userId || source.userIdAlt || "";
  return id === "" ? null : accountId(source.platform, id);
}

/** A1: people by their accounts, whoever is listed, everybody in a listed room, or everybody where that was said. */
export function mayEnter(who: Who, source: Source, access: Access | null): boolean {
  if (who.kind !== "unknown") return true;
  if (access === null) return false;
  if (access.open) return true;
  if (who.id !== null && [...(access.people ?? []), ...(access.bots ?? [])].includes(who.id)) return true;
  return source.chatType !== "dm" && access.rooms?.includes(accountId(source.platform, source.chatId ?? "")) === true;
}

export function speakerOfWho(who: Who, source: Source, agent: string): Speaker {
  const name = source.userName === undefined ? {} : { name: source.userName };
  switch (who.kind) {
    case "own":
      return { author: { kind: "agent", id: agent } };
    case "agent":
      return { author: { kind: "agent", id: who.agent } };
    case "person": {
      const { id, role } = who.person;
      return { author: { kind: "person", id, ...name }, person: { id, role } };
    }
    case "unknown":
      return { author: { kind: who.isBot ? "bot" : "person", id: strangerId(who.seenAs, source), ...name } };
  }
}

/** An id of the platform's that cannot be taken for a person's of ours. */
function strangerId(id: string | null, source: Source): string {
  return id === null || isKeyName(id) ? `${source.platform}:${id ?? participantOf(source)}` : id;
}

/** What a message means for the agent. */
export type Meaning =
  /** Recorded; `addressed` starts a turn. */
  | {
      readonly kind: "words";
      readonly addressed: boolean;
      /** A person's words to the agent, without its name: they may be an answer to its question. */
      readonly reply?: string;
    }
  /** A slash command of a person; `text` begins with it. */
  | { readonly kind: "command"; readonly text: string };

/** G1. `isReplyToOwn` as the store and the platform know it. */
export function meaningOf(heard: PlatformMessage, who: Who, house: AccessPolicy, isReplyToOwn: boolean): Meaning {
  // What was said before we were there is never answered; nor is a blank, nor an agent's own words, by whatever account of it.
  if (heard.isHistory || isBlank(heard.text) || isOwnWord(who, house.agent)) return { kind: "words", addressed: false };
  const isDirect = heard.source.chatType === "dm";
  const words = { text: heard.text, isReplyToOwn, isMentioned: heard.isMentioned === true };
  const called = calledAs(house.agent, heard.ownName);
  const { isAddressed, rest } = addressOf(words, called, house.names);
  const isOfPerson = who.kind === "person" || (who.kind === "unknown" && !who.isBot);
  const command = isDirect ? heard.text.trim() : rest.trim();
  const isNamed = isCommandFor(command, called);
  if (isOfPerson && COMMAND.test(command)) {
    if (isUnvouched(heard, who)) return { kind: "words", addressed: false };
    if (!isNamed && namesAnother(command)) return { kind: "words", addressed: false };
    if (isDirect || isNamed || isAddressed) return { kind: "command", text: command };
  }
  if (!isDirect && !isAddressed) return { kind: "words", addressed: false };
  return { kind: "words", addressed: true, ...(isOfPerson ? { reply: isDirect ? heard.text : rest } : {}) };
}

/** G8: late words whose author nobody can tell any more are no command, not even a guest's. */
function isUnvouched({ isCaughtUp }: PlatformMessage, who: Who): boolean {
  return isCaughtUp === true && who.kind === "unknown" && who.id === null;
}

function isOwnWord(who: Who, { name }: Called): boolean {
  return who.kind === "own" || (who.kind === "agent" && who.agent === name);
}

/** Also by the nick that the room gave it. */
function calledAs(agent: Called, ownName: string | undefined): Called {
  return ownName === undefined || agent.names.includes(ownName)
    ? agent
    : { ...agent, names: [...agent.names, ownName] };
}

const COMMAND = /^\/[a-z][a-z0-9_-]*(?:@\S+)?(?:\s|$)/iu;

/** `/status@somebody-else`, heard by an agent that answers everything. */
function namesAnother(command: string): boolean {
  return /^\/[a-z][a-z0-9_-]*@\S/iu.test(command);
}

/** A3: whether the author of a message that was let in would be let in now. */
export function mayStillSpeak(
  author: Author,
  source: Source,
  house: Pick<AccessPolicy, "people" | "access"> & {
    readonly knows: (personId: string) => boolean;
    readonly address: string | null;
  },
): boolean {
  if (author.kind === "agent" || author.kind === "gateway") return true;
  const id = house.address ?? author.id;
  const key = id === "" ? null : accountKey(source.platform, id);
  if (author.kind === "person" && house.knows(author.id))
    return [...house.people].some(([account, { id }]) => id === author.id && account.startsWith(`${source.platform} `));
  const person = key === null ? undefined : house.people.get(key);
  const who: Who =
    person === undefined
      ? { kind: "unknown", id: accountId(source.platform, id), seenAs: null, isBot: author.kind === "bot" }
      : { kind: "person", person };
  return mayEnter(who, source, house.access);
}
