import { Hono } from "hono";
import type { AccountConfig, AgentConfig, Config } from "../../config/config.ts";
import { present, table } from "../../config/data.ts";
import type { Person } from "../../conversation/person.ts";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { describeAgent } from "../../gateway/runtimes.ts";
import type { EventFeed } from "../event-feed.ts";
import type { Env } from "../wire.ts";

/** What a command goes by that asks this gateway: as much of the configuration as its caller may know. */
export type Settings = Pick<Config, "agents" | "defaultAgent" | "rooms" | "session" | "timezone">;

function settingsFor(config: Config, { role }: Person): Settings {
  const { agents, defaultAgent, rooms, session, timezone } = config;
  const isOwner = role === "owner";
  const known = table(agents, ({ name, displayName, homeRoom, defaultSession, accounts }) => {
    const home = isOwner ? { ...present({ homeRoom, defaultSession }), accounts: accounts.map(withoutSecrets) } : {};
    return { ...NO_AGENT, name, displayName, ...home };
  });
  return { agents: known, defaultAgent, rooms: isOwner ? rooms : {}, session, timezone };
}

/** Where it is. */
function withoutSecrets({ platform, id, jid, rooms }: AccountConfig): AccountConfig {
  return { platform, id, jid, password: "", rooms: rooms.map((room) => ({ jid: room.jid })) };
}

/** Through where models are asked, without users and passwords. */
export interface ProxyHosts {
  readonly http?: string;
  readonly https?: string;
  readonly except: string;
}

export function proxyHosts(proxies: Config["proxies"]): ProxyHosts {
  if (proxies === undefined) return { except: "" };
  const { http, https = http, except } = proxies;
  const hostOf = (address: string | undefined) => (address === undefined ? undefined : new URL(address).host);
  return { ...present({ http: hostOf(http), https: hostOf(https) }), except };
}

/** What is nobody's business, in the shape of an agent. */
const NO_AGENT: Omit<AgentConfig, "name" | "displayName"> = {
  names: [],
  mentionFormat: "",
  answer: "addressed",
  runtime: "",
  accounts: [],
  handoffTtlMs: 0,
};

/** What the gateway is and holds; for `doctor` and people who watch it. */
export function statusRoutes(options: { gateway: Gateway; feed: EventFeed; startedAt: number }): Hono<Env> {
  const { gateway, feed, startedAt } = options;
  const app = new Hono<Env>();
  /** Whom the gateway takes the caller for: a terminal builds the key of its door from it (K19). */
  app.get("/whoami", (context) => context.json({ person: context.get("caller") }));
  app.get("/settings", (context) => context.json(settingsFor(gateway.config, context.get("caller"))));
  app.get("/status", async (context) => {
    if (context.get("caller").role !== "owner")
      throw new TertuliaError("forbidden", "Only the owner sees the state of the gateway.");
    const { config, pool } = gateway;
    return context.json({
      version: 1,
      pid: process.pid,
      home: config.home,
      startedAt,
      agents: Object.values(config.agents).map((agent) => ({
        name: agent.name,
        displayName: agent.displayName,
        runtime: agent.runtime,
        kind: config.runtimes[agent.runtime]?.kind,
        model: describeAgent(config, agent.name, agent.runtime).model,
      })),
      http: config.http,
      proxies: proxyHosts(config.proxies),
      channels: gateway.accounts.list(),
      counts: await gateway.reader.counts(),
      warm: pool.list(),
      pool: pool.counters,
      runningTurns: gateway.turns.running,
      eventStreams: feed.streams,
    });
  });
  return app;
}
