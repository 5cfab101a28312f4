import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  bytesOf,
  completionBytes,
  doorKey,
  type ErrorReply,
  type HttpStage,
  httpStory,
  type Reply,
  until,
} from "../support/http-stage.ts";

/** What the HTTP door answers to those who do not keep to the rules, by malice or by accident. */

const unhandled: unknown[] = [];
const note = (reason: unknown): void => void unhandled.push(reason);
beforeAll(() => void process.on("unhandledRejection", note));
afterAll(() => {
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});

const COMPLETIONS = "/v1/chat/completions";
const HOST = { Host: "localhost", Connection: "close" };
const JSON_HEADERS = { ...HOST, "Content-Type": "application/json" };

const asks = (text: unknown, user = "me") => ({ user, messages: [{ role: "user", content: text }] });

async function ask(stage: HttpStage, text: string, user = "me"): Promise<Reply & { answer: string; session: string }> {
  const reply = await stage.call({ path: COMPLETIONS, body: asks(text, user) });
  const { choices } = reply.json<{ choices?: { message: { content: string } }[] }>();
  return {
    ...reply,
    answer: choices?.[0]?.message.content ?? "",
    session: String(reply.headers["x-tertulia-session"]),
  };
}

async function transcript(stage: HttpStage, sessionId: string): Promise<string[]> {
  const entries = await stage.gateway.reader.transcript({ sessionId, limit: 1_000 });
  return entries.map(({ role, text }) => `${role}: ${text}`);
}

/** Sends bytes, and reads the one answer there is until the other end closes. */
async function exchange(stage: HttpStage, ...bytes: (string | Buffer)[]) {
  const wire = stage.connect();
  for (const some of bytes) wire.send(some);
  return readAnswer(await wire.closed());
}

function readAnswer(text: string) {
  const [head = "", ...rest] = text.split("\r\n\r\n");
  const body = rest.join("\r\n\r\n");
  return {
    status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1]),
    head: head.toLowerCase(),
    error: () => (JSON.parse(/\{.*\}/s.exec(body)?.[0] ?? "{}") as ErrorReply).error,
    body,
  };
}

/** The shape that docs/http.md promises of every error. */
function isError(error: ErrorReply["error"] | undefined, code: string): void {
  expect(error).toMatchObject({ code, type: expect.stringMatching(/^(invalid_request|server)_error$/), param: null });
  expect(error?.message).toMatch(/^\S.*\.$/s);
  expect(error?.remedy).toMatch(/^\S.*\.$/s);
}

/** The gateway still does its work. */
async function isWell(stage: HttpStage): Promise<void> {
  expect((await ask(stage, "say well", "check")).answer).toBe("well");
}

