import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import OpenAI from "openai";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import { afterEach, describe, expect, test, vi } from "vitest";
import { bytesOf, completionBytes, doorKey, type HttpStage, httpStory, until } from "../support/http-stage.ts";

/** What OpenAI's clients and programs around them rely on at the HTTP door, besides question and answer. */

const COMPLETIONS = "/v1/chat/completions";
const says = (text: string): ChatCompletionMessageParam[] => [{ role: "user", content: text }];

async function say(stage: HttpStage, body: object, headers: Record<string, string> = {}) {
  const reply = await stage.call({ path: COMPLETIONS, body, headers });
  const { choices } = reply.json<{ choices?: { message: { content: string } }[] }>();
  return {
    status: reply.status,
    text: choices?.[0]?.message.content,
    conversation: String(reply.headers["x-tertulia-conversation"]),
    key: String(reply.headers["x-tertulia-key"]),
    session: reply.headers["x-tertulia-session"],
  };
}

afterEach(() => {
  vi.useRealTimers();
});

// The kind: every stream that is handed out, whatever keeps it silent: a silent agent, a turn that waits, events that do not come.
describe("F-HTTP-01 streams are never silent for long", () => {
  const BEAT = ": keepalive\n\n";

  test.each([
    ["the agent is silent", [{ user: "me", messages: says("hang"), stream: true }]],
    [
      "the turn waits for another one",
      [
        { user: "me", messages: says("hang") },
        { user: "me", messages: says("say later"), stream: true },
      ],
    ],
  ])("F-HTTP-01 O6: a completion has a comment every 15 s while %s", (_, bodies) =>
    httpStory(async (stage) => {
      vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
      const wires = [];
      for (const body of bodies) {
        const wire = stage.connect();
        wire.send(completionBytes(body));
        wires.push(wire);
        await until(async () => (await stage.gateway.reader.counts()).turns === wires.length);
      }
      const stream = wires.at(-1)!;
      expect(await stream.received('"role":"assistant"')).not.toContain(BEAT);
      for (let beats = 1; beats <= 3; beats++) {
        vi.advanceTimersByTime(15_000);
        await until(async () => (await stream.received(BEAT)).split(BEAT).length - 1 === beats);
      }
      expect((await say(stage, { user: "me", messages: says("/stop") })).text).toBe("Stopped.");
      for (const wire of wires) wire.vanish();
      await until(async () => (await stage.gateway.reader.counts()).openTurns === 0);
    })(),
  );

  test(
    "F-HTTP-01 O6: the official client reads on behind the comments",
    httpStory(async (stage) => {
      vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
      const chunks = await stage
        .client()
        .chat.completions.create({ model: "main", stream: true, messages: says("slow 3") });
      let text = "";
      for await (const { choices } of chunks) {
        text += choices[0]?.delta.content ?? "";
        vi.advanceTimersByTime(15_000);
      }
      expect(text).toBe("1 2 3");
    }),
  );

  test(
    "F-HTTP-01 O6: the stream of events has an event as often",
    httpStory(async (stage) => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
      const wire = stage.connect();
      wire.send(bytesOf("GET", "/api/events", { Host: "localhost" }));
      await wire.received("event: hello");
      vi.advanceTimersByTime(15_000);
      await wire.received("event: keepalive");
      wire.vanish();
      vi.useRealTimers();
    }),
  );
});

// The kind: what a client asks of the stream beside the words, and what it does not ask.
describe("F-HTTP-05 usage at the end of a stream", () => {
  test.each([
    ["an answer", "say one two", { prompt: true, completion: 2 }],
    ["silence", "say NO_REPLY", { prompt: true, completion: 1 }],
    ["a command", "/whoami", { prompt: false, completion: 0 }],
  ])("F-HTTP-05: of %s, in the last chunk, where it was asked for", (_, text, counted) =>
    httpStory(async (stage) => {
      const asked = { model: "main", user: "me", stream: true as const, messages: says(text) };
      const completions = stage.client().chat.completions;
      const told = await Array.fromAsync(
        await completions.create({ ...asked, stream_options: { include_usage: true } }),
      );
      const last = told.at(-1);
      expect(last?.choices).toEqual([]);
      expect(last?.usage?.completion_tokens).toBe(counted.completion);
      expect((last?.usage?.prompt_tokens ?? 0) > 0).toBe(counted.prompt);
      expect(last?.usage?.total_tokens).toBe((last?.usage?.prompt_tokens ?? 0) + counted.completion);
      expect(told.slice(0, -1).every(({ choices, usage }) => choices.length === 1 && usage == null)).toBe(true);
      expect(told.at(-2)?.choices[0]?.finish_reason).toBe("stop");
      for (const stream_options of [undefined, null, { include_usage: false }]) {
        const plain = await Array.fromAsync(
          await completions.create({ ...asked, ...(stream_options === undefined ? {} : { stream_options }) }),
        );
        expect(plain.every(({ choices, usage }) => choices.length === 1 && usage == null)).toBe(true);
      }
    })(),
  );

  test(
    "F-HTTP-05: none follows an error",
    httpStory(async (stage) => {
      const body = { user: "me", stream: true, stream_options: { include_usage: true }, messages: says("fail") };
      const { text } = await stage.call({ path: COMPLETIONS, body });
      expect(text).toContain("runtime_failed");
      expect(text).not.toContain('"usage"');
    }),
  );
});

