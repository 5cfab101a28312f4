import { describe, expect, test } from "vitest";
import { FAKE_MODEL, type FakeReply, type FakeStep, startFakeModel } from "../support/fake-model.ts";
import { bytesOf, doorKey, httpStory, until } from "../support/http-stage.ts";

/** What an agent says, as it is told at every door and as it is stored (O7). */

const chunkOf = (text: string): FakeStep => ({ chunk: { choices: [{ delta: { content: text } }] } });

/** As the answer's chunks have it: a half of a character is an escape in JSON. */
function speaks(...chunks: readonly string[]): FakeReply {
  return { steps: [...chunks.map(chunkOf), { finish: "stop" }, { done: true }] };
}

async function withModel(reply: FakeReply, tell: Parameters<typeof httpStory>[0]): Promise<void> {
  const model = await startFakeModel([{ ...reply, headers: { connection: "close" } }]);
  try {
    const runtime = { kind: "http", base_url: model.url, model: FAKE_MODEL };
    await httpStory(tell, { agents: { main: { runtime } } })();
  } finally {
    await model.close();
  }
}

// The kind: words of an agent that are no clean text, at the HTTP door (whole and streamed), in events, and in the store.
describe("F-HTTP-02 O7 S6: the words of an agent are told as they are stored", () => {
  test.each([
    ["an emoji that is cut between two chunks", ["a parrot \ud83e", "\udd9c sits"], "a parrot 🦜 sits"],
    ["half a character at the end", ["half \ud83e"], "half \uFFFD"],
    ["half a character in the middle", ["half \udd9c", " of one"], "half \uFFFD of one"],
    ["NUL and an escape sequence", ["a\0b", "\u001b[2Jc\u0007"], "a\uFFFDb[2Jc"],
    ["an answer that begins like silence", ["NO"], "NO"],
  ])("F-HTTP-02 O7: %s", (_, chunks, told) =>
    withModel(speaks(...chunks), async (stage) => {
      const key = doorKey("http", "me");
      const listener = stage.connect();
      listener.send(bytesOf("GET", `/api/events?conversation=${encodeURIComponent(key)}`, { Host: "localhost" }));
      await listener.received("event: hello");

      const client = stage.client();
      const asked = { model: "main", user: "me", messages: [{ role: "user" as const, content: "say it" }] };
      const { data, response } = await client.chat.completions.create({ ...asked, stream: true }).withResponse();
      let streamed = "";
      for await (const { choices } of data) streamed += choices[0]?.delta.content ?? "";
      expect(streamed).toBe(told);
      const whole = await client.chat.completions.create(asked);
      expect(whole.choices[0]?.message.content).toBe(told);

      const session = response.headers.get("x-tertulia-session");
      const { messages } = (await stage.call({ path: `/api/sessions/${session}/messages` })).json<{
        messages: { role: string; text: string }[];
      }>();
      expect(messages.flatMap(({ role, text }) => (role === "assistant" ? [text] : []))).toEqual([told, told]);

      await until(async () => (await stage.gateway.reader.counts()).openTurns === 0);
      const heard = (await listener.received("event: turn:settled")).split("\n\n");
      const words = heard.flatMap((block) => {
        const data = /^data: (.*)$/m.exec(block)?.[1];
        return /^event: turn:text$/m.test(block) && data !== undefined
          ? [JSON.parse(data) as { turnId: number; text: string }]
          : [];
      });
      const first = words.filter(({ turnId }) => turnId === words[0]?.turnId);
      expect(first.map(({ text }) => text).join("")).toBe(told);
      listener.vanish();
    }),
  );

  test("F-HTTP-02 S6: a failure tells its sentence in clean words", () =>
    withModel({ status: 400, body: { error: { message: "not \ud83e like\u001b[31m this" } } }, async (stage) => {
      const reply = await stage.call({
        path: "/v1/chat/completions",
        body: { user: "me", messages: [{ role: "user", content: "say it" }] },
      });
      const { message } = reply.json().error;
      expect(message.isWellFormed()).toBe(true);
      expect(message).not.toContain("\u001b");
      const kept = await stage.call({ path: `/api/messages/${reply.headers["x-tertulia-message"]}` });
      expect(kept.json<{ answer: { problem: { message: string } } }>().answer.problem.message).toBe(message);
    }));
});
