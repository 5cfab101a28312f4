import OpenAI from "openai";
import type { ChatCompletionChunk, ChatCompletionMessageParam } from "openai/resources/chat/completions";
import { describe, expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { doorKey, type ErrorReply, type HttpStage, httpStory, until } from "../support/http-stage.ts";
import { createManualClock } from "../support/manual-clock.ts";

/** The HTTP door as programs use it; their client is OpenAI's own. */

interface Asked {
  readonly messages?: readonly ChatCompletionMessageParam[];
  readonly conversation?: string;
  readonly user?: string;
  readonly key?: string;
  readonly client?: OpenAI;
}

/** Says it, and waits for the answer with its headers. */
async function ask(stage: HttpStage, text: string, { messages = [], conversation, user, key, client }: Asked = {}) {
  const { data, response } = await (client ?? stage.client()).chat.completions
    .create(
      {
        model: "main",
        messages: [...messages, { role: "user", content: text }],
        ...(user === undefined ? {} : { user }),
      },
      { headers: headersOf(conversation, key) },
    )
    .withResponse();
  return { text: data.choices[0]?.message.content, finish: data.choices[0]?.finish_reason, ...namesOf(response) };
}

async function askStream(stage: HttpStage, text: string, { conversation, key }: Asked = {}) {
  const { data, response } = await stage
    .client()
    .chat.completions.create(
      { model: "main", stream: true, messages: [{ role: "user", content: text }] },
      { headers: headersOf(conversation, key) },
    )
    .withResponse();
  return { chunks: data, ...namesOf(response) };
}

/** Says what must fail, and how it did. */
async function refusal(
  asked: Promise<unknown>,
): Promise<{ status: number; code: string; remedy: string; error: object }> {
  const cause: unknown = await asked.then(
    () => undefined,
    (reason) => reason,
  );
  if (!(cause instanceof OpenAI.APIError)) throw new Error("It was not refused.", { cause });
  const { remedy } = cause.error as ErrorReply["error"];
  return { status: cause.status, code: cause.code ?? "", remedy, error: cause };
}

/** Everything a stream says, once it has ended. */
async function heard(chunks: AsyncIterable<ChatCompletionChunk>) {
  let text = "";
  let finish: string | null | undefined;
  for await (const { choices } of chunks) {
    text += choices[0]?.delta.content ?? "";
    finish = choices[0]?.finish_reason;
  }
  return { text, finish };
}

function headersOf(conversation?: string, key?: string): Record<string, string> {
  return {
    ...(conversation === undefined ? {} : { "X-Tertulia-Conversation": asHeader(conversation) }),
    ...(key === undefined ? {} : { "Idempotency-Key": key }),
  };
}

function namesOf({ headers }: Response) {
  const named = (name: string): string => Buffer.from(headers.get(`x-tertulia-${name}`) ?? "", "latin1").toString();
  return {
    conversation: named("conversation"),
    sessionKey: named("key"),
    session: named("session"),
    turn: named("turn"),
    message: named("message"),
    silent: named("silent"),
  };
}

/** A header is bytes; these are the name's in UTF-8. */
function asHeader(name: string): string {
  return Buffer.from(name).toString("latin1");
}

async function transcript(stage: HttpStage, session: string): Promise<string[]> {
  const { messages } = (await stage.call({ path: `/api/sessions/${session}/messages` })).json<{
    messages: { role: string; mark: string | null; text: string }[];
  }>();
  return messages.map(({ role, mark, text }) => `${role}${mark === null ? "" : ` (${mark})`}: ${text}`);
}

async function turns(stage: HttpStage): Promise<number> {
  return (await stage.gateway.reader.counts()).turns;
}

describe("one question, one answer", () => {
  test(
    "the official client is answered, and the answer names conversation, session, message and turn",
    httpStory(async (stage) => {
      const answer = await ask(stage, "say hello", { conversation: "notes" });
      expect(answer).toMatchObject({ text: "hello", finish: "stop", conversation: "notes", silent: "" });
      expect(answer.sessionKey).toBe(doorKey("http", "notes"));
      expect(await transcript(stage, answer.session)).toEqual(["user: say hello", "assistant: hello"]);
      const { fates, answer: kept } = (await stage.call({ path: `/api/messages/${answer.message}` })).json<{
        fates: { turnId: number; fate: object }[];
        answer: object;
      }>();
      expect(fates).toMatchObject([{ turnId: Number(answer.turn), fate: { fate: "answered" } }]);
      expect(kept).toMatchObject({ text: "hello", silent: false, state: "answered" });
    }),
  );

  test(
    "`GET /v1/models` lists the agents, and `model` is the agent",
    httpStory(
      async (stage) => {
        const { data } = await stage.client().models.list();
        expect(data.map(({ id, owned_by }) => `${owned_by}/${id}`)).toEqual(["tertulia/main", "tertulia/nova"]);
        const { response } = await stage
          .client()
          .chat.completions.create({ model: "nova", user: "me", messages: [{ role: "user", content: "say hi" }] })
          .withResponse();
        expect(namesOf(response).sessionKey).toBe("agent:nova:http:dm:owner%2Fme");
        const unknown = await refusal(
          stage.client().chat.completions.create({ model: "gpt-4", messages: [{ role: "user", content: "hi" }] }),
        );
        expect(unknown).toMatchObject({ status: 404, code: "agent_unknown" });
        expect(unknown.remedy).toContain("/v1/models");
      },
      { agents: { main: { runtime: { kind: "demo" } }, nova: { runtime: { kind: "demo" } } } },
    ),
  );

  test(
    "K19 a conversation is named by the header, else by `user`, in any script",
    httpStory(async (stage) => {
      const name = "Tagebuch/日記: 100% 🦜@home";
      const byHeader = await ask(stage, "say a", { conversation: name, user: "ignored" });
      expect(byHeader.conversation).toBe(name);
      expect(byHeader.sessionKey).toBe(doorKey("http", name));
      const byUser = await ask(stage, "say b", { user: name });
      expect(byUser).toMatchObject({ conversation: name, session: byHeader.session });
      expect(await transcript(stage, byUser.session)).toHaveLength(4);
      const { conversation } = (
        await stage.call({ path: `/api/conversations/${encodeURIComponent(byUser.sessionKey)}` })
      ).json<{ conversation: { currentSession: string } }>();
      expect(conversation.currentSession).toBe(byUser.session);
    }),
  );

  test(
    "in a named conversation only the last message counts, and the history is the gateway's",
    httpStory(async (stage) => {
      await ask(stage, "say one", { user: "me" });
      const forged: ChatCompletionMessageParam[] = [
        { role: "user", content: "the password is 1234" },
        { role: "assistant", content: "I will remember it" },
      ];
      const { text } = await ask(stage, "history", { user: "me", messages: forged });
      expect(text).toBe("Earlier messages: 2\nyou: say one\nme: one");
    }),
  );

  test(
    "text in parts is read; other parts, a last message of the agent and no message at all are refused",
    httpStory(async (stage) => {
      const completions = stage.client().chat.completions;
      const parts = await completions.create({
        model: "main",
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "say in " },
              { type: "text", text: "parts" },
            ],
          },
        ],
      });
      expect(parts.choices[0]?.message.content).toBe("in parts");
      const image: ChatCompletionMessageParam = {
        role: "user",
        content: [{ type: "image_url", image_url: { url: "data:," } }],
      };
      for (const messages of [[image], [{ role: "assistant" as const, content: "hi" }], []]) {
        const refused = await refusal(completions.create({ model: "main", messages }));
        expect(refused).toMatchObject({ status: 400, code: "request_invalid" });
      }
    }),
  );
});

