import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { followConfig } from "../../src/gateway/start.ts";
import { type HttpStage, httpStory, LOCAL, until } from "../support/http-stage.ts";

/** The gateway follows its files, as `tertulia start` lets it. */
function following(tell: (stage: HttpStage, log: string[]) => Promise<void>, config?: Record<string, unknown>) {
  return httpStory(async (stage) => {
    const lines: string[] = [];
    const note = (_: object, message: string): void => void lines.push(message);
    const followed = followConfig({
      gateway: stage.gateway,
      load: () => loadConfig({ flags: { home: stage.home }, env: {} }),
      log: { info: note, warn: note, error: note },
    });
    try {
      await tell(stage, lines);
    } finally {
      followed.stop();
    }
  }, config);
}

const demo = { runtime: { kind: "demo" } };
const write = (stage: HttpStage, config: object) =>
  writeFileSync(join(stage.home, "config.yaml"), JSON.stringify({ http: LOCAL, ...config }));

test(
  "A3 G6 a changed file is read, and holds from the next message on; what needs a restart is said",
  following(async (stage, log) => {
    write(stage, { agents: { main: demo, lan: { ...demo, persona: "lan.md" } }, log: { level: "warn" } });
    await until(() => log.length > 0);
    expect(log).toEqual([expect.stringContaining("allowed: the path of a text file that is there")]);
    writeFileSync(join(stage.home, "lan.md"), "You are Lan.");
    write(stage, { agents: { main: demo, lan: { ...demo, persona: "lan.md" } }, log: { level: "warn" } });
    await until(() => stage.gateway.config.agents.lan !== undefined);
    await until(() => log.some((line) => line === "these changes wait for the next start: log"));
    const said = await stage.client().chat.completions.create({
      model: "lan",
      messages: [{ role: "user", content: "say I am here" }],
    });
    expect(said.choices[0]?.message.content).toBe("I am here");
    writeFileSync(join(stage.home, "lan.md"), "You are Lan the Second.");
    await until(() => stage.gateway.config.agents.lan?.persona === "You are Lan the Second.");
  }),
);

test(
  "A3 an invalid file is refused with its complaint, and the old one stays",
  following(
    async (stage, log) => {
      write(stage, { agents: { main: demo }, people: { eve: { tokens: ["short"] } } });
      await until(() => log.length > 0);
      expect(log[0]).toMatch(/the configuration was not read anew: .*people\.eve\.tokens\.0.*at least 16/s);
      expect(stage.gateway.config.people.bob?.tokens).toEqual(["bob-bob-bob-bob-bob"]);
      write(stage, { agents: { main: demo } });
      await until(() => stage.gateway.config.people.bob === undefined);
      const refused = await stage.call({
        path: "/api/sessions",
        token: "bob-bob-bob-bob-bob",
        headers: { "x-forwarded-for": "1.1.1.1" },
      });
      expect(refused.status).toBe(401);
    },
    { people: { bob: { tokens: ["bob-bob-bob-bob-bob"] } } },
  ),
);

test(
  "G6 B7 a runtime that was taken out ends its agents, and comes back as it is described then",
  httpStory(
    async (stage) => {
      const reads = async (runtimes: object, runtime: string): Promise<void> => {
        write(stage, { welcome: false, runtimes, agents: { main: { runtime } } });
        await stage.gateway.reload(loadConfig({ flags: { home: stage.home }, env: {} }));
      };
      const asks = async (): Promise<string> => {
        const words = { model: "main", messages: [{ role: "user" as const, content: "say hi" }] };
        const asked = stage.client().chat.completions.create(words, { headers: { "x-tertulia-conversation": "c" } });
        return asked.then(
          ({ choices }) => choices[0]?.message.content ?? "",
          (error: Error) => error.message,
        );
      };
      expect(await asks()).toBe("hi");
      expect(stage.gateway.pool.list()).toMatchObject([{ runtime: "x", state: "warm" }]);
      await reads({}, "demo");
      await until(() => stage.gateway.pool.list().length === 0);
      expect(await asks()).toBe("hi");
      await reads({ x: { kind: "acp", command: "no-such-agent" } }, "x");
      expect(await asks()).toContain("no-such-agent");
      expect(await stage.gateway.reload(stage.gateway.config)).toEqual([]);
    },
    { welcome: false, runtimes: { x: { kind: "demo" } }, agents: { main: { runtime: "x" } } },
  ),
);
