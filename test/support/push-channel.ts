import { randomUUID } from "node:crypto";
import type { Channel, Inbox, SendResult } from "../../src/channel/channel.ts";
import type { Target } from "../../src/message/target.ts";
import type { AdmitOutcome, InboundEvent, MessageEvent } from "../../src/store/events.ts";
import { RULES } from "./store.ts";

/** A push door of our own port: what it is to answer to each send is said by the test. */
export interface PushChannel extends Channel {
  /** The person writes in a chat. */
  says(
    text: string,
    options?: { chat?: string; thread?: string; rules?: Partial<typeof RULES> },
  ): Promise<AdmitOutcome>;
  /** The person says `/new` there. */
  resets(options?: { chat?: string }): Promise<AdmitOutcome>;
  /** The person answers a question of the agent there, by `/allow` or `/deny`; perhaps as somebody else. */
  answersQuestion(
    answer: { turnId: number; id: string; optionId: string | null },
    options?: { chat?: string; by?: MessageEvent["speaker"] },
  ): Promise<AdmitOutcome>;
  /** What reached the platform. */
  readonly sent: { readonly chat: string; readonly thread?: string; readonly text: string; readonly key: string }[];
  /** The next answers of the platform; when none is left, everything is sent. */
  readonly answers: (SendResult | Promise<SendResult>)[];
  /** How often sending was tried. */
  attempts: number;
}

export function createPushChannel(options: { recognisesRepeats?: boolean } = {}): PushChannel {
  let inbox: Inbox | null = null;
  const commit = async (event: InboundEvent): Promise<AdmitOutcome> => {
    if (inbox === null) throw new Error("the channel does not run");
    const [outcome] = await inbox.commit([event], event.eventId);
    return outcome!;
  };
  const channel: PushChannel = {
    name: "push",
    account: "bot",
    platform: "telegram",
    sent: [],
    answers: [],
    attempts: 0,
    start: async (given) => {
      inbox = given;
    },
    stop: async () => {
      inbox = null;
    },
    status: () => ({ state: "online" }),
    sender: {
      recognisesRepeats: options.recognisesRepeats ?? false,
      async send(target: Target, text: string, { idempotencyKey }): Promise<SendResult> {
        channel.attempts += 1;
        const answer = (await channel.answers.shift()) ?? { kind: "sent", externalId: randomUUID() };
        const { chatId: chat, threadId: thread } = target;
        if (answer.kind === "sent")
          channel.sent.push({ chat, text, key: idempotencyKey, ...(thread === undefined ? {} : { thread }) });
        return answer;
      },
    },
    says: (text, options = {}) => commit({ kind: "message", addressed: true, ...words(text, options) }),
    resets: (options = {}) =>
      commit({
        kind: "command",
        effect: { kind: "reset" },
        reply: { code: "session_new", args: { agent: "main", runtime: "demo" } },
        ...words("/new", options),
      }),
    answersQuestion: (answer, { by, ...options } = {}) =>
      commit({
        kind: "command",
        effect: { kind: "answer", ...answer },
        reply: { code: "permission_answered", args: { label: answer.optionId ?? "denied" } },
        ...words(answer.optionId === null ? "/deny" : "/allow", options),
        ...(by === undefined ? {} : { speaker: by }),
      }),
  };
  return channel;
}

/** What an event of the person in that chat has, whatever it is. */
function words(
  text: string,
  { chat = "7", thread, rules = {} }: { chat?: string; thread?: string; rules?: Partial<typeof RULES> },
): Omit<MessageEvent, "kind" | "addressed"> {
  const id = randomUUID();
  const inThread = thread === undefined ? {} : { threadId: thread };
  return {
    eventId: id,
    freshId: `s-${id}`,
    source: {
      platform: "telegram",
      account: "bot",
      chatId: chat,
      chatType: "dm",
      userId: "42",
      isBot: false,
      messageId: id,
      ...inThread,
    },
    target: { door: "push", platform: "telegram", account: "bot", chatId: chat, ...inThread },
    speaker: { author: { kind: "person", id: "42", name: "Ann" }, person: { id: "ann", role: "member" } },
    text,
    saidAt: 0,
    rules: { ...RULES, ...rules },
  };
}
