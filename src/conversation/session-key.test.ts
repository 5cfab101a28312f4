import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TertuliaError } from "../errors.ts";
import { CHAT_TYPES, cleanSource, isBlank, PLATFORMS, type Source } from "../message/source.ts";
import {
  buildSessionKey,
  DEFAULT_KEY_RULES,
  isKeyName,
  type KeyParts,
  type KeyRules,
  keyPartsFor,
  localDoorChatId,
  parseLocalDoorChatId,
  parseSessionKey,
  sessionKeyFor,
} from "./session-key.ts";

interface Vector {
  readonly says: string;
  readonly source: Partial<Source>;
  readonly rules?: Partial<KeyRules>;
  readonly agent?: string;
  readonly personId?: string;
  readonly key: string;
  readonly rule?: string;
}

const at = (source: Partial<Source>): Source => ({
  platform: "telegram",
  account: "nova_bot",
  chatType: "dm",
  isBot: false,
  ...source,
});

const decide = ({ source, rules, agent, personId }: Omit<Vector, "says" | "key">) =>
  sessionKeyFor({ agent: agent ?? "main", source: at(source), rules: { ...DEFAULT_KEY_RULES, ...rules }, personId });

const keyOf = (source: Partial<Source>, rules: Partial<KeyRules> = {}) => decide({ source, rules }).key;

