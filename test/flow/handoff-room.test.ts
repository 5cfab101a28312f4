import { describe, expect, test } from "vitest";
import { sessionToken } from "../../src/conversation/session-token.ts";
import { roomOf } from "../../src/intake/local-doors.ts";
import { type Story, type StoryOptions, story } from "../support/harness.ts";
import { httpStory } from "../support/http-stage.ts";
import { ALICE_AND_BOB, agentsInRoom, CORE, RoomServer } from "../support/room.ts";

const MINUTE = 60_000;
const OWNER = { id: "owner", role: "owner" } as const;
const ONLY_ALICE = { owner: ALICE_AND_BOB.owner };
const CORE_ROOM = { core: { platform: "xmpp", chat: CORE } };
const TWO = {
  agents: agentsInRoom(["mohe", "zhiwei"], { mohe: { home_room: "core" }, zhiwei: { home_room: "core" } }),
  people: ONLY_ALICE,
  rooms: CORE_ROOM,
};
const SHARED = { ...TWO, people: ALICE_AND_BOB, rooms: { core: { ...CORE_ROOM.core, share: true } } };

function inRoom(
  tell: (stage: Story, room: RoomServer) => Promise<void>,
  config: StoryOptions["config"] = TWO,
): () => Promise<void> {
  return async () => {
    const room = new RoomServer();
    await story((stage) => tell(stage, room), config, { createChannel: room.createChannel })();
  };
}

/** `tertulia send core "…" --agent mohe --session <of her terminal>` */
async function sends(stage: Story, text: string, { agent = "mohe", room = "core", share = false } = {}) {
  const sessionId = await stage.alice("console", { agent }).session();
  return stage.gateway.bridge.send({ person: OWNER, room, agent, text, sessionId, share });
}

function boundTo(stage: Story): Record<string, string | number | null>[] {
  return stage.sql(
    "SELECT c.agent, b.session_id, b.kind FROM binding b JOIN conversation c ON c.id = b.conversation_id ORDER BY 1",
  );
}

function sessionOfLastTurn(stage: Story, agent: string): string {
  const rows = stage.sql<{ session_id: string }>(
    "SELECT t.session_id FROM turn t JOIN session s ON s.id = t.session_id WHERE s.agent = ? ORDER BY t.id DESC LIMIT 1",
    agent,
  );
  return rows[0]!.session_id;
}