describe("bodies", () => {
  const deep = "[".repeat(200_000);
  test.each([
    ["nothing", ""],
    ["half an object", '{"messages":[{"role":"user"'],
    ["a trailing comma", '{"messages":[{"role":"user","content":"hi"}],}'],
    ["no JSON", "messages=hi"],
    ["a number", "5"],
    ["null", "null"],
    ["a list", "[]"],
    ["an empty object", "{}"],
    ["messages that are none", '{"messages":"hi"}'],
    ["no messages", '{"messages":[]}'],
    ["an empty message", '{"messages":[{}]}'],
    ["an unknown role", '{"messages":[{"role":"king","content":"hi"}]}'],
    ["a number as text", '{"messages":[{"role":"user","content":5}]}'],
    ["a bottomless list", deep],
    ["a bottomless list that is complete", `{"messages":${deep}${"]".repeat(200_000)}}`],
    ["a prototype", '{"__proto__":{"messages":[{"role":"user","content":"hi"}]}}'],
  ])("%s is 400 and says what is wrong, at every door", (_, body) =>
    httpStory(async (stage) => {
      const conversation = `/api/conversations/${encodeURIComponent(doorKey("http", "me"))}/messages`;
      for (const path of [COMPLETIONS, conversation, "/api/send", "/api/handoff", "/api/messages/permission"]) {
        const reply = await stage.call({ path, body: Buffer.from(body) });
        expect(reply.status).toBe(400);
        isError(reply.json().error, "request_invalid");
      }
      expect((await stage.gateway.reader.counts()).messages).toBe(0);
      await isWell(stage);
    })(),
  );

  test(
    "the limit of a body is 1 MB to the byte, and the error says so",
    httpStory(async (stage) => {
      const frame = JSON.stringify(asks("")).length;
      const fits = await stage.call({ path: COMPLETIONS, body: asks("x".repeat(1_000_000 - frame)) });
      expect(fits.status).toBe(200);
      const over = await stage.call({ path: COMPLETIONS, body: asks("x".repeat(1_000_001 - frame)) });
      expect(over.status).toBe(413);
      isError(over.json().error, "body_too_large");
      expect(over.json().error.remedy).toContain("1 MB");
    }),
  );

  test(
    "E3 where a body may be larger, the remedy says how large",
    httpStory(async (stage) => {
      const batch = stage.connect();
      const headers = { ...JSON_HEADERS, "Content-Length": "64000001" };
      batch.send(bytesOf("POST", "/api/foreign/hermes", headers));
      expect(readAnswer(await batch.closed()).error()).toMatchObject({
        code: "body_too_large",
        remedy: "Send at most 64 MB.",
      });
    }),
  );

  test(
    "more than 32 MB are refused, with a declared length or in chunks, before they have been sent",
    httpStory(async (stage) => {
      const declared = stage.connect();
      declared.send(bytesOf("POST", COMPLETIONS, { ...JSON_HEADERS, "Content-Length": "32000001" }));
      isError(readAnswer(await declared.closed()).error(), "body_too_large");

      const chunked = stage.connect();
      chunked.send(bytesOf("POST", COMPLETIONS, { ...JSON_HEADERS, "Transfer-Encoding": "chunked" }));
      for (let i = 0; i < 33; i++) chunked.send(`f4240\r\n${"x".repeat(1_000_000)}\r\n`);
      isError(readAnswer(await chunked.closed()).error(), "body_too_large");

      const whole = await stage.call({ path: COMPLETIONS, body: asks("x".repeat(2_000_000)) });
      expect(whole.status).toBe(413);
      await isWell(stage);
    }),
  );

  test(
    "a body without an end is not kept, and its connection is closed",
    httpStory(async (stage) => {
      const wire = stage.connect();
      wire.send(bytesOf("POST", COMPLETIONS, { ...JSON_HEADERS, "Transfer-Encoding": "chunked" }));
      const chunk = `186a0\r\n${"x".repeat(100_000)}\r\n`;
      const pump = (): void => {
        if (wire.socket.destroyed) return;
        if (wire.socket.write(chunk)) setImmediate(pump);
        else wire.socket.once("drain", pump);
      };
      pump();
      isError(readAnswer(await wire.closed()).error(), "body_too_large");
      await isWell(stage);
    }),
  );

  test(
    "lengths that contradict each other, and chunks that are none, are 400",
    httpStory(async (stage) => {
      const body = JSON.stringify(asks("hi"));
      const post = (headers: Record<string, string>, text = body) => bytesOf("POST", COMPLETIONS, headers, text);
      const requests = [
        post({ ...JSON_HEADERS, "Content-Length": String(body.length), "Transfer-Encoding": "chunked" }),
        post({ ...JSON_HEADERS, "Content-Length": "5, 6" }),
        post({ ...JSON_HEADERS, "Content-Length": "-1" }),
        post({ ...JSON_HEADERS, "Content-Length": "1e3" }),
        post({ ...JSON_HEADERS, "Transfer-Encoding": "chunked" }, "zz\r\nhello\r\n"),
      ];
      for (const request of requests) {
        const answer = await exchange(stage, request);
        // Where the answer has begun there is nothing to say any more.
        if (Number.isNaN(answer.status)) continue;
        expect(answer.status).toBe(400);
        isError(answer.error(), "request_invalid");
      }
      expect((await stage.gateway.reader.counts()).messages).toBe(0);
      await isWell(stage);
    }),
  );

  test(
    "S6 bytes that are no UTF-8 are refused in a body",
    httpStory(async (stage) => {
      const body = Buffer.concat([
        Buffer.from('{"messages":[{"role":"user","content":"'),
        Buffer.from([0xff, 0xc3]),
        Buffer.from('"}]}'),
      ]);
      const reply = await stage.call({ path: COMPLETIONS, body });
      expect(reply.status).toBe(400);
      isError(reply.json().error, "request_invalid");
      expect(reply.json().error.message).toContain("UTF-8");
    }),
  );
});

