import { chmodSync, readFileSync, statSync } from "node:fs";
import type { RequestOptions } from "node:http";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { callerOf } from "../../src/http/caller.ts";
import { doorKey, type HttpStage, httpStory, until } from "../support/http-stage.ts";

/** Who is let in at the HTTP door, and as whom. */

const BOB = "bob-has-a-long-token";
const EVE = "eve-has-another-token";
const PEOPLE = { people: { owner: { name: "Alice" }, bob: { name: "Bob", tokens: [BOB] }, eve: { tokens: [EVE] } } };
const ALWAYS = { ...PEOPLE, http: { port: 0, token: "always" } };

interface Asker {
  readonly token?: string;
  readonly headers?: RequestOptions["headers"];
}

const read = (stage: HttpStage, asker: Asker = {}) => stage.call({ path: "/api/whoami", ...asker });
const write = (stage: HttpStage, asker: Asker = {}) =>
  stage.call({
    path: "/v1/chat/completions",
    ...asker,
    body: { user: "me", messages: [{ role: "user", content: "/whoami" }] },
  });

/** Words at a door of one's own: the ids of what became of them. */
async function says(stage: HttpStage, text: string, token?: string) {
  const { headers } = await stage.call({
    path: "/v1/chat/completions",
    body: { user: "main", messages: [{ role: "user", content: text }] },
    ...(token === undefined ? {} : { token }),
  });
  const named = (name: string): string => String(headers[`x-tertulia-${name}`]);
  return { key: named("key"), session: named("session"), message: named("message"), turn: Number(named("turn")) };
}

describe("truly local requests", () => {
  test(
    "A1 A4 without a token this machine is the owner, and any key of a client is as good as none",
    httpStory(async (stage) => {
      for (const asker of [{}, { token: "sk-whatever" }, { token: stage.ownerToken }]) {
        expect((await read(stage, asker)).json()).toEqual({ person: { id: "owner", role: "owner", name: "Alice" } });
        expect((await write(stage, asker)).text).toContain("You are Alice (owner).");
      }
    }, PEOPLE),
  );

  test.each([
    ["X-Forwarded-For", "127.0.0.1"],
    ["x-forwarded-for", ""],
    ["X-Forwarded-Host", "localhost"],
    ["X-Forwarded-Port", "80"],
    ["X-Forwarded", "for=127.0.0.1"],
    ["Forwarded", "for=127.0.0.1"],
    ["Via", "1.1 proxy"],
    ["X-Real-IP", "127.0.0.1"],
    ["Host", "evil.example"],
    ["Host", "evil.example:8378"],
    ["Host", "127.0.0.1.evil.example"],
    ["Host", "localhost.evil.example"],
    ["Host", "10.0.0.1"],
    ["Host", "[::2]"],
  ])("A4 a request with `%s: %s` is not local: it needs a token", (name, value) =>
    httpStory(async (stage) => {
      const headers = { [name]: value };
      for (const asker of [{ headers }, { headers, token: "sk-whatever" }]) {
        for (const reply of [await read(stage, asker), await write(stage, asker)]) {
          expect([reply.status, reply.json().error.code]).toEqual([401, "unauthorized"]);
          expect(reply.json().error.remedy).toContain("Authorization: Bearer");
        }
      }
      expect((await read(stage, { headers, token: stage.ownerToken })).status).toBe(200);
      expect((await write(stage, { headers, token: stage.ownerToken })).status).toBe(200);
      expect((await stage.gateway.reader.counts()).messages).toBe(1);
    })(),
  );

  test.each(["localhost", "LOCALHOST:1", "127.0.0.1", "127.1.2.3:8378", "[::1]", "[::1]:8378"])(
    "A4 a request to `%s` is meant for this machine",
    (host) => httpStory(async (stage) => expect((await read(stage, { headers: { host } })).status).toBe(200))(),
  );

  test(
    "A4 no number of other headers pushes the sign of a proxy out",
    httpStory(async (stage) => {
      const many = Array.from({ length: 2_500 }, (_, i) => `a${i.toString(36)}:\r\n`).join("");
      const wire = stage.connect();
      wire.send(
        `GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n${many}Forwarded: for=10.0.0.1\r\nConnection: close\r\n\r\n`,
      );
      expect(await wire.closed()).toMatch(/^HTTP\/1.1 401 /);
    }),
  );

  test("A4 what comes from another machine is not local, whatever it says of itself", () => {
    const config = { http: { token: "auto" }, people: {} } as unknown as Parameters<typeof callerOf>[1];
    const from = (remoteAddress: string | undefined) =>
      callerOf({ method: "GET", headers: { host: "127.0.0.1" }, remoteAddress }, config, "the owner's token");
    for (const address of ["192.168.1.20", "::ffff:10.0.0.1", "fe80::1", "128.0.0.1", undefined]) {
      expect(() => from(address)).toThrow(expect.objectContaining({ code: "unauthorized" }));
    }
    for (const address of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]) {
      expect(from(address).role).toBe("owner");
    }
  });
});

