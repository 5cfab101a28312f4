import type { Context } from "hono";
import type { z } from "zod";
import { TertuliaError } from "../errors.ts";
import type { Env } from "./wire.ts";

/** 1 MB, said in the error (docs/http.md). */
export const BODY_LIMIT = 1_000_000;

/** A field that can be left out. Clients of typed languages send null for what they leave out. */
export function optional<T extends z.ZodType>(schema: T) {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** A request's JSON as its schema says. Throws what `Bodies` does, or `request_invalid` with the place and the problem. */
export async function jsonBody<T>(context: Context<Env>, schema: z.ZodType<T>, limit = BODY_LIMIT): Promise<T> {
  return (await sizedBody(context, schema, limit)).data;
}

export async function sizedBody<T>(
  context: Context<Env>,
  schema: z.ZodType<T>,
  limit: number,
): Promise<{ data: T; bytes: number }> {
  const read = await context.get("bodies").read(context.env.incoming, limit);
  const parsed = schema.safeParse(parseJson(read));
  if (parsed.success) return { data: parsed.data, bytes: read.length };
  const [issue] = parsed.error.issues;
  const where = issue?.path.join(".") || "the body";
  throw new TertuliaError("request_invalid", `${where}: ${issue?.message ?? "not as expected"}.`);
}

function parseJson(bytes: Buffer): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new TertuliaError("request_invalid", "The body is not valid UTF-8.", { cause });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new TertuliaError("request_invalid", `The body is not valid JSON (${(cause as Error).message}).`, { cause });
  }
}
