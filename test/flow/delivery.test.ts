import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openPushStage, type PushStage } from "../support/push-stage.ts";

/** Deliveries to a push door, with the clock in hand. */
describe("delivery", () => {
  let stage: PushStage;
  beforeEach(async () => {
    stage = await openPushStage();
  });
  afterEach(() => stage.end());

  const untilStates = (expected: readonly string[], { until, deliveries } = stage): Promise<void> =>
    until(async () => (await deliveries()).map((row) => row.state).join() === expected.join());

  test("O1, O2 a reply goes to the chat of its question, in order, each once", async () => {
    const { bot, until, deliveries } = stage;
    await bot.says("say one", { rules: { busyMode: "queue" } });
    await bot.says("say two", { rules: { busyMode: "queue" } });
    await bot.says("say elsewhere", { chat: "8" });
    await until(() => bot.sent.length === 3);
    expect(bot.sent.filter((sent) => sent.chat === "7").map((sent) => sent.text)).toEqual(["one", "two"]);
    expect(bot.sent.filter((sent) => sent.chat === "8").map((sent) => sent.text)).toEqual(["elsewhere"]);
    expect(new Set(bot.sent.map((sent) => sent.key)).size).toBe(3);
    expect((await deliveries())[0]).toMatchObject({ state: "delivered", attempt: 1 });
  });

  test("O1 a failed attempt is repeated after 5, 25 and 120 s with jitter, then it has failed, and the lane goes on", async () => {
    const { bot, clock, until, deliveries } = stage;
    for (let i = 0; i < 4; i++) bot.answers.push({ kind: "retry", reason: "500" });
    await bot.says("say first", { rules: { busyMode: "queue" } });
    await bot.says("say second", { rules: { busyMode: "queue" } });
    await until(() => bot.attempts === 1);
    for (const [wait, attempts] of [
      [5_000, 2],
      [25_000, 3],
      [120_000, 4],
    ] as const) {
      await until(async () => (await deliveries())[0]?.state === "queued");
      await clock.advance(wait * 1.1 - 1);
      expect(bot.attempts).toBe(attempts - 1);
      await clock.advance(1);
      await until(() => bot.attempts === attempts);
    }
    await until(() => bot.sent.length === 1);
    expect(bot.sent[0]!.text).toBe("second");
    await untilStates(["failed", "delivered"]);
  });

  test("O1 the platform's retry-after is kept", async () => {
    const { bot, clock, until, deliveries } = stage;
    bot.answers.push({ kind: "retry", reason: "429", retryAfterMs: 60_000 });
    await bot.says("say hello");
    await until(async () => (await deliveries())[0]?.state === "queued");
    await clock.advance(59_999);
    expect(bot.attempts).toBe(1);
    await clock.advance(1);
    await until(() => bot.sent.length === 1);
  });

  test("O1 attempts while the channel is offline do not count, until the delivery is too old", async () => {
    const { bot, clock, until, deliveries } = stage;
    for (let i = 0; i < 10; i++) bot.answers.push({ kind: "offline", reason: "no link" });
    await bot.says("say hello");
    for (let i = 1; i <= 10; i++) {
      await until(() => bot.attempts === i);
      await until(async () => (await deliveries())[0]?.state === "queued");
      expect((await deliveries())[0]!.attempt).toBe(0);
      await clock.advance(5_000);
    }
    await until(() => bot.sent.length === 1);
    bot.answers.push({ kind: "offline", reason: "no link" });
    await bot.says("say late");
    await until(async () => (await deliveries())[1]?.state === "queued");
    clock.set(clock.now() + 24 * 3_600_000);
    await clock.advance(5_000);
    await until(async () => (await deliveries())[1]?.state === "failed");
    expect(bot.sent).toHaveLength(1);
  });

  test("O4 a sender that throws leaves an unknown delivery, and the lane goes on", async () => {
    const { bot, until } = stage;
    const bug = Promise.reject<{ kind: "sent" }>(new Error("bug"));
    bug.catch(() => undefined);
    bot.answers.push(bug);
    await bot.says("say once", { rules: { busyMode: "queue" } });
    await bot.says("say next", { rules: { busyMode: "queue" } });
    await until(() => bot.sent.length === 1);
    expect(bot.sent.map((sent) => sent.text)).toEqual(["next"]);
    await untilStates(["unknown", "delivered"]);
  });

  test("O4, G-DLV-01 a cut after the words left is unknown: shown, and not doubled", async () => {
    const { bot, store, until } = stage;
    bot.answers.push({ kind: "unknown", reason: "connection reset" });
    await bot.says("say once", { rules: { busyMode: "queue" } });
    await bot.says("say next", { rules: { busyMode: "queue" } });
    await until(() => bot.sent.length === 1);
    expect(bot.sent.map((sent) => sent.text)).toEqual(["next"]);
    await untilStates(["unknown", "delivered"]);
    const [session] = await store.sessions({});
    const transcript = await store.transcript({ sessionId: session!.id, limit: 10 });
    expect(transcript.find((entry) => entry.text === "once")).toMatchObject({ delivery: "unknown" });
  });

  for (const recognisesRepeats of [false, true]) {
    test(`O4, G-DLV-01 what is found as sending at the start is ${recognisesRepeats ? "sent again where the platform recognises it" : "unknown"}`, async () => {
      const { bot, until } = stage;
      const never = Promise.withResolvers<{ kind: "sent" }>();
      bot.answers.push(never.promise);
      await bot.says("say hello");
      await until(() => bot.attempts === 1);
      await untilStates(["sending"]);
      const successor = await stage.successor({ recognisesRepeats });
      if (recognisesRepeats) await successor.until(() => successor.bot.sent.length === 1);
      await untilStates([recognisesRepeats ? "delivered" : "unknown"], successor);
      await successor.end();
      never.resolve({ kind: "sent" });
    });
  }

  test("O5 NO_REPLY alone sends nothing and counts as answered", async () => {
    const { bot, store, until, deliveries } = stage;
    const outcome = await bot.says("say NO_REPLY");
    await until(
      async () => (await store.fates((outcome as { messageId: number }).messageId))[0]?.fate.fate === "answered",
    );
    expect(await deliveries()).toEqual([]);
    expect((await store.fates((outcome as { messageId: number }).messageId))[0]?.fate).toEqual({
      fate: "answered",
      reason: "silent",
    });
  });

  test("O6 a notice is rendered at the attempt and does not start a turn", async () => {
    const { bot, until, deliveries } = stage;
    await bot.says("fail");
    await until(() => bot.sent.length === 1);
    expect((await deliveries())[0]).toMatchObject({ kind: "notice", body: { code: "failed" } });
    expect(bot.sent[0]!.text).toContain("Try again");
  });
});