describe("pages", () => {
  test(
    "A4 a page elsewhere can neither write nor read, with a token either",
    httpStory(async (stage) => {
      const own = stage.url;
      const foreign = [
        "http://evil.example",
        "null",
        `https://localhost:${stage.port}.evil.example`,
        "http://127.0.0.1:1",
      ];
      for (const origin of foreign) {
        for (const asker of [{ headers: { origin } }, { headers: { origin }, token: stage.ownerToken }]) {
          const refused = await write(stage, asker);
          expect([refused.status, refused.json().error.code]).toEqual([403, "origin_refused"]);
        }
        const preflight = await stage.call({
          method: "OPTIONS",
          path: "/v1/chat/completions",
          headers: {
            origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
          },
        });
        expect(preflight.status).toBe(403);
        const seen = await read(stage, { headers: { origin } });
        for (const { headers } of [preflight, seen]) {
          expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
        }
      }
      expect((await stage.gateway.reader.counts()).messages).toBe(0);
      expect((await write(stage, { headers: { origin: own } })).status).toBe(200);
    }),
  );

  test(
    "A4 a write is application/json: what a form can send is 415",
    httpStory(async (stage) => {
      const types = [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonp",
        "application/json-patch+json",
        "",
      ];
      for (const type of types) {
        for (const path of ["/v1/chat/completions", "/api/send", "/api/handoff", "/api/nowhere"]) {
          const body = Buffer.from('{"messages":[{"role":"user","content":"hi"}]}');
          const refused = await stage.call({ path, body, headers: { "content-type": type } });
          expect([refused.status, refused.json().error.code]).toEqual([415, "content_type"]);
        }
      }
      expect((await write(stage, { headers: { "content-type": "Application/JSON ; charset=utf-8" } })).status).toBe(
        200,
      );
      expect((await stage.gateway.reader.counts()).messages).toBe(1);
    }),
  );
});

describe("tokens", () => {
  test(
    "A4 `http.token: always` asks everybody, but for health and readiness",
    httpStory(async (stage) => {
      for (const asker of [{}, { token: "sk-whatever" }, { headers: { authorization: `Basic ${stage.ownerToken}` } }]) {
        for (const reply of [await read(stage, asker), await write(stage, asker)]) expect(reply.status).toBe(401);
      }
      for (const token of [stage.ownerToken, BOB]) {
        expect((await read(stage, { token })).status).toBe(200);
        expect((await write(stage, { token })).status).toBe(200);
      }
      for (const path of ["/health", "/ready"]) expect((await stage.call({ path })).status).toBe(200);
      for (const path of ["/", "/api/nowhere", "/v1/models", "/api/events", "/api/status"]) {
        expect((await stage.call({ path })).status).toBe(401);
      }
    }, ALWAYS),
  );

  test(
    "A4 the owner's token is made once, for the eyes of its owner only",
    httpStory(async (stage) => {
      const path = join(stage.home, "token");
      const mode = () => statSync(path).mode & 0o777;
      expect(readFileSync(path, "utf8").trim()).toBe(stage.ownerToken);
      expect([mode(), stage.ownerToken.length]).toEqual([0o600, 32]);
      const before = stage.ownerToken;
      chmodSync(path, 0o644);
      await stage.restart();
      expect([mode(), stage.ownerToken]).toEqual([0o600, before]);
    }),
  );

  test(
    "A4 no token is in a log line, an error or an answer",
    httpStory(async (stage) => {
      const tokens = [stage.ownerToken, BOB, EVE, "sk-a-token-nobody-knows"];
      const seen: string[] = [];
      for (const token of tokens) {
        const bad = Buffer.from(`{"token": "${"x".repeat(10)}`);
        const calls = [
          { path: "/api/whoami" },
          { path: "/api/status" },
          { path: "/api/conversations" },
          { path: "/api/sessions/nowhere" },
          { path: "/api/messages/none" },
          { path: "/v1/chat/completions", body: { messages: [{ role: "user", content: "fail" }] } },
          { path: "/v1/chat/completions", body: { messages: [{ role: "user", content: "/status" }] } },
          { path: "/v1/chat/completions", body: bad },
          { path: "/v1/chat/completions", method: "DELETE", body: {} },
        ];
        for (const call of calls) {
          const { text, headers } = await stage.call({ ...call, token });
          seen.push(text, JSON.stringify(headers));
        }
      }
      seen.push(...stage.log.map(({ line }) => line));
      for (const token of tokens) expect(seen.filter((text) => text.includes(token))).toEqual([]);
      expect(stage.log.length).toBeGreaterThan(0);
    }, ALWAYS),
  );
});

