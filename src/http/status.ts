import { Hono } from "hono";
import { TertuliaError } from "../errors.ts";
import type { HttpServerOptions } from "./server.ts";
import type { Env } from "./wire.ts";

/** What the gateway is and holds; for `doctor` and people who watch it. */
export function statusRoutes({ gateway, startedAt }: HttpServerOptions): Hono<Env> {
  const app = new Hono<Env>();
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
        runtime: agent.runtime.kind,
      })),
      counts: await gateway.reader.counts(),
      warm: pool.list(),
      pool: pool.counters,
      runningTurns: gateway.runningTurns,
    });
  });
  return app;
}