describe("the scene that Tertulia comes from", () => {
  test(
    "H1 H2 H3 H4 H6 H11 an agent speaks from the terminal in the room, is asked there, and falls back after an hour",
    inRoom(async (stage, room) => {
      const alice = room.person("alice");
      const [mohe, zhiwei] = [stage.alice("console", { agent: "mohe" }), stage.alice("console", { agent: "zhiwei" })];
      await mohe.asks("say the plan is to ship on Friday");
      await zhiwei.asks("say I keep the accounts");
      // Each agent from its own session: no key is shared.
      await sends(stage, "@zhiwei say I can help on Friday", { agent: "mohe" });
      await sends(stage, "I am here as well", { agent: "zhiwei" });
      await stage.quiets();
      expect(room.shows()).toEqual([
        "mohe: @zhiwei say I can help on Friday",
        "zhiwei: I am here as well",
        "zhiwei: I can help on Friday",
      ]);
      const [terminalOfMohe, terminalOfZhiwei] = [await mohe.session(), await zhiwei.session()];
      expect(boundTo(stage)).toEqual([
        { agent: "mohe", session_id: terminalOfMohe, kind: "live" },
        { agent: "zhiwei", session_id: terminalOfZhiwei, kind: "live" },
      ]);
      // Asked in the room, mohe knows what was said at the terminal, and what it said itself.
      await alice.says("@mohe history");
      await stage.quiets();
      expect(sessionOfLastTurn(stage, "mohe")).toBe(terminalOfMohe);
      const answer = room.lines.findLast(({ nick }) => nick === "mohe")!.text;
      expect(answer).toContain("me: the plan is to ship on Friday");
      expect(answer).toContain("me: [YOU] (said elsewhere, xmpp) @zhiwei say I can help on Friday");
      expect(stage.lastPrompt("mohe")).toContain("| [zhiwei] I can help on Friday");
      expect((await mohe.transcript()).at(-2)).toBe("user: @mohe history");
      // Another send of zhiwei's renews its own binding alone.
      await stage.passes(40 * MINUTE);
      await sends(stage, "still here", { agent: "zhiwei" });
      await stage.passes(25 * MINUTE);
      await alice.says("@mohe say on my own");
      await alice.says("@zhiwei say still from the terminal");
      await stage.quiets();
      expect(sessionOfLastTurn(stage, "mohe")).not.toBe(terminalOfMohe);
      expect(sessionOfLastTurn(stage, "zhiwei")).toBe(terminalOfZhiwei);
      expect(boundTo(stage)).toEqual([{ agent: "zhiwei", session_id: terminalOfZhiwei, kind: "live" }]);
      // Back in its own session, it is told what was said meanwhile, its own words included.
      expect(stage.lastPrompt("mohe")).toContain("| [YOU] @zhiwei say I can help on Friday");
      expect(stage.lastPrompt("mohe")).toContain("| [zhiwei] I can help on Friday");
    }),
  );

  test(
    "H1 T3 the words stand once in the place, though every account of the room has heard them",
    inRoom(async (stage) => {
      await stage.alice("console", { agent: "mohe" }).asks("say hi");
      await sends(stage, "good evening");
      await stage.quiets();
      expect(
        stage.sql("SELECT author_kind, author_id, count(*) AS n FROM message WHERE body = 'good evening'"),
      ).toEqual([{ author_kind: "agent", author_id: "mohe", n: 1 }]);
      expect(stage.sql("SELECT state FROM delivery WHERE kind = 'send'")).toEqual([{ state: "delivered" }]);
    }),
  );

  test(
    "H3 G-HND-06 cleared by hand it falls back at once, and the other agent's handoff is not touched",
    inRoom(async (stage, room) => {
      for (const agent of ["mohe", "zhiwei"]) {
        await stage.alice("console", { agent }).asks("say hi");
        await sends(stage, `${agent} is here`, { agent });
      }
      await stage.gateway.bridge.bind({ person: OWNER, room: "core", agent: "mohe", change: { kind: "clear" } });
      expect(boundTo(stage).map(({ agent }) => agent)).toEqual(["zhiwei"]);
      await room.person("alice").says("@mohe say alone");
      await stage.quiets();
      expect(sessionOfLastTurn(stage, "mohe")).not.toBe(await stage.alice("console", { agent: "mohe" }).session());
    }),
  );

  test(
    "H10 G-HND-03 a binding outlives a restart, and a session that has ended ends it, said once at both doors",
    inRoom(async (stage, room) => {
      const terminal = stage.alice("console", { agent: "mohe" });
      await terminal.asks("say hi");
      await sends(stage, "hello");
      const session = await terminal.session();
      await stage.restarts();
      await room.person("alice").says("@mohe say bound");
      await stage.quiets();
      expect(sessionOfLastTurn(stage, "mohe")).toBe(session);
      await terminal.asks("/new");
      await room.person("alice").says("@mohe say free");
      await stage.quiets();
      expect(sessionOfLastTurn(stage, "mohe")).not.toBe(session);
      expect(room.shows().filter((line) => line.includes("has ended"))).toHaveLength(1);
    }),
  );
});