function refusalOf(act: () => unknown): TertuliaError {
  try {
    act();
  } catch (error) {
    if (error instanceof TertuliaError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

const topic = { chatType: "group", chatId: "-100", threadId: "17585", userId: "42" } as const;
const room = {
  platform: "xmpp",
  chatType: "group",
  chatId: "room@muc.example.org",
  userId: "alice@example.org",
} as const;

const VECTORS: readonly Vector[] = [
  { says: "K1 a dm is its chat", source: { chatId: "99" }, key: "agent:main:telegram:dm:99" },
  {
    says: "K1 a dm is its chat, whoever speaks",
    source: { chatId: "99", userId: "42" },
    key: "agent:main:telegram:dm:99",
  },
  {
    says: "K2 a thread in a dm never has a user part",
    source: { chatId: "99", threadId: "topic-1", userId: "42" },
    key: "agent:main:telegram:dm:99:thread:topic-1",
  },
  {
    says: "K2 a thread in a dm stays apart with thread_scope chat too",
    source: { chatId: "99", threadId: "topic-1", userId: "42" },
    rules: { threadScope: "chat", threadSessionsPerUser: true },
    key: "agent:main:telegram:dm:99:thread:topic-1",
  },
  {
    says: "K3 a dm without a chat is its author",
    source: { userId: "jordan" },
    key: "agent:main:telegram:dm::user:jordan",
  },
  {
    says: "K3 a thread of a dm without a chat has its author too",
    source: { chatId: "", threadId: "7", userId: "jordan" },
    key: "agent:main:telegram:dm::thread:7:user:jordan",
  },
  {
    says: "K3 the alternate id wins",
    source: { userId: "jordan", userIdAlt: "uuid-1" },
    key: "agent:main:telegram:dm::user:uuid-1",
  },
  {
    says: "K3 an empty alternate id is absent",
    source: { userId: "jordan", userIdAlt: "" },
    key: "agent:main:telegram:dm::user:jordan",
  },
  {
    says: "K4 a dm without a chat and an author is its thread",
    source: { threadId: "7" },
    key: "agent:main:telegram:dm::thread:7",
  },
  {
    says: "K6 in a group everybody has a conversation",
    source: { platform: "discord", chatType: "group", chatId: "G", userId: "alice" },
    key: "agent:main:discord:group:G:user:alice",
  },
  {
    says: "K6 in a channel too",
    source: { platform: "discord", chatType: "channel", chatId: "G", userId: "alice", userIdAlt: "" },
    key: "agent:main:discord:channel:G:user:alice",
  },
  {
    says: "K6 the alternate id wins in a group",
    source: { platform: "discord", chatType: "group", chatId: "G", userId: "alice", userIdAlt: "a1" },
    key: "agent:main:discord:group:G:user:a1",
  },
  {
    says: "K6 a thread that is a chat of its own is like a group",
    source: { platform: "discord", chatType: "thread", chatId: "T", userId: "alice" },
    key: "agent:main:discord:thread:T:user:alice",
  },
  {
    says: "K7 a group can be one conversation",
    source: { platform: "discord", chatType: "group", chatId: "G", userId: "alice" },
    rules: { groupSessionsPerUser: false },
    key: "agent:main:discord:group:G",
  },
  {
    says: "K8 a message of nobody known is the group's",
    source: { platform: "discord", chatType: "group", chatId: "G" },
    key: "agent:main:discord:group:G",
  },
  { says: "K9 a thread in a group is shared", source: topic, key: "agent:main:telegram:group:-100:thread:17585" },
  {
    says: "K9 a thread is shared whatever groups do",
    source: topic,
    rules: { groupSessionsPerUser: false },
    key: "agent:main:telegram:group:-100:thread:17585",
  },
  {
    says: "K9 a thread of a channel is shared",
    source: { platform: "discord", chatType: "thread", chatId: "C", threadId: "T", userId: "alice" },
    key: "agent:main:discord:thread:C:thread:T",
  },
  {
    says: "K10 threads can be per user",
    source: topic,
    rules: { threadSessionsPerUser: true },
    key: "agent:main:telegram:group:-100:thread:17585:user:42",
  },
  {
    says: "K10 the threads' setting alone is enough",
    source: topic,
    rules: { threadSessionsPerUser: true, groupSessionsPerUser: false },
    key: "agent:main:telegram:group:-100:thread:17585:user:42",
  },
  {
    says: "K11 the workspace is in the key of a Slack channel",
    source: { platform: "slack", scopeId: "T1", chatType: "channel", chatId: "C1", userId: "U1" },
    key: "agent:main:slack@T1:channel:C1:user:U1",
  },
  {
    says: "K12 a known person has one conversation at every door",
    source: { chatId: "99", userId: "42" },
    rules: { dmScope: "person" },
    personId: "jordan",
    key: "agent:main:person:jordan",
  },
  {
    says: "K12 at an own door too",
    source: { platform: "console", account: "console", chatId: "jordan/main" },
    rules: { dmScope: "person" },
    personId: "jordan",
    key: "agent:main:person:jordan",
  },
  {
    says: "K13 a topic can belong to its group",
    source: topic,
    rules: { threadScope: "chat" },
    key: "agent:main:telegram:group:-100:user:42",
  },
  {
    says: "K13 a joined topic follows the group's setting, not the threads'",
    source: topic,
    rules: { threadScope: "chat", groupSessionsPerUser: false, threadSessionsPerUser: true },
    key: "agent:main:telegram:group:-100",
  },
  {
    says: "K13 a joined thread has the parent's type and id",
    source: {
      platform: "discord",
      chatType: "thread",
      chatId: "T",
      threadId: "T",
      parentChatId: "C",
      parentChatType: "channel",
      userId: "a",
    },
    rules: { threadScope: "chat" },
    key: "agent:main:discord:channel:C:user:a",
  },
  {
    says: "K13 the parent is a group where the wire does not say",
    source: { platform: "discord", chatType: "thread", chatId: "C", threadId: "T", userId: "a" },
    rules: { threadScope: "chat" },
    key: "agent:main:discord:group:C:user:a",
  },
  {
    says: "K13 a thread named in a channel's own source joins that channel",
    source: { platform: "slack", scopeId: "T1", chatType: "channel", chatId: "C1", threadId: "17.1", userId: "U1" },
    rules: { threadScope: "chat" },
    key: "agent:main:slack@T1:channel:C1:user:U1",
  },
  {
    says: "K13 another chat that is the parent is a group where the wire does not say",
    source: { platform: "discord", chatType: "channel", chatId: "T", threadId: "T", parentChatId: "P", userId: "a" },
    rules: { threadScope: "chat" },
    key: "agent:main:discord:group:P:user:a",
  },
  {
    says: "K13 a thread of a dm joins the dm, without a user part",
    source: {
      platform: "slack",
      scopeId: "T1",
      chatType: "thread",
      chatId: "D1",
      parentChatType: "dm",
      threadId: "17.1",
      userId: "U1",
    },
    rules: { threadScope: "chat" },
    key: "agent:main:slack@T1:dm:D1",
  },
  {
    says: "K13 a parent that is a thread itself is taken as it is",
    source: {
      platform: "discord",
      chatType: "thread",
      chatId: "T",
      threadId: "T",
      parentChatId: "P",
      parentChatType: "thread",
      userId: "a",
    },
    rules: { threadScope: "chat" },
    key: "agent:main:discord:thread:P:user:a",
  },
  {
    says: "K14 an XMPP room is shared",
    source: { ...room, scopeId: "muc.example.org" },
    key: "agent:main:xmpp@muc.example.org:group:room%40muc.example.org",
  },
  {
    says: "K14 the service is read from the room where the source does not name it",
    source: room,
    key: "agent:main:xmpp@muc.example.org:group:room%40muc.example.org",
  },
  {
    says: "K19 the terminal",
    source: { platform: "console", account: "console", chatId: localDoorChatId("owner", "main") },
    key: "agent:main:console:dm:owner%2Fmain",
  },
  {
    says: "K19 a header's value is encoded like an id",
    source: { platform: "http", account: "http", chatId: localDoorChatId("alice", "agent:main:../50% @x") },
    key: "agent:main:http:dm:alice%2Fagent%3Amain%3A..%2F50%25 %40x",
  },
  {
    says: "K20 the account shows where the agent has two",
    source: { chatId: "55" },
    rules: { accountInKey: true },
    key: "agent:main:telegram@nova_bot:dm:55",
  },
  {
    says: "K20 on Weixin too",
    source: { platform: "weixin", account: "b@im.bot", chatId: "u@im.wechat" },
    rules: { accountInKey: true },
    key: "agent:main:weixin@b%40im.bot:dm:u%40im.wechat",
  },
];

describe("the table", () => {
  it.each(VECTORS)("$says", (vector) => {
    const decided = decide(vector);
    expect(decided.key).toBe(vector.key);
    expect(decided.rule).toBe(/^K\d+/.exec(vector.says)?.[0]);
    expect(parseSessionKey(decided.key)).toStrictEqual(decided.parts);
  });

  it.each([
    ["a dm without chat, thread and user", {}],
    ["a dm with empty ids", { chatId: "", threadId: "", userId: "", userIdAlt: "" }],
    ["a group without a chat", { chatType: "group", userId: "alice" }],
    ["a thread without a chat", { chatType: "thread", threadId: "7", userId: "alice" }],
    ["a channel without a chat, whose parent is known", { chatType: "channel", threadId: "7", parentChatId: "C" }],
  ] as const)("K5 %s is refused, naming the field", (_, source) => {
    for (const rules of [{}, { dmScope: "person" }, { threadScope: "chat" }] as const) {
      const refusal = refusalOf(() => decide({ source, rules, personId: "jordan" }));
      expect(refusal.code).toBe("source_invalid");
      expect(refusal.message).toContain("chat_id");
    }
  });

  it("K6 a Slack channel whose workspace is not known has no scope", () => {
    const decided = decide({ source: { platform: "slack", chatType: "channel", chatId: "C1", userId: "U1" } });
    expect(decided).toMatchObject({ key: "agent:main:slack:channel:C1:user:U1", rule: "K6" });
  });

  it("K12 an unknown person keeps the chat's conversation", () => {
    expect(decide({ source: { chatId: "99" }, rules: { dmScope: "person" } }).rule).toBe("K1");
  });

  it("K12 groups are not affected", () => {
    const source = { chatType: "group", chatId: "G", userId: "42" } as const;
    expect(decide({ source, rules: { dmScope: "person" }, personId: "jordan" }).rule).toBe("K6");
  });

  it("K14 an XMPP room can be per user", () => {
    const decided = decide({ source: room, rules: { sharedPlatforms: [] } });
    expect(decided.rule).toBe("K6");
    expect(decided.key).toBe("agent:main:xmpp@muc.example.org:group:room%40muc.example.org:user:alice%40example.org");
  });

  it("K18 the key, its rule and its parts are told together", () => {
    expect(decide({ source: topic })).toStrictEqual({
      key: "agent:main:telegram:group:-100:thread:17585",
      rule: "K9",
      parts: {
        form: "chat",
        agent: "main",
        platform: "telegram",
        chatType: "group",
        chatId: "-100",
        threadId: "17585",
      },
    });
  });

  it("K20 the account shows in direct chats of such platforms only", () => {
    const rules = { accountInKey: true };
    expect(keyOf({ chatType: "group", chatId: "G" }, rules)).toBe("agent:main:telegram:group:G");
    expect(keyOf({ platform: "discord", chatId: "D" }, rules)).toBe("agent:main:discord:dm:D");
  });

  it("K20 a guild is not in the key", () => {
    const source = { platform: "discord", chatType: "channel", chatId: "C", userId: "a" } as const;
    expect(keyOf({ ...source, scopeId: "guild-1" })).toBe(keyOf(source));
  });

  it("K20 a private message in a room is the id the channel gives, never the nick", () => {
    const source = { platform: "xmpp", userName: "Ally" } as const;
    expect(keyOf({ ...source, chatId: "alice@example.org" })).toBe("agent:main:xmpp:dm:alice%40example.org");
    expect(keyOf({ ...source, chatId: "b7f3/=", scopeId: "muc.example.org" })).toBe(
      "agent:main:xmpp@muc.example.org:dm:b7f3%2F=",
    );
  });
});

describe("the other forms", () => {
  it.each([
    ["K12 a person", { form: "person", agent: "main", personId: "jordan" }, "agent:main:person:jordan"],
    ["K17 a run of a job", { form: "job", agent: "main", jobId: "daily", run: "1" }, "agent:main:job:daily:1"],
    [
      "K17 ids of jobs are encoded",
      { form: "job", agent: "main", jobId: "a:b", run: "09:05" },
      "agent:main:job:a%3Ab:09%3A05",
    ],
    [
      "H13 a foreign session",
      { form: "foreign", agent: "main", runtime: "hermes", id: "20260418_1/x" },
      "agent:main:foreign:hermes:20260418_1%2Fx",
    ],
  ] as const)("%s", (_, parts, key) => {
    expect(buildSessionKey(parts)).toBe(key);
    expect(parseSessionKey(key)).toStrictEqual(parts);
  });
});

describe("own doors", () => {
  it("K19 the name may hold anything", () => {
    fc.assert(
      fc.property(
        name,
        anyText.filter((text) => text !== ""),
        (personId, text) => {
          expect(parseLocalDoorChatId(localDoorChatId(personId, text))).toStrictEqual({ personId, name: text });
        },
      ),
    );
  });

  it.each(["", "main", "/main", "owner/", "Owner/main", "job/main", "a b/main"])(
    "K19 %j is no such chat id",
    (chatId) => {
      expect(parseLocalDoorChatId(chatId)).toBeUndefined();
    },
  );

  it("K19 a person's name cannot reach into another person's conversations", () => {
    for (const personId of ["a/b", "", "A", "person"]) {
      expect(refusalOf(() => localDoorChatId(personId, "main")).message).toContain("person_id");
    }
    expect(refusalOf(() => localDoorChatId("alice", "")).code).toBe("source_invalid");
  });

  it("K19 another chat at an own door is read by the other rules", () => {
    expect(decide({ source: { platform: "console", account: "console", chatId: "cli" } }).rule).toBe("K1");
  });
});

/** Every UTF-16 string without a lone surrogate, weighted towards what keys are made of. */
const seen = (text: string): boolean => text === "" || !isBlank(text);
const wellFormed = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.constantFrom(":", "%", "@", "/", "\0", "\u0085", "a", "3A", "user", "thread", "dm", "😀") }),
);
const anyText = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) });
const id = wellFormed.filter((text) => text !== "");
const name = fc.stringMatching(/^[a-z0-9_-]+$/).filter(isKeyName);

