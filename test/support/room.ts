import type { Channel, Inbox, MessageSender, SendResult } from "../../src/channel/channel.ts";
import type { AccountConfig } from "../../src/config/config.ts";
import type { PlatformEvent, PlatformMessage } from "../../src/message/platform-event.ts";
import type { Source } from "../../src/message/source.ts";
import type { Target } from "../../src/message/target.ts";

const SERVICE = "rooms.test";

/** What stands in a room, in its order. */
export interface Line {
  /** The service's id of it, the same for everybody. */
  readonly id: string;
  readonly nick: string;
  readonly text: string;
}

export interface PersonInRoom {
  readonly nick: string;
  /** The id of the last line said. */
  says(
    text: string,
    options?: { replyTo?: string; isHistory?: boolean; isCaughtUp?: boolean; at?: number },
  ): Promise<string>;
  /** Comes into the room, and says nothing. */
  comes(): Promise<void>;
  edits(id: string, text: string): Promise<void>;
  deletes(id: string): Promise<void>;
  /** A private message to an agent, outside every room. */
  tells(agent: string, text: string): Promise<void>;
  /** What agents have answered there. */
  readonly told: string[];
}

export interface RoomServerOptions {
  /** The service vouches for nobody. */
  readonly anonymous?: boolean;
  /** It gives every message another id, and repeats nothing of its author's. */
  readonly rewritesIds?: boolean;
  /** It shows addresses to these accounts only. */
  readonly shownTo?: readonly string[];
}

/**
 * A service with rooms, as channels of our own port see it: whatever is said in a room is given to all that are in it, its author too, in
 * one order and under one id. Nicks are free to choose; addresses are the service's to vouch for.
 */
export class RoomServer {
  readonly lines: Line[] = [];
  /** Messages that were sent twice under one id are shown once. */
  readonly #sent = new Map<string, string>();
  readonly #accounts = new Map<string, AgentAccount>();
  readonly #isOpen: boolean;
  readonly #rewritesIds: boolean;
  #next = 0;
  /** Every channel that was ever made and started, and what became of it. */
  readonly starts: string[] = [];
  readonly stops: string[] = [];
  /** `start mohe@test`, `stop mohe@test`: what the room shows of who is writing. */
  readonly typing: string[] = [];
  /** Words of accounts' own reach them so much later; nothing else waits. */
  onSend: ((line: Line) => Promise<void>) | null = null;

  /** Accounts that are shown addresses where the room hides them; everybody else is told occupants' ids. */
  readonly #shownTo: readonly string[] | null;
  /** Addresses of whoever is there, by occupant's address: as long as they are there. */
  readonly #present = new Map<string, string>();

  constructor({ anonymous = false, rewritesIds = false, shownTo }: RoomServerOptions = {}) {
    this.#isOpen = !anonymous;
    this.#rewritesIds = rewritesIds;
    this.#shownTo = shownTo ?? null;
  }

  readonly createChannel = (config: AccountConfig): Channel => {
    const account: AgentAccount = { config, nick: config.nick ?? config.id.split("@")[0]!, inbox: null };
    return {
      name: config.id,
      account: config.id,
      platform: "xmpp",
      start: async (inbox) => {
        account.inbox = inbox;
        this.#accounts.set(config.id, account);
        this.starts.push(config.id);
      },
      stop: async () => {
        account.inbox = null;
        this.#accounts.delete(config.id);
        this.stops.push(config.id);
      },
      status: () => ({ state: "online" }),
      isMe: ({ chatId, userIdAlt, userName }: Source) =>
        config.rooms.some(({ jid }) => jid === chatId) &&
        (userIdAlt === undefined
          ? userName === account.nick
          : [config.id, occupant(`${chatId}`, config.id)].includes(userIdAlt)),
      addressOf: ({ userId, userIdAlt }: Source) =>
        this.#shownTo?.includes(config.id) ? this.#present.get(userIdAlt ?? userId ?? "") : undefined,
      sender: this.#senderOf(account),
      typing: {
        start: ({ chatId }) => void this.typing.push(`${config.id} writes in ${chatId}`),
        stop: ({ chatId }) => void this.typing.push(`${config.id} rests in ${chatId}`),
      },
    };
  };

