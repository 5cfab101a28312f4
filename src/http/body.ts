import type { Context } from "hono";
import type { z } from "zod";
import { TertuliaError } from "../errors.ts";

/** 1 MB, said in the error (docs/http.md). */
export const BODY_LIMIT = 1_000_000;

/** A request's JSON as its schema says. Throws `body_too_large`, or `request_invalid` with the place and the problem. */
export async function jsonBody<T>(context: Context, schema: z.ZodType<T>): Promise<T> {
  const parsed = schema.safeParse(await readJson(context));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue?.path.join(".") || "the body";
  throw new TertuliaError("request_invalid", `${where}: ${issue?.message ?? "not as expected"}.`);
}

async function readJson(context: Context): Promise<unknown> {
  const declared = Number(context.req.header("content-length") ?? 0);
  if (declared > BODY_LIMIT) throw tooLarge();
  const bytes = await context.req.arrayBuffer();
  if (bytes.byteLength > BODY_LIMIT) throw tooLarge();
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

function tooLarge(): TertuliaError {
  return new TertuliaError("body_too_large", "The body is larger than 1 MB.");
}
