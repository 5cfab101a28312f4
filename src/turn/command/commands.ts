import { allow, deny } from "./allow.ts";
import { autoreset } from "./autoreset.ts";
import type { Command } from "./command.ts";
import { handoff } from "./handoff.ts";
import { help } from "./help.ts";
import { newSession } from "./new.ts";
import { resume } from "./resume.ts";
import { runtime } from "./runtime.ts";
import { sethome } from "./sethome.ts";
import { status } from "./status.ts";
import { stop } from "./stop.ts";
import { title } from "./title.ts";
import { undo } from "./undo.ts";
import { whoami } from "./whoami.ts";

const COMMANDS: readonly Command[] = [
  newSession,
  resume,
  undo,
  stop,
  allow,
  deny,
  status,
  title,
  runtime,
  autoreset,
  sethome,
  handoff,
  whoami,
  help(() => COMMANDS),
];

/** The command a text begins with; null for plain words. `/etc/hosts` is a path and not a command. */
export function commandOf(text: string): { command: Command; args: string } | { unknown: string } | null {
  const match = /^\/([a-z][a-z0-9_-]*)(?:@\S+)?(?:\s+([\s\S]*))?$/iu.exec(text.trim());
  if (match === null) return null;
  const name = match[1]!.toLowerCase();
  const command = COMMANDS.find((candidate) => candidate.name === name || candidate.aliases.includes(name));
  return command === undefined ? { unknown: name } : { command, args: (match[2] ?? "").trim() };
}
