import { Hono } from "hono";
import { z } from "zod";
import type { Person } from "../../conversation/person.ts";
import { isKeyName } from "../../conversation/session-key.ts";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { cleanText } from "../../message/source.ts";
import { jsonBody, optional } from "../body.ts";
import type { Env } from "../wire.ts";

/** A batch of messages is larger than what a door sends. */
const BATCH_LIMIT = 64_000_000;

const words = z.string().transform(cleanText);
/** What a date can be. */
const time = z.int().nonnegative().max(8_640_000_000_000_000);
const Message = z.strictObject({
  id: z.int().positive(),
  role: z.enum(["user", "assistant"]),
  text: words,
  at: time,
  author: optional(words),
});
const Session = z.strictObject({
  id: z.string().min(1),
  freshId: z.string().regex(/^[\w.-]{1,120}$/),
  parentId: z.string().nullable(),
  ownerPerson: z.string().nullable(),
  platform: z.string().min(1),
  title: words.nullable(),
  openedAt: time,
  endedAt: time,
  endReason: z.string(),
  messages: z.array(Message),
});
const Batch = z.strictObject({ agent: z.string(), sessions: z.array(Session).max(500) });

/** H13: sessions brought in from another program; for the owner only. */
export function foreignSessions(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/:runtime", async (context) => {
    requireOwner(context.get("caller"));
    return context.json({ sessions: await gateway.reader.foreignSessions(context.req.param("runtime")) });
  });
  app.post("/:runtime", async (context) => {
    requireOwner(context.get("caller"));
    const runtime = context.req.param("runtime");
    if (!isKeyName(runtime))
      throw new TertuliaError("request_invalid", "The name of a program is of small letters, digits, - and _.");
    const { agent, sessions } = await jsonBody(context, Batch, BATCH_LIMIT);
    const plain = sessions.map(({ messages, ...session }) => ({
      ...session,
      messages: messages.map(({ author, ...message }) => ({ ...message, ...(author === undefined ? {} : { author }) })),
    }));
    return context.json(await gateway.conversations.import({ runtime, agent, sessions: plain }));
  });
  return app;
}

function requireOwner({ role }: Person): void {
  if (role !== "owner")
    throw new TertuliaError("forbidden", "Sessions of another program are for the owner to bring in.", {
      remedy: "Ask with the owner's token.",
    });
}
