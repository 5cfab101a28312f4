/**
 * The floor: the least program that could do the gateway's job at its HTTP door, to stand beside it in the same run. One node:http
 * server, one table of messages (WAL, synchronous FULL), the same demo agent, one turn at a time per conversation. The user's words are
 * committed before the agent is asked, its answer before it is sent.
 *
 * The same history is read: an agent that is warm is told nothing again, one that has to be opened gets the last 40 messages, at most
 * 12,000 characters of them; 32 agents stay warm, and the least recently used goes first (the gateway's defaults). What is left out is
 * what the gateway is for: sessions, fates, duplicates, deliveries, facts, access, and turns that survive a crash.
 *
 * `--libraries` also loads what the gateway loads (no configuration file, log level info), for the comparison of memory.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { DatabaseSync } from "node:sqlite";
import { parseArgs } from "node:util";
import { createDemoRuntime } from "../src/runtime/demo/demo-runtime.ts";
import type { AgentSession, HistoryLine } from "../src/runtime/runtime.ts";
import { systemClock } from "../src/util/clock.ts";

const { values: flags } = parseArgs({
  options: {
    db: { type: "string", default: ":memory:" },
    warm: { type: "string", default: "32" },
    libraries: { type: "boolean", default: false },
  },
});
const maxWarm = Number(flags.warm);
const { signal } = new AbortController();
const runtime = createDemoRuntime({ clock: systemClock });
if (flags.libraries) {
  await import("commander");
  await import("hono");
  await import("hono/streaming");
  await import("@hono/node-server");
  await import("pino");
  await import("zod");
}

const db = new DatabaseSync(flags.db);
db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
db.exec("CREATE TABLE IF NOT EXISTS message(id INTEGER PRIMARY KEY, conversation TEXT, role TEXT, text TEXT, at INT)");
db.exec("CREATE INDEX IF NOT EXISTS message_conversation ON message(conversation, id)");
const insert = db.prepare("INSERT INTO message(conversation, role, text, at) VALUES(?, ?, ?, ?)");
const latest = db.prepare("SELECT role, text FROM message WHERE conversation = ? ORDER BY id DESC LIMIT 40");
const counted = db.prepare("SELECT count(*) AS n FROM message WHERE conversation = ?");

/** Idle agents, the least recently used first. */
const warm = new Map<string, AgentSession>();
/** The end of each conversation's last turn. */
const tails = new Map<string, Promise<unknown>>();

function open(name: string): Promise<AgentSession> {
  let room = 12_000;
  const fits = (line: HistoryLine): boolean => {
    room -= line.text.length;
    return room >= 0;
  };
  const lines = (latest.all(name) as unknown as HistoryLine[]).filter(fits).reverse();
  const primer = { total: Number(counted.get(name)?.n), lines };
  return runtime.open({ sessionId: name, sessionKey: name, stablePart: "", primer, signal });
}

async function answer(name: string, text: string): Promise<{ turnId: number; text: string }> {
  const known = warm.get(name);
  warm.delete(name);
  const agent = known ?? (await open(name));
  const turnId = Number(insert.run(name, "user", text, Date.now()).lastInsertRowid);
  const input = { turnId, facts: "", text, missed: [] };
  const result = await agent.turn(input, { signal, onEvent: async () => undefined });
  insert.run(name, "assistant", result.text, Date.now());
  warm.set(name, agent);
  const [oldest] = warm;
  if (oldest !== undefined && warm.size > maxWarm) {
    warm.delete(oldest[0]);
    await oldest[1].park();
  }
  return { turnId, text: result.text };
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = JSON.parse(Buffer.concat(chunks).toString("utf8")) as {
    user: string;
    messages: { content: string }[];
  };
  const run = () => answer(body.user, body.messages.at(-1)!.content);
  const turn = Promise.resolve(tails.get(body.user)).then(run, run);
  tails.set(body.user, turn);
  const { turnId, text } = await turn;
  if (tails.get(body.user) === turn) tails.delete(body.user);
  const created = Math.floor(Date.now() / 1_000);
  const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }];
  response.setHeader("content-type", "application/json");
  response.end(
    JSON.stringify({ id: `chatcmpl-${turnId}`, object: "chat.completion", created, model: "main", choices }),
  );
}

const server = createServer((request, response) => {
  serve(request, response).catch((error: Error) => response.writeHead(400).end(error.message));
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`ready at http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.once("SIGTERM", () => {
  server.close(() => db.close());
  server.closeIdleConnections();
});