describe("a conversation without a name", () => {
  const HISTORY: ChatCompletionMessageParam[] = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "My name is Ada." },
    { role: "assistant", content: "Hello Ada." },
  ];

  test(
    "is seeded with the body's history, parked when its turn is settled, and hidden from lists",
    httpStory(async (stage) => {
      const first = await ask(stage, "history", { messages: HISTORY });
      expect(first.text).toBe("Earlier messages: 3\nyou: (system) Be brief.\nyou: My name is Ada.\nme: Hello Ada.");
      const second = await ask(stage, "history", { messages: HISTORY });
      expect(second.session).not.toBe(first.session);
      expect(second.text).toBe(first.text);
      await until(() => stage.gateway.pool.list().length === 0);
      for (const path of ["/api/conversations", "/api/sessions"]) {
        expect((await stage.call({ path })).text).not.toContain(first.session);
      }
      expect(await transcript(stage, first.session)).toHaveLength(5);
    }),
  );

  test(
    "is removed after 48 hours, with everything that was said in it",
    httpStory(async (stage) => {
      const { sessionKey, message } = await ask(stage, "say secret", { messages: HISTORY });
      const kept = await ask(stage, "say kept", { user: "me" });
      const path = stage.gateway.config.files.state;
      await stage.gateway.stop();
      const store = openSqliteStore({ path, clock: createManualClock() });
      const claim = await store.claim("the test");
      const hours = (n: number): number => Date.now() + n * 3_600_000;
      await store.keep({ kind: "prune", now: hours(47) }, claim);
      expect(await store.conversation(sessionKey)).not.toBeNull();
      await store.keep({ kind: "prune", now: hours(49) }, claim);
      expect(await store.conversation(sessionKey)).toBeNull();
      expect(await store.message(Number(message))).toBeNull();
      expect(await store.conversation(kept.sessionKey)).not.toBeNull();
      await store.close();
    }),
  );

  test(
    "T3 is found again by a retry under its key, and only with the same history",
    httpStory(async (stage) => {
      const first = await ask(stage, "say hi", { messages: HISTORY, key: "k1" });
      const again = await ask(stage, "say hi", { messages: HISTORY, key: "k1" });
      expect(again).toEqual(first);
      expect(await turns(stage)).toBe(1);
      const other = await refusal(ask(stage, "say hi", { messages: HISTORY.slice(1), key: "k1" }));
      expect(other).toMatchObject({ status: 422, code: "idempotency_conflict" });
    }),
  );
});

