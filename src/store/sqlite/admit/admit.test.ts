import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createManualClock } from "../../../../test/support/manual-clock.ts";
import { ownDoor, RULES, said, temporaryFolder } from "../../../../test/support/store.ts";
import { type Authority, isAtLeast, type Role } from "../../../conversation/person.ts";
import type {
  AdmitBatch,
  AdmitOutcome,
  BindEvent,
  ConversationRef,
  InboundEvent,
  JobEvent,
  SendEvent,
} from "../../events.ts";
import type { Claim } from "../../port.ts";
import { openSqliteStore, type SqliteStore } from "../sqlite-store.ts";

const clock = createManualClock(1_700_000_000_000);
let folder: ReturnType<typeof temporaryFolder>;
let store: SqliteStore;
let claim: Claim;

beforeEach(async () => {
  folder = temporaryFolder();
  store = openSqliteStore({ path: `${folder.path}/state.db`, clock });
  claim = await store.claim("test");
});
afterEach(async () => {
  await store.close();
  folder.remove();
});

const batch = (events: readonly InboundEvent[], more: Partial<AdmitBatch> = {}): AdmitBatch => ({
  account: "console",
  platform: "console",
  agent: "main",
  now: clock.now(),
  events,
  ...more,
});
const admit = async (event: InboundEvent, more: Partial<AdmitBatch> = {}): Promise<AdmitOutcome> =>
  (await store.admit(batch([event], more), claim)).outcomes[0]!;
const queued = async (event: InboundEvent) => {
  const outcome = await admit(event);
  if (outcome.kind !== "queued" && outcome.kind !== "joined") throw new Error(JSON.stringify(outcome));
  return outcome;
};
const answer = (turnId: number) =>
  store.settle({ turnId, attempt: 1, now: clock.now(), outcome: { state: "answered", text: "." } }, claim);

/** Every row of every table, as another program reads them. */
function rows(): Record<string, unknown[]> {
  const db = new DatabaseSync(`${folder.path}/state.db`, { readOnly: true });
  try {
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all();
    return Object.fromEntries(tables.map(({ name }) => [name, db.prepare(`SELECT * FROM "${name}"`).all()]));
  } finally {
    db.close();
  }
}

const OWNER = said("").speaker;
const GUEST = { author: { kind: "person", id: "gina" }, person: { id: "gina", role: "guest" } } as const;

