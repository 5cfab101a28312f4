import { describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { nextResetAt, type ResetPolicy } from "../../src/conversation/reset-policy.ts";
import { titleOf } from "../../src/conversation/title.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { story } from "../support/harness.ts";
import { httpStory } from "../support/http-stage.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { temporaryFolder } from "../support/store.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const IDLE = { reset: { default: { mode: "idle", idle_minutes: 60 } } };
const MODEL = { kind: "http", base_url: "http://127.0.0.1:9/v1", model: "m-1", key: "sk-geheim" };

describe("what both sides are told", () => {
  test(
    "R5 G-RST-05 an idle reset is told once to the model and once to the user, with the way back; later nothing",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("here is link L");
      const before = await alice.session();
      await stage.passes(2 * HOUR);
      const answer = await alice.asks("what do you think of it?");
      expect(answer).toContain("fresh conversation (the earlier one was idle for too long)");
      expect(stage.lastPrompt()).toMatch(
        new RegExp(`The one before is session ${before}, last used [-\\d]+ [:\\d]+, ended [-\\d]+ [:\\d]+\\.`),
      );
      expect(await alice.asks("and now?")).not.toContain("fresh conversation");
      const told = alice.shows().filter((line) => line.includes("This is a new session"));
      expect(told).toEqual([
        `This is a new session (${await alice.session()}), because the earlier one was idle for longer than you allow. The one before is ${before}; ` +
          `\`/resume ${before}\` goes back to it. Agent main, runtime demo.`,
      ]);
    }, IDLE),
  );

  test(
    "R5 G-RST-05 a session without any words is replaced without a notice; one that wants no notices gets none",
    story(
      async (stage) => {
        const alice = stage.alice();
        await alice.asks("/new");
        await stage.passes(2 * HOUR);
        await alice.asks("say one");
        const web = stage.alice("web");
        await web.asks("say two");
        await stage.passes(2 * HOUR);
        await web.asks("say three");
        expect([...alice.shows(), ...web.shows()].join()).not.toContain("This is a new session");
      },
      {
        reset: {
          default: { mode: "idle", idle_minutes: 60 },
          platforms: { web: { mode: "idle", idle_minutes: 60, notify: false } },
        },
      },
    ),
  );

  test(
    "R5 /new and /status say model, window with its origin, and a local address, and never a key",
    story(
      async (stage) => {
        const terminal = stage.alice("console", { agent: "ada" });
        const facts =
          "Agent ada, runtime http, model m-1, context window 32,768 tokens (default), at http://127.0.0.1:9/v1";
        for (const command of ["/new", "/status"]) {
          const reply = await terminal.asks(command);
          expect(reply).toContain(facts);
          expect(reply).not.toContain("geheim");
        }
        const far = await stage.alice("console", { agent: "far" }).asks("/status");
        expect(far).toContain("model gpt, context window 128,000 tokens (preset)");
        expect(far).not.toMatch(/geheim|https?:/);
        expect(await stage.alice("console", { agent: "set" }).asks("/new")).toContain("2,048 tokens (configured)");
      },
      {
        agents: {
          main: { runtime: { kind: "demo" } },
          ada: { runtime: MODEL },
          far: { runtime: { kind: "http", preset: "openai", model: "gpt", key: "sk-geheim" } },
          set: { runtime: { kind: "http", preset: "ollama", model: "m", window: 2048, max_output: 256 } },
        },
      },
    ),
  );

  test(
    "R8 whoever comes for the first time is welcomed once, at whatever own door, and never over HTTP",
    story(
      async (stage) => {
        await stage.bob("http").asks("say one");
        expect(stage.bob("http").shows()).toEqual(["one"]);
        await stage.bob().asks("say two");
        expect(stage.bob().shows()).toEqual(["two"]);
        await stage.alice("web").asks("say three");
        await stage.alice().asks("say four");
        await stage.alice("web").asks("/new say five");
        expect(stage.alice("web").shows()[0]).toMatch(/^Welcome\..* Agent main, runtime demo\. \/help lists/);
        expect(
          [...stage.alice("web").shows(), ...stage.alice().shows()].filter((line) => /^Welcome/.test(line)),
        ).toHaveLength(1);
      },
      { welcome: true },
    ),
  );
});

