import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openPushStage, type PushStage } from "../support/push-stage.ts";

/** Replies that are longer than the platform takes, at a push door with Telegram's limit. */
describe("a long reply", () => {
  let stage: PushStage;
  beforeEach(async () => {
    stage = await openPushStage();
  });
  afterEach(() => stage.end());

  test("O3 of 10,000 characters arrives as three messages in order, its code fenced in each", async () => {
    const { bot, store, until } = stage;
    const said = `Here it is:\n\n\`\`\`ts\n${"const value = 1234567;\n".repeat(435)}\`\`\`\nThat is all.`;
    await bot.says(`say ${said}`);
    await until(() => bot.sent.length === 3);
    const [first, second, third] = bot.sent.map((sent) => sent.text);
    expect(first).toMatch(/^Here it is:\n\n```ts\nconst [^`]*\n```$/);
    expect(second).toMatch(/^```ts\nconst [^`]*\n```$/);
    expect(third).toMatch(/^```ts\nconst [^`]*\n```\nThat is all\.$/);
    for (const { text } of bot.sent) expect(text.length).toBeLessThanOrEqual(4_096);
    // The transcript has it as it was said.
    const [session] = await store.sessions({});
    const transcript = await store.transcript({ sessionId: session!.id, limit: 10 });
    expect(transcript.at(-1)?.text).toBe(said);
  });

  test("G-DLV-03 O2 every piece of a split reply goes to the thread of its question", async () => {
    const { bot, until } = stage;
    await bot.says(`say ${"many words ".repeat(1_000)}`, { chat: "-100500", thread: "36" });
    await until(() => bot.sent.length === 3);
    for (const sent of bot.sent) expect(sent).toMatchObject({ chat: "-100500", thread: "36" });
  });

  test("G-DLV-02 O1 the pieces of a reply stay in order through a rate limit, and hold nobody else up", async () => {
    const { bot, clock, until, deliveries } = stage;
    const said = Array.from({ length: 5 }, (_, i) => `${i + 1}${" words".repeat(600)}`).join("\n\n");
    bot.answers.push({ kind: "sent" }, { kind: "retry", reason: "429", retryAfterMs: 33_000 });
    await bot.says(`say ${said}`);
    await until(async () => (await deliveries())[1]?.state === "queued");
    await bot.says("say elsewhere", { chat: "8" });
    await until(() => bot.sent.some((sent) => sent.chat === "8"));
    await clock.advance(32_999);
    expect(bot.sent.filter((sent) => sent.chat === "7")).toHaveLength(1);
    await clock.advance(1);
    await until(() => bot.sent.length === 6);
    const firstLetters = bot.sent.filter((sent) => sent.chat === "7").map((sent) => sent.text.charAt(0));
    expect(firstLetters).toEqual(["1", "2", "3", "4", "5"]);
  });

  test("O1 O3 a piece that failed for good takes the later ones with it, and the next reply goes out", async () => {
    const { bot, until, deliveries } = stage;
    bot.answers.push({ kind: "sent" }, { kind: "failed", reason: "403" });
    await bot.says(`say ${"many words ".repeat(1_000)}`, { rules: { busyMode: "queue" } });
    await bot.says("say next", { rules: { busyMode: "queue" } });
    await until(() => bot.sent.length === 2);
    expect(bot.sent.map((sent) => sent.text.trim().split(" ").at(-1))).toEqual(["words", "next"]);
    await until(
      async () => (await deliveries()).map((row) => row.state).join() === "delivered,failed,failed,delivered",
    );
  });
});