describe("F-TRN-02 T12 a rejection leaves nothing: whatever can be refused is refused with all it had written", () => {
  const NEW_ROOM: ConversationRef = {
    kind: "source",
    key: "agent:main:web:dm:owner%2Fnew",
    ...ownDoor("web", "owner", "new"),
  };
  const send = (more: Partial<SendEvent>): SendEvent => ({
    kind: "send",
    freshId: "s-send",
    eventId: "send",
    by: OWNER,
    text: "words",
    into: NEW_ROOM,
    sessionId: null,
    ttlMs: 60_000,
    rules: RULES,
    ...more,
  });
  const bind = (sessionId: string, more: Partial<BindEvent> = {}): BindEvent => ({
    kind: "bind",
    freshId: "s-bind",
    eventId: "bind",
    by: OWNER,
    conversation: NEW_ROOM,
    change: { kind: "set", binding: "live", sessionId, ttlMs: 60_000 },
    rules: RULES,
    ...more,
  });
  const job = (more: Partial<JobEvent>): JobEvent => ({
    kind: "job",
    freshId: "s-job",
    eventId: "job",
    by: OWNER,
    sessionId: "s-home",
    id: "backup",
    change: { state: "open", title: "backup" },
    ...more,
  });
  const home = ownDoor("console", "owner", "main");
  const foreign = { runtime: "hermes", id: "h1", name: "hermes" };

  test.each<[string, InboundEvent, string]>([
    ["a send under a used id, with other words", send({ eventId: "used", text: "other" }), "idempotency_conflict"],
    ["the same, from a foreign session", send({ eventId: "used", text: "other", foreign }), "idempotency_conflict"],
    ["the words of a used id, into another room", send({ eventId: "used", text: "first" }), "idempotency_conflict"],
    ["a send from no session", send({ sessionId: "nowhere" }), "session_unknown"],
    ["a send from an ended session", send({ sessionId: "s-ended" }), "session_ended"],
    ["a send of somebody else", send({ sessionId: "s-home", by: GUEST }), "forbidden"],
    ["a foreign session brought by a guest", send({ foreign, by: GUEST }), "forbidden"],
    ["an agent's own send into a room that is not shared", send({ sessionId: "s-home", byAgent: true }), "not_shared"],
    [
      "a send into no conversation",
      send({ into: { kind: "key", key: "agent:main:web:dm:none" } }),
      "conversation_unknown",
    ],
    ["a bind of no session", bind("nowhere"), "session_unknown"],
    ["a bind of somebody else", bind("s-home", { by: GUEST }), "forbidden"],
    [
      "a bind of a session that is at home there",
      bind("s-home", { conversation: { kind: "source", key: "agent:main:console:dm:owner%2Fmain", ...home } }),
      "request_invalid",
    ],
    ["a job of no session", job({ sessionId: "nowhere" }), "session_unknown"],
    ["a job of somebody else's session", job({ by: GUEST }), "forbidden"],
    ["a job of an ended session", job({ sessionId: "s-ended" }), "session_ended"],
    ["words into no conversation", { ...said("hi"), into: "agent:main:web:dm:none" }, "conversation_unknown"],
    [
      "other words under a used key, at a thread of their own",
      {
        ...said("other", { eventId: "again" }),
        source: { ...home.source, threadId: "9", messageId: "m9" },
        into: "agent:main:console:dm:owner%2Fmain",
        idempotency: { key: "k", bodyHash: "h2" },
      },
      "idempotency_conflict",
    ],
    [
      "a source that no key can hold, found out when the conversation was to be opened",
      send({ into: { ...NEW_ROOM, source: { ...NEW_ROOM.source, chatId: "owner/\ud800" } } }),
      "source_invalid",
    ],
  ])("F-TRN-02 %s", async (_, event, code) => {
    const ended = await queued({ ...said("1"), freshId: "s-ended" });
    await answer(ended.turnId);
    await admit({
      ...said("/new"),
      kind: "command",
      effect: { kind: "reset" },
      reply: { code: "session_new", args: {} },
      freshId: "s-home",
    });
    await admit(
      send({ eventId: "used", text: "first", into: { kind: "key", key: "agent:main:console:dm:owner%2Fmain" } }),
      { account: "bridge" },
    );
    await queued({ ...said("keyed"), idempotency: { key: "k", bodyHash: "h1" } });
    const before = rows();
    expect(await admit(event, { account: "bridge" })).toMatchObject({ kind: "rejected", code });
    expect(rows()).toEqual(before);
    // What was not remembered is looked at afresh.
    expect(await admit(event, { account: "bridge" })).toMatchObject({ kind: "rejected", code });
  });

  test("F-TRN-02 T2 the rest of a batch stays, and the cursor passes; a refused event of a platform is known, a caller's is not", async () => {
    const nowhere = {
      ...said("lost", { eventId: "bad" }),
      source: { ...said("").source, chatId: "", chatType: "group" as const },
    };
    const events = [
      said("one", { eventId: "e1" }),
      nowhere,
      send({ sessionId: "nowhere" }),
      said("two", { eventId: "e2" }),
    ];
    const { outcomes } = await store.admit(batch(events, { cursor: "c1" }), claim);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["queued", "rejected", "rejected", "queued"]);
    expect(await store.cursor("console")).toBe("c1");
    const { event_seen: seen, place, conversation } = rows();
    expect(seen!.map((row) => (row as { event_id: string }).event_id)).toEqual(["bad", "e1", "e2"]);
    expect([place, conversation].map((all) => all!.length)).toEqual([1, 1]);
    expect((await store.refusedEvents({ limit: 9 })).map(({ eventId, code }) => [eventId, code])).toEqual([
      ["bad", "source_invalid"],
    ]);
    expect(await admit(nowhere)).toMatchObject({ kind: "duplicate" });
  });
});