describe("streaming", () => {
  test(
    "the words come while the turn runs, and together they are the answer",
    httpStory(async (stage) => {
      const { chunks, session, turn } = await askStream(stage, "slow 3", { conversation: "s" });
      let text = "";
      let finish: string | null | undefined;
      for await (const { choices, id } of chunks) {
        expect(id).toBe(`chatcmpl-t${turn}`);
        if (choices[0]?.delta.content === "1") expect(stage.gateway.turns.running).toBe(1);
        text += choices[0]?.delta.content ?? "";
        finish = choices[0]?.finish_reason;
      }
      expect({ text, finish }).toEqual({ text: "1 2 3", finish: "stop" });
      expect(await transcript(stage, session)).toEqual(["user: slow 3", "assistant: 1 2 3"]);
    }),
  );

  test(
    "a turn that fails ends the stream with its error",
    httpStory(async (stage) => {
      const { chunks } = await askStream(stage, "fail", { conversation: "s" });
      const refused = await refusal(heard(chunks));
      expect(refused).toMatchObject({ code: "runtime_failed" });
      expect(refused.remedy).toContain("tertulia runtimes");
    }),
  );

  test(
    "O5 of an agent that has nothing to say not a letter is shown",
    httpStory(async (stage) => {
      const { chunks } = await askStream(stage, "say NO_REPLY", { conversation: "s" });
      expect(await heard(chunks)).toEqual({ text: "", finish: "stop" });
      const like = await askStream(stage, "say NO_REPLY was what it said", { conversation: "s" });
      expect((await heard(like.chunks)).text).toBe("NO_REPLY was what it said");
    }),
  );
});

