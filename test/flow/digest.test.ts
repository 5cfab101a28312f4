/** What was said at one door is known at the others, by files: inside the gateway by itself, and by the command beside Hermes. */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { type RunningGateway, startGateway } from "../../src/gateway/start.ts";
import { silentLog } from "../../src/util/log.ts";
import { Story } from "../support/harness.ts";
import { type HermesState, hermesState } from "../support/hermes-state.ts";
import { temporaryFolder } from "../support/store.ts";
import { type Called, tertulia } from "../support/tertulia.ts";

const MINUTE = 60_000;

let folder: ReturnType<typeof temporaryFolder>;
let home: string;
beforeEach(() => {
  folder = temporaryFolder();
  home = join(folder.path, "files");
  mkdirSync(home);
});
afterEach(() => folder.remove());

const file = (...names: string[]): string => join(home, ...names);
const read = (...names: string[]): string => readFileSync(file(...names), "utf8");
const full = (): string => read("shared-context", "DIGEST.md");

/** A gateway that keeps the files, from the first line to the last. */
function kept(tell: (story: Story) => Promise<void>, digest: Record<string, unknown> = {}): () => Promise<void> {
  return async () => {
    const story = await Story.begin({ config: { timezone: "UTC", digest: { home, ...digest } } });
    try {
      await tell(story);
      await story.end();
    } finally {
      await story.clear();
    }
  };
}

