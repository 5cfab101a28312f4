import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { type Connection, createPeers, type Machine, trustedUid } from "./peer.ts";

/** Of the kind: whoever is not the gateway's own user, or cannot be told from him, is at the other end of a connection of this machine. */

const HERE: Connection = {
  remoteAddress: "127.0.0.1",
  remotePort: 0xa42d,
  localAddress: "127.0.0.1",
  localPort: 0x20ba,
};
const HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
const row = (ends: string, state: string, uid: number, inode: number) =>
  `   1: ${ends} ${state} 00000000:00000000 00:00000000 00000000  ${uid}        0 ${inode} 1 0000 20 4 30 10 -1\n`;
const PEER = "0100007F:A42D 0100007F:20BA";
const MAPPED = "0000000000000000FFFF00000100007F:A42D 0000000000000000FFFF00000100007F:20BA";
const OURS = "0100007F:20BA 0100007F:A42D";

const ask = (
  rows: string,
  { uid = 1000, of = HERE, rows6 = "" }: { uid?: number | null; of?: Connection; rows6?: string } = {},
) => createPeers({ uid, tables: async () => [HEAD + rows, HEAD + rows6] }).isOwnUser(of);

describe("the tables of the kernel", () => {
  test("F-SEC-06 A11: the peer's row decides, and only an open end that has an inode", async () => {
    expect(await ask(row(OURS, "01", 1000, 7) + row(PEER, "01", 1000, 8))).toBe(true);
    expect(await ask(row(OURS, "01", 1000, 7) + row(PEER, "01", 1001, 8))).toBe(false);
    expect(await ask(row(OURS, "01", 1000, 7))).toBe(false);
    expect(await ask(row(PEER, "01", 1000, 0))).toBe(false);
    for (const state of ["02", "04", "05", "06", "08"]) expect(await ask(row(PEER, state, 1000, 8))).toBe(false);
    // A peer that has closed is shown as root's.
    expect(await ask(row(PEER, "05", 0, 0), { uid: 0 })).toBe(false);
    expect(await ask("")).toBe(false);
  });

  test("F-SEC-06 A11: IPv6 and IPv4 in IPv6 are looked up in their own table", async () => {
    const six = { remoteAddress: "::1", remotePort: 0xa42d, localAddress: "::1", localPort: 0x20ba };
    const loopback6 = "00000000000000000000000001000000";
    expect(await ask("", { of: six, rows6: row(`${loopback6}:A42D ${loopback6}:20BA`, "01", 1000, 8) })).toBe(true);
    const mapped = { ...HERE, remoteAddress: "::ffff:127.0.0.1", localAddress: "::ffff:127.0.0.1" };
    expect(await ask(row(PEER, "01", 1000, 8), { of: mapped })).toBe(true);
    expect(await ask("", { of: mapped, rows6: row(MAPPED, "01", 1000, 8) })).toBe(true);
    expect(await ask("", { of: HERE, rows6: row(MAPPED, "01", 1001, 8) })).toBe(false);
  });

  test("F-SEC-06 A11: what is not of this machine, or half known, is nobody's", async () => {
    const rows = row(PEER, "01", 1000, 8);
    for (const of of [
      { ...HERE, remoteAddress: "10.0.0.2" },
      { ...HERE, localAddress: "10.0.0.2" },
      { ...HERE, remoteAddress: undefined },
      { ...HERE, remotePort: undefined },
      { ...HERE, remoteAddress: "::1" },
    ])
      expect(await ask(rows, { of })).toBe(false);
    expect(await ask(rows, { uid: null })).toBe(false);
  });

  test("F-SEC-06 A11: a row that a reading has missed is looked for once more, and many who ask share a reading", async () => {
    let readings = 0;
    const tables = async () => [HEAD + (++readings < 2 ? "" : row(PEER, "01", 1000, 8))];
    const peers = createPeers({ uid: 1000, tables });
    expect(await Promise.all(Array.from({ length: 50 }, () => peers.isOwnUser(HERE)))).toEqual(Array(50).fill(true));
    expect(readings).toBe(2);
    const broken = createPeers({ uid: 1000, tables: () => Promise.reject(new Error("no /proc")) });
    expect(await broken.isOwnUser(HERE)).toBe(false);
  });
});

describe("real connections", () => {
  const uid = process.getuid!();

  async function met<T>(host: string, at: string, look: (accepted: Socket, client: Socket) => Promise<T>): Promise<T> {
    const server: Server = createServer({ allowHalfOpen: true }).listen(0, host);
    await once(server, "listening");
    const client = connect((server.address() as AddressInfo).port, at);
    const [accepted] = (await once(server, "connection")) as [Socket];
    try {
      return await look(accepted, client);
    } finally {
      client.destroy();
      accepted.destroy();
      server.close();
    }
  }

  test.each([
    ["127.0.0.1", "127.0.0.1"],
    ["0.0.0.0", "127.0.0.1"],
    ["::1", "::1"],
    ["::", "127.0.0.1"],
  ])("F-SEC-06 A11: at %s by %s our own connection is ours, and to another user it is not", (host, at) =>
    met(host, at, async (accepted) => {
      expect(await createPeers({ uid }).isOwnUser(accepted)).toBe(true);
      expect(await createPeers({ uid: uid + 1 }).isOwnUser(accepted)).toBe(false);
    }),
  );

  test("F-SEC-06 A11: a peer that has closed its end is nobody", () =>
    met("127.0.0.1", "127.0.0.1", async (accepted, client) => {
      accepted.resume();
      client.end();
      await once(accepted, "end");
      expect(await createPeers({ uid }).isOwnUser(accepted)).toBe(false);
    }));
});

describe("whose peers are trusted", () => {
  const machine = (other: Partial<Machine> & { files?: Record<string, string> } = {}): Machine => {
    const files: Record<string, string> = {
      "/proc/self/uid_map": "         0          0 4294967295\n",
      "/proc/self/mountinfo": "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n",
      ...other.files,
    };
    return {
      platform: "linux",
      uid: 1000,
      exists: (path) => path in files,
      text: (path) => files[path] ?? "",
      ...other,
    };
  };

  test("F-SEC-06 A11: those of a plain user on Linux; nobody's of root, in a container or elsewhere", () => {
    expect(trustedUid(machine())).toBe(1000);
    for (const other of [
      { uid: 0 },
      { uid: undefined },
      { platform: "darwin" },
      { platform: "win32" },
      { files: { "/.dockerenv": "" } },
      { files: { "/run/.containerenv": "" } },
      { files: { "/proc/self/uid_map": "0 1000 1\n1 100000 65536\n" } },
      { files: { "/proc/self/mountinfo": "700 600 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/a\n" } },
      { text: () => "" },
    ])
      expect(trustedUid(machine(other))).toBeNull();
  });
});
