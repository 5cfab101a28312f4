import type { Command } from "commander";
import type { Config } from "../config/config.ts";
import { bindingState } from "../conversation/binding.ts";
import { parseSessionKey } from "../conversation/session-key.ts";
import { TertuliaError } from "../errors.ts";
import type { BindingRow } from "../store/rows.ts";
import { describeSpan } from "../util/span.ts";
import { when } from "../util/when.ts";
import { agentOf, roomName } from "./chat/door.ts";
import { connect } from "./client.ts";
import { clientConfig } from "./client-config.ts";
import { ROOM, SESSION_FROM, SHARE, SPEAKING_AGENT } from "./options.ts";
import { output, printable } from "./output.ts";
import { readState } from "./state.ts";
import { table } from "./table.ts";

interface HandoffFlags {
  readonly home?: string;
  readonly config?: string;
  readonly agent?: string;
  readonly session?: string;
  readonly share?: boolean;
  readonly pin?: boolean;
  readonly json?: boolean;
}

export function handoffCommand(handoff: Command): void {
  handoff
    .command("show")
    .description("list the rooms that speak in another session than their own")
    .option("--json", "print the list as JSON")
    .action((_options, command) => handoffShow(command.optsWithGlobals()));
  handoff
    .command("set")
    .description("let a room speak in a session")
    .argument("[room]", `${ROOM} (default the agent's home_room)`)
    .option("--session <id>", `the session ${SESSION_FROM}`)
    .option("--pin", "until it is cleared; without it for handoff.ttl")
    .option("--share", SHARE)
    .option("--agent <name>", SPEAKING_AGENT)
    .option("--json", "print what was done as JSON")
    .action((room, _options, command) => handoffSet(room, command.optsWithGlobals()));
  handoff
    .command("clear")
    .description("let a room speak in its own session again")
    .argument("[room]", `${ROOM} (default the agent's home_room)`)
    .option("--agent <name>", SPEAKING_AGENT)
    .option("--json", "print what was done as JSON")
    .action((room, _options, command) => handoffClear(room, command.optsWithGlobals()));
}

/** H4: `tertulia handoff show` lists which room speaks in which session. */
async function handoffShow(flags: HandoffFlags): Promise<void> {
  const config = await clientConfig(flags);
  const bindings =
    (await readState<readonly BindingRow[]>(config, {
      gateway: async (client) => (await client.get<{ bindings: BindingRow[] }>("/api/handoff")).bindings,
      file: (reader) => reader.bindings({}),
    })) ?? [];
  output(flags.json ? JSON.stringify({ bindings }) : [...listed(config, bindings), ...defaults(config)].join("\n"));
}

function listed(config: Config, bindings: readonly BindingRow[]): string[] {
  if (bindings.length === 0) return ["No room is bound: each speaks in its own session."];
  const rows = bindings.map((binding) => [
    parseSessionKey(binding.conversationKey).agent,
    roomName(config, binding.conversationKey),
    binding.kind,
    binding.sessionId,
    stands(config, binding),
    binding.conversationKey,
  ]);
  return [table([["AGENT", "ROOM", "BINDING", "SESSION", "HOLDS", "CONVERSATION"], ...rows])];
}

function stands(config: Config, { sentAt, expiresAt }: BindingRow): string {
  if (expiresAt === null) return "until cleared";
  const now = Date.now();
  if (bindingState({ sentAt, expiresAt }, now) !== "valid") return "expired";
  return `until ${when(expiresAt, config.timezone)} (${describeSpan(expiresAt - now)})`;
}

/** The lowest layer is the configuration's, and no row. */
function defaults(config: Config): string[] {
  return Object.values(config.agents).flatMap(({ name, defaultSession }) =>
    defaultSession === undefined
      ? []
      : [
          `Where nothing is bound, ${name} speaks in session ${printable(defaultSession)} (agents.${name}.default_session).`,
        ],
  );
}

interface Change {
  readonly key: string;
  readonly binding: BindingRow | null;
  readonly had: boolean;
}

/** The room said, else the agent's home. Throws `usage`, `agent_unknown`. */
function roomFor(config: Config, room: string | undefined, agent: string | undefined): string {
  if (room !== undefined) return room;
  const { name, homeRoom } = agentOf(config, agent);
  if (homeRoom !== undefined) return homeRoom;
  throw new TertuliaError("usage", `The room is missing, and agent ${name} has no home_room.`, {
    remedy: "Name a room of the configuration or a conversation key, or set agents.<name>.home_room.",
  });
}

async function handoffSet(given: string | undefined, flags: HandoffFlags): Promise<void> {
  const config = await clientConfig(flags);
  const room = roomFor(config, given, flags.agent);
  const session = (flags.session ?? config.client.sessionId)?.trim();
  if (!session) {
    throw new TertuliaError("session_required", "It is not said in which session the room is to speak.", {
      remedy:
        "Name the session with --session ID (TERTULIA_SESSION_ID is used when set); `tertulia sessions list` shows them.",
    });
  }
  const client = await connect(config);
  const change = await client.post<Change>("/api/handoff", {
    room,
    session,
    pin: flags.pin ?? false,
    share: flags.share ?? false,
    ...(flags.agent === undefined ? {} : { agent: flags.agent }),
  });
  const { binding } = change;
  if (flags.json) output(JSON.stringify(change));
  else if (binding !== null) {
    output(
      `${printable(roomName(config, change.key))} speaks in session ${printable(binding.sessionId)}, ${stands(config, binding)}.`,
    );
  }
}

async function handoffClear(given: string | undefined, flags: HandoffFlags): Promise<void> {
  const config = await clientConfig(flags);
  const room = roomFor(config, given, flags.agent);
  const client = await connect(config);
  const change = await client.post<Change>("/api/handoff/clear", {
    room,
    ...(flags.agent === undefined ? {} : { agent: flags.agent }),
  });
  const name = printable(roomName(config, change.key));
  if (flags.json) output(JSON.stringify(change));
  else output(change.had ? `${name} speaks in its own session again.` : `${name} was not bound: nothing was changed.`);
}