describe("F-TRN-01 T11 authority is the least of its authors' rights: whoever comes first, whatever brings them together", () => {
  const by = (person: string, role: Role, text = person) => said(text, { person, role, rules: { debounceMs: 0 } });
  /** All of them speak in Olga's conversation. */
  const together = (events: readonly ReturnType<typeof by>[]) =>
    events.map((event) => ({
      ...event,
      ...ownDoor("console", "olga", "main"),
      source: { ...event.source, ...ownDoor("console", "olga", "main").source, userId: event.speaker.author.id },
    }));
  const OLGA = by("olga", "owner");
  const BOB = by("bob", "member");
  const CAROL = by("carol", "member");
  const GINA = by("gina", "guest");

  test.each<[string, (typeof OLGA)[], Authority]>([
    ["a guest's turn that the owner joins", [GINA, OLGA], { role: "guest" }],
    ["the owner's turn that a guest joins", [OLGA, GINA], { role: "guest" }],
    ["a member's that the owner joins", [BOB, OLGA], { role: "member" }],
    ["the owner's that a member joins", [OLGA, BOB], { role: "member" }],
    ["two members", [BOB, CAROL], { role: "member" }],
    ["owner, guest, owner", [OLGA, GINA, OLGA], { role: "guest" }],
    ["guest, member, owner", [GINA, BOB, OLGA], { role: "guest" }],
    ["owner, member, guest, owner", [OLGA, BOB, GINA, OLGA], { role: "guest" }],
    ["one person alone", [BOB, BOB], { role: "member", personId: "bob" }],
    ["the owner alone", [OLGA, OLGA, OLGA], { role: "owner", personId: "olga" }],
  ])("F-TRN-01 T11 %s", async (_, authors, authority) => {
    const [first, ...followers] = together([by("olga", "owner"), ...authors]);
    const running = await queued(first!);
    const waiting = [];
    for (const event of followers) waiting.push(await queued({ ...event, eventId: `e${waiting.length}` }));
    expect(new Set(waiting.map(({ turnId }) => turnId)).size).toBe(1);
    expect((await store.turn(waiting[0]!.turnId))!.authority).toEqual(authority);
    // What it runs with.
    await answer(running.turnId);
    const begun = await store.begin({ sessionId: running.sessionId, now: clock.now() + 10_000 }, claim);
    expect(begun).toMatchObject({ kind: "begun", turn: { authority } });
  });

  test.each<[string, typeof OLGA, typeof OLGA, Authority]>([
    ["the owner's words in a guest's turn", GINA, OLGA, { role: "guest" }],
    ["the owner's in a member's", BOB, OLGA, { role: "member" }],
    ["a member's in another member's", BOB, CAROL, { role: "member" }],
    ["a person's own", BOB, BOB, { role: "member", personId: "bob" }],
  ])("F-TRN-01 T11 T5 steered: %s", async (_, of, words, authority) => {
    const [first, second] = together([of, words]).map((event, n) => ({
      ...event,
      eventId: `s${n}`,
      rules: { ...event.rules, busyMode: "steer" as const },
    }));
    const running = await queued(first!);
    const steered = await queued(second!);
    expect(steered.signal).toMatchObject({ kind: "steer", turnId: running.turnId });
    await store.mark({ turnId: running.turnId, attempt: 1, now: clock.now(), consumed: [steered.messageId] }, claim);
    expect((await store.turn(running.turnId))!.authority).toEqual(authority);
  });

  test.each<[string, typeof OLGA, typeof OLGA]>([
    ["a guest's words", OLGA, GINA],
    ["a member's", OLGA, BOB],
    ["a guest's, in a member's", BOB, GINA],
  ])("F-TRN-01 T11 T5 words of less rights are never steered into a turn of more: %s", async (_, of, words) => {
    expect(isAtLeast(words.speaker.person!, of.speaker.person!)).toBe(false);
    const [first, second] = together([of, words]).map((event, n) => ({
      ...event,
      eventId: `s${n}`,
      rules: { ...event.rules, busyMode: "steer" as const },
    }));
    const running = await queued(first!);
    expect(await queued(second!)).toMatchObject({ kind: "queued", signal: null });
    expect((await store.turn(running.turnId))!.authority).toEqual(
      of.speaker.person && { role: of.speaker.person.role, personId: of.speaker.person.id },
    );
  });

  test("F-TRN-01 T11 T6 an edit, by its author alone, gives a turn no more rights, nor does a later message of another door", async () => {
    const [first, guest, owner] = together([by("olga", "owner"), GINA, OLGA]);
    await queued(first!);
    const waiting = await queued({ ...guest!, eventId: "g", source: { ...guest!.source, messageId: "m1" } });
    const edit = {
      kind: "edit",
      eventId: "x",
      freshId: "x",
      source: guest!.source,
      messageId: "m1",
      text: "more",
    } as const;
    expect(await admit({ ...edit, speaker: owner!.speaker })).toMatchObject({ kind: "changed", messageId: null });
    expect(await admit({ ...edit, eventId: "y", speaker: guest!.speaker })).toMatchObject({
      kind: "changed",
      messageId: waiting.messageId,
    });
    expect((await store.turn(waiting.turnId))!.authority).toEqual({ role: "guest", personId: "gina" });
  });
});