describe("texts and names", () => {
  test(
    "S6 lone surrogates and NUL become U+FFFD, escape sequences lose their force, and words stay",
    httpStory(async (stage) => {
      const body = Buffer.from(
        String.raw`{"user":"me","messages":[{"role":"user","content":"say a\ud800b\u0000c\u001b[31md\u009be\u0007f\r\ng\th 🦜"}]}`,
      );
      const reply = await stage.call({ path: COMPLETIONS, body });
      const clean = "a\uFFFDb\uFFFDc[31mdef\ng\th 🦜";
      expect(reply.json<{ choices: { message: { content: string } }[] }>().choices[0]?.message.content).toBe(clean);
      expect(await transcript(stage, String(reply.headers["x-tertulia-session"]))).toEqual([
        `user: say ${clean}`,
        `assistant: ${clean}`,
      ]);
    }),
  );

  test(
    "S6 a seeded history is cleaned like every text",
    httpStory(async (stage) => {
      const body = Buffer.from(
        String.raw`{"messages":[{"role":"user","content":"a\udfffb\u0000\u001b[2J"},{"role":"user","content":"history"}]}`,
      );
      const { choices } = (await stage.call({ path: COMPLETIONS, body })).json<{
        choices: { message: { content: string } }[];
      }>();
      expect(choices[0]?.message.content).toBe("Earlier messages: 1\nyou: a\uFFFDb\uFFFD[2J");
    }),
  );

  test.each([
    ["half a pair", String.raw`a\ud83d`, "a\uFFFDd83d"],
    ["NUL", String.raw`a\u0000b`, "a\uFFFDb"],
    ["a header of its own", String.raw`a\r\nX-Evil: 1`, "a\nX-Evil: 1"],
    ["an escape sequence", String.raw`\u001b[31mred`, "[31mred"],
    ["a way out", "../../owner/x", "../../owner/x"],
    ["a session key", "agent:main:http:dm:owner%2Fx", "agent:main:http:dm:owner%2Fx"],
    ["SQL", "x'; DROP TABLE turn; --", "x'; DROP TABLE turn; --"],
    ["any script", "日記 🦜 العربية", "日記 🦜 العربية"],
  ])("K19 S6 a conversation may be named with %s", (_, written, name) =>
    httpStory(async (stage) => {
      const body = Buffer.from(`{"user":"${written}","messages":[{"role":"user","content":"say hi"}]}`);
      const { status, headers } = await stage.call({ path: COMPLETIONS, body });
      expect(status).toBe(200);
      expect(headers["x-evil"]).toBeUndefined();
      const named = (header: string) => Buffer.from(String(headers[header]), "latin1").toString();
      const { "x-tertulia-conversation": handedOut } = headers;
      if (!name.includes("\n")) expect(named("x-tertulia-conversation")).toBe(name);
      const back = {
        path: COMPLETIONS,
        body: { messages: asks("say back").messages },
        headers: { "X-Tertulia-Conversation": String(handedOut) },
      };
      expect((await stage.call(back)).headers["x-tertulia-key"]).toBe(headers["x-tertulia-key"]);
      expect(named("x-tertulia-key")).toBe(doorKey("http", name));
      const key = encodeURIComponent(doorKey("http", name));
      expect((await stage.call({ path: `/api/conversations/${key}` })).status).toBe(200);
      const again = await stage.call({ path: `/api/conversations/${key}/messages`, body: { text: "say again" } });
      expect(again.json()).toMatchObject({ session: headers["x-tertulia-session"] });
    })(),
  );

  test(
    "K19 a header in bytes that are no UTF-8 is read as Latin-1",
    httpStory(async (stage) => {
      const headers = { "X-Tertulia-Conversation": "caf\u00e9" };
      const reply = await stage.call({ path: COMPLETIONS, body: { messages: asks("say hi").messages }, headers });
      expect(Buffer.from(String(reply.headers["x-tertulia-key"]), "latin1").toString()).toBe(doorKey("http", "café"));
    }),
  );

  test(
    "a name of 512 characters is taken, a longer one refused",
    httpStory(async (stage) => {
      expect((await stage.call({ path: COMPLETIONS, body: asks("say hi", "é".repeat(512)) })).status).toBe(200);
      const long = await stage.call({ path: COMPLETIONS, body: asks("say hi", "é".repeat(513)) });
      isError(long.json().error, "request_invalid");
    }),
  );

  test.each([[""], ["   "], ["\n\t"], ["\u001b"], [[]], [null], [undefined]])(
    "an empty message (%j) is refused",
    (text) =>
      httpStory(async (stage) => {
        const reply = await stage.call({ path: COMPLETIONS, body: asks(text) });
        expect(reply.status).toBe(400);
        isError(reply.json().error, "request_invalid");
        expect(reply.json().error.message).toContain("empty");
        expect((await stage.gateway.reader.counts()).messages).toBe(0);
      })(),
  );

  test.each(["gpt-4", "", "constructor", "__proto__", "main ", "MAIN", "\u001b[31m"])(
    "an unknown agent (%j) is 404",
    (model) =>
      httpStory(async (stage) => {
        for (const one of [model, model.repeat(10_000)]) {
          const reply = await stage.call({ path: COMPLETIONS, body: { ...asks("hi"), model: one } });
          expect(reply.status).toBe(404);
          isError(reply.json().error, "agent_unknown");
        }
      })(),
  );
});

