import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import type { IncomingMessage, RequestOptions } from "node:http";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { type Config, loadConfig } from "../../src/config/config.ts";
import { sessionToken } from "../../src/conversation/session-token.ts";
import { rotateOwnerToken } from "../../src/gateway/owner-token.ts";
import { startGateway } from "../../src/gateway/start.ts";
import { Bodies } from "../../src/http/bodies.ts";
import { callerOf, type RequestFacts, type TokenGround } from "../../src/http/caller.ts";
import { trustedUid } from "../../src/http/peer.ts";
import { bytesOf, doorKey, type HttpStage, httpStory, until, untilStreams } from "../support/http-stage.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { temporaryFolder } from "../support/store.ts";

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

/** A request of this machine, as far as it is not said otherwise. */
function asked({ headers = {}, ...facts }: Partial<RequestFacts> = {}): RequestFacts {
  const all = { host: "127.0.0.1", ...headers };
  const headersDistinct = Object.fromEntries(Object.entries(all).map(([name, value]) => [name, [String(value)]]));
  return {
    ...{ method: "GET", path: "/api/whoami", httpVersion: "1.1", remoteAddress: "127.0.0.1" },
    ...{ headers: all, headersDistinct, isOwnUser: async () => false },
    ...facts,
  };
}

/** A gateway that trusts this machine, unless it is said otherwise. */
function ground(token: Config["http"]["token"] = "loopback"): TokenGround {
  const { people, ...config } = loadConfig({ flags: { home: "/nowhere" }, env: {} });
  return {
    config: { ...config, people, http: { ...config.http, token }, metrics: {} },
    ownerToken: "the-owners-own-token",
    reader: { session: async () => null },
  };
}

