import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { Hono } from "hono";
import { requireOwnKey } from "../access.ts";
import { type EventFeed, STREAM_HEADERS } from "../event-feed.ts";
import type { Env } from "../wire.ts";

/**
 * Events as they happen, as server-sent events: all that the caller may see, or those of `?conversation=KEY` (with what
 * happens in its session from other doors, H6). `Last-Event-ID` goes on where an earlier stream has ended.
 */
export function eventStream(feed: EventFeed): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/", (context) => {
    const caller = context.get("caller");
    const key = context.req.query("conversation");
    if (key !== undefined) requireOwnKey(caller, key);
    // Hono answers HEAD with the GET's headers; nobody would read a body.
    if (context.req.method === "HEAD") return context.body(null, 200, STREAM_HEADERS);
    feed.open({
      caller,
      key,
      response: context.env.outgoing,
      lastEventId: context.req.header("last-event-id"),
      isStillLetIn: context.get("isStillLetIn"),
    });
    return RESPONSE_ALREADY_SENT;
  });
  return app;
}
