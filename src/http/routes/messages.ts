import { Hono } from "hono";
import { z } from "zod";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { renderNotice } from "../../text/render-notice.ts";
import { turnProblem } from "../../turn/turn-problem.ts";
import { maySee } from "../access.ts";
import { jsonBody } from "../body.ts";
import type { Env } from "../wire.ts";
import { readNumber } from "./sessions.ts";

const PermissionBody = z.strictObject({ turn: z.int().positive(), id: z.string(), option: z.string().nullable() });

/** A message's fate (T10), with its answer once there is one. */
export function messages(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/:id", async (context) => {
    const id = readNumber("id", context.req.param("id"), 1, Number.MAX_SAFE_INTEGER);
    const caller = context.get("caller");
    const message = await gateway.reader.message(id);
    const fates = await gateway.reader.fates(id);
    const visible = [];
    for (const fate of fates) {
      const conversation = await gateway.reader.conversationById(fate.conversationId);
      if (conversation !== null && maySee(caller, conversation)) visible.push(fate);
    }
    if (message === null || visible.length === 0)
      throw new TertuliaError("message_unknown", `There is no message ${id}.`);
    const first = visible[0]!;
    const answer = first.turnId === null ? null : await gateway.reader.answer(first.turnId);
    return context.json({
      message: { id: message.id, text: message.body, author: message.author, at: message.admittedAt },
      fates: visible,
      answer:
        answer === null
          ? null
          : {
              text: answer.text,
              silent: answer.silent,
              state: answer.turn.state,
              reason: answer.turn.reason,
              notices: answer.notices.map(renderNotice),
              problem: turnProblem(answer),
            },
    });
  });
  /** The answer to an agent's question for leave. */
  app.post("/permission", async (context) => {
    const { turn, id, option } = await jsonBody(context, PermissionBody);
    gateway.turns.answerPermission({ person: context.get("caller"), turnId: turn, id, optionId: option });
    return context.json({ ok: true });
  });
  return app;
}
