import { Command, CommanderError } from "commander";
import { asTertuliaError, type TertuliaError } from "../errors.ts";
import { output } from "./output.ts";

/** Dispatches to one file per command, loaded when it is named. Sets the exit code; ends the process only by having nothing left to do. */
export async function run(argv: readonly string[]): Promise<void> {
  const program = new Command("tertulia")
    .description("A session gateway: one agent, many doors, one memory.")
    .option("--home <dir>", "state folder (TERTULIA_HOME; default ~/.tertulia)")
    .option("--config <file>", "configuration file (default config.yaml in the state folder)")
    .exitOverride()
    .showHelpAfterError("(tertulia help <command> says more)")
    .configureOutput({ outputError: (text, write) => write(text) })
    .addHelpText(
      "after",
      "\nExit codes: 0 done; 1 refused or failed; 2 wrong call or configuration; 3 the state or the machine is not usable.\nDocumentation: docs/ in the package.",
    );
  const global = () => program.opts<{ home?: string; config?: string }>();

  program
    .command("start")
    .description("run the gateway in the foreground until Ctrl-C")
    .option("--port <n>", "port to listen on (TERTULIA_PORT; default 8378; 0 takes any free one)")
    .option("--host <address>", "address to listen on (default 127.0.0.1)")
    .action(async (options) => (await import("./start.ts")).start({ ...global(), ...options }));

  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (cause) {
    if (cause instanceof CommanderError) {
      process.exitCode = cause.exitCode === 0 ? 0 : 2;
      return;
    }
    report(asTertuliaError(cause), argv.includes("--json"));
  }
}

function report(error: TertuliaError, isJson: boolean): void {
  if (isJson) output(JSON.stringify({ error }));
  else process.stderr.write(`${error.code}: ${error.message}\n${error.remedy}\n`);
  if (error.code === "internal" && error.cause instanceof Error) process.stderr.write(`${error.cause.stack}\n`);
  process.exitCode = error.exitCode;
}
