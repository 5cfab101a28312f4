import { Hono } from "hono";
import { z } from "zod";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { SAY_KINDS } from "../../intake/local-doors.ts";
import { renderNotice } from "../../text/render-notice.ts";
import { conversationFor } from "../access.ts";
import { jsonBody, optional } from "../body.ts";
import { idempotencyKey, idempotencyOf } from "../idempotency.ts";
import type { Env } from "../wire.ts";

const MessageBody = z.strictObject({ text: z.string(), as: optional(z.enum(SAY_KINDS)) });

/** Conversations: list, one, and words into one. */
export function conversations(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/", async (context) => {
    const caller = context.get("caller");
    const rows = await gateway.reader.conversations(
      caller.role === "owner" ? { limit: 500 } : { personId: caller.id, limit: 500 },
    );
    return context.json({ conversations: rows });
  });
  app.get("/:key", async (context) => {
    const conversation = await conversationFor(gateway.reader, context.get("caller"), context.req.param("key"));
    const bindings = await gateway.reader.bindings({ conversationId: conversation.id });
    return context.json({ conversation, bindings });
  });
  /** C7: what the next turn would be told. It names doors, homes and the owner's own words: only the owner reads it. */
  app.get("/:key/context", async (context) => {
    const conversation = await conversationFor(gateway.reader, context.get("caller"), context.req.param("key"));
    if (context.get("caller").role !== "owner")
      throw new TertuliaError("forbidden", "Only the owner sees what agents are told.");
    return context.json(await gateway.conversations.nextContext(conversation.key));
  });
  /** Stored in that conversation's place with the caller as author; 202, for its answer comes over /api/events and /api/messages. */
  app.post("/:key/messages", async (context) => {
    const { text, as } = await jsonBody(context, MessageBody);
    const said = await gateway.doors.say({
      person: context.get("caller"),
      agent: gateway.config.defaultAgent,
      door: { key: context.req.param("key") },
      text,
      ...(as === undefined ? {} : { as }),
      ...idempotencyOf(idempotencyKey(context), text, ...(as === "words" ? [as] : [])),
    });
    const base = { message: said.messageId, conversation: said.key };
    switch (said.kind) {
      case "turn":
        return context.json(
          {
            ...base,
            kind: "turn",
            turn: said.turnId,
            session: said.sessionId,
            notices: said.told
              .map((row) => row.body)
              .map((body) => (typeof body === "string" ? body : renderNotice(body))),
          },
          202,
        );
      case "command":
        return context.json(
          { ...base, kind: "command", reply: renderNotice(said.reply), session: said.sessionId, turn: said.turnId },
          200,
        );
    }
  });
  return app;
}
