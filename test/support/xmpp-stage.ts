import type { Channel, Inbox, SendResult } from "../../src/channel/channel.ts";
import { createXmppChannel, type XmppAccount, type XmppPace } from "../../src/channel/xmpp/xmpp-channel.ts";
import type {
  PlatformDeletion,
  PlatformEdit,
  PlatformEvent,
  PlatformMessage,
  UnreadableEvent,
} from "../../src/message/platform-event.ts";
import type { Target } from "../../src/message/target.ts";
import { systemClock } from "../../src/util/clock.ts";
import { until } from "./until.ts";
import { XmppPerson } from "./xmpp-person.ts";
import { startEjabberd, startProsody, type XmppServer } from "./xmpp-servers.ts";

/** A channel with an inbox that keeps what it hears, and survives the channel as a store does. */
export class XmppListener {
  /** Every event as handed in, in its order: a repeated id too. */
  readonly events: PlatformEvent[] = [];
  /** Whoever was seen in a room. */
  readonly readers: PlatformEvent[] = [];
  readonly log: string[] = [];
  cursor: string | null = null;
  /** While set, nothing can be stored. */
  isBroken = false;
  /** Timers of the channel that have neither rung nor been cancelled. */
  openTimers = 0;
  channel: Channel;
  readonly jid: string;
  #account: XmppAccount;
  readonly #pace: Partial<XmppPace>;
  readonly #resolve: ((domain: string) => Promise<readonly string[]>) | undefined;
  #sent = 0;

  constructor(
    server: Pick<XmppServer, "domain" | "service" | "ca">,
    account: Partial<XmppAccount> & { user: string },
    pace: Partial<XmppPace> = {},
    resolve?: (domain: string) => Promise<readonly string[]>,
  ) {
    this.#resolve = resolve;
    const { user, ...more } = account;
    this.jid = `${user}@${server.domain}`;
    this.#account = {
      jid: `${user}@${server.domain}`,
      password: "secret",
      rooms: [],
      service: server.service("starttls"),
      tls: { ca: server.ca },
      ...more,
    };
    this.#pace = { reconnectMs: 100, rejoinMs: 100, ...pace };
    this.channel = this.#create();
  }

  async start(): Promise<this> {
    const inbox: Inbox = {
      cursor: this.cursor,
      commit: async () => [],
      receive: async (events, cursor) => {
        if (this.isBroken) throw new Error("the disk is full");
        for (const event of events) (event.kind === "reader" ? this.readers : this.events).push(event);
        if (cursor !== undefined) this.cursor = cursor;
      },
    };
    await this.channel.start(inbox);
    return this;
  }

  async ready(): Promise<this> {
    await until("the account is online and in its rooms", () => {
      const status = this.channel.status();
      if (status.state === "fatal") throw new Error(status.reason);
      return status.state === "online" && (status.problems ?? []).length === 0;
    });
    return this;
  }

  /** Fails when the channel leaves a timer behind. */
  async stop(): Promise<void> {
    await this.channel.stop();
    await until("no timer is left open", () => this.openTimers === 0, 200);
  }

  /** Another process with the same store, or a channel for an account whose settings have changed. */
  async restart(changes: Partial<XmppAccount> = {}): Promise<void> {
    await this.channel.stop();
    this.#account = { ...this.#account, ...changes };
    this.channel = this.#create();
    await this.start();
    await this.ready();
  }

  /** Sends as the outbox does. */
  async sends(
    chatId: string,
    text: string,
    { key, ...more }: Partial<Target> & { key?: string } = {},
  ): Promise<SendResult> {
    this.#sent += 1;
    const target: Target = { door: "push", platform: "xmpp", account: this.channel.account, chatId, ...more };
    const options = { idempotencyKey: key ?? `tertulia-${this.#sent}`, signal: new AbortController().signal };
    return await this.channel.sender!.send(target, text, options);
  }

  messages(): PlatformMessage[] {
    return this.events.filter((event) => event.kind === "message");
  }
  texts(): string[] {
    return this.messages().map(({ text }) => text);
  }
  async hears(text: string): Promise<PlatformMessage> {
    return await until(`the channel hears ${JSON.stringify(text)}`, () =>
      this.messages().find((heard) => heard.text === text),
    );
  }
  async hearsEdit(): Promise<PlatformEdit> {
    return await until("the channel hears an edit", () => this.events.find((event) => event.kind === "edit"));
  }
  async hearsDeletion(): Promise<PlatformDeletion> {
    return await until("the channel hears a deletion", () => this.events.find((event) => event.kind === "delete"));
  }
  async refuses(): Promise<UnreadableEvent> {
    return await until("the channel refuses something", () => this.events.find((event) => event.kind === "refused"));
  }
  /** The sentence of a problem with these words. */
  async complains(words: RegExp): Promise<string> {
    return await until(`a problem like ${words}; it says ${JSON.stringify(this.channel.status())}`, () => {
      const status = this.channel.status();
      const said = "problems" in status ? (status.problems ?? []) : "reason" in status ? [status.reason] : [];
      return said.find((sentence) => words.test(sentence));
    });
  }

  #create(): Channel {
    const keep = (fields: object, message: string): void => {
      this.log.push(
        `${message} ${JSON.stringify(fields, (_, value) => (value instanceof Error ? value.message : value))}`,
      );
    };
    return createXmppChannel({
      account: this.#account,
      clock: {
        now: () => systemClock.now(),
        after: (ms, call) => {
          let isOpen = true;
          this.openTimers += 1;
          const close = (): void => {
            if (isOpen) this.openTimers -= 1;
            isOpen = false;
          };
          const cancel = systemClock.after(ms, () => {
            close();
            call();
          });
          return () => {
            close();
            cancel();
          };
        },
      },
      chance: () => 0,
      log: { info: keep, warn: keep, error: keep },
      pace: this.#pace,
      ...(this.#resolve === undefined ? {} : { resolve: this.#resolve }),
    });
  }
}

