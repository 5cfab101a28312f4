import { join } from "node:path";
import type { Command } from "commander";
import type { Config } from "../../config/config.ts";
import type { Person } from "../../conversation/person.ts";
import { buildSessionKey, DEFAULT_KEY_RULES, sessionKeyFor } from "../../conversation/session-key.ts";
import { asTertuliaError, TertuliaError } from "../../errors.ts";
import { judged } from "../../gateway/judge.ts";
import { ownDoor } from "../../intake/local-doors.ts";
import { systemClock } from "../../util/clock.ts";
import { type Client, connect } from "../client.ts";
import { clientConfig } from "../client-config.ts";
import { createLog } from "../log.ts";
import { ask } from "./ask.ts";
import { converse } from "./converse.ts";
import { readLines } from "./read-lines.ts";
import { askedText } from "./standard-input.ts";
import type { ChatFlags, Door } from "./talk.ts";

const DEFAULT_NAME = "main";

export function chatCommand(command: Command): void {
  command
    .option("--agent <name>", "the agent (default the configured one)")
    .option("--as <name>", "another conversation at this terminal, by a name of yours (default main)")
    .option("--new", "begin a new session first")
    .option(
      "-q, --query <text>",
      "ask this one thing, print the reply and nothing else, and end; - asks what comes on standard input",
    )
    .option("--lines", "from a pipe: each line is a message, as if it was typed")
    .option("--json", "print one JSON object a line, and read lines as messages")
    .option("--wait <seconds>", "with -q or a pipe: how long a gateway that went away is waited for", "60")
    .addHelpText(
      "after",
      [
        "",
        "Enter sends, Alt-Enter or Ctrl-J begins a new line; Ctrl-C stops the turn that runs, Ctrl-D leaves; /help lists the commands that",
        "every door knows. What is pasted is one message. A command, and an answer to a question, is a line that was typed by itself: in a",
        "pasted text, or in a text of several lines, it is words.",
        "",
        'From a pipe: cat FILE | tertulia chat -q "explain" asks with the words and the file in one message; cat FILE | tertulia chat, or',
        "-q -, says the file in one message. A pipe is words. With --lines its lines are sent one after the other, each when the one before is",
        "answered, and commands and answers among them count. Replies go to standard output, all else to standard error.",
        "",
        "--json: {event: ready, agent, conversation, session, entries, gateway}, then for each line {event: sent, message, turn, session,",
        "conversation, kind, reply?} and what happens meanwhile: the events of GET /api/events by their names (turn:text, turn:settled, …),",
        "stream:open and stream:cut around an outage, error. With -q one object {text, session, turn, message, conversation, state}.",
      ].join("\n"),
    )
    .action(() => chat(command.optsWithGlobals()));
}

/** `tertulia chat`: the terminal door, at the running gateway or, where none runs, at one of its own for as long as it is open. */
async function chat(flags: ChatFlags): Promise<void> {
  const config = await clientConfig(flags);
  const { stdin, stdout } = process;
  const isWatched = flags.json !== true && flags.lines !== true && stdin.isTTY && stdout.isTTY;
  const isByLines = flags.json === true || flags.lines === true || stdin.isTTY;
  const asked =
    flags.query === undefined && isByLines ? null : await askedText(flags.query, { stdin, clock: systemClock });
  const leaving = new AbortController();
  const leave = (): void => leaving.abort();
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.once(signal, leave);
  // Whoever reads the output has gone.
  process.stdout.on("error", leave);
  const { client, isHosted, stop } = await reachGateway(config, flags);
  try {
    const door = await doorAt(client, config, flags);
    const talk = { config, client, flags, door, isHosted, leaving };
    if (asked !== null) await ask(talk, asked);
    else if (isWatched) await converse(talk);
    else await readLines(talk);
  } finally {
    leave();
    for (const signal of ["SIGTERM", "SIGHUP"] as const) process.off(signal, leave);
    process.stdout.off("error", leave);
    await stop();
  }
}

async function reachGateway(
  config: Config,
  flags: ChatFlags,
): Promise<{ client: Client; isHosted: boolean; stop: () => Promise<void> }> {
  try {
    return { client: await connect(config), isHosted: false, stop: async () => undefined };
  } catch (cause) {
    if (asTertuliaError(cause).code !== "gateway_down") throw cause;
  }
  const { startGateway } = await import("../../gateway/start.ts");
  const { config: hosted } = judged({ flags: { ...flags, port: 0 } });
  try {
    const running = await startGateway({
      config: hosted,
      log: await createLog(hosted, join(config.home, "gateway.log")),
    });
    return { client: await connect(config), isHosted: true, stop: () => running.stop() };
  } catch (cause) {
    // Somebody else was faster.
    if (asTertuliaError(cause).code !== "gateway_running") throw cause;
    return { client: await connect(config), isHosted: false, stop: async () => undefined };
  }
}

async function doorAt(client: Client, config: Config, flags: ChatFlags): Promise<Door> {
  const { person } = await client.get<{ person: Person }>("/api/whoami");
  const { data } = await client.get<{ data: { id: string }[] }>("/v1/models");
  const agent = flags.agent ?? config.defaultAgent;
  if (!data.some(({ id }) => id === agent))
    throw new TertuliaError("agent_unknown", `There is no agent ${JSON.stringify(agent)}.`, {
      remedy: `Choose one of ${data.map(({ id }) => id).join(", ")}.`,
    });
  const { source, target } = ownDoor("console", person, flags.as ?? DEFAULT_NAME);
  const { chatId } = target;
  const rules = { ...DEFAULT_KEY_RULES, ...config.session };
  return {
    agent,
    person,
    chatId,
    address: buildSessionKey({ form: "chat", agent, platform: "console", chatType: "dm", chatId }),
    key: sessionKeyFor({ agent, source, rules, personId: person.id }).key,
  };
}
