import { type Command, textNotice } from "./command.ts";

/** The list of all commands, itself included. */
export function help(commands: () => readonly Command[]): Command {
  return {
    name: "help",
    aliases: [],
    summary: "/help         this list",
    async run() {
      const lines = commands().map((command) => `  ${command.summary}`);
      return {
        effect: { kind: "none" },
        reply: textNotice(["Commands work at every door, also while the agent is busy:", ...lines].join("\n")),
      };
    },
  };
}
