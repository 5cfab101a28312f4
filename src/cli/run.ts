import { createRequire } from "node:module";
import { Command, CommanderError, Option } from "commander";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { output, printable } from "./output.ts";

const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };

const ROOM = "a room of the configuration, a room's id, platform:address of a room or a person, or a conversation key";
const SESSION_FROM = "(default TERTULIA_SESSION_ID, else Hermes' own HERMES_SESSION_ID)";
const SHARE = "others read along there, and may see what the session holds";
const OF_AGENT = "whose conversation, in a chat that several agents are in (default the configured one)";
const SPEAKING_AGENT = "who speaks, in a chat that several agents are in (default the configured one)";

/** Dispatches to one file per command, loaded when it is named. Sets the exit code; ends the process only by having nothing left to do. */
export async function run(argv: readonly string[]): Promise<void> {
  const program = new Command("tertulia")
    .description("A session gateway: one agent, many doors, one memory.")
    .version(version, "-V, --version", "print the version")
    .option("--home <dir>", "state folder (TERTULIA_HOME; default ~/.tertulia)")
    .option("--config <file>", "configuration file (TERTULIA_CONFIG; default config.yaml in the state folder)")
    .exitOverride()
    .configureOutput({ outputError: () => undefined })
    .configureHelp({
      subcommandTerm: (command) => command.name(),
      optionDescription: ({ description, defaultValue }) =>
        typeof defaultValue === "string" ? `${description} (default ${defaultValue})` : description,
      showGlobalOptions: true,
    })
    .addHelpText(
      "after",
      [
        "",
        "Environment: TERTULIA_TOKEN is the token that commands send (default the owner's, where it can be read); TERTULIA_SESSION_ID the",
        "session that speaks; TERTULIA_MODEL_URL, TERTULIA_MODEL_NAME and TERTULIA_MODEL_KEY a model for the default agent.",
        "Exit codes: 0 done; 1 refused or failed; 2 wrong call or configuration; 3 the state or the machine is not usable, or no gateway runs.",
        "Documentation: docs/ in the package.",
      ].join("\n"),
    );
  const global = () => program.opts<{ home?: string; config?: string }>();

  program
    .command("start")
    .description("run the gateway in the foreground until Ctrl-C")
    .option("--port <n>", "port to listen on (TERTULIA_PORT; default 8378; 0 takes any free one)")
    .option("--host <address>", "address to listen on (default 127.0.0.1)")
    .action(async (options) => (await import("./start.ts")).start({ ...global(), ...options }));

  program
    .command("chat")
    .description("talk to an agent: at the running gateway, or at one of its own while it lasts")
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
    .action(async (options) => (await import("./chat/chat.ts")).chat({ ...global(), ...options }));

  program
    .command("send")
    .description("speak in a room as its agent, and let the room go on in a session")
    .usage('[options] [room] "text"')
    .argument(
      "<text...>",
      `the room (${ROOM}), then the text in quotes; without a room it is said in the agent's home_room, else in the only configured one`,
    )
    .option("--session <id>", `the session that speaks, and that answers there from now on ${SESSION_FROM}`)
    .option("--no-session", "speak for no session: nothing is bound")
    .option("--share", SHARE)
    .option("--agent <name>", SPEAKING_AGENT)
    .option("--json", "print what was done as JSON")
    .addHelpText("after", '\nExample: tertulia send kitchen "Dinner is ready." --session 20261130_140501_9f3c2ab01d77')
    .action(async (words, options) => (await import("./send.ts")).send(words, { ...global(), ...options }));

  const handoff = program.command("handoff").description("which room speaks in which session");
  handoff
    .command("show")
    .description("list the rooms that speak in another session than their own")
    .option("--json", "print the list as JSON")
    .action(async (options) => (await import("./handoff.ts")).handoffShow({ ...global(), ...options }));
  handoff
    .command("set")
    .description("let a room speak in a session")
    .argument("[room]", `${ROOM} (default the agent's home_room)`)
    .option("--session <id>", `the session ${SESSION_FROM}`)
    .option("--pin", "until it is cleared; without it for handoff.ttl")
    .option("--share", SHARE)
    .option("--agent <name>", SPEAKING_AGENT)
    .option("--json", "print what was done as JSON")
    .action(async (room, options) => (await import("./handoff.ts")).handoffSet(room, { ...global(), ...options }));
  handoff
    .command("clear")
    .description("let a room speak in its own session again")
    .argument("[room]", `${ROOM} (default the agent's home_room)`)
    .option("--agent <name>", SPEAKING_AGENT)
    .option("--json", "print what was done as JSON")
    .action(async (room, options) => (await import("./handoff.ts")).handoffClear(room, { ...global(), ...options }));

  const sessions = program
    .command("sessions")
    .description("read sessions back, and see to their agents")
    .addHelpText("after", "\nAlone it is `tertulia sessions list`, and takes its options.");
  sessions
    .command("list", { isDefault: true })
    .description("list the sessions, the most recently used first")
    .option("--limit <n>", "how many at most, 1 to 1000", "50")
    .option("--warm", "in their place the agents that are kept warm, with what they take")
    .option("--json", "print the list as JSON")
    .action(async ({ warm, ...options }) => {
      const loaded = await import("./sessions.ts");
      if (warm) await loaded.sessionsWarm({ ...global(), ...options });
      else await loaded.sessionsList({ ...global(), ...options });
    });
  sessions
    .command("show")
    .description("print what was said in a session")
    .argument("<id>", `the session's id, as \`tertulia sessions list\` prints it; or for the current one ${ROOM}`)
    .option("--agent <name>", OF_AGENT)
    .option("--limit <n>", "how many of the last entries, 1 to 1000", "100")
    .option("--json", "print the session as JSON")
    .action(async (id, options) => (await import("./sessions.ts")).sessionsShow(id, { ...global(), ...options }));
  sessions
    .command("reset")
    .description("end the session of a conversation and begin the next one, as /new does there")
    .argument("<conversation>", ROOM)
    .option("--agent <name>", OF_AGENT)
    .option("--json", "print what was done as JSON")
    .action(async (name, options) => (await import("./sessions.ts")).sessionsReset(name, { ...global(), ...options }));
  sessions
    .command("park")
    .description("end the agent of a session; the next message opens it again")
    .argument("<id>", "the session's id")
    .option("--json", "print what was done as JSON")
    .action(async (id, options) =>
      (await import("./sessions.ts")).sessionsEnd(id, { ...global(), ...options, what: "park" }),
    );
  sessions
    .command("restart")
    .description("end the agent of a session, and open it anew at once")
    .argument("<id>", "the session's id")
    .option("--json", "print what was done as JSON")
    .action(async (id, options) =>
      (await import("./sessions.ts")).sessionsEnd(id, { ...global(), ...options, what: "restart" }),
    );

  const runtimes = program
    .command("runtimes")
    .description("what runs the agents")
    .addHelpText("after", "\nAlone it is `tertulia runtimes list`, and takes its options.");
  runtimes
    .command("list", { isDefault: true })
    .description("ask each runtime whether it can run, what it can do, and what is missing")
    .option("--json", "print the list as JSON")
    .addHelpText("after", "\nExit codes: 0 every agent has what runs it; 1 one has not.")
    .action(async (options) => (await import("./runtimes.ts")).runtimesList({ ...global(), ...options }));
  runtimes
    .command("use")
    .description("let another runtime run a conversation, as /runtime does there")
    .argument("<conversation>", ROOM)
    .option("--agent <name>", OF_AGENT)
    .argument("<runtime>", "its name; back: the one before; default: the configured one")
    .option("--json", "print what was done as JSON")
    .action(async (name, runtime, options) =>
      (await import("./runtimes.ts")).runtimesUse(name, runtime, { ...global(), ...options }),
    );

  program
    .command("explain")
    .description("say what becomes of a message from a source, and why")
    .argument("[room]", ROOM)
    .option("--source <file>", "in its place a JSON file with the source")
    .option("--agent <name>", "the agent it is for (default the configured one)")
    .option("--person <id>", "as if its author were this person")
    .option("--json", "print the explanation as JSON")
    .addHelpText("after", '\nA source: {"platform":"telegram","chat_id":"-100","chat_type":"group","user_id":"42"}')
    .action(async (room, options) => (await import("./explain.ts")).explain(room, { ...global(), ...options }));

  program
    .command("context")
    .description("print what an agent would be told in the next turn of a conversation")
    .argument("<conversation>", ROOM)
    .option("--agent <name>", OF_AGENT)
    .option("--json", "print the parts as JSON")
    .action(async (name, options) => (await import("./context.ts")).context(name, { ...global(), ...options }));

  const digest = program.command("digest").description("files that tell each door what was said at the others");
  const digestCommand = (name: string, description: string, flags = "") =>
    digest
      .command(name)
      .description(description)
      .option("--json", "print it as JSON")
      .addHelpText(
        "after",
        `\n--home names the folder of the files here (default digest.home); the state folder is TERTULIA_HOME's.\nExample: tertulia digest ${name} --home ~/.hermes${flags}`,
      );
  const readingCommand = (name: string, description: string) =>
    digestCommand(name, description, " --state ~/.hermes/state.db")
      .option("--state <path>", "a state.db of Hermes, instead of the gateway's own state")
      .option("--owner <platform:id...>", "with --state: whose direct chats are the owner's, as in telegram:42")
      .option("--lang <en|zh>", "the language of the words around what was said (default digest.lang, else en)");
  readingCommand("run", "write the files, if anything has changed; else print nothing").action(async (options) =>
    (await import("./digest.ts")).digestRun({ ...global(), ...options }),
  );
  readingCommand("show", "print what was said last at each door, and how long ago").action(async (options) =>
    (await import("./digest.ts")).digestShow({ ...global(), ...options }),
  );
  readingCommand("install", "add the block to AGENTS.md and the guide to SOUL.md, and say how to run it by a clock")
    .option("--i-accept-group-leak", "although others than the owner read these files")
    .action(async (options) => (await import("./digest.ts")).digestInstall({ ...global(), ...options }));
  // The same words as for `run` are taken; what they say does not matter here.
  digestCommand("uninstall", "take the block, the guide and the file away again")
    .addOption(new Option("--state <path>").hideHelp())
    .addOption(new Option("--lang <language>").hideHelp())
    .action(async (options) => (await import("./digest.ts")).digestUninstall({ ...global(), ...options }));

  const bring = program.command("import").description("bring in what another program holds");
  bring
    .command("hermes")
    .description("the sessions of a Hermes state.db, with their messages; twice is once")
    .requiredOption("--state <path>", "the state.db of Hermes; it is only read")
    .option("--agent <name>", "the agent they become sessions of (default the configured one)")
    .option("--owner <platform:id...>", "whose direct chats are the owner's, as in telegram:42")
    .option("--dry-run", "say what would be done, and do nothing")
    .option("--json", "print what was done as JSON")
    .addHelpText("after", "\nExample: tertulia import hermes --state ~/.hermes/state.db --dry-run")
    .action(async (options) => (await import("./import.ts")).importHermes({ ...global(), ...options }));

  const token = program
    .command("token")
    .description("the owner's token, which opens everything over HTTP")
    .addHelpText("after", "\nAlone it is `tertulia token show`, and takes its options.");
  token
    .command("show", { isDefault: true })
    .description("print it, and nothing else")
    .option("--json", "print it with its file as JSON")
    .addHelpText(
      "after",
      '\nExample: curl -H "authorization: Bearer $(tertulia token)" http://127.0.0.1:8378/api/whoami',
    )
    .action(async (options) => (await import("./token.ts")).tokenShow({ ...global(), ...options }));
  token
    .command("rotate")
    .description("put a new one in its place, and print that; the old one stops at once, also at a running gateway")
    .option("--json", "print it with its file as JSON")
    .action(async (options) => (await import("./token.ts")).tokenRotate({ ...global(), ...options }));

  program
    .command("doctor")
    .description("check the machine, the configuration and the state; change nothing")
    .option("--json", "print the findings as JSON")
    .addHelpText("after", "\nExit codes: 0 nothing failed; 1 a check failed; 3 the state or the machine is not usable.")
    .action(async (options) => (await import("./doctor.ts")).doctor({ ...global(), ...options }));

  const config = program.command("config").description("the configuration");
  config
    .command("check")
    .description("say every problem, or what holds and where each value comes from")
    .option("--json", "print the values as JSON")
    .action(async (options) => (await import("./config-check.ts")).configCheck({ ...global(), ...options }));

  const state = program.command("state").description("see to the file that holds everything");
  state
    .command("set-aside")
    .description("move the state away, under a name that says when, so that a backup or a new one can take its place")
    .option("--yes", "do it; without it only what would be moved is said")
    .option("--json", "print what was moved as JSON")
    .action(async (options) => (await import("./set-aside.ts")).setStateAside({ ...global(), ...options }));

  program
    .command("demo-agent")
    .description("run the demo agent over stdio, for clients of the Agent Client Protocol")
    .option("--state <dir>", "keep its sessions there; without it they end with the process")
    .action(async (options) => (await import("./demo-agent.ts")).demoAgent(options));

  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (cause) {
    const error =
      cause instanceof CommanderError ? usageError(cause, commandIn(program, argv)) : asTertuliaError(cause);
    if (error === null) process.exitCode = (cause as CommanderError).exitCode === 0 ? 0 : 2;
    else report(error, argv.includes("--json"));
  }
}

/** Null where only help was printed (asked for, or in place of a missing subcommand), or the version. */
function usageError({ code, message }: CommanderError, command: string): TertuliaError | null {
  if (code.startsWith("commander.help") || code === "commander.version") return null;
  const sentence = message.replace(/^error: |\.$/g, "").replaceAll("\n", " ");
  return new TertuliaError("usage", `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`, {
    remedy: `\`${command} --help\` shows what it takes.`,
  });
}

/** The command that was meant, as far as it is known: `tertulia handoff set`. */
function commandIn(program: Command, argv: readonly string[]): string {
  let command = program;
  const names = [program.name()];
  for (const word of argv) {
    const sub = command.commands.find((known) => known.name() === word);
    if (sub === undefined) continue;
    command = sub;
    names.push(word);
  }
  return names.join(" ");
}

function report(error: TertuliaError, isJson: boolean): void {
  if (isJson) output(JSON.stringify({ error }));
  else process.stderr.write(`${printable(`${error.code}: ${error.message}\n${error.remedy}`)}\n`);
  if (error.code === "internal" && error.cause instanceof Error) process.stderr.write(`${error.cause.stack}\n`);
  process.exitCode = error.exitCode;
}
