/**
 * Proxies of the environment. The kind: every way to name one (large and small letters, with and without a scheme, for all), every name
 * that is this machine, every form of NO_PROXY; model servers, Hermes, doctor and the CLI; with Node's own switch and without.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { createRuntimes } from "../../src/gateway/runtimes.ts";
import { type RunningGateway, startGateway } from "../../src/gateway/start.ts";
import { systemClock } from "../../src/util/clock.ts";
import { silentLog } from "../../src/util/log.ts";
import { createDirectFetch, createFetch } from "../../src/util/outgoing.ts";
import { ask, openRequest } from "../contract/runtime.contract.ts";
import { type FakeModel, says, startFakeModel } from "../support/fake-model.ts";
import { type LittleProxy, startLittleProxy } from "../support/little-proxy.ts";
import { temporaryFolder } from "../support/store.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

let model: FakeModel;
let proxy: LittleProxy;
let folder: ReturnType<typeof temporaryFolder>;
beforeEach(async () => {
  model = await startFakeModel([says("hello")]);
  proxy = await startLittleProxy(() => model.port);
  folder = temporaryFolder();
});
afterEach(async () => {
  await proxy.close();
  await model.close();
  folder.remove();
});

type Variables = Readonly<Record<string, string>>;

function configOf(baseUrl: string, env: Variables, more: object = {}) {
  const runtime = { kind: "http", model: "fake-1", base_url: baseUrl, key: "k3y-of-the-owner", ...more };
  writeFileSync(join(folder.path, "config.yaml"), JSON.stringify({ agents: { main: { runtime } } }));
  return loadConfig({ flags: { home: folder.path, port: 0 }, env });
}

/** What a turn of a model at an address comes to. */
async function answerAt(baseUrl: string, env: Variables) {
  const runtimes = createRuntimes(configOf(baseUrl, env), { clock: systemClock, chance: () => 0 });
  const runtime = runtimes.get("http:main")!;
  const session = await runtime.open(openRequest());
  const result = await ask(session, "hi");
  await runtime.close();
  return result;
}

test.each<[string, (url: string) => Variables]>([
  ["HTTP_PROXY", (url) => ({ HTTP_PROXY: url })],
  ["http_proxy", (url) => ({ http_proxy: url, HTTP_PROXY: "http://127.0.0.1:1" })],
  ["ALL_PROXY", (url) => ({ ALL_PROXY: url })],
  ["without a scheme", (url) => ({ HTTP_PROXY: url.replace("http://", "") })],
  ["with a NO_PROXY for others", (url) => ({ HTTP_PROXY: url, NO_PROXY: "other.test,.inner.test,model.test:81" })],
])("F-MOD-03 a model server elsewhere is asked through the proxy: %s", async (_, env) => {
  expect(await answerAt("http://model.test/v1", env(proxy.url))).toMatchObject({ outcome: "done", text: "hello" });
  expect(proxy.asked).toEqual(["model.test:80"]);
});

test("F-MOD-03 so is one that speaks https, by HTTPS_PROXY, and it is said that a proxy may be in the way", async () => {
  const result = await answerAt("https://model.test/v1", { HTTPS_PROXY: proxy.url });
  expect(proxy.asked[0]).toBe("model.test:443");
  expect(result.outcome).toBe("failed");
  const lost = await answerAt("http://model.test/v1", { HTTP_PROXY: "http://user:hush@127.0.0.1:1" });
  expect(lost.failure?.message).toContain("HTTP_PROXY");
  expect(lost.failure?.message).not.toContain("hush");
}, 30_000);

test.each(["127.0.0.1", "localhost", "127.0.0.2", "sub.localhost", "0.0.0.0"])(
  "F-MOD-03 %s is this machine, and is never asked through a proxy",
  async (host) => {
    const server = createServer((_, outgoing) => outgoing.end("here"));
    await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
    const { port } = server.address() as AddressInfo;
    const proxied = createFetch({ http: proxy.url, https: proxy.url, except: "" });
    const reached = await proxied(`http://${host}:${port}/`).then(
      (response) => response.text(),
      // A machine that does not know the name.
      (cause: Error) => (cause.cause as { code: string }).code,
    );
    expect(reached).toMatch(/^here$|ENOTFOUND|EAI_AGAIN/);
    expect(proxy.asked).toEqual([]);
    server.closeAllConnections();
    server.close();
  },
);

test.each(["model.test", "other.test, model.test", ".test", "*.test", "*", "model.test:80"])(
  "F-MOD-03 NO_PROXY %s leaves the model server out",
  async (except) => {
    const proxied = createFetch({ http: proxy.url, except });
    await expect(proxied("http://model.test/")).rejects.toThrow();
    expect(proxy.asked).toEqual([]);
  },
);

test("F-MOD-03 without a proxy it is Node's own fetch", () => {
  expect(createFetch(undefined)).toBe(fetch);
  expect(createDirectFetch(undefined)).toBe(fetch);
  expect(configOf("http://model.test/v1", {}).proxies).toBeUndefined();
  expect(configOf("http://model.test/v1", { HTTP_PROXY: "", NO_PROXY: "a" }).proxies).toBeUndefined();
});

test("F-MOD-03 E2: a proxy that is none stops the start, and its words are not shown", () => {
  for (const written of ["socks5://user:hush@proxy.test", "http://", "http://user:hush@:80"]) {
    let message = "";
    try {
      configOf("http://model.test/v1", { HTTPS_PROXY: written });
    } catch (cause) {
      message = String(cause);
    }
    expect(message).toContain("HTTPS_PROXY is no http or https address");
    expect(message).not.toContain("hush");
  }
});

test.each<[string, Variables]>([
  ["with Node's own switch", { NODE_USE_ENV_PROXY: "1" }],
  ["with Node's option", { NODE_OPTIONS: "--use-env-proxy" }],
  ["as it is", {}],
])(
  "F-MOD-03 A4: the CLI's calls to the gateway never go to a proxy, %s",
  async (_, more) => {
    let running: RunningGateway | null = null;
    try {
      running = await startGateway({ config: configOf(model.url, {}), log: silentLog });
      const env = {
        PATH: process.env.PATH,
        HTTP_PROXY: proxy.url,
        HTTPS_PROXY: proxy.url,
        http_proxy: proxy.url,
        ...more,
      };
      const child = spawn(process.execPath, [MAIN, "--home", folder.path, "chat", "-q", "hi"], { env });
      const [said, complained] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
      expect({ said: said.trim(), complained }).toEqual({ said: "hello", complained: "" });
      const found = spawn(process.execPath, [MAIN, "--home", folder.path, "doctor"], { env });
      const [report] = await Promise.all([text(found.stdout), once(found, "close")]);
      expect(report).toMatch(/ok +proxy .*HTTP_PROXY/);
      expect(proxy.asked).toEqual([]);
      expect(proxy.seen.join("\n")).not.toContain(running.ownerToken);
    } finally {
      await running?.stop();
    }
  },
  60_000,
);