  person(nick: string, { jid = `${nick}@test`, room = "core" }: { jid?: string; room?: string } = {}): PersonInRoom {
    const told: string[] = [];
    this.#told.set(jid, told);
    const speak = (text: string, more: Partial<PlatformMessage>) => this.#shows({ nick, jid, room, text, more });
    return {
      nick,
      told,
      says: async (text, { replyTo, at, ...more } = {}) => {
        const reply = replyTo === undefined ? {} : { replyTo: { messageId: replyTo, isOwn: false } };
        return speak(text, { ...more, ...reply, ...(at === undefined ? {} : { saidAt: at }) });
      },
      comes: () =>
        this.#tell(room, (account) => {
          const { source, ...at } = this.#from({ nick, jid, room, id: "" }, account);
          const { messageId: _, ...someone } = source;
          return { kind: "reader", eventId: `${room} ${jid}`, source: someone, ...at };
        }),
      edits: (id, text) => this.#changes(id, { nick, jid, room, kind: "edit", text }),
      deletes: (id) => this.#changes(id, { nick, jid, room, kind: "delete" }),
      tells: async (agent, text) => {
        const account = [...this.#accounts.values()].find((one) => one.nick === agent)!;
        const id = this.#id();
        const source: Source = {
          platform: "xmpp",
          account: account.config.id,
          chatId: jid,
          chatType: "dm",
          userId: jid,
          userName: nick,
          isBot: false,
          messageId: id,
        };
        await account.inbox!.receive([
          {
            kind: "message",
            eventId: id,
            source,
            target: { door: "push", platform: "xmpp", account: account.config.id, chatId: jid },
            saidAt: 0,
            isOwn: false,
            text,
            isHistory: false,
          },
        ]);
      },
    };
  }

  readonly #told = new Map<string, string[]>();

  /** He is not there any more: nobody is shown his address. */
  leaves(jid: string, { room = "core" } = {}): void {
    this.#present.delete(occupant(`${room}@${SERVICE}`, jid));
  }

  /** Somebody speaks under the account of an agent, and not through the gateway: another client of it, or a script. */
  async speaksAs(
    account: string,
    text: string,
    more: Partial<PlatformMessage> & { room?: string } = {},
  ): Promise<string> {
    const { nick, config } = this.#accounts.get(account)!;
    const { room = "core", ...heard } = more;
    return this.#shows({ nick, jid: config.id, room, text, more: heard });
  }

  /** The keys of the agents' own messages, as their channels have sealed them into the ids. */
  get keys(): readonly string[] {
    return [...this.#sent.keys()];
  }

  /** What stands in the room, as `nick: text`. */
  shows(): string[] {
    return this.lines.map(({ nick, text }) => `${nick}: ${text}`);
  }

  #id(): string {
    return `m${++this.#next}`;
  }

  #senderOf(account: AgentAccount): MessageSender {
    return {
      recognisesRepeats: true,
      send: async (target: Target, text: string, { idempotencyKey, signal }): Promise<SendResult> => {
        if (account.inbox === null) return { kind: "offline", reason: "not connected" };
        if (!target.chatId.endsWith(`@${SERVICE}`)) {
          this.#told.get(target.chatId)?.push(text);
          return { kind: "sent" };
        }
        const room = target.chatId.split("@")[0]!;
        const known = this.#sent.get(idempotencyKey);
        if (known !== undefined) return { kind: "sent", externalId: known };
        if (this.#rewritesIds) {
          await this.#shows({ nick: account.nick, jid: account.config.id, room, text, more: {} });
          // Nothing that comes back is known again by its id.
          return await new Promise((resolve) => {
            const giveUp = (): void => resolve({ kind: "unknown", reason: "no sign of it" });
            signal.addEventListener("abort", giveUp, { once: true });
            if (signal.aborted) giveUp();
          });
        }
        const id = await this.#shows({
          nick: account.nick,
          jid: account.config.id,
          room,
          text,
          more: {},
          originId: idempotencyKey,
        });
        return { kind: "sent", externalId: id };
      },
    };
  }

  async #shows(said: {
    nick: string;
    jid: string;
    room: string;
    text: string;
    more: Partial<PlatformMessage>;
    originId?: string;
  }): Promise<string> {
    const { nick, jid, room, text, more, originId } = said;
    const id = this.#id();
    const line = { id, nick, text };
    this.lines.push(line);
    if (originId !== undefined) this.#sent.set(originId, id);
    await this.onSend?.(line);
    await this.#tell(room, (account) => ({
      kind: "message",
      eventId: `${room} ${id}`,
      ...this.#from({ nick, jid, room, id }, account),
      // An account seals the ids of what it sends: no other can read them.
      ...(originId === undefined || jid !== account.config.id ? {} : { originId }),
      text,
      isHistory: false,
      ...more,
    }));
    return id;
  }

  async #changes(
    messageId: string,
    by: { nick: string; jid: string; room: string } & ({ kind: "edit"; text: string } | { kind: "delete" }),
  ): Promise<void> {
    const id = this.#id();
    const { nick, jid, room } = by;
    await this.#tell(room, (account) => {
      const base = { eventId: `${room} ${id}`, messageId, ...this.#from({ nick, jid, room, id }, account) };
      return by.kind === "edit"
        ? { ...base, kind: "edit", text: by.text }
        : { ...base, kind: "delete", isModeration: false };
    });
  }

  #from({ nick, jid, room, id }: { nick: string; jid: string; room: string; id: string }, { config }: AgentAccount) {
    const chatId = `${room}@${SERVICE}`;
    const source: Source = {
      platform: "xmpp",
      account: config.id,
      scopeId: SERVICE,
      chatId,
      chatName: room,
      chatType: "group",
      userId: `${chatId}/${nick}`,
      userName: nick,
      isBot: false,
      messageId: id,
    };
    const target: Target = { door: "push", platform: "xmpp", account: config.id, scopeId: SERVICE, chatId };
    const hidden = this.#shownTo === null ? null : occupant(chatId, jid);
    if (hidden !== null) this.#present.set(hidden, jid);
    const isShown = hidden === null || this.#shownTo?.includes(config.id) === true;
    const vouched = {
      ownName: config.nick ?? config.id.split("@")[0]!,
      ...(this.#isOpen ? { verifiedUser: isShown ? jid : hidden } : {}),
    };
    return {
      source: hidden === null ? source : { ...source, userId: hidden },
      target,
      saidAt: 0,
      isOwn: jid === config.id,
      ...vouched,
    };
  }

  /** Everybody in the room hears it, each for himself. */
  async #tell(room: string, heardBy: (account: AgentAccount) => PlatformEvent): Promise<void> {
    const there = [...this.#accounts.values()].filter(({ config }) =>
      config.rooms.some(({ jid }) => jid === `${room}@${SERVICE}`),
    );
    await Promise.all(there.map((account) => account.inbox?.receive([heardBy(account)])));
  }
}

function occupant(room: string, jid: string): string {
  return `${room}?occupant=${Buffer.from(jid).toString("base64")}`;
}

interface AgentAccount {
  readonly config: AccountConfig;
  readonly nick: string;
  inbox: Inbox | null;
}

/** Agents with an account each in one room, as they stand in config.yaml. */
export function agentsInRoom(names: readonly string[], more: Readonly<Record<string, object>> = {}) {
  return Object.fromEntries(
    names.map((name) => [
      name,
      {
        runtime: { kind: "demo" },
        accounts: [{ platform: "xmpp", jid: `${name}@test`, password: "secret", rooms: [`core@${SERVICE}`] }],
        ...more[name],
      },
    ]),
  );
}

export const CORE = `core@${SERVICE}`;
export const ALICE_AND_BOB = {
  owner: { name: "Alice", accounts: [{ platform: "xmpp", id: "alice@test" }] },
  bob: { name: "Bob", accounts: [{ platform: "xmpp", id: "bob@test" }] },
};

/** The key of an agent's conversation in the room. */
export function roomKey(agent: string): string {
  return `agent:${agent}:xmpp@${SERVICE}:group:core%40${SERVICE}`;
}
