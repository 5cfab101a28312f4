import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Message } from "../../message/message.ts";
import type { Target } from "../../message/target.ts";
import type { DeliveryRow, EntryRow } from "../../store/rows.ts";
import type { Turn } from "../../store/turns.ts";
import { type Shown, Transcript, type WireEvent } from "./transcript.ts";

const KEY = "agent:main:console:dm:owner%2Fmain";
const ROOM = "agent:main:xmpp@muc:group:room@muc";
const HERE: Target = { door: "pull", platform: "console", account: "console", chatId: "owner/main" };
const THERE: Target = { door: "push", platform: "xmpp", account: "bot", chatId: "room@muc" };

function transcript(): Transcript {
  return new Transcript({
    chatId: "owner/main",
    personId: "owner",
    doorOf: (key) => (key === ROOM ? "the room" : key),
    elsewhere: "another terminal",
  });
}

const BASE = { conversationId: 1, sessionId: "s", homeKey: KEY };

function turn(id: number, target: Target, ending: Partial<Turn> = {}): Turn {
  return {
    id,
    sessionId: "s",
    conversationId: 1,
    state: "running",
    reason: null,
    attempt: 1,
    effects: "none",
    target,
    audience: { kind: "person", personId: "owner" },
    authority: { role: "owner", personId: "owner" },
    bound: null,
    partial: null,
    usage: null,
    prompt: null,
    admittedAt: 0,
    begunAt: 0,
    settledAt: null,
    ...ending,
  };
}

function message(id: number, body: string, author: Message["author"] = { kind: "person", id: "owner" }): Message {
  return { id, placeId: 1, placeSeq: id, author, body, source: null, saidAt: 0, admittedAt: 0 };
}

function begun(id: number, messages: readonly Message[], target = HERE): WireEvent {
  const conversationKey = target === HERE ? KEY : ROOM;
  return { name: "turn:begun", payload: { ...BASE, conversationKey, turn: turn(id, target), messages } };
}

function says(turnId: number, text: string): WireEvent {
  return { name: "turn:text", payload: { turnId, text } };
}

function settled(id: number, text: string, ending: Partial<Turn> = {}, target = HERE): WireEvent {
  const conversationKey = target === HERE ? KEY : ROOM;
  const of = turn(id, target, { state: "answered", ...ending });
  return {
    name: "turn:settled",
    payload: { ...BASE, conversationKey, turn: of, text, silent: of.reason === "silent", messageIds: [] },
  };
}

function told(id: number, body: DeliveryRow["body"], of: Partial<DeliveryRow> = {}): WireEvent {
  const delivery: DeliveryRow = {
    id,
    lane: "l",
    turnId: null,
    messageId: null,
    part: 0,
    kind: "notice",
    target: HERE,
    body,
    state: "delivered",
    attempt: 0,
    dueAt: 0,
    createdAt: 0,
    externalId: null,
    reason: null,
    ...of,
  };
  return { name: "delivery:written", payload: { delivery, text: "", conversationKey: KEY, conversationId: 1 } };
}

function entry(seq: number, of: Partial<EntryRow>): EntryRow {
  return {
    seq,
    turnId: null,
    messageId: null,
    role: "assistant",
    mark: null,
    author: null,
    text: "",
    at: 0,
    platform: null,
    prompted: false,
    delivery: null,
    ...of,
  };
}

function sent(of: Transcript, id: number, turnId: number): void {
  of.sent({ kind: "turn", message: id, conversation: KEY, session: "s", turn: turnId });
}

function play(of: Transcript, ...events: readonly WireEvent[]): readonly Shown[] {
  return events.flatMap((event) => of.take(event));
}

const REPLY: Shown = { kind: "reply", door: null };
const END: Shown = { kind: "end" };
const words = (text: string): Shown => ({ kind: "text", text });
const notice = (text: string): Shown => ({ kind: "notice", text });

describe("a reply", () => {
  test("T3: one's own words are not shown again, the reply streams, and nothing waits any more", () => {
    const here = transcript();
    sent(here, 7, 1);
    expect(here.waiting).toEqual([7]);
    expect(play(here, begun(1, [message(7, "hello")]), says(1, "1"), says(1, " 2"), settled(1, "1 2"))).toEqual([
      REPLY,
      words("1"),
      words(" 2"),
      END,
    ]);
    expect(here.waiting).toEqual([]);
    expect(here.answerOf(1)).toMatchObject({ state: "answered", text: "1 2" });
  });

  test("words that were not heard are shown when the turn ends, and the end only once", () => {
    const here = transcript();
    expect(play(here, says(1, "1"), settled(1, "1 2 3"), settled(1, "1 2 3"))).toEqual([
      REPLY,
      words("1"),
      words(" 2 3"),
      END,
    ]);
  });

  test("however it was cut into pieces, what is shown is what was said", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.array(fc.nat(20)), (text, cuts) => {
        const here = transcript();
        const at = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length];
        const pieces = at.slice(1).map((end, index) => says(1, text.slice(at[index], end)));
        const shown = play(here, ...pieces, settled(1, text));
        const texts = shown.flatMap((one) => (one.kind === "text" ? [one.text] : []));
        expect(texts.join("")).toBe(text);
        expect(texts.every((piece) => piece.isWellFormed())).toBe(true);
      }),
    );
  });

  test("of two turns that speak at once the second is held back until the first has ended", () => {
    const here = transcript();
    const shown = play(
      here,
      begun(1, []),
      begun(2, [], THERE),
      says(1, "a"),
      says(2, "x"),
      says(1, "b"),
      settled(2, "xy", {}, THERE),
      settled(1, "ab"),
    );
    expect(shown).toEqual([REPLY, words("a"), words("b"), END, { kind: "reply", door: "the room" }, words("xy"), END]);
  });

  test("O5: silence is said, and is no reply", () => {
    expect(play(transcript(), settled(1, "", { reason: "silent" }))).toEqual([notice("no reply")]);
  });
});

