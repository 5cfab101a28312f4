/** A proxy on loopback, as it is asked by clients of any habit: it resolves every name to one server of the test's, and keeps what it was asked. */
import { request as ask, createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";

export interface LittleProxy {
  readonly url: string;
  /** `host:port` of each request, in order; a refused one too. */
  readonly asked: string[];
  /** Every header it could read. */
  readonly seen: string[];
  close(): Promise<void>;
}

export async function startLittleProxy(toPort: () => number): Promise<LittleProxy> {
  const asked: string[] = [];
  const seen: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const url = new URL(incoming.url ?? "", "http://none.test");
    asked.push(`${url.hostname}:${url.port || 80}`);
    seen.push(...incoming.rawHeaders);
    const { method = "GET", headers } = incoming;
    const onward = ask(
      { port: toPort(), host: "127.0.0.1", method, path: url.pathname + url.search, headers },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      },
    );
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  server.on("connect", (incoming, socket, head) => {
    asked.push(incoming.url ?? "");
    seen.push(...incoming.rawHeaders);
    const onward = connect(toPort(), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      onward.write(head);
      onward.pipe(socket);
      socket.pipe(onward);
    });
    socket.on("data", (bytes) => seen.push(bytes.toString("latin1")));
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const)
      one.on("error", () => other.destroy()).on("close", () => other.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const sockets = new Set<{ destroy(): void }>();
  server.on("connection", (socket) => sockets.add(socket));
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    seen,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