describe("addresses and methods", () => {
  test.each([
    ["/nowhere", 404, "route_unknown"],
    ["/", 404, "route_unknown"],
    ["//", 404, "route_unknown"],
    ["/%", 404, "route_unknown"],
    ["/%ff%00", 404, "route_unknown"],
    ["/v1/../../etc/passwd", 404, "route_unknown"],
    ["/api/sessions/%2e%2e%2f%2e%2e", 404, "session_unknown"],
    ["/api/sessions/%ff", 404, "session_unknown"],
    ["/api/conversations/%", 404, "conversation_unknown"],
    ["/api/conversations/nonsense", 404, "conversation_unknown"],
    ["/api/conversations/%00", 404, "conversation_unknown"],
    ["/api/messages/abc", 400, "request_invalid"],
    ["/api/messages/0", 400, "request_invalid"],
    ["/api/messages/-1", 400, "request_invalid"],
    ["/api/messages/1e3", 400, "request_invalid"],
    ["/api/messages/99999999999999999999", 400, "request_invalid"],
    ["/api/messages/7", 404, "message_unknown"],
    ["/api/sessions?limit=0", 400, "request_invalid"],
    ["/api/sessions?limit=1e9", 400, "request_invalid"],
    ["/api/sessions?limit=many", 400, "request_invalid"],
    ["/\\evil", 400, "request_invalid"],
    ["nowhere", 400, "request_invalid"],
    ["*", 400, "request_invalid"],
    ["http://", 400, "request_invalid"],
    ["http://[nonsense/", 400, "request_invalid"],
    ["/\u00ff", 400, "request_invalid"],
  ])("GET %s is an error in the shape of all", (path, status, code) =>
    httpStory(async (stage) => {
      const answer = await exchange(stage, Buffer.from(bytesOf("GET", path, HOST), "latin1"));
      expect(answer.status).toBe(status);
      expect(answer.head).toContain("content-type: application/json");
      isError(answer.error(), code);
    })(),
  );

  test.each(["", " ", "a b", "/", "a/b", "[", "host:port", "a\u00ff"])("a Host of %j is an error too", (host) =>
    httpStory(async (stage) => {
      const answer = await exchange(
        stage,
        Buffer.from(bytesOf("GET", "/api/whoami", { ...HOST, Host: host }), "latin1"),
      );
      expect([400, 401]).toContain(answer.status);
      isError(answer.error(), answer.status === 400 ? "request_invalid" : "unauthorized");
    })(),
  );

  test(
    "a request without a Host is 400",
    httpStory(async (stage) => {
      for (const version of ["1.1", "1.0"]) {
        const answer = await exchange(stage, `GET /api/whoami HTTP/${version}\r\nConnection: close\r\n\r\n`);
        expect(answer.status).toBe(400);
        isError(answer.error(), "request_invalid");
      }
    }),
  );

  test.each([
    ["PUT", "/v1/models", "GET, HEAD"],
    ["DELETE", "/api/sessions/x", "GET, HEAD"],
    ["PATCH", COMPLETIONS, "POST"],
    ["POST", "/api/events", "GET, HEAD"],
    ["OPTIONS", "/v1/models", "GET, HEAD"],
    ["TRACE", "/api/handoff", "GET, HEAD, POST"],
    ["GET", COMPLETIONS, "POST"],
    ["GET", "/api/send", "POST"],
  ])("%s %s is 405, and Allow says what can be done", (method, path, allow) =>
    httpStory(async (stage) => {
      const headers = method === "GET" ? HOST : { ...JSON_HEADERS, "Content-Length": "0" };
      const answer = await exchange(stage, bytesOf(method, path, headers));
      expect(answer.status).toBe(405);
      expect(answer.head).toContain(`allow: ${allow.toLowerCase()}\r\n`);
      isError(answer.error(), "method_unknown");
    })(),
  );

  test(
    "a method that does not exist is 400, a proxy is 405, and a path that does not exist is 404 by every method",
    httpStory(async (stage) => {
      const made = await exchange(stage, bytesOf("BREW", "/v1/models", HOST));
      expect(made.status).toBe(400);
      isError(made.error(), "request_invalid");
      const proxy = await exchange(stage, bytesOf("CONNECT", "example.com:443", HOST));
      expect(proxy.status).toBe(405);
      isError(proxy.error(), "method_unknown");
      for (const method of ["PUT", "DELETE", "PATCH", "POST", "OPTIONS"]) {
        const reply = await stage.call({ method, path: "/api/nowhere", body: {} });
        expect(reply.status).toBe(404);
        isError(reply.json().error, "route_unknown");
      }
    }),
  );

  test(
    "HEAD is GET without a body",
    httpStory(async (stage) => {
      for (const path of ["/health", "/v1/models", "/api/conversations", "/api/nowhere"]) {
        const head = await stage.call({ method: "HEAD", path });
        const get = await stage.call({ path });
        expect([head.status, head.text, head.headers["content-type"]]).toEqual([
          get.status,
          "",
          get.headers["content-type"],
        ]);
      }
    }),
  );

  test(
    "headers above 16 KB are 431",
    httpStory(async (stage) => {
      const answer = await exchange(stage, bytesOf("GET", "/health", { ...HOST, "X-Long": "x".repeat(20_000) }));
      expect(answer.status).toBe(431);
      isError(answer.error(), "headers_too_large");
      await isWell(stage);
    }),
  );

  test.each([
    ["a TLS greeting", Buffer.from("16030100a5010000a10303", "hex")],
    ["NULs", Buffer.alloc(64)],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["prose", "Dear gateway,\r\n\r\n"],
    ["a header without a name", "GET /health HTTP/1.1\r\n: x\r\n\r\n"],
    ["a header with a NUL", "GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n"],
    ["a version of its own", "GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n"],
  ])("%s is no request: 400, and the connection is closed", (_, bytes) =>
    httpStory(async (stage) => {
      const answer = await exchange(stage, bytes);
      expect(answer.status).toBe(400);
      expect(answer.head).toContain("connection: close");
      isError(answer.error(), "request_invalid");
      await isWell(stage);
    })(),
  );

  test(
    "what follows a request that is being answered is never mixed into its answer",
    httpStory(async (stage) => {
      const wire = stage.connect();
      wire.send(completionBytes({ ...asks("slow 3"), stream: true }));
      await wire.received('"content":"1"');
      wire.send("and now for something completely different\r\n\r\n");
      const text = await wire.closed();
      expect(text).not.toContain("HTTP/1.1 400");
      expect(text).not.toContain("request_invalid");
      await until(async () => (await stage.gateway.reader.counts()).openTurns === 0);
      const { session } = await ask(stage, "/status");
      expect(await transcript(stage, session)).toContain("assistant: 1 2 3");
    }),
  );

  test(
    "an upgrade that is not offered is answered as what it is without it",
    httpStory(async (stage) => {
      const headers = { Host: "localhost", Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13" };
      const wire = stage.connect();
      wire.send(bytesOf("GET", "/health", headers));
      expect(await wire.received('{"ok":true}')).toContain("HTTP/1.1 200");
      wire.vanish();
    }),
  );
});

describe("many at once", () => {
  test(
    "T4 100 messages at once in ten conversations: each is answered exactly once, in the order of its conversation",
    httpStory(async (stage) => {
      const asked = Array.from({ length: 100 }, (_, i) => ({ text: `say ${i}`, user: `user-${i % 10}` }));
      const answers = await Promise.all(asked.map(({ text, user }) => ask(stage, text, user)));
      expect(answers.map(({ answer }) => `say ${answer}`)).toEqual(asked.map(({ text }) => text));
      const sessions = [...new Set(answers.map(({ session }) => session))];
      expect(sessions.length).toBe(10);
      for (const session of sessions) {
        const turns = answers.filter((answer) => answer.session === session);
        const inOrder = turns.toSorted((a, b) => turnOf(a) - turnOf(b));
        expect(await transcript(stage, session)).toEqual(
          inOrder.flatMap(({ answer }) => [`user: say ${answer}`, `assistant: ${answer}`]),
        );
      }
      expect(await stage.gateway.reader.counts()).toMatchObject({ turns: 100, openTurns: 0, messages: 200 });
    }),
  );

  test(
    "T4, T5 100 messages at once in one conversation are answered one after the other",
    httpStory(
      async (stage) => {
        const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => ask(stage, `say ${i}`)));
        expect(answers.map(({ answer }) => answer)).toEqual(Array.from({ length: 100 }, (_, i) => String(i)));
        const inOrder = answers.toSorted((a, b) => turnOf(a) - turnOf(b));
        expect(await transcript(stage, inOrder[0]!.session)).toEqual(
          inOrder.flatMap(({ answer }) => [`user: say ${answer}`, `assistant: ${answer}`]),
        );
        expect((await stage.gateway.reader.counts()).turns).toBe(100);
      },
      { turn: { max_waiting_turns: 100 } },
    ),
  );

  test(
    "T5 above the cap each is answered or told that it is not, and none is forgotten",
    httpStory(async (stage) => {
      const running = stage.call({ path: COMPLETIONS, body: asks("hang") });
      await until(() => stage.gateway.turns.running === 1);
      const many = Array.from({ length: 100 }, (_, i) => ask(stage, `say ${i}`));
      await until(async () => (await stage.gateway.reader.counts()).messages === 101);
      await ask(stage, "/stop");
      const replies = await Promise.all(many);
      const refused = replies.filter(({ status }) => status === 429);
      expect(refused.length).toBe(80);
      for (const reply of refused) isError(reply.json().error, "queue_full");
      const answered = replies.flatMap(({ status, answer }, i) => (status === 200 ? [`${i}=${answer}`] : []));
      expect(answered.length).toBe(20);
      for (const pair of answered) expect(pair).toMatch(/^(\d+)=\1$/);
      expect((await running).status).toBe(424);
    }),
  );

  test(
    "T3 100 requests at once under one key are one message, one turn and one answer",
    httpStory(async (stage) => {
      const headers = { "idempotency-key": "the one" };
      const replies = await Promise.all(
        Array.from({ length: 100 }, () => stage.call({ path: COMPLETIONS, body: asks("slow 1"), headers })),
      );
      expect(new Set(replies.map(({ text }) => text.replace(/"created":\d+/, ""))).size).toBe(1);
      expect(replies.every(({ status }) => status === 200)).toBe(true);
      expect(await stage.gateway.reader.counts()).toMatchObject({ turns: 1, messages: 2 });
    }),
  );
});

