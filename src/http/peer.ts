import { existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { endianness } from "node:os";

/** A11: who is at the other end of a connection of this machine, as Linux knows it. */

/** The two ends of a connection, as its socket here says them. */
export interface Connection {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** The kernel's tables of connections, as text: of IPv4 and of IPv6. */
export type ReadTables = () => Promise<readonly string[]>;

/** `01`: both ends are open. An end that was closed belongs to nobody, and the kernel shows it as root's. */
const ESTABLISHED = "01";

/**
 * Peers: answers whether the other end of a connection belongs to this process's own user. Asked once for a connection, when it is
 * accepted: later the port may belong to somebody else.
 */
export interface Peers {
  /** False for whatever cannot be found out. Never rejects. */
  isOwnUser(connection: Connection): Promise<boolean>;
}

export function createPeers({
  uid = trustedUid(),
  tables = readTables,
}: {
  uid?: number | null;
  tables?: ReadTables;
} = {}): Peers {
  const read = shared(tables);
  return {
    async isOwnUser(connection) {
      const rows = rowsOf(connection);
      if (uid === null || rows === null) return false;
      // While connections come and go a table that is read in steps can miss one that stays.
      for (let attempt = 0; attempt < 2; attempt++) {
        const found = uidIn(await read().catch(() => []), rows);
        if (found !== undefined) return found === uid;
      }
      return false;
    },
  };
}

/** The process and its machine, as they can be asked about. */
export interface Machine {
  readonly platform: string;
  readonly uid: number | undefined;
  exists(path: string): boolean;
  /** Empty where it cannot be read. */
  text(path: string): string;
}

const CONTAINER_SIGNS = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container", "/dev/.lxc"];
const ALL_USERS = /^\s*0\s+0\s+4294967295\s*$/;
const LAYERED_ROOT = /^\S+ \S+ \S+ \S+ \/ .* - (?:overlay|aufs|fuse\S*) /m;

/**
 * The user whose peers are trusted; null for none. Elsewhere than on Linux nobody can be looked up; root's peers may be anybody's (services,
 * agents, `sudo`); and in a container all who come in through a published port look alike.
 */
export function trustedUid({ platform, uid, exists, text }: Machine = thisMachine): number | null {
  if (platform !== "linux" || uid === undefined || uid === 0) return null;
  // Another map of users than the machine's is a container's, and so is a root of layers.
  const isInContainer =
    CONTAINER_SIGNS.some(exists) ||
    !ALL_USERS.test(text("/proc/self/uid_map")) ||
    LAYERED_ROOT.test(text("/proc/self/mountinfo"));
  return isInContainer ? null : uid;
}

const thisMachine: Machine = {
  platform: process.platform,
  uid: process.getuid?.(),
  exists: existsSync,
  text(path) {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return "";
    }
  },
};

function readTables(): Promise<readonly string[]> {
  return Promise.all(["/proc/net/tcp", "/proc/net/tcp6"].map((path) => readFile(path, "latin1").catch(() => "")));
}

/** Those who ask while it is read share the next reading: what was read before they came does not show them. */
function shared(read: ReadTables): ReadTables {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<readonly string[]> | null = null;
  return () => {
    next ??= running.then(() => {
      const reading = read();
      running = reading.catch(() => undefined);
      next = null;
      return reading;
    });
    return next;
  };
}

/** The user of the first of these rows that is there: null of one that counts for nothing, undefined where there is none. */
function uidIn(tables: readonly string[], rows: readonly string[]): number | null | undefined {
  for (const table of tables) {
    for (const row of rows) {
      const at = table.indexOf(` ${row} `);
      if (at < 0) continue;
      const [, , state, , , , uid, , inode] = table
        .slice(at + 1)
        .split("\n", 1)[0]!
        .split(/\s+/);
      return state === ESTABLISHED && inode !== undefined && inode !== "0" ? Number(uid) : null;
    }
  }
  return undefined;
}

/** How the peer's row begins, in each form its addresses can have there; null unless both ends are this machine's. */
function rowsOf({ remoteAddress, remotePort, localAddress, localPort }: Connection): readonly string[] | null {
  const [peers, ours] = [loopbackForms(remoteAddress), loopbackForms(localAddress)];
  if (peers === null || ours === null || remotePort === undefined || localPort === undefined) return null;
  if (peers.length !== ours.length) return null;
  return peers.map((peer, form) => `${peer}:${portOf(remotePort)} ${ours[form]}:${portOf(localPort)}`);
}

/** An address of this machine itself as the tables write it: IPv4 also as IPv6 has it. Null for any other. */
function loopbackForms(address = ""): readonly string[] | null {
  if (address === "::1") return [wordsOf([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])];
  const [, ...parts] = /^(?:::ffff:)?(127)\.(\d+)\.(\d+)\.(\d+)$/i.exec(address) ?? [];
  if (parts.length === 0) return null;
  const bytes = parts.map(Number);
  return [wordsOf(bytes), wordsOf([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ...bytes])];
}

/** Hex digits of words of four bytes, each in the order of this machine. */
function wordsOf(bytes: readonly number[]): string {
  const words = Array.from({ length: bytes.length / 4 }, (_, word) => bytes.slice(4 * word, 4 * word + 4));
  return words
    .map((word) =>
      Buffer.from(endianness() === "LE" ? word.reverse() : word)
        .toString("hex")
        .toUpperCase(),
    )
    .join("");
}

function portOf(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, "0");
}
