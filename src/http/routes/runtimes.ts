import { Hono } from "hono";
import { z } from "zod";
import type { Person } from "../../conversation/person.ts";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { renderNotice } from "../../text/render-notice.ts";
import { conversationFor, sessionFor } from "../access.ts";
import { jsonBody } from "../body.ts";
import type { Env } from "../wire.ts";

const SwitchBody = z.strictObject({ runtime: z.string().min(1).max(200) });
const NoBody = z.strictObject({});
const StateBody = z.record(z.string(), z.unknown());

/** What runs conversations, and the handles that are kept warm (B1 to B7). */
export function runtimes(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  /** Each is asked whether it can run: that may take some seconds. */
  app.get("/runtimes", async (context) => {
    ownerOnly(context.get("caller"));
    return context.json({ runtimes: await gateway.runtimes.probe() });
  });
  app.get("/pool", (context) => {
    ownerOnly(context.get("caller"));
    const { pool } = gateway;
    return context.json({ handles: pool.list(), counters: pool.counters, room: pool.room });
  });
  app.post("/sessions/:id/park", async (context) => {
    await jsonBody(context, NoBody);
    const session = await sessionFor(gateway.reader, context.get("caller"), context.req.param("id"));
    await gateway.pool.drop(session.id);
    return context.json({ session: session.id, state: gateway.pool.stateOf(session.id) });
  });
  app.post("/sessions/:id/restart", async (context) => {
    await jsonBody(context, NoBody);
    const session = await sessionFor(gateway.reader, context.get("caller"), context.req.param("id"));
    const { how } = await gateway.turns.restart(session.id);
    return context.json({ session: session.id, state: gateway.pool.stateOf(session.id), how });
  });
  /** As `/runtime` there: a name, `back` or `default`. */
  app.post("/conversations/:key/runtime", async (context) => {
    const { runtime } = await jsonBody(context, SwitchBody);
    const caller = context.get("caller");
    ownerOnly(caller);
    const { key, agent } = await conversationFor(gateway.reader, caller, context.req.param("key"));
    if (!["back", "default"].includes(runtime) && gateway.config.runtimes[runtime] === undefined)
      throw new TertuliaError("runtime_unknown", `There is no runtime ${JSON.stringify(runtime)}.`);
    const said = await gateway.doors.say({ person: caller, agent, door: { key }, text: `/runtime ${runtime}` });
    const conversation = await conversationFor(gateway.reader, caller, key);
    return context.json({
      conversation: key,
      runtime: gateway.conversations.runtimeOf(conversation),
      reply: said.kind === "command" ? renderNotice(said.reply) : null,
    });
  });
  /** B6: keys of other programs are merged in and kept; ours are computed. */
  app.get("/conversations/:key/agent-state", async (context) => {
    const conversation = await conversationFor(gateway.reader, context.get("caller"), context.req.param("key"));
    return context.json(await gateway.conversations.agentState(conversation));
  });
  app.patch("/conversations/:key/agent-state", async (context) => {
    const patch = await jsonBody(context, StateBody);
    const conversation = await conversationFor(gateway.reader, context.get("caller"), context.req.param("key"));
    await gateway.conversations.keepAgentState(conversation.key, patch);
    return context.json(await gateway.conversations.agentState(conversation));
  });
  return app;
}

function ownerOnly({ role }: Person): void {
  if (role !== "owner") throw new TertuliaError("forbidden", "Only the owner sees and decides what runs here.");
}
