import { type Command, onlySays } from "./command.ts";

export const whoami: Command = {
  name: "whoami",
  aliases: [],
  summary: "/whoami       who you are here, and which conversation this is",
  async run({ speaker, key, agent, config }) {
    const person =
      speaker.person === undefined
        ? "nobody the gateway knows"
        : `${config.people[speaker.person.id]?.name ?? speaker.person.id} (${speaker.person.role})`;
    return onlySays(
      `You are ${person}.\nYou talk to ${config.agents[agent]?.displayName ?? agent}.\nConversation: ${key}`,
    );
  },
};
