import type { Command } from "./command.ts";

/** R6: steps back over the later of the last turn and the last reset; repeatable. */
export const undo: Command = {
  name: "undo",
  aliases: [],
  summary: "/undo         take back the last exchange, or the reset before it; again for the one before",
  async run() {
    return { effect: { kind: "undo" }, reply: { code: "undone", args: {} } };
  },
};
