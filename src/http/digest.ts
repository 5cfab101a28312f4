import { Hono } from "hono";
import { TertuliaError } from "../errors.ts";
import type { Gateway } from "../gateway.ts";
import type { Env } from "./wire.ts";

/** D1: what was said last at the owner's doors, masked; for the owner only (D9). */
export function digest(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/", async (context) => {
    if (context.get("caller").role !== "owner")
      throw new TertuliaError("forbidden", "The digest holds what the owner said.", {
        remedy: "Ask with the owner's token.",
      });
    return context.json(await gateway.digest());
  });
  return app;
}
