import { Hono } from "hono";
import { z } from "zod";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { maySee } from "../access.ts";
import { jsonBody, optional } from "../body.ts";
import { idempotencyKey } from "../idempotency.ts";
import type { Env } from "../wire.ts";

/** As the configuration writes it: a name, a key, an address, or platform and chat. */
const Room = z.union([
  z.string(),
  z.strictObject({ platform: z.string(), chat: z.string() }).transform(({ platform, chat }) => `${platform}:${chat}`),
]);
const SendBody = z.strictObject({
  room: Room,
  text: z.string(),
  /** Refused where the room speaks with another one. */
  agent: optional(z.string()),
  share: optional(z.boolean()),
  /** Null says that nothing is to be bound; it must be said (H5). */
  session: z.string().nullable(),
});
const SetBody = z.strictObject({
  room: Room,
  agent: optional(z.string()),
  session: z.string(),
  pin: optional(z.boolean()),
  share: optional(z.boolean()),
});
const ClearBody = z.strictObject({ room: Room, agent: optional(z.string()) });

/** Speaking from one door into another, and the bindings this sets (section 8 of docs/contract.md). */
export function handoff(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.post("/send", async (context) => {
    const { room, text, session, agent, share } = await jsonBody(context, SendBody);
    const eventId = idempotencyKey(context);
    const scope = context.get("scope");
    const speaker = scope.kind === "session" ? scope.session : null;
    if (speaker !== null && session !== null && session !== speaker.id)
      throw new TertuliaError("forbidden", "A session's own token speaks for that session only.");
    const speaks = speaker?.agent ?? agent;
    const sent = await gateway.bridge.send({
      person: context.get("caller"),
      room,
      text,
      sessionId: session,
      // An agent's own word opens no room (H7).
      share: share === true && speaker === null,
      ...(speaker === null ? {} : { as: speaker }),
      ...(speaks === undefined ? {} : { agent: speaks }),
      ...(eventId === undefined ? {} : { eventId: `${context.get("caller").id}:${eventId}` }),
    });
    return context.json(sent);
  });
  app.get("/handoff", async (context) => {
    const caller = context.get("caller");
    const rows = await gateway.reader.bindings({});
    const visible = [];
    for (const row of rows) {
      const conversation = await gateway.reader.conversationById(row.conversationId);
      if (conversation !== null && maySee(caller, conversation)) visible.push(row);
    }
    return context.json({ bindings: visible });
  });
  app.post("/handoff", async (context) => {
    const { room, session, pin, agent, share } = await jsonBody(context, SetBody);
    const change = { kind: "set" as const, binding: pin ? ("pinned" as const) : ("live" as const), sessionId: session };
    return context.json(
      await gateway.bridge.bind({
        person: context.get("caller"),
        room,
        change,
        share: share === true,
        ...(agent === undefined ? {} : { agent }),
      }),
    );
  });
  app.post("/handoff/clear", async (context) => {
    const { room, agent } = await jsonBody(context, ClearBody);
    return context.json(
      await gateway.bridge.bind({
        person: context.get("caller"),
        room,
        change: { kind: "clear" },
        ...(agent === undefined ? {} : { agent }),
      }),
    );
  });
  return app;
}
