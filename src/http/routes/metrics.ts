import { Hono } from "hono";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { Env } from "../wire.ts";

/** What Prometheus scrapes. */
export function metrics(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/", async (context) => {
    if (context.get("caller").role !== "owner" && context.get("scope").kind !== "metrics")
      throw new TertuliaError("forbidden", "Only the owner sees the metrics.");
    const { text, contentType } = await gateway.telemetry.metrics();
    return context.body(text, 200, { "Content-Type": contentType });
  });
  return app;
}
