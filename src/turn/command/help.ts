import { type Command, onlySays } from "./command.ts";

/** The list of all commands, itself included. */
export function help(commands: () => readonly Command[]): Command {
  return {
    name: "help",
    aliases: [],
    summary: "/help         this list",
    async run() {
      const lines = commands().map((command) => `  ${command.summary}`);
      return onlySays(["Commands work at every door, also while the agent is busy:", ...lines].join("\n"));
    },
  };
}
