import type { Config } from "../config/config.ts";
import { accountKey } from "../conversation/gate.ts";
import { parseSessionKey } from "../conversation/session-key.ts";
import type { Platform } from "../message/source.ts";
import type { Ability } from "./platform-notes.ts";

/** The owner's decisions and this gateway's facts that an agent is told. Plain data. */
export interface ContextSettings {
  readonly agent: { readonly name: string; readonly displayName: string };
  /** The owner's instructions, the most special last. */
  readonly prompts: { readonly agent?: string; readonly platform?: string; readonly chat?: string };
  /** The platforms that this gateway has doors on. */
  readonly platforms: readonly Platform[];
  /** The chat of each platform that gets what has no door of its own. */
  readonly homes: readonly { readonly platform: Platform; readonly chatId: string }[];
  readonly tools: readonly ContextTool[];
  /** Whether user and chat ids are replaced by hashes under `secret` (C5). */
  readonly redactPii: boolean;
  readonly secret: string;
  /** Names that the owner has given, by person and by account (`accountKey`). */
  readonly names?: ReadonlyMap<string, string>;
  /** An IANA name. */
  readonly timezone: string;
}

/** A tool that the gateway gives to the agent. */
interface ContextTool {
  readonly name: string;
  /** When and how it is used, in a sentence. */
  readonly use: string;
  readonly gives: readonly Ability[];
}

/** Facts of a running gateway that no configuration says. */
export interface GatewayFacts {
  readonly platforms: readonly Platform[];
  /** The key of the stand-ins for ids: the same for a gateway's whole life, and never shown. */
  readonly secret: string;
}

/** Platforms that every gateway has doors on. */
export const LOCAL_DOORS: readonly Platform[] = ["console", "http"];

/** The settings that hold for a session, by its agent and the key of its home. */
export function contextSettings(
  config: Config,
  facts: GatewayFacts,
  session: {
    readonly agent: string;
    readonly homeKey: string;
    readonly homePlatform: Platform;
    /** Homes that were set in a chat; they go before the configured ones. */
    readonly homes: readonly { readonly platform: Platform; readonly chatId: string }[];
  },
): ContextSettings {
  const agent = config.agents[session.agent];
  const own = [agent?.persona?.trim() ?? "", agent?.prompt ?? ""].filter((text) => text !== "").join("\n\n");
  const parts = parseSessionKey(session.homeKey);
  const platform = parts.form === "chat" ? parts.platform : session.homePlatform;
  const platformPrompt = config.platforms[platform]?.prompt;
  const chatPrompt = config.chats[session.homeKey]?.prompt;
  const configured = Object.entries(config.platforms).flatMap(([name, { home }]) =>
    home === undefined ? [] : [{ platform: name as Platform, chatId: home }],
  );
  const isSet = (platform: Platform): boolean => session.homes.some((home) => home.platform === platform);
  const homes = [...session.homes, ...configured.filter((home) => !isSet(home.platform))];
  return {
    agent: { name: session.agent, displayName: agent?.displayName ?? session.agent },
    prompts: {
      ...(own === "" ? {} : { agent: own }),
      ...(platformPrompt === undefined ? {} : { platform: platformPrompt }),
      ...(chatPrompt === undefined ? {} : { chat: chatPrompt }),
    },
    // A conversation of all doors has no platform of its own.
    platforms: parts.form === "chat" ? [...new Set([...facts.platforms, platform])] : facts.platforms,
    homes,
    tools: [],
    redactPii: config.redactPii,
    secret: facts.secret,
    names: new Map(
      Object.values(config.people).flatMap(({ id, name, accounts }) =>
        name === undefined
          ? []
          : [id, ...accounts.map((account) => accountKey(account.platform, account.id))].map(
              (key) => [key, name] as const,
            ),
      ),
    ),
    timezone: config.timezone,
  };
}
