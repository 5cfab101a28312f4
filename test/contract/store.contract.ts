import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ResetPolicy } from "../../src/conversation/reset-policy.ts";
import type { Notice } from "../../src/message/notice.ts";
import type { AdmitBatch, CommandEvent, InboundEvent, JobEvent } from "../../src/store/events.ts";
import type { Claim, Store } from "../../src/store/port.ts";
import type { SettleResult, Turn } from "../../src/store/turns.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { ownDoor, RULES, said } from "../support/store.ts";

/** What every Store promises; a driver passes it by opening the same state again and again. */
export function storeContract(
  name: string,
  create: () => Promise<{ open(): Promise<Store>; dispose(): Promise<void> }>,
): void {
  describe(`the store contract: ${name}`, () => {
    let state: Awaited<ReturnType<typeof create>>;
    let store: Store;
    let claim: Claim;
    const clock = createManualClock(1_700_000_000_000);

    beforeEach(async () => {
      state = await create();
      store = await state.open();
      claim = await store.claim("test");
    });
    afterEach(async () => {
      await store.close();
      await state.dispose();
    });

    const batch = (events: readonly InboundEvent[], more: Partial<AdmitBatch> = {}): AdmitBatch => ({
      account: "console",
      platform: "console",
      agent: "main",
      now: clock.now(),
      events,
      ...more,
    });
    const admit = async (event: InboundEvent, more: Partial<AdmitBatch> = {}) =>
      (await store.admit(batch([event], more), claim)).outcomes[0]!;
    const begunBy = async (event: InboundEvent): Promise<Turn> => {
      const outcome = await admit(event);
      if (outcome.kind !== "queued" || outcome.begun === null) throw new Error(`not begun: ${JSON.stringify(outcome)}`);
      return outcome.begun;
    };
    const answer = (turn: Turn, text: string): Promise<SettleResult> =>
      store.settle(
        {
          turnId: turn.id,
          attempt: turn.attempt,
          now: clock.now(),
          outcome: { state: "answered", text },
          runtime: { name: "demo", ref: "r", status: "healthy", restarts: 0 },
        },
        claim,
      );
    const begun = async (sessionId: string): Promise<Turn> => {
      const result = await store.begin({ sessionId, now: clock.now() + 10_000 }, claim);
      if (result.kind !== "begun") throw new Error(`not begun: ${result.kind}`);
      return result.turn;
    };
    const fate = async (messageId: number) => (await store.fates(messageId))[0]?.fate;

    test("a first message opens its conversation and session and is begun at once", async () => {
      const outcome = await admit(said("hi"));
      expect(outcome).toMatchObject({
        kind: "queued",
        key: "agent:main:console:dm:owner%2Fmain",
        begun: { state: "running", attempt: 1 },
      });
      if (outcome.kind !== "queued") throw new Error();
      expect(await fate(outcome.messageId)).toEqual({ fate: "waiting", position: 1 });
      const prompt = {
        text: "f",
        seen: { placeId: 1, throughSeq: 1 },
        notesThrough: 0,
        entriesThrough: 0,
        runtime: "demo",
      };
      expect(await store.mark({ turnId: outcome.turnId, attempt: 1, now: clock.now(), prompt }, claim)).toMatchObject({
        kind: "marked",
      });
      expect(await fate(outcome.messageId)).toEqual({ fate: "running", turnId: outcome.turnId });
      const settled = await answer(outcome.begun!, "hello");
      expect(settled).toMatchObject({
        kind: "settled",
        text: "hello",
        wake: [],
        deliveries: [{ state: "delivered", body: "hello" }],
      });
      expect(await fate(outcome.messageId)).toEqual({ fate: "answered" });
      const transcript = await store.transcript({ sessionId: outcome.sessionId, limit: 10 });
      expect(transcript.map((entry) => [entry.seq, entry.role, entry.text])).toEqual([
        [1, "user", "hi"],
        [2, "assistant", "hello"],
      ]);
    });

    test("T1 one turn at a time per session, from any door", async () => {
      const first = await begunBy(said("one"));
      const second = await admit(said("two"));
      expect(second).toMatchObject({ kind: "queued", begun: null });
      expect(await store.begin({ sessionId: first.sessionId, now: clock.now() }, claim)).toEqual({ kind: "busy" });
    });

    test("T3 G-RUN-07: a known event and a known external message are duplicates, over a restart too", async () => {
      const event = said("hi", { eventId: "e1" });
      const first = await admit(event);
      if (first.kind !== "queued") throw new Error();
      expect(await admit(event)).toMatchObject({ kind: "duplicate", messageId: first.messageId, turnId: first.turnId });
      await store.close();
      store = await state.open();
      claim = await store.claim("again");
      expect(await admit(event)).toMatchObject({ kind: "duplicate", messageId: first.messageId });
      const external = { ...said("x"), source: { ...ownDoor("console", "owner", "main").source, messageId: "m1" } };
      const other = { ...external, eventId: "e2" };
      const known = await admit(external);
      expect(await admit(other)).toMatchObject({
        kind: "duplicate",
        messageId: (known as { messageId: number }).messageId,
      });
    });

    test("T3 an Idempotency-Key finds its message again; another body under it is refused", async () => {
      const keyed = (text: string, hash: string) => ({
        ...said(text, { door: "http" }),
        idempotency: { key: "k", bodyHash: hash },
      });
      const first = await admit(keyed("hi", "h1"));
      expect(await admit(keyed("hi", "h1"))).toMatchObject({
        kind: "duplicate",
        messageId: (first as { messageId: number }).messageId,
      });
      expect(await admit(keyed("other", "h2"))).toMatchObject({ kind: "rejected", code: "idempotency_conflict" });
      const elsewhere = { ...keyed("hi", "h1"), ...ownDoor("http", "owner", "second") };
      expect(await admit(elsewhere)).toMatchObject({ kind: "queued" });
    });

    test("T2 a batch and its cursor are one: what cannot be read is kept as refused and passed", async () => {
      const nowhere = {
        ...said("lost"),
        source: { platform: "telegram" as const, account: "bot", chatType: "group" as const, isBot: false },
      };
      const refused: InboundEvent = {
        kind: "refused",
        eventId: "bad",
        freshId: "x",
        code: "request_invalid",
        sentence: "no",
        raw: "r".repeat(20_000),
      };
      const { outcomes } = await store.admit(batch([said("ok"), nowhere, refused], { cursor: "c7" }), claim);
      expect(outcomes.map((outcome) => outcome.kind)).toEqual(["queued", "rejected", "rejected"]);
      expect(await store.cursor("console")).toBe("c7");
      const kept = await store.refusedEvents({ limit: 10 });
      expect(kept.map((row) => [row.code, row.raw!.length <= 16_384])).toEqual([
        ["request_invalid", true],
        ["source_invalid", true],
      ]);
    });

    test("T4 answers come in the order admitted, whatever the clock says", async () => {
      const rules = { busyMode: "queue" as const };
      const first = await begunBy(said("1", { rules }));
      const outcomes = [];
      for (const text of ["2", "3", "4"]) {
        clock.set(clock.now() - 5_000);
        outcomes.push(await admit(said(text, { rules })));
      }
      await answer(first, "a1");
      for (const expected of outcomes) {
        const turn = await begun(first.sessionId);
        expect(turn.id).toBe((expected as { turnId: number }).turnId);
        await answer(turn, "a");
      }
    });

    test("T5 collect joins the last waiting turn of the same target; it is frozen when it begins", async () => {
      const first = await begunBy(said("1"));
      const second = await admit(said("2"));
      const third = await admit(said("3"));
      expect(third).toMatchObject({ kind: "joined", turnId: (second as { turnId: number }).turnId });
      await answer(first, "a");
      const turn = await begun(first.sessionId);
      const material = await store.turnMaterial(turn.id);
      expect(material!.messages.map((message) => message.body)).toEqual(["2", "3"]);
      expect(await admit(said("4"))).toMatchObject({ kind: "queued", begun: null });
    });

    test("T5 debounce gathers followers and moves the start at most five times", async () => {
      const first = await begunBy(said("1"));
      const at = clock.now();
      await admit(said("2"));
      await answer(first, "a");
      expect(await store.begin({ sessionId: first.sessionId, now: at }, claim)).toMatchObject({
        kind: "waiting",
        until: at + 800,
      });
      for (let i = 0; i < 20; i++) {
        clock.set(clock.now() + 500);
        await admit(said("more"));
      }
      expect(await store.begin({ sessionId: first.sessionId, now: at + 3_999 }, claim)).toMatchObject({
        kind: "waiting",
        until: at + 4_000,
      });
    });

    test("T5 caps: the author is told, and the fate is refused", async () => {
      await begunBy(said("1", { rules: { busyMode: "queue" } }));
      for (let i = 0; i < 2; i++) await admit(said("x", { rules: { busyMode: "queue", maxWaitingTurns: 2 } }));
      const over = await admit(said("y", { rules: { busyMode: "queue", maxWaitingTurns: 2 } }));
      expect(over).toMatchObject({ kind: "refused", code: "queue_full", notices: [{ body: { code: "queue_full" } }] });
      expect(await fate((over as { messageId: number }).messageId)).toEqual({ fate: "refused", reason: "queue_full" });
    });

    test("T5 reject tells once that the door is busy", async () => {
      const rules = { busyMode: "reject" as const };
      const first = await begunBy(said("1", { rules }));
      expect(await admit(said("2", { rules }))).toMatchObject({ kind: "refused", code: "busy", notices: [{}] });
      expect(await admit(said("3", { rules }))).toMatchObject({ kind: "refused", code: "busy", notices: [] });
      await answer(first, "a");
      expect(await admit(said("4", { rules }))).toMatchObject({ kind: "queued" });
      expect(await admit(said("5", { rules }))).toMatchObject({ kind: "refused", notices: [{}] });
    });

    test("T5 G-CON-05 a steered message waits on the next turn until it is consumed, and is then of one turn only", async () => {
      const rules = { busyMode: "steer" as const };
      const first = await begunBy(said("1", { rules }));
      const steered = await admit(said("2", { rules }));
      expect(steered).toMatchObject({ kind: "queued", signal: { kind: "steer", turnId: first.id } });
      const messageId = (steered as { messageId: number }).messageId;
      expect(
        await store.mark({ turnId: first.id, attempt: 1, now: clock.now(), consumed: [messageId] }, claim),
      ).toMatchObject({ kind: "marked" });
      await answer(first, "both");
      expect(await fate(messageId)).toEqual({ fate: "answered" });
      expect(await store.begin({ sessionId: first.sessionId, now: clock.now() + 9_000 }, claim)).toMatchObject({
        kind: "idle",
      });
    });

    test("T8 after a crash a turn without effects is run again once, one with effects is interrupted and its author told", async () => {
      const first = await begunBy(said("1"));
      const reopen = async () => {
        await store.close();
        store = await state.open();
        claim = await store.claim("next");
      };
      await reopen();
      const again = await store.begin({ sessionId: first.sessionId, now: clock.now() }, claim);
      expect(again).toMatchObject({ kind: "begun", turn: { id: first.id, attempt: 2 }, takeover: { kind: "rerun" } });
      await reopen();
      const given = await store.begin({ sessionId: first.sessionId, now: clock.now() }, claim);
      expect(given).toMatchObject({
        kind: "idle",
        takeover: { kind: "interrupted", turn: { state: "interrupted", reason: "crash" } },
      });
      const shown = await begunBy(said("2"));
      await store.mark({ turnId: shown.id, attempt: 1, now: clock.now(), effects: "shown", partial: "half a" }, claim);
      await reopen();
      const taken = await store.begin({ sessionId: first.sessionId, now: clock.now() }, claim);
      expect(taken).toMatchObject({
        takeover: {
          kind: "interrupted",
          text: "half a",
          deliveries: [{ body: { code: "interrupted", args: { partial: "half a" } } }],
        },
      });
      expect(await store.answer(shown.id)).toMatchObject({ text: "half a", turn: { state: "interrupted" } });
      expect(
        (await store.transcript({ sessionId: first.sessionId, limit: 20 })).map((entry) => [
          entry.role,
          entry.mark,
          entry.text,
        ]),
      ).toEqual([
        ["user", null, "1"],
        ["mark", "interrupted", "crash"],
        ["user", null, "2"],
        ["assistant", "interrupted", "half a"],
      ]);
    });

    test("a stale claim is refused by every verb, and a late report changes nothing", async () => {
      const turn = await begunBy(said("1"));
      const old = claim;
      const second = await state.open();
      try {
        const newer = await second.claim("other");
        await expect(store.admit(batch([said("x")]), old)).rejects.toMatchObject({ code: "stale_claim" });
        await expect(answer(turn, "late")).rejects.toMatchObject({ code: "stale_claim" });
        await expect(store.begin({ sessionId: turn.sessionId, now: 0 }, old)).rejects.toMatchObject({
          code: "stale_claim",
        });
        await expect(store.mark({ turnId: turn.id, attempt: 1, now: 0, partial: "x" }, old)).rejects.toMatchObject({
          code: "stale_claim",
        });
        await expect(store.keep({ kind: "prune", now: 0 }, old)).rejects.toMatchObject({ code: "stale_claim" });
        expect(
          await second.settle(
            {
              turnId: turn.id,
              attempt: 1,
              now: 0,
              outcome: { state: "answered", text: "x" },
              runtime: { name: "demo", ref: "r", status: "healthy", restarts: 0 },
            },
            newer,
          ),
        ).toEqual({ kind: "not_running" });
      } finally {
        await second.close();
      }
    });

    test("T9 a failed turn leaves the message and one marked entry", async () => {
      const turn = await begunBy(said("1"));
      const outcome = {
        state: "failed" as const,
        reason: "runtime_failed",
        partial: "half",
        notice: { code: "failed" as const, args: { code: "runtime_failed" } },
      };
      await store.settle(
        {
          turnId: turn.id,
          attempt: 1,
          now: clock.now(),
          outcome,
          runtime: { name: "demo", ref: "r", status: "healthy", restarts: 0 },
        },
        claim,
      );
      const entries = await store.transcript({ sessionId: turn.sessionId, limit: 10 });
      expect(entries.map((entry) => [entry.role, entry.mark, entry.text])).toEqual([
        ["user", null, "1"],
        ["assistant", "failed", "half"],
      ]);
    });

    test("R4 /new interrupts what runs, withdraws what waits, tells its authors, and opens a session that knows its parent", async () => {
      const turn = await begunBy(said("1"));
      const waiting = await admit(said("2"));
      const event: InboundEvent = {
        ...said("/new go on"),
        kind: "command",
        effect: { kind: "reset", firstMessage: "go on" },
        reply: { code: "session_new", args: {} },
      };
      const outcome = await admit(event);
      if (outcome.kind !== "commanded") throw new Error(outcome.kind);
      expect(outcome.ended).toEqual([{ sessionId: turn.sessionId, reason: "new" }]);
      expect(outcome.settled.map((settled) => [settled.turn.id, settled.turn.state])).toEqual([
        [turn.id, "interrupted"],
        [(waiting as { turnId: number }).turnId, "withdrawn"],
      ]);
      expect(outcome.begun).toMatchObject({ sessionId: outcome.sessionId, state: "running" });
      expect(await store.session(outcome.sessionId!)).toMatchObject({ parentId: turn.sessionId, openedBy: "new" });
      expect(await answer(turn, "late")).toEqual({ kind: "not_running" });
      const material = await store.turnMaterial(outcome.turnId!);
      expect(material!.notes).toMatchObject([
        { code: "session_reset", args: { reason: "new", previous: turn.sessionId } },
      ]);
      expect(material!.roomLines.lines).toEqual([]);
      expect(material!.earlier).toBe(0);
    });

    test("R2 an idle reset says why, to both sides; a running turn keeps the session", async () => {
      const rules = { reset: { ...RULES.reset, mode: "idle" as const, idleMinutes: 60 } };
      const turn = await begunBy(said("call me Zed", { rules }));
      clock.set(clock.now() + 2 * 3_600_000);
      expect(await admit(said("still there?", { rules }))).toMatchObject({ sessionId: turn.sessionId });
      await answer(turn, "a");
      await answer(await begun(turn.sessionId), "b");
      clock.set(clock.now() + 2 * 3_600_000);
      const next = await admit(said("what did I say?", { rules }));
      expect(next).toMatchObject({
        kind: "queued",
        ended: [{ sessionId: turn.sessionId, reason: "idle" }],
        notices: [{ body: { code: "session_reset", args: { reason: "idle" } } }],
      });
    });

    const send = (text: string, sessionId: string | null, more: object = {}): InboundEvent => ({
      kind: "send",
      eventId: `send-${text}`,
      freshId: `s-${text}`,
      by: { author: { kind: "person", id: "owner" }, person: { id: "owner", role: "owner" } },
      text,
      into: { kind: "source", key: "agent:main:http:dm:owner%2Froom", ...ownDoor("http", "owner", "room") },
      sessionId,
      ttlMs: 3_600_000,
      rules: RULES,
      ...more,
    });
    const inRoom = (text: string) => ({ ...said(text, { door: "http" }), ...ownDoor("http", "owner", "room") });

    test("H1, H2 a send speaks once, is an entry of its session, and the room then speaks in that session", async () => {
      const terminal = await begunBy(said("secret word: Aleph"));
      await answer(terminal, "noted");
      const sent = await admit(send("hello room", terminal.sessionId));
      expect(sent).toMatchObject({
        kind: "sent",
        bound: { sessionId: terminal.sessionId },
        deliveries: [{ kind: "send", state: "delivered" }],
      });
      expect(await admit(send("hello room", terminal.sessionId))).toMatchObject({ kind: "duplicate" });
      const room = await admit(inRoom("what is the word?"));
      expect(room).toMatchObject({ kind: "queued", sessionId: terminal.sessionId, begun: { bound: "live" } });
      const entries = await store.transcript({ sessionId: terminal.sessionId, limit: 10 });
      expect(entries.map((entry) => [entry.text, entry.mark])).toEqual([
        ["secret word: Aleph", null],
        ["noted", null],
        ["hello room", "sent"],
        ["what is the word?", null],
      ]);
    });

    test("H2, H3, H11 on expiry the room falls back by itself and its own session is given what was said meanwhile", async () => {
      const own = await begunBy(inRoom("first"));
      await answer(own, "one");
      const terminal = await begunBy(said("t"));
      await answer(terminal, "u");
      await admit(send("hello", terminal.sessionId));
      const bound = await begunBy(inRoom("question"));
      expect(bound.sessionId).toBe(terminal.sessionId);
      await answer(bound, "reply");
      clock.set(clock.now() + 3_600_000 - 1);
      const still = await begunBy(inRoom("still"));
      expect(still.sessionId).toBe(terminal.sessionId);
      await answer(still, "yes");
      clock.set(clock.now() + 1);
      const back = await begunBy(inRoom("after"));
      expect(back.sessionId).toBe(own.sessionId);
      const material = await store.turnMaterial(back.id);
      expect(material!.notes).toMatchObject([{ code: "handoff_ended", args: { why: "expired" } }]);
      expect(material!.roomLines.lines.map((line) => line.body)).toEqual([
        "hello",
        "question",
        "reply",
        "still",
        "yes",
      ]);
    });

    test("H4 a live binding overrides a pinned one and leaves it in place; clear removes both", async () => {
      const a = await begunBy(said("a"));
      await answer(a, ".");
      const b = await begunBy(said("b", { name: "second" }));
      await answer(b, ".");
      const bind = (change: object): InboundEvent =>
        ({
          ...(send("x", null) as object),
          kind: "bind",
          eventId: JSON.stringify(change),
          conversation: { kind: "source", key: "agent:main:http:dm:owner%2Froom", ...ownDoor("http", "owner", "room") },
          change,
        }) as never;
      expect(await admit(bind({ kind: "set", binding: "pinned", sessionId: a.sessionId, ttlMs: 0 }))).toMatchObject({
        kind: "bound",
        binding: { expiresAt: null },
      });
      await admit(send("live", b.sessionId));
      const one = await begunBy(inRoom("1"));
      expect(one).toMatchObject({ sessionId: b.sessionId, bound: "live" });
      await answer(one, ".");
      clock.set(clock.now() + 3_600_000);
      const two = await begunBy(inRoom("2"));
      expect(two).toMatchObject({ sessionId: a.sessionId, bound: "pinned" });
      await answer(two, ".");
      expect(await admit(bind({ kind: "clear" }))).toMatchObject({ kind: "cleared", had: true });
      expect(await begunBy(inRoom("3"))).toMatchObject({ bound: null });
    });

    test("H5, H7 only the owner of a live session of the same agent binds it", async () => {
      const mine = await begunBy(said("a"));
      const ann = await begunBy(said("b", { person: "ann", role: "member" }));
      expect(await admit(send("x", "nope"))).toMatchObject({ kind: "rejected", code: "session_unknown" });
      expect(await admit(send("x", ann.sessionId))).toMatchObject({ kind: "rejected", code: "forbidden" });
      expect(await admit(send("y", mine.sessionId), { agent: "other" })).toMatchObject({
        kind: "rejected",
        code: "agent_mismatch",
      });
      expect(await admit(send("z", null))).toMatchObject({ kind: "sent", bound: null });
    });

    test("H9, R4 a reset at home ends the binding, tells the bound door, and moves its waiting turn to its own session", async () => {
      const terminal = await begunBy(said("a"));
      await admit(send("hi", terminal.sessionId));
      const waiting = await admit(inRoom("question"));
      expect(waiting).toMatchObject({ kind: "queued", sessionId: terminal.sessionId, begun: null });
      const reset: InboundEvent = {
        ...said("/new"),
        kind: "command",
        effect: { kind: "reset" },
        reply: { code: "session_new", args: {} },
      };
      const outcome = await admit(reset);
      if (outcome.kind !== "commanded") throw new Error(outcome.kind);
      expect(outcome.notices.map((notice) => (notice.body as { code: string }).code)).toContain("session_ended_here");
      const moved = await begun(outcome.wake.at(-1)!);
      expect(moved).toMatchObject({ id: (waiting as { turnId: number }).turnId, bound: null });
      expect(moved.sessionId).not.toBe(terminal.sessionId);
    });

    test("H9 /new in a bound chat acts on that chat: it withdraws its own turns there and leaves the session alone", async () => {
      const terminal = await begunBy(said("a"));
      await admit(send("hi", terminal.sessionId));
      const waiting = await admit(inRoom("question"));
      const reset: InboundEvent = {
        ...inRoom("/new"),
        kind: "command",
        effect: { kind: "reset" },
        reply: { code: "session_new", args: {} },
      };
      const outcome = await admit(reset);
      expect(outcome).toMatchObject({ kind: "commanded", ended: [] });
      expect(await fate((waiting as { messageId: number }).messageId)).toEqual({ fate: "withdrawn", reason: "reset" });
      expect(await answer(terminal, "goes on")).toMatchObject({ kind: "settled" });
      expect(await begunBy(inRoom("now"))).toMatchObject({ bound: null });
    });

    test("T4 a turn waits for an older open turn of its conversation in another session, and is woken by it", async () => {
      const own = await begunBy(inRoom("1"));
      const terminal = await begunBy(said("a"));
      await answer(terminal, ".");
      await admit(send("hi", terminal.sessionId));
      const second = await admit(inRoom("2"));
      expect(second).toMatchObject({ sessionId: terminal.sessionId, begun: null });
      expect(await store.begin({ sessionId: terminal.sessionId, now: clock.now() + 9_000 }, claim)).toMatchObject({
        kind: "blocked",
        bySession: own.sessionId,
      });
      expect(await answer(own, ".")).toMatchObject({ wake: [terminal.sessionId] });
    });

    test("O1 at a push door the head is written as sending, later ones are attempted in order, a failed part stops its reply only", async () => {
      const push = {
        ...said("1"),
        target: { door: "push" as const, platform: "telegram" as const, account: "bot", chatId: "7" },
      };
      const turn = await begunBy(push);
      const settled = await store.settle(
        {
          turnId: turn.id,
          attempt: 1,
          now: clock.now(),
          outcome: { state: "answered", text: "abc" },
          parts: ["a", "b", "c"],
          runtime: { name: "demo", ref: "r", status: "healthy", restarts: 0 },
        },
        claim,
      );
      if (settled.kind !== "settled") throw new Error();
      expect(settled.deliveries.map((row) => [row.body, row.state, row.attempt])).toEqual([
        ["a", "sending", 1],
        ["b", "queued", 0],
        ["c", "queued", 0],
      ]);
      const [a, b] = settled.deliveries;
      expect(await store.attempt({ deliveryId: b!.id, now: clock.now() }, claim)).toEqual({ kind: "not_due" });
      await store.delivered(
        { deliveryId: a!.id, now: clock.now(), result: { kind: "delivered", externalId: "x1" } },
        claim,
      );
      expect(await store.attempt({ deliveryId: b!.id, now: clock.now() }, claim)).toMatchObject({
        state: "sending",
        attempt: 1,
      });
      await store.delivered({ deliveryId: b!.id, now: clock.now(), result: { kind: "failed", reason: "gone" } }, claim);
      expect(await store.openDeliveries()).toEqual([]);
    });

    const next = async (key: string, rules: Partial<typeof RULES> = {}) => {
      const { id } = (await store.conversation(key))!;
      return (await store.nextTurnMaterial({ conversationId: id, now: clock.now(), rules: { ...RULES, ...rules } }))!;
    };
    const TERMINAL = "agent:main:console:dm:owner%2Fmain";
    const ROOM = "agent:main:http:dm:owner%2Froom";

    test("C7 the next turn's material is that of the turn that then comes, and reading it changes nothing", async () => {
      await answer(await begunBy(inRoom("hello")), "hi");
      const terminal = await begunBy(said("t"));
      await answer(terminal, "u");
      await admit(send("dinner", terminal.sessionId));
      const both = async (event: InboundEvent) => {
        const before = await next(ROOM);
        expect(await next(ROOM)).toEqual(before);
        const turn = await begunBy(event);
        const real = (await store.turnMaterial(turn.id))!;
        await answer(turn, "a");
        expect(before.session.id).toBe(real.session.id);
        expect(before.turn).toMatchObject({ id: 0, bound: real.turn.bound, audience: real.turn.audience });
        expect(before.messages).toMatchObject([{ id: 0, body: "", author: real.messages[0]!.author }]);
        expect(before.roomLines.lines).toEqual(real.roomLines.lines);
        expect(before.notes).toEqual(real.notes);
        expect(before.earlier).toBe(real.earlier);
        expect(before.guests).toEqual(real.guests);
      };
      await both(inRoom("bound"));
      clock.set(clock.now() + 3_600_000);
      await both(inRoom("fallen back"));
      await both(inRoom("and on"));
    });

    test("C7 the next turn of a conversation that is due for a reset has the session that would open", async () => {
      const turn = await begunBy(said("one"));
      await answer(turn, "a");
      clock.set(clock.now() + 2 * 3_600_000);
      const reset = { ...RULES.reset, mode: "idle" as const, idleMinutes: 60 };
      expect(await next(TERMINAL, { reset })).toMatchObject({
        session: { id: "", parentId: turn.sessionId, openedBy: "idle" },
        previous: { id: turn.sessionId },
        notes: [{ code: "session_reset", args: { reason: "idle", previous: turn.sessionId } }],
        stablePart: null,
        earlier: 0,
        roomLines: { lines: [] },
      });
      expect((await next(TERMINAL)).session.id).toBe(turn.sessionId);
    });

    test("C7 the next turn is the one that waits, where one does", async () => {
      const first = await begunBy(said("1"));
      const second = await admit(said("2"));
      // A running turn whose prompt is not written yet is still to be told.
      expect((await next(TERMINAL)).turn.id).toBe(first.id);
      const prompt = {
        text: "f",
        seen: { placeId: 1, throughSeq: 1 },
        notesThrough: 0,
        entriesThrough: 0,
        runtime: "demo",
      };
      await store.mark({ turnId: first.id, attempt: 1, now: clock.now(), prompt }, claim);
      expect((await next(TERMINAL)).turn.id).toBe((second as { turnId: number }).turnId);
      expect(await store.nextTurnMaterial({ conversationId: 99, now: 0, rules: RULES })).toBeNull();
    });

    test("C2 H8 a turn's material names who wrote in its place and which doors speak in its session", async () => {
      const terminal = await begunBy(said("t"));
      await answer(terminal, "u");
      await admit(send("dinner", terminal.sessionId));
      expect((await next(TERMINAL)).guests).toMatchObject([{ conversationKey: ROOM, kind: "live" }]);
      const source = { platform: "telegram", account: "bot", chatId: "-1", chatType: "group", isBot: false } as const;
      const people = [
        { kind: "person", id: "1", name: "Ann" },
        { kind: "person", id: "2", name: "Ann" },
      ] as const;
      for (const author of people) await admit({ ...said("hi"), source, speaker: { author } });
      expect((await next("agent:main:telegram:group:-1")).speakers).toEqual([...people].reverse());
    });

    test("prune forgets old events and once-conversations and nothing else", async () => {
      const once = await admit({
        ...said("q", { door: "http" }),
        ...ownDoor("http", "owner", "o"),
        once: { history: [{ role: "user", text: "before" }] },
      });
      if (once.kind !== "queued") throw new Error();
      expect((await store.turnMaterial(once.turnId))!.earlier).toBe(1);
      await answer(once.begun!, "a");
      await answer(await begunBy(said("kept", { eventId: "e9" })), "b");
      expect((await store.conversations({})).map((row) => row.key)).toEqual(["agent:main:console:dm:owner%2Fmain"]);
      const pruned = await store.keep({ kind: "prune", now: clock.now() + 49 * 3_600_000 }, claim);
      // F-ACP-04: what its runtimes know it by, so that they can forget it.
      expect(pruned.forgotten).toEqual([{ sessionId: once.sessionId, runtime: "demo", ref: "r" }]);
      const again = await store.keep({ kind: "prune", now: clock.now() + 49 * 3_600_000 }, claim);
      expect(again.forgotten).toEqual([]);
      expect(await store.conversation(once.key)).toBeNull();
      expect(await store.session(once.sessionId)).toBeNull();
      expect(await store.conversations({})).toHaveLength(1);
      expect((await store.counts()).messages).toBe(2);
    });

    // ---- the life cycle

    const ask = (
      effect: CommandEvent["effect"],
      more: { rules?: object; eventId?: string; source?: object } = {},
    ): CommandEvent => {
      const { addressed: _, ...base } = said(`/${effect.kind}`);
      const rules = { ...RULES, ...more.rules };
      return { ...base, ...(more as object), rules, kind: "command", effect, reply: { code: "undone", args: {} } };
    };
    const replyTo = async (
      effect: CommandEvent["effect"],
      more: { rules?: object; eventId?: string; source?: object } = {},
    ) => {
      const outcome = await admit(ask(effect, more));
      if (outcome.kind !== "commanded") throw new Error(outcome.kind);
      return { ...outcome, notice: outcome.reply.body as Notice };
    };
    const jobOf = (sessionId: string, change: JobEvent["change"], more: object = {}): JobEvent => ({
      kind: "job",
      eventId: randomUUID(),
      freshId: "never",
      by: null,
      sessionId,
      id: "j",
      change,
      ...more,
    });
    const reset = (policy: Partial<ResetPolicy>) => ({ rules: { reset: { ...RULES.reset, ...policy } } });
    const marked = (turn: Turn, ref: string, entriesThrough = 0) =>
      store.mark(
        {
          turnId: turn.id,
          attempt: turn.attempt,
          now: clock.now(),
          prompt: { text: "f", seen: { placeId: 1, throughSeq: 0 }, notesThrough: 0, entriesThrough, runtime: "demo" },
          runtime: { name: "demo", ref, restarts: 0 },
        },
        claim,
      );

    test("R3 G-RST-04 the daily hour is of the policy's zone; G-RST-03 a day on which it does not exist is counted for itself", async () => {
      const shanghai = reset({ mode: "daily", atHour: 4, timezone: "Asia/Shanghai" });
      clock.set(Date.parse("2026-05-10T19:30Z"));
      const evening = await begunBy(said("1", shanghai));
      await answer(evening, ".");
      clock.set(Date.parse("2026-05-10T20:30Z"));
      expect(await admit(said("2", shanghai))).toMatchObject({
        ended: [{ sessionId: evening.sessionId, reason: "daily" }],
      });
      const newYork = { ...reset({ mode: "daily", atHour: 2, timezone: "America/New_York" }), name: "ny" };
      clock.set(Date.parse("2026-03-07T07:30Z"));
      const kept = await begunBy(said("1", newYork));
      await answer(kept, ".");
      clock.set(Date.parse("2026-03-08T06:00Z"));
      expect(await admit(said("2", newYork))).toMatchObject({ sessionId: kept.sessionId, ended: [] });
    });

    test("R2 a due reset that is held says why: by a turn, by a young job; R10 a job moves no clock", async () => {
      const idle = reset({ mode: "idle", idleMinutes: 60 });
      const first = await begunBy(said("1", idle));
      clock.set(clock.now() + 2 * 3_600_000);
      const held = await admit(said("2", idle));
      expect(held).toMatchObject({ putOff: [{ sessionId: first.sessionId, reason: "idle", heldBy: "turn" }] });
      await answer(first, ".");
      await answer(await begun(first.sessionId), ".");
      const opened = jobOf(first.sessionId, { state: "open", title: "render" });
      expect(await admit(opened)).toMatchObject({ kind: "job", had: false });
      expect(await admit(opened)).toMatchObject({ kind: "duplicate" });
      expect(await store.jobs(first.sessionId)).toEqual([{ id: "j", title: "render", openedAt: clock.now() }]);
      clock.set(clock.now() + 3 * 3_600_000);
      const third = await admit(said("3", idle));
      expect(third).toMatchObject({
        sessionId: first.sessionId,
        putOff: [{ sessionId: first.sessionId, reason: "idle", heldBy: "job" }],
      });
      await answer((third as { begun: Turn }).begun, ".");
      await admit(jobOf(first.sessionId, { state: "closed" }));
      expect(await store.jobs(first.sessionId)).toEqual([]);
      clock.set(clock.now() + 61 * 60_000);
      expect(await admit(said("4", idle))).toMatchObject({ putOff: [], ended: [{ reason: "idle" }] });
    });

    test("R2 G-RST-07 a job older than the limit holds nothing, and the notice says that it still runs", async () => {
      const both = reset({ mode: "both", idleMinutes: 120, atHour: 6, timezone: "UTC" });
      clock.set(Date.parse("2026-06-01T10:00Z"));
      const first = await begunBy(said("start it", both));
      await answer(first, ".");
      await admit(jobOf(first.sessionId, { state: "open", title: "preview server" }));
      clock.set(Date.parse("2026-06-01T10:05Z"));
      await answer(await begunBy(said("fine", both)), ".");
      clock.set(Date.parse("2026-06-03T08:00Z"));
      expect(await admit(said("morning", both))).toMatchObject({
        putOff: [],
        ended: [{ sessionId: first.sessionId, reason: "idle" }],
        notices: [{ body: { code: "session_reset", args: { jobs: "preview server" } } }],
      });
      expect(await admit(jobOf(first.sessionId, { state: "open", title: "late" }, { id: "k" }))).toMatchObject({
        kind: "rejected",
        code: "session_ended",
      });
      expect(await admit(jobOf(first.sessionId, { state: "closed" }))).toMatchObject({ kind: "job", had: true });
      expect(await admit(jobOf("nope", { state: "closed" }))).toMatchObject({ code: "session_unknown" });
    });

    test("R4 G-RST-06 what the agent is to be opened by is taken at once, outlives a stop and a crash, and not from an ended session", async () => {
      const first = await begunBy(said("1"));
      expect(await marked(first, "now S2")).toMatchObject({ kind: "marked" });
      await store.settle(
        {
          turnId: first.id,
          attempt: 1,
          now: clock.now(),
          outcome: {
            state: "interrupted",
            reason: "stopped",
            partial: "half",
            notice: { code: "interrupted", args: { partial: "half", reason: "stopped" } },
          },
        },
        claim,
      );
      const refOf = async (turn: Turn) => (await store.turnMaterial(turn.id))!.runtimeState?.ref;
      const second = await begunBy(said("2"));
      expect(await refOf(second)).toBe("now S2");
      expect(await marked(second, "now S3")).toMatchObject({ kind: "marked" });
      claim = await store.claim("after a crash");
      await store.begin({ sessionId: second.sessionId, now: clock.now() }, claim);
      const again = (await store.turn(second.id))!;
      expect(await refOf(again)).toBe("now S3");
      await replyTo({ kind: "reset" });
      expect(await marked(again, "late")).toEqual({ kind: "not_running" });
      expect(await refOf(again)).toBe("now S3");
      expect((await store.transcript({ sessionId: second.sessionId, limit: 9 })).map((entry) => entry.text)).toEqual([
        "1",
        "half",
        "2",
        "reset",
      ]);
    });

    test("G-PER-06 keeping house removes no kept session, however many there are and however old", async () => {
      const first = await begunBy(said("1"));
      await answer(first, ".");
      for (let n = 0; n < 60; n++) await replyTo({ kind: "reset" });
      const running = await begunBy(said("2"));
      await store.keep({ kind: "prune", now: clock.now() + 400 * 24 * 3_600_000 }, claim);
      const sessions = await store.sessions({ limit: 1_000 });
      expect(sessions).toHaveLength(61);
      expect(sessions.filter((session) => session.endedAt === null).map((session) => session.id)).toEqual([
        running.sessionId,
      ]);
      expect(await store.transcript({ sessionId: first.sessionId, limit: 9 })).toHaveLength(2);
    });

    const inGroup = (person: string, text: string) => ({
      ...said(text, { person, role: "member" }),
      source: {
        platform: "telegram" as const,
        account: "bot",
        chatId: "-100",
        chatType: "group" as const,
        userId: person,
        isBot: false,
      },
      target: { door: "pull" as const, platform: "telegram" as const, account: "bot", chatId: "-100" },
      rules: { ...RULES, keys: { ...RULES.keys, groupSessionsPerUser: false } },
    });

    test("R6 a group cannot resume a private session, nor anybody another's; it can go back to its own", async () => {
      const mine = await begunBy(said("private", { person: "ann", role: "member" }));
      await answer(mine, ".");
      const group = await begunBy(inGroup("ann", "hello all"));
      await answer(group, ".");
      const { addressed: _, ...base } = inGroup("ann", "/resume");
      const refused = await replyTo({ kind: "resume", sessionId: mine.sessionId }, base);
      expect(refused).toMatchObject({ notice: { code: "not_done", args: { reason: "resume_in_room" } }, ended: [] });
      const theirs = await replyTo({ kind: "resume", sessionId: mine.sessionId });
      expect(theirs).toMatchObject({ notice: { code: "not_done", args: { reason: "resume_unknown" } }, ended: [] });
      const other = { ...base, ...ownDoor("console", "owner", "main"), eventId: "into", into: undefined };
      expect(await replyTo({ kind: "resume", sessionId: group.sessionId }, other)).toMatchObject({
        notice: { code: "not_done" },
      });
      for (const effect of [{ kind: "policy", policy: null }, { kind: "home" }] as const) {
        const forbidden = await replyTo(effect, { ...base, eventId: effect.kind });
        expect(forbidden).toMatchObject({ notice: { code: "not_done", args: { reason: `${effect.kind}_forbidden` } } });
      }
      await replyTo({ kind: "reset" }, { ...base, eventId: "new in group" });
      expect(await replyTo({ kind: "resume", sessionId: group.sessionId }, { ...base, eventId: "back" })).toMatchObject(
        {
          sessionId: group.sessionId,
          notice: { code: "session_resumed", args: { at: "home" } },
        },
      );
      expect(await store.session(group.sessionId)).toMatchObject({
        endedAt: null,
        openedBy: "resume",
        suspended: null,
      });
    });

    test("R6 what was undone is in no exchange, no missed line and no primer; what stands is", async () => {
      const first = await begunBy(said("1"));
      await marked(first, "r", 0);
      await answer(first, "one");
      const second = await begunBy(said("2"));
      await marked(second, "r", 2);
      await answer(second, "two");
      const undone = await replyTo({ kind: "undo" });
      expect(undone).toMatchObject({
        rewound: [first.sessionId],
        ended: [],
        notice: { code: "undone", args: { what: "turn", text: "2" } },
      });
      const third = await begunBy(said("3"));
      const material = (await store.turnMaterial(third.id))!;
      expect(material).toMatchObject({ earlier: 2, throughEntry: 4, missed: [], runtimeState: { ref: null } });
      const exchanges = await store.exchanges({ sessionId: first.sessionId, beforeEntry: 5 });
      expect(exchanges.map((exchange) => exchange.reply)).toEqual(["one"]);
      const primer = await store.transcript({ sessionId: first.sessionId, before: 5, only: "standing", limit: 2 });
      expect(primer.map((entry) => entry.text)).toEqual(["1", "one"]);
      expect(
        await fate((await store.transcript({ sessionId: first.sessionId, after: 2, limit: 1 }))[0]!.messageId!),
      ).toEqual({ fate: "answered" });
    });

    test("R6 H9 a session resumed at another door ends by its home's policy, and that door falls back and is told", async () => {
      const idle = reset({ mode: "idle", idleMinutes: 60 });
      const first = await begunBy(said("1", idle));
      await answer(first, ".");
      await replyTo({ kind: "reset" }, idle);
      const own = await begunBy(inRoom("own"));
      await answer(own, ".");
      const room = { ...ownDoor("http", "owner", "room"), eventId: "resume there" };
      expect(await replyTo({ kind: "resume", sessionId: first.sessionId }, room)).toMatchObject({
        notice: { args: { at: "elsewhere" } },
      });
      const bound = await begunBy(inRoom("there"));
      expect(bound).toMatchObject({ sessionId: first.sessionId, bound: "pinned" });
      await answer(bound, ".");
      clock.set(clock.now() + 2 * 3_600_000);
      const after = await admit(inRoom("later"));
      expect(after).toMatchObject({
        sessionId: own.sessionId,
        ended: [{ sessionId: first.sessionId, reason: "idle" }],
        notices: [{ body: { code: "session_ended_here" } }],
      });
      expect(await store.bindings({})).toEqual([]);
    });
  });
}
