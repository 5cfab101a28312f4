import { Hono } from "hono";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { EventFeed } from "../event-feed.ts";
import type { Env } from "../wire.ts";

/** What the gateway is and holds; for `doctor` and people who watch it. */
export function statusRoutes(options: { gateway: Gateway; feed: EventFeed; startedAt: number }): Hono<Env> {
  const { gateway, feed, startedAt } = options;
  const app = new Hono<Env>();
  /** Whom the gateway takes the caller for: a terminal builds the key of its door from it (K19). */
  app.get("/whoami", (context) => context.json({ person: context.get("caller") }));
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
      })),
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