describe("who reads along", () => {
  test(
    "H7 agents of ours and the owner are nobody else; with another person there it has to be said",
    inRoom(
      async (stage, room) => {
        await stage.alice("console", { agent: "mohe" }).asks("say a secret");
        await room.person("alice").says("only we are here");
        await sends(stage, "hello");
        expect(boundTo(stage)).toHaveLength(1);
        // Somebody else comes: from the next message on the room speaks for itself.
        await room.person("bob").says("@mohe history");
        await stage.quiets();
        expect(boundTo(stage)).toEqual([]);
        expect(room.lines.at(-1)!.text).not.toContain("a secret");
        expect(room.shows().filter((line) => line.includes("others read along at that door"))).toHaveLength(1);
        await expect(sends(stage, "hello again")).rejects.toMatchObject({ code: "not_shared" });
        await sends(stage, "hello again, all of you", { share: true });
        await room.person("bob").says("@mohe history");
        await stage.quiets();
        expect(room.lines.at(-1)!.text).toContain("a secret");
      },
      { ...TWO, people: ALICE_AND_BOB },
    ),
  );

  test(
    "H7 D9 no command tells those who read along of a session that is theirs no more",
    inRoom(
      async (stage, room) => {
        const terminal = stage.alice("console", { agent: "mohe" });
        await terminal.asks("/title My bank in Zurich");
        await terminal.asks("say hi");
        await room.person("alice").says("only we are here");
        await sends(stage, "hello");
        // Her first words there: nobody has looked who reads along.
        await room.person("carol").says("@mohe /status");
        await room.person("carol").says("@mohe /title");
        await room.person("carol").says("@mohe /handoff");
        await stage.quiets();
        const said = room.shows().join("\n");
        expect(said).toContain("Conversation: agent:mohe:xmpp");
        expect(said).toContain("This chat speaks in its own session.");
        expect(said).not.toMatch(/Zurich|terminal|console/);
        expect(said).not.toContain(await terminal.session());
      },
      { ...TWO, access: { xmpp: { rooms: [CORE] } } },
    ),
  );

  test(
    "H7 A1 a stranger who is not let in reads along all the same",
    inRoom(async (stage, room) => {
      await stage.alice("console", { agent: "mohe" }).asks("say a secret");
      await sends(stage, "hello");
      await room.person("mallory").says("@mohe history");
      await stage.quiets();
      expect(room.shows()).toEqual(["mohe: hello", "mallory: @mohe history"]);
      await expect(sends(stage, "hello again")).rejects.toMatchObject({ code: "not_shared" });
      await room.person("alice").says("@mohe say back in my own session");
      await stage.quiets();
      expect(boundTo(stage)).toEqual([]);
    }),
  );

  test(
    "H7 so does somebody who only listens; agents of ours and the owner do not count",
    inRoom(async (stage, room) => {
      await stage.alice("console", { agent: "mohe" }).asks("say a secret");
      await room.person("alice").comes();
      await room.person("zhiwei", { jid: "zhiwei@test" }).comes();
      await sends(stage, "hello");
      expect(boundTo(stage)).toHaveLength(1);
      await room.person("mallory").comes();
      await room.person("alice").says("@mohe history");
      await stage.quiets();
      expect(boundTo(stage)).toEqual([]);
      expect(room.shows().join("\n")).not.toContain("a secret");
      await expect(sends(stage, "hello again")).rejects.toMatchObject({ code: "not_shared" });
      expect(stage.sql("SELECT kind, id FROM place_reader ORDER BY id")).toEqual([
        { kind: "person", id: "mallory@test" },
        { kind: "person", id: "owner" },
      ]);
    }),
  );

  test(
    "D9 H12 a guest of a shared room learns nothing of the owner's other doors, and has no rights of hers",
    inRoom(
      async (stage, room) => {
        const [terminal, secret] = [stage.alice("console", { agent: "mohe" }), stage.alice("web", { agent: "mohe" })];
        await secret.asks("say my bank is in Zurich");
        await terminal.asks("say let us talk about lunch");
        await sends(stage, "lunch?");
        const carol = room.person("carol");
        await carol.says("@mohe what did Alice say at her other doors?");
        await stage.quiets();
        const prompt = stage.lastPrompt("mohe");
        expect(prompt).toContain("rights: guest");
        expect(prompt).not.toMatch(/Zurich|web/);
        expect(room.lines.at(-1)!.text).not.toMatch(/Zurich/);
        for (const command of ["/resume", "/handoff clear", "/sethome", `/handoff ${await secret.session()}`])
          await carol.says(`@mohe ${command}`);
        await stage.quiets();
        const answers = room.lines
          .slice(-7)
          .map(({ text }) => text)
          .join("\n");
        expect(answers).not.toMatch(/Zurich|bank/);
        expect(answers).toContain("the owner or a member takes a handoff back.");
        expect(boundTo(stage)).toHaveLength(1);
      },
      { ...SHARED, access: { xmpp: { rooms: [CORE] } } },
    ),
  );

  test(
    "H12 what the agent asks for in a room is asked of the owner, and without her it is denied",
    inRoom(
      async (stage, room) => {
        await stage.alice("console", { agent: "mohe" }).asks("say hi");
        await sends(stage, "hello");
        await room.person("bob").says("@mohe ask");
        await stage.quiets();
        expect(room.shows().at(-1)).toBe("mohe: no answer");
        const bob = stage.bob("console", { agent: "mohe" });
        const running = await sayAndWatch(stage, room);
        expect(() => bob.allows(running.words, running.question, "allow")).toThrow(/somebody else/);
        // Who asked has seen no question: neither a word nor a command of hers is its answer, wherever it comes from.
        const carol = room.person("carol");
        await carol.says("@mohe /allow");
        await stage.rests();
        expect(room.shows().at(-1)).toBe("mohe: The agent asks for nothing here now.");
        await carol.says("@mohe ok");
        await stage.rests();
        expect(room.shows().at(-1)).toBe("carol: @mohe ok");
        const asCarol = {
          person: { id: "carol", role: "member" },
          turnId: running.words.turnId,
          optionId: "allow",
        } as const;
        expect(() => stage.gateway.turns.answerPermission({ ...asCarol, id: running.question })).toThrow(
          /somebody else/,
        );
        stage.alice("console", { agent: "mohe" }).allows(running.words, running.question, "allow");
        await stage.quiets();
        expect(room.shows()).toContain("mohe: You answered: allow");
        running.stop();
      },
      { ...SHARED, people: { ...ALICE_AND_BOB, carol: { accounts: [{ platform: "xmpp", id: "carol@test" }] } } },
    ),
  );

  test(
    "H12 what the agent asks the owner for in a room she answers there, by a word to it; what its colleagues say is no answer",
    inRoom(async (stage, room) => {
      const alice = room.person("alice");
      await stage.alice("console", { agent: "zhiwei" }).asks("say hi");
      await alice.says("@mohe ask");
      await stage.rests();
      expect(room.shows().at(-1)).toContain("mohe: The agent asks leave");
      await alice.says("@mohe yes");
      await stage.quiets();
      expect(room.shows()).toContain("mohe: You answered: allow");
      await alice.says("@mohe ask");
      await stage.rests();
      await sends(stage, "@mohe yes", { agent: "zhiwei" });
      await stage.rests();
      expect(room.shows().at(-1)).toBe("zhiwei: @mohe yes");
      await alice.says("@mohe, 2");
      await stage.quiets();
      expect(room.shows()).toContain("mohe: You answered: reject");
    }),
  );

  test(
    "H9 B7 /runtime in a room that speaks in a session of the terminal's acts on the room: it is not bound any more",
    inRoom(
      async (stage, room) => {
        const terminal = stage.alice("console", { agent: "mohe" });
        await terminal.asks("say hi");
        await sends(stage, "hello");
        expect(boundTo(stage)).toHaveLength(1);
        const alice = room.person("alice");
        await alice.says("@mohe /runtime");
        await stage.quiets();
        expect(boundTo(stage)).toHaveLength(1);
        await alice.says("@mohe /runtime other");
        await stage.quiets();
        expect(room.shows().at(-1)).toContain("other runs this conversation");
        expect(boundTo(stage)).toEqual([]);
        expect(stage.sql("SELECT key FROM conversation WHERE runtime IS NOT NULL")).toEqual([
          { key: expect.stringContaining("agent:mohe:xmpp") },
        ]);
        await alice.says("@mohe say here");
        await stage.quiets();
        expect(sessionOfLastTurn(stage, "mohe")).not.toBe(await terminal.session());
      },
      { ...TWO, runtimes: { other: { kind: "demo" } } },
    ),
  );

  /** Carol asks in the room while somebody watches who could answer. */
  async function sayAndWatch(stage: Story, room: RoomServer) {
    await room.person("alice").says("@mohe slow 3");
    await stage.passes(10);
    await room.person("carol").says("@mohe ask");
    await stage.rests();
    const [turn] = stage.sql<{ id: number }>("SELECT id FROM turn WHERE state = 'queued'");
    const words = { messageId: 0, turnId: turn!.id, sessionId: null, reply: null };
    const { seen, stop } = stage.alice("console", { agent: "mohe" }).watches(words);
    await stage.passes(2_000);
    const asked = seen.find((event) => event.type === "permission") as { id: string };
    return { words, question: asked.id, stop };
  }
});

