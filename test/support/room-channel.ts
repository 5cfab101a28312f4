import { randomUUID } from "node:crypto";
import type { Channel, Inbox } from "../../src/channel/channel.ts";
import type { Platform, Source } from "../../src/message/source.ts";
import type { AdmitOutcome, AdmitRules } from "../../src/store/events.ts";
import { RULES } from "./store.ts";

/** A platform of our own port where many people write in many chats. What is sent to it is heard by nobody. */
export interface RoomChannel extends Channel {
  says(text: string, from: Said): Promise<AdmitOutcome>;
}

export interface Said {
  readonly user: string;
  readonly name?: string;
  readonly source?: Partial<Source>;
  readonly rules?: Partial<AdmitRules>;
  readonly addressed?: boolean;
  readonly replyTo?: string;
  /** The person that this account is linked to. */
  readonly person?: string;
}

export function createRoomChannel(platform: Platform = "telegram"): RoomChannel {
  let inbox: Inbox | null = null;
  return {
    name: platform,
    account: `${platform}-bot`,
    platform,
    start: async (given) => {
      inbox = given;
    },
    stop: async () => {
      inbox = null;
    },
    status: () => ({ state: "online" }),
    sender: { recognisesRepeats: false, send: async () => ({ kind: "sent", externalId: randomUUID() }) },
    async says(text, { user, name, source: more, rules, addressed = true, replyTo, person }) {
      if (inbox === null) throw new Error("the channel does not run");
      const id = randomUUID();
      const named = name === undefined ? {} : { name };
      const source: Source = {
        platform,
        account: `${platform}-bot`,
        chatId: "G",
        chatName: "Kitchen",
        chatType: "group",
        userId: user,
        ...(name === undefined ? {} : { userName: name }),
        isBot: false,
        messageId: id,
        ...more,
      };
      const thread = source.threadId === undefined ? {} : { threadId: source.threadId };
      const [outcome] = await inbox.commit(
        [
          {
            kind: "message",
            eventId: id,
            freshId: `s-${id.slice(0, 8)}`,
            source,
            target: { door: "push", platform, account: `${platform}-bot`, chatId: source.chatId ?? "", ...thread },
            speaker: {
              author: { kind: "person", id: user, ...named },
              ...(person === undefined ? {} : { person: { id: person, role: "member" as const } }),
            },
            text,
            saidAt: 0,
            addressed,
            ...(replyTo === undefined ? {} : { replyTo }),
            rules: { ...RULES, ...rules },
          },
        ],
        id,
      );
      return outcome!;
    },
  };
}
