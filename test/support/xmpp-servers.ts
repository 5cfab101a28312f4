import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/**
 * Real XMPP servers as processes of their own: own folder, own ports on loopback, own certificate; never the system's service.
 * Both have rooms (XEP-0045) and archives (XEP-0313) for accounts and for rooms.
 */
export interface XmppServer {
  readonly kind: "prosody" | "ejabberd";
  readonly domain: string;
  readonly mucDomain: string;
  readonly ports: XmppPorts;
  /** The PEM of the certificate that the server shows: it signs itself, for `domain`. */
  readonly ca: string;
  /** `xmpp://…` (STARTTLS), `xmpps://…` (direct TLS), `ws://…`, `wss://…`. */
  service(way: "starttls" | "tls" | "websocket" | "wss"): string;
  addAccount(user: string, password: string): Promise<void>;
  /** The process; another one after `restart`. */
  readonly pid: number;
  /** Orderly down and up again, with the same data and ports. */
  restart(): Promise<void>;
  /** The two halves of `restart`. */
  halt(signal?: NodeJS.Signals): Promise<void>;
  resume(): Promise<void>;
  /** The process is gone and so is its folder. */
  stop(): Promise<void>;
  log(): string;
  /**
   * What the administrator's tool does (`ejabberdctl send_message`): words of an account, not said by any client of it. `from` is
   * the full address of a session that has joined. Prosody has no such tool: null there.
   */
  readonly adminSend:
    | ((message: { type: "groupchat" | "chat"; from: string; to: string; body: string }) => Promise<void>)
    | null;
}

interface XmppPorts {
  readonly starttls: number;
  readonly tls: number;
  readonly websocket: number;
  readonly wss: number;
}

const DOMAIN = "tertulia.test";
const MUC_DOMAIN = "conference.tertulia.test";
const LONGEST_START_MS = 30_000;
const LONGEST_STOP_MS = 15_000;
const POLL_MS = 25;

const run = promisify(execFile);

interface Recipe {
  readonly kind: XmppServer["kind"];
  writeConfig(folder: string, ports: XmppPorts): void;
  spawn(folder: string, ports: XmppPorts): ChildProcess;
  addAccount(folder: string, ports: XmppPorts, user: string, password: string): Promise<void>;
  readonly adminSend: ((ports: XmppPorts) => NonNullable<XmppServer["adminSend"]>) | null;
}

export interface ProsodyOptions {
  /** More lines of the room service's section, such as `muc_room_default_…`. */
  readonly rooms?: string;
  readonly hibernationSeconds?: number;
  /** False: rooms without an archive. */
  readonly hasRoomArchive?: boolean;
}

export function startProsody(options: ProsodyOptions = {}): Promise<XmppServer> {
  return start(prosody(options));
}

export function startEjabberd(): Promise<XmppServer> {
  return start(ejabberd());
}

async function start(recipe: Recipe): Promise<XmppServer> {
  const folder = mkdtempSync(join(tmpdir(), `tertulia-${recipe.kind}-`));
  const [starttls, tls, websocket, wss] = (await freePorts(4)) as [number, number, number, number];
  const ports: XmppPorts = { starttls, tls, websocket, wss };
  await writeCertificate(folder);
  recipe.writeConfig(folder, ports);
  let child = await launch(recipe, folder, ports);
  const halt = async (signal: NodeJS.Signals = "SIGTERM"): Promise<void> => {
    await end(child, signal);
  };
  const resume = async (): Promise<void> => {
    child = await launch(recipe, folder, ports);
  };
  const path = recipe.kind === "prosody" ? "xmpp-websocket" : "ws";
  const url = {
    starttls: `xmpp://127.0.0.1:${starttls}`,
    tls: `xmpps://127.0.0.1:${tls}`,
    websocket: `ws://127.0.0.1:${websocket}/${path}`,
    wss: `wss://127.0.0.1:${wss}/${path}`,
  };
  return {
    kind: recipe.kind,
    domain: DOMAIN,
    mucDomain: MUC_DOMAIN,
    ports,
    ca: readFileSync(join(folder, "cert.pem"), "utf8"),
    service: (way) => url[way],
    addAccount: (user, password) => recipe.addAccount(folder, ports, user, password),
    get pid() {
      return child.pid!;
    },
    halt,
    resume,
    restart: async () => {
      await halt();
      await resume();
    },
    stop: async () => {
      await end(child, "SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
    log: () => logOf(folder),
    adminSend: recipe.adminSend === null ? null : recipe.adminSend(ports),
  };
}

async function launch(recipe: Recipe, folder: string, ports: XmppPorts): Promise<ChildProcess> {
  const child = recipe.spawn(folder, ports);
  // A test process that ends early leaves no server behind.
  const onExit = (): void => void child.kill("SIGKILL");
  process.once("exit", onExit);
  child.once("exit", () => process.off("exit", onExit));
  const until = Date.now() + LONGEST_START_MS;
  for (;;) {
    const isUp = await Promise.all(Object.values(ports).map(accepts));
    if (isUp.every(Boolean)) return child;
    const hasEnded = child.exitCode !== null || child.signalCode !== null;
    if (hasEnded || Date.now() > until) {
      await end(child, "SIGKILL");
      throw new Error(`${recipe.kind} does not start (scripts/xmpp-setup.sh installs it):\n${logOf(folder)}`);
    }
    await pause();
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill(signal);
  const overdue = setTimeout(() => child.kill("SIGKILL"), LONGEST_STOP_MS);
  await gone;
  clearTimeout(overdue);
}

function logOf(folder: string): string {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".log"));
  return files.map((name) => readFileSync(join(folder, name), "utf8").slice(-8_000)).join("\n");
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const answer = (isUp: boolean): void => {
      socket.destroy();
      resolve(isUp);
    };
    socket.once("connect", () => answer(true));
    socket.once("error", () => answer(false));
  });
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