describe("H6: other doors of the session", () => {
  test("words and reply are shown with their door, also where the turn fails", () => {
    const bob = { kind: "person", id: "b@x", name: "Bob" } as const;
    const shown = play(
      transcript(),
      begun(1, [message(3, "who is there?", bob)], THERE),
      says(1, "I am"),
      settled(1, "I am", { state: "interrupted", reason: "stopped" }, THERE),
    );
    expect(shown).toEqual([
      { kind: "said", door: "the room", author: "Bob", text: "who is there?" },
      { kind: "reply", door: "the room" },
      words("I am"),
      END,
      notice("the room: interrupted (stopped)"),
    ]);
  });

  test("another terminal's words are shown once, and what its commands are answered with", () => {
    const admitted: WireEvent = {
      name: "message:admitted",
      payload: {
        conversationKey: KEY,
        conversationId: 1,
        messageId: 9,
        text: "/stop",
        author: { kind: "person", id: "owner" },
        outcome: "commanded",
        turnId: null,
      },
    };
    const reply = told(1, { code: "stopped", args: { found: true } }, { messageId: 9 });
    expect(play(transcript(), admitted, begun(1, [message(9, "/stop")]), reply)).toEqual([
      { kind: "said", door: "another terminal", author: null, text: "/stop" },
      notice("Stopped."),
    ]);
  });
});

describe("notices", () => {
  test("a command of this terminal is answered once", () => {
    const here = transcript();
    const posted = {
      kind: "command",
      message: 4,
      conversation: KEY,
      session: "s",
      turn: null,
      reply: "Stopped.",
    } as const;
    expect(here.sent(posted)).toEqual([{ kind: "answer", text: "Stopped." }]);
    expect(play(here, told(1, { code: "stopped", args: { found: true } }, { messageId: 4 }))).toEqual([]);
  });

  test("T8: the notice of an interruption does not repeat what had been said", () => {
    const here = transcript();
    const body = { code: "interrupted", args: { partial: "1 2", reason: "stopped" } } as const;
    const shown = play(
      here,
      says(1, "1 2"),
      settled(1, "1 2", { state: "interrupted", reason: "stopped" }),
      told(5, body, { turnId: 1 }),
      told(5, body, { turnId: 1 }),
    );
    expect(shown).toEqual([REPLY, words("1 2"), END, notice("The turn was stopped; ask again if you still need it.")]);
  });
});

describe("after a gap", () => {
  const fate = { conversationKey: KEY, sessionId: "s", turnId: 1, fate: { fate: "interrupted" } } as const;

  test("T8: the fate of a message of this terminal is told once, with the rest of what was said", () => {
    const here = transcript();
    sent(here, 7, 1);
    play(here, begun(1, [message(7, "slow")]), says(1, "1 2"));
    expect(here.cut()).toEqual([END]);
    const answer = {
      text: "1 2 3",
      silent: false,
      state: "interrupted",
      reason: "crash",
      notices: ["1 2 3\n\n(The gateway was restarted.)"],
    } as const;
    expect(here.report({ message: { id: 7 }, fates: [fate], answer })).toEqual([
      REPLY,
      words(" 3"),
      END,
      notice("The gateway was restarted."),
    ]);
    expect(here.waiting).toEqual([]);
    const late = [
      settled(1, "1 2 3", { state: "interrupted", reason: "crash" }),
      told(5, { code: "interrupted", args: { partial: "1 2 3", reason: "crash" } }, { turnId: 1 }),
    ];
    expect(play(here, ...late)).toEqual([]);
    expect(here.entries([entry(2, { turnId: 1, text: "1 2 3", mark: "interrupted" })])).toEqual([]);
  });

  test("a message whose turn goes on waits further", () => {
    const here = transcript();
    sent(here, 7, 1);
    expect(here.report({ message: { id: 7 }, fates: [fate], answer: null })).toEqual([]);
    expect(here.waiting).toEqual([7]);
  });

  test("a turn of another door that nobody heard to its end holds up nobody, and is ended by the transcript", () => {
    const here = transcript();
    play(here, begun(1, [], THERE), says(1, "a"));
    here.cut();
    expect(play(here, says(2, "mine"), settled(2, "mine"))).toEqual([REPLY, words("mine"), END]);
    const rows = [
      entry(1, { turnId: 1, text: "ab", platform: "xmpp" }),
      entry(2, {
        role: "user",
        messageId: 8,
        text: "and?",
        author: { kind: "person", id: "b", name: "Bob" },
        platform: "xmpp",
      }),
      entry(3, { turnId: 5, text: "then c", platform: "xmpp" }),
    ];
    expect(here.entries(rows)).toEqual([
      { kind: "reply", door: "the room" },
      words("b"),
      END,
      { kind: "said", door: "xmpp", author: "Bob", text: "and?" },
      { kind: "reply", door: "xmpp" },
      words("then c"),
      END,
    ]);
    expect(here.entries(rows)).toEqual([]);
  });
});

test("H12: an open question waits for its answer until its turn has ended", () => {
  const here = transcript();
  const question = { turnId: 1, id: "q", title: "May I?", options: [] };
  expect(play(here, { name: "turn:permission", payload: question })).toEqual([{ kind: "question", question }]);
  expect(here.question).toBe(question);
  expect(here.ownQuestion).toBeNull();
  play(here, settled(1, "no"));
  expect(here.question).toBeNull();
});
