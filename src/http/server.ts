import { createServer, type RequestListener, type Server } from "node:http";
import { type AddressInfo, createServer as createNetServer, type Server as NetServer, type Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { methodNotAllowed } from "hono/method-not-allowed";
import { type Config, saidAt } from "../config/config.ts";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { OwnerToken } from "../gateway/owner-token.ts";
import { type Clock, systemClock } from "../util/clock.ts";
import type { Log } from "../util/log.ts";
import { Bodies } from "./bodies.ts";
import { areStillOf, callerOf, presentedTokens, type RequestFacts, requireOwnPage, requireScope } from "./caller.ts";
import { EventFeed } from "./event-feed.ts";
import { FailedTokens } from "./failed-tokens.ts";
import { EVERY_ANSWER, parserError, refuse } from "./parser-errors.ts";
import { createPeers } from "./peer.ts";
import { completions } from "./routes/completions.ts";
import { conversations } from "./routes/conversations.ts";
import { digest } from "./routes/digest.ts";
import { eventStream } from "./routes/event-stream.ts";
import { foreignSessions } from "./routes/foreign-sessions.ts";
import { handoff } from "./routes/handoff.ts";
import { messages } from "./routes/messages.ts";
import { metrics } from "./routes/metrics.ts";
import { refusedEvents } from "./routes/refused-events.ts";
import { runtimes } from "./routes/runtimes.ts";
import { sessions } from "./routes/sessions.ts";
import { statusRoutes } from "./routes/status.ts";
import { type Env, errorBody, fail } from "./wire.ts";

export interface HttpServerOptions {
  readonly gateway: Gateway;
  readonly ownerToken: OwnerToken;
  readonly log: Log;
  readonly startedAt: number;
  readonly clock?: Clock;
}

export interface HttpServer {
  readonly address: { readonly host: string; readonly port: number };
  /** Ends every connection, streams included. */
  close(): Promise<void>;
}

/** From the end of the streams until what is still open is cut: an answer that is on its way gets a moment to leave. */
const LEAVE_MS = 800;

/** The transport under the HTTP, web and terminal doors. Throws `port_taken`. */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const { gateway, ownerToken, log, clock = systemClock } = options;
  const { host } = gateway.config.http;
  const streams = new AbortController();
  const feed = new EventFeed({ gateway, ownerToken, clock, log });
  const peers = createPeers();
  const ownUsers = new WeakMap<Socket, Promise<boolean>>();
  const isOwnUser = (socket: Socket): Promise<boolean> => ownUsers.get(socket) ?? Promise.resolve(false);
  const server = serve(createApp({ ...options, clock, feed, isOwnUser, closing: streams.signal }), log);
  server.on("connection", (socket) => {
    if (gateway.config.http.token === "auto") ownUsers.set(socket, peers.isOwnUser(socket));
  });
  await listen(server, gateway.config);
  const address = { host, port: (server.address() as AddressInfo).port };
  log.info(address, "http listens");
  return {
    address,
    async close() {
      streams.abort();
      feed.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const cut = setTimeout(() => server.closeAllConnections(), LEAVE_MS);
      await closed;
      clearTimeout(cut);
    },
  };
}

/** Node's server around the app. What never reaches the app is answered in the same shape. */
function serve(app: Hono<Env>, log: Log): Server {
  const unreadable = (cause: unknown): Response => {
    const error =
      cause instanceof Error && cause.name === "RequestError"
        ? new TertuliaError("request_invalid", `The address of the request cannot be read (${cause.message}).`)
        : asTertuliaError(cause);
    if (error.code === "internal") log.error({ err: cause }, "a request failed");
    return Response.json(errorBody(error), { status: error.status });
  };
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false, errorHandler: unreadable });
  const answer: RequestListener = (request, response) => {
    for (const [name, value] of Object.entries(EVERY_ANSWER)) response.setHeader(name, value);
    void listener(request, response);
  };
  const server = createServer({ requireHostHeader: false, keepAlive: true }, answer);
  // Above its limit Node drops headers silently, and with them the signs of a proxy (A4); their size is limited anyhow.
  server.maxHeadersCount = 0;
  const answering = new WeakSet<object>();
  server.on("request", ({ socket }, response) => {
    answering.add(socket);
    response.once("close", () => {
      answering.delete(socket);
      // While the server closes, nobody waits for a connection that could be used again.
      if (!server.listening) setImmediate(() => server.closeIdleConnections());
    });
  });
  server.on("checkExpectation", answer);
  server.on("clientError", (cause: NodeJS.ErrnoException, socket) => {
    // In the middle of another answer an error would be read as a part of it.
    if (cause.code === "ECONNRESET" || !socket.writable || answering.has(socket)) socket.destroy();
    else refuse(socket, parserError(cause));
  });
  server.on("connect", (_, socket) => {
    socket.on("error", () => socket.destroy());
    refuse(socket, new TertuliaError("method_unknown", "This is no proxy."), { Allow: "GET, POST" });
  });
  return server;
}

