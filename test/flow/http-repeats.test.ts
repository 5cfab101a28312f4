import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { type Call, completionBytes, doorKey, type HttpStage, httpStory, until } from "../support/http-stage.ts";

/** Messages that come again: by clients that repeat by themselves, with and without a key (T3). */

const COMPLETIONS = "/v1/chat/completions";
const BOB = "bob-token-0123456789";
const asks = (text: string, user: string | null = "me") => ({
  user,
  messages: [{ role: "user" as const, content: text }],
});
const marked = { "x-stainless-retry-count": "1" };

async function ask(stage: HttpStage, body: object, more: Omit<Call, "path"> = {}) {
  const reply = await stage.call({ path: COMPLETIONS, body, ...more });
  const { choices, error } = reply.json<{
    choices?: { message: { content: string } }[];
    error?: { code: string; message: string };
  }>();
  const { status, headers } = reply;
  return { status, headers, text: choices?.[0]?.message.content, error, message: headers["x-tertulia-message"] };
}

const counts = (stage: HttpStage) => stage.gateway.reader.counts();

/** Sends it, and goes away when the agent is at work. */
async function asksAndGoes(stage: HttpStage, body: object, headers: Record<string, string> = {}): Promise<void> {
  const { turns } = await counts(stage);
  const wire = stage.connect();
  wire.send(completionBytes(body, headers));
  await until(async () => (await counts(stage)).turns === turns + 1);
  const { promise, resolve } = Promise.withResolvers<void>();
  wire.socket.once("close", resolve);
  wire.vanish();
  await promise;
}

// The kind: every refusal that says "later", under a key, at both routes that take one.
describe("F-HTTP-03 T3 a refusal is not remembered under its key", () => {
  const key = { "idempotency-key": "k1" };

  test(
    "F-HTTP-03 T3: queue_full, refused as often as it comes; then it is admitted once",
    httpStory(
      async (stage) => {
        const running = ask(stage, asks("hang"));
        await until(() => stage.gateway.turns.running === 1);
        const waiting = ask(stage, asks("say waited"));
        await until(async () => (await counts(stage)).turns === 2);
        for (let n = 0; n < 2; n++) {
          const refused = await ask(stage, asks("say it"), { headers: key });
          expect([refused.status, refused.error?.code]).toEqual([429, "queue_full"]);
        }
        await ask(stage, asks("/stop"));
        await Promise.all([running, waiting]);
        const { turns } = await counts(stage);
        const admitted = await ask(stage, asks("say it"), { headers: key });
        expect([admitted.status, admitted.text]).toEqual([200, "it"]);
        expect((await ask(stage, asks("say it"), { headers: key })).message).toBe(admitted.message);
        expect((await counts(stage)).turns).toBe(turns + 1);
        expect((await ask(stage, asks("say another"), { headers: key })).error?.code).toBe("idempotency_conflict");
      },
      { turn: { max_waiting_turns: 1 } },
    ),
  );

  test(
    "F-HTTP-03 T3: busy, and under its key other words may come instead: nothing was taken in",
    httpStory(
      async (stage) => {
        const path = `/api/conversations/${encodeURIComponent(doorKey("console", "main"))}/messages`;
        const post = async (text: string, headers = {}) => {
          const reply = await stage.call({ path, body: { text }, headers });
          return { status: reply.status, ...reply.json<{ turn: number; message: number; error?: { code: string } }>() };
        };
        await post("hang");
        await until(() => stage.gateway.turns.running === 1);
        const refused = await post("say it", key);
        expect([refused.status, refused.error?.code]).toEqual([429, "busy"]);
        expect((await post("say it", key)).error?.code).toBe("busy");
        await post("/stop");
        await until(async () => (await counts(stage)).openTurns === 0);
        const admitted = await post("say it differently", key);
        expect(admitted.status).toBe(202);
        expect((await stage.gateway.turns.answerOf(admitted.turn)).text).toBe("it differently");
        expect(await post("say it differently", key)).toMatchObject({ status: 202, message: admitted.message });
      },
      { turn: { busy_mode: "reject" } },
    ),
  );
});