async function writeCertificate(folder: string): Promise<void> {
  const names = `subjectAltName=DNS:${DOMAIN},DNS:${MUC_DOMAIN},IP:127.0.0.1`;
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const subject = ["-days", "30", "-subj", `/CN=${DOMAIN}`, "-addext", names];
  await run("openssl", ["req", "-x509", ...curve, "-keyout", key, "-out", cert, ...subject]);
  writeFileSync(join(folder, "server.pem"), readFileSync(cert, "utf8") + readFileSync(key, "utf8"));
}

/** A room service that loses an occupant without a word, as after a crash: whoever says `!lose <nick>` there makes it do so. */
const LOSE = `
module:hook("muc-occupant-groupchat", function (event)
  local nick = (event.stanza:get_child_text("body") or ""):match("^!lose (.+)$");
  local occupant = nick and event.room:get_occupant_by_nick(event.room.jid .. "/" .. nick);
  if not occupant then return; end
  event.room._occupants[occupant.nick] = nil;
  for real_jid in pairs(occupant.sessions) do event.room._jid_nick[real_jid] = nil; end
  return true;
end, 1000);
`;

function prosody({ rooms = "", hibernationSeconds = 300, hasRoomArchive = true }: ProsodyOptions): Recipe {
  const configOf = (folder: string): string => join(folder, "prosody.cfg.lua");
  return {
    kind: "prosody",
    adminSend: null,
    writeConfig: (folder, ports) => {
      writeFileSync(join(folder, "mod_lose.lua"), LOSE);
      writeFileSync(
        configOf(folder),
        `
run_as_root = true
pidfile = "${folder}/prosody.pid"
plugin_paths = { "${folder}" }
data_path = "${folder}/data"
log = { { levels = { min = "info" }, to = "file", filename = "${folder}/prosody.log" } }
interfaces = { "127.0.0.1" }
c2s_ports = { ${ports.starttls} }
c2s_direct_tls_ports = { ${ports.tls} }
c2s_direct_tls_interfaces = { "127.0.0.1" }
s2s_ports = {}
http_ports = { ${ports.websocket} }
http_interfaces = { "127.0.0.1" }
https_ports = { ${ports.wss} }
https_interfaces = { "127.0.0.1" }
consider_websocket_secure = true
ssl = { key = "${folder}/key.pem", certificate = "${folder}/cert.pem" }
modules_enabled = { "disco", "roster", "saslauth", "tls", "ping", "carbons", "smacks", "mam", "offline", "websocket" }
modules_disabled = { "s2s" }
authentication = "internal_hashed"
default_iteration_count = 1000
c2s_require_encryption = true
smacks_hibernation_time = ${hibernationSeconds}
archive_expires_after = "never"
default_archive_policy = true
VirtualHost "${DOMAIN}"
Component "${MUC_DOMAIN}" "muc"
  modules_enabled = { "lose"${hasRoomArchive ? ', "muc_mam"' : ""} }
  restrict_room_creation = false
  muc_room_locking = false
  muc_room_default_persistent = true
  muc_room_default_change_subject = true
  muc_log_by_default = true
  muc_log_expires_after = "never"
  ${rooms}
`,
      );
    },
    spawn: (folder) => spawn("prosody", ["--config", configOf(folder), "-F"], { cwd: folder, stdio: "ignore" }),
    addAccount: async (folder, _ports, user, password) => {
      await run("prosodyctl", ["--config", configOf(folder), "register", user, DOMAIN, password]);
    },
  };
}