describe("/handoff", () => {
  test(
    "H4 H8 the owner hands the room to a session of hers, sees it, and takes it back",
    inRoom(async (stage, room) => {
      const alice = room.person("alice");
      const terminal = stage.alice("console", { agent: "mohe" });
      await terminal.asks("say I know it");
      await terminal.asks("/title the plan");
      await alice.says("@mohe /handoff");
      await alice.says("@mohe /handoff the plan");
      await alice.says("@mohe history");
      await stage.quiets();
      expect(room.shows().filter((line) => line.startsWith("mohe"))).toEqual([
        "mohe: This chat speaks in its own session.",
        expect.stringContaining(`This chat speaks in session ${await terminal.session()} until`),
        expect.stringContaining("me: I know it"),
      ]);
      await alice.says("@mohe /handoff pin the plan");
      await stage.passes(5 * 60 * MINUTE);
      await alice.says("@mohe /handoff");
      await alice.says("@mohe /handoff clear");
      await alice.says("@mohe /handoff clear");
      await stage.quiets();
      expect(
        room
          .shows()
          .slice(-5)
          .filter((line) => line.startsWith("mohe")),
      ).toEqual([
        expect.stringContaining("until /handoff clear"),
        "mohe: This chat speaks in its own session again.",
        "mohe: This chat was not bound: nothing was changed.",
      ]);
      expect(boundTo(stage)).toEqual([]);
    }),
  );
});

