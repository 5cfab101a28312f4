import type { IncomingMessage } from "node:http";
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

/** A request's JSON as its schema says. Throws `body_too_large`, or `request_invalid` with the place and the problem. */
export async function jsonBody<T>(context: Context<Env>, schema: z.ZodType<T>, limit = BODY_LIMIT): Promise<T> {
  return (await sizedBody(context, schema, limit)).data;
}

export async function sizedBody<T>(
  context: Context<Env>,
  schema: z.ZodType<T>,
  limit: number,
): Promise<{ data: T; bytes: number }> {
  const read = await readBytes(context.env.incoming, limit);
  const parsed = schema.safeParse(parseJson(read));
  if (parsed.success) return { data: parsed.data, bytes: read.length };
  const [issue] = parsed.error.issues;
  const where = issue?.path.join(".") || "the body";
  throw new TertuliaError("request_invalid", `${where}: ${issue?.message ?? "not as expected"}.`);
}

/** Never holds more than the limit, whether or not a length was declared. */
async function readBytes(incoming: IncomingMessage, limit: number): Promise<Buffer> {
  if (Number(incoming.headers["content-length"] ?? 0) > limit) throw tooLarge(limit);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // Destroying the request would take the socket along, and with it the answer that says why.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > limit) break;
      chunks.push(chunk);
    }
  } catch (cause) {
    throw new TertuliaError("request_invalid", "The connection was closed before the end of the body.", { cause });
  }
  if (size > limit) throw tooLarge(limit);
  return Buffer.concat(chunks);
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

export function tooLarge(limit: number): TertuliaError {
  const most = `${limit / 1_000_000} MB`;
  return new TertuliaError("body_too_large", `The body is larger than ${most}.`, { remedy: `Send at most ${most}.` });
}
