import type { Command } from "./command.ts";

/** T7: ends this conversation's running turn at once; what waits stays (H9). */
export const stop: Command = {
  name: "stop",
  aliases: [],
  summary: "/stop         stop the turn that runs for this conversation; waiting messages stay",
  async run() {
    return { effect: { kind: "stop" }, reply: { code: "stopped", args: {} } };
  },
};
