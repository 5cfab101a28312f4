import type { IncomingMessage } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { Person } from "../conversation/person.ts";
import { asTertuliaError, type TertuliaError } from "../errors.ts";
import { cleanText } from "../message/source.ts";
import type { Log } from "../util/log.ts";
import type { Bodies } from "./bodies.ts";
import type { Scope } from "./caller.ts";

/** What every route finds in its context. */
export interface Env {
  readonly Bindings: HttpBindings;
  readonly Variables: {
    readonly caller: Person;
    readonly log: Log;
    readonly scope: Scope;
    /** Whether what the caller showed is still good for the same person: for answers that take long. */
    readonly isStillLetIn: () => boolean;
    readonly bodies: Bodies;
  };
}

/** Of words that were taken in and are not answered. Clients repeat 408, 409, 429 and 5xx by themselves: those would say them twice (T3). */
export const UNANSWERED = 424;

/** What went wrong in a request, for its caller; a bug is logged. */
export function asErrorOf(context: Context<Env>, cause: unknown): TertuliaError {
  const error = asTertuliaError(cause);
  if (error.code === "internal") context.get("log").error({ err: cause, path: context.req.path }, "a request failed");
  return error;
}

/** Errors have the shape that OpenAI's clients read, with our code and remedy. */
export function fail(context: Context<Env>, error: TertuliaError, headers: Record<string, string> = {}): Response {
  // Closed at once under somebody who still sends, a connection is reset, and the answer is lost with it.
  const lingering = isStillSending(context.env.incoming) ? { Connection: "keep-alive" } : {};
  return context.json(errorBody(error), error.status as ContentfulStatusCode, { ...headers, ...lingering });
}

/** More is to come than what a socket takes in one go. What nobody reads is thrown away, for half a second at most. */
function isStillSending({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 65_536;
}

export function errorBody(error: TertuliaError): {
  error: { message: string; type: string; param: null; code: string; remedy: string };
} {
  return {
    error: {
      message: cleanText(error.message),
      type: error.status < 500 && error.status !== UNANSWERED ? "invalid_request_error" : "server_error",
      param: null,
      code: error.code,
      remedy: error.remedy,
    },
  };
}