describe("/resume", () => {
  test(
    "R6 lists one's own sessions of this agent, the last used first, and goes back by number, title or id",
    story(async (stage) => {
      const [alice, bob] = [stage.alice(), stage.bob()];
      await bob.asks("say private");
      await alice.asks("say apples are red");
      const first = await alice.session();
      await stage.passes(MINUTE);
      await alice.asks("/new say pears are green");
      await stage.passes(1_000);
      const second = await alice.session();
      const list = await alice.asks("/resume");
      expect(list).toMatch(
        /1 {2}"say pears are green" {2}terminal main, 2 entries, last used 2023-11-1.*\(here\)\n {2}2 {2}"say apples/,
      );
      expect(list).not.toContain("private");
      expect(await alice.asks("/resume SAY APP")).toContain(
        `Back in session ${first} (say apples are red), 2 entries.`,
      );
      expect(await alice.session()).toBe(first);
      expect(await alice.asks("history")).toContain("me: apples are red");
      expect(await alice.asks("/resume 2")).toContain(`Back in session ${second}`);
      await stage.passes(1_000);
      expect(await alice.asks(`/resume ${first}`)).toContain(`Back in session ${first}`);
      expect(await alice.asks("/resume")).toContain('"say apples are red"');
      expect(await alice.asks("/resume say")).toContain("Several sessions begin with");
      expect(await alice.asks("/resume 9")).toContain("No session of yours");
      expect(await alice.asks("/resume 1")).toContain("speaks in that session already");
      expect(stage.sql("SELECT n, opened_by, end_reason FROM span WHERE session_id = ? ORDER BY n", first)).toEqual([
        { n: 1, opened_by: "message", end_reason: "new" },
        { n: 2, opened_by: "resume", end_reason: "resumed" },
        { n: 3, opened_by: "resume", end_reason: null },
      ]);
    }),
  );

  test(
    "R6 somebody else's session does not exist, by id as by title",
    story(async (stage) => {
      await stage.bob().asks("say private");
      const his = await stage.bob().session();
      await stage.alice().asks("say mine");
      expect(await stage.alice().asks(`/resume ${his}`)).toContain("No session of yours");
      expect(await stage.alice().asks("/resume say private")).toContain("No session of yours");
    }),
  );

  test(
    "R4 R6 what runs in the session left is interrupted, what waits withdrawn, each told why, and nothing reaches it later",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      const first = await alice.session();
      await alice.asks("/new");
      const running = await alice.says("slow 9");
      const waiting = await alice.says("say lost");
      await stage.passes(200);
      const second = await alice.session();
      await alice.asks(`/resume ${first}`);
      expect(await alice.answer(running)).toMatchObject({ turn: { state: "interrupted", reason: "resumed" } });
      expect(await alice.hears(waiting)).toContain("went on in another session");
      const left = await alice.transcript(second);
      await stage.passes(2_000);
      expect(await alice.transcript(second)).toEqual(left);
      expect(await alice.asks("history")).toBe("Earlier messages: 2\nyou: say one\nme: one");
      expect(await stage.gateway.reader.session(second)).toMatchObject({ endReason: "resumed" });
    }),
  );

  test(
    "R6 H4 resumed at another door it is a pinned binding, re-opened if it had ended; leaving it ends it again",
    story(async (stage) => {
      const [terminal, web] = [stage.alice(), stage.alice("web")];
      await terminal.asks("say at the terminal");
      const first = await terminal.session();
      await terminal.asks("/new say second");
      await web.asks("say at the page");
      const own = await web.session();
      expect(await web.asks("/resume say at the terminal")).toContain(`Back in session ${first}`);
      expect(await stage.gateway.reader.bindings({})).toMatchObject([{ kind: "pinned", sessionId: first }]);
      expect(await web.session()).toBe(own);
      expect((await web.says("history")).sessionId).toBe(first);
      await stage.quiets();
      expect(web.shows().at(-1)).toContain("me: at the terminal");
      expect(await terminal.session()).not.toBe(first);
      expect(await web.asks("/undo")).toContain(`left session ${first}`);
      expect(await stage.gateway.reader.session(first)).toMatchObject({ endReason: "left" });
      expect((await web.says("say home")).sessionId).toBe(own);
    }),
  );

  test(
    "R7 a suspended session can be resumed: it is healthy again",
    story(async (stage) => {
      const alice = stage.alice();
      for (let n = 0; n < 3; n++) await alice.asks("gone");
      const before = await alice.session();
      await alice.asks("say fresh");
      await alice.asks(`/resume ${before}`);
      await alice.asks("gone");
      await alice.asks("say again");
      expect(await alice.session()).toBe(before);
    }),
  );

  test(
    "R9 R2 a session resumed is not reset at once for its old age; recovery re-opens none",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      const first = await alice.session();
      await stage.passes(2 * HOUR);
      await alice.asks("say two");
      const second = await alice.session();
      await stage.process.kill();
      await stage.comesBack();
      expect(await alice.session()).toBe(second);
      await alice.asks(`/resume ${first}`);
      await stage.passes(30 * MINUTE);
      await alice.asks("say three");
      expect(await alice.session()).toBe(first);
    }, IDLE),
  );
});

