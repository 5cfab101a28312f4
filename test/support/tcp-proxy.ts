import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A line between a client and a server that a test can cut or make silent. */
export interface TcpProxy {
  readonly port: number;
  readonly connections: number;
  /** Both ends see the connection go. */
  cut(): void;
  /** The line stays open, and nothing comes through any more; `down`: what the server says. */
  silence(which?: "both" | "down"): void;
  /** New connections are refused at once while it is shut. */
  isShut: boolean;
  stop(): Promise<void>;
}

export async function startTcpProxy(to: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let connections = 0;
  const server = createServer((client) => {
    if (proxy.isShut) {
      client.destroy();
      return;
    }
    connections += 1;
    const upstream = connect(to, "127.0.0.1");
    const pair = [client, upstream] as const;
    pairs.add(pair);
    client.pipe(upstream).pipe(client);
    for (const socket of pair) {
      socket.on("error", () => undefined);
      socket.once("close", () => {
        pairs.delete(pair);
        for (const other of pair) other.destroy();
      });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: TcpProxy = {
    port: (server.address() as { port: number }).port,
    get connections() {
      return connections;
    },
    isShut: false,
    cut() {
      for (const [client, upstream] of pairs) {
        client.resetAndDestroy();
        upstream.resetAndDestroy();
      }
    },
    silence(which = "both") {
      for (const [client, upstream] of pairs) {
        if (which === "both") client.unpipe(upstream).pause();
        upstream.unpipe(client).resume();
      }
    },
    async stop() {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}