// The kind: clients that repeat by themselves and have no key, in each way in which a conversation is named and an answer is told.
describe("F-HTTP-04 T3 a client that repeats by itself says it once", () => {
  const ways = {
    "by `user`": { body: { user: "me" }, headers: {} },
    "by its header": { body: {}, headers: { "X-Tertulia-Conversation": "me" } },
    "without a name": { body: {}, headers: {} },
  };

  test.each(Object.entries(ways))("F-HTTP-04 T3: after its time is over, %s", (_, { body, headers }) =>
    httpStory(async (stage) => {
      const client = stage.client({ timeout: 300, maxRetries: 2 });
      const messages = [{ role: "user" as const, content: "slow 6" }];
      const answer = await client.chat.completions.create({ model: "main", messages, ...body }, { headers });
      expect(answer.choices[0]?.message.content).toBe("1 2 3 4 5 6");
      expect(await counts(stage)).toMatchObject({ turns: 1, messages: 2 });
    })(),
  );

  test(
    "F-HTTP-04 T3: a marked repeat joins a turn that runs, one that waits and one that has ended, streamed or whole",
    httpStory(async (stage) => {
      await asksAndGoes(stage, asks("slow 3"));
      await asksAndGoes(stage, asks("say waits"));
      const [running, waiting] = await Promise.all([
        ask(stage, asks("slow 3"), { headers: marked }),
        ask(stage, asks("say waits"), { headers: marked }),
      ]);
      expect([running.text, waiting.text]).toEqual(["1 2 3", "waits"]);
      await asksAndGoes(stage, asks("slow 1"));
      await until(async () => (await counts(stage)).openTurns === 0);
      expect((await ask(stage, asks("slow 1"), { headers: marked })).text).toBe("1");
      await asksAndGoes(stage, { ...asks("slow 2"), stream: true });
      const streamed = await stage.call({
        path: COMPLETIONS,
        body: { ...asks("slow 2"), stream: true },
        headers: marked,
      });
      const deltas = [...streamed.text.matchAll(/"content":"([^"]*)"/g)].map(([, words]) => words);
      expect(deltas.join("")).toBe("1 2");
      expect((await counts(stage)).turns).toBe(4);
    }),
  );

  test(
    "F-HTTP-04 T3: the same words without the mark are a new message; so they are after an answer that came whole",
    httpStory(async (stage) => {
      await asksAndGoes(stage, asks("slow 1"));
      const honest = await ask(stage, asks("slow 1"));
      const repeat = await ask(stage, asks("slow 1"), { headers: marked });
      expect(Number(repeat.message)).toBeLessThan(Number(honest.message));
      expect((await counts(stage)).turns).toBe(2);
      for (const headers of [{}, { "x-stainless-retry-count": "0" }, { "x-stainless-retry-count": "x" }, marked])
        await ask(stage, asks("slow 1"), { headers });
      expect((await counts(stage)).turns).toBe(6);
    }),
  );

  test(
    "F-HTTP-04 T3: of another person, in another conversation, to another agent or with other words it is another message",
    httpStory(
      async (stage) => {
        await asksAndGoes(stage, asks("slow 1"));
        await ask(stage, asks("slow 1"), { headers: marked, token: BOB });
        await ask(stage, asks("slow 1", "other"), { headers: marked });
        await ask(stage, asks("slow 1", null), { headers: marked });
        await ask(stage, { ...asks("slow 1"), model: "nova" }, { headers: marked });
        await ask(stage, asks("slow 1 "), { headers: marked });
        expect((await counts(stage)).turns).toBe(6);
      },
      {
        people: { bob: { tokens: [BOB] } },
        agents: { main: { runtime: { kind: "demo" } }, nova: { runtime: { kind: "demo" } } },
      },
    ),
  );

  test(
    "F-HTTP-04 T3: no end of a message that was taken in has a status that clients repeat",
    httpStory(async (stage) => {
      let requests = 0;
      /** Repeats as the eager ones do. */
      const insists = async (body: object) => {
        for (let n = 0; ; n++) {
          requests += 1;
          const reply = await ask(stage, body);
          if (![408, 409, 413, 425, 429].includes(reply.status) && reply.status < 500) return reply;
          expect(n).toBeLessThan(3);
        }
      };
      expect((await insists(asks("fail"))).error?.code).toBe("runtime_failed");
      expect((await insists(asks("die"))).error?.code).toBe("runtime_died");
      const stopped = insists(asks("hang"));
      await until(() => stage.gateway.turns.running === 1);
      await ask(stage, asks("/stop"));
      expect((await stopped).error?.code).toBe("turn_interrupted");
      const reset = insists(asks("hang"));
      await until(() => stage.gateway.turns.running === 1);
      const withdrawn = insists(asks("say waits"));
      await until(async () => (await counts(stage)).openTurns === 2);
      await ask(stage, asks("/new"));
      expect([(await reset).error?.code, (await withdrawn).error?.code]).toEqual([
        "turn_interrupted",
        "turn_withdrawn",
      ]);
      const cut = insists(asks("hang"));
      await until(() => stage.gateway.turns.running === 1);
      const left = insists(asks("say left"));
      await until(async () => (await counts(stage)).openTurns === 2);
      await stage.restart();
      expect([(await cut).error?.code, (await left).error?.code]).toEqual(["turn_interrupted", "gateway_stopping"]);
      await until(async () => (await counts(stage)).openTurns === 0);
      expect((await counts(stage)).turns).toBe(requests);
    }),
  );

  test(
    "F-HTTP-04 T3: a failed turn is not repeated by the official client, and is its error",
    httpStory(async (stage) => {
      const client = stage.client({ maxRetries: 2 });
      const failed = client.chat.completions.create({ model: "main", ...asks("fail"), user: "me" });
      const cause: unknown = await failed.catch((reason) => reason);
      expect(cause).toBeInstanceOf(OpenAI.APIError);
      expect(cause).toMatchObject({ status: 424, code: "runtime_failed", type: "server_error" });
      expect((await counts(stage)).turns).toBe(1);
    }),
  );
});