describe("truly local requests", () => {
  test(
    "A1 A4 A11 without a token this machine is the owner where the setting trusts it",
    httpStory(async (stage) => {
      for (const asker of [{}, { token: stage.ownerToken }]) {
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

  test("A4 what comes from another machine is not local, whatever it says of itself", async () => {
    const from = (remoteAddress: string | undefined) => callerOf(asked({ remoteAddress }), ground());
    for (const address of ["192.168.1.20", "::ffff:10.0.0.1", "fe80::1", "128.0.0.1", undefined]) {
      await expect(from(address)).rejects.toMatchObject({ code: "unauthorized" });
    }
    for (const address of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]) {
      expect((await from(address)).person.role).toBe("owner");
    }
  });

  // Of the kind: whatever stands between the owner and the gateway, old, silent or of any vendor; what a local client sends is none of it.
  test.each([
    "Forwarded",
    "X-Forwarded-Proto",
    "X-Original-Forwarded-For",
    "X-Vercel-Forwarded-For",
    "X-Original-URL",
    "X-Rewrite-URL",
    "Via",
    "X-Real-IP",
    "True-Client-IP",
    "CF-Connecting-IP",
    "CF-Connecting-IPv6",
    "CF-Ray",
    "CDN-Loop",
    "X-Client-IP",
    "Client-IP",
    "WL-Proxy-Client-IP",
    "X-ProxyUser-Ip",
    "X-Cluster-Client-IP",
    "Fastly-Client-IP",
    "Fly-Client-IP",
    "X-Envoy-External-Address",
    "X-Amzn-Trace-Id",
    "X-Azure-ClientIP",
    "X-Azure-SocketIP",
    "X-ARR-SSL",
    "X-Appengine-User-IP",
    "X-Cloud-Trace-Context",
    "X-Goog-IAP-JWT-Assertion",
    "CloudFront-Viewer-Address",
    "Tailscale-User-Login",
    "X-Auth-Request-Email",
    "Remote-User",
    "X-NginX-Proxy",
    "Proxy-Connection",
    "X_Forwarded_For",
  ])("F-SEC-07 A11: a request with `%s` has come through something: it needs a token", async (name) => {
    const headers = { [name.toLowerCase()]: "" };
    await expect(callerOf(asked({ headers }), ground())).rejects.toMatchObject({ code: "unauthorized" });
    const known = { ...headers, authorization: "Bearer the-owners-own-token" };
    expect((await callerOf(asked({ headers: known }), ground())).person.role).toBe("owner");
  });

  test.each([
    "user-agent",
    "accept",
    "referer",
    "x-stainless-retry-count",
    "x-request-id",
    "idempotency-key",
    "x-tertulia-conversation",
    "openai-organization",
    "anthropic-version",
    "x-goog-api-client",
    "traceparent",
    "last-event-id",
    "x-client-version",
    "sec-fetch-site",
  ])("F-SEC-07 A11: `%s` is a header of clients, and of nobody in between", async (name) => {
    expect((await callerOf(asked({ headers: { [name]: "none" } }), ground())).person.role).toBe("owner");
  });

  test(
    "F-SEC-07 A11: what speaks HTTP/1.0, names no host or two, or closes its half of the connection is not local",
    httpStory(async (stage) => {
      const requests = [
        "GET /api/whoami HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
        "GET /api/whoami HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: keep-alive\r\n\r\n",
        "GET /api/whoami HTTP/1.0\r\n\r\n",
        "GET /api/whoami HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
      ];
      for (const request of requests) {
        const wire = stage.connect();
        wire.send(request);
        expect(await wire.received("}", "}")).toMatch(/^HTTP\/1.1 40[01] /);
        wire.vanish();
      }
      const wire = stage.connect();
      wire.send(`GET /api/whoami HTTP/1.0\r\nHost: gateway\r\nAuthorization: Bearer ${stage.ownerToken}\r\n\r\n`);
      expect(await wire.closed()).toMatch(/^HTTP\/1.1 200 /);
    }),
  );
});

describe("nobody's token", () => {
  // Of the kind: the settings of trust, and who is at the other end.
  test.each([
    ["auto", true, "owner"],
    ["auto", false, "unauthorized"],
    ["loopback", false, "owner"],
    ["always", true, "unauthorized"],
  ] as const)(
    "F-SEC-06 A11: with `%s` a local peer that is our own user (%s) is %s",
    async (token, isOwn, expected) => {
      const facts = asked({ isOwnUser: async () => isOwn });
      const outcome = await callerOf(facts, ground(token)).then(
        ({ person }) => person.role,
        (cause: { code: string }) => cause.code,
      );
      expect(outcome).toBe(expected);
      const remote = asked({ isOwnUser: async () => true, remoteAddress: "10.0.0.7" });
      await expect(callerOf(remote, ground(token))).rejects.toMatchObject({ code: "unauthorized" });
    },
  );

  test(
    "F-SEC-06 A11: as root, in a container, or for another user nothing but health is told without a token; with it all is",
    httpStory(
      async (stage) => {
        const isTrusted = trustedUid() !== null;
        for (const path of ["/api/sessions", "/api/whoami", "/v1/models", "/metrics"]) {
          expect([path, (await stage.call({ path })).status]).toEqual([path, isTrusted ? 200 : 401]);
          expect([path, (await stage.call({ path, token: stage.ownerToken })).status]).toEqual([path, 200]);
        }
        expect((await stage.call({ path: "/health" })).status).toBe(200);
      },
      { http: { port: 0 } },
    ),
  );
});

describe("a token that is presented", () => {
  // Of the kind: wherever a token can stand, one that was revoked, mistyped or never was is nobody's, on this machine too.
  const unknown: readonly (readonly [string, RequestOptions["headers"]])[] = [
    ["a bearer", { authorization: "Bearer sk-whatever" }],
    ["a bearer that is nearly the owner's", { authorization: `Bearer ${"a".repeat(32)}` }],
    ["an empty bearer", { authorization: "Bearer " }],
    ["nothing but a scheme", { authorization: "Bearer" }],
    ["another scheme", { authorization: "Basic b3duZXI6c2VjcmV0" }],
    ["an X-API-Key", { "x-api-key": "sk-whatever" }],
    ["an empty X-API-Key", { "x-api-key": "" }],
    ["an api-key, as clients of Azure send it", { "api-key": "sk-whatever" }],
    ["an empty api-key", { "API-Key": "" }],
    ["our own cookie", { cookie: "theme=dark; tertulia_token=revoked" }],
    ["our own cookie, empty", { cookie: "tertulia_token=" }],
    ["a session's token with a broken seal", { authorization: "Bearer tts_MjAyNg.AAAA" }],
  ];
  test.each(unknown)("F-SEC-05 A11: %s that is not known is 401, and the remedy is named", (_, headers) =>
    httpStory(async (stage) => {
      for (const reply of [await read(stage, { headers }), await write(stage, { headers })]) {
        expect([reply.status, reply.json().error.code]).toEqual([401, "unauthorized"]);
        expect(reply.json().error.remedy).toContain("`tertulia token`");
      }
      for (const path of ["/v1/models", "/api/events", "/metrics", "/api/nowhere", "/"])
        expect([path, (await stage.call({ path, headers: headers ?? {} })).status]).toEqual([path, 401]);
      expect((await stage.gateway.reader.counts()).messages).toBe(0);
    })(),
  );

  test(
    "F-SEC-05 A11: one that is known decides whose request it is, wherever it stands; cookies of other programs say nothing",
    httpStory(async (stage) => {
      const who = async (headers: Record<string, string>) =>
        (await read(stage, { headers })).json<{ person?: { id: string } }>().person?.id;
      expect(await who({ authorization: `Bearer ${BOB}` })).toBe("bob");
      expect(await who({ authorization: `bearer   ${BOB}` })).toBe("bob");
      expect(await who({ "x-api-key": BOB })).toBe("bob");
      expect(await who({ "api-key": BOB })).toBe("bob");
      expect(await who({ cookie: `a=b; tertulia_token=${BOB}; c=d` })).toBe("bob");
      expect(await who({ cookie: `tertulia_token=${stage.ownerToken}` })).toBe("owner");
      expect(await who({ cookie: "token=x; session=y; _tertulia_token=z; tertulia=1" })).toBe("owner");
      expect(await who({ "x-api-key": BOB, authorization: `Bearer ${BOB}` })).toBe("bob");
      // A known one beside an unknown one, or beside another's, hides neither.
      expect(await who({ "x-api-key": "sk-whatever", authorization: `Bearer ${BOB}` })).toBeUndefined();
      expect(await who({ "x-api-key": EVE, authorization: `Bearer ${BOB}` })).toBeUndefined();
    }, PEOPLE),
  );

  test(
    "F-SEC-13 A12: unknown tokens are logged without themselves, and slowed once there are many; known ones are not",
    httpStory(async (stage) => {
      const tokens = Array.from({ length: 11 }, (_, n) => `a-guess-of-somebody-${n}`);
      const from = performance.now();
      for (const token of tokens) expect((await read(stage, { token })).status).toBe(401);
      expect(performance.now() - from).toBeGreaterThanOrEqual(95);
      const slow = stage.call({ path: "/api/whoami", token: "a-guess-of-somebody" });
      const first = await Promise.race([
        slow.then(() => "slow"),
        read(stage, { token: stage.ownerToken }).then(() => "known"),
      ]);
      expect(first).toBe("known");
      const lines = stage.log.filter(({ line }) => line.includes("a token that is not known")).map(({ line }) => line);
      expect(lines[0]).toContain("127.0.0.1");
      expect(lines.join()).not.toContain("a-guess");
      await slow;
    }),
  );
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

  // Of the kind: whatever a page of another site, or of another port, can make a browser fetch without asking.
  test(
    "F-SEC-09 A4: nothing is fetched for a page of another site but the page itself, when a person goes there",
    httpStory(async (stage) => {
      const fetched = (path: string, mode: string, dest: string, site: string, token?: string) =>
        stage.call({
          path,
          headers: { "sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest },
          ...(token === undefined ? {} : { token }),
        });
      for (const site of ["cross-site", "same-site"]) {
        for (const path of ["/api/runtimes", "/api/whoami", "/v1/models", "/api/events", "/metrics", "/"]) {
          for (const [mode, dest] of [
            ["no-cors", "image"],
            ["cors", "empty"],
            ["no-cors", "script"],
            ["navigate", "iframe"],
          ] as const) {
            const reply = await fetched(path, mode, dest, site, stage.ownerToken);
            expect([path, mode, reply.status, reply.json().error.code]).toEqual([path, mode, 403, "origin_refused"]);
          }
        }
        expect((await fetched("/", "navigate", "document", site)).status).not.toBe(403);
        expect((await fetched("/api/runtimes", "navigate", "document", site)).status).toBe(403);
      }
      for (const site of ["same-origin", "none"])
        expect((await fetched("/api/whoami", "cors", "empty", site)).status).toBe(200);
    }),
  );

  test("F-SEC-09 A4: sixty who ask whether the runtimes can run are answered by one look", async () => {
    const folder = temporaryFolder();
    const looks = join(folder.path, "looks");
    const count = () => (existsSync(looks) ? readFileSync(looks, "utf8").length : 0);
    const marked = { kind: "acp", command: "sh", args: ["-c", 'printf x >> "$0"; sleep 0.2', looks] };
    await httpStory(
      async (stage) => {
        const replies = await Promise.all(Array.from({ length: 60 }, () => stage.call({ path: "/api/runtimes" })));
        expect(new Set(replies.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
        const once = count();
        expect(once).toBe(1);
        await stage.call({ path: "/api/runtimes" });
        await stage.call({ method: "HEAD", path: "/api/runtimes" });
        expect(count()).toBe(once);
      },
      { runtimes: { marked } },
    )();
    folder.remove();
  });

  test(
    "F-SEC-13 A12: every answer says that it is nothing but its type",
    httpStory(async (stage) => {
      for (const [method, path] of [
        ["GET", "/health"],
        ["GET", "/api/whoami"],
        ["HEAD", "/api/events"],
        ["GET", "/api/nowhere"],
        ["DELETE", "/api/whoami"],
      ] as const)
        expect((await stage.call({ method, path })).headers["x-content-type-options"]).toBe("nosniff");
      for (const bytes of ["nonsense\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a HTTP/1.1\r\n\r\n"]) {
        const wire = stage.connect();
        wire.send(bytes);
        expect(await wire.received("}", "}")).toMatch(/x-content-type-options: nosniff/i);
        wire.vanish();
      }
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

  // Of the kind: the file is replaced, written over, emptied, removed; by the command or by hand; with whatever presents the old one.
  test(
    "F-OPS-01 A11: the owner's token is followed: the old one stops with the next request, wherever it is presented",
    httpStory(async (stage) => {
      const path = join(stage.home, "token");
      const status = async (token: string) => {
        const everywhere = [
          { authorization: `Bearer ${token}` },
          { "x-api-key": token },
          { cookie: `tertulia_token=${token}` },
        ];
        const replies = await Promise.all(everywhere.map((headers) => read(stage, { headers })));
        return [...new Set(replies.map((reply) => reply.status))];
      };
      const { session } = await says(stage, "say hello", stage.ownerToken);
      const agents = sessionToken(stage.ownerToken, session);
      const sends = (token: string) =>
        stage.call({ path: "/api/send", token, body: { room: doorKey("web", "a"), text: "x", session: null } });
      expect((await sends(agents)).status).toBe(200);
      const second = rotateOwnerToken(path);
      expect(statSync(path).mode & 0o777).toBe(0o600);
      expect([await status(stage.ownerToken), await status(second)]).toEqual([[401], [200]]);
      expect((await sends(agents)).status).toBe(401);
      expect((await sends(sessionToken(second, session))).status).toBe(200);
      writeFileSync(path, "a-token-written-by-hand\n", { mode: 0o644 });
      chmodSync(path, 0o644);
      expect([await status(second), await status("a-token-written-by-hand")]).toEqual([[401], [200]]);
      expect(statSync(path).mode & 0o777).toBe(0o600);
      writeFileSync(path, "");
      expect([await status("a-token-written-by-hand"), await status("")]).toEqual([[401], [401]]);
      rmSync(path);
      expect(await status("a-token-written-by-hand")).toEqual([401]);
      const made = readFileSync(path, "utf8").trim();
      expect([made.length, await status(made)]).toEqual([32, [200]]);
      expect(stage.log.some(({ line }) => line.includes(second))).toBe(false);
    }, ALWAYS),
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

describe("bodies and files", () => {
  test(
    "F-SEC-13 A12: bodies that never end hold no more than is allowed in all, and what is refused is said",
    httpStory(async (stage) => {
      const length = 950_000;
      const head = (path: string) =>
        bytesOf("POST", path, {
          Host: "localhost",
          "Content-Type": "application/json",
          "Content-Length": String(length),
        });
      const before = process.memoryUsage().arrayBuffers;
      const half = Buffer.alloc(length - 1, " ");
      const wires = Array.from({ length: 140 }, () => stage.connect());
      for (const wire of wires) {
        wire.send(head("/v1/chat/completions"));
        wire.send(half);
      }
      const refused = Promise.race(wires.map((wire) => wire.received('"code":"too_many"')));
      expect(await refused).toMatch(/^HTTP\/1.1 429 /);
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(220_000_000);
      for (const wire of wires) wire.vanish();
      // What they held is free again.
      await until(async () => (await write(stage)).status === 200);
    }),
  );

  test("F-SEC-13 A12: a body that stands still is not waited for", async () => {
    const clock = createManualClock();
    const bodies = new Bodies(clock);
    const incoming = Object.assign(new PassThrough(), { headers: {} }) as unknown as IncomingMessage;
    const reading = bodies.read(incoming, 1_000);
    const failed = expect(reading).rejects.toMatchObject({ code: "request_late" });
    (incoming as unknown as PassThrough).write("{");
    await clock.advance(14_000);
    (incoming as unknown as PassThrough).write('"a":');
    await clock.advance(14_000);
    expect(clock.pending).toBe(1);
    await clock.advance(1_000);
    await failed;
    expect(clock.pending).toBe(0);
  });

  test("F-SEC-13 A12: a .env that others can read is told at the start, one of the owner's own is not", async () => {
    for (const [mode, said] of [
      [0o644, true],
      [0o640, true],
      [0o604, true],
      [0o600, false],
      [0o400, false],
    ] as const) {
      const folder = temporaryFolder();
      const path = join(folder.path, ".env");
      writeFileSync(path, "SECRET_OF_THE_OWNER=hush\n");
      chmodSync(path, mode);
      const lines: string[] = [];
      const note = (fields: object, message: string) => void lines.push(`${JSON.stringify(fields)} ${message}`);
      const config = loadConfig({ flags: { home: folder.path, port: 0 }, env: {} });
      const running = await startGateway({ config, log: { info: note, warn: note, error: note } });
      await running.stop();
      folder.remove();
      expect([mode, lines.some((line) => line.includes(`run chmod 0600 ${path}`))]).toEqual([mode, said]);
      expect(lines.join()).not.toContain("hush");
    }
  });
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
      expect(stage.gateway.turns.running).toBe(1);
      const nothing = await stage.call({ path: "/api/messages/permission", body: { ...body, option: "both" } });
      expect(nothing.json().error).toMatchObject({ code: "request_invalid", remedy: "Choose one of allow, reject." });
      expect((await stage.call({ path: "/api/messages/permission", body })).status).toBe(200);
      const { turn } = await asking;
      expect((await stage.gateway.turns.answerOf(turn)).text).toBe("You answered: allow");
      wire.vanish();
      await untilStreams(stage, 0);
    }, PEOPLE),
  );
});