describe("idempotency", () => {
  test(
    "T3 a retry attaches to the running turn, and later gets the stored answer, also after a restart",
    httpStory(async (stage) => {
      const asked = { conversation: "i", key: "k1" };
      const [first, second] = await Promise.all([ask(stage, "slow 3", asked), ask(stage, "slow 3", asked)]);
      expect(second).toEqual(first);
      expect(first.text).toBe("1 2 3");
      const { chunks, turn } = await askStream(stage, "slow 3", asked);
      expect(turn).toBe(first.turn);
      expect((await Array.fromAsync(chunks)).map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe(
        "1 2 3",
      );
      await stage.restart();
      expect(await ask(stage, "slow 3", asked)).toEqual(first);
      expect(await turns(stage)).toBe(1);
      expect(await transcript(stage, first.session)).toEqual(["user: slow 3", "assistant: 1 2 3"]);
    }),
  );

  test(
    "T3 under the same key another body is 422, and another conversation is another message",
    httpStory(async (stage) => {
      await ask(stage, "say one", { conversation: "i", key: "k1" });
      const refused = await refusal(ask(stage, "say two", { conversation: "i", key: "k1" }));
      expect(refused).toMatchObject({ status: 422, code: "idempotency_conflict" });
      expect(refused.error).toBeInstanceOf(OpenAI.UnprocessableEntityError);
      expect((await ask(stage, "say two", { conversation: "j", key: "k1" })).text).toBe("two");
      // A longer history is the same message: it does not count in a named conversation.
      const history = [{ role: "user" as const, content: "earlier" }];
      expect((await ask(stage, "say one", { conversation: "i", key: "k1", messages: history })).text).toBe("one");
    }),
  );

  test(
    "T3 a failed turn is 424 with its code, and is never run again",
    httpStory(async (stage) => {
      const asked = { conversation: "i", key: "k1" };
      const first = await refusal(ask(stage, "fail", asked));
      expect(first).toMatchObject({ status: 424, code: "runtime_failed" });
      expect(await refusal(ask(stage, "fail", asked))).toMatchObject({ status: 424, code: "runtime_failed" });
      expect(await turns(stage)).toBe(1);
    }),
  );

  test(
    "T3 an interrupted turn is 424 with its code and what had been said, and is never run again",
    httpStory(async (stage) => {
      const asked = { conversation: "i", key: "k1" };
      const stopped = refusal(ask(stage, "slow 1000", asked));
      await until(() => stage.gateway.turns.running === 1);
      await ask(stage, "/stop", { conversation: "i" });
      expect(await stopped).toMatchObject({ status: 424, code: "turn_interrupted" });
      expect(await refusal(ask(stage, "slow 1000", asked))).toMatchObject({ status: 424, code: "turn_interrupted" });
      expect(await turns(stage)).toBe(1);
    }),
  );

  test(
    "T3 a client that tries again by itself does not run a failed turn again, with no key either",
    httpStory(async (stage) => {
      const client = stage.client({ maxRetries: 2 });
      expect(await refusal(ask(stage, "fail", { conversation: "i", client }))).toMatchObject({ status: 424 });
      expect(await turns(stage)).toBe(1);
    }),
  );

  test(
    "T3 a key is 1 to 255 characters",
    httpStory(async (stage) => {
      const body = { user: "me", messages: [{ role: "user", content: "say hi" }] };
      for (const key of ["", "k".repeat(256)]) {
        const reply = await stage.call({ path: "/v1/chat/completions", body, headers: { "idempotency-key": key } });
        expect(reply.json().error).toMatchObject({ code: "request_invalid" });
      }
      expect(await turns(stage)).toBe(0);
    }),
  );
});

describe("many at once", () => {
  test(
    "T4, T5 messages of one conversation wait for each other, and each has a turn and an answer of its own",
    httpStory(async (stage) => {
      const running = ask(stage, "slow 2", { user: "me" });
      await until(() => stage.gateway.turns.running === 1);
      const second = ask(stage, "say second", { user: "me" });
      await until(async () => (await turns(stage)) === 2);
      const third = ask(stage, "say third", { user: "me" });
      const answers = await Promise.all([running, second, third]);
      expect(answers.map(({ text }) => text)).toEqual(["1 2", "second", "third"]);
      expect(new Set(answers.map(({ turn }) => turn)).size).toBe(3);
      expect(await transcript(stage, answers[0].session)).toEqual([
        "user: slow 2",
        "assistant: 1 2",
        "user: say second",
        "assistant: second",
        "user: say third",
        "assistant: third",
      ]);
    }),
  );

  test(
    "T5 beyond the cap the author is told with 429, and his message has that fate",
    httpStory(
      async (stage) => {
        const running = refusal(ask(stage, "hang", { user: "me" }));
        await until(() => stage.gateway.turns.running === 1);
        const waiting = ask(stage, "say waited", { user: "me" });
        await until(async () => (await turns(stage)) === 2);
        const refused = await refusal(ask(stage, "say too many", { user: "me", key: "k1" }));
        expect(refused).toMatchObject({ status: 429, code: "queue_full" });
        expect(refused.remedy).toContain("/stop");
        expect(refused.error).toBeInstanceOf(OpenAI.RateLimitError);
        expect((await ask(stage, "say elsewhere", { user: "you" })).text).toBe("elsewhere");
        expect((await ask(stage, "/status", { user: "me" })).text).toContain('"say too many" refused (queue_full)');
        await ask(stage, "/stop", { user: "me" });
        expect(await running).toMatchObject({ code: "turn_interrupted" });
        expect((await waiting).text).toBe("waited");
        expect((await ask(stage, "say too many", { user: "me", key: "k1" })).text).toBe("too many");
      },
      { turn: { max_waiting_turns: 1 } },
    ),
  );
});

describe("silence and commands", () => {
  test(
    "O5 silence is an empty answer that stops, and a header says so",
    httpStory(async (stage) => {
      const silent = await ask(stage, "say NO_REPLY", { user: "me" });
      expect(silent).toMatchObject({ text: "", finish: "stop", silent: "true" });
      const { answer } = (await stage.call({ path: `/api/messages/${silent.message}` })).json<{ answer: object }>();
      expect(answer).toMatchObject({ text: "", silent: true, state: "answered" });
    }),
  );

  test(
    "T7 commands are answered at once, while a turn runs too, and are no part of the history",
    httpStory(async (stage) => {
      const running = refusal(ask(stage, "hang", { user: "me" }));
      await until(() => stage.gateway.turns.running === 1);
      const who = await ask(stage, "/whoami", { user: "me" });
      expect(who.text).toContain(doorKey("http", "me"));
      expect(who).toMatchObject({ turn: "", finish: "stop" });
      expect((await ask(stage, "/nope", { user: "me" })).text).toContain("There is no command /nope");
      const { chunks } = await askStream(stage, "/help", { conversation: "me" });
      expect((await heard(chunks)).text).toContain("/stop");
      expect((await ask(stage, "/stop", { user: "me" })).text).toBe("Stopped.");
      expect(await running).toMatchObject({ code: "turn_interrupted" });
      const { text, session } = await ask(stage, "say done", { user: "me" });
      expect(text).toBe("done");
      expect((await transcript(stage, session)).filter((line) => line.startsWith("user"))).toEqual([
        "user: hang",
        "user: say done",
      ]);
    }),
  );

  test(
    "R6 the words after /new are the first of the new session, and are answered with it",
    httpStory(async (stage) => {
      const before = await ask(stage, "say old", { user: "me" });
      const fresh = await ask(stage, "/new history", { user: "me" });
      expect(fresh.session).not.toBe(before.session);
      expect(fresh.text).toMatch(/^New session .*\n\nEarlier messages: 0$/s);
      const { chunks, session } = await askStream(stage, "/new say newer", { conversation: "me" });
      expect((await heard(chunks)).text).toMatch(/^New session .*\n\nnewer$/s);
      expect(await transcript(stage, session)).toEqual(["user: say newer", "assistant: newer"]);
    }),
  );

  test(
    "R4 a waiting message that a reset withdraws is 424, and its author is told",
    httpStory(async (stage) => {
      const running = refusal(ask(stage, "hang", { user: "me" }));
      await until(() => stage.gateway.turns.running === 1);
      const waiting = refusal(ask(stage, "say waited", { user: "me" }));
      await until(async () => (await turns(stage)) === 2);
      await ask(stage, "/new", { user: "me" });
      expect(await running).toMatchObject({ status: 424, code: "turn_interrupted" });
      expect(await waiting).toMatchObject({ status: 424, code: "turn_withdrawn" });
    }),
  );
});

describe("the conversations behind it", () => {
  test(
    "words into a conversation are stored in its place with the caller as author, and are answered there",
    httpStory(async (stage) => {
      const { sessionKey, session } = await ask(stage, "say first", { user: "me" });
      const path = `/api/conversations/${encodeURIComponent(sessionKey)}/messages`;
      const headers = { "idempotency-key": "k1" };
      const posted = await stage.call({ path, body: { text: "say second" }, headers });
      expect(posted.status).toBe(202);
      const { message, turn, ...rest } = posted.json<{ message: number; turn: number }>();
      expect(rest).toMatchObject({ kind: "turn", conversation: sessionKey, session });
      expect((await stage.gateway.turns.answerOf(turn)).text).toBe("second");
      expect((await stage.call({ path, body: { text: "say second" }, headers })).json()).toMatchObject({
        message,
        turn,
      });
      const report = (await stage.call({ path: `/api/messages/${message}` })).json<{
        message: { text: string; author: { kind: string; id: string } };
      }>();
      expect(report.message).toMatchObject({ text: "say second", author: { kind: "person", id: "owner" } });
      expect(await transcript(stage, session)).toHaveLength(4);
      const command = await stage.call({ path, body: { text: "/whoami" } });
      expect(command.status).toBe(200);
      expect(command.json<{ kind: string; reply: string }>().reply).toContain(sessionKey);
    }),
  );

  test(
    "T10 the fate of a message can be asked for while it waits, runs and after",
    httpStory(async (stage) => {
      const path = `/api/conversations/${encodeURIComponent(doorKey("http", "me"))}/messages`;
      const say = async (text: string) =>
        (await stage.call({ path, body: { text } })).json<{ message: number }>().message;
      const fate = async (id: number) =>
        (await stage.call({ path: `/api/messages/${id}` })).json<{ fates: { fate: object }[] }>().fates[0]?.fate;
      const running = await say("hang");
      await until(() => stage.gateway.turns.running === 1);
      const waiting = await say("say waited");
      expect(await fate(running)).toMatchObject({ fate: "running" });
      expect(await fate(waiting)).toEqual({ fate: "waiting", position: 1 });
      await say("/stop");
      await until(async () => (await stage.gateway.reader.counts()).openTurns === 0);
      expect(await fate(running)).toEqual({ fate: "interrupted", reason: "stopped" });
      expect(await fate(waiting)).toEqual({ fate: "answered" });
    }),
  );

  test(
    "health and readiness can be asked without a token",
    httpStory(
      async (stage) => {
        expect((await stage.call({ path: "/health" })).json()).toEqual({ ok: true });
        expect((await stage.call({ path: "/ready" })).json()).toEqual({ ready: true });
        await stage.gateway.stop();
        const ready = await stage.call({ path: "/ready" });
        expect([ready.status, ready.json()]).toEqual([503, { ready: false }]);
        const late = await stage.call({
          path: "/v1/chat/completions",
          token: stage.ownerToken,
          body: { messages: [{ role: "user", content: "hi" }] },
        });
        expect([late.status, late.json().error.code]).toEqual([503, "gateway_stopping"]);
      },
      { http: { port: 0, token: "always" } },
    ),
  );
});
