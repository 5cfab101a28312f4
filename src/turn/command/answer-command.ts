import { type Config, defaultRuntimeOf, runtimeOf } from "../../config/config.ts";
import { type AgentFacts, factsFor } from "../../conversation/agent-facts.ts";
import type { Speaker } from "../../conversation/person.ts";
import { parseLocalDoorChatId } from "../../conversation/session-key.ts";
import type { Platform, Source } from "../../message/source.ts";
import type { RuntimePool } from "../../runtime/runtime-pool.ts";
import type { StoreReader } from "../../store/readers.ts";
import type { ConversationRow } from "../../store/rows.ts";
import type { Clock } from "../../util/clock.ts";
import type { Turns } from "../turns.ts";
import { type CommandAnswer, type CommandContext, type OpenQuestion, onlySays } from "./command.ts";
import { commandOf } from "./commands.ts";

/** The parts of the gateway that commands read. */
export interface CommandMeans {
  readonly config: () => Config;
  readonly store: StoreReader;
  readonly clock: Clock;
  readonly pool: Pick<RuntimePool, "stateOf">;
  /** An agent on a runtime, as it is described to people (R5). */
  readonly about: (agent: string, runtime: string) => AgentFacts;
  readonly turns: Pick<Turns, "questionsOf">;
}

/** The place where a command is typed, and its speaker. */
interface CommandPlace {
  readonly agent: string;
  readonly key: string;
  readonly source: Source;
  readonly speaker: Speaker;
  /** Null before the first message there. */
  readonly conversation: ConversationRow | null;
}

/** The answer to a slash command; null for plain words. */
export async function answerCommand(
  text: string,
  place: CommandPlace,
  { store, clock, pool, about, turns, ...means }: CommandMeans,
): Promise<CommandAnswer | null> {
  const found = commandOf(text);
  if (found === null) return null;
  if ("unknown" in found) return onlySays(`There is no command /${found.unknown}. /help lists them.`);
  const config = means.config();
  const { agent, conversation } = place;
  const isForSpeaker = ({ isAskedThere }: OpenQuestion): boolean =>
    isAskedThere || place.speaker.person?.role === "owner";
  const runtimeHere = runtimeAt(config, { ...place, platform: place.source.platform });
  const aboutOn = (runtime: string) => factsFor(about(agent, runtime), isOwnersAlone(place));
  return found.command.act({
    ...place,
    config,
    reader: store,
    handleState: (sessionId) => pool.stateOf(sessionId),
    runtimeHere,
    about: aboutOn(runtimeHere.name),
    aboutOn,
    questions: conversation === null ? [] : turns.questionsOf(conversation.id).filter(isForSpeaker),
    args: found.args,
    now: clock.now(),
  });
}

/** Whether the owner speaks in a direct chat of their own, where nobody else reads the answer. */
export function isOwnersAlone({
  speaker: { person },
  source,
  conversation,
}: Omit<CommandPlace, "agent" | "key">): boolean {
  if (person?.role !== "owner" || source.chatType !== "dm") return false;
  const whose = conversation === null ? parseLocalDoorChatId(source.chatId ?? "")?.personId : conversation.personId;
  return (whose ?? person.id) === person.id;
}

/** The conversation's runtime, and the one that would run it if nobody had switched it (B7). The conversation need not exist yet. */
export function runtimeAt(
  config: Config,
  place: { agent: string; key: string; platform: Platform; conversation: ConversationRow | null },
): CommandContext["runtimeHere"] {
  const configured = defaultRuntimeOf(config, place).name;
  return { configured, name: place.conversation === null ? configured : runtimeOf(config, place.conversation) };
}
