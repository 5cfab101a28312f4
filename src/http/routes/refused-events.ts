import { Hono } from "hono";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { Env } from "../wire.ts";
import { readNumber } from "./sessions.ts";

/** Events that could not be admitted (T2), newest first. They hold what strangers wrote: for the owner only. */
export function refusedEvents(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/refused", async (context) => {
    if (context.get("caller").role !== "owner")
      throw new TertuliaError("forbidden", "Only the owner sees refused events.");
    const limit = readNumber("limit", context.req.query("limit") ?? "100", 1, 1_000);
    return context.json({ refused: await gateway.reader.refusedEvents({ limit }) });
  });
  return app;
}
