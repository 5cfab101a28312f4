import type { Command } from "./command.ts";

/** R6: ends the session and opens the next one; what follows the command is its first message. */
export const newSession: Command = {
  name: "new",
  aliases: ["reset"],
  summary: "/new [text]   end this session and begin a new one; the text is its first message",
  async run({ args, about }) {
    return {
      effect: args === "" ? { kind: "reset" } : { kind: "reset", firstMessage: args },
      reply: { code: "session_new", args: { ...about } },
    };
  },
};
