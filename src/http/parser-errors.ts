import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { TertuliaError } from "../errors.ts";
import { errorBody } from "./wire.ts";

/** Nothing is anything but what it says it is: no answer runs as the script of a page. */
export const EVERY_ANSWER = { "X-Content-Type-Options": "nosniff" };

/** How long a refused connection stays readable, so that its end does not overtake the answer. */
const LINGER_MS = 200;

/** Answers on a connection whose request never became one, in the shape of every other error, and closes it. */
export function refuse(socket: Duplex, error: TertuliaError, headers: Readonly<Record<string, string>> = {}): void {
  const body = JSON.stringify(errorBody(error));
  const lines = Object.entries({
    ...EVERY_ANSWER,
    ...headers,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    Connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const linger = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(linger));
  socket.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n${lines.join("")}\r\n${body}`);
}

/** What the parser of HTTP did not take. */
export function parserError(cause: NodeJS.ErrnoException): TertuliaError {
  switch (cause.code) {
    case "HPE_HEADER_OVERFLOW":
      return new TertuliaError("headers_too_large", "The headers are larger than 16 KB.", { cause });
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new TertuliaError("request_late", "The request did not arrive in time.", { cause });
    default:
      return new TertuliaError("request_invalid", `This is not an HTTP request (${cause.code ?? "unknown"}).`, {
        cause,
      });
  }
}