describe("F-KEY-01 K5 ids of blanks: of a chat, of an author, of a message, of an event", () => {
  const from = (name: string, source: object, eventId: string) => ({
    ...said(name, { eventId }),
    source: { platform: "telegram" as const, account: "bot", chatType: "dm" as const, isBot: false, ...source },
    speaker: { author: { kind: "person" as const, id: name } },
  });

  test.each([" ", "\t", "\u200b", "\u3000"])("F-KEY-01 K3 K5 T3 nobody meets another by them: %j", async (blank) => {
    expect(await admit(from("ann", { chatId: blank }, "e1"))).toMatchObject({
      kind: "rejected",
      code: "source_invalid",
    });
    expect(await admit(from("ben", { chatId: blank, userId: blank, threadId: blank }, "e2"))).toMatchObject({
      kind: "rejected",
    });
    const ann = await queued(from("ann", { chatId: blank, userId: "ann", messageId: blank }, "e3"));
    const ben = await queued(from("ben", { chatId: blank, userId: "ben", messageId: blank }, "e4"));
    expect([ann.key, ben.key]).toEqual(["agent:main:telegram:dm::user:ann", "agent:main:telegram:dm::user:ben"]);
    // The second message of a chat whose messages have no ids is another one.
    expect(await queued(from("ann", { chatId: blank, userId: "ann", messageId: blank }, "e5"))).not.toMatchObject({
      messageId: ann.messageId,
    });
    await queued(from("ann", { chatId: "7", userId: "ann" }, blank));
    expect((await queued(from("ann", { chatId: "7", userId: "ann" }, blank))).kind).toBe("queued");
    const read = {
      kind: "reader",
      eventId: "e6",
      freshId: "x",
      source: from("eve", { chatType: "group", chatId: blank }, "e6").source,
      author: { kind: "person", id: "eve" },
    } as const;
    expect(await admit(read)).toMatchObject({ kind: "rejected", code: "source_invalid" });
    const own = {
      kind: "own",
      eventId: "e7",
      freshId: "x",
      source: read.source,
      text: "mine",
      saidAt: 0,
      isHistory: false,
    } as const;
    expect(await admit(own)).toMatchObject({ kind: "rejected", code: "source_invalid" });
    expect(rows().place).toHaveLength(3);
  });
});

test("F-HND-01 G1 G3 where everybody has a conversation of their own, all are told what the agent said to the room, and nobody what it answered another", async () => {
  const inGroup = (person: string, text: string) => ({
    ...said(text, { person, role: "member" as const }),
    source: {
      platform: "telegram" as const,
      account: "bot",
      chatId: "G",
      chatType: "group" as const,
      userId: person,
      isBot: false,
    },
    target: { door: "push" as const, platform: "telegram" as const, account: "bot", chatId: "G" },
  });
  const ann = await queued(inGroup("ann", "hello"));
  await answer(ann.turnId);
  const ben = await queued(inGroup("ben", "what is the code?"));
  await store.settle(
    { turnId: ben.turnId, attempt: 1, now: 0, outcome: { state: "answered", text: "for ben" } },
    claim,
  );
  const { source } = inGroup("ann", "");
  const { userId: _, ...group } = source;
  await admit({
    kind: "own",
    eventId: "o1",
    freshId: "x",
    source: group,
    text: "by hand",
    saidAt: 0,
    isHistory: false,
  });
  const send = {
    kind: "send",
    freshId: "x",
    by: OWNER,
    text: "to ben",
    sessionId: null,
    ttlMs: 1,
    rules: RULES,
  } as const;
  await admit({ ...send, into: { kind: "key", key: ben.key } });
  const [asked, other] = [await queued(inGroup("ann", "and?")), await queued(inGroup("ben", "and?"))];
  const lines = async (turnId: number) => (await store.turnMaterial(turnId))!.roomLines.lines.map(({ body }) => body);
  expect(await lines(asked.turnId)).toEqual(["by hand", "to ben"]);
  expect(await lines(other.turnId)).toEqual(["by hand"]);
  expect((await store.transcript({ sessionId: ben.sessionId, limit: 9 })).map(({ text }) => text)).toContain("to ben");
});