describe("clients that vanish", () => {
  test(
    "O6 in mid-stream: the turn goes on, and its answer is in the transcript",
    httpStory(async (stage) => {
      const wires = await Promise.all(
        Array.from({ length: 10 }, async (_, i) => {
          const wire = stage.connect();
          wire.send(completionBytes({ ...asks("slow 3", `user-${i}`), stream: true }));
          const text = await wire.received('"content":"1"');
          wire.vanish();
          return /x-tertulia-session: (\S+)/i.exec(text)?.[1] ?? "";
        }),
      );
      await until(async () => (await stage.gateway.reader.counts()).openTurns === 0);
      for (const session of wires) {
        expect(await transcript(stage, session)).toEqual(["user: slow 3", "assistant: 1 2 3"]);
      }
    }),
  );

  test(
    "O6 while they wait: the turn goes on, and a retry under the key gets its answer",
    httpStory(async (stage) => {
      const wire = stage.connect();
      wire.send(completionBytes(asks("slow 2"), { "Idempotency-Key": "k1" }));
      await until(() => stage.gateway.turns.running === 1);
      wire.vanish();
      const headers = { "idempotency-key": "k1" };
      const { choices } = (await stage.call({ path: COMPLETIONS, body: asks("slow 2"), headers })).json<{
        choices: { message: { content: string } }[];
      }>();
      expect(choices[0]?.message.content).toBe("1 2");
      expect((await stage.gateway.reader.counts()).turns).toBe(1);
    }),
  );

  test(
    "in mid-stream of a conversation without a name: it is parked all the same",
    httpStory(async (stage) => {
      const wire = stage.connect();
      wire.send(completionBytes({ messages: asks("slow 2").messages, stream: true }));
      await wire.received('"content":"1"');
      wire.vanish();
      await until(() => stage.gateway.pool.list().length === 0);
      expect((await stage.gateway.reader.counts()).openTurns).toBe(0);
    }),
  );

  test(
    "in the middle of a request: nothing was said, and nobody waits for the rest",
    httpStory(async (stage) => {
      const whole = completionBytes(asks("say half a message"));
      for (const part of [1, 20, whole.length - 60, whole.length - 1]) {
        const wire = stage.connect();
        wire.send(whole.slice(0, part));
        await new Promise<void>((resolve) => wire.socket.write("", () => resolve()));
        wire.vanish();
        await wire.closed();
      }
      await isWell(stage);
      expect((await stage.gateway.reader.counts()).messages).toBe(2);
    }),
  );

  test(
    "who does not say a word, or stops in the middle of one, does not hold up the end",
    httpStory(async (stage) => {
      const silent = stage.connect();
      const halting = stage.connect();
      halting.send(completionBytes(asks("say half")).slice(0, -5));
      const idle = stage.connect();
      idle.send(bytesOf("GET", "/health", { Host: "localhost" }));
      await idle.received('{"ok":true}');
      const from = performance.now();
      await stage.restart();
      expect(performance.now() - from).toBeLessThan(1_000);
      await Promise.all([silent.closed(), halting.closed(), idle.closed()]);
    }),
  );

  test(
    "who does not read an answer does not hold up the end, nor anybody else",
    httpStory(async (stage) => {
      const long = `say ${"long words ".repeat(80_000)}`;
      const wires = Array.from({ length: 8 }, (_, i) => {
        const wire = stage.connect();
        wire.socket.pause();
        wire.send(completionBytes({ ...asks(long, `user-${i}`), stream: i % 2 === 0 }));
        return wire;
      });
      await until(async () => (await stage.gateway.reader.counts()).turns === 8);
      await isWell(stage);
      const from = performance.now();
      await stage.restart();
      expect(performance.now() - from).toBeLessThan(1_000);
      for (const wire of wires) wire.vanish();
    }),
  );

  test(
    "an end in the midst of work: each who waits is told, and what was admitted is not lost",
    httpStory(async (stage) => {
      const post = (text: string, user: string) =>
        stage.call({ path: COMPLETIONS, body: asks(text, user), headers: { "idempotency-key": "k1" } });
      const wire = stage.connect();
      wire.send(completionBytes({ ...asks("hang", "streaming"), stream: true }));
      const running = Array.from({ length: 5 }, (_, i) => post("hang", `user-${i}`));
      await until(() => stage.gateway.turns.running === 6);
      const waiting = post("say later", "streaming");
      await until(async () => (await stage.gateway.reader.counts()).openTurns === 7);
      const from = performance.now();
      await stage.restart();
      expect(performance.now() - from).toBeLessThan(1_000);

      for (const [i, reply] of (await Promise.all(running)).entries()) {
        expect(reply.status).toBe(424);
        isError(reply.json().error, "turn_interrupted");
        const { fates } = (await stage.call({ path: `/api/messages/${reply.headers["x-tertulia-message"]}` })).json<{
          fates: { fate: object }[];
        }>();
        expect(fates[0]?.fate).toMatchObject({ fate: "interrupted", reason: "shutdown" });
        expect((await post("hang", `user-${i}`)).json().error.code).toBe("turn_interrupted");
      }
      expect(await wire.closed()).toContain('"code":"turn_interrupted"');

      const told = await waiting;
      expect(told.status).toBe(424);
      isError(told.json().error, "gateway_stopping");
      const again = await post("say later", "streaming");
      expect(again.headers["x-tertulia-turn"]).toBe(told.headers["x-tertulia-turn"]);
      expect(again.json<{ choices: { message: { content: string } }[] }>().choices[0]?.message.content).toBe("later");
    }),
  );

  test(
    "in the midst of an end: whatever is asked is answered, refused or not taken, and each within a second",
    httpStory(async (stage) => {
      const paths = ["/api/sessions", "/api/conversations", "/api/messages/1", "/api/status", "/api/events", "/ready"];
      const stopping = stage.restart();
      const outcomes = await Promise.allSettled([
        ...paths.map((path) => stage.call({ path })),
        ...Array.from({ length: 20 }, (_, i) => stage.call({ path: COMPLETIONS, body: asks("say hi", `user-${i}`) })),
      ]);
      await stopping;
      for (const outcome of outcomes) {
        if (outcome.status === "rejected") expect(outcome.reason.code).toMatch(/^ECONN/);
        else if (outcome.value.status >= 400)
          expect(outcome.value.text).toMatch(/gateway_stopping|store_unavailable|message_unknown|"ready":false/);
      }
      await isWell(stage);
    }),
  );
});

function turnOf({ headers }: Reply): number {
  return Number(headers["x-tertulia-turn"]);
}