function ejabberd(): Recipe {
  const call = async (ports: XmppPorts, command: string, args: object): Promise<void> => {
    const answer = await fetch(`http://127.0.0.1:${ports.websocket}/api/${command}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(args),
      signal: AbortSignal.timeout(10_000),
    });
    if (!answer.ok) throw new Error(`ejabberd ${command}: ${answer.status} ${await answer.text()}`);
  };
  return {
    kind: "ejabberd",
    writeConfig: (folder, ports) => {
      mkdirSync(join(folder, "spool"));
      mkdirSync(join(folder, "logs"));
      writeFileSync(join(folder, "ejabberd.yml"), ejabberdConfig(folder, ports));
    },
    spawn: (folder) =>
      spawn("erl", ["+K", "true", "-noinput", "-mnesia", "dir", `"${folder}/spool"`, "-s", "ejabberd"], {
        cwd: folder,
        stdio: "ignore",
        env: {
          PATH: process.env.PATH,
          HOME: folder,
          ERL_LIBS: erlangLibraries(),
          ERL_INETRC: "/etc/ejabberd/inetrc",
          EJABBERD_CONFIG_PATH: join(folder, "ejabberd.yml"),
          EJABBERD_LOG_PATH: join(folder, "logs/ejabberd.log"),
        },
      }),
    addAccount: (_folder, ports, user, password) => call(ports, "register", { user, host: DOMAIN, password }),
    adminSend: (ports) => (message) => call(ports, "send_message", { subject: "", ...message }),
  };
}

/** Debian keeps the libraries in the folder of its architecture. */
function erlangLibraries(): string {
  const found = readdirSync("/usr/lib")
    .filter((name) => name.endsWith("-linux-gnu"))
    .map((name) => join("/usr/lib", name))
    .find((path) => existsSync(path) && readdirSync(path).some((name) => name.startsWith("ejabberd-")));
  if (found === undefined) throw new Error("ejabberd is not installed: scripts/xmpp-setup.sh does that");
  return found;
}

function ejabberdConfig(folder: string, ports: XmppPorts): string {
  const c2s = 'ip: "127.0.0.1", module: ejabberd_c2s, max_stanza_size: 262144, shaper: none, access: all';
  return `
hosts: [${DOMAIN}]
loglevel: info
certfiles: ["${folder}/server.pem"]
listen:
  - { port: ${ports.starttls}, starttls_required: true, ${c2s} }
  - { port: ${ports.tls}, tls: true, ${c2s} }
  - port: ${ports.websocket}
    ip: "127.0.0.1"
    module: ejabberd_http
    request_handlers: { /api: mod_http_api, /ws: ejabberd_http_ws }
  - port: ${ports.wss}
    ip: "127.0.0.1"
    module: ejabberd_http
    tls: true
    request_handlers: { /ws: ejabberd_http_ws }
auth_method: internal
auth_password_format: scram
acl: { loopback: { ip: [127.0.0.0/8] } }
api_permissions:
  "loopback": { who: { ip: 127.0.0.0/8 }, what: "*" }
modules:
  mod_admin_extra: {}
  mod_adhoc: {}
  mod_carboncopy: {}
  mod_client_state: {}
  mod_disco: {}
  mod_http_api: {}
  mod_last: {}
  mod_mam: { default: always, assume_mam_usage: true }
  mod_muc:
    host: ${MUC_DOMAIN}
    access: all
    access_create: all
    access_persistent: all
    access_mam: [ allow ]
    max_users: 20000
    history_size: 50
    default_room_options: { persistent: true, mam: true, public: true, anonymous: true, allow_change_subj: true }
  mod_muc_admin: {}
  mod_offline: {}
  mod_ping: { send_pings: false }
  mod_roster: {}
  mod_stream_mgmt: { resend_on_timeout: if_offline, resume_timeout: 300 sec, max_ack_queue: 5000 }
  mod_vcard: {}
  mod_version: {}
`;
}