describe("a session of Hermes", () => {
  test(
    "H13 H4 has a home here that is at no door, is the owner's alone, and is opened under its own id",
    inRoom(async (stage, room) => {
      const hermes = {
        runtime: "hermes",
        id: "20260619_190821_7c0afe",
        name: stage.gateway.pool.list()[0]?.runtime ?? "demo",
      };
      await stage.alice("console", { agent: "mohe" }).asks("say hi");
      const send = (role: "owner" | "member") =>
        stage.process.store.admit(
          {
            account: "bridge",
            platform: "console",
            agent: "mohe",
            now: stage.clock.now(),
            events: [
              {
                kind: "send",
                freshId: `h-${role}`,
                by: { author: { kind: "person", id: "owner" }, person: { id: "owner", role } },
                text: "from Hermes",
                into: roomOf(stage.config, { room: "core", person: OWNER, agent: "mohe" }).ref,
                sessionId: null,
                foreign: hermes,
                ttlMs: 60 * MINUTE,
                rules: roomOf(stage.config, { room: "core", person: OWNER, agent: "mohe" }).rules,
              },
            ],
          },
          stage.sql<{ value: string }>("SELECT value FROM meta WHERE key = 'boot'").map(({ value }) => ({
            holder: "test",
            epoch: Number(value),
          }))[0]!,
        );
      expect((await send("member")).outcomes[0]).toMatchObject({ kind: "rejected", code: "forbidden" });
      expect((await send("owner")).outcomes[0]).toMatchObject({ kind: "sent", bound: { sessionId: "h-owner" } });
      expect((await send("owner")).outcomes[0]).toMatchObject({ kind: "sent", bound: { sessionId: "h-owner" } });
      const session = await stage.gateway.reader.session("h-owner");
      expect(session).toMatchObject({ homeKey: `agent:mohe:foreign:hermes:${hermes.id}`, ownerPerson: "owner" });
      expect(stage.sql("SELECT runtime, ref FROM runtime_state WHERE session_id = 'h-owner'")).toEqual([
        { runtime: hermes.name, ref: hermes.id },
      ]);
      await stage.restarts();
      await room.person("alice").says("@mohe say in it");
      await stage.quiets();
      expect(sessionOfLastTurn(stage, "mohe")).toBe("h-owner");
    }),
  );

  test(
    "H13 one of a runtime that the agent does not run on is not known",
    inRoom(async (stage) => {
      const send = { person: OWNER, room: "core", agent: "mohe", text: "x", sessionId: "hermes:1" };
      await expect(stage.gateway.bridge.send(send)).rejects.toMatchObject({ code: "session_unknown" });
    }),
  );
});