describe("D1: inside the gateway", () => {
  test(
    "D1: G-SYN-04: the files are written at the start and every interval, and only when something was said",
    kept(async (story) => {
      await story.rests();
      expect(full()).toContain("Nothing was said lately.");
      await story.alice().asks("echo the key is under the mat");
      expect(full()).not.toContain("under the mat");
      await story.passes(5 * MINUTE);
      expect(full()).toContain(
        "## terminal · last said 2023-11-14 22:13 +00:00\n\n- User: echo the key is under the mat\n  Agent: ",
      );
      const { ino, mtimeMs } = statSync(file("shared-context", "DIGEST.md"));
      // In progress becomes ended meanwhile: the files say when, and stay.
      for (let run = 0; run < 12; run++) await story.passes(5 * MINUTE);
      expect(statSync(file("shared-context", "DIGEST.md"))).toMatchObject({ ino, mtimeMs });
      await story.alice("web").asks("echo at the page");
      await story.passes(5 * MINUTE);
      expect(full()).toContain("## web");
      expect(full()).toContain("under the mat");
    }),
  );

  /** F-DIG-06: agents at one door, at different doors, one of them silent; and one agent alone, as before. */
  describe("F-DIG-06 who spoke is said", () => {
    const TWO = { agents: { mohe: { runtime: { kind: "demo" } }, zhiwei: { runtime: { kind: "demo" } } } };
    const both = async (tell: (story: Story) => Promise<void>, digest: Record<string, unknown> = {}): Promise<void> => {
      const story = await Story.begin({
        config: { timezone: "UTC", default_agent: "mohe", digest: { home, ...digest }, ...TWO },
      });
      try {
        await tell(story);
        await story.end();
      } finally {
        await story.clear();
      }
    };
    const headings = (text: string): string[] =>
      [...text.matchAll(/^#{2,3} (.+) · last said/gm)].map(([, name]) => name!);

    test("F-DIG-06 D2: at one door each agent has a section under its name, and its lines carry it", () =>
      both(async (story) => {
        await story.alice("console", { agent: "zhiwei" }).asks("say I keep the accounts");
        await story.alice("console", { agent: "mohe" }).asks("say the plan is Friday");
        await story.passes(5 * MINUTE);
        writeFileSync(file("AGENTS.md"), "<!-- CROSS-PLATFORM:BEGIN -->\n<!-- CROSS-PLATFORM:END -->\n");
        await story.passes(5 * MINUTE);
        for (const text of [full(), read("AGENTS.md")]) {
          expect(headings(text)).toEqual(["terminal · mohe", "terminal · zhiwei"]);
          expect(text).toContain("- User: say the plan is Friday\n  mohe: the plan is Friday");
          expect(text).toContain("- User: say I keep the accounts\n  zhiwei: I keep the accounts");
          expect(text).not.toContain("Agent:");
        }
      }));

    test("F-DIG-06 D2: of each agent and door it is the last talk; at different doors too", () =>
      both(async (story) => {
        await story.alice("console", { agent: "mohe" }).asks("say at the terminal");
        await story.alice("web", { agent: "mohe" }).asks("say at the page");
        await story.alice("web", { agent: "zhiwei" }).asks("say it is me");
        await story.passes(20 * MINUTE);
        await story.alice("web", { agent: "zhiwei" }).asks("say me again");
        await story.passes(5 * MINUTE);
        expect(headings(full())).toEqual(["terminal · mohe", "web · mohe", "web · zhiwei"]);
        expect(full()).toContain("zhiwei: me again");
        expect(full()).not.toContain("it is me");
      }));

    test("F-DIG-06 D2: in Chinese the name stands where the word for an agent stood", () =>
      both(
        async (story) => {
          await story.alice("console", { agent: "mohe" }).asks("say one");
          await story.alice("web", { agent: "zhiwei" }).asks("say two");
          await story.passes(5 * MINUTE);
          expect(full()).toContain("- 用户: say two\n  zhiwei: two");
        },
        { lang: "zh" },
      ));

    test("F-DIG-06 D2: where only one of them was ever spoken to, nothing is named", () =>
      both(async (story) => {
        await story.alice("console", { agent: "zhiwei" }).asks("say alone");
        await story.passes(5 * MINUTE);
        expect(headings(full())).toEqual(["terminal"]);
        expect(full()).toContain("  Agent: alone");
      }));
  });

  test(
    "D2: after a pause only what was said since is told of a door; D6: secrets are masked",
    kept(async (story) => {
      await story.alice().asks("echo this morning");
      await story.passes(20 * MINUTE);
      await story.alice().asks("echo password=hunter2!long");
      await story.passes(5 * MINUTE);
      expect(full()).not.toContain("User: echo this morning");
      expect(full()).not.toContain("hunter2");
      expect(full()).toContain("password=…");
    }),
  );

  test(
    "T6 D1: what its author has deleted is told at no other door",
    kept(async (story) => {
      await story.alice().asks("echo to be forgotten");
      await story.alice().asks("echo to be kept");
      story.sql("UPDATE message SET deleted_at = 1 WHERE body = ?", "echo to be forgotten");
      await story.passes(5 * MINUTE);
      expect(full()).toContain("- User: echo to be kept");
      expect(full()).not.toContain("- User: echo to be forgotten");
    }),
  );

  test(
    "D9: G-SYN-02: what another person said is not told, not even where it was said in a session of the owner's",
    kept(async (story) => {
      const alice = story.alice();
      const bob = story.bob("web");
      await alice.asks("echo alice's words");
      await bob.asks("echo bob's own words");
      const { gateway } = story;
      await gateway.bridge.send({
        person: alice.person,
        room: bob.key,
        text: "shall we?",
        sessionId: await alice.session(),
        share: true,
      });
      await bob.asks("echo bob's words in it");
      expect((await alice.transcript()).join()).toContain("bob's words in it");
      await story.passes(5 * MINUTE);
      expect(full()).toContain("alice's words");
      expect(full()).not.toMatch(/bob's/);
    }),
  );

  test(
    "D1: idle_minutes, limit, language and noise are the configuration's",
    kept(
      async (story) => {
        const alice = story.alice();
        await alice.asks("echo one");
        await story.passes(2 * MINUTE);
        await alice.asks("echo two");
        await alice.asks("BEEP echo beep");
        await alice.asks("echo three");
        await story.passes(MINUTE);
        expect(full()).toContain("- 用户: echo three");
        expect(full()).not.toMatch(/用户: (?:echo one|echo two|BEEP)/);
      },
      { interval: "1m", idle_minutes: 1, limit: 1, lang: "zh", noise: ["BEEP"] },
    ),
  );

  test("D1: a home that cannot be written stops nothing, is said once, and is written when it can", async () => {
    const story = await Story.begin({ config: { digest: { home: file("later") } } });
    try {
      await story.passes(20 * MINUTE);
      expect(story.faults).toEqual([`digest_home: There is no folder ${file("later")}.`]);
      mkdirSync(file("later"));
      await story.passes(5 * MINUTE);
      expect(read("later", "shared-context", "DIGEST.md")).toContain("Nothing was said");
      story.faults.length = 0;
      await story.end();
    } finally {
      await story.clear();
    }
  });

  test("D1: without a home there are no files, and no timer for them", async () => {
    const story = await Story.begin();
    await story.alice().asks("echo hello");
    await story.passes(10 * MINUTE);
    await story.end();
    await story.clear();
    expect(readdirSync(home)).toEqual([]);
  });
});

describe("D1: the command, and our own store", () => {
  let state: string;
  let gateway: RunningGateway | null;
  beforeEach(() => {
    gateway = null;
    state = join(folder.path, "tertulia");
    mkdirSync(state, { mode: 0o700 });
    writeFileSync(
      join(state, "config.yaml"),
      `timezone: UTC\nhttp: { port: 0 }\npeople: { bob: { tokens: [0123456789abcdef] } }\n`,
    );
  });
  afterEach(() => gateway?.stop());

  const call = (...argv: string[]): Promise<Called> => tertulia("--config", join(state, "config.yaml"), ...argv);

  async function start(): Promise<void> {
    gateway = await startGateway({ config: loadConfig({ flags: { home: state } }), log: silentLog });
    const said = await gateway.gateway.doors.say({
      person: { id: "owner", role: "owner" },
      agent: "main",
      door: { platform: "console", name: "main" },
      text: "echo from the terminal",
    });
    if (said.kind === "turn") await gateway.gateway.turns.answerOf(said.turnId);
  }

  test("D1: it asks the running gateway, else its file; without either there is nothing", async () => {
    const home_ = process.env.TERTULIA_HOME;
    process.env.TERTULIA_HOME = state;
    try {
      // An empty digest would take away what another program's run has written.
      expect(await call("digest", "run", "--home", home)).toMatchObject({
        code: 2,
        err: expect.stringContaining("there is no state in"),
      });
      expect(readdirSync(home)).toEqual([]);
      await start();
      expect((await call("digest", "show")).out).toMatch(/^terminal: in progress, \d+ m?s ago/);
      expect((await call("digest", "run", "--home", home)).out).toContain("shared-context/DIGEST.md: written");
      expect(full()).toContain("from the terminal");
      await gateway!.stop();
      gateway = null;
      expect(await call("digest", "run", "--home", home)).toEqual({ code: 0, out: "", err: "" });
      expect(JSON.parse((await call("digest", "show", "--json")).out)).toMatchObject({
        sections: [{ platform: "terminal" }],
      });
      expect(await call("digest", "run")).toMatchObject({
        code: 2,
        err: expect.stringContaining("digest_home: It is not said where the files are"),
      });
    } finally {
      if (home_ === undefined) delete process.env.TERTULIA_HOME;
      else process.env.TERTULIA_HOME = home_;
    }
  });

  test("D9: G-SYN-03: install refuses a home of our own where others talk to the agent as well, unless that is said", async () => {
    const home_ = process.env.TERTULIA_HOME;
    process.env.TERTULIA_HOME = state;
    try {
      await start();
      // F-DIG-05: there is no Hermes in this home, so our own state is told, by install at once.
      expect(await call("digest", "install", "--home", home)).toMatchObject({ code: 0 });
      expect(full()).toContain("from the terminal");
      expect(await call("digest", "run", "--home", home)).toEqual({ code: 0, out: "", err: "" });
      expect(await call("digest", "uninstall", "--home", home)).toMatchObject({ code: 0 });
      const said = await gateway!.gateway.doors.say({
        person: { id: "bob", role: "member" },
        agent: "main",
        door: { platform: "web", name: "x" },
        text: "echo from bob",
      });
      if (said.kind === "turn") await gateway!.gateway.turns.answerOf(said.turnId);
      const asked = await fetch(`${gateway!.url}/api/digest/readers`, {
        headers: { authorization: "Bearer 0123456789abcdef" },
      });
      expect(asked.status).toBe(403);
      for (const isUp of [true, false]) {
        if (!isUp) await gateway!.stop();
        expect(await call("digest", "install", "--home", home)).toMatchObject({
          code: 1,
          out: "",
          err: expect.stringContaining(
            "digest_group_leak: Others than the owner would read the digest: There are 1 direct",
          ),
        });
        expect(readdirSync(home)).toEqual([]);
      }
      gateway = null;
      const db = new DatabaseSync(join(state, "state.db"));
      db.exec("UPDATE place SET chat_type = 'group' WHERE platform = 'web'");
      db.close();
      expect((await call("digest", "install", "--home", home)).err).toContain("There are 1 group sessions.");
      const accepted = await call("digest", "install", "--home", home, "--i-accept-group-leak");
      expect(accepted).toMatchObject({ code: 0, out: expect.stringContaining("Note: There are 1 group sessions.") });
    } finally {
      if (home_ === undefined) delete process.env.TERTULIA_HOME;
      else process.env.TERTULIA_HOME = home_;
    }
  });

  test("D9: over HTTP it is the owner's alone", async () => {
    await start();
    const asBob = await fetch(`${gateway!.url}/api/digest`, { headers: { authorization: "Bearer 0123456789abcdef" } });
    expect(asBob.status).toBe(403);
    expect(JSON.stringify(await asBob.json())).not.toContain("from the terminal");
    const asOwner = await fetch(`${gateway!.url}/api/digest`, {
      headers: { authorization: `Bearer ${gateway!.ownerToken}` },
    });
    expect(JSON.stringify(await asOwner.json())).toContain("from the terminal");
  });
});

describe("D1: the command, beside Hermes", () => {
  let hermes: HermesState;
  const now = Math.floor(Date.now() / 1000);
  beforeEach(() => {
    hermes = hermesState(file("state.db"));
    hermes.message(
      hermes.session({ id: "t", source: "telegram", chat_type: "dm", user_id: "42", started_at: now - 300 }),
      "user",
      "said at Telegram",
      now - 120,
    );
    hermes.message("t", "assistant", "heard", now - 119);
  });
  afterEach(() => hermes.close());

  const call = (verb: string, ...argv: string[]): Promise<Called> =>
    tertulia("digest", verb, "--home", home, "--state", file("state.db"), ...argv);

  test("D7: install, run, show, uninstall; a run that changes nothing prints nothing", async () => {
    const installed = await call("install");
    expect(installed).toMatchObject({ code: 0, err: "" });
    expect(installed.out).toContain("AGENTS.md: created");
    expect(installed.out).toContain('hermes cron create "every 5m"');
    expect(installed.out).toContain("--no-agent --deliver local");
    expect(installed.out).toContain("shared-context/DIGEST.md: written");
    for (let run = 0; run < 3; run++) expect(await call("run")).toEqual({ code: 0, out: "", err: "" });
    expect(full()).toContain("- User: said at Telegram\n  Agent: heard");
    expect(read("AGENTS.md")).toContain("- User: said at Telegram\n  Agent: heard");
    expect((await call("show", "--lang", "zh")).out).toMatch(/^telegram: 进行中, 2 min前/);
    expect((await tertulia("digest", "uninstall", "--home", home)).out).toBe(
      "shared-context/DIGEST.md: removed\nAGENTS.md: removed\nSOUL.md: removed\n",
    );
    expect(readdirSync(home).filter((name) => !name.startsWith("state.db"))).toEqual([]);
    // The recipe was followed by hand: its other half is said.
    mkdirSync(file("scripts"));
    writeFileSync(file("scripts", "tertulia-digest.sh"), "#!/bin/sh\n");
    const { out } = await call("uninstall");
    expect(out).toContain("hermes cron remove ID");
    expect(out).toContain(`rm ${file("scripts", "tertulia-digest.sh")}`);
  });

  test("D9: G-SYN-03: install refuses a home that others read, unless that is said", async () => {
    hermes.session({ id: "g", source: "discord", chat_type: "group" });
    hermes.session({ id: "f", source: "telegram", chat_type: "dm", user_id: "43" });
    const refused = await call("install");
    expect(refused).toMatchObject({ code: 1, out: "" });
    expect(refused.err).toContain(
      "digest_group_leak: Others than the owner would read the digest: There are 1 group sessions. There are 2 direct chats",
    );
    expect(existsSync(file("AGENTS.md"))).toBe(false);
    const accepted = await call("install", "--i-accept-group-leak", "--owner", "telegram:42");
    expect(accepted.code).toBe(0);
    expect(accepted.out).toContain("Note: There are 1 group sessions.");
    expect(accepted.out).toContain("--owner telegram:42");
    await call("run", "--owner", "telegram:42");
    expect(full()).toContain("said at Telegram");
  });

  test("D7: damaged markers end in a sentence and exit code 1; DIGEST.md is written all the same", async () => {
    writeFileSync(file("AGENTS.md"), "<!-- CROSS-PLATFORM:BEGIN -->\nmine\n");
    const { code, err } = await call("run");
    expect(code).toBe(1);
    expect(err).toContain("is damaged: the end marker is missing. The file was not changed.");
    expect(read("AGENTS.md")).toBe("<!-- CROSS-PLATFORM:BEGIN -->\nmine\n");
    expect(full()).toContain("said at Telegram");
  });

  /** F-DIG-05: each way a home can be named, and what install, run and show find by it. */
  describe("F-DIG-05 install fills the files, and every command finds the same", () => {
    const at = (verb: string, ...argv: string[]): Promise<Called> => tertulia("digest", verb, "--home", home, ...argv);
    const other = (): string => join(folder.path, "elsewhere.db");
    function elsewhere(): HermesState {
      const state = hermesState(other());
      const session = state.session({
        id: "w",
        source: "weixin",
        chat_type: "dm",
        user_id: "7",
        started_at: now - 300,
      });
      state.message(session, "user", "said elsewhere", now - 100);
      return state;
    }

    test("F-DIG-05 D7: a state.db in the home is read by all of them without a word of it", async () => {
      expect(await at("install")).toMatchObject({ code: 0, err: "" });
      expect(full()).toContain("- User: said at Telegram\n  Agent: heard");
      expect(read("AGENTS.md")).toContain("- User: said at Telegram\n  Agent: heard");
      expect(await at("run")).toEqual({ code: 0, out: "", err: "" });
      hermes.message("t", "user", "one more", now - 60);
      expect((await at("run")).out).toBe("shared-context/DIGEST.md: written\nAGENTS.md: written\n");
      expect((await at("show")).out).toContain("one more");
    });

    test("F-DIG-05 D7: a home without an install finds its own state.db too", async () => {
      expect((await at("run")).out).toContain("shared-context/DIGEST.md: written");
      expect(full()).toContain("said at Telegram");
    });

    test("F-DIG-05 D7: what install was told of state, owners and language holds for later calls by the home", async () => {
      const state = elsewhere();
      try {
        state.session({ id: "x", source: "weixin", chat_type: "dm", user_id: "8" });
        const said = ["--state", other(), "--owner", "weixin:7", "--lang", "zh", "--i-accept-group-leak"];
        expect(await at("install", ...said)).toMatchObject({ code: 0 });
        expect(full()).toContain("- 用户: said elsewhere");
        expect(await at("run")).toEqual({ code: 0, out: "", err: "" });
        expect((await at("show")).out).toMatch(/^weixin: 进行中/);
        expect((await at("show", "--lang", "en")).out).toMatch(/^weixin: in progress/);
        expect((await at("show", "--state", file("state.db"))).out).toMatch(/^telegram/);
        // Installed anew without words it stays what it was; uninstalled, it is forgotten.
        expect(await at("install", "--i-accept-group-leak")).toMatchObject({ code: 0 });
        expect(full()).toContain("said elsewhere");
        expect(await at("uninstall")).toMatchObject({ code: 0 });
        expect(readdirSync(home).filter((name) => !name.startsWith("state.db"))).toEqual([]);
        expect((await at("show")).out).toMatch(/^telegram: in progress/);
      } finally {
        state.close();
      }
    });

    test("F-DIG-05 D7: a home that is not absolute, or has a slash at its end, is the same home", async () => {
      expect(await tertulia("digest", "install", "--home", `${home}/`)).toMatchObject({ code: 0 });
      expect(await at("run")).toEqual({ code: 0, out: "", err: "" });
    });

    test("F-DIG-05 D7: what install could not read it says, and nothing is left", async () => {
      expect(await at("install", "--state", file("none.db"))).toMatchObject({ code: 3 });
      expect(readdirSync(home).filter((name) => !name.startsWith("state.db"))).toEqual([]);
    });

    test("F-DIG-05 E3: a home that is a file, and a file where a folder of ours would be, are said", async () => {
      writeFileSync(file("plain"), "x");
      for (const command of ["install", "run", "uninstall"])
        expect(await tertulia("digest", command, "--home", file("plain"), "--state", file("state.db"))).toMatchObject({
          code: 2,
          err: expect.stringMatching(/^digest_home: There is no folder /),
        });
      writeFileSync(file("shared-context"), "mine");
      expect(await at("install")).toMatchObject({ code: 3, err: expect.stringMatching(/^home_unwritable: /) });
      expect(readFileSync(file("shared-context"), "utf8")).toBe("mine");
    });

    test("F-DIG-05 E3: a damaged note of it is said with its remedy", async () => {
      expect(await at("install")).toMatchObject({ code: 0 });
      for (const damage of ["", "{", "[]", '{"state":1}']) {
        writeFileSync(file("shared-context", "tertulia-digest.json"), damage);
        expect(await at("run")).toMatchObject({ code: 2, err: expect.stringMatching(/is damaged(.|\n)*install/) });
      }
      expect(await at("uninstall")).toMatchObject({ code: 0 });
    });
  });

  test("E2: what is not allowed is said", async () => {
    expect(await call("run", "--lang", "fr")).toMatchObject({
      code: 2,
      err: expect.stringContaining("allowed: en, zh"),
    });
    expect(await call("run", "--owner", "alice")).toMatchObject({
      code: 2,
      err: expect.stringContaining("telegram:42"),
    });
    expect(await tertulia("digest", "run", "--home", home, "--state", home)).toMatchObject({
      code: 3,
      err: expect.stringContaining("is a folder"),
    });
    expect(await tertulia("digest", "run", "--home", home, "--state", file("none.db"))).toMatchObject({
      code: 3,
      err: expect.stringContaining("foreign_state"),
    });
  });

  test("D1: the command alone loads no more than it needs: no configuration, no store, no schema library", async () => {
    // The loader says what was loaded: a process of its own, whose modules are counted at its end.
    const script = `
      import { registerHooks } from "node:module";
      const loaded = [];
      registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context); } });
      process.argv.splice(1, 0, "");
      const { run } = await import(${JSON.stringify(new URL("../../src/cli/run.ts", import.meta.url).href)});
      await run(["digest", "run", "--home", ${JSON.stringify(home)}, "--state", ${JSON.stringify(file("state.db"))}, "--json"]);
      console.error(JSON.stringify(loaded));`;
    const { stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
    const loaded = (JSON.parse(stderr.slice(stderr.indexOf("["))) as string[]).filter((url) => url.startsWith("file:"));
    expect(loaded.some((url) => url.includes("/digest/hermes/talks"))).toBe(true);
    for (const heavy of ["/zod/", "/yaml/", "/pino", "/hono", "src/config", "src/gateway", "src/store/"])
      expect(loaded.filter((url) => url.includes(heavy))).toEqual([]);
  });
});
