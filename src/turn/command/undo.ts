import type { Command } from "./command.ts";

/** R6: steps back over the later of the last turn and the last reset; repeatable. */
export const undo: Command = {
  name: "undo",
  aliases: [],
  summary: "/undo         take back your last words that wait, else the last exchange, or the reset before it",
  async run() {
    return { effect: { kind: "undo" }, reply: { code: "undone", args: {} } };
  },
};
