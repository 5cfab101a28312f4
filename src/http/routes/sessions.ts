import { Hono } from "hono";
import { z } from "zod";
import { TertuliaError } from "../../errors.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { sessionFor } from "../access.ts";
import { jsonBody } from "../body.ts";
import type { Env } from "../wire.ts";

const JobBody = z.strictObject({ id: z.string().min(1).max(200), title: z.string().min(1).max(1_000) });

/** Sessions: list, one, its transcript, and its background jobs. */
export function sessions(gateway: Gateway): Hono<Env> {
  const app = new Hono<Env>();
  app.get("/", async (context) => {
    const caller = context.get("caller");
    const warm = new Map(gateway.pool.list().map((handle) => [handle.sessionId, handle.state]));
    const rows = await gateway.reader.sessions({
      ...(caller.role === "owner" ? {} : { personId: caller.id }),
      limit: readLimit(context.req.query("limit"), 100),
    });
    return context.json({ sessions: rows.map((row) => ({ ...row, state: warm.get(row.id) ?? "cold" })) });
  });
  app.get("/:id", async (context) =>
    context.json({ session: await sessionFor(gateway.reader, context.get("caller"), context.req.param("id")) }),
  );
  app.get("/:id/messages", async (context) => {
    const session = await sessionFor(gateway.reader, context.get("caller"), context.req.param("id"));
    const after = context.req.query("after");
    const messages = await gateway.reader.transcript({
      sessionId: session.id,
      ...(after === undefined ? {} : { after: readNumber("after", after, 0, Number.MAX_SAFE_INTEGER) }),
      limit: readLimit(context.req.query("limit"), 200),
    });
    return context.json({ session, messages });
  });
  app.get("/:id/jobs", async (context) => {
    const session = await sessionFor(gateway.reader, context.get("caller"), context.req.param("id"));
    return context.json({ jobs: await gateway.reader.jobs(session.id) });
  });
  /** R2: the same id again is the same job. */
  app.post("/:id/jobs", async (context) => {
    const { id, title } = await jsonBody(context, JobBody);
    const caller = context.get("caller");
    const session = await sessionFor(gateway.reader, caller, context.req.param("id"));
    await gateway.bridge.job({ person: caller, sessionId: session.id, id, title });
    const jobs = await gateway.reader.jobs(session.id);
    return context.json({ job: jobs.find((job) => job.id === id) ?? null });
  });
  app.post("/:id/jobs/:job/close", async (context) => {
    const caller = context.get("caller");
    const session = await sessionFor(gateway.reader, caller, context.req.param("id"));
    const { had } = await gateway.bridge.job({
      person: caller,
      sessionId: session.id,
      id: context.req.param("job"),
      title: null,
    });
    return context.json({ closed: had });
  });
  return app;
}

function readLimit(value: string | undefined, otherwise: number): number {
  return value === undefined ? otherwise : readNumber("limit", value, 1, 1_000);
}

export function readNumber(name: string, value: string, from: number, to: number): number {
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < from || number > to)
    throw new TertuliaError("request_invalid", `${name}: a whole number from ${from} to ${to} is needed.`);
  return number;
}
