import { titleOf } from "../../conversation/title.ts";
import { isAddressHidden } from "../../message/source.ts";
import { allow, deny } from "./allow.ts";
import { autoreset } from "./autoreset.ts";
import { type Command, type CommandAnswer, type CommandContext, onlySays } from "./command.ts";
import { handoff } from "./handoff.ts";
import { resume } from "./resume.ts";
import { runtime } from "./runtime.ts";
import { sessionOf } from "./session-of.ts";
import { status } from "./status.ts";

/** Every slash command, in the order of /help. Who may use one is judged where its effect is carried out: `conversation/rights.ts` (A8). */
const COMMANDS: readonly Command[] = [
  {
    name: "new",
    aliases: ["reset"],
    help: "/new [text]   end this session and begin a new one; the text is its first message",
    act: ({ args, about }) => ({
      effect: args === "" ? { kind: "reset" } : { kind: "reset", firstMessage: args },
      reply: { code: "session_new", args: { ...about } },
    }),
  },
  {
    name: "resume",
    help: "/resume [n|title]  your sessions with this agent; with a number or the beginning of a title, back to it",
    act: resume,
  },
  {
    name: "undo",
    help: "/undo         take back your last words that wait, else the last exchange, or the reset before it",
    act: () => ({ effect: { kind: "undo" }, reply: { code: "undone", args: {} } }),
  },
  {
    name: "stop",
    help: "/stop         stop the turn that runs for this conversation; waiting messages stay",
    act: () => ({ effect: { kind: "stop" }, reply: { code: "stopped", args: {} } }),
  },
  {
    name: "allow",
    help: "/allow [n]     let the agent do what it asks leave for; n is the answer's number, otherwise once",
    act: allow,
  },
  {
    name: "deny",
    help: "/deny          refuse what the agent asks leave for",
    act: deny,
  },
  {
    name: "status",
    help: "/status       session, runtime, what runs and what waits",
    act: status,
  },
  {
    name: "title",
    help: "/title [text] what this session is called, or a new title for it",
    act: title,
  },
  {
    name: "runtime",
    help: "/runtime [name|back|default]  what runs this conversation; with a name, that runs it from now on",
    act: runtime,
  },
  {
    name: "autoreset",
    help: "/autoreset [status|off|default|idle 2h|daily 04:00 [zone]]  when time alone ends a session here",
    act: autoreset,
  },
  {
    name: "sethome",
    help: "/sethome      make this chat the agent's home on its platform (owner)",
    act: () => ({ effect: { kind: "home" }, reply: { code: "home_set", args: {} } }),
  },
  {
    name: "handoff",
    help: "/handoff [title|clear]  in which session this chat speaks; to one of yours for a while (pin TITLE: until cleared), or back",
    act: handoff,
  },
  {
    name: "whoami",
    help: "/whoami       who you are here, and which conversation this is",
    act: whoami,
  },
  {
    name: "help",
    help: "/help         this list",
    act: () => {
      const lines = COMMANDS.map((command) => `  ${command.help}`);
      return onlySays(["Commands work at every door, also while the agent is busy:", ...lines].join("\n"));
    },
  },
];

/** The command that a text begins with; null for plain words. `/etc/hosts` is a path and not a command. */
export function commandOf(text: string): { command: Command; args: string } | { unknown: string } | null {
  const match = /^\/([a-z][a-z0-9_-]*)(?:@\S+)?(?:\s+([\s\S]*))?$/iu.exec(text.trim());
  if (match === null) return null;
  const name = match[1]!.toLowerCase();
  const command = COMMANDS.find((candidate) => candidate.name === name || candidate.aliases?.includes(name));
  return command === undefined ? { unknown: name } : { command, args: (match[2] ?? "").trim() };
}

async function title(context: CommandContext): Promise<CommandAnswer> {
  const wanted = titleOf(context.args);
  if (wanted !== "") return { effect: { kind: "title", title: wanted }, reply: { code: "titled", args: {} } };
  const session = await sessionOf(context);
  return onlySays(session?.title ?? "This session has no title yet. /title TEXT gives it one.");
}

const HIDDEN =
  "This room does not show me your address, so nobody is known here. Its owner can show addresses to everybody, or make my account a moderator.";

function whoami({ speaker: { person }, source, key, agent, config }: CommandContext): CommandAnswer {
  const who =
    person === undefined
      ? "nobody the gateway knows"
      : `${config.people[person.id]?.name ?? person.id} (${person.role})`;
  const hidden = person === undefined && isAddressHidden(source) ? `\n${HIDDEN}` : "";
  return onlySays(
    `You are ${who}.${hidden}\nYou talk to ${config.agents[agent]?.displayName ?? agent}.\nConversation: ${key}`,
  );
}
