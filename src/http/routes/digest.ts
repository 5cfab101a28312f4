import { Hono } from "hono";
import type { Person } from "../../conversation/person.ts";
import { DIGEST_PERSON } from "../../digest/own-talks.ts";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { Env } from "../wire.ts";

/** D1: what was said last at the owner's doors, masked; for the owner only (D9). */
export function digest(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/", async (context) => {
    requireOwner(context.get("caller"));
    return context.json(await gateway.digest.read());
  });
  /** Who besides the owner has sessions here, and so would read the files of a home. */
  app.get("/readers", async (context) => {
    requireOwner(context.get("caller"));
    return context.json(await gateway.reader.sessionsOfOthers(DIGEST_PERSON));
  });
  return app;
}

function requireOwner({ role }: Person): void {
  if (role !== "owner")
    throw new TertuliaError("forbidden", "The digest holds what the owner said.", {
      remedy: "Ask with the owner's token.",
    });
}
