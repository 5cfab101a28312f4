/**
 * An ACP agent that answers each prompt after any number of random messages: `{"seed": 1, "count": 500}` as the prompt's text says how many, and
 * `{"piece": "a", "length": 1000}` makes it say one long text. It speaks the wire itself, so that it can speak it wrongly.
 */
import { createInterface } from "node:readline";
import { type Chance, createChance, distorted, hostileBytes, hostileText, hostileValue } from "./chance.ts";

type Fields = Record<string, unknown>;

const SESSION = "fuzz-1";
const write = (bytes: string | Buffer): Promise<void> =>
  new Promise((resolve) => void process.stdout.write(bytes, () => resolve()));
const send = (message: Fields): Promise<void> => write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line) as { id?: unknown; method?: string; params?: Fields };
  if (method === "initialize")
    void send({
      id,
      result: {
        protocolVersion: 1,
        agentCapabilities: { loadSession: false },
        agentInfo: { name: "fuzz", version: "1" },
      },
    });
  if (method === "session/new") void send({ id, result: { sessionId: SESSION } });
  if (method === "session/prompt") void prompted(id, params ?? {});
});

async function prompted(id: unknown, params: Fields): Promise<void> {
  const blocks = params.prompt as readonly { text?: string }[];
  const order = /\{[^{}]*\}\s*$/.exec(blocks.map(({ text = "" }) => text).join("\n"))?.[0] ?? "{}";
  const { seed = 1, count = 0, piece = "", length = 0 } = JSON.parse(order) as Record<string, never>;
  if (length > 0) await say(String(piece).repeat(Math.ceil(length / String(piece).length)));
  const chance = createChance(Number(seed));
  for (let i = 0; i < Number(count); i++) await write(message(chance));
  await send({ id, result: { stopReason: "end_turn" } });
}

function say(text: string): Promise<void> {
  const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
  return send({ method: "session/update", params: { sessionId: SESSION, update } });
}

const UPDATES = [
  "agent_message_chunk",
  "agent_thought_chunk",
  "user_message_chunk",
  "tool_call",
  "tool_call_update",
  "plan",
  "usage_update",
  "config_option_update",
];

function message(chance: Chance): string | Buffer {
  switch (chance.whole(12)) {
    case 0:
      return hostileBytes(chance, `${hostileText(chance)}\n`);
    case 1:
      return `${JSON.stringify(hostileValue(chance))}\n`;
    case 2:
      // An answer nobody has asked for.
      return line({ id: chance.oneOf([null, 1_000_001, "x", -1, hostileText(chance)]), result: hostileValue(chance) });
    case 3:
      return line({ id: `q${chance.whole(9)}`, method: "session/request_permission", params: permission(chance) });
    case 4:
      return line({
        id: hostileText(chance),
        method: chance.oneOf(["fs/read_text_file", "terminal/create", hostileText(chance)]),
        params: hostileValue(chance),
      });
    case 5:
      return hostileBytes(chance, line({ method: hostileText(chance), params: hostileValue(chance) }));
    default: {
      const update = distorted(chance, {
        sessionUpdate: chance.isTrue(0.9) ? chance.oneOf(UPDATES) : hostileValue(chance),
        content: distorted(chance, { type: "text", text: hostileText(chance) }),
        toolCallId: hostileText(chance),
        title: hostileText(chance),
        status: chance.oneOf(["pending", "in_progress", "completed", "failed", hostileText(chance)]),
        entries: chance.isTrue(0.3)
          ? hostileValue(chance)
          : [distorted(chance, { content: hostileText(chance), status: "pending" })],
      });
      const sessionId = chance.isTrue(0.9) ? SESSION : hostileValue(chance);
      return line({ method: "session/update", params: distorted(chance, { sessionId, update }) });
    }
  }
}

function permission(chance: Chance): Fields {
  const options = [
    { optionId: "a", name: hostileText(chance), kind: "allow_once" },
    distorted(chance, { optionId: "b", name: "b", kind: "reject_once" }),
  ];
  return distorted(chance, {
    sessionId: SESSION,
    toolCall: distorted(chance, { toolCallId: "t", title: hostileText(chance) }),
    options,
  });
}

function line(fields: Fields): string {
  return `${JSON.stringify({ jsonrpc: "2.0", ...fields })}\n`;
}
