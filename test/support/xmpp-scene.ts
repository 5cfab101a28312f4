import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { loadConfig } from "../../src/config/config.ts";
import type { Gateway } from "../../src/gateway/gateway.ts";
import { type RunningGateway, startGateway } from "../../src/gateway/start.ts";
import { temporaryFolder } from "./store.ts";
import { until } from "./until.ts";
import type { XmppPerson } from "./xmpp-person.ts";
import type { XmppServer } from "./xmpp-servers.ts";
import type { XmppStage } from "./xmpp-stage.ts";

const ROOT = join(import.meta.dirname, "../..");

export interface Agent {
  readonly name: string;
  readonly jid: string;
}

/** A whole gateway with agents in a room of a real server, and people with ordinary clients. */
export class XmppScene {
  readonly stage: XmppStage;
  readonly room: string;
  readonly agents: Agent[] = [];
  readonly faults: string[] = [];
  readonly #folder = temporaryFolder();
  readonly #people: Record<string, object> = {};
  #running: RunningGateway | null = null;
  #process: ChildProcess | null = null;
  /** The authority that the server's certificate is from. */
  readonly caPath: string;
  /** Where the agents' accounts connect. */
  service: string;

  /** `room`: of another scene, whose agents belong to another gateway. */
  constructor(stage: XmppStage, { room }: { room?: string } = {}) {
    this.stage = stage;
    this.room = room ?? stage.room("core");
    this.service = stage.server.service("starttls");
    this.caPath = join(this.#folder.path, "ca.pem");
    writeFileSync(this.caPath, stage.server.ca);
  }

  get server(): XmppServer {
    return this.stage.server;
  }
  get gateway(): Gateway {
    if (this.#running === null) throw new Error("The gateway does not run here.");
    return this.#running.gateway;
  }

  /** Somebody in the room, whose addresses it shows. `as`: a person of the configuration. */
  async person(nick: string, options: { as?: string } = {}): Promise<XmppPerson> {
    const person = await this.stage.person("person");
    await person.join(this.room, nick);
    if (Object.keys(this.#people).length === 0 && !this.#isConfigured) {
      this.#isConfigured = true;
      await person.configure(this.room, {
        "muc#roomconfig_persistentroom": "1",
        "muc#roomconfig_whois": "anyone",
      });
    }
    if (options.as !== undefined)
      this.#people[options.as] = { name: nick, accounts: [{ platform: "xmpp", id: person.jid }] };
    return person;
  }
  #isConfigured = false;

  /** Somebody of the configuration, whether or not he is in the room. */
  knows(id: string, jid: string, name: string): void {
    this.#people[id] = { name, accounts: [{ platform: "xmpp", id: jid }] };
  }

  async agent(name: string): Promise<void> {
    const user = await this.stage.account(name);
    this.agents.push({ name, jid: `${user}@${this.server.domain}` });
  }

  config(more: Readonly<Record<string, unknown>> = {}, perAgent: Readonly<Record<string, object>> = {}): void {
    const agents = Object.fromEntries(
      this.agents.map(({ name, jid }) => [
        name,
        {
          runtime: { kind: "demo" },
          home_room: "core",
          accounts: [
            {
              platform: "xmpp",
              jid,
              password: "secret",
              nick: name,
              rooms: [this.room],
              service: this.service,
              tls: { ca: "ca.pem" },
            },
          ],
          ...perAgent[name],
        },
      ]),
    );
    const config = {
      http: { port: 0 },
      welcome: false,
      log: { level: "warn" },
      agents,
      people: this.#people,
      rooms: { core: { platform: "xmpp", chat: this.room } },
      turn: { debounce_ms: 50 },
      ...more,
    };
    writeFileSync(join(this.#folder.path, "config.yaml"), JSON.stringify(config));
  }

  /** In this process; resolves when every agent is in the room. */
  async starts(): Promise<void> {
    const note = (fields: object, message: string): void => {
      this.faults.push(
        `${message} ${JSON.stringify(fields, (_, value) => (value instanceof Error ? value.message : value))}`,
      );
    };
    const log = { info: () => undefined, warn: () => undefined, error: note };
    this.#running = await startGateway({ config: loadConfig({ flags: { home: this.#folder.path }, env: {} }), log });
    await this.ready();
  }

  async ready(): Promise<void> {
    await until(`the agents are in the room: ${JSON.stringify(this.#running?.gateway.accounts.list())}`, () =>
      this.gateway.accounts
        .list()
        .every(({ status }) => status.state === "online" && (status.problems ?? []).length === 0),
    );
  }

  async rereads(): Promise<readonly string[]> {
    return this.gateway.reload(loadConfig({ flags: { home: this.#folder.path }, env: {} }));
  }

  /** As a process of its own, that can be killed. */
  async spawns(): Promise<void> {
    const child = spawn(process.execPath, [join(ROOT, "src/cli/main.ts"), "start", "--port", "0"], {
      env: { TERTULIA_HOME: this.#folder.path, HOME: this.#folder.path },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    let said = "";
    child.stdout.on("data", (text) => {
      said += text;
    });
    child.stderr.on("data", (text) => {
      said += text;
    });
    await until("the gateway is ready", () => {
      if (child.exitCode !== null) throw new Error(`The gateway ended:\n${said}`);
      return said.includes("ready at");
    });
  }

  async killed(): Promise<void> {
    const child = this.#process!;
    this.#process = null;
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }

  sql<Row extends object = Record<string, string | number | null>>(query: string, ...values: string[]): Row[] {
    const db = new DatabaseSync(join(this.#folder.path, "state.db"), { readOnly: true });
    try {
      return db.prepare(query).all(...values) as unknown as Row[];
    } finally {
      db.close();
    }
  }

  /** Until no turn and no delivery is open. */
  async quiets(longestMs?: number): Promise<void> {
    let still = 0;
    await until(
      "everything is answered",
      () => {
        const [open] = this.sql<{ n: number }>(
          `SELECT (SELECT count(*) FROM turn WHERE state IN('queued','running'))
             + (SELECT count(*) FROM delivery WHERE state IN('queued','sending','streaming')) AS n`,
        );
        still = open!.n === 0 ? still + 1 : 0;
        return still > 20;
      },
      longestMs,
    );
  }

  lastPrompt(agent: string): string {
    const rows = this.sql<{ prompt: string }>(
      "SELECT t.prompt FROM turn t JOIN session s ON s.id = t.session_id WHERE s.agent = ? AND t.prompt IS NOT NULL ORDER BY t.id DESC LIMIT 1",
      agent,
    );
    return rows[0]?.prompt ?? "";
  }

  async ends(): Promise<void> {
    if (this.#process !== null) await this.killed();
    await this.#running?.stop();
    this.#running = null;
    await this.stage.clear();
    this.#folder.remove();
  }
}

/** What a person has heard in the room, as `nick: text`. */
export function heardBy(person: XmppPerson): string[] {
  return person.heard.flatMap((stanza) => {
    const body = stanza.getChildText("body");
    if (body === null || stanza.attrs.type !== "groupchat" || stanza.getChild("delay") !== undefined) return [];
    return [`${stanza.attrs.from!.split("/")[1]}: ${body}`];
  });
}
