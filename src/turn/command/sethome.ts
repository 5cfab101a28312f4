import type { Command } from "./command.ts";

/** C1: this chat becomes the home of its platform for this agent. Only the owner may; `admit` decides. */
export const sethome: Command = {
  name: "sethome",
  aliases: [],
  summary: "/sethome      make this chat the agent's home on its platform (owner)",
  async run() {
    return { effect: { kind: "home" }, reply: { code: "home_set", args: {} } };
  },
};