describe("/undo", () => {
  test(
    "R6 takes back the last turn, then the one before, then the reset; the agent knows nothing of it, entries stay marked",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say zero");
      const first = await alice.session();
      await alice.asks("/new say one");
      await stage.passes(1_000);
      await alice.asks("say two");
      const second = await alice.session();
      expect(await alice.asks("/undo")).toContain('Taken back: "say two"');
      expect(await alice.asks("history")).toBe("Earlier messages: 2\nyou: say one\nme: one");
      expect(await alice.asks("/undo")).toContain('"history"');
      expect(await alice.asks("/undo")).toContain('"say one"');
      expect(await alice.transcript()).toEqual([
        "user (undone): say one",
        "assistant (undone): one",
        "user (undone): say two",
        "assistant (undone): two",
        "user (undone): history",
        expect.stringMatching(/^assistant \(undone\): Earlier/),
      ]);
      expect(await alice.asks("/undo")).toBe(`The reset is taken back: this is session ${first} again.`);
      expect(await alice.session()).toBe(first);
      expect(await stage.gateway.reader.session(second)).toMatchObject({ endReason: "undone" });
      expect(await alice.asks("history")).toBe("Earlier messages: 2\nyou: say zero\nme: zero");
      expect(await alice.asks("/undo")).toContain('"history"');
      expect(await alice.asks("/undo")).toContain('"say zero"');
      expect(await alice.asks("/undo")).toBe("There is nothing to take back here.");
      expect(alice.shows()).toContain("two");
    }),
  );

  test(
    "R5 R6 with the turn that was told of the reset taken back, the next one is told again",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say zero");
      await alice.asks("/new");
      expect(await alice.asks("hello")).toContain("fresh conversation (the user asked for a new one)");
      await alice.asks("/undo");
      expect(await alice.asks("hello")).toContain("fresh conversation (the user asked for a new one)");
      expect(await alice.asks("hello")).not.toContain("fresh conversation");
    }),
  );

  test(
    "R6 is refused while a turn runs or waits here, and says what to do",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.says("slow 3");
      expect(await alice.asks("/undo")).toBe("A turn runs or waits here. Stop it first with /stop, then /undo.");
      await alice.asks("/stop");
      await stage.quiets();
      expect(await alice.asks("/undo")).toContain("Taken back");
    }),
  );

  test(
    "R6 the warm agent is put away, and after a restart what was undone stays undone",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      await alice.asks("say two");
      await alice.asks("/undo");
      expect(stage.gateway.pool.list()).toEqual([]);
      await stage.restarts();
      expect(await alice.asks("history")).toBe("Earlier messages: 2\nyou: say one\nme: one");
    }),
  );
});

describe("/title", () => {
  test(
    "R6 a session is called after its first words, in one line of at most 60, until it is named",
    story(async (stage) => {
      const alice = stage.alice();
      expect(await alice.asks("/title")).toContain("no title yet");
      expect(await alice.asks("/title too early")).toContain("Nothing was said here yet");
      await alice.asks(`say first\nline ${"long ".repeat(30)}`);
      await alice.asks("say other");
      const automatic = await alice.asks("/title");
      expect(automatic).toMatch(/^say first line (long )+long…$/);
      expect([...automatic].length).toBeLessThanOrEqual(60);
      expect(await alice.asks("/title  Apples \n and pears")).toContain("now called: Apples and pears");
      await alice.asks("say more");
      expect(await alice.asks("/status")).toContain("Title: Apples and pears");
      await alice.sends("come", stage.alice("web"));
      expect(await stage.alice("web").asks("/title Of the page")).toContain(await alice.session());
      expect(await alice.asks("/title")).toBe("Of the page");
    }),
  );
});

