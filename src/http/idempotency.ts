import { createHash } from "node:crypto";
import type { Context } from "hono";
import { TertuliaError } from "../errors.ts";

const LONGEST_KEY = 255;

/** The request's `Idempotency-Key`; absent when there is none. Throws `request_invalid` for an empty or a long one. */
export function idempotencyKey(context: Context): string | undefined {
  const key = context.req.header("idempotency-key");
  if (key === undefined) return undefined;
  if (key !== "" && key.length <= LONGEST_KEY) return key;
  throw new TertuliaError("request_invalid", `Idempotency-Key: 1 to ${LONGEST_KEY} characters are needed.`);
}

/** The key with the hash of what may not differ under it (T3), as a part of a `SayRequest`. */
export function idempotencyOf(
  key: string | undefined,
  ...content: readonly unknown[]
): { idempotency?: { key: string; bodyHash: string } } {
  return key === undefined ? {} : { idempotency: { key, bodyHash: sha256(JSON.stringify(content)) } };
}

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
