/** Requests at every route of the HTTP API, and bytes that are no request, over real connections to a whole gateway. */
import { connect } from "node:net";
import { openHttpStage } from "../http-stage.ts";
import { type Chance, distorted, hostileBytes, hostileText, hostileValue } from "./chance.ts";
import type { FuzzTarget } from "./fuzz.ts";

const ROUTES = [
  "/health",
  "/ready",
  "/metrics",
  "/v1/models",
  "/v1/models/main",
  "/v1/chat/completions",
  "/api/status",
  "/api/conversations",
  "/api/sessions",
  "/api/messages/1",
  "/api/messages/permission",
  "/api/digest",
  "/api/digest/readers",
  "/api/send",
  "/api/handoff",
  "/api/handoff/clear",
  "/api/refused",
  "/api/pool",
  "/api/runtimes",
  "/api/foreign/main",
  "/api/sessions/x/park",
  "/api/sessions/x/restart",
];
const BUSY = new Set(["/api/runtimes"]);
const AT_ONCE = 8;
const WITHIN_MS = 20_000;

export async function httpApi(): Promise<FuzzTarget> {
  const stage = await openHttpStage();
  const send = async (path: string, init: RequestInit): Promise<void> => {
    const headers = {
      authorization: `Bearer ${stage.ownerToken}`,
      "content-type": "application/json",
      ...init.headers,
    };
    const signal = AbortSignal.timeout(WITHIN_MS);
    const answer = await fetch(`${stage.url}${path}`, { ...init, headers, signal, redirect: "manual" });
    const text = await answer.text();
    if (answer.status < 400) return;
    const { error } = JSON.parse(text) as { error?: { code?: string; message?: string; remedy?: string } };
    if (!error?.code || !error.message || !error.remedy)
      throw new Error(`${init.method} ${path}: ${answer.status} without a remedy: ${text}`);
    if (error.code === "internal")
      throw new Error(`${init.method} ${path} ${String(init.body).slice(0, 500)}: ${text}`);
  };
  const one = (chance: Chance): Promise<void> => {
    if (chance.isTrue(0.02)) return rawBytes(stage.port, chance);
    const path = pathOf(chance);
    const method = chance.oneOf(["GET", "POST", "POST", "POST", "PUT", "DELETE"]);
    const isWithBody = method !== "GET";
    return send(path, { method, headers: headersOf(chance), ...(isWithBody ? { body: bodyOf(chance) } : {}) });
  };
  return {
    name: "HTTP API",
    async take(chance, count) {
      for (let at = 0; at < count; at += AT_ONCE)
        await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - at) }, () => one(chance)));
      return count;
    },
    async takeLong(piece, length) {
      const text = piece.repeat(Math.ceil(length / piece.length));
      // A conversation of its own each time: its length is not what is measured.
      await send("/v1/chat/completions", {
        method: "POST",
        body: JSON.stringify({ messages: [{ role: "user", content: text }] }),
      });
    },
    async close() {
      await stage.end();
      const faults = stage.log.filter(({ level }) => level === "error");
      if (faults.length > 0) throw new Error(`The gateway has logged errors:\n${faults[0]!.line}`);
    },
  };
}

function pathOf(chance: Chance): string {
  const route = chance.oneOf(ROUTES);
  if (chance.isTrue(0.75)) return BUSY.has(route) && chance.isTrue(0.98) ? "/api/status" : route;
  const part = encodeURIComponent(hostileText(chance).slice(0, 200).toWellFormed());
  return chance.oneOf([
    `/api/conversations/${part}`,
    `/api/conversations/${part}/context`,
    `/api/sessions/${part}`,
    `/api/messages/${part}`,
    `/api/sessions?limit=${part}`,
    `/${part}`,
    `/api/refused?account=${part}`,
  ]);
}

function headersOf(chance: Chance): Record<string, string> {
  const value = encodeURIComponent(hostileText(chance).slice(0, 100).toWellFormed());
  return {
    ...(chance.isTrue(0.2) ? { "idempotency-key": value } : {}),
    ...(chance.isTrue(0.2) ? { "x-tertulia-conversation": value } : {}),
    ...(chance.isTrue(0.03)
      ? {
          "content-type": chance.oneOf([
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=latin1",
          ]),
        }
      : {}),
    ...(chance.isTrue(0.03) ? { authorization: `Bearer ${value}` } : {}),
    ...(chance.isTrue(0.03) ? { origin: chance.oneOf(["null", "http://evil.example", "http://127.0.0.1:1"]) } : {}),
  };
}

function bodyOf(chance: Chance): Buffer {
  const message = distorted(chance, {
    role: chance.oneOf(["user", "user", "system", "assistant", "tool"]),
    content: hostileText(chance),
  });
  const body = chance.isTrue(0.7)
    ? distorted(chance, {
        model: "main",
        messages: chance.isTrue(0.9) ? [message] : hostileValue(chance),
        user: chance.oneOf(["a", "b", "c"]),
        stream: chance.isTrue(0.3),
        text: hostileText(chance),
        into: hostileText(chance),
        session: hostileText(chance),
        conversation: hostileText(chance),
      })
    : hostileValue(chance);
  return hostileBytes(chance, JSON.stringify(body) ?? "");
}

/** Bytes that are hardly a request; the gateway closes the connection, or we do. */
function rawBytes(port: number, chance: Chance): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const end = (): void => void socket.destroy();
    socket.setTimeout(200, end);
    socket.on("error", end);
    socket.on("close", () => resolve());
    const head = chance.oneOf([
      "",
      "GET / HTTP/1.1\r\n",
      "POST /api/send HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n",
      "GET / HTTP/1.0\r\n\r\n",
    ]);
    socket.end(Buffer.concat([Buffer.from(head), hostileBytes(chance, hostileText(chance))]));
    socket.resume();
  });
}
