import { createRequire } from "node:module";
import { Command, CommanderError } from "commander";
import { asTertuliaError, TertuliaError } from "../errors.ts";
import { output, printable } from "./output.ts";

const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };

interface CommandRow {
  readonly name: string;
  readonly description: string;
  /** Loads the file of the command, which declares its options and its subcommands. */
  readonly load: () => Promise<(command: Command) => void>;
}

const COMMANDS: readonly CommandRow[] = [
  {
    name: "start",
    description: "run the gateway in the foreground until Ctrl-C",
    load: async () => (await import("./start.ts")).startCommand,
  },
  {
    name: "chat",
    description: "talk to an agent: at the running gateway, or at one of its own while it lasts",
    load: async () => (await import("./chat/chat.ts")).chatCommand,
  },
  {
    name: "send",
    description: "speak in a room as its agent, and let the room go on in a session",
    load: async () => (await import("./send.ts")).sendCommand,
  },
  {
    name: "handoff",
    description: "which room speaks in which session",
    load: async () => (await import("./handoff.ts")).handoffCommand,
  },
  {
    name: "sessions",
    description: "read sessions back, and see to their agents",
    load: async () => (await import("./sessions.ts")).sessionsCommand,
  },
  {
    name: "runtimes",
    description: "what runs the agents",
    load: async () => (await import("./runtimes.ts")).runtimesCommand,
  },
  {
    name: "explain",
    description: "say what becomes of a message from a source, and why",
    load: async () => (await import("./explain.ts")).explainCommand,
  },
  {
    name: "context",
    description: "print what an agent would be told in the next turn of a conversation",
    load: async () => (await import("./context.ts")).contextCommand,
  },
  {
    name: "digest",
    description: "files that tell each door what was said at the others",
    load: async () => (await import("./digest.ts")).digestCommand,
  },
  {
    name: "import",
    description: "bring in what another program holds",
    load: async () => (await import("./import.ts")).importCommand,
  },
  {
    name: "token",
    description: "the owner's token, which opens everything over HTTP",
    load: async () => (await import("./token.ts")).tokenCommand,
  },
  {
    name: "doctor",
    description: "check the machine, the configuration and the state; change nothing",
    load: async () => (await import("./doctor.ts")).doctorCommand,
  },
  {
    name: "config",
    description: "the configuration",
    load: async () => (await import("./config-check.ts")).configCommand,
  },
  {
    name: "state",
    description: "see to the file that holds everything",
    load: async () => (await import("./set-aside.ts")).stateCommand,
  },
  {
    name: "demo-agent",
    description: "run the demo agent over stdio, for clients of the Agent Client Protocol",
    load: async () => (await import("./demo-agent.ts")).demoAgentCommand,
  },
];

/** Dispatches to one file per command, loaded when it is named. Sets the exit code; ends the process only by having nothing left to do. */
export async function run(argv: readonly string[]): Promise<void> {
  const program = createProgram();
  try {
    for (const { name, description, load } of COMMANDS) {
      const command = program.command(name).description(description);
      if (argv.includes(name)) (await load())(command);
    }
    await program.parseAsync(argv, { from: "user" });
  } catch (cause) {
    const error =
      cause instanceof CommanderError ? usageError(cause, commandIn(program, argv)) : asTertuliaError(cause);
    if (error === null) process.exitCode = (cause as CommanderError).exitCode === 0 ? 0 : 2;
    else report(error, argv.includes("--json"));
  }
}

function createProgram(): Command {
  return new Command("tertulia")
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
