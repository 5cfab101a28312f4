import { ownDoorChatId } from "../conversation/session-key.ts";
import type { Source } from "../message/source.ts";
import type { Target } from "../message/target.ts";

export type OwnPlatform = "console" | "web" | "http";

/** A door of one's own (K19): the chat is `person/name`; replies are pulled. */
export function ownDoor(
  platform: OwnPlatform,
  person: { id: string; name?: string },
  name: string,
): { source: Source; target: Target } {
  const chatId = ownDoorChatId(person.id, name);
  const source: Source = {
    platform,
    account: platform,
    chatId,
    chatType: "dm",
    userId: person.id,
    ...(person.name === undefined ? {} : { userName: person.name }),
    isBot: false,
  };
  return { source, target: { door: "pull", platform, account: platform, chatId } };
}