describe("/autoreset", () => {
  test(
    "R1 the chat's own policy goes before the configured one, says where it comes from and when it acts",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      const first = await alice.session();
      expect(await alice.asks("/autoreset")).toMatch(
        /^Reset policy here: idle: ends after 1 h without a human message\.\nIt comes from reset\.default \(file\)\.\nIf nobody writes, it acts with the first message after 2023-11-1/,
      );
      expect(await alice.asks("/autoreset off")).toContain("Set here: none");
      await stage.passes(5 * HOUR);
      await alice.asks("say two");
      expect(await alice.session()).toBe(first);
      expect(await alice.asks("/autoreset idle 2h")).toContain("Set here: idle: ends after 2 h");
      expect(await alice.asks("/autoreset status")).toContain("It comes from /autoreset in this chat.");
      await stage.passes(3 * HOUR);
      expect(await alice.asks("/autoreset status")).toContain("It acts with the next message.");
      await alice.asks("say three");
      expect(await alice.session()).not.toBe(first);
      expect(await alice.asks("/autoreset default")).toContain(
        "The configured policy holds here again: idle: ends after 1 h",
      );
      expect(await alice.asks("/autoreset daily 04:00 Asia/Shanghai")).toContain("daily at 4:00 Asia/Shanghai");
      expect(await stage.gateway.reader.conversation(alice.key)).toMatchObject({
        resetOverride: { mode: "daily", atHour: 4, timezone: "Asia/Shanghai" },
      });
    }, IDLE),
  );

  test(
    "E3 what is not understood is said with what is allowed, and changes nothing",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("say one");
      expect(await alice.asks("/autoreset idle soon")).toContain("from 1m to 365d");
      expect(await alice.asks("/autoreset idle 0m")).toContain("from 1m to 365d");
      expect(await alice.asks("/autoreset daily 04:30")).toContain("full hours from 00:00 to 23:00");
      expect(await alice.asks("/autoreset daily 4 Mars/Olympus")).toContain("Europe/Berlin");
      expect(await alice.asks("/autoreset weekly")).toContain("It takes: /autoreset status");
      expect(await stage.gateway.reader.conversation(alice.key)).toMatchObject({ resetOverride: null });
    }),
  );

  test(
    "R1 it is the person's own, or the owner's",
    story(async (stage) => {
      await stage.bob().asks("say one");
      await stage.alice().speaksInto(stage.bob(), "/autoreset idle 3h");
      expect(await stage.gateway.reader.conversation(stage.bob().key)).toMatchObject({
        resetOverride: { mode: "idle", idleMinutes: 180 },
      });
      expect(await stage.bob().asks("/autoreset off")).toContain("Set here: none");
    }),
  );
});

