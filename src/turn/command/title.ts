import { titleOf } from "../../conversation/title.ts";
import { type Command, onlySays } from "./command.ts";
import { sessionOf } from "./session-of.ts";

/** Names the session that this conversation speaks in. Without being named it is called after its first words. */
export const title: Command = {
  name: "title",
  aliases: [],
  summary: "/title [text] what this session is called, or a new title for it",
  async run(context) {
    const wanted = titleOf(context.args);
    if (wanted !== "") return { effect: { kind: "title", title: wanted }, reply: { code: "titled", args: {} } };
    const session = await sessionOf(context);
    const text = session?.title == null ? "This session has no title yet. /title TEXT gives it one." : session.title;
    return onlySays(text);
  },
};
