import { isDeepStrictEqual } from "node:util";
import type { Channel, ChannelStatus, Inbox } from "../channel/channel.ts";
import type { AccountConfig, Config } from "../config/config.ts";
import { silentPlatforms } from "../config/reload.ts";
import { type GatewayFacts, LOCAL_DOORS } from "../context/settings.ts";
import type { SeenByAccounts } from "../conversation/gate.ts";
import type { InboxAccount } from "../intake/event-intake.ts";
import type { Platform, Source } from "../message/source.ts";
import type { GatewayParts } from "../turn/parts.ts";
import { logFault } from "../util/log.ts";

/** One account of an agent, and the channel that connects it. */
interface Account {
  readonly agent: string;
  readonly channel: Channel;
  /** What the configuration says of it; null for a channel that an embedder has passed in. */
  readonly config: AccountConfig | null;
}

export interface AccountState {
  readonly account: string;
  readonly platform: Platform;
  readonly agent: string;
  readonly status: ChannelStatus;
}

export interface AccountsOptions {
  readonly parts: GatewayParts;
  readonly given: readonly Channel[];
  /** Creates the channel of an account. Must not connect. */
  readonly createChannel?: ((account: AccountConfig) => Channel) | undefined;
}

/** Accounts: the channels of all agents, from the configuration or passed in; opens and closes them, and knows who is one of us. */
export class Accounts {
  readonly #parts: GatewayParts;
  readonly #createChannel: AccountsOptions["createChannel"];
  readonly #accounts = new Map<string, Account>();
  /** Ids of accounts that were taken out of the configuration while this gateway runs. */
  readonly #removed = new Set<string>();
  #inboxOf: ((account: InboxAccount) => Omit<Inbox, "cursor">) | null = null;

  constructor({ parts, given, createChannel }: AccountsOptions) {
    this.#parts = parts;
    this.#createChannel = createChannel;
    for (const channel of given)
      this.#accounts.set(channel.account, { agent: parts.config().defaultAgent, channel, config: null });
    // O6: typing while busy.
    const typingAt = (account: string) => this.#accounts.get(account)?.channel.typing;
    parts.events.on("turn:begun", ({ turn: { target } }) => typingAt(target.account)?.start(target));
    parts.events.onStep((step) => {
      if (step.kind === "settled") typingAt(step.turn.target.account)?.stop(step.turn.target);
    });
  }

  /** Undefined while the account does not run; null when it is not ours any more. */
  channelOf(account: string): Channel | undefined | null {
    return this.#accounts.get(account)?.channel ?? (this.#removed.has(account) ? null : undefined);
  }

  list(): readonly AccountState[] {
    return [...this.#accounts.values()].map(({ channel, agent }) => ({
      account: channel.account,
      platform: channel.platform,
      agent,
      status: channel.status(),
    }));
  }

  /** The platforms that this gateway has doors on. */
  get platforms(): Platform[] {
    return [...new Set([...LOCAL_DOORS, ...this.list().map(({ platform }) => platform)])];
  }

  /** What our accounts on that platform are shown of the author of a source at this moment (G4, G7). */
  seen(source: Source): SeenByAccounts {
    const there = [...this.#accounts.values()].filter(({ channel }) => channel.platform === source.platform);
    const address = there.map(({ channel }) => channel.addressOf?.(source)).find((known) => known !== undefined);
    return {
      siblingAgent: there.find(({ channel }) => channel.isMe?.(source) === true)?.agent ?? null,
      address: address ?? null,
    };
  }

  /** Prepares the accounts of the configuration: from here on deliveries wait for them. */
  prepare(): void {
    for (const { agent, account } of accountsIn(this.#parts.config())) this.#prepare(agent, account);
  }

  /** Opens every account. Throws where a channel that was passed in cannot be opened; one of the configuration stops no other. */
  async open(inboxOf: (account: InboxAccount) => Omit<Inbox, "cursor">): Promise<void> {
    this.#inboxOf = inboxOf;
    const all = [...this.#accounts.values()];
    for (const account of all.filter(({ config }) => config === null)) await this.#open(account);
    for (const account of all.filter(({ config }) => config !== null)) await this.#openOrTell(account);
    this.#warnOfSilence();
  }

  /** Closes the accounts that are not configured as they were. */
  async closeRemoved(): Promise<void> {
    const wanted = accountsIn(this.#parts.config());
    for (const [id, { channel, agent, config: account }] of [...this.#accounts]) {
      if (account === null || wanted.some((one) => isDeepStrictEqual(one, { agent, account }))) continue;
      this.#accounts.delete(id);
      this.#removed.add(id);
      await channel.stop();
    }
  }

  /** Opens the accounts that the configuration has got. */
  async openAdded(): Promise<void> {
    for (const { agent, account } of accountsIn(this.#parts.config())) {
      if (this.#accounts.has(account.id)) continue;
      const prepared = this.#prepare(agent, account);
      if (prepared !== null) await this.#openOrTell(prepared);
    }
    this.#warnOfSilence();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#accounts.values()].map(({ channel }) => channel.stop()));
  }

  /** Null where this build has no channel for it. */
  #prepare(agent: string, config: AccountConfig): Account | null {
    const channel = this.#createChannel?.(config);
    if (channel === undefined) {
      this.#parts.log.warn({ agent, account: config.id }, `there is no channel for ${config.platform} here`);
      return null;
    }
    const account: Account = { agent, channel, config };
    this.#removed.delete(config.id);
    this.#accounts.set(config.id, account);
    return account;
  }

  async #open({ agent, channel }: Account): Promise<void> {
    const { account, platform } = channel;
    const cursor = await this.#parts.store.cursor(account);
    await channel.start({ cursor, ...this.#inboxOf!({ account, platform, agent }) });
  }

  async #openOrTell(account: Account): Promise<void> {
    try {
      await this.#open(account);
    } catch (cause) {
      logFault(this.#parts.log, cause);
    }
  }

  /** A1: nobody gets in where nobody was let in. */
  #warnOfSilence(): void {
    for (const platform of silentPlatforms(this.#parts.config()))
      this.#parts.log.warn(
        { platform },
        `nobody is let in on ${platform}: name people with accounts there, or say access.${platform} (docs/access.md)`,
      );
  }
}

/** What agents are told of this gateway: asked anew each time, for accounts come and go. */
export function gatewayFacts(accounts: Accounts, secret: () => string): GatewayFacts {
  return {
    get platforms() {
      return accounts.platforms;
    },
    get secret() {
      return secret();
    },
  };
}

function accountsIn(config: Config): { readonly agent: string; readonly account: AccountConfig }[] {
  return Object.values(config.agents).flatMap(({ name, accounts }) =>
    accounts.map((account) => ({ agent: name, account })),
  );
}