const chatParts = fc
  .record(
    {
      form: fc.constant("chat" as const),
      agent: name,
      platform: fc.constantFrom(...PLATFORMS),
      chatType: fc.constantFrom(...CHAT_TYPES),
      chatId: wellFormed,
      scope: id,
      threadId: id,
      userId: id,
    },
    { requiredKeys: ["form", "agent", "platform", "chatType", "chatId"] },
  )
  .filter(({ chatType, chatId, threadId, userId }) => {
    if (chatType !== "dm") return chatId !== "";
    return chatId === "" ? Boolean(threadId || userId) : userId === undefined;
  });

const anyParts: fc.Arbitrary<KeyParts> = fc.oneof(
  { arbitrary: chatParts, weight: 4 },
  { arbitrary: fc.record({ form: fc.constant("person" as const), agent: name, personId: name }), weight: 1 },
  { arbitrary: fc.record({ form: fc.constant("job" as const), agent: name, jobId: id, run: id }), weight: 1 },
  { arbitrary: fc.record({ form: fc.constant("foreign" as const), agent: name, runtime: id, id }), weight: 1 },
);

/** F-KEY-01 is of ids that a platform gives though it has none: all who come with one would meet. */
describe("the form", () => {
  it("K15 a key is parsed back into its parts", () => {
    fc.assert(
      fc.property(anyParts, (parts) => {
        expect(parseSessionKey(buildSessionKey(parts))).toEqual(parts);
      }),
      { numRuns: 1000 },
    );
  });

  it("K15 different ids give different keys", () => {
    fc.assert(
      fc.property(fc.array(wellFormed.filter(seen), { minLength: 6, maxLength: 6 }), ([a, b, c, d, e, f]) => {
        const key = (scopeId = "", threadId = "", userId = "") =>
          keyOf(
            { platform: "slack", chatType: "channel", chatId: "C", scopeId, threadId, userId },
            { threadSessionsPerUser: true },
          );
        const isSame = a === d && b === e && c === f;
        expect(key(a, b, c) === key(d, e, f)).toBe(isSame);
      }),
    );
  });

  it.each([
    ["a space", " "],
    ["several, and a tab", " \t  "],
    ["a line break", "\n"],
    ["a no-break space", "\u00a0"],
    ["an ideographic space", "\u3000"],
    ["a zero-width space", "\u200b"],
    ["a joiner and a byte-order mark", "\u200d\ufeff"],
    ["a word joiner and a soft hyphen", "\u2060\u00ad"],
    ["a line separator", "\u2028"],
    ["marks of direction", "\u200e\u202e"],
    ["a filler of Hangul", "\u3164"],
    ["an empty Braille cell", "\u2800"],
    ["a variation selector", "\ufe0f"],
  ])("F-KEY-01 K3 K4 K5 an id in which nothing is to be seen is absent, in every field: %s", (_, blank) => {
    const blanks = { scopeId: blank, threadId: blank, userId: blank, userIdAlt: blank, parentChatId: blank };
    expect(refusalOf(() => keyOf({ chatId: blank })).code).toBe("source_invalid");
    expect(refusalOf(() => keyOf({ chatId: blank, ...blanks })).message).toContain("chat_id");
    expect(refusalOf(() => keyOf({ chatType: "group", chatId: blank, userId: "a" })).code).toBe("source_invalid");
    expect(keyOf({ chatId: blank, userId: "jordan" })).toBe("agent:main:telegram:dm::user:jordan");
    expect(keyOf({ chatId: blank, userId: "jordan", userIdAlt: blank, threadId: blank })).toBe(
      "agent:main:telegram:dm::user:jordan",
    );
    expect(keyOf({ chatId: blank, userId: blank, threadId: "7" })).toBe("agent:main:telegram:dm::thread:7");
    expect(keyOf({ ...blanks, chatId: "99" })).toBe("agent:main:telegram:dm:99");
    expect(decide({ source: { ...blanks, chatType: "group", chatId: "G" } })).toMatchObject({
      key: "agent:main:telegram:group:G",
      rule: "K8",
    });
    expect(keyOf({ ...blanks, platform: "slack", chatType: "channel", chatId: "C1", userId: "U1" })).toBe(
      "agent:main:slack:channel:C1:user:U1",
    );
    expect(keyOf({ ...room, scopeId: blank, userId: blank })).toBe(keyOf({ ...room, userId: "anybody" }));
    expect(keyOf({ ...topic, parentChatId: blank, userId: blank }, { threadScope: "chat" })).toBe(
      keyOf({ chatType: "group", chatId: "-100" }),
    );
    // What is beside something to be seen is a part of the id.
    expect(keyOf({ chatId: `${blank}9` })).not.toBe(keyOf({ chatId: "9" }));
  });

  it("K15 ids that are words of the form stay apart", () => {
    const keys = [
      keyOf({ threadId: "7", userId: "user" }),
      keyOf({ chatId: "thread:7:user" }),
      keyOf({ chatId: "thread", threadId: "7" }),
      keyOf({ chatId: "%3A" }),
      keyOf({ chatId: ":" }),
      keyOf({ chatId: ":thread:7" }),
      keyOf({ threadId: "7" }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  it("K15 a key is one line of well-formed text without controls, whatever the ids", () => {
    fc.assert(
      fc.property(anyParts, (parts) => {
        const key: string = buildSessionKey(parts);
        expect(key.isWellFormed()).toBe(true);
        expect(key).not.toMatch(/[/\p{Cc}]/u);
      }),
    );
  });

  it("K15 half a surrogate pair is refused, and never meets its replacement", () => {
    for (const field of ["chatId", "threadId"] as const) {
      const refusal = refusalOf(() => keyOf({ chatType: "group", chatId: "G", [field]: "a\uD83D" }));
      expect(refusal.code).toBe("source_invalid");
      expect(refusal.message).toContain(field === "chatId" ? "chat_id" : "thread_id");
    }
    expect(keyOf(cleanSource(at({ chatId: "a\uD83D" })))).toBe("agent:main:telegram:dm:a\uFFFD");
  });

  it("K15 over every string, ids give one key each or are refused", () => {
    const tryKey = (chatId: string) => {
      try {
        return buildSessionKey({ form: "chat", agent: "main", platform: "telegram", chatType: "group", chatId });
      } catch (error) {
        if (error instanceof TertuliaError && error.code === "source_invalid") return undefined;
        throw error;
      }
    };
    fc.assert(
      fc.property(anyText, anyText, (a, b) => {
        expect(tryKey(a) === undefined).toBe(a === "" || !a.isWellFormed());
        if (a !== b && tryKey(a) !== undefined) expect(tryKey(a)).not.toBe(tryKey(b));
      }),
    );
  });

  it.each([
    "",
    "agent",
    "agent:main",
    "agent:main:telegram",
    "agent:main:telegram:dm",
    "agent:main:telegram:dm:",
    "agent:main:telegram:group:",
    "agent:main:telegram:group::user:a",
    "agent:main:telegram:dm:99:user:42",
    "agent:main:telegram:dm:99:thread",
    "agent:main:telegram:dm:99:thread:",
    "agent:main:telegram:group:G:user:",
    "agent:main:telegram:group:G:user:a:thread:7",
    "agent:main:telegram:group:G:thread:7:user:a:x",
    "agent:main:telegram:group:G:topic:7",
    "agent:main:telegram@:dm:99",
    "agent:main:slack@T1@T2:dm:99",
    "agent:main:slack@T%2:dm:99",
    "agent:main:irc:dm:99",
    "agent:main:telegram:forum:99",
    "agent:main:telegram:dm:a/b",
    "agent:main:telegram:dm:a@b",
    "agent:main:telegram:dm:a%2fb",
    "agent:main:telegram:dm:%41",
    "agent:main:telegram:dm:%",
    "agent:main:telegram:dm:%FF",
    "agent:main:telegram:dm:a\nb",
    "agent:main:telegram:dm:\uD83D",
    "agent:Main:telegram:dm:99",
    "agent::telegram:dm:99",
    "agent:job:telegram:dm:99",
    "agents:main:telegram:dm:99",
    " agent:main:telegram:dm:99",
    "agent:main:person",
    "agent:main:person:",
    "agent:main:person:job",
    "agent:main:person:A",
    "agent:main:person:a:b",
    "agent:main:job:J",
    "agent:main:job:J:",
    "agent:main:job::1",
    "agent:main:job:J:1:2",
    "agent:main:foreign:hermes",
    "agent:main:foreign:hermes:",
  ])("K15 %j is no key", (text) => {
    const refusal = refusalOf(() => parseSessionKey(text));
    expect(refusal.code).toBe("source_invalid");
    expect(refusal.message).toContain("session_key");
  });

  it("K15 whatever parses was built", () => {
    const nearly = fc.array(
      fc.constantFrom("agent", "main", "telegram", "slack@T", "dm", "group", "thread", "user", "", "%3A", "x"),
    );
    fc.assert(
      fc.property(
        fc.oneof(
          anyText,
          nearly.map((words) => words.join(":")),
        ),
        (text) => {
          let parts: KeyParts;
          try {
            parts = parseSessionKey(text);
          } catch (error) {
            expect(error).toBeInstanceOf(TertuliaError);
            return;
          }
          expect(buildSessionKey(parts)).toBe(text);
        },
      ),
    );
  });
});

describe("reported failures", () => {
  const forms = ["999000111@lid", "15550001111@s.whatsapp.net", "15550001111:12@s.whatsapp.net", "+15550001111"];

  it("G-KEY-01 one person under four forms has one key, in a dm and in a group, once the channel names the stable id", () => {
    const stable = { userIdAlt: "15550001111" };
    expect(new Set(forms.map((userId) => keyOf({ userId, ...stable }))).size).toBe(1);
    expect(new Set(forms.map((userId) => keyOf({ chatType: "group", chatId: "G", userId, ...stable }))).size).toBe(1);
  });

  it("G-KEY-01 K16 unknown aliases give one stable key per raw form", () => {
    const keys = forms.map((chatId) => keyOf({ chatId }));
    expect(new Set(keys).size).toBe(4);
    expect(forms.map((chatId) => keyOf({ chatId }))).toEqual(keys);
    expect(keys[2]).toBe("agent:main:telegram:dm:15550001111%3A12%40s.whatsapp.net");
  });

  it("G-KEY-02 topics of one group are three conversations, or one by one setting", () => {
    const group = { chatType: "group", chatId: "-100500", userId: "42" } as const;
    const said = [{ ...group, threadId: "2" }, { ...group, threadId: "7" }, group];
    expect(new Set(said.map((source) => keyOf(source))).size).toBe(3);
    expect(new Set(said.map((source) => keyOf(source, { threadScope: "chat" }))).size).toBe(1);
  });

  it("G-KEY-03 a decision in between changes nothing: the source is passed by value", () => {
    const alice = Object.freeze(at({ chatId: "A", userId: "A" }));
    const bob = Object.freeze(at({ chatId: "B", userId: "B" }));
    const ask = (source: Source) => keyPartsFor({ agent: "main", source, rules: DEFAULT_KEY_RULES });
    const before = ask(alice);
    expect(ask(bob).parts).toMatchObject({ chatId: "B" });
    expect(ask(alice)).toStrictEqual(before);
  });

  it("G-KEY-04 the same channel id in two workspaces is two conversations", () => {
    const source = { platform: "slack", chatType: "channel", chatId: "C9", userId: "U1" } as const;
    const keys = [keyOf({ ...source, scopeId: "T1" }), keyOf({ ...source, scopeId: "T2" }), keyOf(source)];
    expect(new Set(keys).size).toBe(3);
  });

  it("G-KEY-04 the same dm of two agents is two conversations", () => {
    const source = { chatId: "55" };
    expect(decide({ agent: "work", source }).key).toBe("agent:work:telegram:dm:55");
    expect(decide({ agent: "home", source }).key).toBe("agent:home:telegram:dm:55");
  });

  it("G-KEY-05 each run of a job has its own key, and none is the chat's", () => {
    const run = (at: string) => buildSessionKey({ form: "job", agent: "main", jobId: "J", run: at });
    expect(new Set([run("09:00"), run("09:05"), keyOf({ chatId: "C" }), keyOf({ chatId: "job:J:09:00" })]).size).toBe(
      4,
    );
  });
});

describe("names", () => {
  it.each(["main", "a", "0", "nova_2", "x-y", "persons"])("K15 %j can be an agent or a person", (text) => {
    expect(isKeyName(text)).toBe(true);
  });

  it.each(["", "Main", "a b", "a:b", "né", "a\n", "person", "job", "foreign"])("K15 %j cannot", (text) => {
    expect(isKeyName(text)).toBe(false);
    expect(refusalOf(() => decide({ agent: text, source: { chatId: "1" } })).message).toContain("agent");
  });
});

// The kind: what a header would cut off a key stands in it in another form.
describe("F-HTTP-09 K19 keys come whole through a header", () => {
  it.each([
    ["a ", "owner%2Fa%20"],
    [" ", "owner%2F%20"],
    ["a  ", "owner%2Fa %20"],
    [" a b", "owner%2F a b"],
  ])("F-HTTP-09 K19 of a conversation named %j", (name, written) => {
    const chatId = localDoorChatId("owner", name);
    const parts = { form: "chat", agent: "main", platform: "http", chatType: "dm", chatId } as const;
    const key = buildSessionKey(parts);
    expect(key).toBe(`agent:main:http:dm:${written}`);
    expect(parseSessionKey(key)).toStrictEqual(parts);
    expect(key.trim()).toBe(key);
  });
});