async function listen(server: NetServer, config: Config): Promise<void> {
  const { host, port } = config.http;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject).listen(port, host, resolve);
  try {
    await promise;
  } catch (cause) {
    throw addressRefusal(config, cause as NodeJS.ErrnoException) ?? cause;
  }
}

/** E6: whether a server could listen there now. Rejects with what a start would be refused for. */
export async function tryAddress(config: Config): Promise<void> {
  const server = createNetServer();
  await listen(server, config);
  server.close();
}

/** Null for what has nothing to do with the address. */
function addressRefusal(config: Config, cause: NodeJS.ErrnoException): TertuliaError | null {
  const { host, port } = config.http;
  const refusal = (path: string, sentence: string, remedy?: string): TertuliaError =>
    new TertuliaError("port_taken", saidAt(config, path, sentence), {
      cause,
      ...(remedy === undefined ? {} : { remedy }),
    });
  switch (cause.code) {
    case "EADDRINUSE":
      return refusal("http.port", `Port ${port} on ${host} is used by another program.`);
    case "EACCES":
      return refusal("http.port", `Port ${port} on ${host} may not be opened by you.`);
    case "EADDRNOTAVAIL":
    case "EAFNOSUPPORT":
    case "EINVAL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return refusal(
        "http.host",
        `${host} is not an address of this machine.`,
        "Choose another address with --host or http.host.",
      );
    default:
      return null;
  }
}

interface AppOptions extends HttpServerOptions {
  readonly clock: Clock;
  readonly feed: EventFeed;
  readonly closing: AbortSignal;
  isOwnUser(socket: Socket): Promise<boolean>;
}

function createApp({ gateway, ownerToken, log, clock, feed, closing, isOwnUser, startedAt }: AppOptions): Hono<Env> {
  const app = new Hono<Env>();
  const bodies = new Bodies(clock);
  const failedTokens = new FailedTokens({ clock, log, closing });
  const ground = () => ({ config: gateway.config, ownerToken: ownerToken.current, reader: gateway.reader });
  app.get("/health", (context) => context.json({ ok: true }));
  app.get("/ready", (context) => context.json({ ready: gateway.isReady }, gateway.isReady ? 200 : 503));
  app.use(async (context, next) => {
    context.set("log", log);
    context.set("bodies", bodies);
    const { method, path } = context.req;
    const { headers, headersDistinct, httpVersion, socket } = context.env.incoming;
    const { remoteAddress } = socket;
    const facts: RequestFacts = {
      ...{ method, path, httpVersion, headers, headersDistinct, remoteAddress },
      isOwnUser: () => isOwnUser(socket),
    };
    requireOwnPage(facts);
    const tokens = presentedTokens(facts);
    const { person, scope } = await callerOf(facts, ground()).catch(async (cause) => {
      const isUnknown = tokens.length > 0 && asTertuliaError(cause).code === "unauthorized";
      if (isUnknown) await failedTokens.failed(remoteAddress ?? "nowhere");
      throw cause;
    });
    requireScope(scope, path);
    context.set("caller", person);
    context.set("scope", scope);
    context.set("isStillLetIn", () => areStillOf(person, tokens, ground()));
    await next();
  });
  app.use(
    methodNotAllowed({
      app,
      onMethodNotAllowed: (context, methods) => {
        const error = new TertuliaError("method_unknown", `${context.req.path} takes no ${context.req.method}.`);
        return fail(context, error, { Allow: methods.join(", ") });
      },
    }),
  );
  app.route("/v1", completions({ gateway, closing, startedAt }));
  app.route("/api/conversations", conversations(gateway));
  app.route("/api/sessions", sessions(gateway));
  app.route("/api/messages", messages(gateway));
  app.route("/api/events", eventStream(feed));
  app.route("/api/foreign", foreignSessions(gateway));
  app.route("/api/digest", digest(gateway));
  app.route("/api", handoff(gateway));
  app.route("/api", refusedEvents(gateway));
  app.route("/api", runtimes(gateway));
  app.route("/api", statusRoutes({ gateway, feed, startedAt }));
  app.route("/metrics", metrics(gateway));
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
