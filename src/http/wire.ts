import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { TertuliaError } from "../errors.ts";
import type { Person } from "../gateway.ts";

/** What every route finds in its context. */
export interface Env {
  readonly Bindings: HttpBindings;
  readonly Variables: { readonly caller: Person };
}

/** Errors have the shape that OpenAI's clients read, with our code and remedy. */
export function fail(context: Context, error: TertuliaError, headers: Record<string, string> = {}): Response {
  return context.json(errorBody(error), error.status as ContentfulStatusCode, headers);
}

export function errorBody(error: TertuliaError): {
  error: { message: string; type: string; param: null; code: string; remedy: string };
} {
  return {
    error: {
      message: error.message,
      type: error.status < 500 ? "invalid_request_error" : "server_error",
      param: null,
      code: error.code,
      remedy: error.remedy,
    },
  };
}
