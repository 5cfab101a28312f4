import { isAddressHidden } from "../../message/source.ts";
import { type Command, onlySays } from "./command.ts";

const HIDDEN =
  "This room does not show me your address, so nobody is known here. Its owner can show addresses to everybody, or make my account a moderator.";

export const whoami: Command = {
  name: "whoami",
  aliases: [],
  summary: "/whoami       who you are here, and which conversation this is",
  async run({ speaker, source, key, agent, config }) {
    const person =
      speaker.person === undefined
        ? "nobody the gateway knows"
        : `${config.people[speaker.person.id]?.name ?? speaker.person.id} (${speaker.person.role})`;
    const hidden = speaker.person === undefined && isAddressHidden(source) ? `\n${HIDDEN}` : "";
    return onlySays(
      `You are ${person}.${hidden}\nYou talk to ${config.agents[agent]?.displayName ?? agent}.\nConversation: ${key}`,
    );
  },
};