describe("both doors at once", () => {
  test(
    "T1 T4 two hundred times the terminal and the room ask in the same instant: each is answered once, one turn at a time",
    inRoom(async (stage, room) => {
      const alice = room.person("alice");
      const terminal = stage.alice("console", { agent: "mohe" });
      await terminal.asks("say hi");
      await sends(stage, "hello");
      const session = await terminal.session();
      for (let n = 0; n < 200; n++) {
        const [words] = await Promise.all([terminal.says(`say t${n}`), alice.says(`@mohe say r${n}`)]);
        await terminal.hears(words);
        if (n % 40 === 39) await sends(stage, "still here");
      }
      await stage.quiets();
      const answers = room
        .shows()
        .filter((line) => /^mohe: r\d/.test(line))
        .flatMap((line) => line.match(/r\d+/g) ?? []);
      expect(answers).toEqual(Array.from({ length: 200 }, (_, n) => `r${n}`));
      expect(terminal.shows().filter((line) => /^t\d/.test(line))).toEqual(
        Array.from({ length: 200 }, (_, n) => `t${n}`),
      );
      expect(stage.sql("SELECT DISTINCT session_id FROM turn")).toEqual([{ session_id: session }]);
      const overlapping = stage.sql(
        "SELECT a.id FROM turn a JOIN turn b ON a.session_id = b.session_id AND a.id < b.id WHERE b.begun_at < a.settled_at",
      );
      expect(overlapping).toEqual([]);
    }),
    60_000,
  );
});

describe("a session's own token", () => {
  const config = {
    agents: { mohe: { runtime: { kind: "demo" } } },
    rooms: { open: { conversation: "agent:mohe:web:dm:owner%2Fopen", share: true } },
  };

  test(
    "A6 H7 speaks for its session alone, and binds only where sharing is configured",
    httpStory(async (stage) => {
      const home = `/api/conversations/${encodeURIComponent("agent:mohe:console:dm:owner%2Fmain")}`;
      await stage.call({ path: `${home}/messages`, body: { text: "say hi" } });
      const { conversation } = (await stage.call({ path: home })).json<{ conversation: { currentSession: string } }>();
      const session = conversation.currentSession;
      const token = sessionToken(stage.ownerToken, session);
      const send = async (body: object) => {
        const reply = await stage.call({ path: "/api/send", body: { text: "x", ...body }, token });
        return reply.status < 400 ? "ok" : reply.json().error.code;
      };
      const closed = "agent:mohe:web:dm:owner%2Fclosed";
      expect(await send({ room: closed, session, share: true })).toBe("not_shared");
      expect(await send({ room: closed, session: null })).toBe("ok");
      expect(await send({ room: "open", session, share: true })).toBe("ok");
      // By its own flag it would hold when the configuration shares no more.
      expect(await stage.gateway.reader.bindings({})).toMatchObject([{ sessionId: session, shared: false }]);
      expect(await send({ room: "open", session: "another" })).toBe("forbidden");
      for (const path of ["/api/sessions", "/api/status", `/api/sessions/${session}`])
        expect((await stage.call({ path, token })).status).toBe(403);
    }, config),
  );
});
