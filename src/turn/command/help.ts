import { COMMANDS, type Command, textNotice } from "./command.ts";

export const help: Command = {
  name: "help",
  aliases: [],
  summary: "/help         this list",
  async run() {
    return {
      effect: { kind: "none" },
      reply: textNotice(
        [
          "Commands work at every door, also while the agent is busy:",
          ...COMMANDS.map((command) => `  ${command.summary}`),
        ].join("\n"),
      ),
    };
  },
};