describe("a member's token", () => {
  test(
    "K19 the same name is another conversation for every person, and no name leads out of one's own",
    httpStory(async (stage) => {
      const alice = await says(stage, "say hers");
      const bob = await says(stage, "say his", BOB);
      expect([alice.key, bob.key]).toEqual([doorKey("http", "main"), doorKey("http", "main", "bob")]);
      for (const name of ["../owner/main", "owner/main", "owner%2Fmain", "x:user:owner", `${alice.key}`]) {
        const { headers } = await stage.call({
          path: "/v1/chat/completions",
          token: BOB,
          headers: { "x-tertulia-conversation": name },
          body: { messages: [{ role: "user", content: "history" }] },
        });
        expect(headers["x-tertulia-key"]).toBe(doorKey("http", name, "bob"));
      }
      expect((await stage.gateway.reader.transcript({ sessionId: alice.session, limit: 9 })).length).toBe(2);
    }, PEOPLE),
  );

  test(
    "K19 A4 lists hold the person's own, and what is another's does not exist for him",
    httpStory(async (stage) => {
      const alice = await says(stage, "say hers");
      const bob = await says(stage, "say his", BOB);
      const get = (path: string, token?: string) => stage.call({ path, ...(token === undefined ? {} : { token }) });
      const key = encodeURIComponent(alice.key);

      const conversations = (await get("/api/conversations", BOB)).json<{ conversations: { key: string }[] }>();
      expect(conversations.conversations.map((row) => row.key)).toEqual([bob.key]);
      const sessions = (await get("/api/sessions", BOB)).json<{ sessions: { id: string }[] }>();
      expect(sessions.sessions.map((row) => row.id)).toEqual([bob.session]);

      const hidden = [
        [`/api/conversations/${key}`, "conversation_unknown"],
        [`/api/sessions/${alice.session}`, "session_unknown"],
        [`/api/sessions/${alice.session}/messages`, "session_unknown"],
        [`/api/messages/${alice.message}`, "message_unknown"],
        [`/api/events?conversation=${key}`, "conversation_unknown"],
      ] as const;
      for (const [path, code] of hidden) {
        const reply = await get(path, BOB);
        expect([path, reply.status, reply.json().error.code]).toEqual([path, 404, code]);
        if (!path.startsWith("/api/events")) expect((await get(path)).status).toBe(200);
      }
      for (const path of ["/api/status", "/api/refused"]) expect((await get(path, BOB)).status).toBe(403);
      // His own he sees, and the owner sees it too.
      for (const token of [BOB, undefined]) {
        expect((await get(`/api/sessions/${bob.session}/messages`, token)).status).toBe(200);
        expect((await get(`/api/messages/${bob.message}`, token)).status).toBe(200);
        expect((await get(`/api/conversations/${encodeURIComponent(bob.key)}`, token)).status).toBe(200);
      }
    }, PEOPLE),
  );

  test(
    "K19 he cannot speak, send or bind anywhere but at his own doors, nor from another's session",
    httpStory(async (stage) => {
      const alice = await says(stage, "say hers");
      const bob = await says(stage, "say his", BOB);
      const post = async (path: string, body: object) => {
        const reply = await stage.call({ path, body, token: BOB });
        return [reply.status, reply.status < 400 ? "" : reply.json().error.code];
      };
      const before = await stage.gateway.reader.counts();
      for (const key of [
        alice.key,
        doorKey("console", "main"),
        doorKey("web", "new", "eve"),
        "agent:main:telegram:dm:99",
      ]) {
        const path = `/api/conversations/${encodeURIComponent(key)}/messages`;
        expect(await post(path, { text: "say let me in" })).toEqual([403, "forbidden"]);
        expect((await post("/api/send", { room: key, text: "x", session: bob.session }))[0]).toBe(403);
        expect((await post("/api/handoff", { room: key, session: bob.session }))[0]).toBe(403);
        expect((await post("/api/handoff/clear", { room: key }))[0]).toBe(403);
      }
      for (const path of ["/api/send", "/api/handoff"]) {
        const text = path === "/api/send" ? { text: "x" } : {};
        expect([403, 404]).toContain((await post(path, { room: bob.key, session: alice.session, ...text }))[0]);
      }
      expect(await stage.gateway.reader.counts()).toEqual(before);
      const { bindings } = (await stage.call({ path: "/api/handoff" })).json<{ bindings: object[] }>();
      expect(bindings).toEqual([]);
    }, PEOPLE),
  );

  test(
    "K19 he sees neither another's bindings nor another's events",
    httpStory(async (stage) => {
      const alice = await says(stage, "say hers");
      await stage.call({
        path: "/api/handoff",
        body: { room: doorKey("console", "room"), session: alice.session, pin: true },
      });
      const own = (await stage.call({ path: "/api/handoff" })).json<{ bindings: object[] }>();
      const his = (await stage.call({ path: "/api/handoff", token: BOB })).json<{ bindings: object[] }>();
      expect([own.bindings.length, his.bindings.length]).toEqual([1, 0]);

      const wire = stage.connect();
      wire.send(`GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${BOB}\r\n\r\n`);
      await wire.received("event: hello");
      await says(stage, "say for alice only");
      await says(stage, "/new", EVE);
      await says(stage, "say for bob", BOB);
      const seen = await wire.received('"text":"for bob","silent":false');
      for (const secret of [alice.session, "for alice only", "owner%2F", "eve%2F", "runtime:state"]) {
        expect(seen).not.toContain(secret);
      }
      expect(seen).toContain("event: turn:begun");
      wire.vanish();
    }, PEOPLE),
  );

  test(
    "K19 H12 he cannot answer a question that the agent has for the owner",
    httpStory(async (stage) => {
      const wire = stage.connect();
      wire.send("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
      await wire.received("event: hello");
      const asking = says(stage, "ask");
      const seen = await wire.received("event: turn:permission", "\n\n");
      const question = JSON.parse(/event: turn:permission\r?\ndata: (.*)/.exec(seen)?.[1] ?? "{}") as {
        turnId: number;
        id: string;
      };
      const body = { turn: question.turnId, id: question.id, option: "allow" };
      const refused = await stage.call({ path: "/api/messages/permission", body, token: BOB });
      expect([refused.status, refused.json().error.code]).toEqual([403, "forbidden"]);
      expect(stage.gateway.runningTurns).toBe(1);
      const nothing = await stage.call({ path: "/api/messages/permission", body: { ...body, option: "both" } });
      expect(nothing.json().error).toMatchObject({ code: "request_invalid", remedy: "Choose one of allow, reject." });
      expect((await stage.call({ path: "/api/messages/permission", body })).status).toBe(200);
      const { turn } = await asking;
      expect((await stage.gateway.answerOf(turn)).text).toBe("You answered: allow");
      wire.vanish();
      await until(() => !stage.gateway.events.isHeard);
    }, PEOPLE),
  );
});