// The kind: a long conversation whose client sends all of it each time, whatever older messages hold.
describe("F-HTTP-06 older messages do not count where they are not read", () => {
  const image = { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(1_500_000)}` } };
  const older = {
    "1.2 MB of words": [
      { role: "user", content: "word ".repeat(120_000) },
      { role: "assistant", content: "word ".repeat(120_000) },
    ],
    "escapes that are longer than what they say": [{ role: "user", content: "日".repeat(400_000) }],
    "an image": [
      { role: "user", content: [{ type: "text", text: "look" }, image] },
      { role: "assistant", content: null, tool_calls: null },
    ],
  };

  test.each(Object.entries(older))("F-HTTP-06: %s", (_, messages) =>
    httpStory(async (stage) => {
      const body = { messages: [...messages, ...says("say short")] };
      // As Python writes it.
      const json = JSON.stringify({ ...body, user: "me" }).replace(
        /[^\0-\x7f]/g,
        (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
      );
      expect((await say(stage, Buffer.from(json))).text).toBe("short");
      expect((await say(stage, body, { "X-Tertulia-Conversation": "me" })).text).toBe("short");
      const unnamed = await stage.call({ path: COMPLETIONS, body });
      expect([unnamed.status, unnamed.json().error.code]).toEqual([413, "body_too_large"]);
    })(),
  );

  test(
    "F-HTTP-06: the last message counts, also behind older ones",
    httpStory(async (stage) => {
      const messages = [...says("before"), ...says("x".repeat(1_000_000))];
      const reply = await stage.call({ path: COMPLETIONS, body: { user: "me", messages } });
      expect([reply.status, reply.json().error.code]).toEqual([413, "body_too_large"]);
      expect((await stage.gateway.reader.counts()).messages).toBe(0);
    }),
  );
});

// The kind: null in any field that can be left out, at every route that takes a body.
describe("F-HTTP-07 null is as absent", () => {
  test(
    "F-HTTP-07: in a completion, in its messages and in their parts",
    httpStory(async (stage) => {
      const body = {
        model: null,
        user: null,
        stream: null,
        stream_options: null,
        temperature: null,
        tools: null,
        messages: [
          { role: "assistant", content: null, name: null, tool_calls: null },
          {
            role: "user",
            name: null,
            content: [
              { type: "text", text: null },
              { type: "text", text: "say hi" },
            ],
          },
        ],
      };
      expect((await say(stage, body)).text).toBe("hi");
      const streamed = await stage.call({
        path: COMPLETIONS,
        body: { ...body, stream: true, stream_options: { include_usage: null } },
      });
      expect(streamed.status).toBe(200);
      expect(streamed.text).not.toContain('"usage"');
    }),
  );

  test(
    "F-HTTP-07: in what is sent elsewhere and bound there, and in what is brought in",
    httpStory(async (stage) => {
      const { session } = await say(stage, { user: "me", messages: says("say hi") });
      const room = doorKey("http", "other");
      const calls: [string, object][] = [
        ["/api/send", { room, text: "hello", agent: null, share: null, session: null }],
        ["/api/handoff", { room, agent: null, session, pin: null, share: null }],
        ["/api/handoff/clear", { room, agent: null }],
        [
          "/api/foreign/hermes",
          {
            agent: "main",
            sessions: [
              {
                ...{ id: "1", freshId: "hermes_1", parentId: null, ownerPerson: null, platform: "cli", title: null },
                ...{ openedAt: 1, endedAt: 2, endReason: "left" },
                messages: [{ id: 1, role: "user", text: "hi", at: 1, author: null }],
              },
            ],
          },
        ],
      ];
      for (const [path, body] of calls) {
        const reply = await stage.call({ path, body });
        expect([path, reply.status, reply.text]).toEqual([path, 200, expect.not.stringContaining('"error"')]);
      }
    }),
  );
});

describe("F-HTTP-08 one model", () => {
  test(
    "F-HTTP-08: each that is listed can be asked for, and others are 404",
    httpStory(
      async (stage) => {
        const { models } = stage.client();
        const { data } = await models.list();
        for (const model of data) expect(await models.retrieve(model.id)).toEqual(model);
        expect(data.map(({ id }) => id)).toEqual(["main", "nova-2"]);
        for (const id of ["gpt-4", "constructor", "__proto__", "MAIN", "a/b", "main "]) {
          await expect(models.retrieve(id)).rejects.toBeInstanceOf(OpenAI.NotFoundError);
        }
        expect((await stage.call({ method: "HEAD", path: "/v1/models/main" })).status).toBe(200);
      },
      { agents: { main: { runtime: { kind: "demo" } }, "nova-2": { runtime: { kind: "demo" } } } },
    ),
  );
});

// The kind: a name or a key that is handed out in a header leads back to its own conversation, whatever is in it.
describe("F-HTTP-09 names come back as they were handed out", () => {
  const NAMES = [
    ...["a", "a ", " a", " a  ", " ", "a\t", "a\nX-Evil: 1", "a%20", "a%2520", "100%", "%", "UTF-8''a%20", "utf-8''"],
    ...["日記 ", "caf\u00e9", "\u00a0a\u00a0", "\uFFFD", "\ufeffa", "🦜", "a\ud800", "a\ud801", "a\udc00", "\ud800a"],
    ...["owner/x", "../a", "agent:main:http:dm:owner%2Fa", "a\u2028b", "a?b#c&d=e"],
  ];

  test(
    "F-HTTP-09 K19: by the name's header, by `user` and by the key in the URL, each to its own conversation",
    httpStory(async (stage) => {
      const keys = new Map<string, string>();
      for (const name of NAMES) {
        const first = await say(stage, { user: name, messages: says("say hi") });
        expect([name, first.status]).toEqual([name, 200]);
        expect([name, keys.get(first.key)]).toEqual([name, undefined]);
        keys.set(first.key, name);
        const { conversation, key, session } = first;
        const back = await say(stage, { messages: says("say hi") }, { "X-Tertulia-Conversation": conversation });
        expect([name, back.session, back.conversation]).toEqual([name, session, conversation]);
        // A header holds bytes: the key's in UTF-8.
        const path = `/api/conversations/${encodeURIComponent(Buffer.from(key, "latin1").toString())}`;
        const { conversation: row } = (await stage.call({ path })).json<{ conversation: { currentSession: string } }>();
        expect([name, row.currentSession]).toEqual([name, session]);
        const into = await stage.call({ path: `${path}/messages`, body: { text: "say hi" } });
        expect(into.json()).toMatchObject({ session });
      }
      const { conversations } = (await stage.call({ path: "/api/conversations" })).json<{ conversations: object[] }>();
      expect(conversations.length).toBe(NAMES.length);
    }),
  );
});

test(
  "F-HTTP-09 K19: a conversation of before, whose key ended with a space, is found under its key of today",
  httpStory(async (stage) => {
    const { session } = await say(stage, { user: "a ", messages: says("say hi") });
    const [toTheNewForm] = readFileSync("sql/0007-requests.sql", "utf8").match(/^UPDATE .+;$/m) ?? [];
    using state = new DatabaseSync(stage.gateway.config.files.state);
    expect(state.prepare("UPDATE conversation SET key = replace(key, '%20', ' ')").run().changes).toBe(1);
    state.exec(toTheNewForm!);
    expect((await say(stage, { user: "a ", messages: says("say hi") })).session).toBe(session);
  }),
);

// The kind: what a message causes to be told at other doors is not its own answer.
describe("F-HTTP-10 a notice is shown once, at its own door", () => {
  test(
    "F-HTTP-10 H10: when a binding ends, the answer has the notice once, whole, streamed and as the API says it",
    httpStory(async (stage) => {
      const ways = {
        whole: async () => (await say(stage, { user: "guest", messages: says("say mine") })).text ?? "",
        streamed: async () => {
          const chunks = await stage
            .client()
            .chat.completions.create({ model: "main", user: "guest", stream: true, messages: says("say mine") });
          const deltas = await Array.fromAsync(chunks);
          return deltas.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
        },
        posted: async () => {
          const path = `/api/conversations/${encodeURIComponent(doorKey("http", "guest"))}/messages`;
          const reply = await stage.call({ path, body: { text: "say mine" } });
          return reply.json<{ notices: string[] }>().notices.join("\n");
        },
      };
      for (const [way, answer] of Object.entries(ways)) {
        const { session } = await say(stage, { user: way, messages: says("say home") });
        await stage.call({ path: "/api/handoff", body: { room: doorKey("http", "guest"), session, pin: true } });
        using state = new DatabaseSync(stage.gateway.config.files.state);
        state.prepare("UPDATE session SET owner_person = 'somebody' WHERE id = ?").run(String(session));
        const text = await answer();
        expect([way, text.match(/The handoff between/g)?.length]).toEqual([way, 1]);
      }
    }),
  );
});