describe("/sethome and jobs", () => {
  test(
    "C1 the owner makes a chat the home of its platform; nobody else does",
    story(async (stage) => {
      await stage.alice().asks("say one");
      expect(await stage.bob().asks("/sethome")).toBe("Only the owner sets a home.");
      expect(await stage.alice().asks("/sethome")).toContain("home on console");
      await stage.alice("web").asks("/sethome");
      await stage.alice("console", { name: "second" }).asks("/sethome");
      expect(await stage.gateway.reader.homes("main")).toMatchObject([
        { platform: "console", conversationKey: stage.alice("console", { name: "second" }).key },
        { platform: "web", conversationKey: stage.alice("web").key },
      ]);
    }),
  );

  test(
    "R2 G-RST-07 a young background job holds a reset, an old one does not, and the user is told it still runs",
    story(async (stage) => {
      const alice = stage.alice();
      expect(await alice.asks("job preview")).toBe("The background job preview is open.");
      const first = await alice.session();
      await stage.passes(3 * HOUR);
      await alice.asks("say still here");
      expect(await alice.session()).toBe(first);
      expect(await alice.asks("/status")).toContain("Background job: preview, for 3 h");
      await stage.passes(22 * HOUR);
      await alice.asks("say later");
      expect(await alice.session()).not.toBe(first);
      expect(alice.shows().at(-2)).toContain("A background job of it is still running: preview.");
    }, IDLE),
  );

  test(
    "R2 a job that was closed holds nothing; over the gateway its owner opens and closes it, nobody else",
    story(async (stage) => {
      const alice = stage.alice();
      await alice.asks("job build");
      await alice.asks("job build done");
      const first = await alice.session();
      await stage.passes(2 * HOUR);
      await alice.asks("say one");
      const second = await alice.session();
      expect(second).not.toBe(first);
      const job = { sessionId: second, id: "j", title: "render" };
      await expect(stage.gateway.bridge.job({ person: stage.bob().person, ...job })).rejects.toMatchObject({
        code: "forbidden",
      });
      expect(await stage.gateway.bridge.job({ person: alice.person, ...job })).toEqual({ had: false });
      expect(await stage.gateway.bridge.job({ person: alice.person, ...job })).toEqual({ had: true });
      await stage.passes(2 * HOUR);
      await alice.asks("say two");
      expect(await alice.session()).toBe(second);
      expect(await stage.gateway.bridge.job({ person: alice.person, ...job, title: null })).toEqual({ had: true });
      await expect(stage.gateway.bridge.job({ person: alice.person, ...job, sessionId: first })).rejects.toMatchObject({
        code: "session_ended",
      });
    }, IDLE),
  );
});

describe("what was reported of others", () => {
  for (const kind of ["idle", "daily", "suspended", "new"] as const) {
    test(
      `R4 G-RST-01 after a reset (${kind}) the next turns run on a fresh agent in the new session, and the old one gets no row`,
      story(
        async (stage) => {
          const alice = stage.alice();
          await alice.asks("call me Zed");
          const first = await alice.session();
          if (kind === "suspended") for (let n = 0; n < 3; n++) await alice.asks("gone");
          if (kind === "new") await alice.asks("/new");
          if (kind === "idle") await stage.passes(90 * MINUTE);
          if (kind === "daily") await stage.passes(23 * HOUR);
          const before = await alice.transcript(first);
          expect(await alice.asks("whoami")).toContain(`Session: ${await alice.session()} (created)`);
          const second = await alice.session();
          expect(await alice.asks("history")).not.toContain("Zed");
          expect(await alice.asks("history")).toContain("you: whoami");
          expect([await alice.session(), await alice.transcript(first)]).toEqual([second, before]);
          expect(await stage.gateway.reader.session(second)).toMatchObject({ openedBy: kind, parentId: first });
        },
        {
          reset: {
            default:
              kind === "daily"
                ? { mode: "daily", at_hour: 4, timezone: "Asia/Shanghai" }
                : { mode: "idle", idle_minutes: 60 },
          },
        },
      ),
    );
  }

  test(
    "R9 G-RST-02 a session that ended by the daily reset is not found again by a restart, and its reason stands",
    story(
      async (stage) => {
        const alice = stage.alice();
        await alice.asks("say old");
        const first = await alice.session();
        await stage.passes(24 * HOUR);
        const fresh = await alice.says("history");
        expect(await alice.hears(fresh)).toBe("Earlier messages: 0");
        stage.process.kill();
        await stage.comesBack();
        await stage.restarts();
        expect(await alice.asks("history")).not.toContain("old");
        expect(stage.sql("SELECT opened_by, end_reason FROM span WHERE session_id = ?", first)).toEqual([
          { opened_by: "message", end_reason: "daily" },
        ]);
      },
      { reset: { default: { mode: "daily", at_hour: 4, timezone: "UTC" } } },
    ),
  );
});