/** One server for a test file, and whoever comes to it in a test. Accounts and rooms are new in each test. */
export class XmppStage {
  readonly server: XmppServer;
  readonly #people: XmppPerson[] = [];
  readonly #bots: XmppListener[] = [];
  #count = 0;

  constructor(server: XmppServer) {
    this.server = server;
  }

  room(name = "room"): string {
    this.#count += 1;
    return `${name}${this.#count}@${this.server.mucDomain}`;
  }

  /** A new account's name, with the password `secret`. */
  async account(name: string): Promise<string> {
    this.#count += 1;
    const user = `${name}${this.#count}`;
    await this.server.addAccount(user, "secret");
    return user;
  }

  async person(
    name: string,
    { resource = "phone", user }: { resource?: string; user?: string } = {},
  ): Promise<XmppPerson> {
    const person = new XmppPerson(this.server, user ?? (await this.account(name)), "secret", resource);
    this.#people.push(person);
    return await person.login();
  }

  async bot(
    account: Partial<XmppAccount> & { user?: string } = {},
    { pace = {}, isReady = true }: { pace?: Partial<XmppPace>; isReady?: boolean } = {},
  ): Promise<XmppListener> {
    const user = account.user ?? (await this.account("mohe"));
    const bot = new XmppListener(this.server, { nick: "mohe", ...account, user }, pace);
    this.#bots.push(bot);
    await bot.start();
    return isReady ? await bot.ready() : bot;
  }

  /** Everybody goes; between two tests. */
  async clear(): Promise<void> {
    await Promise.all(this.#bots.splice(0).map((bot) => bot.stop()));
    await Promise.all(this.#people.splice(0).map((person) => person.logout()));
  }
}

export const SERVERS = [
  ["prosody", () => startProsody()],
  ["ejabberd", () => startEjabberd()],
] as const;
