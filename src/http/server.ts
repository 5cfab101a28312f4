import type { AddressInfo } from "node:net";
import { createAdaptorServer, type ServerType } from "@hono/node-server";
import { Hono } from "hono";
import { completions } from "../channel/http/completions.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import type { Gateway } from "../gateway.ts";
import type { Log } from "../util/log.ts";
import { callerOf } from "./caller.ts";
import { conversations } from "./conversations.ts";
import { eventStream } from "./event-stream.ts";
import { handoff } from "./handoff.ts";
import { messages } from "./messages.ts";
import { sessions } from "./sessions.ts";
import { statusRoutes } from "./status.ts";
import { type Env, fail } from "./wire.ts";

export interface HttpServerOptions {
  readonly gateway: Gateway;
  readonly ownerToken: string;
  readonly log: Log;
  readonly startedAt: number;
}

export interface HttpServer {
  readonly address: { readonly host: string; readonly port: number };
  /** Ends every connection, streams included. */
  close(): Promise<void>;
}

/** The transport under the HTTP, web and terminal doors. Throws `port_taken`. */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const { gateway, log } = options;
  const { host, port } = gateway.config.http;
  const streams = new AbortController();
  const app = createApp(options, streams.signal);
  const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false });
  await listen(server, host, port);
  log.info({ host, port }, "http listens");
  return {
    address: { host, port: (server.address() as AddressInfo).port },
    async close() {
      streams.abort();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      if ("closeIdleConnections" in server) server.closeIdleConnections();
      // An answer that is on its way gets a moment to leave.
      const cut = setTimeout(() => "closeAllConnections" in server && server.closeAllConnections(), 1_000);
      await closed;
      clearTimeout(cut);
    },
  };
}

function listen(server: ServerType, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE")
        reject(
          new TertuliaError("port_taken", `Port ${port} on ${host} is used by another program.`, { cause: error }),
        );
      else if (error.code === "EACCES")
        reject(new TertuliaError("port_taken", `Port ${port} on ${host} may not be opened by you.`, { cause: error }));
      else if (error.code === "EADDRNOTAVAIL")
        reject(
          new TertuliaError("port_taken", `${host} is not an address of this machine.`, {
            cause: error,
            remedy: "Choose another address with --host or http.host.",
          }),
        );
      else reject(error);
    });
    server.listen(port, host, () => resolve());
  });
}

export function createApp(options: HttpServerOptions, closing: AbortSignal): Hono<Env> {
  const { gateway, ownerToken, log } = options;
  const app = new Hono<Env>();
  app.get("/health", (context) => context.json({ ok: true }));
  app.get("/ready", (context) => context.json({ ready: gateway.isReady }, gateway.isReady ? 200 : 503));
  app.use(async (context, next) => {
    const facts = {
      method: context.req.method,
      header: (name: string) => context.req.header(name),
      remoteAddress: context.env.incoming.socket.remoteAddress,
    };
    context.set("caller", callerOf(facts, gateway.config, ownerToken));
    await next();
  });
  app.route("/v1", completions(gateway, closing));
  app.route("/api/conversations", conversations(gateway));
  app.route("/api/sessions", sessions(gateway));
  app.route("/api/messages", messages(gateway));
  app.route("/api/events", eventStream(gateway, closing));
  app.route("/api", handoff(gateway));
  app.route("/api", statusRoutes(options));
  app.notFound((context) =>
    fail(context, new TertuliaError("route_unknown", `There is nothing at ${context.req.method} ${context.req.path}.`)),
  );
  app.onError((cause, context) => {
    const error = asTertuliaError(cause);
    if (error.code === "internal") log.error({ err: cause, path: context.req.path }, "a request failed");
    return fail(context, error);
  });
  return app;
}