describe("at the edges", () => {
  test("R2 the log says what holds a reset that is due", async () => {
    const folder = temporaryFolder();
    const clock = createManualClock(1_700_000_000_000);
    const lines: string[] = [];
    const quiet = () => undefined;
    const gateway = new Gateway({
      config: { ...loadConfig({ flags: { home: folder.path }, env: {} }), reset: idleForAnHour() },
      store: openSqliteStore({ path: `${folder.path}/state.db`, clock }),
      clock,
      log: { info: (_, message) => lines.push(message), warn: quiet, error: quiet },
    });
    await gateway.start();
    const person = { id: "owner", role: "owner" } as const;
    const door = { platform: "console", name: "main" } as const;
    const says = async (text: string) => {
      const said = await gateway.doors.say({ person, agent: "main", door, text });
      await gateway.turns.answerOf(said.turnId!);
    };
    await says("job preview");
    clock.set(clock.now() + 2 * HOUR);
    await says("say one");
    await gateway.stop();
    folder.remove();
    expect(lines.filter((line) => line.includes("put off"))).toEqual(["a reset was put off (idle), held by a job"]);
  });

  test(
    "R2 A4 over HTTP a job is opened, listed and closed by the session's own person; for others there is no such session",
    httpStory(
      async (stage) => {
        const me = { "X-Tertulia-Conversation": "me" };
        const body = { model: "main", messages: [{ role: "user", content: "say one" }] };
        const { headers } = await stage.call({ method: "POST", path: "/v1/chat/completions", headers: me, body });
        const path = `/api/sessions/${headers["x-tertulia-session"]}/jobs`;
        const job = { id: "a/b", title: "preview server" };
        const opened = await stage.call({ method: "POST", path, body: job });
        expect([opened.status, opened.json()]).toMatchObject([200, { job }]);
        expect((await stage.call({ path })).json()).toMatchObject({ jobs: [job] });
        const token = "a-token-of-ann-1234";
        expect(await stage.call({ method: "POST", path, body: job, token })).toMatchObject({ status: 404 });
        expect(await stage.call({ method: "POST", path, body: { id: "" } })).toMatchObject({ status: 400 });
        const close = { method: "POST", path: `${path}/a%2Fb/close`, body: {} };
        expect((await stage.call(close)).json()).toEqual({ closed: true });
        expect((await stage.call(close)).json()).toEqual({ closed: false });
        expect((await stage.call({ path })).json()).toEqual({ jobs: [] });
      },
      { people: { ann: { tokens: ["a-token-of-ann-1234"] } } },
    ),
  );

  test.each<[string, Partial<ResetPolicy>, string, string | null]>([
    ["never", { mode: "none" }, "2026-05-10T10:00Z", null],
    ["after the limit", { mode: "idle", idleMinutes: 90 }, "2026-05-10T10:00Z", "2026-05-10T11:30Z"],
    [
      "at the next hour of the zone",
      { mode: "daily", timezone: "Asia/Shanghai" },
      "2026-05-10T19:59Z",
      "2026-05-10T20:00Z",
    ],
    ["on the day after", { mode: "daily", timezone: "Asia/Shanghai" }, "2026-05-10T20:00Z", "2026-05-11T20:00Z"],
    [
      "in the gap",
      { mode: "daily", atHour: 2, timezone: "America/New_York" },
      "2026-03-07T07:30Z",
      "2026-03-08T07:00Z",
    ],
    [
      "whichever is first",
      { mode: "both", idleMinutes: 600, timezone: "UTC" },
      "2026-05-10T03:00Z",
      "2026-05-10T04:00Z",
    ],
  ])("R3 the next reset comes %s", (_, policy, lastHumanAt, expected) => {
    const at = nextResetAt(
      { mode: "none", idleMinutes: 60, atHour: 4, timezone: "UTC", notify: true, ...policy },
      Date.parse(lastHumanAt),
    );
    expect(at).toBe(expected === null ? null : Date.parse(expected));
  });

  test("R6 a title is one line of at most 60 code points, cut between words where there are any", () => {
    expect(titleOf(" a\n\tb\u0000 c ")).toBe("a b c");
    expect(titleOf("\n ")).toBe("");
    expect([...titleOf("字".repeat(80))]).toHaveLength(60);
    expect(titleOf("word ".repeat(30))).toMatch(/^(word )+word…$/);
    expect([...titleOf("👩‍🚀".repeat(80))].length).toBeLessThanOrEqual(60);
    expect(titleOf("evil \u202egnp")).not.toContain("\u202e");
  });
});

function idleForAnHour() {
  const policy = { mode: "idle", idleMinutes: 60, atHour: 4, timezone: "UTC", notify: true } as const;
  return { default: policy, platforms: {}, types: {}, chats: {}, jobHoldMs: 24 * HOUR };
}
